"""Asking a model in the background: through the gate, dropped at once when a chat comes."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from recollect.domain.identity import text_digest, thread_key
from recollect.domain.llm import ChatCall, Delta, Finished, Usage
from recollect.domain.model import JsonObject, ThreadRef
from recollect.errors import (
    BackendDown,
    InvalidInput,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
    RateLimited,
    StreamBroken,
)
from recollect.infra.backends.port import Backend
from recollect.service.models.backend_priority import Gate

MAX_ANSWER_BYTES = 64 * 1024
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
    """How many calls may still reach a model. One that finds nobody there, or has to make way, is not counted."""

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
        """The model's answer, within `answer_seconds` in all, waiting at the gate apart; else ModelUnavailable, and
        ModelTooSlow where it answered and found no end.

        What may pass, and an answer that `check` refuses with a ValueError, is tried `attempts` times in all.
        With a `prefix` the messages follow the chat's own. With a `budget`, which must have a call left, nothing is
        tried twice but what differs: without a schema that was refused, or with room for thoughts. Raises Preempted when a chat comes or the wait is long,
        and OverQuota before anything is asked.
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
        trouble = "it did not answer"
        for attempt in range(1, asked.attempts + 1):
            pause = PAUSE_SECONDS * attempt
            try:
                answer = await self._try(backend, asked)
                await asyncio.to_thread(check, answer.text)
                return answer
            except ModelRefused as error:
                raise ModelUnavailable(f"the model failed: {_in_words(error)}") from error
            except _StillAnswering as error:
                raise ModelTooSlow(
                    f"the model was still answering after {self._answer_seconds:g} s"
                ) from error
            except RateLimited as error:
                trouble = _in_words(error)
                pause = max(pause, error.retry_after or 0)
            except ModelUnavailable as error:
                trouble = _in_words(error)
            except ValueError as error:
                trouble = str(error)
            if attempt == asked.attempts:
                break
            if asked.answering <= pause:
                raise ModelUnavailable(f"the model took more than {self._answer_seconds:g} s: {trouble}")
            asked.answering -= pause
            await self._pause(pause)
        times = f" {asked.attempts} times" if asked.attempts > 1 else ""
        raise ModelUnavailable(f"the model failed{times}: {trouble}")

    async def _try(self, backend: Backend, asked: "_Asked") -> Answer:
        """Once; where something beside the prompt is refused, once more without it, and from then on."""
        key = (backend.name, asked.call.model)
        refused = self._refused.get(key, frozenset())
        while True:
            call = _without(asked.call, refused)
            if key in self._thinkers and call.max_tokens is not None:
                call = replace(call, max_tokens=call.max_tokens + THOUGHT_TOKENS)
            try:
                answer = await self._once(backend, asked, call)
            except ModelRefused as error:
                at_fault = _at_fault(error, call)
                if not at_fault or not asked.budget.left:
                    raise
                refused |= at_fault
            else:
                self._refused[key] = refused
                if not (answer.cut_short and answer.thought) or key in self._thinkers:
                    return answer
                self._thinkers.add(key)
                if not asked.budget.left:
                    return answer

    async def _once(self, backend: Backend, asked: "_Asked", call: ChatCall) -> Answer:
        arrived = self._clock()
        async with self._gate.background(backend, asked.thread_key, patience=asked.patience):
            started, spoke = self._clock(), asyncio.Event()
            asked.patience = max(0.0, asked.patience - (started - arrived))
            asked.count()
            asked.budget.left -= 1
            try:
                async with asyncio.timeout(asked.answering):
                    return await _whole_answer(backend, call, spoke)
            except TimeoutError:
                # The server works: this answer takes too long, and would again.
                raise (_StillAnswering if spoke.is_set() else _OutOfTime) from None
            except (ModelUnavailable, asyncio.CancelledError) as error:
                # Nobody was there to answer, or a chat came.
                if isinstance(error, BackendDown | RateLimited | asyncio.CancelledError) or error.not_ready:
                    asked.budget.left += 1
                raise
            finally:
                asked.answering -= self._clock() - started
                if asked.own_prompt:
                    self._on_own_prompt(backend)


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


class _OutOfTime(ModelUnavailable):
    """The time for an answer is up, and none of it came."""


class _StillAnswering(ModelUnavailable):
    """The time for an answer is up while it is still streaming."""


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


async def _whole_answer(backend: Backend, call: ChatCall, spoke: asyncio.Event) -> Answer:
    pieces: list[str] = []
    size, thought = 0, False
    finished = Finished()
    async with aclosing(backend.stream(call)) as events:
        async for event in events:
            if isinstance(event, Finished):
                finished = event
            elif isinstance(event, Delta) and event.choice == 0:
                spoke.set()
                pieces.append(event.text)
                thought = thought or bool(event.reasoning)
                size += len((event.text + event.reasoning).encode("utf-8", "replace"))
                if size > MAX_ANSWER_BYTES:
                    raise ValueError(f"the answer exceeds {MAX_ANSWER_BYTES} bytes")
    cut_short = finished.reasons.get(0) == "length"
    return Answer("".join(pieces), finished.usage, finished.model, cut_short, thought)


_WORDS: dict[type[ModelUnavailable], str] = {
    _OutOfTime: "it had not answered yet",
    BackendDown: "nobody answers at its address",
    RateLimited: "it wants fewer requests",
    ModelTooSlow: "it went silent",
    StreamBroken: "its answer broke off",
    ModelRefused: "it refused the request",
}


def _in_words(error: ModelUnavailable) -> str:
    return next((words for kind, words in _WORDS.items() if isinstance(error, kind)), "its server failed")
