"""Generations of the index: which one is live, and damage that is found at start."""

from collections.abc import Iterator
from contextlib import contextmanager

from recollect.domain.recall.rows import FORMAT, Generation
from recollect.errors import IndexUnavailable, IndexUnreachable
from recollect.infra.index.store import LanceIndex
from recollect.infra.journal.index import SqlIndexLedger
from recollect.service.recall.embedding import MeaningIndexer
from recollect.service.recall.words import WordIndexer

NOT_OPEN = Generation("", FORMAT)
"""In the place of a live generation that could not be reached yet. The ledger knows nothing of it."""


async def new_generation(store: LanceIndex, ledger: SqlIndexLedger, above: Generation | None) -> Generation:
    """An empty generation beside all others. `above` may be gone from the disk; its name is not used again."""
    names = [generation.name for generation in await store.generations()]
    names += [above.name] if above is not None else []
    number = 1 + max((int(name[1:7]) for name in names if name[1:7].isdigit()), default=0)
    # The ledger knows generations by name: one of another home, or of S3, must not pass for this one.
    generation = Generation(f"g{number:06d}{store.place.mark}", FORMAT)
    await ledger.add_generation(generation.name)
    await store.create(generation)
    return generation


class Generations:
    """The generation that is searched, and one that is being filled beside it."""

    def __init__(self, meaning: MeaningIndexer) -> None:
        self._store, self._ledger = meaning.words.store, meaning.words.ledger
        self._meaning = meaning
        self.live: Generation | None = None
        self.building: Generation | None = None

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Where this fails halfway, the index is not open yet."""
        try:
            yield
        except BaseException:
            self.live = NOT_OPEN
            raise

    async def open(self) -> tuple[Generation, Generation | None, bool]:
        """The live generation. Where none can be used: a new one, empty, and the one in whose place it is, if any."""
        await self._store.open()
        live, old = await self._store.live(), None
        can_be_used = live is not None and live.format == FORMAT and await self._ledger.knows(live.name)
        if live is None or not can_be_used:
            old = self._meaning.source = live
            live = await self._replace(old)
        self.live = live
        await self.discard_others()
        await self._ledger.keep_only(live.name)
        return live, old, not can_be_used

    async def replace_if_gone(self) -> Generation | None:
        """A new, empty generation where somebody took the live one away from under a running process."""
        if self.live is NOT_OPEN:
            raise IndexUnreachable("the index is not open yet")
        there = await self._store.live()
        if self.live is None or (there is not None and there.name == self.live.name):
            return None
        self.live = await self._replace(self.live)
        return self.live

    async def _replace(self, old: Generation | None) -> Generation:
        live = await new_generation(self._store, self._ledger, old)
        await self._store.promote(live.name)
        return live

    def in_use(self) -> list[str]:
        """Names: of the live one, of one that is being filled, and of one whose vectors are used again."""
        used = (self.live, self.building, self._meaning.source)
        return list(dict.fromkeys(generation.name for generation in used if generation is not None))

    async def discard_others(self) -> None:
        """Discard what killed rebuilds left, and generations that are no longer used."""
        for leftover in await self._store.generations():
            if leftover.name not in self.in_use():
                await self._store.discard(leftover.name)


_AT_ONCE = 20


class IndexInspector:
    """Counts every owner's rows once, and has those rebuilt that are fewer than the ledger says."""

    def __init__(self, words: WordIndexer) -> None:
        self._words = words
        self._generation = ""
        self.waiting: dict[str, tuple[str, str]] = {}
        """Owners whose rows nobody has counted yet, with their space and user."""

    async def begin(self, generation: str) -> None:
        self._generation = generation
        self.waiting = await self._words.ledger.owners(generation)

    async def inspect_some(self) -> None:
        """A few owners at a time: new messages are not kept waiting."""
        for owner in list(self.waiting)[:_AT_ONCE]:
            space, user_id = self.waiting.pop(owner)
            async with self._words.locks.of(owner):
                try:
                    problem = await self._problem(owner, space, user_id)
                except IndexUnreachable:
                    self.waiting[owner] = (space, user_id)
                    raise
                if problem is not None:
                    await self._words.corpus_cache.found_damaged(owner, space, user_id, problem)

    async def suspected(self, generation: str, owner: str) -> tuple[str, str] | None:
        """The space and user of an owner whose rows could not be written, if they cannot be read either."""
        damaged = None
        try:
            await self._words.store.load(generation, owner)
        except IndexUnreachable:
            return None  # What is in memory stays: the journal has the rest.
        except IndexUnavailable:
            damaged = (await self._words.ledger.owners(generation)).get(owner, ("", ""))
        # What is in memory cannot be kept up: whoever searches reads the rest from the journal.
        self._words.corpus_cache.drop(owner)
        return damaged

    async def _problem(self, owner: str, space: str, user_id: str) -> str | None:
        # An owner that was found damaged meanwhile has nothing to lose: nothing is expected of the index.
        wanted = (await self._words.ledger.expected(self._generation, owner, space, user_id)).rows
        if not wanted:
            return None
        try:
            found = await self._words.store.count(self._generation, owner)
        except IndexUnreachable:
            raise
        except IndexUnavailable as error:
            return error.message
        return f"it holds {found} rows, fewer than the {wanted} it should" if found < wanted else None
