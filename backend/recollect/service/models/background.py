"""Asking a model in the background: through the gate, dropped at once when a chat comes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from recollect.domain.identity import thread_key
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
from recollect.service.models.backend_priority import Gate
from recollect.service.ports import Backend

MAX_ANSWER_BYTES = 64 * 1024
PAUSE_SECONDS = 0.5


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
        """By backend and model the options that it does not take."""

    async def ask(
        self,
        messages: Sequence[JsonObject],
        *,
        thread: ThreadRef,
        max_tokens: int,
        schema: JsonObject | None = None,
        prefix: ChatPrefix | None = None,
        check: Callable[[str], object] = lambda text: None,
    ) -> Answer:
        """The model's answer, within `answer_seconds` in all, waiting at the gate apart; else ModelUnavailable, and
        ModelTooSlow where it answered and found no end.

        What may pass, and an answer that `check` refuses with a ValueError, is tried `attempts` times in all.
        With a `prefix` the messages follow the chat's own. Raises Preempted when a chat comes or the wait is long,
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
            ),
            thread_key(thread),
            own_prompt=prefix is None,
            answering=self._answer_seconds,
            patience=self._patience_seconds,
            count=self._admit(thread),
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
        for attempt in range(1, self._attempts + 1):
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
            if attempt == self._attempts:
                break
            if asked.answering <= pause:
                raise ModelUnavailable(f"the model took more than {self._answer_seconds:g} s: {trouble}")
            asked.answering -= pause
            await self._pause(pause)
        raise ModelUnavailable(f"the model failed {self._attempts} times: {trouble}")

    async def _try(self, backend: Backend, asked: "_Asked") -> Answer:
        """Once; where the schema or the temperature is refused, once more without it, and from then on."""
        key = (backend.name, asked.call.model)
        refused = self._refused.get(key, frozenset())
        while True:
            options = {name: value for name, value in asked.call.options.items() if name not in refused}
            try:
                answer = await self._once(backend, asked, replace(asked.call, options=options))
            except ModelRefused as error:
                if (name := _at_fault(error, options)) is None:
                    raise
                refused |= {name}
            else:
                self._refused[key] = refused
                return answer

    async def _once(self, backend: Backend, asked: "_Asked", call: ChatCall) -> Answer:
        arrived = self._clock()
        async with self._gate.background(backend, asked.thread_key, patience=asked.patience):
            started, spoke = self._clock(), asyncio.Event()
            asked.patience = max(0.0, asked.patience - (started - arrived))
            asked.count()
            try:
                async with asyncio.timeout(asked.answering):
                    return await _whole_answer(backend, call, spoke)
            except TimeoutError:
                # The server works: this answer takes too long, and would again.
                raise (_StillAnswering if spoke.is_set() else _OutOfTime) from None
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


def _at_fault(error: ModelRefused, options: JsonObject) -> str | None:
    """The option that the request was probably refused for; None if it can't be one of them.

    OpenAI's reasoning models name `temperature` in their error. Not all servers name the schema.
    """
    if "temperature" in options and "temperature" in error.message:
        return "temperature"
    return "response_format" if "response_format" in options else None


async def _whole_answer(backend: Backend, call: ChatCall, spoke: asyncio.Event) -> Answer:
    pieces: list[str] = []
    size = 0
    finished = Finished()
    async with aclosing(backend.stream(call)) as events:
        async for event in events:
            if isinstance(event, Finished):
                finished = event
            elif isinstance(event, Delta) and event.choice == 0:
                spoke.set()
                pieces.append(event.text)
                size += len((event.text + event.reasoning).encode("utf-8", "replace"))
                if size > MAX_ANSWER_BYTES:
                    raise ValueError(f"the answer exceeds {MAX_ANSWER_BYTES} bytes")
    return Answer(
        "".join(pieces), finished.usage, finished.model, cut_short=finished.reasons.get(0) == "length"
    )


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
