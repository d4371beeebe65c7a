"""What the ledger of the index promises."""

from dataclasses import replace

import pytest

from recollect.domain.entries.entry import Deletion, EntryChange
from recollect.domain.model import Append, NewTurn, Note, ThreadRef
from recollect.domain.recall.rows import Expected, ThreadProgress
from recollect.infra.journal.index import SqlIndexLedger
from tests.contract.journals import Journal

G, OTHER = "g000001", "g000002"
ANN, BOB = "default/users/ann", "default/users/bob"
PORTO = Note(f"{ANN}/notes/porto.md", ANN, "d1", 1000)
LISBON = Note(f"{ANN}/notes/lisbon.md", ANN, "d2", 2000)
BOBS = Note(f"{BOB}/notes/porto.md", BOB, "d3", 3000)


class Books:
    """A ledger with the journal and the notes that it is about."""

    def __init__(self, journal: Journal) -> None:
        self.ledger = SqlIndexLedger(journal.database)
        self.threads, self.transcripts = journal.threads, journal.transcripts
        self.notes, self.entries, self.clock = journal.notes, journal.entries, journal.clock

    async def add(self, thread_id: str, *texts: str, user_id: str = "ann", space: str = "default") -> None:
        turns = [NewTurn("user", text, self.clock(), user_id) for text in texts]
        await self.threads.append(Append(space, thread_id, turns, user_id))

    async def seen(
        self, thread_id: str, *, space: str = "default", generation: str = G, user_id: str = "ann"
    ) -> ThreadProgress:
        found = await self.ledger.progress(generation, ThreadRef(space, user_id, thread_id))
        assert found is not None
        return found

    async def record(
        self, thread_id: str, words_to: int, vectors_to: int = 0, *, user_id: str = "ann"
    ) -> bool:
        seen = await self.seen(thread_id, user_id=user_id)
        return await self.ledger.record_words(G, seen, words_to, vectors_to)

    async def edit(self, thread_id: str, content: str) -> None:
        """As a person does, in the first turn."""
        (placed,) = await self.transcripts.turns(ThreadRef("default", "ann", thread_id), 1, 1)
        await self.transcripts.revise(
            ThreadRef("default", "ann", thread_id), [replace(placed.turn, content=content)], {}
        )

    async def behind(self, generation: str = G) -> list[str]:
        return [each.thread.thread_id for each in await self.ledger.behind(generation)]


@pytest.fixture
def books(journal: Journal) -> Books:
    return Books(journal)


async def test_all_that_is_behind_comes_page_by_page(books: Books) -> None:
    for number in range(5):
        await books.add(f"t{number}", "one")
    found, after = list[str](), 0
    while page := await books.ledger.behind(G, after, 2):
        after = page[-1].thread_pk
        found += [each.thread.thread_id for each in page]
    assert found == ["t0", "t1", "t2", "t3", "t4"]


async def test_what_was_read_before_an_edit_is_not_recorded(books: Books) -> None:
    await books.add("t1", "one")
    seen = await books.seen("t1")
    await books.edit("t1", "another")
    assert not await books.ledger.record_words(G, seen, 1, 0)
    assert (await books.seen("t1")).words_to == 0
    await books.record("t1", 1)
    seen = await books.seen("t1")
    await books.edit("t1", "yet another")
    assert not await books.ledger.record_vectors(G, seen, 1)
    assert (await books.seen("t1")).vectors_to == 0


async def test_tags_that_change_while_words_are_indexed_leave_them_stale(books: Books) -> None:
    await books.add("t1", "one")
    seen = await books.seen("t1")
    await books.threads.update(await books.threads.meant("t1"), {"tags": ["work"]})
    assert await books.ledger.record_words(G, seen, 1, 0)
    seen = await books.seen("t1")
    assert (seen.is_stale, seen.thread.tags) == (True, ("work",))


async def test_nothing_is_recorded_for_a_thread_that_took_the_place_of_another(books: Books) -> None:
    await books.add("t1", "one")
    seen = await books.seen("t1")
    await books.threads.delete(await books.threads.meant("t1"))
    assert not await books.ledger.record_words(G, seen, 1, 0)
    await books.add("t1", "two", user_id="bob")
    await books.add("t2", "two")
    await books.record("t2", 1)
    assert not await books.ledger.record_words(G, seen, 1, 1)
    assert not await books.ledger.record_vectors(G, seen, 1)
    bobs = await books.seen("t1", user_id="bob")
    assert (bobs.words_to, (await books.seen("t2")).vectors_to) == (0, 0)


async def test_turns_that_must_have_a_vector_are_counted(books: Books) -> None:
    await books.add("t1", "one", "two", "", "four")
    await books.add("t2", "one", "two")
    await books.record("t1", 4)
    await books.ledger.record_vectors(G, await books.seen("t1"), 4, refused=1)
    await books.record("t2", 2, 1)
    expected = await books.ledger.expected(G, ANN, "default", "ann")
    assert (expected.turns, expected.turn_vectors) == (5, 3)
    await books.edit("t1", "other")
    assert (await books.ledger.expected(G, ANN, "default", "ann")).turn_vectors == 1


async def test_what_an_index_must_hold_of_notes_is_counted_until_they_change(books: Books) -> None:
    for note, rows, vectors in ((PORTO, 3, 2), (LISBON, 1, 1)):
        await books.notes.seen(note)
        await books.ledger.record_notes(G, ANN, [note], [], counts={note.path: rows})
        await books.ledger.record_notes(G, ANN, [note], [], embedded=True, counts={note.path: vectors})
    assert await books.ledger.expected(G, ANN, "default", "ann") == Expected(notes=4, note_vectors=3)
    await books.notes.seen(replace(PORTO, digest="d9"))
    assert await books.ledger.expected(G, ANN, "default", "ann") == Expected(notes=1, note_vectors=1)
    await books.ledger.record_notes(G, ANN, [LISBON], [], counts={LISBON.path: 5})
    assert await books.ledger.expected(G, ANN, "default", "ann") == Expected(notes=5)
    await books.notes.gone([LISBON.path])
    assert await books.ledger.expected(G, ANN, "default", "ann") == Expected()


async def test_entries_are_deleted_in_their_own_space_alone(books: Books) -> None:
    deletions = (Deletion("fa-1", "facts", "c-1", ()),)
    await books.entries.apply(EntryChange("default", ANN, "person", "deleted", deletions=deletions))
    assert await books.entries.named("default", ["fa-1", "fa-2"]) == (set(), {"fa-1"})
    assert await books.entries.named("acme", ["fa-1"]) == (set(), set())
    assert await books.entries.named("default", []) == (set(), set())


@pytest.mark.parametrize("change", ["new", "edited", "gone", "not embedded"])
async def test_a_note_that_changed_makes_its_owner_one_with_work(books: Books, change: str) -> None:
    for note in (PORTO, BOBS):
        await books.notes.seen(note)
        await books.ledger.record_notes(G, note.owner, [note], [], embedded=True)
    assert await books.ledger.note_owners(G) == []
    if change == "new":
        await books.notes.seen(LISBON)
    elif change == "edited":
        await books.notes.seen(replace(PORTO, digest="d9"))
    elif change == "gone":
        await books.notes.gone([PORTO.path])
    else:
        await books.ledger.record_notes(G, ANN, [PORTO], [])
    assert await books.ledger.note_owners(G) == [ANN]


async def test_what_of_an_owners_notes_differs_from_the_index_is_told(books: Books) -> None:
    for note in (PORTO, LISBON, BOBS):
        await books.notes.seen(note)
    assert await books.ledger.notes_behind(G, ANN) == ([LISBON, PORTO], [])
    await books.ledger.record_notes(G, ANN, [PORTO, LISBON], [])
    assert await books.ledger.notes_behind(G, ANN) == ([], [])
    assert await books.ledger.notes_behind(G, BOB) == ([BOBS], [])
    assert await books.ledger.notes_behind(OTHER, ANN) == ([LISBON, PORTO], [])
    edited = replace(PORTO, digest="d9")
    await books.notes.seen(edited)
    await books.notes.gone([LISBON.path])
    assert await books.ledger.notes_behind(G, ANN) == ([edited], [LISBON.path])
    await books.ledger.record_notes(G, ANN, [edited], [LISBON.path])
    assert await books.ledger.notes_behind(G, ANN) == ([], [])


async def test_users_with_many_turns_that_are_not_indexed_are_told(books: Books) -> None:
    await books.add("t1", "a", "b", "c")
    await books.add("t2", "d", "e", user_id="bob")
    await books.record("t1", 3, 1)
    users = [("default", "ann"), ("default", "bob")]
    assert await books.ledger.users_behind(G, users, 0, 2, by_meaning=False) == {("default", "bob")}
    assert await books.ledger.users_behind(G, users, 0, 2, by_meaning=True) == set(users)
    assert await books.ledger.users_behind(G, users, 0, 3, by_meaning=True) == set()
    assert await books.ledger.users_behind(G, users[1:], 4, 2, by_meaning=True) == set()
