"""Prompts are put together in one place, and only grow at their end; memories in them, and their window."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.chat import ChatRequest, ContextBlock, SentTurn
from recollect.domain.context_lines import HEADING, Memory, memory_line, render_memories
from recollect.domain.model import JsonObject, Role, Turn
from recollect.domain.prompt import (
    NO_RESULT,
    SAFETY_POLICY,
    Instructions,
    Window,
    answer_tokens,
    block_tokens,
    build_contextual_messages,
    common_prefix,
    current_datetime_context_message,
    epoch_block_tokens,
    half,
    planned_cut,
    prompt_bytes,
    shares,
)
from tests.unit.awkward_text import texts

NOW = 1_763_211_780_000
PLAIN = Instructions(("Be kind.",))


def turn(role: Role, content: str = "", number: int = 1, **fields: object) -> Turn:
    return replace(Turn(f"t-{number}", f"m{number}", role, role, content, NOW), **fields)  # type: ignore[arg-type]


def sent(*turns: Turn) -> list[SentTurn]:
    return [SentTurn(each) for each in turns]


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
    assert (
        current_datetime_context_message(NOW)["content"]
        == "Current date and time: Saturday, 2025-11-15 13:03 (UTC)"
    )


def call(name: str) -> JsonObject:
    return {"id": name, "type": "function", "function": {"name": "weather", "arguments": "{}"}}


def test_tool_results_follow_their_calls() -> None:
    history = sent(
        turn("user", "weather?"),
        turn("assistant", "", tool_calls=[call("c1")]),
        turn("tool", "sunny", tool_call_id="c1"),
    )
    built = build_contextual_messages(PLAIN, history, [turn("user", "thanks")])
    assert [message["role"] for message in built.messages[1:]] == ["user", "assistant", "tool", "user"]
    assert built.messages[3] == {"role": "tool", "tool_call_id": "c1", "content": "sunny"}


def test_a_call_without_a_result_gets_one_that_says_so_and_a_result_without_a_call_is_left_out() -> None:
    history = sent(
        turn("tool", "orphan", tool_call_id="c0"),
        turn("user", "weather?"),
        turn("assistant", "", tool_calls=[call("c1"), call("c2")]),
        turn("tool", "sunny", tool_call_id="c2"),
    )
    built = build_contextual_messages(PLAIN, history, [turn("user", "never mind")])
    tools = {m["tool_call_id"]: m["content"] for m in built.messages if m["role"] == "tool"}
    assert tools == {"c1": NO_RESULT, "c2": "sunny"}


@pytest.mark.parametrize("hidden", ["<|im_end|>", "\\u003c|im_end|>"])
def test_no_control_token_hides_under_a_name_that_a_call_has_twice(hidden: str) -> None:
    """Some servers take the first of two, others the last."""
    made = call("c1")
    made["function"]["arguments"] = f'{{"a": "{hidden}", "a": "x"}}'
    history = sent(turn("user", "weather?"), turn("assistant", "", tool_calls=[made]))
    built = build_contextual_messages(PLAIN, history, [turn("user", "thanks")])
    (asked,) = [each for each in built.messages if "tool_calls" in each]
    assert asked["tool_calls"][0]["function"]["arguments"] == '{"a": "x"}'


def test_a_call_that_broke_off_is_not_sent() -> None:
    broken = turn("assistant", "let me see", tool_calls=[call("c1")], status="partial")
    built = build_contextual_messages(PLAIN, [SentTurn(broken)], [turn("user", "go on")])
    assert built.messages[1] == {"role": "assistant", "content": "let me see"}


def test_an_answer_that_never_came_is_left_out() -> None:
    failed = turn("assistant", "", status="failed")
    built = build_contextual_messages(PLAIN, sent(turn("user", "one"), failed), [turn("user", "two")])
    assert contents(built.messages)[1:] == ["one", "two"]


def test_the_block_stands_before_the_words_and_never_between_a_call_and_its_result() -> None:
    history = sent(turn("user", "weather?"), turn("assistant", "", tool_calls=[call("c1")]))
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


# Recalled memories stand in a prompt as quotations, one line each

MAY_8 = 1_778_248_980_000


def memory(text: str = "My sister Marta is moving to Porto!", **fields: object) -> Memory:
    given_fields: dict[str, object] = {
        "id": "t0:1", "digest": "d", "text": text, "sender": "Ann", "role": "user", "timestamp": MAY_8,
        "thread_id": "t0", "message_ids": ("m1",), "score": 1.0, **fields,
    }  # fmt: skip
    return Memory(**given_fields)  # type: ignore[arg-type]


def test_a_memory_is_one_line_that_says_when_and_who() -> None:
    assert memory_line(memory()) == '- 2026-05-08, Ann said: "My sister Marta is moving to Porto!"'


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"role": "assistant", "sender": "gpt"}, "the assistant said"),
        ({"sender": "user"}, "the user said"),
        ({"sender": ""}, "the user said"),
        ({"type": "note", "sender": "Packing list"}, 'the note "Packing list" says'),
    ],
)
def test_it_says_who_spoke(fields: dict[str, object], said: str) -> None:
    assert f"2026-05-08, {said}: " in memory_line(memory("It rains.", **fields))


def test_a_correction_is_marked() -> None:
    assert memory_line(memory(correction=True)).startswith("- corrected: 2026-05-08, Ann said: ")


def test_what_no_longer_holds_says_until_when_it_did() -> None:
    line = memory_line(memory("Ann lives in Porto", type="facts", ended=MAY_8 + 86_400_000))
    assert line == '- 2026-05-08, until 2026-05-09, known: "Ann lives in Porto"'


def test_what_a_person_wrote_over_says_when() -> None:
    line = memory_line(memory("Ann lives in Porto", type="facts", corrected=MAY_8 + 86_400_000))
    assert line == '- 2026-05-08, corrected 2026-05-09, known: "Ann lives in Porto"'


def test_all_memories_stand_under_one_heading() -> None:
    lines = render_memories([memory(), memory("It rains.")]).split("\n")
    assert lines[0] == HEADING
    assert len(lines) == 3


def test_no_memories_are_no_text() -> None:
    assert render_memories([]) == ""


@given(texts, texts)
def test_no_text_and_no_name_gets_out_of_its_line(text: str, sender: str) -> None:
    line = memory_line(memory(text, sender=sender))
    assert len(line.splitlines()) == 1
    head, _, quoted = line.partition(": ")
    assert '"' not in head
    assert json.loads(quoted).split() == text.split()


# Windows shrink in halves, at a user's turn, and never leave the newest one behind


def turns(roles: str) -> list[Turn]:
    names: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool"}
    return [Turn(f"t-{n}", f"m{n}", names[role], "x", "word " * 10, 0) for n, role in enumerate(roles, 1)]


def test_the_newer_half_is_kept() -> None:
    talk = turns("uauauauau")
    assert half(talk, [1] * 9, Window(8)) == 6


def test_tokens_count_too() -> None:
    talk = turns("uauauauau")
    assert half(talk, [100] * 9, Window(100, tokens=800)) == 6
    assert half(talk, [10] * 8 + [390], Window(100, tokens=800)) == 8


def test_a_tools_result_is_never_parted_from_its_call() -> None:
    talk = turns("uauatatau")
    assert half(talk, [1] * 9, Window(6)) == 8
    assert half(turns("uatatatat"), [1] * 9, Window(4)) == 0


def test_the_newest_message_is_kept_however_large_it_is() -> None:
    talk = turns("uau")
    assert half(talk, [10, 10, 9_000], Window(10, tokens=800)) == 2


def test_the_cut_that_is_planned_is_the_one_that_is_made() -> None:
    window = Window(8)
    full = turns("uauauauau")
    assert planned_cut(full[:7], [1] * 7, window) == 4
    assert planned_cut(full[:4], [1] * 4, window) is None
    assert window.is_nearly_over(7, 0)
    assert not window.is_nearly_over(6, 0)


def test_room_for_the_answer_and_for_a_block() -> None:
    assert (answer_tokens(300, 2048), answer_tokens(None, 2048), answer_tokens(None, None)) == (
        300,
        512,
        1024,
    )
    shorter = ChatRequest("t", max_tokens=32_000, may_be_shorter=True)
    assert [shorter.answer_limit(None, context) for context in (32_768, 65_536, None)] == [
        8192,
        32_000,
        32_000,
    ]
    assert replace(shorter, may_be_shorter=False).answer_limit(None, 32_768) == 32_000
    assert (block_tokens(2048), block_tokens(100_000), block_tokens(None)) == (122, 1000, 1000)
    assert (epoch_block_tokens(8192), epoch_block_tokens(None)) == (2048, 8192)


@given(st.text("uat", min_size=1, max_size=30), st.integers(2, 12), st.integers(50, 400), st.data())
def test_what_is_kept_ends_with_the_newest_and_begins_with_a_user(
    roles: str, most: int, tokens: int, data: st.DataObject
) -> None:
    talk = turns(roles + "u")
    counts = data.draw(st.lists(st.integers(1, 200), min_size=len(talk), max_size=len(talk)))
    cut = half(talk, counts, Window(most, tokens))
    assert 0 <= cut < len(talk)
    assert cut == 0 or talk[cut].role == "user"
    kept = talk[cut:]
    fits = len(kept) <= max(1, most // 2) and sum(counts[cut:]) <= tokens // 2
    newest_user = max(n for n, turn in enumerate(talk) if turn.role == "user")
    assert fits or cut in (0, newest_user) or all(turn.role != "user" for turn in talk[cut + 1 :])
    assert sum(shares(talk, 1000)) <= 1000
