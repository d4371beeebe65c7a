"""Which thread a client means that resends its history, and what of it is new."""

from typing import cast

import pytest

from recollect.domain.access import Caller
from recollect.domain.chat import ChatRequest
from recollect.domain.history_matching import (
    said_digest,
)
from recollect.domain.model import Append, NewTurn, Role, ThreadRef
from recollect.errors import InvalidInput
from recollect.service.chat.history_matching import HistoryMatching, ResentHistory
from recollect.service.chat.turn import Chat
from tests.contract.journals import Journal

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Porto", "days": 2}'},
}


def made(role: Role, content: str, **fields: object) -> NewTurn:
    return NewTurn(role, content, 0, role, **fields)  # type: ignore[arg-type]


def asks(text: str) -> NewTurn:
    return made("user", text)


def answers(text: str) -> NewTurn:
    return made("assistant", text)


HISTORY = [asks("hello"), answers("hi")]


@pytest.mark.parametrize(
    "same",
    [
        asks("  hello there\n"),
        made("user", "", parts=[{"type": "text", "text": "hello there"}]),
        made("user", "hello there", parts=[{"type": "text", "text": "hello there "}, {"type": "image_url"}]),
        made("user", "hello there", reasoning="a thought", model="m", message_id="m1"),
    ],
)
def test_what_does_not_change_a_message(same: NewTurn) -> None:
    assert said_digest(same) == said_digest(asks("hello there"))


@pytest.mark.parametrize(
    "other",
    [
        asks("hello  there"),
        answers("hello there"),
        made("tool", "hello there", tool_call_id="c1"),
        made("assistant", "hello there", tool_calls=[CALL]),
        asks("Hello there"),
    ],
)
def test_what_makes_it_another(other: NewTurn) -> None:
    assert said_digest(other) != said_digest(asks("hello there"))


def test_tool_calls_are_compared_by_id_name_and_meaning() -> None:
    def calling(**changes: str) -> bytes | None:
        function = {**CALL["function"], **{k: v for k, v in changes.items() if k != "id"}}  # type: ignore[dict-item]
        call = {**CALL, "id": changes.get("id", "c1"), "function": function}
        return said_digest(made("assistant", "", tool_calls=[call]))

    assert calling(arguments='{"days":2,"city":"Porto"}') == calling()
    assert calling(arguments="{broken") == calling(arguments="{broken")
    different = {calling(), calling(id="c2"), calling(name="time"), calling(arguments="{broken")}
    assert len(different) == 4


def test_results_of_tools_are_told_apart_by_their_calls() -> None:
    assert said_digest(made("tool", "5", tool_call_id="c1")) != said_digest(
        made("tool", "5", tool_call_id="c2")
    )


@pytest.mark.parametrize("nothing", [made("system", "Be brief."), answers(""), answers(" \n")])
def test_instructions_and_empty_answers_are_no_messages(nothing: NewTurn) -> None:
    assert said_digest(nothing) is None


# --- the whole verb -----------------------------------------------------------------------------------------


class RecordingChat:
    """Stands where chats are answered, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.keys: set[tuple[str, str]] = set()
        """Threads, and the keys that were used in them."""

    async def handle_chat_turn(self, caller: Caller, request: ChatRequest) -> None:
        self.requests.append(request)

    async def was_asked(self, thread: ThreadRef, key: str | None) -> bool:
        return (thread.thread_id, key) in self.keys

    @property
    def live(self) -> "RecordingChat":
        return self

    def is_any_running(self, thread: ThreadRef) -> bool:
        return False


class Door:
    def __init__(self, journal: Journal) -> None:
        self.threads = journal.threads
        self.chat = RecordingChat()
        self._resent = HistoryMatching(cast(Chat, self.chat), journal.chains, journal.threads, journal.chats)

    async def knows(self, thread_id: str, *turns: NewTurn, user_id: str = "me") -> None:
        await self.threads.append(Append("default", thread_id, turns, user_id))

    async def asked(
        self,
        *messages: NewTurn,
        thread_id: str | None = None,
        places: tuple[int, ...] = (),
        **fields: object,
    ) -> ChatRequest:
        request = ChatRequest("", **fields)  # type: ignore[arg-type]
        await self._resent.handle(Caller(), ResentHistory(messages, request, thread_id, places))
        return self.chat.requests[-1]


@pytest.fixture
def door(journal: Journal) -> Door:
    return Door(journal)


def given(text: str) -> NewTurn:
    return made("assistant", text, model="m")


def said(turns: tuple[NewTurn, ...]) -> list[str]:
    return [turn.content for turn in turns]


async def test_a_thread_that_ends_with_the_history_goes_on_though_another_was_asked_the_same_next(
    door: Door,
) -> None:
    await door.knows("longer", asks("hello"), given("hi"), asks("one"), given("1"))
    await door.knows("ends here", asks("hello"), given("hi"))
    request = await door.asked(*HISTORY, asks("one"))
    assert (request.thread_id, request.parent_id, said(request.turns)) == ("ends here", "t-2", ["one"])


async def test_a_request_that_is_sent_again_with_its_key_goes_where_it_went(door: Door) -> None:
    await door.knows("longer", asks("hello"), given("hi"), asks("one"), given("1"))
    await door.knows("ends here", asks("hello"), given("hi"))
    door.chat.keys.add(("longer", "k"))
    request = await door.asked(*HISTORY, asks("one"), key="k")
    assert (request.thread_id, request.parent_id) == ("longer", "t-3")


async def test_a_message_that_shows_something_is_said_again(door: Door) -> None:
    await door.knows("t1", asks("hello"), given("hi"), asks("what is this?"), given("a cat"))
    shown = made(
        "user", "what is this?", parts=[{"type": "text", "text": "what is this?"}, {"type": "image_url"}]
    )
    request = await door.asked(*HISTORY, shown)
    assert (request.parent_id, request.turns) == ("t-2", (shown,))


async def test_another_users_thread_is_not_there(door: Door) -> None:
    await door.knows("t1", asks("hello"), given("hi"), user_id="ann")
    bobs = await door.asked(*HISTORY, asks("and now?"), thread_id="t1", user_id="bob")
    assert (bobs.thread_id, bobs.user_id, said(bobs.earlier)) == ("t1", "bob", ["hello", "hi"])
    assert (await door.asked(*HISTORY, asks("and now?"), user_id="bob")).thread_id != "t1"
    owner = await door.asked(*HISTORY, asks("and now?"), thread_id="t1")
    assert owner.user_id == "ann"


async def test_a_request_that_says_nothing_is_refused(door: Door) -> None:
    with pytest.raises(InvalidInput):
        await door.asked(answers(""))


# --- results of tools -----------------------------------------------------------------------------------------


def calls(call_id: str) -> NewTurn:
    call = {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    return made("assistant", "", model="m", tool_calls=[call])


def results(call_id: str | None) -> NewTurn:
    return made("tool", "it rains", tool_call_id=call_id)


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ((results("zz"),), 0),
        ((asks("q"), results("zz")), 1),
        ((asks("q"), calls("a"), results("b")), 2),
        ((asks("q"), calls("a"), asks("never mind"), results("a")), 3),
        ((asks("q"), results(None)), 1),
    ],
)
async def test_a_result_whose_call_nobody_knows_is_refused_by_its_place(
    door: Door, messages: tuple[NewTurn, ...], place: int
) -> None:
    with pytest.raises(InvalidInput, match=rf"messages\[{place}\]") as raised:
        await door.asked(*messages)
    assert raised.value.field == f"messages[{place}].tool_call_id"
    assert door.chat.requests == []


async def test_its_place_is_the_one_that_the_client_gave_it(door: Door) -> None:
    with pytest.raises(InvalidInput, match=r"messages\[7\]"):
        await door.asked(asks("q"), results("zz"), places=(4, 7))


async def test_a_result_alone_answers_the_call_of_the_thread_that_is_named(door: Door) -> None:
    await door.knows("t1", asks("q"), calls("a"))
    assert said((await door.asked(results("a"), thread_id="t1")).turns) == ["it rains"]
    with pytest.raises(InvalidInput):
        await door.asked(results("b"), thread_id="t1")
