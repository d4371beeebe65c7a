"""OpenAI itself: fields it does not know are refused."""

from recollect.infra.backends.dialect import Outgoing
from recollect.infra.backends.engines.openai_compatible import BatchingServer
from recollect.memory.model import JsonObject

_LONGEST_KEY = 64


class OpenAi(BatchingServer):
    """Routes the requests of one thread to where its prefix is cached."""

    max_tokens_field = "max_completion_tokens"

    def on_top(self, outgoing: Outgoing) -> JsonObject:
        session = outgoing.call.session
        return {} if session is None else {"prompt_cache_key": session[:_LONGEST_KEY]}
