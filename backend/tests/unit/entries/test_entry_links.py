"""What entries say of one another is told on both sides, and of nothing that is gone."""

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.links import (
    origin_ids,
    partners,
    relinked,
    superseded_ids,
    taken_out,
    without_origin,
)
from recollect.domain.markdown.front_matter import write_time
from tests.unit.made_entries import DAY, WHEN, entry, known

UNTIL = write_time(WHEN + DAY)
BERLIN = known("fa-1", extra={"until": UNTIL, "superseded_by": "fa-2"})
PORTO = known("fa-2", "Ann lives in Porto.", when=WHEN + DAY, extra={"supersedes": "fa-1"})


def by_id(*entries: KnownEntry) -> dict[str, KnownEntry]:
    return {each.entry_id: each for each in entries}


def extras(entries: tuple[KnownEntry, ...]) -> dict[str, dict[str, str]]:
    return {each.entry_id: each.entry.extra for each in entries}


class TestOrigins:
    def test_a_line_of_the_profile_names_its_fact(self) -> None:
        assert origin_ids(entry("pr-1", extra={"fact": "fa-1"})) == ("fa-1",)

    def test_a_skill_names_its_cases(self) -> None:
        assert origin_ids(entry("sk-1", extra={"cases": "ca-1, ca-2 [[cases/2026-05-08#^ca-3]]"})) == (
            "ca-1", "ca-2", "ca-3",
        )  # fmt: skip

    def test_links_to_entries_are_told_from_links_to_turns(self) -> None:
        links = ("threads/t1/0001#^t-12", "facts/2026-05-08#^fa-1", "notes/mine")
        assert origin_ids(entry("pr-1", sources=links)) == ("fa-1",)

    def test_an_origin_that_is_gone_is_named_no_longer(self) -> None:
        made = entry("sk-1", extra={"cases": "ca-1 ca-2"}, sources=("cases/2026-05-08#^ca-1",))
        left = without_origin(made, "ca-1")
        assert (left.extra, left.sources) == ({"cases": "ca-2"}, ())
        assert without_origin(left, "ca-2").extra == {}


class TestTakingOneOut:
    def test_what_it_superseded_holds_again(self) -> None:
        assert extras(taken_out(PORTO, by_id(BERLIN))) == {"fa-1": {}}

    def test_what_superseded_it_names_it_no_longer(self) -> None:
        assert extras(taken_out(BERLIN, by_id(PORTO))) == {"fa-2": {}}

    def test_the_last_takes_the_place_of_the_one_between(self) -> None:
        faro = known("fa-3", "Ann lives in Faro.", when=WHEN + 2 * DAY, extra={"supersedes": "fa-2"})
        between = known("fa-2", extra={"supersedes": "fa-1", "superseded_by": "fa-3"})
        assert extras(taken_out(between, by_id(BERLIN, faro))) == {
            "fa-1": {"until": UNTIL, "superseded_by": "fa-3"},
            "fa-3": {"supersedes": "fa-1"},
        }

    def test_what_another_superseded_since_stays_so(self) -> None:
        other = known("fa-1", extra={"superseded_by": "fa-9"})
        assert taken_out(PORTO, by_id(other)) == ()


class TestGoingBack:
    def test_one_that_holds_again_is_no_longer_superseded_on_either_side(self) -> None:
        changed = relinked(BERLIN, known("fa-1"), by_id(PORTO))
        assert extras(changed) == {"fa-1": {}, "fa-2": {}}

    def test_one_that_is_superseded_again_is_so_on_both_sides(self) -> None:
        changed = relinked(known("fa-1"), BERLIN, by_id(known("fa-2")))
        assert extras(changed) == {"fa-1": BERLIN.entry.extra, "fa-2": {"supersedes": "fa-1"}}

    def test_it_is_not_superseded_by_what_is_gone(self) -> None:
        assert extras(relinked(known("fa-1"), BERLIN, {})) == {"fa-1": {}}

    def test_one_that_supersedes_no_longer_lets_the_other_hold(self) -> None:
        changed = relinked(PORTO, known("fa-2", "Ann likes Porto."), by_id(BERLIN))
        assert extras(changed) == {"fa-2": {}, "fa-1": {}}

    def test_one_that_supersedes_again_ends_the_other(self) -> None:
        changed = relinked(known("fa-2"), PORTO, by_id(known("fa-1")))
        assert extras(changed)["fa-1"] == {"until": UNTIL, "superseded_by": "fa-2"}

    def test_it_supersedes_nothing_that_is_gone(self) -> None:
        assert extras(relinked(known("fa-2"), PORTO, {})) == {"fa-2": {}}

    def test_it_is_made_of_nothing_that_is_gone(self) -> None:
        line = known("pr-1", extra={"fact": "fa-1", "edited": "yes"})
        assert extras(relinked(known("pr-1"), line, {})) == {"pr-1": {"edited": "yes"}}
        assert extras(relinked(known("pr-1"), line, by_id(known("fa-1")))) == {"pr-1": line.entry.extra}

    def test_what_is_said_of_others_and_did_not_change_stays(self) -> None:
        other = known("fa-1", extra={"superseded_by": "fa-2", "until": UNTIL})
        assert [each.entry_id for each in relinked(PORTO, PORTO, by_id(other))] == ["fa-2"]


def test_partners_are_told_once() -> None:
    assert partners(BERLIN.entry, BERLIN.entry, PORTO.entry) == ("fa-2", "fa-1")
    assert superseded_ids(entry()) == ()
