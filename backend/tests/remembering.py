"""Homes in which the stand-in model makes memories, and what came of it."""

import atexit
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from recollect.domain.entries.entry import KnownEntry
from recollect.service.coordination import now_ms
from tests import deployment
from tests.http_client import Home, Json, opened
from tests.processes import StandInModel, end

MAY_8 = 1_778_248_980_000
"""2026-05-08T14:03:00Z"""
MINUTE = 60_000
DAY = 86_400_000

TALK = (
    ("user", "Hi! My name is Ann and I live in Berlin."),
    ("assistant", "Nice to meet you!"),
    ("user", "I work as a nurse. I have a dog called Rex. I'm flying to Lisbon on 3 June 2026."),
    ("assistant", "Have a good trip."),
)
FACTS_OF_TALK = [
    "ann has a dog called Rex.",
    "ann lives in Berlin.",
    "ann works as a nurse.",
    "ann's name is Ann.",
]
"""By the stand-in, sorted."""
PLAN_OF_TALK = "ann is flying to Lisbon on 3 June 2026."


class MortalModel(StandInModel):
    """The stand-in model, which can be brought back to life at the address that it had."""

    def revive(self) -> None:
        self.process.wait(30)
        end(self.process)
        self.process = self._started(int(self.base_url.rpartition(":")[2]))
        self._announced_port()

    def asked(self, what: str = "memory") -> int:
        """How many calls for that there were so far."""
        return sum(call.get("asks") == what for call in self.calls()["log"])

    def bodies(self, what: str = "memory") -> list[Json]:
        """What these calls were, in their order."""
        calls = self.calls()
        pairs = zip(calls["bodies"], calls["log"], strict=True)
        return [body for body, call in pairs if call["asks"] == what]


class SkippingClock:
    """The time, in milliseconds, with the pauses that a test skips added to it."""

    def __init__(self) -> None:
        self.skipped = 0

    def __call__(self) -> int:
        return now_ms() + self.skipped

    def skip(self, milliseconds: int) -> None:
        self.skipped += max(0, milliseconds)


def said(
    texts: Sequence[tuple[str, str]] = TALK, *, start: int = MAY_8, prefix: str = "m", user: str = "ann"
) -> list[Json]:
    """Messages with ids and times of their own."""
    return [
        {
            "message_id": f"{prefix}{number}",
            "sender_id": user if role == "user" else role,
            "role": role,
            "timestamp": start + number * MINUTE,
            "content": text,
        }
        for number, (role, text) in enumerate(texts)
    ]


@cache
def polite_model() -> StandInModel:
    """One for all tests of this process that want facts and no trouble. It ends with the process."""
    model = StandInModel().__enter__()
    atexit.register(model.__exit__, None, None, None)
    model.control(only="boundaries", answer={"reasoning": "", "boundaries": [], "should_wait": True})
    return model


@asynccontextmanager
async def remembering(
    home: Path, model: StandInModel | None = None, *, alone: bool = False, **settings: Any
) -> AsyncIterator[Home]:
    """A home in this process that asks this model, else the polite one; `alone`, it has none."""
    asked = None if alone else model or polite_model()
    llm: Json = {"discover": False} if asked is None else {"base_url": asked.base_url, "model": "stand-in"}
    memorize = {"pause_seconds": 30, **settings.pop("memorize", {})}
    given = {"llm": llm, "embedding": {"kind": "none"}, "memorize": memorize, **settings}
    async with opened(home, **given) as opened_home:
        yield opened_home


async def tell(home: Home, thread: str, messages: Sequence[Json], **fields: Any) -> None:
    body = {"session_id": thread, "messages": list(messages), **fields}
    (await home.client.post("/api/v1/memory/add", json=body)).raise_for_status()


async def flush(home: Home, thread: str, timeout: float = 60, **fields: Any) -> Json:
    body = {"session_id": thread, "timeout": timeout, **fields}
    answer: Json = (await home.client.post("/api/v1/memory/flush", json=body)).raise_for_status().json()
    return answer


async def remember(home: Home, thread: str, messages: Sequence[Json], **fields: Any) -> Json:
    """Tell, and wait for what is made of it; returns the flush's answer."""
    await tell(home, thread, messages, **fields)
    return await flush(home, thread, **{name: fields[name] for name in ("user_id",) if name in fields})


def states(flushed: Json) -> dict[str, Json]:
    """What each strategy tells of the one memcell that a flush closed."""
    (cell,) = flushed["memcells"]
    return {each["strategy"]: each for each in cell["strategies"]}


async def entries(home: Home, *kinds: str, owner: str | None = None) -> list[KnownEntry]:
    """Oldest first."""
    return (await home.app.entry_store.list_entries("default", owner, kinds=kinds))[::-1]


async def texts(home: Home, *kinds: str) -> list[str]:
    return sorted(entry.entry.text for entry in await entries(home, *kinds))


def vault_files(home: Path, folder: str = "") -> dict[str, bytes]:
    """Every file of the vault, or of a folder of it, by its path, but for what a write that was killed left there."""
    files = deployment.HOMES.vault(home).files(folder)
    return {path: content for path, content in files.items() if not _is_left_over(Path(path).name)}


_is_left_over = re.compile(r".+\.(?:[0-9a-f]{8}-){0,2}[0-9a-f]{8}\.tmp").fullmatch
