"""One answer: received from the model, saved as it grows, recorded with its prompt, and stored as it ended."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace

from recollect.domain.chat import Accepted, AnswerText, ChatRequest, SentPrompt
from recollect.domain.job import JobSpec
from recollect.domain.llm import BackendFacts, ChatCall, Delta, Finished, Sent, Usage
from recollect.domain.model import JsonObject, Status, Turn, Waiting
from recollect.errors import ModelTooSlow, NotFound, RecollectError, Unavailable
from recollect.infra.backends.configured import Backend
from recollect.infra.journal.chats import SERVER_STOPPED, SqlChatStore
from recollect.service.chat.epoch import Draft
from recollect.service.chat.followups import run_post_response_tasks
from recollect.service.chat.stream import LiveTurn
from recollect.service.models.backend_priority import Gate
from recollect.service.models.llama_slots import LlamaSlots

SAVE_SECONDS = 1.0
STOPS_WITH_SERVER = "the server was stopped"
_log = logging.getLogger("recollect.chat")


@dataclass(slots=True)
class Outcome:
    """How an answer ended, and what came of its turn until then."""

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
    draft: Draft | None = None
    sent: SentPrompt | None = None
    unwritten: SentPrompt | None = None
    """What was sent, where it is still to be written down."""
    detail: JsonObject = field(default_factory=dict)
    """For the receipt: what came of the request."""
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


def as_recollect_error(error: Exception, what: str) -> RecollectError:
    """The error itself; for a mistake of ours, which is logged, one that says so."""
    if isinstance(error, RecollectError):
        return error
    _log.error("%s failed inside Recollect", what, exc_info=error)
    return RecollectError(f"something went wrong inside Recollect: {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class ChatCalls:
    """Calls that a person waits for: through the gate, with a slot of the server, counted when they have ended."""

    gate: Gate
    slots: LlamaSlots
    patience: Patience
    on_answer: Callable[[str, Usage, float | None], None]

    async def stream(
        self,
        store: SqlChatStore | None,
        backend: Backend,
        facts: BackendFacts,
        call: ChatCall,
        live: LiveTurn,
        key: str,
        *,
        begins: bool,
    ) -> Outcome:
        """As `stream_llm`. `key` names the owner of the slot; `begins`, if the prompt is none that it holds."""
        async with self.gate.chat(backend, key):
            call = replace(call, slot=self.slots.take(backend, facts, key, begins=begins))
            usage = Usage()
            try:
                outcome = await stream_llm(store, backend, call, live, self.patience)
                usage = outcome.finished.usage if outcome.finished else usage
            finally:
                self.slots.done(backend, key, usage)
        self.on_answer(backend.name, usage, outcome.first_token_ms)
        return outcome


async def stream_llm(
    store: SqlChatStore | None, backend: Backend, call: ChatCall, live: LiveTurn, patience: Patience
) -> Outcome:
    """Stream an answer into `live` and, every second, into the journal, if there is one. Never raises for what the model does."""
    outcome = Outcome()
    try:
        await _receive_while_wanted(store, backend, call, live, patience, outcome)
    except Exception as error:  # noqa: BLE001 - what was sent and what had come are kept
        outcome.error = as_recollect_error(error, "receiving an answer")
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
                if not limit.expired():  # It is being ended already.
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


class ChatEnding:
    """Stores answers; one that the disk does not take is stored as soon as there is room."""

    def __init__(self, store: SqlChatStore, patience: Patience) -> None:
        self._store = store
        self._patience = patience
        self._unstored: set[asyncio.Task[None]] = set()
        """Tasks that retry answers the disk refused."""

    async def stop(self) -> None:
        """The next start marks what the disk did not take until now."""
        for storing in self._unstored:
            storing.cancel()
        await asyncio.gather(*self._unstored, return_exceptions=True)

    async def end(self, live: LiveTurn, request: ChatRequest, outcome: Outcome, *, auto_skills: bool) -> None:
        """Store the answer with its follow-up jobs, and tell all followers. `auto_skills`: as the user prefers."""
        accepted, sent, detail = live.accepted, outcome.sent, outcome.detail
        if outcome.error is not None:
            detail = {**detail, "error": outcome.error.message, "code": outcome.error.code}
        elif outcome.why is not None:
            detail = {**detail, "error": outcome.why}
            if outcome.why == STOPS_WITH_SERVER:
                detail["code"] = SERVER_STOPPED
        texts = [choice.answer for choice in live.in_stored_order()]
        try:
            jobs = _following_jobs(accepted, request, outcome, texts[-1], auto_skills=auto_skills)
        except Exception:  # noqa: BLE001 - the answer is stored all the same
            _log.exception("could not decide which jobs follow a chat turn")
            jobs = ()
        receipt = {**(sent.detail if sent else {}), **request.kept, **detail}

        def store() -> Awaitable[tuple[Turn, Waiting | None]]:
            return self._store.finish(
                accepted,
                texts,
                status=outcome.status,
                model=outcome.finished.model if outcome.finished else None,
                prompt=outcome.unwritten,
                payload=_beside_the_prompt(outcome),
                detail=receipt,
                jobs=jobs,
            )

        try:
            turn, waiting = await self._stored(store)
        except RecollectError as error:
            _log.error("an answer could not be stored: %s", error.message)
            if isinstance(error, Unavailable):
                storing = asyncio.create_task(self._store_when_possible(store))
                self._unstored.add(storing)
                storing.add_done_callback(self._unstored.discard)
            turn, waiting = replace(accepted.answer, content=texts[-1].content, status="failed"), None
            outcome.error = outcome.error or error
        # Not stored: it soon changes.
        told = {} if waiting is None else {"waiting": asdict(waiting)}
        live.end(turn, {**receipt, **told}, outcome.error)

    async def _stored(
        self, store: Callable[[], Awaitable[tuple[Turn, Waiting | None]]]
    ) -> tuple[Turn, Waiting | None]:
        """Retries for a while before reporting an error, so that a briefly full disk loses no answer."""
        for wait in self._patience.store_again_seconds:
            try:
                return await store()
            except Unavailable as error:
                _log.warning("could not store an answer, trying again: %s", error.message)
                await asyncio.sleep(wait)
        return await store()

    async def _store_when_possible(self, store: Callable[[], Awaitable[tuple[Turn, Waiting | None]]]) -> None:
        """Nobody waits for it any more, but a turn must not be left as if it still streamed."""
        while True:
            await asyncio.sleep(self._patience.store_again_seconds[-1])
            try:
                await store()
            except Unavailable:
                continue
            except RecollectError as error:
                _log.warning("an answer that waited for the disk was not stored: %s", error.message)
            return


def _following_jobs(
    accepted: Accepted, request: ChatRequest, outcome: Outcome, text: AnswerText, *, auto_skills: bool
) -> tuple[JobSpec, ...]:
    draft = outcome.draft
    if draft is None:
        return ()
    answer = replace(
        accepted.answer,
        content=text.content,
        tool_calls=list(text.tool_calls) or None,
        status=outcome.status,
    )
    turns = [*(each.turn for each in draft.history), *accepted.turns]
    asked = next((n for n in range(len(turns) - 1, -1, -1) if turns[n].role == "user"), None)
    if asked is None:
        return ()
    return run_post_response_tasks(
        accepted.thread,
        [*turns[asked:], answer],
        first_answer=draft.is_first_answer,
        extract_skills=request.extract_skills,
        auto_skills=auto_skills and request.memory,
        leaving=draft.leaving,
    )


def _beside_the_prompt(outcome: Outcome) -> JsonObject | None:
    """The parts of a request to store; its messages only if they differ from the prompt's, which is stored anyway."""
    payload = outcome.payload
    if payload is None or outcome.draft is None or payload.get("messages") != outcome.draft.messages:
        return payload
    return {**payload, "messages": None}
