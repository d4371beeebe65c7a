"""What a server sends is read for what it is worth: counts that are none are not told, calls have their places."""

import json
from typing import Any

import pytest

from recollect.domain.llm import BackendFacts, ChatCall, Delta, Usage
from recollect.infra.backends.anthropic import MessageReader
from recollect.infra.backends.dialect import Outgoing, StrangeAnswerError, ToolCalls
from recollect.infra.backends.ollama import Ollama, OllamaReader
from recollect.infra.backends.openai_compatible import CompletionReader

NO_COUNTS = ["n/a", "12", None, True, -5, 1.5, float("nan"), float("inf"), [1], {"a": 1}, 10**30]


def read_all(reader: Any, *events: dict[str, Any]) -> list[Delta]:
    return [delta for event in events for delta in reader.read(event)]


def chunk(index: Any = 0, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta}]}


# --- counts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", NO_COUNTS)
def test_odd_counts_of_openais_protocol_are_not_told(told: Any) -> None:
    reader = CompletionReader(splits_thoughts=False)
    usage = {
        "prompt_tokens": told,
        "completion_tokens": told,
        "prompt_tokens_details": {"cached_tokens": told},
    }
    read_all(reader, chunk(content="hello"), {"choices": [], "usage": usage, "timings": {"prompt_n": told}})
    assert reader.finished().usage == Usage()


@pytest.mark.parametrize("told", [told for told in NO_COUNTS if told is not None])
def test_odd_counts_of_ollama_and_anthropic_are_not_told(told: Any) -> None:
    ollama = OllamaReader()
    read_all(
        ollama, {"message": {"content": "hi"}, "done": True, "prompt_eval_count": told, "eval_count": told}
    )
    assert ollama.finished().usage == Usage()
    anthropic = MessageReader()
    usage = {"input_tokens": told, "output_tokens": told, "cache_read_input_tokens": told}
    read_all(anthropic, {"type": "message_start", "message": {"usage": usage}}, {"type": "message_stop"})
    assert anthropic.finished().usage == Usage()


def test_counts_that_contradict_each_other_do_not_become_negative() -> None:
    reader = CompletionReader(splits_thoughts=False)
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}}
    read_all(reader, {"choices": [], "usage": usage})
    assert reader.finished().usage == Usage(5, 2, 9, None)


@pytest.mark.parametrize("usage", ["none", [1, 2], 7])
def test_counts_in_no_shape_at_all_cost_nothing_but_themselves(usage: Any) -> None:
    reader = CompletionReader(splits_thoughts=False)
    deltas = read_all(reader, {**chunk(content="hello"), "usage": usage, "timings": usage, "x_groq": usage})
    assert [delta.text for delta in deltas] == ["hello"]
    assert reader.finished().usage == Usage()


def test_a_model_without_a_name_is_not_told() -> None:
    reader = OllamaReader()
    read_all(reader, {"message": {"content": "hi"}, "done": True, "model": {"a": 1}})
    assert reader.finished().model is None


# --- choices and calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [3, -1, "abc", True, 1.0, [0]])
def test_a_choice_that_nobody_asked_for_is_no_part_of_an_answer(index: Any) -> None:
    reader = CompletionReader(splits_thoughts=False, choices=2)
    with pytest.raises(StrangeAnswerError, match="nobody asked for"):
        read_all(reader, chunk(index, content="x"))


def test_choices_that_were_asked_for_and_one_without_a_number_are_taken() -> None:
    reader = CompletionReader(splits_thoughts=False, choices=2)
    deltas = read_all(reader, chunk(1, content="b"), chunk(None, content="a"), {"choices": [{"delta": {}}]})
    assert [(delta.choice, delta.text) for delta in deltas] == [(1, "b"), (0, "a")]


def call(name: str = "f", arguments: Any = "{}", **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("fragments", "places"),
    [
        ([call(index=0, id="a"), call(index=1, id="b")], [0, 1]),
        ([call(index=None, id="a"), call(index=None, id="b")], [0, 1]),
        ([call(id="a"), {"id": "a", "function": {"arguments": "1}"}}, call(id="b")], [0, 0, 1]),
        ([call(id="a"), {"function": {"arguments": "1}"}}, call(id="b")], [0, 0, 1]),
        ([call(), call()], [0, 1]),
        ([{"function": {"arguments": "{}"}}], [0]),
    ],
)
def test_every_fragment_of_a_call_has_its_place(fragments: list[Any], places: list[int]) -> None:
    calls = ToolCalls()
    assert [calls.fragment(fragment)["index"] for fragment in fragments] == places


def test_arguments_that_came_as_an_object_are_text() -> None:
    told = ToolCalls().fragment(call(arguments={"city": "Évora"}, id="a", index=0))
    assert told["function"]["arguments"] == '{"city": "Évora"}'


@pytest.mark.parametrize(
    "told",
    [
        "call",
        call(index="abc"),
        call(index=-1),
        call(index=True),
        {"index": 0, "function": "f"},
        call(arguments=5),
        call(name=7),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_call_is_said_to_be_none(told: Any) -> None:
    with pytest.raises(StrangeAnswerError, match="a tool call"):
        ToolCalls().fragment(told)


# --- Ollama's calls -------------------------------------------------------------------------------------------


def ollama_call_id() -> str:
    reader = OllamaReader()
    told = {"message": {"tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Porto"}}}]}}
    ((fragment,),) = [delta.tool_calls for delta in read_all(reader, told)]
    assert json.loads(fragment["function"]["arguments"]) == {"city": "Porto"}
    return str(fragment["id"])


def test_calls_that_ollama_gives_no_id_have_one_of_their_own_in_every_answer() -> None:
    assert len({ollama_call_id() for _ in range(10)}) == 10


def test_a_result_goes_back_to_ollama_under_the_name_of_its_own_call() -> None:
    def round_of(tool: str) -> list[dict[str, Any]]:
        asked = {"id": "call_0", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        return [
            {"role": "assistant", "content": "", "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": "call_0", "content": f"of {tool}"},
        ]

    messages = [{"role": "user", "content": "hi"}, *round_of("weather"), *round_of("calendar")]
    facts = BackendFacts("ollama", local=True)
    sent = Ollama().payload(Outgoing(ChatCall(messages), "m", facts))["messages"]
    assert [message["tool_name"] for message in sent if message["role"] == "tool"] == ["weather", "calendar"]
