"""What entries say of one another is told on both sides, and of nothing that is gone."""

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.links import (
    origin_ids,
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
