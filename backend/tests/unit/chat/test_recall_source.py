"""What recall puts beside a message: the owner's own, near enough, not there already, and never at the turn's expense."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from recollect.domain.access import Caller
from recollect.domain.breaker import Breaker
from recollect.domain.context_lines import Memory, render_memories
from recollect.domain.entries.entry import digest_of_text
from recollect.domain.model import Thread
from recollect.domain.recall.hits import Hit
from recollect.domain.recall.query import Exchange
from recollect.domain.recall.rows import IndexRow, Vectors
from recollect.errors import IndexUnavailable
from recollect.service.chat.always_on_memories import AlwaysOn
from recollect.service.chat.context import Known, Recalled, RecallSource, careful_tokens
from recollect.service.recall.search import Found, Search
from tests.eventually import eventually
from tests.fakes import FakeClock

NOW = 1_780_000_000_000
THREAD = Thread("home", "t1", "ann", created=NOW, updated=NOW)
MARTA = "My sister Marta is moving to Porto!"
QUERY = "Where does Marta live?"


EXCHANGE = (
    "Tell me about my sister Marta",
    "She works in a hospital, paints, and plays chess on many evenings.",
)


def row(text: str = MARTA, position: int = 1, thread_id: str = "t0", role: str = "user") -> IndexRow:
    return IndexRow(
        f"{thread_id}:{position}", "turn", text, NOW, thread_id, position, (f"m{position}",), role, "ann"
    )


class Memories:
    """Finds the rows it was given, all of them alike to any query unless told otherwise."""

    def __init__(self, *rows: IndexRow, alike: float | None = 0.6) -> None:
        self.rows = rows
        self.alike = alike
        self.similarity: dict[str, float] = {}
        self.asked: list[tuple[Caller, Search]] = []
        self.failure: Exception | None = None
        self.held: asyncio.Event | None = None
        self.ended = 0
        self.degraded: list[str] = []
        self.why = {"words": 0.4}
        self.said: dict[str, list[IndexRow]] = {}
        """The messages that each of the facts stands for."""

    async def search(self, caller: Caller, search: Search) -> Found:
        self.asked.append((caller, search))
        if self.held is not None:
            await self.held.wait()
        self.ended += 1
        if self.failure is not None:
            raise self.failure
        why = {**({} if self.alike is None else {"meaning": 0.6}), **self.why}
        found = [Hit(each, each.text, 1.0, why, list(each.message_ids)) for each in self.rows]
        for hit in found:
            hit.said = [Hit(each, each.text, 1.0, why, []) for each in self.said.get(hit.row.row_id, ())]
        vector = np.ones(2, np.float32)
        return Found(hits=found[: search.selection.top_k], degraded=self.degraded, vector=vector)

    async def of(self, space: str, user_id: str, vector: Vectors, row_ids: Sequence[str]) -> dict[str, float]:
        return {} if self.alike is None else {each: self.similarity.get(each, self.alike) for each in row_ids}


def source(
    memories: Memories, clock: FakeClock | None = None, deadline: float = 5.0, always_on: Any = None
) -> RecallSource:
    clock, scripted = clock or FakeClock(100), cast(Any, memories)
    return RecallSource(
        scripted,
        scripted,
        always_on,
        new_breaker=lambda: Breaker(clock),
        clock=clock,
        deadline_seconds=deadline,
    )


async def recall(
    memories: Memories,
    query: str = QUERY,
    *,
    known: Known | None = None,
    by: RecallSource | None = None,
    thread: Thread = THREAD,
    max_tokens: int = 400,
    before: Exchange = ("", ""),
) -> Recalled:
    by = by or source(memories)
    return await by.recall(
        thread, query, known=known or Known(), max_tokens=max_tokens, now=NOW, before=before
    )


def texts(recalled: Recalled) -> list[str]:
    return [memory.text for memory in recalled.memories]


@pytest.mark.parametrize("tags", [(), ("work", "trip")])
async def test_it_searches_as_the_threads_owner_and_at_the_moment_of_asking(tags: tuple[str, ...]) -> None:
    memories = Memories(row())
    await recall(memories, thread=replace(THREAD, tags=tags), by=source(memories, deadline=4.0))
    ((caller, search),) = memories.asked
    assert (caller.space, caller.user_id) == ("home", "ann")
    assert (search.query, search.now) == (QUERY, NOW)
    assert search.selection.scope.tags == frozenset(tags)
    assert search.selection.mode == "hybrid"
    assert search.embed_seconds == 2.0  # Half of the time, so that words have the rest.


async def test_a_full_window_does_not_crowd_out_what_is_older() -> None:
    in_window = [row(f"Marta and her house, part {number}", number, "t1") for number in range(1, 41)]
    memories = Memories(*in_window, row())
    recalled = await recall(memories, known=Known(window={("t1", number) for number in range(1, 41)}))
    assert texts(recalled) == [MARTA]


async def test_what_is_said_after_the_message_is_not_recalled_for_it() -> None:
    other = row("My sister Marta starts in June, she says.", position=9)
    memories = Memories(row(position=7, thread_id="t1"), row(position=5, thread_id="t1"), other)
    recalled = await recall(memories, known=Known(next_position=7))
    assert [memory.id for memory in recalled.memories] == ["t1:5", "t0:9"]
    assert recalled.passed_over == {"said later": 1}


async def test_no_two_memories_say_the_same() -> None:
    recalled = await recall(Memories(row(position=1), row(position=2)))
    assert len(recalled.memories) == 1
    assert recalled.passed_over == {"says the same": 1}


async def test_a_line_of_the_profile_says_the_same_as_its_fact() -> None:
    fact = IndexRow("fa-1", "facts", "Marta lives in Porto.", NOW)
    line = IndexRow("pr-1", "profile", "Home\nMarta lives in Porto.", NOW)
    recalled = await recall(Memories(fact, line))
    assert texts(recalled) == ["Marta lives in Porto."]
    assert recalled.passed_over == {"says the same": 1}


async def test_a_memory_of_this_epoch_is_not_injected_twice() -> None:
    recalled = await recall(Memories(row()), known=Known(injected={"t0:1": digest_of_text(row().text)}))
    assert recalled.memories == ()
    assert recalled.passed_over == {"in the epoch already": 1}


async def test_what_the_epoch_holds_takes_room_so_that_nothing_worse_is_injected_in_its_place() -> None:
    rows = [row(f"Marta, part {number}: {'word ' * 30}", number) for number in range(20)]
    fresh = await recall(Memories(*rows))
    held = {memory.id: memory.digest for memory in fresh.memories[1:]}
    later = await recall(Memories(*rows), known=Known(injected=held))
    assert 1 < len(fresh.memories) < len(rows)
    assert later.memories == fresh.memories[:1]


async def test_a_memory_that_was_edited_since_comes_again_as_a_correction() -> None:
    edited = row("My sister Marta is moving to Lisbon!")
    recalled = await recall(Memories(edited), known=Known(injected={"t0:1": digest_of_text(row().text)}))
    assert [(memory.text, memory.correction) for memory in recalled.memories] == [(edited.text, True)]


@pytest.mark.parametrize("text", ["Hi!", "ok", "Where does Marta live?", "谢谢", "   "])
async def test_texts_that_tell_nothing_are_not_quoted(text: str) -> None:
    recalled = await recall(Memories(row(text)))
    assert recalled.memories == ()
    assert recalled.passed_over == {"tells nothing": 1}


async def test_calls_of_tools_are_not_quoted_as_speech() -> None:
    recalled = await recall(Memories(replace(row("look_up Marta", role="assistant"), only_calls=True)))
    assert texts(recalled) == []
    assert recalled.passed_over == {"not said by anybody": 1}


@pytest.mark.parametrize("role", ["system", "tool"])
async def test_instructions_and_tools_are_not_quoted(role: str) -> None:
    assert (await recall(Memories(row(role=role)))).memories == ()


@pytest.mark.parametrize(
    ("query", "text", "alike", "passes"),
    [
        (QUERY, MARTA, 0.6, True),
        ("Suggest a snack for me", "I am allergic to peanuts.", 0.43, True),
        (QUERY, MARTA, 0.3, True),  # not very alike, but it names her
        (QUERY, "The train was late again today.", 0.3, False),
        (QUERY, MARTA, 0.1, False),
        ("Write a poem about autumn", MARTA, 0.05, False),
        ("玛尔塔住在哪里？", "我妹妹玛尔塔要搬到波尔图了", 0.36, True),  # noqa: RUF001
        ("写一首关于秋天的诗", "昨天我们去了北京的长城", 0.1, False),
        (QUERY, MARTA, None, True),  # by words alone
        ("Write a long poem about autumn leaves", "I wrote it down.", None, False),
    ],
)
async def test_only_what_is_near_enough_is_quoted(
    query: str, text: str, alike: float | None, passes: bool
) -> None:
    recalled = await recall(Memories(row(text), alike=alike), query)
    assert texts(recalled) == ([text] if passes else [])
    assert recalled.passed_over == ({} if passes else {"not near enough": 1})


async def test_the_first_hit_is_quoted_if_it_held_at_the_time_that_the_message_names() -> None:
    first, second = row("Ann lives in Porto."), row("Ann had a cat.", 2)
    memories = Memories(first, second, alike=0.1)
    memories.why = {"meaning": 0.1, "validity": 0.5}
    recalled = await recall(memories, "What was my home in August 2026?")
    assert (texts(recalled), recalled.passed_over) == ([first.text], {"not near enough": 1})


@pytest.mark.parametrize("before", [("", ""), EXCHANGE])
@pytest.mark.parametrize("message", ["   ", "?!"])
async def test_a_message_without_words_costs_no_search(message: str, before: Exchange) -> None:
    memories = Memories(row())
    recalled = await recall(memories, message, before=before)
    assert recalled.left_out == "there is nothing to look for in the message"
    assert memories.asked == []


@pytest.mark.parametrize(
    ("message", "text", "alike", "passes"),
    [
        ("and my brother Tom?", "My brother Tom lives in Lisbon.", None, True),  # near the message alone
        ("and my brother Tom?", "My brother Tom lives in Lisbon.", 0.3, True),
        (
            "how old is she?",
            "My sister Marta was born in 1980.",
            None,
            True,
        ),  # shares words with the one before it
        ("how old is she?", "My sister Marta was born in 1980.", 0.1, True),
        ("how old is she?", "We go to the chess club on evenings.", 0.3, False),  # near the answer alone
        ("how old is she?", "She is forty-four by now.", 0.6, True),
    ],
)
async def test_a_memory_is_near_the_message_or_shares_words_with_the_users_message_before_it(
    message: str, text: str, alike: float | None, passes: bool
) -> None:
    memories = Memories(row(text), alike=alike)
    recalled = await recall(memories, message, before=EXCHANGE)
    assert [(search.query, search.before) for _, search in memories.asked] == [(message, EXCHANGE)]
    assert texts(recalled) == ([text] if passes else [])
    assert recalled.passed_over == ({} if passes else {"not near enough": 1})


async def test_what_the_user_says_now_or_said_just_before_is_not_quoted_from_elsewhere() -> None:
    said = ("repeat that, but shorter", "I would like to hear about my sister Marta.")
    memories = Memories(row(said[0], 1), row(said[1], 2), row(position=3))
    recalled = await recall(memories, said[0], before=(said[1], ""))
    assert texts(recalled) == [MARTA]
    assert recalled.passed_over == {"says the same": 2}


@pytest.mark.parametrize(
    "asked",
    [
        "Hmm, where is it that my sister Marta wants to live next year?",
        "\u0623\u064a\u0646 \u0645\u0627\u0631\u062a\u0627\u061f",
    ],
)
async def test_a_question_that_was_asked_before_is_not_quoted(asked: str) -> None:
    recalled = await recall(Memories(row(asked), row("I have a sister Marta, does she like Porto?", 2)))
    assert texts(recalled) == ["I have a sister Marta, does she like Porto?"]
    assert recalled.passed_over == {"tells nothing": 1}


@pytest.mark.parametrize(
    ("text", "role", "reason"),
    [
        ("Good morning. Where does Marta live, could you say?", "user", "only asks"),
        ("Good morning. Where does Marta live?", "assistant", "only asks"),
        ("and where does Marta live", "user", "says the same"),
    ],
)
async def test_an_own_question_with_a_greeting_or_without_a_mark_is_not_quoted(
    text: str, role: str, reason: str
) -> None:
    recalled = await recall(
        Memories(row(text, role=role), row(position=2)), f"And {QUERY[0].lower()}{QUERY[1:]}"
    )
    assert texts(recalled) == [MARTA]
    assert recalled.passed_over == {reason: 1}


async def test_what_another_person_asked_is_quoted() -> None:
    asked = replace(row("Good morning. Where does Marta live?"), sender="bob")
    assert texts(await recall(Memories(asked))) == [asked.text]


PORTO = IndexRow("fa-1", "facts", "Marta lives in Porto.", NOW)
PAGE = IndexRow("pr-1", "profile", "Marta lives in Porto, and Ann in Graz.", NOW, shows=("fa-1", "fa-2"))


async def test_a_fact_is_not_quoted_beside_the_line_of_the_profile_that_shows_it() -> None:
    recalled = await recall(Memories(PAGE, PORTO))
    assert [memory.id for memory in recalled.memories] == ["pr-1"]
    assert recalled.passed_over == {"says the same": 1}


def carried(recalled: Recalled) -> dict[str, list[str]]:
    return {memory.id: [each.id for each in memory.carries] for memory in recalled.memories}


async def test_a_fact_and_the_message_that_it_stands_for_are_one_line() -> None:
    memories = Memories(PORTO, alike=None)
    memories.said = {"fa-1": [row("We said hello to Marta in Porto, how she liked to live there!")]}
    recalled = await recall(memories)
    assert carried(recalled) == {"fa-1": ["t0:1"]}
    assert len(render_memories(recalled.memories).splitlines()) == 2


@pytest.mark.parametrize(
    ("known", "fact", "comes"),
    [
        (Known(window={("t0", 1)}), PORTO, {"fa-1": []}),
        (Known(injected={"t0:1": digest_of_text(MARTA)}), PORTO, {"fa-1": []}),
        (Known(injected={"fa-1": digest_of_text(PORTO.text)}), PORTO, {"t0:1": []}),
        (Known(), replace(PORTO, text="A nurse."), {"fa-1": ["t0:1"]}),
        (Known(), replace(PORTO, text="Hm"), {"t0:1": []}),
    ],
    ids=["window", "message injected", "fact injected", "fact far from the query", "fact tells nothing"],
)
async def test_what_the_prompt_holds_of_a_fact_and_its_message_is_not_told_again(
    known: Known, fact: IndexRow, comes: dict[str, list[str]]
) -> None:
    memories = Memories(fact, alike=None)
    memories.said = {"fa-1": [row()]}
    assert carried(await recall(memories, known=known)) == comes


async def test_a_fact_without_room_for_its_message_comes_alone() -> None:
    memories = Memories(PORTO)
    memories.said = {"fa-1": [row()]}
    assert carried(await recall(memories, max_tokens=30)) == {"fa-1": []}


async def test_facts_about_two_people_of_one_name_say_which_and_no_fact_names_its_owner() -> None:
    path = "home/users/ann/facts/2026-05-08.md"
    about = {"fa-1": "Marta, Ann's sister", "fa-2": "Marta, Ann's boss", "fa-3": "ann", "fa-4": "user"}
    rows = [replace(PORTO, row_id=name, sender=who, path=path) for name, who in about.items()]
    rows[3] = replace(rows[3], text="I saw Marta.")
    recalled = await recall(Memories(*rows))
    named = [f"{about[name]}: {PORTO.text}" for name in ("fa-1", "fa-2")]
    assert texts(recalled) == [*named, PORTO.text, "I saw Marta."]
    assert len({memory.digest for memory in recalled.memories[:3]}) == 1


@pytest.mark.parametrize(("held", "comes"), [({"fa-1": "d", "fa-2": "d"}, []), ({"fa-1": "d"}, ["pr-1"])])
async def test_a_line_of_the_profile_is_not_quoted_where_the_epoch_has_all_its_facts(
    held: dict[str, str], comes: list[str]
) -> None:
    recalled = await recall(Memories(PAGE), known=Known(injected=held))
    assert [memory.id for memory in recalled.memories] == comes


async def test_a_fact_that_ended_since_it_was_quoted_comes_again_with_its_end() -> None:
    home = replace(row("Marta lives in Porto", thread_id=""), row_id="fa-1", type="facts", until=NOW)
    before = (await recall(Memories(replace(home, until=NOW + 1)))).memories[0]
    again = await recall(Memories(home), known=Known(injected={"fa-1": before.digest}))
    assert before.ended == 0
    assert [(memory.correction, memory.ended) for memory in again.memories] == [(True, NOW)]
    held = await recall(Memories(home), known=Known(injected={"fa-1": again.memories[0].digest}))
    assert held.passed_over == {"in the epoch already": 1}


async def test_a_context_that_is_too_small_gets_no_memories() -> None:
    assert (await recall(Memories(row()), max_tokens=20)).left_out == "the context is too small for memories"


@pytest.mark.parametrize("letter", ["a", "ж", "玛"])
@pytest.mark.parametrize("max_tokens", [30, 60, 400])
async def test_memories_stay_within_their_room(letter: str, max_tokens: int) -> None:
    long = " ".join([f"Marta {letter * 5}"] * 400)
    rows = [row(f"{number} {long}", number) for number in range(12)]
    recalled = await recall(Memories(*rows), max_tokens=max_tokens)
    assert careful_tokens(render_memories(recalled.memories)) <= max_tokens
    if max_tokens == 400:
        assert len(recalled.memories) >= 3


class OneLineProfile:
    """What is always on: a line of the profile."""

    async def of(self, thread: Thread, injected: Mapping[str, str], now: int) -> AlwaysOn:
        line = Memory("pr-1", "d", "Home\nAnn lives in Graz.", "", "", NOW, "", (), 0.0, type="profile")
        return AlwaysOn(profile=(line,))

    async def showing(self, thread: Thread, memories: list[Memory], now: int) -> list[Memory]:
        return memories


async def test_the_profile_has_room_beside_hits_that_would_fill_the_block() -> None:
    memories = Memories(*[row(f"Marta, part {number}: {'word ' * 30}", number) for number in range(20)])
    by = source(memories, always_on=OneLineProfile())
    recalled = await recall(memories, by=by)
    assert recalled.passed_over["no room"] > 0
    assert recalled.memories[-1].id == "pr-1"


async def test_of_a_long_text_the_passage_that_answers_is_quoted() -> None:
    long = "The weather was fine. " * 60 + "Marta lives in Porto. " + "We ate well. " * 60
    (memory,) = (await recall(Memories(row(long)))).memories
    assert "Marta lives in Porto." in memory.text
    assert len(memory.text) <= 400


async def test_a_slow_search_is_left_behind_and_said_to_be() -> None:
    memories = Memories(row())
    memories.held = asyncio.Event()
    by = source(memories, deadline=0.02)
    recalled = await recall(memories, by=by)
    assert recalled.memories == ()
    assert recalled.left_out == "memory was not used: the search took longer than 0.02 s"
    memories.held.set()
    await eventually(lambda: memories.ended == 1)  # what it was loading is loaded for the next one


async def test_a_search_that_nobody_waits_for_ends_with_the_app() -> None:
    memories = Memories(row())
    memories.held = asyncio.Event()
    by = source(memories, deadline=0.02)
    await recall(memories, by=by)
    await by.close()
    assert memories.ended == 0
    assert len(asyncio.all_tasks()) == 1


async def test_a_cancelled_turn_ends_its_search() -> None:
    memories = Memories(row())
    memories.held = asyncio.Event()
    turn = asyncio.create_task(recall(memories))
    await eventually(lambda: memories.asked)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await eventually(lambda: len(asyncio.all_tasks()) == 1)


@pytest.mark.parametrize(
    ("failure", "words"),
    [(IndexUnavailable("the index is being rebuilt"), "rebuilt"), (OSError(5, "x"), "OSError")],
)
async def test_a_broken_search_costs_the_turn_nothing(failure: Exception, words: str) -> None:
    memories = Memories(row())
    memories.failure = failure
    recalled = await recall(memories)
    assert recalled.memories == ()
    assert words in (recalled.left_out or "")


async def test_a_search_that_keeps_failing_is_left_alone_and_tried_again_later() -> None:
    clock = FakeClock(100)
    memories = Memories(row())
    by = source(memories, clock)
    memories.failure = IndexUnavailable("broken")
    for _ in range(3):
        await recall(memories, by=by)
    refused = await recall(memories, by=by)
    assert len(memories.asked) == 3
    assert "3 times in a row" in (refused.left_out or "")
    memories.failure = None
    clock.now += 30
    assert texts(await recall(memories, by=by)) == [MARTA]
    assert not by.breakers


async def test_one_owners_failing_searches_take_nobody_elses_memory_away() -> None:
    memories = Memories(row())
    by = source(memories)
    memories.failure = IndexUnavailable("broken")
    for _ in range(3):
        await recall(memories, by=by)
    memories.failure = None
    assert (await recall(memories, by=by)).memories == ()
    assert texts(await recall(memories, by=by, thread=replace(THREAD, user_id="bob"))) == [MARTA]


async def test_searches_that_are_only_slow_take_no_memory_away() -> None:
    memories = Memories(row())
    memories.held = asyncio.Event()
    by = source(memories, deadline=0.01)
    for _ in range(4):
        assert "took longer" in ((await recall(memories, by=by)).left_out or "")
    memories.held.set()
    await eventually(lambda: memories.ended == 4)
    await recall(memories, by=by)
    assert len(memories.asked) == 5
    assert not by.breakers


async def test_the_receipt_names_memories_and_holds_no_texts() -> None:
    receipt = (await recall(Memories(row(), row("Hi!", 2)))).as_receipt()
    assert receipt == {
        "memories": [
            {
                "id": "t0:1",
                "type": "turn",
                "message_ids": ["m1"],
                "thread_id": "t0",
                "score": 1.0,
                "correction": False,
            }
        ],
        "left_out": None,
        "degraded": [],
        "passed_over": {"tells nothing": 1},
        "model": None,
        "ms": 0.0,
    }
