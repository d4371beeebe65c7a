"""What each engine is sent, how it is recognised, and what is told of it, against stand-ins of each."""

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from recollect.domain.llm import ChatCall, Delta, Finished, Sent, StreamEvent
from recollect.errors import ModelRefused, UnknownModel
from recollect.infra.backends.openai_compatible import salt_of
from recollect.service.chat.stream import Growing
from tests.standins.standin_engines import (
    CLOUDS,
    Engines,
    StandInEngine,
    engines,
    events_of,
    running_engines,
    text_of,
)

__all__ = ["engines", "running_engines"]

LOCAL = ["llama.cpp", "lmstudio", "vllm", "sglang", "ollama"]
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


def reasoning_of(events: list[StreamEvent]) -> str:
    return "".join(event.reasoning for event in events if isinstance(event, Delta))


def end_of(events: list[StreamEvent]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    return last


# --- what every backend promises --------------------------------------------------------------------------------


@pytest.fixture(params=[*LOCAL, *CLOUDS, "other"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_an_answer_comes_in_pieces_between_what_was_sent_and_the_end(
    kind: str, engines: Engines
) -> None:
    backend = engines.backend(kind)
    first, *deltas, last = await events_of(backend, CALL)
    assert isinstance(first, Sent)
    assert all(message["content"] in str(first.payload) for message in ASKED)
    assert len(deltas) > 2
    assert text_of(deltas) == "You said: Who are you?"
    assert isinstance(last, Finished)
    assert last.reasons == {0: "stop"}
    if kind != "other":  # Nothing it was asked made it tell.
        assert (last.usage.prompt_tokens or 0) >= 6
        assert (last.usage.completion_tokens or 0) >= 4
    few, many = await backend.count_tokens("Hello."), await backend.count_tokens("Hello there. " * 50)
    assert 1 <= few < many <= 650


async def test_choices_and_calls_at_the_same_time_are_answered_each_for_itself(
    kind: str, engines: Engines
) -> None:
    backend = engines.backend(kind)
    calls = [ChatCall([{"role": "user", "content": f"number {n} is mine"}], choices=3) for n in range(8)]
    for number, events in enumerate(await asyncio.gather(*(events_of(backend, call) for call in calls))):
        said = f"You said: number {number} is mine"
        assert [text_of(events, choice) for choice in range(3)] == [said] * 3
        assert end_of(events).reasons == {0: "stop", 1: "stop", 2: "stop"}


@pytest.mark.parametrize("cancels", [False, True], ids=["closed", "cancelled"])
async def test_a_stream_that_is_left_drops_the_request_and_is_no_problem_of_the_backend(
    kind: str, cancels: bool, engines: Engines
) -> None:
    engine, backend, started = engines(kind), engines.backend(kind), asyncio.Event()
    before = engine.dropped()
    engine.control("stall")

    async def chat() -> None:
        async with aclosing(backend.stream(CALL)) as events:
            async for event in events:
                if isinstance(event, Delta):
                    started.set()
                    if not cancels:
                        return

    running = asyncio.create_task(chat())
    await started.wait()
    if cancels:
        running.cancel()
    await asyncio.wait([running])
    assert (running.cancelled(), engine.dropped(at_least=before + 1)) == (cancels, before + 1)
    assert backend.problem() is None


async def test_a_model_that_it_has_not_is_refused_with_the_names_of_those_it_has(
    kind: str, engines: Engines
) -> None:
    backend = engines.backend(kind)
    facts = await backend.facts()
    if facts.selects_by_name:
        with pytest.raises(UnknownModel) as raised:
            await events_of(backend, replace(CALL, model="nobody-9000"))
        assert raised.value.field == "model"
        assert facts.models[0] in raised.value.message


# --- what each backend gets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "on_top"),
    [
        ("llama.cpp", {"id_slot": 1}),
        ("lmstudio", {}),
        ("vllm", {"cache_salt": salt_of("work")}),
        ("sglang", {}),
        ("ollama", {}),
    ],
)
async def test_a_local_backend_gets_the_session_of_a_thread_and_what_its_engine_takes(
    kind: str, on_top: dict[str, Any], engines: Engines
) -> None:
    body = await engines.sent(kind, CALL)
    extras = {name: body[name] for name in body.keys() & EXTRAS}
    assert extras == {"session_id": "c0ffee", "cache_prompt": True, **on_top}
    alone = await engines.sent(kind, ChatCall(ASKED))
    assert alone.keys() & {"session_id", "cache_prompt", "id_slot"} == set()


@pytest.mark.parametrize("kind", [*CLOUDS, "other", "llama.cpp", "lmstudio", "vllm", "sglang"])
async def test_what_is_not_local_gets_no_field_that_it_may_not_know(kind: str, engines: Engines) -> None:
    sneaked_in = replace(CALL, options=dict.fromkeys(EXTRAS, "sneaked in"))
    body = await engines.sent(kind, sneaked_in, local=False)
    assert body.keys() & EXTRAS == set()


def test_a_salt_is_the_spaces_own_and_does_not_tell_its_name() -> None:
    assert salt_of("work") == salt_of("work") != salt_of("home")
    assert "work" not in salt_of("work")


async def test_openai_gets_a_cache_key_for_a_thread_and_the_limit_under_the_name_all_its_models_know(
    engines: Engines,
) -> None:
    body = await engines.sent("openai", replace(CALL, max_tokens=50))
    assert (body["prompt_cache_key"], body["max_completion_tokens"]) == ("c0ffee", 50)
    assert "max_tokens" not in body
    assert "prompt_cache_key" not in await engines.sent("openai", ChatCall(ASKED))


async def test_ollama_is_told_the_size_of_the_context_and_to_stay_loaded(engines: Engines) -> None:
    body = await engines.sent("ollama", replace(CALL, max_tokens=50))
    assert body["options"] == {"num_predict": 50, "num_ctx": 8192}
    assert body["keep_alive"] == "30m"
    assert (await engines.backend("ollama", context_tokens=20_000).facts()).context_tokens == 20_000
    bigger = await engines.sent("ollama", CALL, context_tokens=20_000)
    assert bigger["options"]["num_ctx"] == 20_000


async def test_a_local_server_that_refuses_the_extras_is_asked_without(engines: Engines) -> None:
    events = await events_of(engines.backend("other"), CALL)
    assert text_of(events) == "You said: Who are you?"
    with_extras, without = [event.payload for event in events if isinstance(event, Sent)]
    assert with_extras["session_id"] == "c0ffee"
    assert without.keys() & {*EXTRAS, "stream_options"} == set()


async def test_options_of_the_caller_pass_and_the_gateways_own_fields_do_not(engines: Engines) -> None:
    options = {"temperature": 0.2, "stop": ["END"], "n": 9, "stream": False, "session_id": "forged"}
    body = await engines.sent("llama.cpp", replace(CALL, options=options))
    assert (body["temperature"], body["stop"]) == (0.2, ["END"])
    assert (body.get("n"), body["stream"], body["session_id"]) == (None, True, "c0ffee")


SAMPLING = {"top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1, "chat_template_kwargs": {"thinking": True}}
PROBABLE = {"logprobs": True, "top_logprobs": 2}


@pytest.mark.parametrize(
    ("kind", "gets"),
    [
        ("vllm", {**SAMPLING, **PROBABLE}),
        ("sglang", {**SAMPLING, **PROBABLE}),
        ("llama.cpp", {"top_k": 40, "min_p": 0.1, "repeat_penalty": 1.1, **PROBABLE,
                       "chat_template_kwargs": {"thinking": True}}),
        ("lmstudio", {"top_k": 40, "min_p": 0.1, "repeat_penalty": 1.1, **PROBABLE,
                      "chat_template_kwargs": {"thinking": True}}),
        ("openrouter", {"top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1, **PROBABLE}),
        ("openai", PROBABLE),
        ("anthropic", {"top_k": 40}),
        ("ollama", PROBABLE),
    ],
)  # fmt: skip
async def test_each_engine_gets_the_sampling_that_it_knows_under_its_names(
    kind: str, gets: dict[str, Any], engines: Engines
) -> None:
    body = await engines.sent(kind, replace(CALL, options={**SAMPLING, **PROBABLE}))
    names = {*SAMPLING, *PROBABLE, "repeat_penalty"}
    assert {name: value for name, value in body.items() if name in names} == gets
    if kind == "ollama":
        told = {"top_k": 40, "min_p": 0.1, "repeat_penalty": 1.1}
        assert {name: body["options"][name] for name in told} == told


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "openai", "ollama"])
async def test_log_probabilities_come_with_the_words(kind: str, engines: Engines) -> None:
    events = await events_of(engines.backend(kind), replace(CALL, options=PROBABLE))
    told = [each["token"] for event in events if isinstance(event, Delta) for each in event.logprobs]
    assert "".join(told) == text_of(events)


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


async def test_anthropic_gets_system_tools_results_and_images_in_its_own_shape(engines: Engines) -> None:
    call = ChatCall(conversation(), options={"tools": TOOLS, "tool_choice": "required", "stop": "END"})
    body = await engines.sent("anthropic", call)
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


async def test_anthropic_gets_its_signed_thoughts_back_and_others_don_t(engines: Engines) -> None:
    thought = {"type": "thinking", "thinking": "a city", "signature": "c2lnbmVk"}
    engines("anthropic").control("answer", reasoning="a city", signature="c2lnbmVk", tool_call=True)
    wanted = replace(CALL, options={"tools": TOOLS, "thinking": {"type": "adaptive"}})
    events = await events_of(engines.backend("anthropic"), wanted)
    growing = Growing()
    for event in events:
        if isinstance(event, Delta):
            growing.add(event)
    (call,) = growing.answer.tool_calls
    asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    told = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
    again = replace(wanted, messages=[*CALL.messages, asked, told])
    engines("anthropic").control("answer")
    body = await engines.sent("anthropic", again)
    assert body["messages"][-2]["content"][0] == thought
    assert "c2lnbmVk" not in json.dumps(await engines.sent("vllm", again))


async def test_anthropic_gets_four_breakpoints_for_a_thread_and_none_for_a_single_call(
    engines: Engines,
) -> None:
    long = [
        *conversation(),
        {"role": "assistant", "content": "Rain."},
        {"role": "user", "content": "Thanks."},
    ]
    body = await engines.sent("anthropic", ChatCall(long, session="c0ffee", options={"tools": TOOLS}))
    assert str(body).count("cache_control") == 4
    assert "cache_control" in body["system"][-1]
    assert "cache_control" in body["tools"][-1]
    users = [message for message in body["messages"] if message["role"] == "user"]
    assert ["cache_control" in user["content"][-1] for user in users] == [False, True, True]
    alone = await engines.sent("anthropic", ChatCall(long, options={"tools": TOOLS}))
    assert "cache_control" not in str(alone)


async def test_anthropic_is_given_a_schema_as_the_one_tool_that_it_must_call(engines: Engines) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    engines("anthropic").control("answer", tool_call=True)
    events = await events_of(engines.backend("anthropic"), replace(CALL, options={"response_format": wanted}))
    body = engines("anthropic").chats()[-1]
    assert body["tools"] == [{"name": "answer", "input_schema": schema} | _breakpoint_of(body["tools"][0])]
    assert body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert (text_of(events), end_of(events).reasons) == ('{"city": "Porto"}', {0: "stop"})
    with_tools = await engines.sent(
        "anthropic", replace(CALL, options={"tools": TOOLS, "response_format": wanted})
    )
    assert [tool["name"] for tool in with_tools["tools"]] == ["weather"]


def _breakpoint_of(tool: dict[str, Any]) -> dict[str, Any]:
    return {name: tool[name] for name in ("cache_control",) if name in tool}


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("llama.cpp", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("vllm", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("ollama", {"think": False}),
        ("openai", {"reasoning_effort": "low"}),
        ("openrouter", {"reasoning_effort": "low"}),
    ],
)
async def test_each_engine_is_asked_for_few_thoughts_in_its_own_way(
    kind: str, asked: dict[str, Any], engines: Engines
) -> None:
    body = await engines.sent(kind, replace(CALL, thinks_little=True))
    assert {name: body.get(name) for name in asked} == asked
    assert asked.keys().isdisjoint(await engines.sent(kind, CALL))


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Unsupported value: 'temperature' does not support 0 with this model.", "temperature"),
        ("the prompt exceeds the context", None),
    ],
)
async def test_a_refusal_names_the_field_that_the_server_named(
    message: str, field: str | None, engines: Engines
) -> None:
    engines("openai").control("status", status=400, message=message)
    with pytest.raises(ModelRefused) as caught:
        await events_of(engines.backend("openai"), replace(CALL, options={"temperature": 0}))
    assert caught.value.field == field


async def test_anthropics_key_goes_into_its_own_header(engines: Engines) -> None:
    await engines.sent("anthropic", CALL, api_key="sk-ant-1")
    headers = engines("anthropic").requests()[-1]["headers"]
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-ant-1", "2023-06-01")
    assert "authorization" not in headers


async def test_ollama_gets_tools_results_images_and_schemas_in_its_own_shape(engines: Engines) -> None:
    schema = {"type": "object"}
    options = {
        "tools": TOOLS,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }
    body = await engines.sent("ollama", ChatCall(conversation(), options=options))
    assert (body["format"], body["tools"], body["options"]["temperature"]) == (schema, TOOLS, 0)
    called, answered, asked = body["messages"][2:]
    assert called["tool_calls"] == [{"function": {"name": "weather", "arguments": {"city": "Porto"}}}]
    assert answered == {"role": "tool", "content": "rain", "tool_name": "weather"}
    assert asked == {"role": "user", "content": "And here?", "images": [PIXEL]}


@pytest.mark.parametrize("kind", [*LOCAL, *CLOUDS])
async def test_a_call_of_a_tool_comes_back_in_fragments_of_openais_shape(kind: str, engines: Engines) -> None:
    engines(kind).control("answer", tool_call=True)
    events = await events_of(engines.backend(kind), replace(CALL, options={"tools": TOOLS}))
    fragments = [call for event in events if isinstance(event, Delta) for call in event.tool_calls]
    assert {fragment["index"] for fragment in fragments} == {0}
    assert fragments[0]["id"]
    assert fragments[0]["function"]["name"] == "weather"
    assert "".join(fragment["function"]["arguments"] for fragment in fragments) == '{"city": "Porto"}'
    assert end_of(events).reasons == {0: "tool_calls"}


@pytest.mark.parametrize("kind", [*LOCAL, *CLOUDS])
async def test_reasoning_comes_apart_from_the_answer(kind: str, engines: Engines) -> None:
    field = "reasoning" if kind == "openrouter" else "reasoning_content"
    engines(kind).control("answer", answer="Four.", reasoning="Two and two.", reasoning_field=field)
    events = await events_of(engines.backend(kind), CALL)
    assert (text_of(events), reasoning_of(events)) == ("Four.", "Two and two.")


@pytest.mark.parametrize(("kind", "split"), [("llama.cpp", True), ("ollama", True), ("openai", False)])
async def test_thoughts_in_the_text_are_told_apart_on_local_backends_only(
    kind: str, split: bool, engines: Engines
) -> None:
    answer = "<think> Two and two. </think> Four, not <think>five</think>."
    engines(kind).control("answer", answer=answer)
    events = await events_of(engines.backend(kind), CALL)
    told = (text_of(events).strip(), reasoning_of(events).strip())
    assert told == (("Four, not <think>five</think>.", "Two and two.") if split else (answer, ""))


# --- what each backend tells ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["llama.cpp", "lmstudio", "vllm", "sglang", "openai", "openrouter", "anthropic"]
)
async def test_a_prompt_that_grows_at_its_end_is_told_as_cached(kind: str, engines: Engines) -> None:
    backend = engines.backend(kind)
    first = [ASKED[0], {"role": "user", "content": f"This is about {kind} and nothing else."}]
    answer = await events_of(backend, replace(CALL, messages=first))
    before = end_of(answer).usage.prompt_tokens
    longer = [
        *first,
        {"role": "assistant", "content": text_of(answer)},
        {"role": "user", "content": "Go on."},
    ]
    usage = end_of(await events_of(backend, replace(CALL, messages=longer))).usage
    assert before is not None
    assert usage.cached_tokens is not None
    assert usage.cached_tokens >= before
    assert usage.evaluated_tokens is not None
    assert usage.cached_tokens + usage.evaluated_tokens == usage.prompt_tokens
    assert usage.evaluated_tokens <= 4


@pytest.mark.parametrize("kind", LOCAL)
async def test_an_engine_is_recognised_by_asking_it(kind: str, engines: Engines) -> None:
    facts = await engines.backend(kind).facts()
    assert (facts.kind, facts.local) == (kind, True)
    assert facts.models
    assert facts.context_tokens in (4096, 8192, 16384, 12288)


async def test_llama_cpp_tells_its_slots_and_what_its_template_wants(engines: Engines) -> None:
    template = (
        "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}"
        "{{ message.content.split('</think>')[-1] }}"
    )
    with StandInEngine("llama.cpp", arguments=("--template", template)) as llama:
        facts = await engines.backend_at(llama.base_url).facts()
    assert (facts.slots, facts.context_tokens, facts.selects_by_name) == (2, 4096, False)
    assert (facts.alternating_roles, facts.drops_reasoning) == (True, True)


async def test_without_a_template_the_models_name_tells_what_it_wants(engines: Engines) -> None:
    gemma = await engines.backend("lmstudio").facts()
    assert (gemma.models[0], gemma.alternating_roles) == ("google/gemma-3-4b", True)
    qwen = await engines.backend("lmstudio", model="qwen3-8b").facts()
    assert (qwen.alternating_roles, qwen.drops_reasoning) == (False, True)


async def test_a_kind_that_is_set_is_not_asked_for(engines: Engines) -> None:
    llama = engines("llama.cpp")
    before = len(llama.requests())
    facts = await engines.backend_at(llama.base_url, kind="vllm").facts()
    assert facts.kind == "vllm"
    assert {request["path"] for request in llama.requests()[before:]} == {"/version", "/v1/models"}


async def test_llama_cpp_counts_tokens_with_its_own_tokenizer(engines: Engines) -> None:
    assert await engines.backend("llama.cpp").count_tokens("one two three") == 3
    assert await engines.backend("vllm").count_tokens("one two three") == 4


@pytest.mark.parametrize(
    ("kind", "asked", "sent"),
    [
        ("ollama", "llama3.2", "llama3.2:latest"),
        ("ollama", "ollama/Qwen3:8B", "qwen3:8b"),
        ("lmstudio", "Qwen3-8B", "qwen/qwen3-8b"),
        ("lmstudio", "/models/gemma-3-4b.gguf", "google/gemma-3-4b"),
        ("openai", "openai/gpt-5", "gpt-5"),
        ("anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("llama.cpp", "whatever", "whatever"),
    ],
)
async def test_a_models_name_is_understood_in_other_spellings(
    kind: str, asked: str, sent: str, engines: Engines
) -> None:
    assert (await engines.sent(kind, replace(CALL, model=asked)))["model"] == sent
