"""The background model asks through the gate, and is patient with models, but not for ever."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from recollect.domain.job import Preempted
from recollect.domain.llm import ChatCall, Delta, Finished, Sent, StreamEvent
from recollect.domain.model import JsonObject, ThreadRef
from recollect.errors import (
    BackendDown,
    InvalidInput,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
    OverQuota,
    RateLimited,
    StreamBroken,
    UnknownModel,
)
from recollect.infra.backends.configured import Backend
from recollect.service.models.backend_priority import Gate
from recollect.service.models.background import (
    THOUGHT_TOKENS,
    Answer,
    BackgroundModel,
    CallBudget,
    CallCounter,
    ChatPrefix,
    ThreadModel,
)
from recollect.service.models.call_failures import MAX_ANSWER_BYTES, FailsAgain
from tests.eventually import eventually
from tests.fakes import FakeBackend
from tests.standins.background import Script, answering, backend_of, model_on, saying, silent

THREAD = ThreadRef("default", "me", "t1")
QUESTION: list[JsonObject] = [{"role": "user", "content": "what is this about?"}]
SCHEMA: JsonObject = {"type": "object"}


class Pauses:
    """Takes the place of sleeping, and remembers for how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def gate() -> Gate:
    return Gate()


def refusing_schema(then: str | Exception) -> Script:
    def script(call: ChatCall) -> str:
        if "response_format" in call.options or isinstance(then, Exception):
            raise ModelRefused("unknown field response_format")
        return then

    return script


async def ask(
    backend: Backend, gate: Gate | None = None, pauses: Pauses | None = None, **choices: object
) -> Answer:
    return await put(model_on(backend, gate, pause=pauses or Pauses()), **choices)


async def put(model: BackgroundModel, **choices: object) -> Answer:
    return await model.ask(QUESTION, thread=THREAD, max_tokens=50, **choices)  # type: ignore[arg-type]


def offered(calls: Iterable[ChatCall]) -> list[bool]:
    return ["response_format" in call.options for call in calls]


async def test_a_call_with_its_own_prompt_belongs_to_no_session() -> None:
    backend = backend_of()
    await ask(backend, schema=SCHEMA)
    (call,) = backend.calls
    assert (call.messages, call.session, call.slot, call.max_tokens) == (QUESTION, None, None, 50)
    assert call.options["temperature"] == 0
    assert call.options["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_a_call_that_rides_on_a_chat_follows_its_messages_in_its_session_and_slot() -> None:
    backend = backend_of()
    chat: list[JsonObject] = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
    await ask(backend, prefix=ChatPrefix(chat, session="abc", slot=1))
    (call,) = backend.calls
    assert (call.messages, call.session, call.slot) == ([*chat, *QUESTION], "abc", 1)


async def test_only_a_prompt_of_its_own_is_told_of() -> None:
    told: list[Backend] = []
    backend = backend_of()
    model = model_on(backend, on_own_prompt=told.append)
    await put(model, prefix=ChatPrefix(QUESTION))
    assert told == []
    await put(model)
    assert told == [backend]


# The gate


async def test_a_chat_drops_the_call_at_once_and_it_is_not_tried_again(gate: Gate) -> None:
    backend = silent()
    call = asyncio.create_task(ask(backend, gate))
    await eventually(lambda: backend.in_flight)
    async with gate.chat(backend, "another thread"):
        assert (call.done(), backend.dropped) == (True, 1)
    with pytest.raises(Preempted):
        await call
    assert len(backend.calls) == 1


async def test_patience_is_for_all_tries_together() -> None:
    """The first try waits for 30 s of 40; then another chat comes, and 10 are left."""
    now = 0.0
    left: list[float] = []

    class Observed(Gate):
        @asynccontextmanager
        async def background(
            self, backend: Backend, thread_key: str, *, patience: float
        ) -> AsyncIterator[None]:
            nonlocal now
            left.append(patience)
            now += 30
            async with super().background(backend, thread_key, patience=patience):
                yield

    backend = answering(saying(StreamBroken("gone"), "here"))
    model = model_on(backend, Observed(), patience_seconds=40, clock=lambda: now)
    await put(model)
    assert left == [40, 10]


# Tries


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BackendDown("secret"), "nobody answers"),
        (RateLimited("secret"), "fewer requests"),
        (StreamBroken("secret"), "broke off"),
        (ModelUnavailable("secret"), "its server failed"),
        (ValueError("the answer has no field 'x'"), "no field 'x'"),
    ],
)
async def test_what_stays_wrong_is_tried_three_times_and_named_in_our_words(
    error: Exception, words: str, pauses: Pauses
) -> None:
    backend = answering(saying(error))
    with pytest.raises(ModelUnavailable, match=f"failed 3 times: .*{words}") as caught:
        await ask(backend, pauses=pauses)
    assert "secret" not in str(caught.value)
    assert len(backend.calls) == 3
    assert pauses.seconds == [0.5, 1.0]


async def test_an_answer_that_does_not_pass_is_asked_for_again(pauses: Pauses) -> None:
    def must_be_short(text: str) -> None:
        if len(text) > 5:
            raise ValueError("the answer is too long")

    backend = answering(saying("much too long", "short"))
    assert (await ask(backend, pauses=pauses, check=must_be_short)).text == "short"
    with pytest.raises(ModelUnavailable, match="too long"):
        await ask(answering(saying("much too long")), check=must_be_short)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModelRefused("your key ends in 1234"), "refused"),
        (ModelRefused("your key ends in 1234", details=" (401). Check its API key."), "API key"),
        (ModelTooSlow("1234"), "silent.*RECOLLECT_CHAT__STALL_SECONDS"),
    ],
)
async def test_what_would_fail_again_is_not_tried_again(
    error: ModelUnavailable, words: str, pauses: Pauses
) -> None:
    backend = answering(saying(error))
    model = model_on(backend, pause=pauses)
    with pytest.raises(FailsAgain, match=words) as caught:
        await put(model)
    assert "1234" not in str(caught.value)
    assert (len(backend.calls), pauses.seconds) == (1, [])
    assert model.rests[backend.name].seconds_left() == 0


async def test_a_server_that_says_when_is_asked_again_then(pauses: Pauses) -> None:
    await ask(answering(saying(RateLimited(retry_after=7), "here")), pauses=pauses)
    assert pauses.seconds == [7]


async def test_a_server_that_wants_a_longer_rest_than_there_is_time_for_is_given_up(pauses: Pauses) -> None:
    with pytest.raises(ModelUnavailable, match="fewer requests"):
        await ask(answering(saying(RateLimited(retry_after=3600))), pauses=pauses)
    assert pauses.seconds == []


async def test_the_time_is_for_all_tries_together() -> None:
    now = 0.0

    def fails_slowly(call: ChatCall) -> str:
        nonlocal now
        now += 25
        raise StreamBroken("it broke")

    backend = answering(fails_slowly)
    model = model_on(backend, answer_seconds=50, attempts=100, clock=lambda: now)
    with pytest.raises(ModelUnavailable, match=r"more than 50 s.*broke off"):
        await put(model)
    assert len(backend.calls) == 2


async def test_an_answer_without_end_is_refused_and_dropped() -> None:
    class Endless(FakeBackend):
        async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
            try:
                yield Sent({})
                while True:
                    yield Delta(reasoning="x" * 1000)
            finally:
                self.dropped += 1

    backend = Endless()
    with pytest.raises(FailsAgain, match=f"exceeds {MAX_ANSWER_BYTES} bytes"):
        await ask(backend)
    assert backend.dropped == 1


@pytest.mark.parametrize("error", [UnknownModel("try llama"), InvalidInput("no backend of that name")])
async def test_a_backend_or_model_that_does_not_exist_is_unavailable(error: Exception) -> None:
    with pytest.raises(ModelUnavailable, match="settings"):
        await ask(answering(saying(error)))

    async def nowhere(thread: ThreadRef) -> ThreadModel:
        raise error

    with pytest.raises(ModelUnavailable, match="settings"):
        await put(BackgroundModel(nowhere, Gate()))


# Schemas


async def test_a_request_refused_for_another_reason_leaves_the_schema_in_use() -> None:
    backend = answering(refusing_schema(ModelRefused("no")))
    model = model_on(backend, pause=Pauses())
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            await put(model, schema=SCHEMA)
    assert offered(backend.calls) == [True, False] * 2


@pytest.mark.parametrize("option", ["response_format", "temperature"])
async def test_a_refused_option_is_left_out_from_then_on_and_others_stay(option: str, pauses: Pauses) -> None:
    def picky(call: ChatCall) -> str:
        if option in call.options:
            raise ModelRefused("it refused the request", field=option)
        return "yes"

    backend = answering(picky)
    model = model_on(backend, pause=pauses)
    for _ in range(2):
        await put(model, schema=SCHEMA)
    both = {"temperature", "response_format"}
    assert [set(call.options) for call in backend.calls] == [both, both - {option}, both - {option}]
    assert pauses.seconds == []
    assert all(call.thinks_little for call in backend.calls)


async def test_a_schema_that_is_refused_costs_no_other_schema() -> None:
    other: JsonObject = {"type": "object", "additionalProperties": False}

    def picky(call: ChatCall) -> str:
        if call.options.get("response_format", {}).get("json_schema", {}).get("schema") == SCHEMA:
            raise ModelRefused("it refused the request", field="response_format")
        return "yes"

    backend = answering(picky)
    model = model_on(backend)
    for schema in (SCHEMA, other, SCHEMA):
        await put(model, schema=schema)
    assert offered(backend.calls) == [True, False, True, False]


async def test_a_model_that_refuses_to_think_little_is_no_longer_asked_to() -> None:
    def picky(call: ChatCall) -> str:
        if call.thinks_little:
            raise ModelRefused("it refused the request", field="reasoning_effort")
        return "yes"

    backend = answering(picky)
    model = model_on(backend)
    for _ in range(2):
        await put(model, schema=SCHEMA)
    assert [call.thinks_little for call in backend.calls] == [True, False, False]
    assert offered(backend.calls) == [True, True, True]


async def test_a_model_that_uses_up_its_room_with_thoughts_gets_more_from_then_on() -> None:
    class Thinker(FakeBackend):
        async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
            self.calls.append(call)
            yield Delta(reasoning="Let me think.")
            assert call.max_tokens is not None
            if call.max_tokens > THOUGHT_TOKENS:
                yield Delta("Porto")
            yield Finished({0: "stop" if call.max_tokens > THOUGHT_TOKENS else "length"})

    backend = Thinker()
    model = model_on(backend)
    assert [(await put(model)).text for _ in range(2)] == ["Porto", "Porto"]
    assert [call.max_tokens for call in backend.calls] == [50, 50 + THOUGHT_TOKENS, 50 + THOUGHT_TOKENS]


async def test_what_one_backend_refuses_another_is_still_offered() -> None:
    picky, open_minded = backend_of(name="picky"), backend_of(name="open")
    picky.answer = refusing_schema("yes")
    backends = [picky, open_minded]

    async def in_turn(thread: ThreadRef) -> ThreadModel:
        return ThreadModel(backends.pop(0))

    model = BackgroundModel(in_turn, Gate())
    await put(model, schema=SCHEMA)
    await put(model, schema=SCHEMA)
    assert (offered(picky.calls), offered(open_minded.calls)) == ([True, False], [True])


async def test_an_answer_that_finds_no_end_is_told_from_a_server_that_does_not_answer() -> None:
    rambling = silent()
    rambling.answer = saying("one two three four")
    rambling.release(2)
    with pytest.raises(FailsAgain, match="still answering"):
        await put(model_on(rambling, answer_seconds=0.5))
    assert len(rambling.calls) == 1
    mute = silent()
    with pytest.raises(FailsAgain, match=r"not answered yet after 0\.05 s.*MODEL_TIMEOUT_SECONDS"):
        await put(model_on(mute, answer_seconds=0.05))
    assert (len(mute.calls), mute.dropped) == (1, 1)


class Calls:
    """Counts calls for a thread's user, who may make so many."""

    def __init__(self, allowed: int) -> None:
        self.left = allowed

    def __call__(self, thread: ThreadRef) -> CallCounter:
        if self.left <= 0:
            raise OverQuota
        return self.count

    def count(self) -> None:
        self.left -= 1


async def test_each_try_counts_as_a_call_of_the_user_and_none_is_made_past_the_quota() -> None:
    backend = answering(saying(BackendDown("down"), "fine"))
    calls = Calls(2)
    model = model_on(backend, admit=calls)
    assert (await put(model)).text == "fine"
    assert calls.left == 0
    with pytest.raises(OverQuota):
        await put(model)
    assert len(backend.calls) == 2


async def test_waiting_for_a_chat_is_no_call(gate: Gate) -> None:
    backend, calls = backend_of(), Calls(5)
    async with gate.chat(backend, "a chat"):
        with pytest.raises(Preempted):
            await put(model_on(backend, gate, admit=calls, patience_seconds=0.01))
    assert (calls.left, backend.calls) == (5, [])


# --- a budget of calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "left"),
    [
        (ModelUnavailable("it failed (500)"), 2),
        (StreamBroken("broke off"), 2),
        (ModelRefused("no"), 2),
        (RateLimited("fewer"), 2),
        (ModelTooSlow("silent"), 2),
        (BackendDown("nobody"), 3),
    ],
)
async def test_with_a_budget_a_call_is_made_once_and_counts_where_somebody_was_there(
    trouble: Exception, left: int
) -> None:
    backend, budget = answering(saying(trouble)), CallBudget(3)
    with pytest.raises(ModelUnavailable):
        await ask(backend, budget=budget)
    assert budget.left == left


async def test_each_request_of_one_call_counts_and_none_is_sent_past_the_budget() -> None:
    class Repeating(FakeBackend):
        """Refuses every request, and is asked again without its extras within the same call."""

        requests = 0

        async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
            self.calls.append(call)
            for _ in range(2 if call.extras else 1):
                yield Sent({})
                self.requests += 1
            raise ModelRefused("no")

    for allowed in (1, 2, 3, 4):
        backend, budget = Repeating(), CallBudget(allowed)
        with pytest.raises(FailsAgain):
            await ask(backend, schema=SCHEMA, budget=budget)
        assert (backend.requests, budget.left) == (min(allowed, 3), max(0, allowed - 3))
        assert [call.extras for call in backend.calls] == [True, False][: 1 + (allowed > 2)]


async def test_where_no_call_is_left_nothing_is_asked_again_without_its_schema() -> None:
    with pytest.raises(ModelUnavailable, match="refused"):
        await ask(answering(refusing_schema("{}")), schema=SCHEMA, budget=CallBudget(1))
