"""What finding a conversation by its words promises."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.domain.chat import AnswerText, ChatRequest
from recollect.domain.history_matching import Sighting, said_digest
from recollect.domain.model import Append, NewTurn, Role, ThreadRef
from recollect.infra.journal.history_matching import AT_ONCE, BEHIND, MOST_SIGHTINGS
from tests.contract.journals import Journal
from tests.fakes import START


class Conversations(Journal):
    """A journal that is asked for conversations by their words."""

    async def say(self, thread: str, *turns: NewTurn, user_id: str = "ann", space: str = "default") -> None:
        await self.threads.append(Append(space, thread, turns, user_id))

    async def begun(self, *turns: NewTurn, thread: str | None = None, user_id: str = "ann") -> list[Sighting]:
        return await self.chains.from_the_beginning("default", user_id, digests(turns), thread)

    async def went_on(
        self, *turns: NewTurn, longer_than: int = 0, thread: str | None = None
    ) -> list[Sighting]:
        await self.begun(*turns)
        return await self.chains.in_the_middle("default", "ann", digests(turns), longer_than, thread)

    async def edit(self, thread: str, turn_id: str, words: str) -> None:
        turn = await self.threads.turn(await self.threads.meant(thread), turn_id)
        assert turn is not None
        await self.transcripts.revise(ThreadRef("default", "ann", thread), [replace(turn, content=words)], {})

    async def behind(self) -> list[str]:
        """Threads whose turns are still to be taken in."""
        found = await self.database.read(BEHIND, {"space": "default", "user_id": "ann"})
        names = await self.database.read("SELECT pk, thread_id FROM threads")
        return [row["thread_id"] for row in names if row["pk"] in {each["thread_pk"] for each in found}]


@pytest.fixture
async def conversations(tmp_path: Path) -> AsyncIterator[Conversations]:
    async with Conversations(tmp_path / "journal.db") as journal:
        yield journal


def digests(turns: Sequence[NewTurn]) -> list[bytes]:
    return [said for turn in turns if (said := said_digest(turn)) is not None]


def made(role: Role, text: str, parent: str | None = None, model: str | None = None) -> NewTurn:
    return NewTurn(role, text, START, role, parent_id=parent, model=model)


def asks(text: str, parent: str | None = None) -> NewTurn:
    return made("user", text, parent)


def answers(text: str, parent: str | None = None) -> NewTurn:
    return made("assistant", text, parent, "m")


def turn_ids(sightings: list[Sighting]) -> list[tuple[str, str]]:
    return [(sighting.thread_id, sighting.turn_id) for sighting in sightings]


async def test_a_tip_is_found_behind_any_number_of_newer_threads_that_went_on(
    conversations: Conversations,
) -> None:
    await conversations.say("tip", asks("hello"), answers("hi"))
    for number in range(40):
        await conversations.say(f"t{number}", asks("hello"), answers("hi"), asks(f"more {number}"))
    opening = (asks("hello"), answers("hi"))
    for found in (await conversations.begun(*opening), await conversations.went_on(*opening)):
        assert [sighting.thread_id for sighting in found if sighting.is_tip] == ["tip"]


async def test_an_answer_that_never_came_stands_for_its_question(conversations: Conversations) -> None:
    await conversations.say(
        "t1", asks("hello"), NewTurn("assistant", "", START, "assistant", status="failed")
    )
    (sighting,) = await conversations.begun(asks("hello"))
    assert (sighting.turn_id, sighting.silent, sighting.is_tip) == ("t-2", True, True)
    await conversations.say("t1", asks("are you there?"), answers("yes"))
    (sighting,) = await conversations.begun(asks("hello"), asks("are you there?"), answers("yes"))
    assert (sighting.turn_id, sighting.known) == ("t-4", 3)


async def test_an_answer_that_is_still_being_written_is_not_known(conversations: Conversations) -> None:
    await conversations.say(
        "t1", asks("hello"), NewTurn("assistant", "h", START, "assistant", status="streaming")
    )
    (sighting,) = await conversations.begun(asks("hello"), made("assistant", "h"))
    assert (sighting.turn_id, sighting.known, sighting.is_tip) == ("t-1", 1, True)


def under_way() -> NewTurn:
    return NewTurn("assistant", "", START, "assistant", status="streaming")


async def test_a_question_under_way_is_known_to_whoever_sends_it_again(conversations: Conversations) -> None:
    await conversations.say("t1", asks("hello"), answers("hi"))
    assert len(await conversations.begun(asks("hello"), answers("hi"))) == 1
    await conversations.say("t1", asks("how are you?"), under_way())
    (sighting,) = await conversations.begun(asks("hello"), answers("hi"), asks("how are you?"))
    assert (sighting.turn_id, sighting.known, sighting.is_tip) == ("t-3", 3, True)


async def test_a_first_question_under_way_is_known_to_whoever_sends_it_again(
    conversations: Conversations,
) -> None:
    await conversations.say("t1", asks("hello"), under_way())
    (sighting,) = await conversations.begun(asks("hello"))
    assert (sighting.turn_id, sighting.known, sighting.is_tip) == ("t-1", 1, True)


async def test_a_thread_does_not_end_before_a_question_that_is_under_way(
    conversations: Conversations,
) -> None:
    for thread in ("t1", "t2"):
        await conversations.say(thread, asks("hello"), answers("hi"))
    assert len(await conversations.begun(asks("hello"), answers("hi"))) == 2
    await conversations.say("t2", asks("how are you?"), under_way())
    found = await conversations.begun(asks("hello"), answers("hi"), asks("what is new?"))
    assert {sighting.thread_id: sighting.is_tip for sighting in found} == {"t1": True, "t2": False}


async def test_a_question_under_way_that_branches_off_is_known(conversations: Conversations) -> None:
    await conversations.say("t1", asks("hello"), answers("hi"), asks("one"), answers("1"))
    assert len(await conversations.begun(asks("hello"))) == 1
    await conversations.say("t1", asks("two", parent="t-2"), under_way())
    (sighting,) = await conversations.begun(asks("hello"), answers("hi"), asks("two"))
    assert (sighting.turn_id, sighting.known) == ("t-5", 3)


async def test_what_is_known_in_the_middle_is_known_without_gaps(conversations: Conversations) -> None:
    said = [asks("one"), answers("ok"), asks("two"), answers("ok"), asks("three"), answers("ok")]
    await conversations.say("t1", *said)
    (sighting,) = await conversations.went_on(said[0], said[1], said[4], said[5])
    assert (sighting.turn_id, sighting.known) == ("t-2", 2)


async def test_an_edited_message_is_known_by_its_old_words_and_its_new_ones(
    conversations: Conversations,
) -> None:
    old = [asks("My cat is Tom"), answers("Nice"), asks("yes"), answers("ok")]
    await conversations.say("t1", *old)
    assert (await conversations.begun(*old))[0].known == 4
    await conversations.edit("t1", "t-1", "My cat is Tiger")
    new = [asks("My cat is Tiger"), *old[1:]]
    for words in (old, new):
        (sighting,) = await conversations.begun(*words)
        assert (sighting.turn_id, sighting.known) == ("t-4", 4)
    await conversations.say("t1", asks("more"), answers("sure"))
    for words in (old, new):
        (sighting,) = await conversations.begun(*words, asks("more"), answers("sure"))
        assert (sighting.turn_id, sighting.known) == ("t-6", 6)
        (sighting,) = await conversations.went_on(*words[-3:], asks("more"), answers("sure"))
        assert sighting.turn_id == "t-6"


async def test_what_was_forgotten_is_not_known(conversations: Conversations) -> None:
    await conversations.say("t1", asks("hello"), answers("hi"))
    assert len(await conversations.begun(asks("hello"))) == 1
    await conversations.delete("t1")
    assert await conversations.begun(asks("hello")) == []
    await conversations.say("t1", asks("hello"), answers("hi"))
    assert turn_ids(await conversations.begun(asks("hello"), answers("hi"))) == [("t1", "t-4")]


# Long conversations, and many of them


def exchanges(count: int, about: str = "") -> list[NewTurn]:
    pairs = [(asks(f"q{number} {about}"), answers(f"a{number} {about}")) for number in range(count)]
    return [turn for pair in pairs for turn in pair]


async def test_a_thread_longer_than_one_transaction_takes_in_is_known_to_its_tip(
    conversations: Conversations,
) -> None:
    said = exchanges(AT_ONCE)
    await conversations.say("t1", *said)
    (tip,) = await conversations.begun(*said, *exchanges(1, "new"))
    assert (tip.turn_id, tip.known, tip.is_tip) == (f"t-{2 * AT_ONCE}", 2 * AT_ONCE, True)
    (early,) = await conversations.begun(*said[:301], *exchanges(250, "other"))
    assert (early.turn_id, early.known) == ("t-301", 301)
    (dropped,) = await conversations.went_on(*said[100:], *exchanges(1, "new"))
    assert (dropped.turn_id, dropped.known) == (f"t-{2 * AT_ONCE}", 2 * AT_ONCE - 100)


async def test_an_opening_that_thousands_of_threads_share_costs_a_few_rows(
    conversations: Conversations,
) -> None:
    for number in range(200):
        await conversations.say(f"t{number}", *exchanges(1))
    found = await conversations.begun(*exchanges(1)[:1])
    assert len(found) == MOST_SIGHTINGS
    assert found[0].thread_id == "t199"


async def test_more_threads_than_one_transaction_takes_in_are_all_known_and_not_read_again(
    conversations: Conversations,
) -> None:
    many = AT_ONCE + 1
    for number in range(many):
        await conversations.say(f"t{number}", *exchanges(1, str(number)))
    assert len(await conversations.behind()) == AT_ONCE
    for number in (0, many // 2, many - 1):
        found = await conversations.begun(*exchanges(1, str(number)))
        assert [each.thread_id for each in found] == [f"t{number}"]
    assert await conversations.behind() == []


async def test_an_answer_under_way_is_waited_for_without_looking_at_its_thread_each_time(
    conversations: Conversations,
) -> None:
    chats = conversations.chats
    accepted = await chats.accept("default", ChatRequest("t1", (asks("q"),), user_id="ann"))
    (sighting,) = await conversations.begun(asks("q"))
    assert (sighting.turn_id, await conversations.behind()) == ("t-1", [])
    await chats.finish(accepted, [AnswerText("a")], status="complete", model="m")
    assert turn_ids(await conversations.begun(asks("q"), answers("a"))) == [("t1", "t-2")]


async def test_a_question_under_way_elsewhere_makes_nobody_wait_for_a_turn_to_write(
    conversations: Conversations,
) -> None:
    for about in ("mine", "theirs"):
        await conversations.say(about, *exchanges(2, about))
    await conversations.begun(*exchanges(2, "mine"))
    await conversations.chats.accept("default", ChatRequest("theirs", (asks("next"),), user_id="ann"))
    written = conversations.database.connector.operations
    (sighting,) = await conversations.begun(*exchanges(2, "mine"), asks("new"))
    assert (sighting.thread_id, sighting.turn_id, sighting.is_tip) == ("mine", "t-4", True)
    assert conversations.database.connector.operations == written


async def test_what_was_said_leaves_no_digest_behind(conversations: Conversations) -> None:
    await conversations.say("t1", *exchanges(3))
    await conversations.begun(*exchanges(3))
    assert len(await conversations.database.read("SELECT 1 FROM chains")) == 6
    await conversations.delete("t1")
    assert not await conversations.database.read("SELECT 1 FROM chains")
