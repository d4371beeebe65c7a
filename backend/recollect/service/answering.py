"""One answer: received from the model, saved as it grows, ended by whatever ends it."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from recollect.context.llm import ChatCall, Delta, Finished, Sent
from recollect.errors import ModelTooSlow, NotFound, RecollectError, Unavailable
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
    store_again_seconds: tuple[float, ...] = (0.5, 1.0)
    """The pauses between tries to store an answer that the disk did not take, while whoever asked waits for its end.

    They have the whole answer already, and it is tried again behind their back for as long as it takes.
    """


async def stream_llm(
    store: ChatStore, backend: Backend, call: ChatCall, live: LiveTurn, patience: Patience
) -> Outcome:
    """Stream an answer into `live` and, every second, into the journal. Never raises for what the model does."""
    outcome = Outcome()
    try:
        await _receive_while_wanted(store, backend, call, live, patience, outcome)
    except RecollectError as error:
        outcome.error = error
    except Exception as error:  # noqa: BLE001 - what was sent and what had come are kept
        _log.exception("an answer could not be received: %s", type(error).__name__)
        outcome.error = RecollectError(f"something went wrong inside Recollect: {type(error).__name__}")
    if outcome.why or outcome.error:
        outcome.status = "partial" if _has_begun(live) else "failed"
    elif not _has_begun(live):
        outcome.remark = "the model ended its answer without a word"
    outcome.total_ms = outcome.elapsed_ms()
    return outcome


async def _receive_while_wanted(
    store: ChatStore,
    backend: Backend,
    call: ChatCall,
    live: LiveTurn,
    patience: Patience,
    outcome: Outcome,
) -> None:
    """In this task, not in one of its own: that would be one more turn of the event loop before the first word."""
    limit = asyncio.timeout(patience.answer_seconds)
    try:
        async with limit:
            loop = asyncio.get_running_loop()
            watching = asyncio.create_task(
                _watch(store, live, patience, outcome, lambda: limit.reschedule(loop.time()))
            )
            live.when_stopped(lambda: limit.reschedule(loop.time()))
            try:
                await _receive(backend, call, live, outcome)
            finally:
                live.when_stopped(None)
                watching.cancel()
    except TimeoutError:
        if not limit.expired():
            raise
        outcome.why = outcome.why or live.stop_reason
        if outcome.why is None:
            raise ModelTooSlow(f"the answer took longer than {patience.answer_seconds:g} s") from None


async def _watch(
    store: ChatStore, live: LiveTurn, patience: Patience, outcome: Outcome, end: Callable[[], None]
) -> None:
    """Save what has come, every second, and end the answer when nobody has listened for long."""
    saved = 0
    while True:
        left = patience.orphan_seconds - live.seconds_alone()
        await asyncio.sleep(patience.save_seconds if live.listeners else min(patience.save_seconds, left))
        if not live.listeners and live.seconds_alone() >= patience.orphan_seconds:
            outcome.why = "everybody who listened went away"
            end()
            return
        saved = await _saved(store, live, saved)


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


async def _saved(store: ChatStore, live: LiveTurn, before: int) -> int:
    """How many pieces are in the journal. One that can't be written for a while costs what was not saved meanwhile."""
    count = len(live.deltas)
    if count == before:
        return before
    thread = live.accepted.thread
    try:
        for answer, choice in zip(live.accepted.answers, live.in_stored_order(), strict=True):
            await store.save(thread.space, thread.thread_id, answer, choice.answer)
    except (Unavailable, NotFound):
        return before
    return count


def _has_begun(live: LiveTurn) -> bool:
    return any(choice.text or choice.reasoning or choice.calls for choice in live.choices)
