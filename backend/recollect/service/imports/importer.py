"""Imports what was said and written elsewhere. What is there already is not taken again, so an import can be repeated."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from recollect.domain.access import Caller
from recollect.domain.identity import turn_id
from recollect.domain.imports.conversation import Conversation, Said, clean
from recollect.domain.model import DEFAULT_USER, NOTE_BYTES, Append, JsonObject, NewTurn, Receipt, ThreadRef
from recollect.errors import AlreadyExists, InvalidInput, TooMuchQueued
from recollect.failpoints import FailPoints
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.coordination import Clock, OwnerLocks, Progress
from recollect.service.graph import GraphEntity, GraphRelation, KnowledgeGraph
from recollect.service.imports.source import GraphLines, Item, LeftOut, NoteFile, Source
from recollect.service.recall.indexer import Indexer
from recollect.service.threads import Ingest
from recollect.service.vault.notes import Notes, notes_owner

T = TypeVar("T")
_AT_ONCE = 200
_BYTES_AT_ONCE = 1_000_000
_ROOM_SECONDS = 0.5
"""How often it is looked whether the server takes more."""
MOST_REASONS = 100


@dataclass(slots=True)
class Report:
    """What an import took, what was there before, and what it left out and why."""

    formats: list[str] = field(default_factory=list)
    conversations: int = 0
    messages: int = 0
    branches: int = 0
    """Of the messages: those that are not on their conversation's current branch."""
    attachments: int = 0
    notes: int = 0
    entities: int = 0
    relations: int = 0
    already: Counter[str] = field(default_factory=Counter)
    """What was there before: `messages`, `notes`, `entities`, `relations`, `observations`."""
    left_out: Counter[str] = field(default_factory=Counter)
    """By reason."""
    dry_run: bool = False

    def as_json(self) -> JsonObject:
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**told, "already": dict(self.already), "left_out": dict(self.left_out)}

    def leave_out(self, reason: str, count: int = 1) -> None:
        known = reason in self.left_out or len(self.left_out) < MOST_REASONS
        self.left_out[reason if known else "others"] += count


@dataclass(frozen=True, slots=True)
class Importer:
    """Writes what a source holds by the functions that every other door uses."""

    threads: SqlThreadStore
    notes: Notes
    graph: KnowledgeGraph
    clock: Clock
    ingest: Ingest
    indexer: Callable[[], Indexer]
    """The one that runs; it is told of notes, and may have them wait."""
    fail_points: FailPoints
    _locks: OwnerLocks = field(default_factory=OwnerLocks)
    """One import of a user at a time."""

    async def run(
        self,
        caller: Caller,
        user_id: str | None,
        source: Source,
        progress: Progress,
        *,
        dry_run: bool = False,
    ) -> Report:
        """Import all of it; `dry_run`: only say what would be imported."""
        user = caller.acting_for(user_id) or DEFAULT_USER
        report = Report(list(source.formats), dry_run=dry_run)
        async with self._locks.of(notes_owner(caller, user)):
            items = source.items()
            while (item := await asyncio.to_thread(next, items, None)) is not None:
                await self._take(caller, user, item, report)
                progress(source.done, source.total)
        return report

    async def _take(self, caller: Caller, user: str, item: Item, report: Report) -> None:
        match item:
            case Conversation():
                await self._take_conversation(ThreadRef(caller.space, user, item.thread_id), item, report)
            case NoteFile():
                await self._take_note(caller, user, item, report)
            case GraphLines():
                await self._take_graph(caller, user, item, report)
            case LeftOut():
                report.leave_out(item.reason, item.count)

    async def _take_conversation(self, thread: ThreadRef, told: Conversation, report: Report) -> None:
        for reason, count in told.left_out.items():
            report.leave_out(reason, count)
        if not told.said:
            return
        known = await self.threads.known_messages(thread, [each.message_id for each in told.said])
        report.already["messages"] += sum(place is not None for place in known.values())
        if forgotten := sum(place is None for place in known.values()):
            report.leave_out("messages that were forgotten here", forgotten)
        new = [each for each in told.said if each.message_id not in known]
        report.conversations += len(new) > 0
        report.messages += len(new)
        report.branches += sum(each.message_id in told.branches for each in new)
        report.attachments += sum(len(each.attachments) for each in new)
        if report.dry_run:
            return
        places = {message_id: place for message_id, place in known.items() if place is not None}
        parents = {each.message_id: each.parent for each in told.said}
        last = None
        for batch in _batches(new):
            parent = batch[0].parent
            while parent is not None and parent not in places:
                parent = parents.get(parent)
            follows = places[parent] if parent is not None else turn_id(0) if places else None
            receipts = await self._add(thread, told, batch, None if follows == last else follows)
            places.update({each.message_id: each.turn_id for each in receipts if each.turn_id is not None})
            last = receipts[-1].turn_id

    async def _add(
        self, thread: ThreadRef, told: Conversation, batch: list[Said], follows: str | None
    ) -> list[Receipt]:
        """Messages that follow each other. The first one follows the turn `follows`, or the thread's last one."""
        turns = [
            _turn(each, thread.user_id, self.clock(), follows if each is batch[0] else None) for each in batch
        ]
        append = Append(
            thread.space,
            thread.thread_id,
            turns,
            thread.user_id,
            title=told.title,
            past=True,
            branches=told.branches,
        )
        size = sum(len(turn.content.encode()) for turn in turns)
        receipts = await _when_there_is_room(lambda: self.ingest.memorize(append, size))
        self.fail_points.reach("import.added")
        return receipts

    async def _take_note(self, caller: Caller, user: str, file: NoteFile, report: Report) -> None:
        if len(file.content) > NOTE_BYTES:
            report.leave_out(f"notes of more than {NOTE_BYTES:,} bytes")
            return
        try:
            text = file.content.decode()
        except UnicodeDecodeError:
            report.leave_out("notes that are not UTF-8")
            return
        if report.dry_run:
            report.notes += 1
            return
        owner = notes_owner(caller, user)

        async def admitted() -> None:
            self.indexer().refuse_notes(owner)

        await _when_there_is_room(admitted)
        try:
            found, is_new = await self.notes.import_file(caller, user, file.name, text)
        except AlreadyExists:
            report.leave_out("notes whose name has another text here")
            return
        except InvalidInput as error:
            report.leave_out(f"notes: {error.message}")
            return
        self.indexer().note_came(owner, found.text)
        if is_new:
            report.notes += 1
        else:
            report.already["notes"] += 1

    async def _take_graph(self, caller: Caller, user: str, lines: GraphLines, report: Report) -> None:
        entities = [entity for each in lines.entities if (entity := _entity(each)) is not None]
        relations = [relation for each in lines.relations if (relation := _relation(each)) is not None]
        broken = len(lines.entities) + len(lines.relations) - len(entities) - len(relations)
        if broken:
            report.leave_out("entities and relations that can't be read", broken)
        if report.dry_run:
            report.entities += len(entities)
            report.relations += len(relations)
            return
        made = await self.graph.create_entities(caller, user, entities)
        told = [(entity.name, entity.observations) for entity in entities]
        await self.graph.add_observations(caller, user, told)
        linked = await self.graph.create_relations(caller, user, relations)
        report.entities += len(made)
        report.relations += len(linked)
        report.already["entities"] += len(entities) - len(made)
        report.already["relations"] += len(relations) - len(linked)


def _batches(new: Sequence[Said]) -> Iterator[list[Said]]:
    """Runs of messages of which each follows the one before it."""
    batch: list[Said] = []
    size = 0
    for each in new:
        length = len(each.text)
        is_full = len(batch) == _AT_ONCE or size + length > _BYTES_AT_ONCE
        if batch and (is_full or each.parent != batch[-1].message_id):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += length
    if batch:
        yield batch


def _turn(said: Said, user: str, now: int, follows: str | None) -> NewTurn:
    return NewTurn(
        role=said.role,
        content=said.text,
        timestamp=now if said.time is None else said.time,
        sender_id=user if said.role == "user" else said.role,
        message_id=said.message_id,
        parts=_parts(said),
        parent_id=follows,
        model=said.model,
    )


def _parts(said: Said) -> list[JsonObject] | None:
    """What was attached is no word of the person's: it is kept for prompts, and neither searched nor extracted."""
    attached = [(name, text) for name, text in said.attachments if text]
    if not attached:
        return None
    texts = [said.text, *(f"[{name}]\n\n{text}" for name, text in attached)]
    return [{"type": "text", "text": text} for text in texts]


async def _when_there_is_room(admitted: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await admitted()
        except TooMuchQueued:
            await asyncio.sleep(_ROOM_SECONDS)


def _entity(line: dict[str, Any]) -> GraphEntity | None:
    name, kind, observations = line.get("name"), line.get("entityType"), line.get("observations")
    if not isinstance(name, str) or not name.strip() or not isinstance(observations, list):
        return None
    told = tuple(clean(each if isinstance(each, str) else json.dumps(each)) for each in observations)
    return GraphEntity(clean(name), clean(kind) if isinstance(kind, str) else "", told)


def _relation(line: dict[str, Any]) -> GraphRelation | None:
    ends = [line.get("from"), line.get("to"), line.get("relationType")]
    if not all(isinstance(each, str) and each.strip() for each in ends):
        return None
    return GraphRelation(*(clean(str(each)) for each in ends))
