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
    live.when_stopped(receiving.cancel)
    saved = 0
    try:
        while not await _ended_within(receiving, _seconds_to_look(live, outcome, patience)):
            if outcome.elapsed_ms() >= patience.answer_seconds * 1000:
                outcome.error = ModelTooSlow(f"the answer took longer than {patience.answer_seconds:g} s")
                break
            if live.seconds_alone() >= patience.orphan_seconds:
                outcome.why = "everybody who listened went away"
                break
            saved = await _saved(store, live, saved)
        else:
            _judge(receiving, live, outcome)
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    if outcome.why or outcome.error:
        outcome.status = "partial" if _has_begun(live) else "failed"
    elif not _has_begun(live):
        outcome.remark = "the model ended its answer without a word"
    outcome.total_ms = outcome.elapsed_ms()
    return outcome


def _seconds_to_look(live: LiveTurn, outcome: Outcome, patience: Patience) -> float:
    """Until something is to be done about an answer that is still on its way."""
    left = patience.answer_seconds - outcome.elapsed_ms() / 1000
    if not live.listeners:
        left = min(left, patience.orphan_seconds - live.seconds_alone())
    return max(0.0, min(left, patience.save_seconds))


async def _ended_within(receiving: "asyncio.Task[None]", seconds: float) -> bool:
    await asyncio.wait((receiving,), timeout=seconds)
    return receiving.done()


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


def _judge(receiving: "asyncio.Task[None]", live: LiveTurn, outcome: Outcome) -> None:
    """Whatever went wrong, what was sent and what had come are kept."""
    if receiving.cancelled():
        outcome.why = live.stop_reason
        return
    error = receiving.exception()
    if isinstance(error, RecollectError):
        outcome.error = error
    elif error is not None:
        _log.error("an answer could not be received: %s", type(error).__name__, exc_info=error)
        outcome.error = RecollectError(f"something went wrong inside Recollect: {type(error).__name__}")


async def _saved(store: ChatStore, live: LiveTurn, before: int) -> int:
    """How many pieces are in the journal. A disk that is full for a while costs what was not saved meanwhile."""
    count = len(live.deltas)
    if count == before:
        return before
    thread = live.accepted.thread
    try:
        for answer, choice in zip(live.accepted.answers, live.in_stored_order(), strict=True):
            await store.save(thread.space, thread.thread_id, answer, choice.answer)
    except (StorageUnavailable, NotFound):
        return before
    return count


def _has_begun(live: LiveTurn) -> bool:
    return any(choice.text or choice.reasoning or choice.calls for choice in live.choices)
