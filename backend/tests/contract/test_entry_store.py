"""What the store of entries and the store of model answers promise."""

from dataclasses import replace

import pytest

from recollect.domain.entries.entry import (
    EPISODES,
    FACTS,
    PROFILE,
    SKILLS,
    Actor,
    Deletion,
    EntryChange,
    EntryReceipt,
    KeptAnswer,
    KnownEntry,
    Source,
    statement_key,
    text_key,
)
from recollect.domain.job import ENTRIES
from recollect.domain.model import Entry, ThreadRef
from recollect.errors import Conflict, NotFound
from recollect.infra.journal.cells import SqlModelAnswers
from recollect.infra.journal.forgetting import SqlForgetting
from tests.contract.journals import Journal
from tests.fakes import START

ANN, BOB = "default/users/ann", "default/users/bob"
DAY = 86_400_000


def fact(
    name: str = "fa-1", text: str = "Ann lives in Berlin.", when: int = START, **extra: str
) -> KnownEntry:
    told = {"subject": "user", "category": "home", **extra}
    entry = Entry(name, text, text, when, ("threads/t1/0001#^t-1",), "facts, rules", told)
    return KnownEntry("default", ANN, FACTS, entry, (Source("ann", "t1", "t-1"),), "c-1", "facts")


def of(owner: str, known: KnownEntry, space: str = "default") -> KnownEntry:
    return replace(known, owner=owner, space=space)


def reworded(known: KnownEntry, text: str) -> KnownEntry:
    return replace(known, entry=replace(known.entry, text=text))


class Entries:
    """The stores, and what a test needs to see what they did."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.store, self.jobs = journal, journal.entries, journal.waiting
        self.answers = SqlModelAnswers(journal.database, clock=journal.clock)

    async def add_thread(self, thread_id: str) -> None:
        await self.journal.add(thread_id, "I live in Berlin.", user_id="ann")

    async def put(self, *known: KnownEntry, actor: Actor = "extraction", cause: str = "read") -> None:
        await self.store.apply(EntryChange(known[0].space, known[0].owner, actor, cause, known))

    async def remove(self, *names: str, keep_deleted: bool = False, owner: str = ANN) -> None:
        await self.store.apply(
            EntryChange("default", owner, "person", "gone", remove=names, keep_deleted=keep_deleted)
        )

    async def got(self, name: str = "fa-1") -> KnownEntry:
        known = await self.store.get("default", name)
        assert known is not None
        return known

    async def listed(self, *, owner: str | None = ANN, **wanted: object) -> list[str]:
        found = await self.store.list_entries("default", owner, **wanted)  # type: ignore[arg-type]
        return [known.entry_id for known in found]

    async def paths(self) -> list[str]:
        """Of the files that are to be written."""
        return [job.payload["path"] for job in await self.jobs() if job.kind == ENTRIES]


@pytest.fixture
async def entries(journal: Journal) -> Entries:
    """With the threads that entries came from."""
    for space, user, thread in (("default", "ann", "t1"), ("default", "ann", "t2"), ("work", "ann", "t1")):
        await journal.execute(
            "INSERT INTO threads (space, user_id, thread_id, created, updated) VALUES (?, ?, ?, 0, 0)",
            space,
            user,
            thread,
        )
    return Entries(journal)


async def test_an_entry_is_there_as_it_was_put_with_its_file_and_first_revision(entries: Entries) -> None:
    await entries.put(fact())
    assert await entries.got() == replace(fact(), path=f"{ANN}/facts/2026-05-08.md", revision=1)
    assert await entries.store.get("default", "fa-2") is None
    assert await entries.store.get("other", "fa-1") is None


async def test_the_file_of_a_changed_entry_is_queued_once(entries: Entries) -> None:
    await entries.put(fact(), fact("fa-2", "Ann has a cat."))
    assert await entries.paths() == [f"{ANN}/facts/2026-05-08.md"]


async def test_what_says_the_same_changes_nothing(entries: Entries) -> None:
    await entries.put(fact())
    before = await entries.got()
    await entries.put(before)
    await entries.put(fact())
    assert await entries.got() == before
    assert await entries.store.history("default", "fa-1") == []


async def test_a_change_counts_and_the_version_before_it_is_kept(entries: Entries) -> None:
    await entries.put(fact())
    await entries.put(reworded(await entries.got(), "Ann lives in Lisbon."), actor="person", cause="edited")
    await entries.put(reworded(await entries.got(), "Ann lives in Porto."), actor="undo", cause="undone")
    assert (await entries.got()).revision == 3
    history = await entries.store.history("default", "fa-1")
    assert [(past.revision, past.entry and past.entry.text, past.actor, past.cause) for past in history] == [
        (1, "Ann lives in Berlin.", "person", "edited"),
        (2, "Ann lives in Lisbon.", "undo", "undone"),
    ]
    assert history[0].entry == fact().entry
    assert history[0].at == START


async def test_a_version_that_was_changed_meanwhile_is_refused_with_all_that_came_along(
    entries: Entries,
) -> None:
    await entries.put(fact())
    old = await entries.got()
    await entries.put(reworded(old, "Ann lives in Lisbon."))
    with pytest.raises(Conflict):
        await entries.put(fact("fa-2", "Ann has a cat."), reworded(old, "Ann lives in Porto."))
    assert (await entries.got()).entry.text == "Ann lives in Lisbon."
    assert await entries.listed() == ["fa-1"]


async def test_a_new_version_of_what_was_removed_is_refused(entries: Entries) -> None:
    await entries.put(fact())
    old = await entries.got()
    await entries.remove("fa-1")
    with pytest.raises(Conflict):
        await entries.put(reworded(old, "Ann lives in Porto."))


async def test_a_line_of_the_profile_whose_fact_was_forgotten_meanwhile_is_refused(entries: Entries) -> None:
    line = replace(fact("pr-1", fact="fa-1"), kind=PROFILE, cell="")
    await entries.put(fact("fa-1"))
    await entries.store.apply(EntryChange("default", ANN, "consolidation", "forgotten", remove=("fa-1",)))
    with pytest.raises(Conflict):
        await entries.store.apply(EntryChange("default", ANN, "consolidation", "the facts changed", (line,)))
    assert await entries.store.some("default", ANN, ["pr-1"]) == []


async def test_an_id_that_another_owner_has_is_refused(entries: Entries) -> None:
    await entries.put(fact())
    with pytest.raises(Conflict):
        await entries.put(of(BOB, fact()))
    await entries.remove("fa-1", owner=BOB)
    assert (await entries.got()).owner == ANN


async def test_an_entry_of_another_owner_than_the_change_is_our_own_mistake(entries: Entries) -> None:
    with pytest.raises(ValueError, match="another owner"):
        await entries.store.apply(EntryChange("default", BOB, "person", "x", (fact(),)))


async def test_spaces_do_not_share_ids(entries: Entries) -> None:
    await entries.put(fact())
    await entries.put(of("work/users/ann", fact(text="Ann works."), "work"))
    assert (await entries.got()).entry.text == "Ann lives in Berlin."
    assert await entries.listed(owner=None) == ["fa-1"]


async def test_what_was_made_of_a_deleted_entry_is_forgotten_and_what_a_person_wrote_over_it_kept(
    entries: Entries,
) -> None:
    made = replace(fact("pr-1", fact="fa-1"), kind=PROFILE, sources=())
    await entries.put(fact(), made)
    for text in ("I live in Lisbon.", "I live in Porto."):
        theirs = reworded(await entries.got("pr-1"), text)
        theirs = replace(
            theirs, entry=replace(theirs.entry, title=text, extra={**made.entry.extra, "edited": "yes"})
        )
        await entries.put(theirs, actor="person")
    await entries.remove("fa-1", keep_deleted=True)
    assert (await entries.got("pr-1")).entry.text == "I live in Porto."
    history = await entries.store.history("default", "pr-1")
    assert [(past.revision, past.entry and past.entry.text, past.actor) for past in history] == [
        (1, None, "person"),
        (2, "I live in Lisbon.", "person"),
    ]


async def test_a_removed_entry_is_gone_with_its_history_and_its_file_is_written(entries: Entries) -> None:
    await entries.put(fact(), fact("fa-2", "Ann has a cat.", START + DAY))
    await entries.put(reworded(await entries.got(), "Ann lives in Lisbon."))
    await entries.remove("fa-1", "no such entry")
    assert await entries.listed() == ["fa-2"]
    assert await entries.store.history("default", "fa-1") == []
    assert await entries.store.citing(ThreadRef("default", "ann", "t1"), None) == [await entries.got("fa-2")]
    assert await entries.store.deletions("default", ANN) == []


async def test_a_deleted_entry_leaves_no_text_and_is_known_by_its_cell(entries: Entries) -> None:
    await entries.put(fact())
    await entries.remove("fa-1", keep_deleted=True)
    (deletion,) = await entries.store.deletions("default", ANN, "c-1")
    assert (deletion.entry_id, deletion.kind, deletion.cell, deletion.turn_ids) == (
        "fa-1",
        FACTS,
        "c-1",
        ("t-1",),
    )
    assert await entries.store.deletions("default", ANN, "c-2") == []
    assert await entries.store.deletions("default", BOB) == []
    assert await entries.store.deletions("default", ANN) == [deletion]


async def test_a_deleted_statement_is_known_to_its_owner_by_a_digest_and_when_it_was_said_last(
    entries: Entries,
) -> None:
    key = statement_key(fact())
    await entries.put(fact())
    assert await entries.store.deleted_statements("default", ANN, [key]) == {}
    await entries.remove("fa-1", keep_deleted=True)
    assert await entries.store.deleted_statements("default", ANN, [key, "", "another"]) == {key: START}
    assert await entries.store.deleted_statements("default", BOB, [key]) == {}
    await entries.put(fact("fa-2", "ann lives in BERLIN", START + DAY))
    await entries.remove("fa-2", keep_deleted=True)
    assert await entries.store.deleted_statements("default", ANN, [key]) == {key: START + DAY}


async def test_what_is_no_row_of_the_journal_is_deleted_too_and_once(entries: Entries) -> None:
    for cases in (("ca-1",), ("ca-1", "ca-2")):
        deletions = (Deletion("sk-1", SKILLS, "", cases),)
        await entries.store.apply(EntryChange("default", ANN, "person", "deleted", deletions=deletions))
    assert await entries.store.deletions("default", ANN) == [Deletion("sk-1", SKILLS, "", ("ca-1", "ca-2"))]


async def test_what_a_person_writes_again_is_deleted_no_longer(entries: Entries) -> None:
    await entries.put(fact())
    await entries.remove("fa-1", keep_deleted=True)
    await entries.put(fact(), actor="person")
    assert await entries.store.deletions("default", ANN) == []


async def test_some_of_an_owner_are_found_in_the_order_in_which_they_are_asked_for(entries: Entries) -> None:
    await entries.put(fact(), fact("fa-2", "Ann has a cat."))
    await entries.put(of(BOB, fact("fa-3", "Bob's.")))
    found = await entries.store.some("default", ANN, ["fa-2", "fa-3", "no such entry", "fa-1"])
    assert [known.entry_id for known in found] == ["fa-2", "fa-1"]
    assert await entries.store.some("default", ANN, []) == []


async def test_entries_are_listed_newest_first_page_by_page(entries: Entries) -> None:
    known = [fact(f"fa-{number}", f"Fact {number}.", START + number // 2) for number in range(7)]
    await entries.put(*known)
    assert await entries.listed() == ["fa-6", "fa-4", "fa-5", "fa-2", "fa-3", "fa-0", "fa-1"]
    assert await entries.listed(limit=3) == ["fa-6", "fa-4", "fa-5"]
    assert await entries.listed(limit=3, after="fa-5") == ["fa-2", "fa-3", "fa-0"]
    assert await entries.listed(limit=3, after="fa-4") == ["fa-5", "fa-2", "fa-3"]
    assert await entries.listed(after="fa-1") == []


async def test_entries_are_listed_by_owner_kind_time_and_whether_they_hold(entries: Entries) -> None:
    episode = replace(fact("ep-1", "A talk.", START + 5), kind=EPISODES)
    await entries.put(fact(), fact("fa-2", "Old.", START - DAY, superseded_by="fa-1"), episode)
    await entries.put(of(BOB, fact("fa-3", "Bob's.")))
    assert await entries.listed() == ["ep-1", "fa-1", "fa-2"]
    assert await entries.listed(owner=BOB) == ["fa-3"]
    assert await entries.listed(owner=None) == ["ep-1", "fa-1", "fa-3", "fa-2"]
    assert await entries.listed(kinds=[FACTS]) == ["fa-1", "fa-2"]
    assert await entries.listed(kinds=[FACTS, EPISODES]) == ["ep-1", "fa-1", "fa-2"]
    assert await entries.listed(since=START) == ["ep-1", "fa-1"]
    assert await entries.listed(until=START) == ["fa-2"]
    assert await entries.listed(holding=True) == ["ep-1", "fa-1"]


async def test_what_a_strategy_made_of_a_cell_is_found(entries: Entries) -> None:
    other = replace(fact("fa-2", "Of another cell."), cell="c-2")
    none = replace(fact("fa-3", "Of none."), cell="")
    await entries.put(fact(), other, none, replace(fact("ep-1", "x"), kind=EPISODES, strategy="episode"))
    assert await entries.store.of_cell("default", ANN, "c-1", "facts") == [await entries.got()]
    assert await entries.store.of_cell("default", BOB, "c-1", "facts") == []
    assert await entries.store.of_cell("default", ANN, "", "facts") == []


async def test_of_a_category_the_newest_that_hold_are_found(entries: Entries) -> None:
    await entries.put(
        fact("fa-1"),
        fact("fa-2", "Ann lives in Porto.", START + DAY, category="Home"),
        fact("fa-3", "Ann lives in Rome.", START + 2 * DAY, superseded_by="fa-2"),
        fact("fa-4", "Ann runs.", category="habits"),
    )
    await entries.put(of(BOB, fact("fa-5")))
    found = await entries.store.of_category("default", ANN, FACTS, "home", newest=5)
    assert [each.entry_id for each in found] == ["fa-2", "fa-1"]
    assert len(await entries.store.of_category("default", ANN, FACTS, "home", newest=1)) == 1


async def test_linked_entries_come_with_what_superseded_them_and_what_lines_show(entries: Entries) -> None:
    await entries.put(
        fact("fa-1", superseded_by="fa-2"),
        fact("fa-2", "Ann lives in Porto.", superseded_by="fa-3"),
        fact("fa-3", "Ann lives in Rome.", superseded_by="fa-gone"),
        replace(fact("pr-1", "Ann lives in Berlin.", fact="fa-1"), kind=PROFILE),
        fact("fa-4", "Ann runs."),
    )
    found = await entries.store.linked("default", ANN, ["pr-1", "fa-nowhere"])
    assert [each.entry_id for each in found] == ["pr-1", "fa-1", "fa-2", "fa-3"]
    assert await entries.store.linked("default", BOB, ["pr-1"]) == []


async def test_what_a_person_wrote_or_pinned_is_found(entries: Entries) -> None:
    await entries.put(
        fact("fa-2", "Pinned.", START + DAY, pinned="yes"),
        fact(edited="yes"),
        fact("fa-3", "Extracted."),
        replace(fact("ep-1", "Another kind.", edited="yes"), kind=EPISODES),
    )
    await entries.put(of(BOB, fact("fa-4", "Bob's.", edited="yes")))
    assert [each.entry_id for each in await entries.store.of_person("default", ANN, FACTS)] == [
        "fa-1",
        "fa-2",
    ]


async def test_what_says_the_same_in_other_signs_is_found(entries: Entries) -> None:
    await entries.put(fact(), fact("fa-2", "Ann lives in Lisbon."))
    found = await entries.store.with_text("default", ANN, FACTS, text_key("ann LIVES in berlin"))
    assert [known.entry_id for known in found] == ["fa-1"]
    assert await entries.store.with_text("default", ANN, EPISODES, text_key("ann lives in berlin")) == []


async def test_what_cites_a_turn_is_found_whoever_owns_it(entries: Entries) -> None:
    both = replace(fact("fa-2", "Both."), sources=(Source("ann", "t1", "t-2"), Source("ann", "t2", "t-1")))
    await entries.put(fact(), both)
    await entries.put(of(BOB, fact("fa-3", "Bob's.")))

    async def citing(thread: str, *turns: str) -> list[str]:
        found = await entries.store.citing(ThreadRef("default", "ann", thread), turns or None)
        return sorted(known.entry_id for known in found)

    assert await citing("t1") == ["fa-1", "fa-2", "fa-3"]
    assert await citing("t1", "t-2") == ["fa-2"]
    assert await citing("t1", "t-1", "t-2", "t-9") == ["fa-1", "fa-2", "fa-3"]
    assert await citing("t2") == ["fa-2"]
    assert (await entries.got("fa-2")).sources == both.sources
    assert await entries.store.citing(ThreadRef("work", "ann", "t1"), None) == []


async def test_new_sources_take_the_place_of_the_old_ones(entries: Entries) -> None:
    await entries.put(fact())
    await entries.put(replace(await entries.got(), sources=(Source("ann", "t2", "t-5"),)))
    assert await entries.store.citing(ThreadRef("default", "ann", "t1"), None) == []
    assert (await entries.got()).sources == (Source("ann", "t2", "t-5"),)


async def test_a_day_is_continued_in_another_file_when_it_is_full(entries: Entries) -> None:
    for number in range(8):
        await entries.put(fact(f"fa-{number}", f"{number} " + "x" * 20_000))
    found = await entries.store.list_entries("default", ANN)
    paths = [known.path.removeprefix(f"{ANN}/facts/") for known in found]
    assert paths == ["2026-05-08.md"] * 4 + ["2026-05-08-2.md"] * 4


async def test_entries_stand_by_the_day_they_happened_and_the_profile_on_one_page(entries: Entries) -> None:
    line = replace(fact("pr-1", "Ann"), kind=PROFILE, cell="")
    await entries.put(fact("fa-2", "Later.", START + 2 * DAY), line)
    assert (await entries.got("fa-2")).path == f"{ANN}/facts/2026-05-10.md"
    assert (await entries.got("pr-1")).path == f"{ANN}/profile.md"


async def test_an_entry_keeps_its_file_until_its_day_is_another(entries: Entries) -> None:
    await entries.put(fact())
    known = await entries.got()
    await entries.put(replace(known, entry=replace(known.entry, when=START + 1)))
    assert (await entries.got()).path == known.path
    known = await entries.got()
    await entries.put(replace(known, entry=replace(known.entry, when=START + DAY)))
    assert (await entries.got()).path == f"{ANN}/facts/2026-05-09.md"
    assert await entries.paths() == [f"{ANN}/facts/2026-05-08.md", f"{ANN}/facts/2026-05-09.md"]


async def test_a_skill_has_the_file_that_it_is_given_and_no_job_of_ours(entries: Entries) -> None:
    agent = "default/agents/coder"
    skill = replace(fact("sk-1", "How to."), kind=SKILLS, owner=agent, path=f"{agent}/skills/how-to/SKILL.md")
    await entries.put(skill)
    assert (await entries.got("sk-1")).path == skill.path
    assert await entries.paths() == []


async def test_a_receipt_is_kept_with_its_thread_once_per_cell_and_strategy(entries: Entries) -> None:
    await entries.add_thread("t1")
    await entries.journal.execute(
        "INSERT INTO memcell SELECT 5, 'c-1', pk, space, thread_id, '[]', '[]', 0, 'gap', 0, 0 FROM threads"
        " WHERE space = 'default' AND thread_id = 't1'"
    )
    for cell, wrote in (("c-1", 1), ("c-1", 2), ("c-forgotten", 3)):
        receipt = EntryReceipt(ThreadRef("default", "ann", "t1"), cell, "facts", {"wrote": wrote})
        await entries.store.apply(
            EntryChange("default", ANN, "extraction", "x", (fact(),), receipts=(receipt,))
        )
    found = await entries.journal.database.read("SELECT memcell_pk, stage, detail_json FROM receipts")
    assert [tuple(row) for row in found] == [(5, "facts", '{"wrote": 2}')]


async def test_nothing_is_written_for_a_thread_that_is_gone(entries: Entries) -> None:
    receipt = EntryReceipt(ThreadRef("default", "ann", "gone"), "c-1", "facts", {"wrote": 1})
    from_there = replace(fact(), sources=(Source("ann", "gone", "t-1"),))
    for change in (
        EntryChange("default", ANN, "extraction", "x", (fact(),), receipts=(receipt,)),
        EntryChange("default", ANN, "extraction", "x", (fact("fa-2"), from_there)),
    ):
        with pytest.raises(NotFound):
            await entries.store.apply(change)
    assert await entries.listed() == []
    assert await entries.jobs() == []


async def test_of_a_forgotten_owner_nothing_is_known(entries: Entries) -> None:
    await entries.put(fact(), fact("fa-2", "Ann has a cat."))
    await entries.remove("fa-2", keep_deleted=True)
    await entries.put(of(BOB, fact("fa-3", "Bob's.")))
    journal = entries.journal
    await journal.execute("DELETE FROM threads")
    await SqlForgetting(journal.database, clock=journal.clock).forget_owner("default", "ann")
    assert await entries.listed(owner=None) == ["fa-3"]
    assert await entries.store.deletions("default", ANN) == []
    assert await entries.store.history("default", "fa-1") == []
    assert await entries.paths() == [f"{BOB}/facts/2026-05-08.md"]


ANSWER = KeptAnswer('{"facts": []}', "qwen3-8b", {"prompt_tokens": 10})


async def test_an_answer_is_kept_under_its_cell_and_prompt(entries: Entries) -> None:
    await entries.add_thread("t1")
    await entries.answers.keep(ThreadRef("default", "ann", "t1"), "c-1", "memcell", "d1", ANSWER)
    assert await entries.answers.answer("default", "c-1", "memcell", "d1") == ANSWER
    for asked in (("other", "c-1", "memcell", "d1"), ("default", "c-2", "memcell", "d1")):
        assert await entries.answers.answer(*asked) is None
    assert await entries.answers.answer("default", "c-1", "case", "d1") is None
    assert await entries.answers.answer("default", "c-1", "memcell", "d2") is None


async def test_the_first_answer_stays(entries: Entries) -> None:
    await entries.add_thread("t1")
    for text in ("first", "second"):
        await entries.answers.keep(
            ThreadRef("default", "ann", "t1"), "c-1", "memcell", "d1", KeptAnswer(text, "m")
        )
    assert await entries.answers.answer("default", "c-1", "memcell", "d1") == KeptAnswer("first", "m")


async def test_no_answer_is_kept_of_a_thread_that_is_gone(entries: Entries) -> None:
    await entries.answers.keep(ThreadRef("default", "ann", "gone"), "c-1", "memcell", "d1", ANSWER)
    assert await entries.answers.answer("default", "c-1", "memcell", "d1") is None


async def test_answers_are_forgotten_with_their_cells(entries: Entries) -> None:
    for thread, cell in (("t1", "c-1"), ("t1", "c-2"), ("t2", "c-3")):
        await entries.add_thread(thread)
        await entries.answers.keep(ThreadRef("default", "ann", thread), cell, "memcell", "d1", ANSWER)

    async def left() -> list[str]:
        cells = ("c-1", "c-2", "c-3")
        return [cell for cell in cells if await entries.answers.answer("default", cell, "memcell", "d1")]

    await entries.answers.forget_cells("default", ["c-1"])
    assert await left() == ["c-2", "c-3"]


async def test_what_follows_from_a_persons_change_is_consolidations_in_its_history(entries: Entries) -> None:
    await entries.put(fact("fa-1"), fact("fa-2"))
    both = [await entries.got(name) for name in ("fa-1", "fa-2")]
    changed, marked = (replace(each, entry=replace(each.entry, title="New")) for each in both)
    await entries.store.apply(EntryChange("default", ANN, "person", "said", (changed,), marked=(marked,)))
    pasts = [await entries.store.history("default", name) for name in ("fa-1", "fa-2")]
    assert [past[-1].actor for past in pasts] == ["person", "consolidation"]
