"""Entries in the index: of a file that changes, only the entries that changed are touched."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from recollect.domain.access import Caller
from recollect.domain.entries.entry import EntryChange, KnownEntry
from recollect.domain.identity import text_digest
from recollect.domain.markdown.entry_file import render_entries
from recollect.domain.model import Entry, Note
from recollect.domain.recall.hits import Scope, Selection
from recollect.domain.recall.rows import IndexRow
from recollect.infra.journal.entry_changes import forget_entries_of
from recollect.service import coordination
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
        """These and no others belong in the file from now on, which is written later."""
        await self.journal.entries.apply(await self.change(path, *entries))
        await self.settled()

    async def change(self, path: str, *entries: Entry) -> EntryChange:
        before = {each.entry_id: each for each in await self.journal.entries.in_files([path])}
        put = []
        for entry in entries:
            known = await self.journal.entries.get("default", entry.entry_id)
            known = known or KnownEntry("default", OWNER, "facts", entry)
            put.append(replace(known, entry=entry, path=path))
        gone = before.keys() - {entry.entry_id for entry in entries}
        return EntryChange("default", OWNER, "extraction", "read", tuple(put), tuple(sorted(gone)))

    async def write_beside(self, path: str, text: str) -> None:
        """A person saved the file, and it was looked at."""
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


async def test_an_entry_that_leaves_one_file_as_it_comes_into_another_is_found(
    house: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few files are indexed together."""
    monkeypatch.setattr(words, "_PASSAGES_AT_ONCE", 1)
    moving = fact("fa-1", "Ann owns a hound", 1)
    await house.write_entries(NEXT_DAY, moving)
    embedded = house.meaning.embedded
    await house.write_entries(DAY, fact("fa-2", "Tea"), moving)
    assert house.meaning.embedded - embedded == 1
    assert [hit.row.path for hit in (await house.facts("hound")).hits] == [DAY]
    assert await house.whole()


async def test_what_a_person_wrote_beside_entries_is_found_as_a_note(house: Remembering) -> None:
    one, two = fact("fa-1", "Ann owns a hound", 1), fact("fa-2", "Tea")
    await house.write_entries(DAY, one, two)
    mine = "My own zebra.\n\n## Ann owns a wolf ^fa-1\n- when: some day\n"
    await house.write_beside(DAY, render_entries("facts", "users/ann", [two]) + mine)
    assert {hit.row.type for hit in (await house.search("zebra", mode="keyword")).hits} == {"note"}
    assert "Ann owns a wolf" in "".join(await house.texts("wolf"))
    assert [hit.text for hit in (await house.facts("hound")).hits] == ["Ann owns a hound"]
    assert len((await house.search("Tea", mode="keyword")).hits) == 1
    assert await house.whole()


async def test_of_a_deleted_entry_no_section_stays_that_can_not_be_read(house: Remembering) -> None:
    one = fact("fa-1", "Ann owns a hound", 1)
    await house.write_entries(DAY, one)
    damaged = render_entries("facts", "users/ann", [one]).replace("- when: ", "- when: zebra ")
    await house.write_beside(DAY, damaged)
    assert await house.texts("zebra")
    change = EntryChange("default", OWNER, "person", "deleted", remove=("fa-1",), keep_deleted=True)
    await house.journal.entries.apply(change)
    await house.settled()
    assert await house.texts("zebra hound") == set()
    assert await house.whole()


async def test_entries_are_indexed_though_their_file_can_not_be_read(
    house: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordination, "_FIRST_PAUSE", 0.001)
    await house.write_entries(DAY, fact("fa-1", "Ann owns a hound", 1))
    await house.write_beside(DAY, "My own zebra.")
    text = house.vault.files.pop(DAY)
    await house.journal.entries.apply(await house.change(DAY, fact("fa-2", "Ann owns a wolf", 1)))
    await house.indexer.settled()
    house.corpus_cache.clear()
    assert await house.texts("zebra") == {"My own zebra."}
    assert [hit.text for hit in (await house.facts("wolf hound")).hits] == ["Ann owns a wolf"]
    assert house.indexer.notes_problem is not None
    house.vault.files[DAY] = text
    await house.settled()
    assert await house.whole()


async def test_a_file_that_is_made_again_is_indexed_again(house: Remembering) -> None:
    """Its revisions never are those of before."""
    one = fact("fa-1", "Ann owns a hound", 1)
    await house.write_entries(DAY, one)
    house.journal.on_entries = lambda owner, ids: None
    await house.journal.database.write(lambda connection: forget_entries_of(connection, "default", OWNER))
    house.journal.clock.advance(1)
    await house.write_entries(DAY, replace(one, text="Ann owns a wolf", title="Ann owns a wolf"))
    await house.reopen()
    await house.settled()
    assert [hit.text for hit in (await house.facts("wolf hound")).hits] == ["Ann owns a wolf"]
    assert await house.whole()


async def test_what_a_kill_left_without_a_vector_is_embedded(house: Remembering) -> None:
    one = fact("fa-1", "Ann owns a hound", 1)
    await house.write_entries(DAY, one)
    changed = replace(one, extra={"pinned": "yes"})
    set_vectors = house.store.set_vectors

    async def killed(*_: object) -> None:
        raise KeyboardInterrupt

    house.store.set_vectors = killed  # type: ignore[assignment]
    house.journal.on_entries = lambda owner, ids: None
    await house.journal.entries.apply(await house.change(DAY, changed))
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
