"""A file of entries takes in what changed, and a person's own words in it stay as they are."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.domain.markdown.entry_document import (
    is_bare,
    read_document,
    splice,
)
from recollect.domain.markdown.entry_file import (
    render_entries,
    render_entry,
    render_first_version,
    section_digest,
)
from recollect.domain.markdown.front_matter import Problem
from recollect.domain.model import MAX_TIMESTAMP, Entry
from tests.unit.awkward_text import entries_of, texts, unhurried, words

PATH = "default/users/ann/facts/2026-05-08.md"
KIND, OWNER = "facts", "users/ann"
LINK = "threads/t1/0001#^t-1"
CAT = Entry("fa-1", "Ann has a cat.", "Ann has a cat.", 1_778_248_980_000, (LINK,), "facts, rules")
DOG = Entry("fa-2", "Bob has a dog.", "Bob has a dog.", 1_778_248_990_000, (LINK,), "facts, rules")
OWL = Entry("fa-3", "Cleo has an owl.", "Cleo has an owl.", 1_778_248_999_000, (LINK,), "facts, rules")


def read_entry_file(path: str, text: str) -> tuple[tuple[Entry, ...], tuple[Problem, ...]]:
    document = read_document(path, text)
    return tuple(document.intact.values()), document.problems


def written(*entries: Entry) -> str:
    return render_entries(KIND, OWNER, entries)


def spliced(text: str | None, *entries: Entry, gone: tuple[str, ...] = ()) -> str:
    return splice(text, KIND, OWNER, entries, gone, path=PATH)


_entries = entries_of(
    entry_id=words.filter(bool),
    when=st.integers(0, 5) | st.integers(0, MAX_TIMESTAMP),
    sources=st.lists(st.just(LINK) | texts, max_size=2).map(tuple),
    by=texts,
    extra=st.dictionaries(words, texts, max_size=2),
)
_many = st.lists(_entries, max_size=4, unique_by=lambda entry: entry.entry_id)
_foreign_lines = st.sampled_from(
    [
        "mine", "", "", "# Title", "### deep", "%% a comment %%", "- a list", "- when: 2026-05-08T14:03:00Z", "```",
        "[[a link]]", "## My own section", "---", "1. one", "> quoted", "\tindented", "plain\r",
    ]
)  # fmt: skip
_foreign = st.lists(_foreign_lines | texts.map(lambda text: text.replace("\n", " ")), max_size=6)


def _interleaved(entries: list[Entry], foreign: list[list[str]]) -> str:
    """A file of these entries in which a person wrote between the sections."""
    pieces = [written()]
    for number, entry in enumerate(entries):
        pieces += ["\n", render_entry(entry)]
        if number < len(foreign) and foreign[number]:
            pieces.append("\n" + "".join(f"{line}\n" for line in foreign[number]))
    return "".join(pieces)


@unhurried
@given(_many)
def test_without_a_file_there_is_one_of_exactly_these_entries(entries: list[Entry]) -> None:
    text = spliced(None, *entries)
    ordered = tuple(sorted(entries, key=lambda entry: (entry.when, entry.entry_id)))
    assert text == render_entries(KIND, OWNER, ordered)
    assert spliced("", *entries) == text


@settings(unhurried)
@given(_many, st.data())
def test_whatever_the_steps_the_file_ends_up_with_the_same_bytes(
    entries: list[Entry], data: st.DataObject
) -> None:
    text: str | None = None
    for step in range(3):
        some = data.draw(st.lists(st.sampled_from(entries), unique_by=id)) if entries else []
        gone = [entry.entry_id for entry in entries if entry not in some]
        text = spliced(text, *some, gone=tuple(gone))
        assert read_document(PATH, text).problems == (), step
    assert spliced(text, *entries) == spliced(None, *entries)


@settings(unhurried)
@given(_many, st.lists(_foreign, max_size=4), st.data())
def test_the_file_holds_the_entries_whatever_a_person_wrote_between_them(
    entries: list[Entry], foreign: list[list[str]], data: st.DataObject
) -> None:
    before = _interleaved(entries, foreign)
    changed = [
        replace(entry, text=data.draw(texts), when=data.draw(st.just(entry.when) | st.integers(0, 9)))
        for entry in entries
        if data.draw(st.booleans())
    ]
    gone = tuple({entry.entry_id for entry in entries} - {entry.entry_id for entry in changed})
    new = [entry for entry in data.draw(_many) if entry.entry_id not in {e.entry_id for e in entries}]
    text = spliced(before, *changed, *new, gone=gone)
    found = read_document(PATH, text)
    assert [entry for entry in [*changed, *new] if found.intact.get(entry.entry_id) != entry] == []
    assert found.written.keys().isdisjoint(gone)
    assert spliced(text, *changed, *new, gone=gone) == text


@settings(unhurried)
@given(_many, st.lists(_foreign, max_size=4), _many)
def test_lines_of_a_person_stay_in_their_order(
    entries: list[Entry], foreign: list[list[str]], others: list[Entry]
) -> None:
    marked = [[f"§{n}-{m} {line}" for m, line in enumerate(lines)] for n, lines in enumerate(foreign)]
    before = _interleaved(entries, marked)
    text = spliced(before, *others, gone=tuple(entry.entry_id for entry in entries))
    kept = [line for line in text.split("\n") if line.startswith("§")]
    assert kept == [line for line in before.split("\n") if line.startswith("§")]


@settings(unhurried)
@given(texts, _many)
def test_any_text_at_all_takes_in_entries_and_keeps_its_lines(foreign: str, entries: list[Entry]) -> None:
    text = spliced(foreign, *entries)
    if foreign.strip("\ufeff \t\r\n"):
        ours = {entry.entry_id for entry in entries}
        if read_document(PATH, foreign).written.keys().isdisjoint(ours):
            assert text.startswith(foreign.rstrip("\n"))
    assert spliced(text, *entries) == text


@pytest.mark.parametrize(
    "theirs",
    [
        written(CAT, DOG).replace("\n", "\r\n"),
        written(CAT, DOG).replace("kind: facts\n", "kind: facts\naliases: [pets]\n"),
        "\ufeff" + written(CAT, DOG),
        written(CAT, DOG) + "\n\n\nMy own words at the end, without a newline",
        written(CAT, DOG).replace("\n## ", "\n%% look here %%\n\n### mine\n\n## "),
        written(CAT, DOG).replace("%% by: facts, rules %%\n", "%%  by: facts, rules   %%  \n"),
        "".join(
            [written().replace("recollect: 3", "recollect: 1")]
            + [f"\n{render_first_version(each)}" for each in (CAT, DOG)]
        ),
        written(CAT, DOG).replace("rules %%\n", "rules %%\n\nmine\n\n- tea: green\n"),
        "".join(
            [written().replace("recollect: 3", "recollect: 2")]
            + [f"\n{render_entry(each, quoted=True)}" for each in (CAT, DOG)]
        ),
        written(DOG, CAT),
        "\n".join(line + "  " for line in written(CAT, DOG).split("\n")).replace("  \n", "\n"),
    ],
)
def test_a_file_that_says_the_same_is_left_byte_for_byte(theirs: str) -> None:
    assert spliced(theirs, CAT, DOG) == theirs


def test_one_changed_entry_changes_its_own_section_alone() -> None:
    theirs = written(CAT, DOG, OWL).replace("\n## Cleo", "\nmine\n\n## Cleo").replace("\n", "\r\n")
    bigger = replace(DOG, title="Bob has a big dog.", text="Bob has a big dog.")
    assert spliced(theirs, CAT, bigger, OWL) == theirs.replace("## Bob has a dog.", "## Bob has a big dog.")


def test_a_new_entry_stands_where_its_time_puts_it() -> None:
    assert spliced(written(CAT, OWL), CAT, DOG, OWL) == written(CAT, DOG, OWL)
    assert spliced(written(DOG, OWL), CAT, DOG, OWL) == written(CAT, DOG, OWL)
    assert spliced(written(CAT, DOG), CAT, DOG, OWL) == written(CAT, DOG, OWL)


def test_an_entry_whose_time_changes_moves_to_its_new_place() -> None:
    late = replace(CAT, when=OWL.when + 1)
    assert spliced(written(CAT, DOG, OWL), late, DOG, OWL) == written(DOG, OWL, late)


def test_sections_whose_ids_nobody_names_are_a_persons_and_stay() -> None:
    assert spliced(written(CAT, DOG), CAT) == written(CAT, DOG)
    assert spliced(written(CAT, DOG), CAT, gone=("fa-2",)) == written(CAT)


def test_what_a_person_wrote_within_a_section_stays_below_it() -> None:
    before, after = (replace(CAT, text=f"Ann has two cats.\n{name}") for name in ("Mia.", "Mia and Tom."))
    theirs = written(before, DOG).replace("rules %%\n\n> Ann", "rules %%\nhm?\n\n> Ann")
    expected = written(after, DOG).replace("> Mia and Tom.\n", "> Mia and Tom.\n\nhm?\n")
    assert spliced(theirs, after, DOG) == expected
    theirs = written(CAT, DOG).replace("rules %%\n\n## Bob", "rules %%\nhm?\n\n## Bob")
    fat = replace(CAT, title="Ann has a fat cat.", text="Ann has a fat cat.")
    assert spliced(theirs, fat, DOG) == written(fat, DOG).replace("%%\n\n## Bob", "%%\n\nhm?\n\n## Bob")


def test_a_sentence_above_a_persons_own_quote_keeps_its_text_quoted() -> None:
    """Else theirs would become its text."""
    theirs = (
        written(DOG)
        .replace("rules %%\n", "rules %%\n\n> Bob has a dog.\n\n- mine: yes\n\n> My own.\n")
        .replace("recollect: 3", "recollect: 2")
    )
    bigger = replace(DOG, title="Bob has a big dog.", text="Bob has a big dog.")
    text = spliced(theirs, bigger)
    assert text == theirs.replace("Bob has a dog.", "Bob has a big dog.").replace(": 2", ": 3", 1)
    assert read_document(PATH, text).intact == {"fa-2": bigger}


def test_a_persons_quote_above_a_list_of_theirs_damages_nothing() -> None:
    long = replace(CAT, text="Ann has a cat.\nIt is fat.")
    theirs = written(long) + "\n> mine\n- mine: yes\n"
    assert read_entry_file(PATH, theirs) == ((long,), ())


def test_a_sentence_goes_into_a_file_of_an_older_version_in_which_a_person_wrote() -> None:
    old = written(CAT).replace("recollect: 3", "recollect: 2") + "\n> Ann has a cat.\n\nmine\n"
    assert spliced(old, CAT) == old
    text = spliced(old, CAT, DOG)
    assert text == old.replace(": 2", ": 3", 1) + "\n" + render_entry(DOG)
    assert read_document(PATH, text).problems == ()


def test_a_restyled_file_quotes_no_sentence_and_one_changed_section_is_written_in_todays_form() -> None:
    old = "".join(
        [written().replace("recollect: 3", "recollect: 2")]
        + [f"\n{render_entry(each)}\n> {each.text}\n" for each in (CAT, DOG)]
    )
    assert splice(old, KIND, OWNER, [CAT, DOG], (), path=PATH, restyle=True) == written(CAT, DOG)
    fat = replace(CAT, title="Ann has a fat cat.", text="Ann has a fat cat.")
    assert spliced(old, fat, DOG) == written(fat, DOG) + "\n> Bob has a dog.\n"


def test_a_section_that_is_not_to_be_touched_stays_damaged() -> None:
    theirs = written(CAT, DOG).replace("14:03", "noon", 1)
    text = splice(theirs, KIND, OWNER, [CAT, DOG, OWL], (), path=PATH, untouched=["fa-1"])
    assert text == theirs + "\n" + render_entry(OWL)
    assert read_document(PATH, text).damaged == {"fa-1"}


def test_the_profile_is_in_the_order_of_the_page() -> None:
    home = Entry("pr-1", "Home", "Ann lives in Berlin.", 9)
    name = Entry("pr-2", "Name", "Ann", 10)
    text = splice(None, "profile", OWNER, [home], ())
    assert splice(text, "profile", OWNER, [home, name], ()) == splice(
        None, "profile", OWNER, [name, home], ()
    )


def test_a_section_without_an_id_is_an_entry_of_the_files_day() -> None:
    text = written(CAT) + "\n## Ann hates coriander\n\n> She does.\n"
    entries, problems = read_entry_file(PATH, text)
    assert [(entry.title, entry.text, entry.when) for entry in entries[1:]] == [
        ("Ann hates coriander", "She does.", 1_778_198_400_000)
    ]
    assert problems == ()
    again, _ = read_entry_file(PATH, text)
    assert entries == again


def test_a_section_without_an_id_gets_it_in_place() -> None:
    theirs = written(CAT) + "\n## Ann hates coriander\n\n> She does.\n\nmine\n"
    _, new = read_entry_file(PATH, theirs)[0]
    text = spliced(theirs, CAT, new)
    assert text == theirs.replace(
        "coriander\n\n>", f"coriander ^{new.entry_id}\n- when: 2026-05-08T00:00:00Z\n\n>"
    )
    assert read_entry_file(PATH, text)[0] == (CAT, new)


def test_sections_that_say_the_same_without_ids_are_told_apart() -> None:
    section = "\n## Ann hates coriander\n\n> She does.\n"
    entries, _ = read_entry_file(PATH, written() + section + section)
    assert len({entry.entry_id for entry in entries}) == 2


def test_a_section_without_a_quoted_text_is_reported_and_no_entry() -> None:
    entries, problems = read_entry_file(PATH, written(CAT) + "\n## My list\n\nmilk\n")
    assert entries == (CAT,)
    assert {problem.line for problem in problems} == {12, 14}


def test_only_what_we_put_at_the_head_is_bare() -> None:
    assert is_bare(spliced(written(CAT), gone=("fa-1",)), KIND, OWNER)
    assert is_bare(written().replace("\n", "\r\n"), KIND, OWNER)
    assert not is_bare(written() + "\nmine\n", KIND, OWNER)
    assert not is_bare(written(CAT), KIND, OWNER)


def test_digests_differ_where_anything_in_a_section_does() -> None:
    changed = [replace(CAT, by="x"), replace(CAT, extra={"pinned": "yes"}), replace(CAT, when=1), DOG]
    assert len({section_digest(entry) for entry in [CAT, *changed]}) == 5


class TestThePageOfTheProfile:
    """It has a heading for each category, once."""

    PAGE = "default/users/ann/profile.md"

    def page(self, text: str | None, *entries: Entry, gone: tuple[str, ...] = ()) -> str:
        return splice(text, "profile", OWNER, entries, gone, path=self.PAGE)

    def line(self, number: int, category: str) -> Entry:
        return Entry(
            f"pr-{number}", f"Line {number}", f"Line {number}", 1000 * number, extra={"category": category}
        )

    def headings(self, page: str) -> list[str]:
        return [line.split(" ^")[0] for line in page.splitlines() if line.startswith("#")]

    def test_lines_come_and_go_and_it_stays_as_if_written_at_once(self) -> None:
        home, flat, likes = self.line(1, "home"), self.line(2, "home"), self.line(3, "likes")
        at_once = self.page(None, home, flat, likes)
        assert self.headings(at_once) == ["# Home", "## Line 2", "## Line 1", "# Likes", "## Line 3"]
        assert self.page(self.page(None, flat), home, flat, likes) == at_once
        assert self.page(at_once, home, flat, likes) == at_once
        assert self.page(at_once, home, gone=("pr-2", "pr-3")) == self.page(None, home)
        pinned = replace(home, extra={**home.extra, "pinned": "yes"})
        assert self.headings(self.page(at_once, pinned, flat, likes))[1] == "## Line 1"

    def test_the_lines_read_as_they_were_written(self) -> None:
        entries = (self.line(1, "home"), self.line(2, "wishes to the assistant"))
        document = read_document(self.PAGE, self.page(None, *entries))
        assert (document.entries, document.problems) == (entries, ())

    def test_a_persons_own_headings_stay(self) -> None:
        page = self.page(None, self.line(1, "home")) + "\n# Home\n\nMine.\n"
        assert self.page(page, gone=("pr-1",)).endswith("\n# Home\n\nMine.\n")
        assert self.page(page, self.line(1, "home")) == page
