"""Entries in the index: of a file that changes, only the entries that changed are touched."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from recollect.domain.access import Caller
from recollect.domain.identity import text_digest
from recollect.domain.markdown.entry_file import render_entries
from recollect.domain.model import Entry, Note
from recollect.domain.recall.hits import Scope, Selection
from recollect.domain.recall.rows import IndexRow
from recollect.service.recall import words
from recollect.service.recall.search import Found, Search
from tests.contract.journals import Journal
from tests.fakes import START
from tests.persons_vault import PersonsVault
from tests.unit.index_house import OWNER, House

DAY = f"{OWNER}/facts/2026-05-08.md"
NEXT_DAY = f"{OWNER}/facts/2026-05-09.md"


def fact(name: str, text: str, *numbers: int, **extra: str) -> Entry:
    links = tuple(f"threads/t1/0001#^t-{number}" for number in numbers)
    return Entry(name, text, text, START, links, "facts, rules", extra)


class Remembering(House):
    """A house that counts what is written to the index."""

    def __init__(self, journal: Journal, vault: PersonsVault) -> None:
        super().__init__(journal, vault)
        self.put: list[str] = []

    async def open(self) -> None:
        await super().open()
        put = self.store.put

        async def counted(
            generation: str, owner: str, rows: Sequence[IndexRow], words: Sequence[str]
        ) -> None:
            self.put += [row.row_id for row in rows]
            await put(generation, owner, rows, words)

        self.store.put = counted  # type: ignore[method-assign]

    async def write_entries(self, path: str, *entries: Entry) -> None:
        text = render_entries("facts", "users/ann", entries)
        self.vault.files[path] = text
        await self.notes.seen(Note(path, OWNER, text_digest(text), START))
        self.indexer.notes_changed([OWNER])
        await self.settled()

    async def facts(self, query: str) -> Found:
        selection = Selection("keyword", Scope(types=frozenset(["facts"])))
        return await self.recall.search(Caller(), Search(query, "ann", selection=selection))


@pytest.fixture
async def house(journal: Journal, vault: PersonsVault) -> AsyncIterator[Remembering]:
    opened = Remembering(journal, vault)
    await opened.open()
    await opened.add("t1", "my dog Rex barks", "a cat")
    await opened.settled()
    yield opened
    await opened.close()


async def test_an_entry_is_found_with_the_messages_it_came_from(house: Remembering) -> None:
    await house.write_entries(DAY, fact("fa-1", "Ann owns a hound", 1))
    (hit,) = (await house.facts("hound")).hits
    (turn,) = [hit for hit in (await house.search("barks")).hits if "barks" in hit.text]
    assert (hit.row.row_id, hit.message_ids) == ("fa-1", turn.message_ids)
    assert hit.row.thread_id == "t1"
    assert await house.whole()


async def test_one_more_entry_puts_one_row_and_embeds_one_text(house: Remembering) -> None:
    one, two, three = (
        fact("fa-1", "Ann owns a hound", 1),
        fact("fa-2", "Ann owns a cat", 2),
        fact("fa-3", "Tea"),
    )
    await house.write_entries(DAY, one, two)
    house.put.clear()
    embedded = house.meaning.embedded
    await house.write_entries(DAY, three, one, two)
    assert (house.put, house.meaning.embedded - embedded) == (["fa-3"], 1)
    assert house.store.compacted == []
    assert await house.whole()


async def test_an_entry_that_is_superseded_keeps_its_vector(house: Remembering) -> None:
    one = fact("fa-1", "Ann owns a hound", 1)
    await house.write_entries(DAY, one)
    embedded = house.meaning.embedded
    await house.write_entries(DAY, replace(one, extra={"until": "2026-05-09T00:00:00Z"}))
    assert house.meaning.embedded == embedded
    assert (await house.stored())["Ann owns a hound"]
    assert (await house.facts("hound")).hits[0].row.until > 0
    assert await house.whole()


async def test_of_an_entry_that_is_written_again_no_old_version_stays(house: Remembering) -> None:
    await house.write_entries(DAY, fact("fa-1", "Ann owns a hound", 1), fact("fa-2", "Tea"))
    await house.write_entries(DAY, fact("fa-1", "Ann owns a cat", 1), fact("fa-2", "Tea"))
    assert (await house.facts("hound")).hits == []
    assert house.store.compacted == [(house.indexer.live.name, OWNER)]
    assert await house.whole()


async def test_an_entry_that_is_gone_from_its_file_is_gone(house: Remembering) -> None:
    await house.write_entries(DAY, fact("fa-1", "Ann owns a hound", 1), fact("fa-2", "Tea"))
    await house.write_entries(DAY, fact("fa-2", "Tea"))
    assert (await house.facts("hound")).hits == []
    assert house.store.compacted
    assert await house.whole()


async def test_an_entry_that_moves_to_another_file_is_found_there(house: Remembering) -> None:
    moving = fact("fa-1", "Ann owns a hound", 1)
    await house.write_entries(DAY, moving, fact("fa-2", "Tea"))
    await house.write_entries(NEXT_DAY, moving)
    await house.write_entries(DAY, fact("fa-2", "Tea"))
    await house.write_entries(NEXT_DAY, moving, fact("fa-3", "Milk"))
    assert [hit.row.path for hit in (await house.facts("hound")).hits] == [NEXT_DAY]
    assert await house.whole()


async def test_an_entry_that_leaves_one_file_as_it_comes_into_another_is_found(
    house: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few files are indexed together."""
    monkeypatch.setattr(words, "_PASSAGES_AT_ONCE", 1)
    moving, tea = fact("fa-1", "Ann owns a hound", 1), fact("fa-2", "Tea")
    await house.write_entries(NEXT_DAY, moving)
    for path, entries in ((DAY, (tea, moving)), (NEXT_DAY, (fact("fa-3", "Milk"),))):
        text = render_entries("facts", "users/ann", entries)
        house.vault.files[path] = text
        await house.notes.seen(Note(path, OWNER, text_digest(text), START))
    house.indexer.notes_changed([OWNER])
    await house.settled()
    assert [hit.row.path for hit in (await house.facts("hound")).hits] == [DAY]
    assert await house.whole()


async def test_an_entry_in_two_files_is_found_once_and_nothing_is_called_lost(house: Remembering) -> None:
    await house.write_entries(DAY, fact("fa-1", "Ann owns a hound", 1))
    await house.write_entries(NEXT_DAY, fact("fa-1", "Ann owns a hound", 1), fact("fa-2", "Tea"))
    house.corpus_cache.clear()
    assert len((await house.facts("hound")).hits) == 1
    assert house.corpus_cache.damaged == 0
    assert await house.whole()


async def test_what_a_kill_left_without_a_vector_is_embedded(house: Remembering) -> None:
    one = fact("fa-1", "Ann owns a hound", 1)
    await house.write_entries(DAY, one)
    changed = replace(one, extra={"pinned": "yes"})
    set_vectors = house.store.set_vectors

    async def killed(*_: object) -> None:
        raise KeyboardInterrupt

    house.store.set_vectors = killed  # type: ignore[assignment]
    text = render_entries("facts", "users/ann", (changed,))
    house.vault.files[DAY] = text
    await house.notes.seen(Note(DAY, OWNER, text_digest(text), START))
    words = house.reindexer.words
    with pytest.raises(KeyboardInterrupt):
        await words.index_notes(house.indexer.live.name, OWNER, live=False)
    assert not (await house.stored())["Ann owns a hound"]
    house.store.set_vectors = set_vectors  # type: ignore[method-assign]
    await house.reopen()
    await house.settled()
    assert (await house.stored())["Ann owns a hound"]
    assert await house.whole()


async def test_of_a_note_only_the_passage_that_changed_is_embedded_again(house: Remembering) -> None:
    await house.write_note("n", "# Dogs\nRex barks\n\n# Cats\nTom purrs")
    await house.settled()
    embedded = house.meaning.embedded
    await house.write_note("n", "# Dogs\nRex barks\n\n# Cats\nTom sleeps")
    await house.settled()
    assert house.meaning.embedded - embedded == 1
    assert await house.whole()


async def test_a_forgotten_turn_takes_its_entries_out_of_the_hits_at_once(house: Remembering) -> None:
    await house.write_entries(DAY, fact("fa-1", "Ann owns a hound", 1))
    await house.journal.delete("t1")
    assert (await house.facts("hound")).hits == []


async def test_a_new_index_holds_the_entries_too(house: Remembering) -> None:
    await house.write_entries(DAY, fact("fa-1", "Ann owns a hound", 1))
    embedded = house.meaning.embedded
    await house.reindexer.reindex()
    assert [hit.row.row_id for hit in (await house.facts("hound")).hits] == ["fa-1"]
    assert house.meaning.embedded == embedded
    assert await house.whole()
