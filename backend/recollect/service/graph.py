"""A knowledge graph of entities, observations and relations, kept as notes of a user: one note for each entity."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from recollect.domain.access import Caller
from recollect.domain.markdown.entity_note import (
    EntityNote,
    Relation,
    new_entity,
    plain,
    read_entity,
    with_observations,
    with_relations,
    with_type,
    without,
)
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import NOTE_BYTES, Note
from recollect.domain.paths import file_name
from recollect.errors import AlreadyExists, InvalidInput, NotFound
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.forget.forget import forget_note
from recollect.service.vault.notes import Notes, name_of, notes_owner

FOLDER = "entities"
_TRIES = 5
_OWNERS_KEPT = 50


@dataclass(frozen=True, slots=True)
class GraphEntity:
    name: str
    entity_type: str
    observations: tuple[str, ...]


class GraphRelation(NamedTuple):
    source: str
    to: str
    relation_type: str


@dataclass(frozen=True, slots=True)
class Graph:
    entities: tuple[GraphEntity, ...]
    relations: tuple[GraphRelation, ...]

    def around(self, wanted: Callable[[GraphEntity], bool]) -> "Graph":
        """Those entities, and the relations that begin or end at one of them."""
        found = tuple(entity for entity in self.entities if wanted(entity))
        names = {entity.name for entity in found}
        touching = (each for each in self.relations if each.source in names or each.to in names)
        return Graph(found, tuple(touching))


@dataclass(frozen=True, slots=True)
class _Place:
    """A note of the graph: where it is and what it says."""

    path: str
    name: str
    note: EntityNote
    relations: tuple[tuple[Relation, GraphRelation], ...]
    """Each as the note says it, and with the name of the entity where its link names only a file."""

    def links(self, wanted: Callable[[GraphRelation], bool]) -> list[Relation]:
        return [written for written, meant in self.relations if wanted(meant)]


@dataclass(frozen=True, slots=True)
class KnowledgeGraph:
    """Reads and changes a user's graph. What a person changes in the notes by hand counts as soon as it is seen."""

    notes: Notes
    forgetting: SqlForgetting
    clock: Clock
    _locks: OwnerLocks = field(default_factory=OwnerLocks)
    """By owner: one change of a graph at a time."""
    _read: dict[str, dict[str, tuple[str, EntityNote]]] = field(default_factory=dict)
    """What was read of the last owners' notes, by path, with its digest."""

    async def read(self, caller: Caller, user_id: str) -> Graph:
        return _graph(await self._places(caller, user_id))

    async def create_entities(
        self, caller: Caller, user_id: str, entities: Sequence[GraphEntity]
    ) -> list[GraphEntity]:
        """Returns those that are new; a name that is there already is left as it is."""
        async with self._locks.of(notes_owner(caller, user_id)):
            places = {place.name: place for place in await self._places(caller, user_id)}
            made: dict[str, GraphEntity] = {}
            for each in entities:
                name, told = plain(each.name), tuple(dict.fromkeys(map(plain, each.observations)))
                known = places.get(name)
                if name in made or (known is not None and known.note.entity_type is not None):
                    continue
                made[name] = GraphEntity(name, plain(each.entity_type), told)
                if known is None:
                    await self._create(caller, user_id, places.values(), made[name].entity_type, name, told)
                else:
                    await self._change(known.path, _becoming(made[name]))
            return list(made.values())

    async def create_relations(
        self, caller: Caller, user_id: str, relations: Sequence[GraphRelation]
    ) -> list[GraphRelation]:
        """Returns those that are new. Their ends need not be entities."""
        async with self._locks.of(notes_owner(caller, user_id)):
            places = {place.name: place for place in await self._places(caller, user_id)}
            known = set(_graph(places.values()).relations)
            asked = [GraphRelation(*map(plain, each)) for each in relations]
            made = [each for each in dict.fromkeys(asked) if each not in known]
            for source in dict.fromkeys(each.source for each in made):
                links = [Relation(each.relation_type, each.to) for each in made if each.source == source]
                place = places.get(source)
                path = (
                    place.path
                    if place
                    else await self._create(caller, user_id, places.values(), None, source)
                )
                await self._change(path, partial(with_relations, added=links))
            return made

    async def add_observations(
        self, caller: Caller, user_id: str, added: Sequence[tuple[str, Sequence[str]]]
    ) -> list[tuple[str, list[str]]]:
        """Returns the new ones of each entity. Raises NotFound, and changes nothing, where one is not there."""
        async with self._locks.of(notes_owner(caller, user_id)):
            places = _entities(await self._places(caller, user_id))
            told = {name: list(place.note.observations) for name, place in places.items()}
            results: list[tuple[str, list[str]]] = []
            for name, contents in added:
                if plain(name) not in told:
                    raise NotFound(f"Entity with name {name} not found")
                known = told[plain(name)]
                new = [text for text in dict.fromkeys(map(plain, contents)) if text not in known]
                known += new
                results.append((name, new))
            for name, new in results:
                if new:
                    path = places[plain(name)].path
                    await self._change(path, partial(with_observations, added=new))
            return results

    async def delete_entities(self, caller: Caller, user_id: str, names: Collection[str]) -> None:
        """Forget their notes, and the relations that lead to them. Names that are not there are ignored."""
        gone = set(map(plain, names))
        async with self._locks.of(notes_owner(caller, user_id)):
            for place in await self._places(caller, user_id):
                if place.name in gone:
                    name = place.path.split("/", 4)[4]
                    await forget_note(self.notes, self.forgetting, caller, user_id, name)
                    continue
                lost = place.links(lambda relation: relation.to in gone)
                if lost:
                    await self._change(place.path, partial(without, relations=lost))

    async def delete_observations(
        self, caller: Caller, user_id: str, deleted: Sequence[tuple[str, Sequence[str]]]
    ) -> None:
        async with self._locks.of(notes_owner(caller, user_id)):
            places = _entities(await self._places(caller, user_id))
            for name, contents in deleted:
                lost = set(map(plain, contents))
                place = places.get(plain(name))
                if place is not None and lost.intersection(place.note.observations):
                    await self._change(place.path, partial(without, observations=lost))

    async def delete_relations(
        self, caller: Caller, user_id: str, relations: Sequence[GraphRelation]
    ) -> None:
        async with self._locks.of(notes_owner(caller, user_id)):
            gone = {GraphRelation(*map(plain, each)) for each in relations}
            for place in await self._places(caller, user_id):
                lost = place.links(lambda relation: relation in gone)
                if lost:
                    await self._change(place.path, partial(without, relations=lost))

    async def _places(self, caller: Caller, user_id: str) -> list[_Place]:
        """Every note of the graph, the oldest first. Only those that changed are read again."""
        owner = notes_owner(caller, user_id)
        before = self._read.pop(owner, {})
        now: dict[str, tuple[str, EntityNote]] = {}
        for note in await self.notes.list_notes(caller, user_id):
            if name_of(note).startswith(f"{FOLDER}/"):
                known = before.get(note.path)
                read = known if known and known[0] == note.digest else await self._look(note)
                if read is not None:
                    now[note.path] = read
        self._read[owner] = now
        while len(self._read) > _OWNERS_KEPT:
            self._read.pop(next(iter(self._read)))
        stems = {_stem(path): note.name or _stem(path) for path, (_, note) in now.items()}
        places = [_place(path, note, stems) for path, (_, note) in now.items()]
        return sorted(places, key=lambda place: (place.note.created, place.path))

    async def _look(self, note: Note) -> tuple[str, EntityNote] | None:
        found = await self.notes.follower.vault.look(note.path, NOTE_BYTES)
        return None if found is None else (found.digest, read_entity(found.text))

    async def _create(
        self,
        caller: Caller,
        user_id: str,
        others: Collection[_Place],
        entity_type: str | None,
        name: str,
        observations: Sequence[str] = (),
    ) -> str:
        """A new note; returns its path. A file of that name with another heading is a person's: it stays."""
        text = new_entity(name, entity_type, observations, write_time(self.clock()))
        folder, taken = f"{notes_owner(caller, user_id)}/notes/{FOLDER}", {place.path for place in others}
        for number in range(1, _TRIES + 1):
            path = f"{folder}/{file_name(name if number == 1 else f'{name} {number}')}.md"
            if path in taken:
                continue
            try:
                await self._put(path, text)
                return path
            except AlreadyExists:
                continue
        raise AlreadyExists(f"there are other notes with the name of {name!r}", field="name")

    async def _change(self, path: str, change: Callable[[str], str]) -> None:
        """Change what the note says now, once more where a person changed it meanwhile."""
        for number in range(_TRIES):
            found = await self.notes.follower.vault.look(path, NOTE_BYTES)
            if found is None or not found.is_whole:
                raise NotFound("the note of an entity is gone, or too long")
            try:
                await self._put(path, change(found.text), found.digest)
                return
            except AlreadyExists:
                if number == _TRIES - 1:
                    raise

    async def _put(self, path: str, text: str, over: str | None = None) -> None:
        if len(text.encode()) > NOTE_BYTES:
            raise InvalidInput(f"an entity's note has at most {NOTE_BYTES:,} bytes", field="observations")
        await self.notes.follower.put(path, text, replace=over is not None, over=over)
        await self.notes.on_written([path])


def _graph(places: Collection[_Place]) -> Graph:
    entities = (
        GraphEntity(place.name, place.note.entity_type, place.note.observations)
        for place in places
        if place.note.entity_type is not None
    )
    relations = (meant for place in places for _, meant in place.relations)
    return Graph(tuple(entities), tuple(relations))


def _entities(places: Collection[_Place]) -> dict[str, _Place]:
    return {place.name: place for place in places if place.note.entity_type is not None}


def _becoming(entity: GraphEntity) -> Callable[[str], str]:
    return lambda text: with_observations(with_type(text, entity.entity_type), entity.observations)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


def _place(path: str, note: EntityNote, names: dict[str, str]) -> _Place:
    name = names[_stem(path)]
    links = [
        (each, GraphRelation(name, names.get(each.to, each.to), each.relation_type))
        for each in note.relations
    ]
    return _Place(path, name, note, tuple(links))
