"""Asking a model in the background: through the gate, dropped at once when a chat comes."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from recollect.domain.breaker import Breaker
from recollect.domain.identity import text_digest, thread_key
from recollect.domain.llm import ChatCall, Finished, Sent, Usage
from recollect.domain.model import JsonObject, ThreadRef
from recollect.errors import BackendDown, InvalidInput, ModelRefused, ModelUnavailable
from recollect.infra.backends.configured import Backend
from recollect.infra.backends.refusals import RefusedInAnyForm
from recollect.service.models.backend_priority import Gate
from recollect.service.models.call_failures import (
    LONGEST_SECONDS,
    MAX_ANSWER_BYTES,
    PAUSES,
    AnswerTooLarge,
    FailsAgain,
    OutOfTime,
    Resting,
    StillAnswering,
    Verdict,
    in_words,
    verdict_on,
)

PAUSE_SECONDS = 0.5
_UNBOUNDED = 1_000_000
THOUGHT_TOKENS = 2_000
"""Room beside the answer for a model that was seen to think although it was asked not to."""


@dataclass(frozen=True, slots=True)
class ThreadModel:
    """What a thread's background work asks."""

    backend: Backend
    model: str | None = None
    """None: the backend's own."""


def background_seconds(timeout: float, lease: float) -> tuple[float, float]:
    """How long a call may take, and how long it may wait at the gate: together less than a job's lease."""
    answering = min(timeout, lease / 2)
    return answering, min(45.0, lease * 0.9 - answering)


CallCounter = Callable[[], None]
"""Called for each call that is made."""


def unlimited(thread: ThreadRef) -> CallCounter:
    return lambda: None


@dataclass(slots=True)
class CallBudget:
    """How many requests may still reach a model. One that finds nobody there, or has to make way, is not counted."""

    left: int


ModelFor = Callable[[ThreadRef], Awaitable[ThreadModel]]
"""By thread: the model for background work where one is configured, else the one the thread chats with."""


@dataclass(frozen=True, slots=True)
class ChatPrefix:
    """A thread's live prompt with its answer, as the backend has it in its cache."""

    messages: Sequence[JsonObject]
    session: str | None = None
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered."""

    text: str
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    """As the backend calls it."""
    cut_short: bool = False
    """It reached its limit of tokens before its end."""
    thought: bool = False
    """There was reasoning before it."""

    def fault(self, found: str) -> str:
        """Why it can't be used, where a reader has `found` something wrong with it."""
        if self.cut_short and self.thought:
            return (
                "the model used up its room for thinking; switch thinking off in its server, or set a model for "
                "background work that thinks less (RECOLLECT_TASKS__MODEL)"
            )
        return f"the model's answer can't be used: {found}"


class BackgroundModel:
    """What boundaries, titles and summaries ask. Calls may run at the same time; the gate decides which.

    Error messages never quote a server, a prompt or an answer.
    """

    def __init__(
        self,
        model_for: ModelFor,
        gate: Gate,
        *,
        answer_seconds: float = 60,
        patience_seconds: float = 45,
        attempts: int = 3,
        on_own_prompt: Callable[[Backend], None] = lambda backend: None,
        admit: Callable[[ThreadRef], CallCounter] = unlimited,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        rest_clock: Callable[[], float] = time.time,
    ) -> None:
        """`answer_seconds` and `patience_seconds` together stay below the lease of a job.

        `on_own_prompt` is called after each call with its own prompt, which may have evicted a chat's cache.
        `admit` is asked before any, and raises OverQuota where its user may make no more.
        """
        self._model_for = model_for
        self._gate = gate
        self._answer_seconds = answer_seconds
        self._patience_seconds = patience_seconds
        self._attempts = max(1, attempts)
        self._on_own_prompt = on_own_prompt
        self._admit = admit
        self._pause = pause
        self._clock = clock
        self._rest_clock = rest_clock
        self.rests: dict[str, Breaker] = {}
        """By the name of a backend: after a failure that may pass it is left alone for a while."""
        self._refused: dict[tuple[str, str | None], frozenset[str]] = {}
        """By backend and model what it does not take; a schema by its digest, for it may take others."""
        self._thinkers: set[tuple[str, str | None]] = set()
        """Backends and models that used up the room for an answer with thoughts."""

    async def ask(
        self,
        messages: Sequence[JsonObject],
        *,
        thread: ThreadRef,
        max_tokens: int,
        schema: JsonObject | None = None,
        prefix: ChatPrefix | None = None,
        check: Callable[[str], object] = lambda text: None,
        budget: CallBudget | None = None,
    ) -> Answer:
        """The model's answer, within `answer_seconds` in all, waiting at the gate apart.

        Else FailsAgain where the same request would fail in the same way, or ModelUnavailable; after a failure that
        may pass, the backend rests, and `retry_after` says for how long. What may pass, and an answer that `check`
        refuses with a ValueError, is tried `attempts` times in all. With a `prefix` the messages follow the chat's
        own. With a `budget`, which must have a call left, nothing is tried twice but what differs: without a schema
        that was refused, or with room for thoughts. Raises Preempted when a chat comes or the wait is long, and
        OverQuota before anything is asked.
        """
        asked = _Asked(
            ChatCall(
                messages=[*prefix.messages, *messages] if prefix else messages,
                max_tokens=max_tokens,
                options=_options(schema),
                session=prefix.session if prefix else None,
                slot=prefix.slot if prefix else None,
                space=thread.space,
                thinks_little=True,
            ),
            thread_key(thread),
            own_prompt=prefix is None,
            answering=self._answer_seconds,
            patience=self._patience_seconds,
            count=self._admit(thread),
            attempts=self._attempts if budget is None else 1,
            budget=budget or CallBudget(_UNBOUNDED),
        )
        try:
            chosen = await self._model_for(thread)
            asked.call = replace(asked.call, model=chosen.model)
            return await self._retry(chosen.backend, asked, check)
        except InvalidInput as error:
            # The backend or the model that is named in the settings does not exist: no fault of the job's.
            raise ModelUnavailable(
                "the model for background work is not there: see the settings of the backend"
            ) from error

    async def _retry(self, backend: Backend, asked: "_Asked", check: Callable[[str], object]) -> Answer:
        attempt = 0
        while True:
            attempt += 1
            verdict: Verdict
            try:
                answer = await self._try(backend, asked)
                await asyncio.to_thread(check, answer.text)
                return answer
            except ModelUnavailable as error:
                failure, trouble = error, in_words(error, self._answer_seconds)
                verdict = verdict_on(error, is_sent=asked.is_sent)
            except ValueError as error:
                failure, trouble, verdict = ModelUnavailable(), str(error), "unusable"
            if verdict == "final":
                raise FailsAgain(f"the model failed: {trouble}") from failure
            told = f"the model failed{f' {attempt} times' if attempt > 1 else ''}: {trouble}"
            if attempt == asked.attempts or isinstance(failure, Resting):
                break
            pause = max(PAUSE_SECONDS * attempt, failure.retry_after or 0)
            if asked.answering <= pause:
                told = f"the model took more than {self._answer_seconds:g} s: {trouble}"
                break
            asked.answering -= pause
            await self._pause(pause)
        wait = failure.retry_after and min(failure.retry_after, LONGEST_SECONDS)
        if verdict == "later":
            wait = self._rest_of(backend).failed(trouble, asked.began, wait or 0.0)
        raise ModelUnavailable(told, retry_after=wait) from failure

    async def _try(self, backend: Backend, asked: "_Asked") -> Answer:
        """Once; where something beside the prompt is refused, once more without it, and from then on."""
        key = (backend.name, asked.call.model)
        refused, extras = self._refused.get(key, frozenset()), True
        while True:
            call = replace(_without(asked.call, refused), extras=extras)
            if key in self._thinkers and call.max_tokens is not None:
                call = replace(call, max_tokens=call.max_tokens + THOUGHT_TOKENS)
            try:
                answer = await self._once(backend, asked, call)
            except RefusedInAnyForm:
                raise
            except ModelRefused as error:
                at_fault = _at_fault(error, call)
                if not at_fault or not asked.budget.left:
                    raise
                refused |= at_fault
                # It was refused with the extras of its backend and, unless they can't be at fault, without them.
                extras = error.field is not None
            else:
                self._refused[key] = refused
                if not (answer.cut_short and answer.thought) or key in self._thinkers:
                    return answer
                self._thinkers.add(key)
                if not asked.budget.left:
                    return answer

    async def _once(self, backend: Backend, asked: "_Asked", call: ChatCall) -> Answer:
        arrived, asked.is_sent = self._clock(), False
        async with self._gate.background(backend, asked.thread_key, patience=asked.patience):
            started, spoke = self._clock(), asyncio.Event()
            asked.patience = max(0.0, asked.patience - (started - arrived))
            if (left := self._rest_of(backend).seconds_left()) > 0:
                raise Resting(retry_after=left)
            asked.began = self._rest_clock()
            try:
                async with asyncio.timeout(asked.answering):
                    answer = await _whole_answer(backend, call, asked.take_call, spoke)
            except TimeoutError:
                raise (StillAnswering if spoke.is_set() else OutOfTime) from None
            except (BackendDown, asyncio.CancelledError):
                # Nobody was there to answer, or a chat came.
                asked.budget.left += asked.is_sent
                raise
            except ModelRefused:
                self._rest_of(backend).succeeded()
                raise
            finally:
                asked.answering -= self._clock() - started
                if asked.own_prompt:
                    self._on_own_prompt(backend)
            self._rest_of(backend).succeeded()
            return answer

    def _rest_of(self, backend: Backend) -> Breaker:
        return self.rests.setdefault(backend.name, Breaker(self._rest_clock, PAUSES))


@dataclass(slots=True)
class _Asked:
    """One call, and the seconds left for it."""

    call: ChatCall
    thread_key: str
    own_prompt: bool
    answering: float
    patience: float
    count: CallCounter
    attempts: int
    budget: CallBudget
    began: float = 0.0
    """When the last try began, by the clock of the rests."""
    is_sent: bool = False
    """Whether a request was sent in the last try."""

    def take_call(self) -> None:
        """Before each request that is sent."""
        if not self.budget.left:
            raise ModelRefused
        self.budget.left -= 1
        self.count()
        self.is_sent = True


def _options(schema: JsonObject | None) -> JsonObject:
    options: JsonObject = {"temperature": 0}
    if schema is None:
        return options
    form = {"name": "answer", "strict": True, "schema": schema}
    return {**options, "response_format": {"type": "json_schema", "json_schema": form}}


_THOUGHTS = "thoughts"


def _without(call: ChatCall, refused: frozenset[str]) -> ChatCall:
    options = {
        name: value for name, value in call.options.items() if refused.isdisjoint((name, _named(name, value)))
    }
    return replace(call, options=options, thinks_little=call.thinks_little and _THOUGHTS not in refused)


def _named(name: str, value: object) -> str:
    """A schema has a name of its own."""
    return f"{name} {text_digest(json.dumps(value, sort_keys=True))}" if name == "response_format" else name


def _at_fault(error: ModelRefused, call: ChatCall) -> frozenset[str]:
    """What the request was probably refused for; empty if it can't be anything beside the prompt.

    A server that names a field is believed. One that names none may mean the schema.
    """
    if error.field in call.options:
        return frozenset([_named(error.field, call.options[error.field])])
    if error.field in ("reasoning_effort", "think", "chat_template_kwargs") and call.thinks_little:
        return frozenset([_THOUGHTS])
    return frozenset(_named(name, value) for name, value in call.options.items() if name == "response_format")


async def _whole_answer(
    backend: Backend, call: ChatCall, before_request: Callable[[], None], spoke: asyncio.Event
) -> Answer:
    pieces: list[str] = []
    size, thought = 0, False
    finished = Finished()
    async with aclosing(backend.stream(call)) as events:
        async for event in events:
            if isinstance(event, Sent):
                before_request()  # It is sent when the next event is asked for.
            elif isinstance(event, Finished):
                finished = event
            elif event.choice == 0:
                spoke.set()
                pieces.append(event.text)
                thought = thought or bool(event.reasoning)
                size += len((event.text + event.reasoning).encode("utf-8", "replace"))
                if size > MAX_ANSWER_BYTES:
                    raise AnswerTooLarge
    cut_short = finished.reasons.get(0) == "length"
    return Answer("".join(pieces), finished.usage, finished.model, cut_short, thought)
