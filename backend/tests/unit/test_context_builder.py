"""Prompts are put together in one place, and only grow at their end."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.chat import ContextBlock, SentTurn
from recollect.domain.model import JsonObject, Role, Turn
from recollect.domain.prompt import (
    NO_RESULT,
    SAFETY_POLICY,
    Instructions,
    build_contextual_messages,
    clock_line,
    common_prefix,
    current_datetime_context_message,
    prompt_bytes,
)

NOW = 1_763_211_780_000
PLAIN = Instructions(("Be kind.",))


def turn(role: Role, content: str = "", number: int = 1, **fields: object) -> Turn:
    return replace(Turn(f"t-{number}", f"m{number}", role, role, content, NOW), **fields)  # type: ignore[arg-type]


def contents(messages: list[JsonObject]) -> list[object]:
    return [message["content"] for message in messages]


def test_the_order_is_system_summary_history_context_and_words() -> None:
    history = [
        SentTurn(turn("user", "one"), ContextBlock("[Context]\nclock 1")),
        SentTurn(turn("assistant", "two")),
    ]
    built = build_contextual_messages(
        PLAIN, history, [turn("user", "three")], block=ContextBlock("[Context]\nclock 2"), summary="long ago"
    )
    assert [message["role"] for message in built.messages] == [
        "system", "user", "user", "user", "assistant", "user", "user",
    ]  # fmt: skip
    assert contents(built.messages)[2:] == ["[Context]\nclock 1", "one", "two", "[Context]\nclock 2", "three"]
    assert "long ago" in str(built.messages[1]["content"])
    assert built.new_from == 5


def test_the_system_message_holds_instructions_a_blank_line_and_the_policy() -> None:
    assert PLAIN.system_message() == f"Be kind.\n\n{SAFETY_POLICY}"
    assert Instructions().system_message() == SAFETY_POLICY
    assert Instructions(("a", "b")).system_message() == f"a\n\nb\n\n{SAFETY_POLICY}"


def test_the_clock_is_a_user_message_in_the_zone_that_is_asked_for() -> None:
    message = current_datetime_context_message(NOW, "Europe/Berlin")
    assert message["role"] == "user"
    assert message["content"] == (
        "Current date and time: Saturday, 2025-11-15 14:03 (Europe/Berlin, UTC+0100)"
    )
    assert clock_line(NOW) == "Current date and time: Saturday, 2025-11-15 13:03 (UTC)"


def call(name: str) -> JsonObject:
    return {"id": name, "type": "function", "function": {"name": "weather", "arguments": "{}"}}


def test_tool_results_follow_their_calls() -> None:
    history = [
        SentTurn(turn("user", "weather?")),
        SentTurn(turn("assistant", "", tool_calls=[call("c1")])),
        SentTurn(turn("tool", "sunny", tool_call_id="c1")),
    ]
    built = build_contextual_messages(PLAIN, history, [turn("user", "thanks")])
    assert [message["role"] for message in built.messages[1:]] == ["user", "assistant", "tool", "user"]
    assert built.messages[3] == {"role": "tool", "tool_call_id": "c1", "content": "sunny"}


def test_a_call_without_a_result_gets_one_that_says_so_and_a_result_without_a_call_is_left_out() -> None:
    history = [
        SentTurn(turn("tool", "orphan", tool_call_id="c0")),
        SentTurn(turn("user", "weather?")),
        SentTurn(turn("assistant", "", tool_calls=[call("c1"), call("c2")])),
        SentTurn(turn("tool", "sunny", tool_call_id="c2")),
    ]
    built = build_contextual_messages(PLAIN, history, [turn("user", "never mind")])
    tools = {m["tool_call_id"]: m["content"] for m in built.messages if m["role"] == "tool"}
    assert tools == {"c1": NO_RESULT, "c2": "sunny"}


def test_a_call_that_broke_off_is_not_sent() -> None:
    broken = turn("assistant", "let me see", tool_calls=[call("c1")], status="partial")
    built = build_contextual_messages(PLAIN, [SentTurn(broken)], [turn("user", "go on")])
    assert built.messages[1] == {"role": "assistant", "content": "let me see"}


def test_an_answer_that_never_came_is_left_out() -> None:
    failed = turn("assistant", "", status="failed")
    built = build_contextual_messages(
        PLAIN, [SentTurn(turn("user", "one")), SentTurn(failed)], [turn("user", "two")]
    )
    assert contents(built.messages)[1:] == ["one", "two"]


def test_the_block_stands_before_the_words_and_never_between_a_call_and_its_result() -> None:
    history = [SentTurn(turn("user", "weather?")), SentTurn(turn("assistant", "", tool_calls=[call("c1")]))]
    new = [turn("tool", "sunny", tool_call_id="c1"), turn("user", "and tomorrow?")]
    built = build_contextual_messages(PLAIN, history, new, block=ContextBlock("[Context]\nclock"))
    assert [message["role"] for message in built.messages[1:]] == [
        "user",
        "assistant",
        "tool",
        "user",
        "user",
    ]
    assert contents(built.messages)[-2:] == ["[Context]\nclock", "and tomorrow?"]


def test_roles_alternate_where_a_template_wants_it() -> None:
    history = [
        SentTurn(turn("user", "one"), ContextBlock("[Context]\n1")),
        SentTurn(turn("assistant", "two")),
    ]
    parts = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    built = build_contextual_messages(
        PLAIN,
        history,
        [turn("user", "", parts=parts)],
        block=ContextBlock("[Context]\n2"),
        summary="s",
        merge_roles=True,
    )
    assert [message["role"] for message in built.messages] == ["system", "user", "assistant", "user"]
    assert str(built.messages[1]["content"]).endswith("[Context]\n1\n\none")
    assert built.messages[3]["content"] == [{"type": "text", "text": "[Context]\n2"}, *parts]
    assert built.new_from == 3


TEXT = st.text(max_size=20)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=6), TEXT, st.booleans())
def test_whatever_was_said_each_prompt_begins_with_the_one_before(
    rounds: list[tuple[str, str, str]], words: str, merge: bool
) -> None:
    history: list[SentTurn] = []
    before = b""
    for number, (said, answered, block) in enumerate([*rounds, (words, "", "clock")]):
        user = turn("user", said or "?", 2 * number + 1)
        frozen = ContextBlock(block) if block else None
        built = build_contextual_messages(PLAIN, history, [user], block=frozen, merge_roles=merge)
        now = prompt_bytes(built.messages)
        assert now.startswith(before)
        assert [json.loads(line) for line in now.split(b"\n") if line] == built.messages
        history += [
            SentTurn(user, frozen),
            SentTurn(turn("assistant", answered or "!", 2 * number + 2)),
        ]
        before = now


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_the_first_difference_is_where_two_prompts_part(shared: bytes, one: bytes, other: bytes) -> None:
    first, second = shared + one, shared + other
    found = common_prefix(first, second)
    assert first[:found] == second[:found]
    assert found >= len(shared)
    assert found in (len(first), len(second)) or first[found] != second[found]
