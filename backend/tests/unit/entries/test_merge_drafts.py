"""From drafts to entries: what takes whose place, and what a person's word keeps out."""

from dataclasses import replace

from recollect.domain.entries.entry import Deletion, KnownEntry, Source, entry_id, statement_key
from recollect.domain.entries.merge_drafts import Known, Origin, Outcome, Proposal, proposals_of, remember
from recollect.domain.extraction.draft import Draft, StoredCell
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Entry, Thread
from tests.unit.made_entries import DAY

OWNER = "default/users/ann"


def fact(place: int, text: str, *turns: str, category: str = "identity", **extra: str) -> KnownEntry:
    """What the strategy facts makes of the memcell c-1, at that place."""
    cited = turns or ("t-1",)
    entry = Entry(
        entry_id("facts", "default", OWNER, "c-1", "facts", place),
        text,
        text,
        1_778_248_980_000 + place,
        tuple(f"threads/t1/0001#^{turn}" for turn in cited),
        "facts, rules",
        {"subject": "user", "category": category, **extra},
    )
    sources = tuple(Source("ann", "t1", turn) for turn in cited)
    return KnownEntry("default", OWNER, "facts", entry, sources, "c-1", "facts")


def stored(entry: KnownEntry, **extra: str) -> KnownEntry:
    told = replace(entry.entry, extra={**entry.entry.extra, **extra})
    return replace(entry, entry=told, path=f"{OWNER}/facts/2026-05-08.md", revision=3)


def deletion_of(entry: KnownEntry) -> Deletion:
    return Deletion(entry.entry_id, entry.kind, entry.cell, tuple(source.turn_id for source in entry.sources))


def run(new: list[KnownEntry], before: list[KnownEntry], *deletions: Deletion) -> Outcome:
    return remember([Proposal(each) for each in new], Known(before, deletions=deletions))


NURSE = fact(0, "Ann works as a nurse.", category="work")
REX = fact(1, "Ann has a dog called Rex.", category="people")
BERLIN = fact(2, "Ann lives in Berlin.", category="home")


def test_a_draft_becomes_an_entry_with_all_that_it_says_of_itself() -> None:
    thread = Thread("default", "t1", "ann", 0, 0)
    cell = StoredCell("c-1", thread, (), {"t-1": 1})
    told = {"subject": "user", "category": "home", "happened": "", "lapses": write_time(9 * DAY)}
    draft = Draft(
        "facts", "Ann rents.", "Ann rents.", DAY, ("t-1", "t-9"), told, replaces=("fa-1",), ends=("fa-2",)
    )
    (made,) = proposals_of([draft], Origin("default", OWNER, "facts", "qwen", cell))
    assert (made.replaces, made.ends) == (("fa-1",), ("fa-2",))
    assert made.known.entry.sources == ("threads/t1/0001#^t-1",)
    assert made.known.entry.extra == {
        "subject": "user",
        "category": "home",
        "lapses": write_time(9 * DAY),
        "cell": "c-1",
    }


def test_what_a_cell_no_longer_says_goes() -> None:
    outcome = run([NURSE], [stored(NURSE), stored(REX)])
    assert (outcome.wrote, outcome.remove) == ([NURSE.entry_id], [REX.entry_id])


def test_what_was_deleted_stays_away_and_takes_nothing_of_its_turn_along() -> None:
    outcome = run([NURSE, REX, BERLIN], [stored(NURSE), stored(BERLIN)], deletion_of(REX))
    assert (outcome.remove, outcome.kept_from) == ([], 1)
    assert sorted(outcome.put) == sorted([NURSE.entry_id, BERLIN.entry_id])


def test_what_another_turn_says_does_not_lie_in_the_grave_that_has_its_place() -> None:
    other = fact(1, "Ann plays chess.", "t-5", category="likes")
    outcome = run([NURSE, other], [stored(NURSE)], deletion_of(REX))
    (put,) = [entry for entry in outcome.put.values() if entry.entry.text == "Ann plays chess."]
    assert put.entry_id != REX.entry_id
    again = run([NURSE, other], [stored(NURSE), stored(put)], deletion_of(REX))
    assert put.entry_id in again.put
    assert again.remove == []


def test_what_a_person_wrote_is_neither_changed_nor_contradicted_by_its_own_turns() -> None:
    edited = stored(fact(2, "Ann lives in Potsdam.", category="home"), edited="yes")
    elsewhere = fact(0, "Ann lives in Berlin.", category="home")
    outcome = run([elsewhere, REX], [edited, stored(REX)])
    assert (sorted(outcome.put), outcome.remove, outcome.kept_from) == ([REX.entry_id], [], 1)


def test_a_place_that_is_a_persons_is_left_to_them() -> None:
    edited = stored(fact(0, "Ann lives in Potsdam.", category="home"), edited="yes")
    outcome = run([NURSE], [edited])
    (put,) = outcome.put.values()
    assert put.entry_id != edited.entry_id
    assert (put.entry.text, outcome.remove) == ("Ann works as a nurse.", [])


def test_a_pin_survives_a_second_run_and_another_wording() -> None:
    for again in (NURSE, fact(0, "Ann is a nurse.", category="work")):
        assert run([again], [stored(NURSE, pinned="yes")]).put[NURSE.entry_id].is_pinned


def test_a_statement_that_moves_keeps_its_id_and_marks() -> None:
    moved = fact(0, REX.entry.text, category="people")
    outcome = run([moved], [stored(NURSE), stored(REX, superseded_by="fa-9", until=write_time(DAY))])
    assert (outcome.wrote, outcome.remove) == ([REX.entry_id], [NURSE.entry_id])
    assert not outcome.put[REX.entry_id].holds


def test_what_other_cells_said_alike_stays_a_source() -> None:
    both = stored(fact(0, NURSE.entry.text, "t-1", "t-7", category="work"))
    assert run([NURSE], [both]).put[NURSE.entry_id] == both


def home(place: str, day: int, **extra: str) -> KnownEntry:
    """Made of a memcell of that day."""
    made = fact(0, f"Ann lives in {place}.", f"t-{day}", category="home", **extra)
    return replace(made, entry=replace(made.entry, entry_id=f"fa-{day}", when=day * DAY), cell=f"c-{day}")


def named(
    new: KnownEntry, *others: KnownEntry, before: list[KnownEntry] | None = None, names: tuple[str, ...] = ()
) -> Outcome:
    """The new one names these; `others` are known."""
    alike = {new.entry_id: [each for each in others if each.entry.text == new.entry.text]}
    return remember([Proposal(new, names)], Known(before or [], alike, others))


class TestWhatIsNamed:
    def test_a_second_run_that_no_longer_names_it_lets_it_hold_again(self) -> None:
        once = named(home("Berlin", 5), home("Porto", 1), names=("fa-1",)).put
        again = named(home("Berlin", 5), once["fa-1"], before=[once["fa-5"]])
        assert again.put == {"fa-1": home("Porto", 1), "fa-5": home("Berlin", 5)}

    def test_a_second_run_that_says_something_else_lets_it_hold_again(self) -> None:
        once = named(home("Berlin", 5), home("Porto", 1), names=("fa-1",)).put
        other = replace(once["fa-5"], entry=replace(fact(0, "Ann runs.", "t-5", category="habits").entry))
        again = named(other, once["fa-1"], before=[once["fa-5"]])
        assert (again.put["fa-1"], again.remove) == (home("Porto", 1), ["fa-5"])

    def test_a_second_run_keeps_what_later_cells_marked(self) -> None:
        berlin = home("Berlin", 5, superseded_by="fa-9", until=write_time(9 * DAY))
        rome = home("Rome", 9, supersedes="fa-5", replaces="fa-5")
        again = named(home("Berlin", 5), rome, before=[berlin])
        assert again.put == {"fa-5": berlin}

    def test_for_a_line_of_the_profile_it_is_the_fact_that_the_line_shows(self) -> None:
        entry = Entry("pr-1", "x", "x", DAY, (), "profile, rules", {"fact": "fa-1"})
        line = KnownEntry("default", OWNER, "profile", entry)
        outcome = named(home("Berlin", 5), home("Porto", 1), line, names=("pr-1",))
        assert (outcome.superseded, "pr-1" in outcome.put) == (["fa-1"], False)


class TestTheSameStatement:
    def test_after_its_end_is_a_new_entry(self) -> None:
        porto = home("Porto", 1, until=write_time(5 * DAY), superseded_by="fa-5")
        outcome = named(home("Porto", 9), porto, home("Berlin", 5, supersedes="fa-1"), names=("fa-5",))
        assert (outcome.merged, outcome.wrote, outcome.superseded) == ([], ["fa-9"], ["fa-5"])

    def test_replaces_what_its_repetition_names(self) -> None:
        outcome = named(home("Porto", 9), home("Porto", 1), home("Berlin", 5), names=("fa-5",))
        assert (outcome.merged, outcome.superseded) == (["fa-1"], ["fa-5"])
        assert outcome.put["fa-5"].ends == 9 * DAY


def test_a_deletion_is_of_one_subject_and_one_owner() -> None:
    of_friend, of_boss = (fact(0, "Anna likes tea.", subject=f"Anna ({who})") for who in ("friend", "boss"))
    known = Known([], deleted={statement_key(of_friend): of_boss.entry.when + DAY})
    assert remember([Proposal(of_boss)], known).kept_from == 0
    assert remember([Proposal(fact(1, "anna likes tea", subject="anna (FRIEND)"))], known).kept_from == 1
    assert statement_key(replace(BERLIN, owner="default/users/bob")) != statement_key(BERLIN)


def test_what_is_still_there_stays_though_the_same_was_deleted_elsewhere() -> None:
    known = Known([stored(BERLIN)], deleted={statement_key(BERLIN): BERLIN.entry.when + DAY})
    assert remember([Proposal(BERLIN)], known).wrote == [BERLIN.entry_id]
    assert remember([], known).remove == [BERLIN.entry_id]


def test_one_strategy_sees_what_another_changed_before_it() -> None:
    rome = replace(stored(NURSE), kind="foresight", cell="c-0")
    known = Known([], linked=[rome])
    first = remember([Proposal(REX, ends=(rome.entry_id,))], known)
    later = replace(BERLIN, kind="foresight")
    second = remember([Proposal(later, replaces=(rome.entry_id,))], known.after(first))
    made = {**first.put, **second.put}
    ended = made.pop(rome.entry_id)
    assert (ended.entry.extra["superseded_by"], ended.revision) == (REX.entry_id, rome.revision)
    assert [each.holds for each in made.values()] == [True, True]


def test_what_another_strategy_removed_is_not_there() -> None:
    gone = Outcome(remove=[BERLIN.entry_id])
    known = Known([stored(REX)], {NURSE.entry_id: [stored(BERLIN)]}, [stored(BERLIN)]).after(gone)
    assert (list(known.of_cell), known.alike[NURSE.entry_id], list(known.linked)) == ([stored(REX)], [], [])
