"""A person reads, corrects, pins, deletes and undoes what was made of their words, and of nobody else's."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from recollect.domain.access import Caller
from recollect.domain.entries.edit import EntryEdit
from recollect.domain.entries.entry import (
    CASES,
    FACTS,
    PROFILE,
    SKILLS,
    EntryChange,
    KnownEntry,
)
from recollect.domain.entries.profile import is_off_page, line_of
from recollect.domain.job import JobSpec
from recollect.domain.model import Append, Memcell, NewTurn, ThreadRef
from recollect.errors import Conflict, NotFound
from recollect.infra.journal.entries import SqlEntryStore
from recollect.service.entries import Entries, EntryFilter
from tests.contract.journals import Journal
from tests.fakes import START
from tests.unit.made_entries import ANN, DAY, WHEN, known

OPERATOR, AS_ANN, AS_BOB = Caller(), Caller(user_id="ann"), Caller(user_id="bob")
BOB = "default/users/bob"
HELPER = "default/agents/helper"
NOW = WHEN + 9 * DAY


class WatchedEntries(SqlEntryStore):
    """Keeps what it was asked to change, and lets somebody else come before the next change."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal.database, clock=journal.clock)
        self.changes: list[EntryChange] = []
        self.before_next_apply: list[KnownEntry] = []

    async def apply(self, change: EntryChange) -> None:
        interfering, self.before_next_apply = self.before_next_apply, []
        for row in interfering:
            there = await self.get(row.space, row.entry_id)
            revised = replace(row, revision=0 if there is None else there.revision)
            await super().apply(EntryChange(row.space, row.owner, "extraction", "read", (revised,)))
        await super().apply(change)
        self.changes.append(change)


class House:
    """A journal with a thread of Ann's and one of Bob's, entries, and the verbs on them."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.store = WatchedEntries(journal)
        self.asked: list[frozenset[str]] = []
        self.entries = Entries(
            self.store, self.journal.threads, self.journal.transcripts, lambda: NOW, self._jobs_after
        )

    def _jobs_after(self, change: EntryChange, kinds: frozenset[str]) -> Sequence[JobSpec]:
        self.asked.append(kinds)
        return [JobSpec("strategy", "profile:ann", {"strategy": "profile", "owner": ANN})]

    async def say(self, thread: str, user: str, *texts: str) -> None:
        turns = [NewTurn("user", text, START, user, f"{thread}-m{n}") for n, text in enumerate(texts, 1)]
        await self.journal.threads.append(Append("default", thread, turns, user))

    async def put(self, *entries: KnownEntry, actor: str = "extraction") -> None:
        for each in entries:
            change = EntryChange(each.space, each.owner, actor, "written", (each,))  # type: ignore[arg-type]
            await self.store.apply(change)
        self.store.changes.clear()

    async def row(self, entry_id: str) -> KnownEntry:
        known = await self.store.get("default", entry_id)
        assert known is not None
        return known

    async def deletions(self) -> list[str]:
        return [deletion.entry_id for deletion in await self.store.deletions("default", ANN)]

    async def ids(self, caller: Caller, **wanted: object) -> list[str]:
        shown = await self.entries.list_entries(caller, EntryFilter(**wanted), 100)  # type: ignore[arg-type]
        return [each.known.entry_id for each in shown]


@pytest.fixture
async def house(journal: Journal) -> House:
    house = House(journal)
    await house.say("t1", "ann", "I live in Berlin.", "And I like it.")
    await house.say("t2", "bob", "I live in Rome.")
    await house.put(
        known("fa-1", turns=("t-1", "t-2"), cell="c-1"),
        known("fa-2", "Ann likes Berlin.", when=WHEN + DAY, turns=("t-2",)),
        known("fa-3", "Bob lives in Rome.", owner=BOB, thread="t2", turns=("t-1",)),
    )
    return house


class TestReading:
    async def test_an_entry_names_what_it_supersedes_and_what_it_was_made_of(self, house: House) -> None:
        await house.put(
            known("fa-4", "Ann lives in Porto.", extra={"supersedes": "fa-1 fa-3 fa-gone"}),
            known("pr-1", kind=PROFILE, extra={"fact": "fa-4"}),
        )
        fact = await house.entries.get_entry(AS_ANN, "fa-4")
        line = await house.entries.get_entry(AS_ANN, "pr-1")
        assert [(how, each.entry_id) for how, each in fact.linked] == [("supersedes", "fa-1")]
        assert [(how, each.entry_id) for how, each in line.linked] == [("made_of", "fa-4")]


class TestWhoMay:
    async def test_another_space_is_another_world(self, house: House) -> None:
        with pytest.raises(NotFound):
            await house.entries.get_entry(Caller(space="work"), "fa-1")

    async def test_of_an_agents_entries_a_user_has_those_from_their_own_threads(self, house: House) -> None:
        await house.put(
            known("ca-1", kind=CASES, owner=HELPER, turns=("t-1",)),
            known("ca-2", kind=CASES, owner=HELPER, thread="t2", user="bob", turns=("t-1",)),
            replace(known("ca-3", kind=CASES, owner=HELPER), sources=(*(await house.row("fa-1")).sources, *(await house.row("fa-3")).sources)),
            known("sk-1", kind=SKILLS, owner=HELPER, extra={"cases": "ca-1"}),
            known("sk-2", kind=SKILLS, owner=HELPER, extra={"cases": "ca-1 ca-2"}),
            known("sk-3", kind=SKILLS, owner=HELPER),
        )  # fmt: skip
        assert await house.ids(AS_ANN, agent_id="helper") == ["ca-1", "sk-1"]
        assert await house.ids(AS_BOB, agent_id="helper") == ["ca-2"]
        assert len(await house.ids(OPERATOR, agent_id="helper")) == 6
        assert (await house.entries.get_entry(AS_ANN, "sk-1")).known.kind == SKILLS
        with pytest.raises(NotFound):
            await house.entries.get_entry(AS_ANN, "ca-2")

    async def test_a_skill_whose_case_is_gone_is_the_operators_alone(self, house: House) -> None:
        await house.put(
            known("ca-1", kind=CASES, owner=HELPER, turns=("t-1",)),
            known("sk-1", kind=SKILLS, owner=HELPER, extra={"cases": "ca-1 ca-gone"}),
        )
        assert await house.ids(AS_ANN, agent_id="helper") == ["ca-1"]

    async def test_a_users_entry_is_theirs_alone_whatever_it_cites(self, house: House) -> None:
        await house.put(known("fa-9", "Ann knows Bob.", thread="t2", user="bob", turns=("t-1",)))
        with pytest.raises(NotFound):
            await house.entries.get_entry(AS_BOB, "fa-9")
        assert (await house.entries.get_entry(AS_ANN, "fa-9")).message_ids == []

    async def test_a_page_is_full_though_much_of_it_is_anothers(self, house: House) -> None:
        cases = [
            known(f"ca-{n:02}", kind=CASES, owner=HELPER, thread="t2", user="bob", turns=("t-1",))
            for n in range(9)
        ]
        mine = [known(f"ca-9{n}", kind=CASES, owner=HELPER, turns=("t-1",)) for n in range(3)]
        await house.put(*cases, *mine)
        shown = await house.entries.list_entries(AS_ANN, EntryFilter(agent_id="helper"), 2)
        assert [each.known.entry_id for each in shown] == ["ca-90", "ca-91"]


class TestEditing:
    async def test_work_that_follows_is_queued_with_the_change(self, house: House) -> None:
        await house.entries.edit_entry(AS_ANN, "fa-1", None, EntryEdit(pinned=True))
        assert house.asked == [frozenset([FACTS])]
        assert [job.kind for job in house.store.changes[0].extra_jobs] == ["strategy"]

    async def test_nothing_is_changed_where_nothing_changes(self, house: House) -> None:
        shown = await house.entries.edit_entry(AS_ANN, "fa-1", None, EntryEdit(pinned=False))
        assert (shown.known.revision, house.store.changes) == (1, [])

    async def test_what_extraction_changed_meanwhile_does_not_turn_a_person_away(self, house: House) -> None:
        house.store.before_next_apply = [known("fa-1", "Ann lives somewhere.", turns=("t-1",))]
        shown = await house.entries.edit_entry(AS_ANN, "fa-1", None, EntryEdit(text="I live in Porto."))
        assert (shown.known.entry.text, shown.known.revision) == ("I live in Porto.", 3)

    async def test_but_one_who_named_the_revision_is_told(self, house: House) -> None:
        house.store.before_next_apply = [known("fa-1", "Ann lives somewhere.", turns=("t-1",))]
        with pytest.raises(Conflict):
            await house.entries.edit_entry(AS_ANN, "fa-1", None, EntryEdit(text="x", revision=1))
        assert (await house.row("fa-1")).entry.text == "Ann lives somewhere."


class TestDeleting:
    async def test_what_was_made_of_others_too_stays_without_it(self, house: House) -> None:
        await house.put(
            known("ca-1", kind=CASES, owner=HELPER, turns=("t-1",)),
            known("sk-1", kind=SKILLS, owner=HELPER, extra={"cases": "ca-1 ca-2"}),
        )
        deleted = await house.entries.delete_entry(OPERATOR, "ca-1")
        assert (deleted.goes_along, [each.entry_id for each in deleted.changes]) == ((), ["sk-1"])
        assert (await house.row("sk-1")).entry.extra == {"cases": "ca-2"}

    async def test_a_line_that_a_person_wrote_stays(self, house: House) -> None:
        await house.put(known("pr-1", kind=PROFILE, extra={"fact": "fa-1", "edited": "yes"}))
        assert (await house.entries.delete_entry(AS_ANN, "fa-1")).goes_along == ()
        assert (await house.row("pr-1")).entry.extra == {"edited": "yes"}

    async def test_one_that_changed_meanwhile_is_deleted_all_the_same(self, house: House) -> None:
        await house.put(
            known("pr-1", kind=PROFILE, extra={"fact": "fa-6"}),
            known("fa-5", extra={"superseded_by": "fa-6"}),
            known("fa-6", "Ann lives in Porto.", extra={"supersedes": "fa-5"}),
        )
        house.store.before_next_apply = [known("fa-5", extra={"superseded_by": "fa-6", "pinned": "yes"})]
        deleted = await house.entries.delete_entry(AS_ANN, "fa-6")
        assert [each.entry_id for each in deleted.goes_along] == ["pr-1"]
        assert (await house.row("fa-5")).entry.extra == {"pinned": "yes"}


class TestUndoing:
    async def test_a_superseding_is_undone_on_both_sides_and_stays_undone(self, house: House) -> None:
        await house.put(known("fa-6", "Ann lives in Porto.", extra={"supersedes": "fa-1"}))
        ended = {"until": "2026-05-09T00:00:00.000Z", "superseded_by": "fa-6"}
        row = await house.row("fa-1")
        await house.put(replace(row, entry=replace(row.entry, extra=ended)), actor="consolidation")
        shown = await house.entries.undo(AS_ANN, "fa-1")
        assert (shown.known.holds, shown.known.is_edited) == (True, True)
        assert shown.known.entry.extra["supersedes"] == "fa-6"
        assert (await house.row("fa-6")).entry.extra["superseded_by"] == "fa-1"
        await house.entries.undo(AS_ANN, "fa-1")
        assert ((await house.row("fa-1")).entry.extra, (await house.row("fa-6")).entry.extra) == (
            ended,
            {"supersedes": "fa-1"},
        )

    async def test_what_only_followed_a_deletion_is_passed_over(self, house: House) -> None:
        await house.put(known("pr-1", kind=PROFILE, extra={"fact": "fa-1", "edited": "yes"}))
        for text in ("I live in Porto.", "I live in Faro."):
            await house.entries.edit_entry(AS_ANN, "pr-1", None, EntryEdit(text=text))
        await house.entries.delete_entry(AS_ANN, "fa-1")
        shown = await house.entries.undo(AS_ANN, "pr-1")
        assert (shown.known.entry.text, "fact" in shown.known.entry.extra) == ("I live in Porto.", False)

    async def test_a_correction_is_undone_though_what_superseded_the_fact_was_deleted(
        self, house: House
    ) -> None:
        await house.put(
            known("fa-5", extra={"superseded_by": "fa-6", "until": "2026-05-09T00:00:00.000Z"}),
            known("fa-6", "Ann lives in Porto.", extra={"supersedes": "fa-5"}),
        )
        await house.entries.edit_entry(AS_ANN, "fa-5", None, EntryEdit(text="I lived in Bonn."))
        await house.entries.delete_entry(AS_ANN, "fa-6")
        shown = await house.entries.undo(AS_ANN, "fa-5")
        assert (shown.known.entry.text, shown.known.entry.extra) == ("Ann lives in Berlin.", {})

    async def test_there_is_nothing_to_undo_where_nothing_but_a_deletion_changed_it(
        self, house: House
    ) -> None:
        await house.put(known("pr-1", kind=PROFILE, extra={"fact": "fa-1", "edited": "yes"}))
        await house.entries.delete_entry(AS_ANN, "fa-1")
        with pytest.raises(Conflict, match="was deleted since"):
            await house.entries.undo(AS_ANN, "pr-1")


class TestWhy:
    async def test_the_chain_leads_from_a_line_to_the_words_that_were_said(self, house: House) -> None:
        cell = Memcell("c-1", ("t-1", "t-2"), "gap")
        await house.journal.cells.close(ThreadRef("default", "ann", "t1"), [cell], "rules")
        await house.put(known("pr-1", kind=PROFILE, by="profile, rules", extra={"fact": "fa-1"}))
        reason = await house.entries.why(AS_ANN, "pr-1")
        (fact,) = reason.made_of
        assert (reason.strategy, reason.model, reason.memcell) == ("profile", "rules", None)
        assert fact.memcell == Memcell("c-1", ("t-1", "t-2"), "gap")
        assert [quote.turn and quote.turn.content for quote in fact.quotes] == [
            "I live in Berlin.",
            "And I like it.",
        ]

    async def test_a_circle_is_told_once(self, house: House) -> None:
        await house.put(
            known("sk-1", kind=SKILLS, extra={"cases": "sk-2"}),
            known("sk-2", kind=SKILLS, extra={"cases": "sk-1 sk-gone"}),
        )
        reason = await house.entries.why(AS_ANN, "sk-1")
        (origin,) = reason.made_of
        assert (origin.known.entry_id, origin.made_of, origin.left_out) == ("sk-2", (), 2)

    async def test_a_long_chain_is_cut_and_says_so(self, house: House) -> None:
        ids = [f"ca-{number}" for number in range(300)]
        await house.put(*(known(each, kind=CASES) for each in ids))
        await house.put(known("sk-1", kind=SKILLS, extra={"cases": " ".join(ids)}))
        reason = await house.entries.why(AS_ANN, "sk-1")
        assert (len(reason.made_of), reason.left_out) == (199, 101)


class TestALineOfTheProfile:
    """It shows a fact: what a person does to it, they do to the fact."""

    @pytest.fixture
    async def line(self, house: House) -> KnownEntry:
        await house.put(line_of(await house.row("fa-1")))
        (found,) = await house.store.list_entries("default", ANN, kinds=(PROFILE,))
        return found

    async def test_an_edit_is_one_of_its_fact_and_an_undo_takes_it_back(
        self, house: House, line: KnownEntry
    ) -> None:
        before = (await house.row("fa-1")).entry
        shown = await house.entries.edit_entry(AS_ANN, line.entry_id, None, EntryEdit(text="In Potsdam."))
        fact = await house.row("fa-1")
        assert (shown.known.entry.text, fact.entry.text) == ("In Potsdam.", "In Potsdam.")
        assert (fact.is_edited, fact.said, shown.known.is_edited) == (True, NOW, False)
        back = await house.entries.undo(AS_ANN, line.entry_id)
        assert (await house.row("fa-1")).entry == before
        assert back.known.entry.text == before.text

    async def test_a_pin_is_one_of_its_fact(self, house: House, line: KnownEntry) -> None:
        for pinned in (True, False):
            shown = await house.entries.edit_entry(AS_ANN, line.entry_id, None, EntryEdit(pinned=pinned))
            fact = await house.row("fa-1")
            assert (shown.known.is_pinned, fact.is_pinned, fact.is_edited) == (pinned, pinned, False)

    async def test_a_line_that_is_deleted_leaves_its_fact_off_the_page(
        self, house: House, line: KnownEntry
    ) -> None:
        deleted = await house.entries.delete_entry(AS_ANN, line.entry_id)
        assert [each.entry_id for each in deleted.changes] == ["fa-1"]
        assert is_off_page(await house.row("fa-1"))

    async def test_an_edit_of_several_facts_replaces_them_by_one(self, house: House) -> None:
        both = line_of(await house.row("fa-1"), await house.row("fa-2"), text="Ann lives in Berlin, gladly.")
        await house.put(both)
        edit = EntryEdit(text="Ann lives in Potsdam.")
        shown = await house.entries.edit_entry(AS_ANN, both.entry_id, None, edit)
        other = await house.row("fa-2")
        assert (other.entry.extra["superseded_by"], other.ends) == ("fa-1", NOW)
        assert (shown.known.entry.text, shown.known.entry.extra["fact"]) == ("Ann lives in Potsdam.", "fa-1")
        await house.entries.undo(AS_ANN, "fa-1")
        assert (await house.row("fa-2")).holds

    async def test_a_correction_of_what_was_superseded_wins_over_what_holds_instead(
        self, house: House
    ) -> None:
        old = await house.row("fa-2")
        ended = {"until": "2026-05-20T00:00:00.000Z", "superseded_by": "fa-6"}
        await house.put(
            replace(old, entry=replace(old.entry, extra=ended)),
            known("fa-6", "Ann likes Rome.", when=WHEN + 2 * DAY, extra={"supersedes": "fa-2"}),
        )
        edit = EntryEdit(text="Ann likes Bonn.")
        shown = await house.entries.edit_entry(AS_ANN, "fa-2", None, edit)
        rome = await house.row("fa-6")
        assert shown.known.holds
        assert (rome.entry.extra["superseded_by"], rome.ends) == ("fa-2", NOW)
        history = (await house.entries.history(AS_ANN, "fa-6"))[1]
        assert [each.actor for each in history] == [None, "consolidation"]
