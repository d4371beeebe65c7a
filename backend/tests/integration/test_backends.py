"""What each engine is sent, how it is recognised, and what is told of it, against stand-ins of each."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing
from dataclasses import replace
from typing import Any

import pytest

from recollect.domain.llm import ChatCall, Delta, Finished, Sent, StreamEvent
from recollect.errors import UnknownModel
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.server import Endpoint, Patience
from tests.processes import StandInModel
from tests.standin_engines import StandInEngine

LOCAL = ["llama.cpp", "lmstudio", "vllm", "sglang", "ollama"]
CLOUDS = ["openai", "anthropic", "openrouter"]
EXTRAS = {"session_id", "cache_prompt", "id_slot", "cache_salt"}
ASKED: list[dict[str, Any]] = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "Who are you?"},
]
CALL = ChatCall(ASKED, session="c0ffee", slot=1, space="work")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
PIXEL = "iVBORw0KGgo="

Open = Callable[..., HttpBackend]


@pytest.fixture(scope="module")
def engine() -> Iterator[Callable[[str], StandInEngine]]:
    """Each stand-in is started when it is first needed, and is its polite self again for every test."""
    running: dict[str, StandInEngine] = {}
    with ExitStack() as stack:

        def of(kind: str) -> StandInEngine:
            if kind not in running:
                running[kind] = stack.enter_context(StandInEngine(kind))
            running[kind].control("answer")
            return running[kind]

        yield of


@pytest.fixture
async def open_backend() -> AsyncIterator[Open]:
    opened: list[HttpBackend] = []

    def backend(address: str, **settings: Any) -> HttpBackend:
        opened.append(HttpBackend(Endpoint("gpu", address, patience=Patience(question=10), **settings)))
        return opened[-1]

    yield backend
    for each in opened:
        await each.aclose()


def as_cloud(kind: str) -> dict[str, Any]:
    """A stand-in on this machine for a host of the cloud."""
    return {"kind": kind, "local": False}


async def events_of(backend: HttpBackend, call: ChatCall) -> list[StreamEvent]:
    async with aclosing(backend.stream(call)) as events:
        return [event async for event in events]


async def sent_to(engine: StandInEngine, backend: HttpBackend, call: ChatCall) -> dict[str, Any]:
    """The body that arrived, which must be the one that was told."""
    events = await events_of(backend, call)
    body = engine.chats()[-1]
    assert [event.payload for event in events if isinstance(event, Sent)][-1] == body
    return body


def joined(events: list[StreamEvent]) -> tuple[str, str]:
    deltas = [event for event in events if isinstance(event, Delta)]
    return "".join(delta.text for delta in deltas), "".join(delta.reasoning for delta in deltas)


def end_of(events: list[StreamEvent]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    return last


# --- what each backend gets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LOCAL)
async def test_a_local_backend_gets_the_session_of_a_thread(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    body = await sent_to(engine(kind), open_backend(engine(kind).base_url), CALL)
    assert (body["session_id"], body["cache_prompt"]) == ("c0ffee", True)


@pytest.mark.parametrize("kind", LOCAL)
async def test_a_call_without_a_thread_carries_no_session(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    body = await sent_to(engine(kind), open_backend(engine(kind).base_url), ChatCall(ASKED))
    assert body.keys() & {"session_id", "cache_prompt", "id_slot"} == set()


@pytest.mark.parametrize("kind", [*CLOUDS, "other"])
async def test_a_cloud_gets_no_field_that_it_does_not_know(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    asked = open_backend(engine(kind).base_url, **as_cloud(kind))
    body = await sent_to(engine(kind), asked, replace(CALL, options=dict.fromkeys(EXTRAS, "sneaked in")))
    assert body.keys() & EXTRAS == set()


@pytest.mark.parametrize("kind", ["llama.cpp", "lmstudio", "vllm", "sglang"])
async def test_a_local_engine_at_an_address_that_is_not_local_gets_nothing_extra(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    body = await sent_to(engine(kind), open_backend(engine(kind).base_url, local=False), CALL)
    assert body.keys() & EXTRAS == set()


async def test_only_llama_cpp_gets_the_slot(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    for kind in LOCAL:
        body = await sent_to(engine(kind), open_backend(engine(kind).base_url), CALL)
        assert body.get("id_slot") == (1 if kind == "llama.cpp" else None)


async def test_only_vllm_gets_a_salt_which_is_the_spaces_own_and_does_not_tell_its_name(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    vllm = engine("vllm")
    backend = open_backend(vllm.base_url)
    work = await sent_to(vllm, backend, CALL)
    again = await sent_to(vllm, backend, replace(CALL, session="other"))
    home = await sent_to(vllm, backend, replace(CALL, space="home"))
    assert work["cache_salt"] == again["cache_salt"] != home["cache_salt"]
    assert "work" not in work["cache_salt"]
    for kind in {*LOCAL} - {"vllm"}:
        assert "cache_salt" not in await sent_to(engine(kind), open_backend(engine(kind).base_url), CALL)


async def test_openai_gets_a_cache_key_for_a_thread_and_none_without(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    openai = engine("openai")
    backend = open_backend(openai.base_url, **as_cloud("openai"))
    assert (await sent_to(openai, backend, CALL))["prompt_cache_key"] == "c0ffee"
    assert "prompt_cache_key" not in await sent_to(openai, backend, ChatCall(ASKED))


async def test_openai_gets_the_limit_under_the_name_that_all_its_models_know(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine("openai").base_url, **as_cloud("openai"))
    body = await sent_to(engine("openai"), backend, replace(CALL, max_tokens=50))
    assert (body["max_completion_tokens"], "max_tokens" in body) == (50, False)


async def test_ollama_is_told_the_size_of_the_context_and_to_stay_loaded(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    ollama = engine("ollama")
    body = await sent_to(ollama, open_backend(ollama.base_url), replace(CALL, max_tokens=50))
    assert body["options"] == {"num_predict": 50, "num_ctx": 8192}
    assert body["keep_alive"] == "30m"
    bigger = open_backend(ollama.base_url, context_tokens=20_000)
    assert (await bigger.facts()).context_tokens == 20_000
    assert (await sent_to(ollama, bigger, CALL))["options"]["num_ctx"] == 20_000


@pytest.mark.parametrize("kind", ["llama.cpp", "lmstudio", "vllm", "sglang", "openai", "openrouter"])
async def test_counts_are_asked_for_where_the_engine_tells_them(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    settings = as_cloud(kind) if kind in CLOUDS else {}
    body = await sent_to(engine(kind), open_backend(engine(kind).base_url, **settings), CALL)
    assert body["stream_options"] == {"include_usage": True}


async def test_a_local_server_that_refuses_the_extras_is_asked_without_and_not_offered_them_again(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    strict = engine("other")
    backend = open_backend(strict.base_url)
    before = len(strict.chats())
    events = await events_of(backend, CALL)
    assert joined(events)[0] == "You said: Who are you?"
    with_extras, without = [event.payload for event in events if isinstance(event, Sent)]
    assert with_extras["session_id"] == "c0ffee"
    assert without.keys() & {*EXTRAS, "stream_options"} == set()
    await events_of(backend, CALL)
    assert ["session_id" in body for body in strict.chats()[before:]] == [True, False, False]


async def test_a_request_that_is_refused_for_another_reason_does_not_cost_the_extras(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    llama = engine("llama.cpp")
    backend = open_backend(llama.base_url)
    llama.control("status", status=400, message="the prompt exceeds the context", times=2)
    with pytest.raises(Exception, match="the prompt exceeds the context"):
        await events_of(backend, CALL)
    assert (await sent_to(llama, backend, CALL))["session_id"] == "c0ffee"


async def test_options_of_the_caller_pass_and_the_gateways_own_fields_do_not(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    options = {"temperature": 0.2, "stop": ["END"], "n": 9, "stream": False, "session_id": "forged"}
    body = await sent_to(
        engine("llama.cpp"), open_backend(engine("llama.cpp").base_url), replace(CALL, options=options)
    )
    assert (body["temperature"], body["stop"]) == (0.2, ["END"])
    assert (body.get("n"), body["stream"], body["session_id"]) == (None, True, "c0ffee")


# --- engines with a shape of their own ------------------------------------------------------------------------


def conversation() -> list[dict[str, Any]]:
    call = {
        "id": "call_7",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Porto"}'},
    }
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    return [
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_7", "content": "rain"},
        {"role": "user", "content": [{"type": "text", "text": "And here?"}, picture]},
    ]


async def test_anthropic_gets_system_tools_results_and_images_in_its_own_shape(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    claude = engine("anthropic")
    call = ChatCall(conversation(), options={"tools": TOOLS, "tool_choice": "required", "stop": "END"})
    body = await sent_to(claude, open_backend(claude.base_url, **as_cloud("anthropic")), call)
    assert body["system"] == [{"type": "text", "text": "You are brief."}]
    assert body["max_tokens"] > 0
    assert (body["tool_choice"], body["stop_sequences"]) == ({"type": "any"}, ["END"])
    assert body["tools"][0].keys() == {"name", "description", "input_schema"}
    asked, called, answered = body["messages"]
    assert [asked["role"], called["role"], answered["role"]] == ["user", "assistant", "user"]
    assert called["content"] == [
        {"type": "tool_use", "id": "call_7", "name": "weather", "input": {"city": "Porto"}}
    ]
    result, words, image = answered["content"]
    assert result == {"type": "tool_result", "tool_use_id": "call_7", "content": "rain"}
    assert words == {"type": "text", "text": "And here?"}
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}


async def test_anthropic_gets_four_breakpoints_for_a_thread_and_none_for_a_single_call(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    claude = engine("anthropic")
    backend = open_backend(claude.base_url, **as_cloud("anthropic"))
    long = [
        *conversation(),
        {"role": "assistant", "content": "Rain."},
        {"role": "user", "content": "Thanks."},
    ]
    body = await sent_to(claude, backend, ChatCall(long, session="c0ffee", options={"tools": TOOLS}))
    assert str(body).count("cache_control") == 4
    assert "cache_control" in body["system"][-1]
    assert "cache_control" in body["tools"][-1]
    users = [message for message in body["messages"] if message["role"] == "user"]
    assert ["cache_control" in user["content"][-1] for user in users] == [False, True, True]
    alone = await sent_to(claude, backend, ChatCall(long, options={"tools": TOOLS}))
    assert "cache_control" not in str(alone)


async def test_anthropics_key_goes_into_its_own_header(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    claude = engine("anthropic")
    await events_of(open_backend(claude.base_url, api_key="sk-ant-1", **as_cloud("anthropic")), CALL)
    headers = claude.requests()[-1]["headers"]
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-ant-1", "2023-06-01")
    assert "authorization" not in headers


async def test_ollama_gets_tools_results_images_and_schemas_in_its_own_shape(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    ollama = engine("ollama")
    schema = {"type": "object"}
    options = {
        "tools": TOOLS,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }
    body = await sent_to(ollama, open_backend(ollama.base_url), ChatCall(conversation(), options=options))
    assert (body["format"], body["tools"], body["options"]["temperature"]) == (schema, TOOLS, 0)
    called, answered, asked = body["messages"][2:]
    assert called["tool_calls"] == [{"function": {"name": "weather", "arguments": {"city": "Porto"}}}]
    assert answered == {"role": "tool", "content": "rain", "tool_name": "weather"}
    assert asked == {"role": "user", "content": "And here?", "images": [PIXEL]}


@pytest.mark.parametrize("kind", [*LOCAL, *CLOUDS])
async def test_a_call_of_a_tool_comes_back_in_fragments_of_openais_shape(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    settings = as_cloud(kind) if kind in CLOUDS else {}
    backend = open_backend(engine(kind).base_url, **settings)
    engine(kind).control("answer", tool_call=True)
    events = await events_of(backend, replace(CALL, options={"tools": TOOLS}))
    fragments = [call for event in events if isinstance(event, Delta) for call in event.tool_calls]
    assert {fragment["index"] for fragment in fragments} == {0}
    assert fragments[0]["id"]
    assert fragments[0]["function"]["name"] == "weather"
    assert "".join(fragment["function"]["arguments"] for fragment in fragments) == '{"city": "Porto"}'
    assert end_of(events).reasons == {0: "tool_calls"}


@pytest.mark.parametrize("kind", [*LOCAL, *CLOUDS])
async def test_reasoning_comes_apart_from_the_answer(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    settings = as_cloud(kind) if kind in CLOUDS else {}
    backend = open_backend(engine(kind).base_url, **settings)
    field = "reasoning" if kind == "openrouter" else "reasoning_content"
    engine(kind).control("answer", answer="Four.", reasoning="Two and two.", reasoning_field=field)
    assert joined(await events_of(backend, CALL)) == ("Four.", "Two and two.")


@pytest.mark.parametrize(("kind", "split"), [("llama.cpp", True), ("ollama", True), ("openai", False)])
async def test_thoughts_in_the_text_are_told_apart_on_local_backends_only(
    kind: str, split: bool, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine(kind).base_url, **(as_cloud(kind) if kind in CLOUDS else {}))
    answer = "<think> Two and two. </think> Four, not <think>five</think>."
    engine(kind).control("answer", answer=answer)
    text, reasoning = joined(await events_of(backend, CALL))
    if split:
        assert (text.strip(), reasoning.strip()) == ("Four, not <think>five</think>.", "Two and two.")
    else:
        assert (text, reasoning) == (answer, "")


# --- what each backend tells ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["llama.cpp", "lmstudio", "vllm", "sglang", "openai", "openrouter", "anthropic"]
)
async def test_a_prompt_that_grows_at_its_end_is_told_as_cached(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine(kind).base_url, **(as_cloud(kind) if kind in CLOUDS else {}))
    first = [ASKED[0], {"role": "user", "content": f"This is about {kind} and nothing else."}]
    said = end_of(answer := await events_of(backend, replace(CALL, messages=first)))
    longer = [
        *first,
        {"role": "assistant", "content": joined(answer)[0]},
        {"role": "user", "content": "Go on."},
    ]
    usage = end_of(await events_of(backend, replace(CALL, messages=longer))).usage
    assert said.usage.prompt_tokens is not None
    assert usage.cached_tokens is not None
    assert usage.cached_tokens >= said.usage.prompt_tokens
    assert usage.evaluated_tokens is not None
    assert usage.cached_tokens + usage.evaluated_tokens == usage.prompt_tokens
    assert usage.evaluated_tokens <= 4


@pytest.mark.parametrize("kind", LOCAL)
async def test_an_engine_is_recognised_by_asking_it(
    kind: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    facts = await open_backend(engine(kind).base_url).facts()
    assert (facts.kind, facts.local) == (kind, True)
    assert facts.models
    assert facts.context_tokens in (4096, 8192, 16384, 12288)


async def test_llama_cpp_tells_its_slots_and_what_its_template_wants(open_backend: Open) -> None:
    template = (
        "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}"
        "{{ message.content.split('</think>')[-1] }}"
    )
    with StandInEngine("llama.cpp", arguments=("--template", template)) as llama:
        facts = await open_backend(llama.base_url).facts()
    assert (facts.slots, facts.context_tokens, facts.selects_by_name) == (2, 4096, False)
    assert (facts.alternating_roles, facts.drops_reasoning) == (True, True)


async def test_without_a_template_the_models_name_tells_what_it_wants(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    gemma = await open_backend(engine("lmstudio").base_url).facts()
    assert (gemma.models[0], gemma.alternating_roles) == ("google/gemma-3-4b", True)
    qwen = await open_backend(engine("lmstudio").base_url, model="qwen3-8b").facts()
    assert (qwen.alternating_roles, qwen.drops_reasoning) == (False, True)


async def test_a_kind_that_is_set_is_not_asked_for(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    llama = engine("llama.cpp")
    before = len(llama.requests())
    facts = await open_backend(llama.base_url, kind="vllm").facts()
    assert facts.kind == "vllm"
    assert {request["path"] for request in llama.requests()[before:]} == {"/version", "/v1/models"}


async def test_the_engine_is_asked_once(engine: Callable[[str], StandInEngine], open_backend: Open) -> None:
    llama = engine("llama.cpp")
    backend = open_backend(llama.base_url)
    before = len(llama.requests())
    for _ in range(3):
        await events_of(backend, CALL)
    paths = [request["path"] for request in llama.requests()[before:]]
    assert paths.count("/props") == 1


async def test_llama_cpp_counts_tokens_with_its_own_tokenizer(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    assert await open_backend(engine("llama.cpp").base_url).count_tokens("one two three") == 3
    assert await open_backend(engine("vllm").base_url).count_tokens("one two three") == 4


@pytest.mark.parametrize(
    ("kind", "asked", "sent"),
    [
        ("ollama", "llama3.2", "llama3.2:latest"),
        ("ollama", "ollama/Qwen3:8B", "qwen3:8b"),
        ("lmstudio", "Qwen3-8B", "qwen/qwen3-8b"),
        ("lmstudio", "/models/gemma-3-4b.gguf", "google/gemma-3-4b"),
        ("openai", "openai/gpt-5", "gpt-5"),
        ("anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5"),
    ],
)
async def test_a_models_name_is_understood_in_other_spellings(
    kind: str, asked: str, sent: str, engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine(kind).base_url, **(as_cloud(kind) if kind in CLOUDS else {}))
    assert (await sent_to(engine(kind), backend, replace(CALL, model=asked)))["model"] == sent


async def test_a_wrong_name_is_answered_with_the_ten_nearest_right_ones(open_backend: Open) -> None:
    names = [f"model-{n}" for n in range(20)] + ["qwen3-32b"]
    with StandInEngine("vllm", arguments=("--models", ",".join(names))) as vllm:
        with pytest.raises(UnknownModel) as raised:
            await events_of(open_backend(vllm.base_url), replace(CALL, model="qwen3-30b"))
        told = raised.value.message.partition("It has: ")[2].split(", ")
        assert (told[0], len(told)) == ("qwen3-32b", 10)
        assert vllm.chats() == []


async def test_a_server_with_one_model_takes_any_name(
    engine: Callable[[str], StandInEngine], open_backend: Open
) -> None:
    backend = open_backend(engine("llama.cpp").base_url)
    assert joined(await events_of(backend, replace(CALL, model="whatever")))[0]


async def test_the_stand_in_model_names_only_what_stands_in_its_messages(open_backend: Open) -> None:
    with StandInModel() as model:
        backend = open_backend(model.base_url)
        turns = [
            {"role": "user", "content": "Who is Donald Trump?"},
            {"role": "assistant", "content": "A politician, unlike Marie Curie."},
            {"role": "user", "content": "Who are his children? Not Anna's."},
        ]
        assert joined(await events_of(backend, ChatCall(turns)))[0] == "I see: Donald Trump, Marie Curie"
        assert joined(await events_of(backend, ChatCall(turns[2:])))[0] == "I see: nothing"
        one, two = model.calls()["log"]
    assert one["last_user"] == "Who are his children? Not Anna's."
    assert one["started"] < one["ended"] < two["started"] < two["ended"]
