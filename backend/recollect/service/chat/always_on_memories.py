"""Memories that a prompt should hold whatever is asked, and how similar a hit is to the query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recollect.domain.context_lines import Memory
from recollect.domain.entries.entry import FORESIGHT, PROFILE, KnownEntry, naming
from recollect.domain.entries.profile import place_on_page
from recollect.domain.markdown.front_matter import read_time
from recollect.domain.model import Thread
from recollect.domain.paths import owner_folder
from recollect.domain.recall.rows import Vectors, corrected_at, end_of, facts_shown, memory_digest, told
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.recall.corpus_cache import CorpusCache

_DAY_MS = 86_400_000
_AHEAD_MS = 7 * _DAY_MS
"""How long before its time a plan counts as due; it does until it lapses."""
_MOST_LINES = 8
_MOST_PLANS = 3
_MOST_LOOKED_AT = 50
_ENTRY_MARKS = ("ep-", "fa-", "fo-", "pr-")


@dataclass(frozen=True, slots=True)
class AlwaysOn:
    """Memories beside those that were searched for."""

    corrections: tuple[Memory, ...] = ()
    """New versions of memories that the epoch holds, and that were changed or superseded since."""
    profile: tuple[Memory, ...] = ()
    due: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class AlwaysOnMemories:
    """Read from the journal: a few entries by their ids and kinds, no search."""

    entries: SqlEntryStore
    threads: SqlThreadStore

    async def of(self, thread: Thread, injected: Mapping[str, str], now: int) -> AlwaysOn:
        """The profile and what is due where the epoch has neither yet; corrections whenever there are any."""
        owner = owner_folder(thread.space, thread.user_id)
        corrections = await self._corrections(thread.space, owner, injected, now)
        fresh = not any(memory_id.startswith("pr-") for memory_id in injected)
        profile = await self._profile(thread.space, owner, now) if fresh else []
        due = await self._due(thread.space, owner, injected, now)
        return AlwaysOn(
            tuple(corrections),
            tuple([_memory(line, now) for line in profile if await self._has_place(line, thread)]),
            tuple([_memory(plan, now) for plan in due if await self._has_place(plan, thread)]),
        )

    async def showing(self, thread: Thread, memories: Sequence[Memory], now: int) -> list[Memory]:
        """The same memories, each line of the profile with the digests of the facts that it shows."""
        owner = owner_folder(thread.space, thread.user_id)
        named = {fact for memory in memories for fact in memory.shows}
        facts = await self.entries.some(thread.space, owner, sorted(named)) if named else []
        digests = {fact.entry_id: _memory(fact, now).digest for fact in facts}
        return [
            replace(memory, shows={fact: digests[fact] for fact in memory.shows if fact in digests})
            for memory in memories
        ]

    async def _has_place(self, entry: KnownEntry, thread: Thread) -> bool:
        """In a thread with tags, what carries one of them; and what of the profile carries none."""
        if not thread.tags:
            return True
        tags: set[str] = set()
        for ref in {source.thread_in(thread.space) for source in entry.sources}:
            told = await self.threads.find(ref)
            tags.update(told.tags if told is not None else ())
        return not tags.isdisjoint(thread.tags) or (entry.kind == PROFILE and not tags)

    async def _corrections(
        self, space: str, owner: str, injected: Mapping[str, str], now: int
    ) -> list[Memory]:
        """The epoch holds each of these in another version, the newest first."""
        corrected: list[Memory] = []
        held = [memory_id for memory_id in injected if memory_id.startswith(_ENTRY_MARKS)]
        for entry in await self.entries.some(space, owner, held):
            instead = await self._instead(entry) if not entry.holds else entry
            if instead is None:
                continue
            memory = _memory(instead, now, correction=True)
            if injected.get(memory.id) != memory.digest:
                corrected.append(memory)
        return corrected

    async def _instead(self, entry: KnownEntry) -> KnownEntry | None:
        """What holds in the place of an entry that was superseded."""
        seen = {entry.entry_id}
        while (successor := entry.entry.extra.get("superseded_by")) and successor not in seen:
            seen.add(successor)
            found = await self.entries.get(entry.space, successor)
            if found is None or found.owner != entry.owner:
                return None
            entry = found
        return entry

    async def _profile(self, space: str, owner: str, now: int) -> list[KnownEntry]:
        found = await self.entries.list_entries(
            space, owner, kinds=(PROFILE,), holding=True, limit=_MOST_LOOKED_AT
        )
        lines = [line for line in found if line.holds_at(now)]
        lines.sort(key=lambda line: (not line.is_pinned, place_on_page(line.entry), -line.entry.when))
        return lines[:_MOST_LINES]

    async def _due(self, space: str, owner: str, injected: Mapping[str, str], now: int) -> list[KnownEntry]:
        plans = await self.entries.list_entries(
            space, owner, kinds=(FORESIGHT,), since=now - 400 * _DAY_MS, holding=True, limit=_MOST_LOOKED_AT
        )
        due = [plan for plan in plans if _is_due(plan, now) and plan.entry_id not in injected]
        due.sort(key=lambda plan: plan.entry.extra.get("about", ""))
        return due[:_MOST_PLANS]


def _is_due(plan: KnownEntry, now: int) -> bool:
    try:
        begins = read_time(plan.entry.extra.get("about", ""))
    except ValueError:
        return False
    return begins <= now + _AHEAD_MS and plan.holds_at(now)


def _memory(entry: KnownEntry, now: int, *, correction: bool = False) -> Memory:
    """As its row in the index would give it."""
    end, text = end_of(entry.entry), told(entry.entry)
    ended = end if end <= now else 0
    threads = {source.thread_id for source in entry.sources}
    return Memory(
        id=entry.entry_id,
        digest=memory_digest(text, ended),
        text=naming(entry.entry.extra.get("subject", "").strip(), text),
        sender="",
        role="",
        timestamp=entry.entry.when,
        thread_id=threads.pop() if len(threads) == 1 else "",
        message_ids=(),
        score=1.0,
        type=entry.kind,
        correction=correction,
        ended=ended,
        corrected=corrected_at(entry.entry),
        shows=dict.fromkeys(facts_shown(entry.kind, entry.entry), ""),
    )


def without_repeats(first: Sequence[Memory], then: Sequence[Memory]) -> list[Memory]:
    """The second ones that are not among the first."""
    known = {memory.id for memory in first}
    return [memory for memory in then if memory.id not in known]


@dataclass(frozen=True, slots=True)
class QuerySimilarity:
    """Cosines. The parts of a hit's score are scaled to the owner's rows, so that the best row is always at the top."""

    corpus_cache: CorpusCache

    async def of(self, space: str, user_id: str, vector: Vectors, row_ids: Sequence[str]) -> dict[str, float]:
        """Of the query's vector and each row's; a row that has none yet is left out."""
        corpus = (await self.corpus_cache.get(space, user_id)).corpus
        if corpus.dimensions != len(vector):
            return {}
        places = [(row_id, corpus.places[row_id]) for row_id in row_ids if row_id in corpus.places]
        return {
            row_id: float(np.dot(corpus.vectors[place], vector))
            for row_id, place in places
            if corpus.embedded[place]
        }
