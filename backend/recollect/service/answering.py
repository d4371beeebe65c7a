"""One answer: received from the model, saved as it grows, ended by whatever ends it."""

import asyncio
import logging
import time
from contextlib import aclosing
from dataclasses import dataclass, field

from recollect.context.llm import ChatCall, Delta, Finished, Sent
from recollect.errors import ModelTooSlow, NotFound, RecollectError, StorageUnavailable
from recollect.memory.model import JsonObject, Status
from recollect.service.live_turns import LiveTurn
from recollect.service.ports import Backend, ChatStore

SAVE_SECONDS = 1.0
_log = logging.getLogger("recollect.chat")


@dataclass(slots=True)
class Outcome:
    """How an answer ended."""

    status: Status = "complete"
    error: RecollectError | None = None
    why: str | None = None
    """For an answer that broke off: what ended it, in words."""
    remark: str | None = None
    """For an answer that ended as it should: what is odd about it, in words."""
    payload: JsonObject | None = None
    finished: Finished | None = None
    first_token_ms: float | None = None
    total_ms: float = 0.0
    _started: float = field(default_factory=time.perf_counter)

    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 1)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer may take, and how long it goes on when nobody listens any more."""

    answer_seconds: float = 600.0
    orphan_seconds: float = 10.0
    save_seconds: float = SAVE_SECONDS
    store_again_seconds: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    """The pauses between tries to store an answer that the disk did not take."""


async def stream_llm(
    store: ChatStore, backend: Backend, call: ChatCall, live: LiveTurn, patience: Patience
) -> Outcome:
    """Stream an answer into `live` and, every second, into the journal. Never raises for what the model does."""
    outcome = Outcome()
    receiving = asyncio.create_task(_receive(backend, call, live, outcome))
    saving = asyncio.create_task(_save_every(store, live, patience.save_seconds))
    leaving = asyncio.create_task(live.abandoned(patience.orphan_seconds))
    stopping = asyncio.create_task(live.stopped())
    tasks = (receiving, saving, leaving, stopping)
    try:
        await asyncio.wait(
            (receiving, leaving, stopping),
            timeout=patience.answer_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if receiving.done():
            _judge(receiving, outcome)
        elif leaving.done():
            outcome.why = "everybody who listened went away"
        elif stopping.done():
            outcome.why = live.stop_reason
        else:
            outcome.error = ModelTooSlow(f"the answer took longer than {patience.answer_seconds:g} s")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if outcome.why or outcome.error:
        outcome.status = "partial" if _has_begun(live) else "failed"
    elif not _has_begun(live):
        outcome.remark = "the model ended its answer without a word"
    outcome.total_ms = outcome.elapsed_ms()
    return outcome


async def _receive(backend: Backend, call: ChatCall, live: LiveTurn, outcome: Outcome) -> None:
    async with aclosing(backend.stream(call)) as events:
        async for event in events:
            if isinstance(event, Sent):
                outcome.payload = event.payload
            elif isinstance(event, Delta):
                if outcome.first_token_ms is None:
                    outcome.first_token_ms = outcome.elapsed_ms()
                live.add(event)
            else:
                outcome.finished = live.finished = event


def _judge(receiving: "asyncio.Task[None]", outcome: Outcome) -> None:
    """Whatever went wrong, what was sent and what had come are kept."""
    error = receiving.exception()
    if isinstance(error, RecollectError):
        outcome.error = error
    elif error is not None:
        _log.error("an answer could not be received: %s", type(error).__name__, exc_info=error)
        outcome.error = RecollectError(f"something went wrong inside Recollect: {type(error).__name__}")


async def _save_every(store: ChatStore, live: LiveTurn, seconds: float) -> None:
    """A disk that is full for a while costs what was not saved meanwhile, and nothing else."""
    thread = live.accepted.thread
    saved = 0
    while True:
        await asyncio.sleep(seconds)
        if len(live.deltas) == saved:
            continue
        saved = len(live.deltas)
        try:
            for answer, choice in zip(live.accepted.answers, live.in_stored_order(), strict=True):
                await store.save(thread.space, thread.thread_id, answer, choice.answer)
        except (StorageUnavailable, NotFound):
            continue


def _has_begun(live: LiveTurn) -> bool:
    return any(choice.text or choice.reasoning or choice.calls for choice in live.choices)
