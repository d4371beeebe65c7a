"""What the journal of chats promises, of SQLite: a turn has its place when it arrives, and every prompt is kept."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.chat import Accepted, AnswerText, ChatRequest, ContextBlock, Epoch, SentPrompt
from recollect.domain.model import Append, JsonObject, NewTurn, Status, Thread, ThreadRef, Turn
from recollect.domain.prompt import prompt_bytes
from recollect.errors import Conflict, InvalidInput
from tests.contract.journals import Journal
from tests.fakes import START

EPOCH = Epoch(1, 1, "the conversation begins", "digest", "default/", 0)


class Chats(Journal):
    async def ask(
        self, *texts: str, thread: str = "t", skip_reason: str | None = None, **fields: Any
    ) -> Accepted:
        turns = tuple(NewTurn("user", text, self.clock(), "ann") for text in texts)
        request = ChatRequest(thread, turns, user_id="ann", **fields)
        return await self.chats.accept("default", request, skip_reason)

    async def send(self, accepted: Accepted, *messages: str, **fields: Any) -> None:
        prompt = self.prompt(*messages, **fields)
        await self.chats.begin(accepted, prompt)

    def prompt(self, *messages: str, **fields: Any) -> SentPrompt:
        said: list[JsonObject] = [{"role": "user", "content": text} for text in messages]
        prompt = SentPrompt(EPOCH, True, None, None, prompt_bytes(said), 0, {"epoch": 1})
        return replace(prompt, **fields)

    async def answer(self, accepted: Accepted, text: str, status: Status = "complete", **fields: Any) -> Turn:
        texts = [AnswerText(text)] * len(accepted.answers)
        turn, _ = await self.chats.finish(accepted, texts, status=status, **fields)
        return turn

    async def sent(self, turn_id: str, thread: str = "t") -> list[str]:
        """The messages of the prompt that is kept for an answer."""
        receipt = await self.chats.prompt(ThreadRef("default", "ann", thread), turn_id)
        assert receipt is not None
        return [str(message["content"]) for message in receipt.messages]

    async def path(self, accepted: Accepted) -> list[str]:
        found = await self.chats.conversation(accepted, 10)
        return [each.turn.content for each in found.path]

    async def kinds(self) -> set[str]:
        return {job.kind for job in await self.waiting()}

    async def turns(self, thread: str = "t") -> list[tuple[str, str, str]]:
        return [(turn.role, turn.content, turn.status) for turn in await self.history(thread)]


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Chats]:
    async with Chats(tmp_path / "journal.db") as journal:
        yield journal


async def test_what_is_asked_has_its_place_before_it_is_answered(journal: Chats) -> None:
    first, second = await journal.ask("one"), await journal.ask("two")
    assert [turn.turn_id for turn in (*first.turns, *first.answers)] == ["t-1", "t-2"]
    assert [turn.turn_id for turn in (*second.turns, *second.answers)] == ["t-3", "t-4"]
    assert {status for _, _, status in await journal.turns()} == {"queued"}
    await journal.send(second, "two")
    await journal.answer(second, "second")
    await journal.send(first, "one")
    await journal.answer(first, "first")
    assert [content for _, content, _ in await journal.turns()] == ["one", "first", "two", "second"]


async def test_what_is_added_while_a_chat_streams_lands_behind_it(journal: Chats) -> None:
    asked = await journal.ask("one")
    await journal.send(asked, "one")
    await journal.threads.append(Append("default", "t", [NewTurn("user", "aside", START, "ann")], "ann"))
    await journal.answer(asked, "first")
    assert [content for _, content, _ in await journal.turns()] == ["one", "first", "aside"]


async def test_memory_sees_no_answer_that_is_still_coming(journal: Chats) -> None:
    asked = await journal.ask("one")
    await journal.send(asked, "one")
    assert [turn.content for turn in await journal.cells.look(ThreadRef("default", "ann", "t"), 10)] == [
        "one"
    ]
    await journal.answer(asked, "first")
    assert [turn.content for turn in await journal.cells.look(ThreadRef("default", "ann", "t"), 10)] == [
        "one",
        "first",
    ]


async def test_every_turn_is_accounted_for_whatever_becomes_of_it(journal: Chats) -> None:
    asked = await journal.ask("one")
    await journal.answer(asked, "", "failed")
    await journal.ask("two", skip_reason="memory is off")
    counted = await journal.coverage.coverage(space="default")
    assert (counted.messages, counted.buffered, counted.skipped, counted.missing) == (4, 1, 3, 0)
    assert await journal.coverage.inconsistencies() == []


async def test_what_streams_is_saved_and_survives_a_kill_as_partial(journal: Chats) -> None:
    asked = await journal.ask("one")
    await journal.send(asked, "one")
    await journal.chats.save(asked.thread, asked.answer, AnswerText("the first", "hm"))
    waiting = await journal.ask("two")
    assert await journal.chats.recover() == 3
    assert await journal.turns() == [
        ("user", "one", "complete"), ("assistant", "the first", "partial"),
        ("user", "two", "complete"), ("assistant", "", "failed"),
    ]  # fmt: skip
    assert await journal.coverage.inconsistencies() == []
    assert waiting.answer.turn_id == "t-4"
    receipt = await journal.chats.prompt(ThreadRef("default", "ann", "t"), "t-2")
    assert receipt is not None
    assert "stopped" in receipt.detail["error"]


async def test_a_failed_request_that_others_followed_is_not_said_again(journal: Chats) -> None:
    await journal.answer(await journal.ask("one", key="k"), "", "failed")
    await journal.answer(await journal.ask("one", key="k"), "", "failed")
    await journal.answer(await journal.ask("two"), "yes")
    before = await journal.turns()
    with pytest.raises(Conflict, match="t-3 to this message failed"):
        await journal.ask("one", key="k")
    assert await journal.turns() == before
    assert [said for role, said, _ in before if role == "user"] == ["one", "two"]


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("choices", [1, 2])
async def test_a_message_whose_answers_all_failed_is_said_once_however_often_it_is_sent(
    journal: Chats, key: str | None, choices: int
) -> None:
    await journal.answer(await journal.ask("zero"), "before")
    for _ in range(4):
        await journal.answer(await journal.ask("one", key=key, choices=choices), "", "failed")
    await journal.answer(await journal.ask("one", key=key), "at last")
    turns = await journal.turns()
    assert [said for role, said, _ in turns if role == "user"] == ["zero", "one"]
    assert turns[-1] == ("assistant", "at last", "complete")


async def test_a_message_whose_answers_broke_off_is_not_said_again(journal: Chats) -> None:
    for _ in range(2):
        await journal.answer(await journal.ask("one"), "", "failed")
        await journal.answer(await journal.ask("one"), "half", "partial")
    again = await journal.ask("one")
    assert (again.turns, again.answer.parent_id) == ((), "t-1")
    await journal.answer(again, "all of it")
    await journal.answer(await journal.ask("one"), "said again")
    assert [said for role, said, _ in await journal.turns() if role == "user"] == ["one", "one"]


async def test_prompts_are_read_back_byte_for_byte(journal: Chats) -> None:
    sent = [["a"], ["a", "b", "c"], ["a", "b", "c", "d\u2028e"], ["x", "b"], ["x", "b", "y"]]
    for number, messages in enumerate(sent):
        asked = await journal.ask(f"message {number}")
        await journal.send(asked, *messages)
        payload = {"model": "m", "messages": None}
        await journal.answer(asked, "fine", payload=payload, detail={"cached_tokens": number})
    for number, messages in enumerate(sent):
        receipt = await journal.chats.prompt(ThreadRef("default", "ann", "t"), f"t-{2 * number + 2}")
        assert receipt is not None
        assert [message["content"] for message in receipt.messages] == messages
        assert receipt.payload == {"model": "m", "messages": list(receipt.messages)}
        assert receipt.detail["cached_tokens"] == number


async def test_what_was_sent_may_be_written_down_with_its_answer(journal: Chats) -> None:
    """All that is known afterwards is the same as if it had been written down while it streamed."""
    block = ContextBlock("[Context]", {"m": "d"})
    detail: JsonObject = {"epoch": 1, "cached_tokens": 3}
    for thread, is_begun in (("begun", True), ("at once", False)):
        for text, fields in (("one", {"block": block, "block_position": 1}), ("two", {"opens_epoch": False})):
            asked = await journal.ask(text, thread=thread)
            if is_begun:
                await journal.send(asked, "one", text, **fields)
            prompt = None if is_begun else journal.prompt("one", text, **fields)
            payload = {"model": "m", "messages": None}
            await journal.answer(asked, "fine", prompt=prompt, payload=payload, detail=detail)

    async def known(thread: str) -> list[object]:
        asked = await journal.ask("three", thread=thread)
        made_of = await journal.chats.conversation(asked, 10)
        path = [(each.position, each.block, each.turn.content, each.turn.status) for each in made_of.path]
        receipts = [
            await journal.chats.prompt(ThreadRef("default", "ann", thread), turn) for turn in ("t-2", "t-4")
        ]
        return [made_of.epoch, made_of.last_prompt, path, receipts]

    assert await known("at once") == await known("begun")
    receipt = await journal.chats.prompt(ThreadRef("default", "ann", "at once"), "t-2")
    assert receipt is not None
    assert receipt.detail == detail


async def test_a_block_without_a_memory_is_read_back(journal: Chats) -> None:
    first = await journal.ask("one")
    await journal.send(first, "one", block=ContextBlock("[Context]"), block_position=1)
    await journal.answer(first, "fine")
    found = await journal.chats.conversation(await journal.ask("two"), 10)
    assert [each.block for each in found.path if each.block] == [ContextBlock("[Context]")]


async def test_an_answer_with_a_nul_is_kept_and_ends_its_turn(journal: Chats) -> None:
    """As it is, or with U+FFFD where the database's texts have no NUL."""
    first = await journal.ask("one\0")
    await journal.send(first, "one\0")
    await journal.answer(first, "fine\0.", detail={"error": "a\0b"})
    kept = [
        (role, content.replace("\0", "\ufffd"), status) for role, content, status in await journal.turns()
    ]
    assert kept == [("user", "one\ufffd", "complete"), ("assistant", "fine\ufffd.", "complete")]
    assert len(await journal.path(await journal.ask("two"))) == 2


async def test_a_prompt_that_gives_way_to_another_leaves_those_before_it_readable(journal: Chats) -> None:
    """The first was refused as too long, say, and a shorter one was sent for the same answer."""
    first = await journal.ask("one")
    await journal.send(first, "s", "one")
    await journal.answer(first, "fine")
    second = await journal.ask("two")
    await journal.send(second, "s", "one", "two")
    await journal.send(second, "two")
    await journal.answer(second, "fine")
    for turn, sent in (("t-2", ["s", "one"]), ("t-4", ["two"])):
        assert await journal.sent(turn) == sent


async def test_a_prompt_that_the_disk_takes_after_the_next_one_changes_nothing_of_that(
    journal: Chats,
) -> None:
    late, second = await journal.ask("one"), await journal.ask("two")
    await journal.send(second, "one", "two", epoch=replace(EPOCH, reason="later"))
    await journal.answer(second, "fine")
    block = ContextBlock("[Context]", {"m": "d"})
    prompt = journal.prompt("one", block=block, block_position=1)
    await journal.answer(late, "fine", prompt=prompt, payload={"messages": None})
    third = await journal.ask("three")
    made_of = await journal.chats.conversation(third, 10)
    assert made_of.epoch is not None
    assert made_of.epoch.reason == "later"
    assert made_of.last_prompt is not None
    assert made_of.last_prompt.position == 4
    assert [each.block for each in made_of.path] == [None] * 4
    await journal.send(third, "one", "two", "three", opens_epoch=False)
    for turn, sent in (("t-2", ["one"]), ("t-4", ["one", "two"]), ("t-6", ["one", "two", "three"])):
        assert await journal.sent(turn) == sent


async def test_a_second_first_message_has_nothing_before_it(journal: Chats) -> None:
    asked = await journal.ask("one")
    await journal.answer(asked, "to one")
    other = await journal.ask("another", parent_id="t-0")
    assert other.turns[0].parent_id == "t-0"
    assert (await journal.chats.conversation(other, 10)).path == ()
    await journal.answer(other, "to another")
    after = await journal.ask("more")
    assert await journal.path(after) == ["another", "to another"]


async def test_where_a_thread_begins_nothing_can_be_answered_again(journal: Chats) -> None:
    await journal.ask("one")
    with pytest.raises(InvalidInput, match="parent_id"):
        await journal.chats.accept("default", ChatRequest("t", (), parent_id="t-0"))


async def test_the_receipts_of_a_stretch_come_by_turn(journal: Chats) -> None:
    for text in ("one", "two", "three"):
        asked = await journal.ask(text)
        await journal.send(asked, text)
        await journal.answer(asked, f"to {text}", detail={"cached_tokens": len(text)})
    some = (await journal.history("t"))[1:5]
    found = await journal.chats.receipts(ThreadRef("default", "ann", "t"), some)
    assert {turn: receipt["cached_tokens"] for turn, receipt in found.items()} == {"t-2": 3, "t-4": 3}
    assert await journal.chats.receipts(ThreadRef("other", "ann", "t"), some) == {}


async def test_an_incognito_thread_leaves_no_prompt_and_no_work(journal: Chats) -> None:
    await journal.threads.create_thread(Thread("default", "t", "ann", START, START, incognito=True))
    asked = await journal.ask("a secret")
    await journal.send(asked, "a secret")
    await journal.answer(asked, "hush")
    assert await journal.chats.prompt(ThreadRef("default", "ann", "t"), "t-2") is None
    assert await journal.kinds() == set()


async def test_a_summary_is_for_the_thread_and_the_epoch_it_was_made_in(journal: Chats) -> None:
    for thread in ("another", "t", "a third"):
        asked = await journal.ask("one", thread=thread)
        await journal.send(asked, "one")
        await journal.answer(asked, "first")
    await journal.chats.keep(ThreadRef("default", "ann", "another"), 1, 3, "d", "what another said")
    await journal.chats.keep(ThreadRef("default", "ann", "t"), 1, 3, "d", "what was said")
    await journal.chats.keep(ThreadRef("default", "ann", "t"), 7, 3, "d", "too late")
    found = await journal.chats.conversation(await journal.ask("two"), 10)
    assert found.summary is not None
    assert (found.summary.cut, found.summary.text) == (3, "what was said")
    assert (await journal.chats.conversation(await journal.ask("two", thread="a third"), 10)).summary is None


async def test_a_summary_that_is_ready_goes_on_to_the_next_epoch(journal: Chats) -> None:
    first, second = await journal.ask("one"), await journal.ask("two")
    await journal.send(first, "one")
    await journal.answer(first, "first")
    await journal.chats.keep(ThreadRef("default", "ann", "t"), 1, 3, "d", "what was said")
    await journal.send(second, "two", epoch=replace(EPOCH, number=2, blocks_from=3))
    await journal.answer(second, "second")
    found = await journal.chats.conversation(await journal.ask("three"), 10)
    assert found.epoch is not None
    assert (found.epoch.number, found.epoch.blocks_from) == (2, 3)
    assert found.summary is not None
    assert found.summary.text == "what was said"


async def test_a_thread_that_is_forgotten_takes_everything_with_it(journal: Chats) -> None:
    asked = await journal.ask("one", key="k")
    await journal.send(asked, "one", block=ContextBlock("[Context]"), block_position=1)
    await journal.answer(asked, "first")
    await journal.delete("t")
    again = await journal.ask("two")
    found = await journal.chats.conversation(again, 10)
    assert (found.path, found.epoch, found.last_prompt) == ((), None, None)
    assert await journal.chats.requested(ThreadRef("default", "ann", "t"), "k") is None


async def test_the_costs_of_the_last_prompts_are_told_oldest_first_each_user_for_themselves(
    journal: Chats,
) -> None:
    for number, text in enumerate(("one", "two", "three")):
        asked = await journal.ask(text)
        await journal.send(asked, text)
        told = {"cached_tokens": number, "evaluated_tokens": 10, "time_to_first_token_ms": 1.5}
        await journal.answer(asked, "so", payload={"messages": []}, detail=told)
    unanswered = await journal.ask("four")
    await journal.send(unanswered, "four")
    found = await journal.chats.prompt_costs("default", "ann", 2)
    assert [(cost.turn_id, cost.cached_tokens, cost.evaluated_tokens) for cost in found] == [
        ("t-4", 1, 10),
        ("t-6", 2, 10),
    ]
    assert await journal.chats.prompt_costs("default", "bob", 2) == []
    assert await journal.chats.prompt_costs("other", None, 2) == []
