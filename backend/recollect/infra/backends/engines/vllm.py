"""vLLM."""

import hashlib

from recollect.infra.backends.dialect import Outgoing
from recollect.infra.backends.engines.openai_compatible import BatchingServer
from recollect.memory.model import JsonObject


class Vllm(BatchingServer):
    """Shares cached prefixes between all who ask, unless they are salted: one salt a space."""

    def on_top(self, outgoing: Outgoing) -> JsonObject:
        return {"cache_salt": salt_of(outgoing.call.space)} if outgoing.local_extras else {}


def salt_of(space: str) -> str:
    """The same for a space for ever, and without its name."""
    return hashlib.sha256(f"recollect cache of {space}".encode()).hexdigest()
