"""Notes that are there and cannot be read keep their rows when the index is made anew."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from recollect.errors import IndexUnavailable, StorageUnavailable
from recollect.memory.index_row import TURN, StoredRows
from recollect.memory.note import Note
from recollect.service.index_words import WordIndexer
from recollect.service.indexer import unread_in_words


async def keep_unreadable(words: WordIndexer, live: str, building: str, owner: str) -> set[str]:
    """Put the rows that an owner's unreadable notes have in the live generation into the one that is being made.

    Returns the paths of these notes. Raises StorageUnavailable where files of notes are missing.
    """
    unreadable = await _unreadable(words, building, owner)
    async with words.locks.of(owner):
        old, new = await words.ledger.notes(live, owner), await words.ledger.notes(building, owner)
        kept = [
            replace(note, digest=old[note.path][0])
            for note in unreadable
            if note.path in old and note.path not in new
        ]
        if kept:
            counts = await _copy(words, live, building, owner, {note.path for note in kept})
            await words.ledger.record_notes(building, owner, kept, [], counts=counts)
    return {note.path for note in unreadable}


async def _unreadable(words: WordIndexer, building: str, owner: str) -> list[Note]:
    behind, _ = await words.ledger.notes_behind(building, owner)
    unreadable, missing = [], 0
    for note in behind:
        try:
            missing += await words.vault.look(note.path, 1) is None
        except StorageUnavailable:
            unreadable.append(note)
    if missing:
        raise StorageUnavailable(unread_in_words(missing))
    return unreadable


async def _copy(
    words: WordIndexer, live: str, building: str, owner: str, paths: Collection[str]
) -> Counter[str]:
    """Returns how many rows of each note were copied; an entry that stands in another file too is there already."""
    try:
        stored = await words.store.load(live, owner)
    except IndexUnavailable:
        stored = StoredRows()  # The reason for the new generation, perhaps: nothing is left to keep.
    there = {row.row_id for row in (await words.store.load(building, owner)).rows}
    copied = [
        (row, terms)
        for row, terms in zip(stored.rows, stored.words, strict=True)
        if row.type != TURN and row.path in paths and row.row_id not in there
    ]
    await words.store.put(building, owner, [row for row, _ in copied], [terms for _, terms in copied])
    return Counter(row.path for row, _ in copied)
