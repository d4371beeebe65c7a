"""One answer: received from the model, saved as it grows, and recorded with its prompt."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from recollect.domain.access import Caller
from recollect.domain.chat import Accepted, PromptReceipt, SentPrompt
from recollect.domain.identity import turn_id as turn_id_of
from recollect.domain.identity import turn_number
from recollect.domain.llm import ChatCall, Delta, Finished, Sent, Usage
from recollect.domain.model import JsonObject, Status
from recollect.errors import ModelTooSlow, NotFound, RecollectError, Unavailable
from recollect.infra.backends.port import Backend
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.chat.stream import LiveTurn
from recollect.service.threads import owned_thread

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
    secrets_masked: int = 0
    finished: Finished | None = None
    first_token_ms: float | None = None
    total_ms: float = 0.0
    _started: float = field(default_factory=time.perf_counter)

    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 1)

    def told(self) -> JsonObject:
        """For the receipt: what the backend told, and how long it took."""
        usage = self.finished.usage if self.finished else Usage()
        told = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
            "evaluated_tokens": usage.evaluated_tokens,
        }
        return {
            **told,
            "usage": dict(told),
            "model": self.finished.model if self.finished else None,
            "finish_reason": self.finished.reasons.get(0) if self.finished else None,
            "time_to_first_token_ms": self.first_token_ms,
            **({"remark": self.remark} if self.remark else {}),
            **({"secrets_masked": self.secrets_masked} if self.secrets_masked else {}),
            "total_ms": self.total_ms,
        }


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
    store: SqlChatStore | None, backend: Backend, call: ChatCall, live: LiveTurn, patience: Patience
) -> Outcome:
    """Stream an answer into `live` and, every second, into the journal, if there is one. Never raises for what the model does."""
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
    store: SqlChatStore | None,
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

            def end() -> None:
                limit.reschedule(loop.time())

            watching = asyncio.create_task(_watch(store, live, patience, outcome, end))
            live.when_stopped(end)
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
    store: SqlChatStore | None,
    live: LiveTurn,
    patience: Patience,
    outcome: Outcome,
    end: Callable[[], None],
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
        if store is not None:
            saved = await _saved(store, live, saved)


async def _receive(backend: Backend, call: ChatCall, live: LiveTurn, outcome: Outcome) -> None:
    async with aclosing(backend.stream(call)) as events:
        async for event in events:
            if isinstance(event, Sent):
                outcome.payload, outcome.secrets_masked = event.payload, event.secrets_masked
            elif isinstance(event, Delta):
                if outcome.first_token_ms is None:
                    outcome.first_token_ms = outcome.elapsed_ms()
                live.add(event)
            else:
                outcome.finished = live.finished = event


async def _saved(store: SqlChatStore, live: LiveTurn, before: int) -> int:
    """How many pieces are in the journal. While it can't be written, unsaved pieces would be lost in a crash."""
    count = len(live.deltas)
    if count == before:
        return before
    try:
        for answer, choice in zip(live.accepted.answers, live.in_stored_order(), strict=True):
            await store.save(live.accepted.thread, answer, choice.answer)
    except (Unavailable, NotFound):
        return before
    return count


def _has_begun(live: LiveTurn) -> bool:
    return any(choice.text or choice.reasoning or choice.calls for choice in live.choices)


AFTER_SECONDS = 0.05


class PromptRecorder:
    """Records one prompt while its answer streams. An answer that ends first is stored with its prompt, at once."""

    def __init__(self, store: SqlChatStore, accepted: Accepted, prompt: SentPrompt) -> None:
        self._store, self._accepted, self._prompt = store, accepted, prompt
        self._task: asyncio.Task[bool] | None = None
        self._timer = asyncio.get_running_loop().call_later(AFTER_SECONDS, self._start)

    async def ended(self) -> SentPrompt | None:
        """Wait for a write that has begun. Returns the prompt if it must still be stored, with the answer."""
        self._timer.cancel()
        is_written = self._task is not None and await self._task
        return None if is_written else self._prompt

    def _start(self) -> None:
        self._task = asyncio.create_task(self._write())

    async def _write(self) -> bool:
        try:
            await self._store.begin(self._accepted, self._prompt)
        except RecollectError as error:
            _log.warning("could not store a prompt yet, trying again with the answer: %s", error.message)
            return False
        return True


_NEAR = 4
"""An answer stands right behind its message, but for results of tools and further choices."""


async def prompt_of(
    threads: SqlThreadStore,
    chats: SqlChatStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    turn_id: str,
) -> PromptReceipt:
    """Of an answer, or of the message that it answers. Raises NotFound where nothing was sent for it."""
    thread = (await owned_thread(threads, caller, thread_id, user_id)).ref
    receipt = await chats.prompt(thread, turn_id)
    number = turn_number(turn_id)
    turn = await threads.turn(thread, turn_id)
    if receipt is None and number is not None and turn is not None and turn.role == "user":
        for place in range(number + 1, number + 1 + _NEAR):
            receipt = receipt or await chats.prompt(thread, turn_id_of(place))
    if receipt is None and turn is not None and turn.status in ("queued", "streaming"):
        raise NotFound(f"what is sent for {turn_id!r} is not written down yet")
    if receipt is None:
        raise NotFound(f"nothing was sent for {turn_id!r} in this thread")
    return receipt
