"""The nine tools of the npm package `@modelcontextprotocol/server-memory`, with its names, schemas and answers."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field

from recollect.entrypoints.http.doors.mcp_tools import Told, Tool
from recollect.entrypoints.http.doors.memories import Asking
from recollect.entrypoints.http.requests import Id, Text
from recollect.service.graph import Graph, GraphEntity, GraphRelation
from recollect.service.vault.notes import notes_owner

RESOURCE = "memory://knowledge-graph"
_NOTES = "/api/v1/memory/notes"
Schema = dict[str, Any]
_Kind = Annotated[Text, Field(max_length=1000)]
_Words = Annotated[list[Annotated[Text, Field(max_length=20_000)]], Field(max_length=1000)]


class Entity(BaseModel):
    name: Id
    entityType: _Kind  # noqa: N815 - the protocol's name
    observations: _Words

    def meant(self) -> GraphEntity:
        return GraphEntity(self.name, self.entityType, tuple(self.observations))


class Relation(BaseModel):
    source: Id = Field(alias="from")
    to: Id
    relationType: _Kind  # noqa: N815

    def meant(self) -> GraphRelation:
        return GraphRelation(self.source, self.to, self.relationType)


class Added(BaseModel):
    entityName: Id  # noqa: N815
    contents: _Words


class Deleted(BaseModel):
    entityName: Id  # noqa: N815
    observations: _Words


class Entities(BaseModel):
    entities: Annotated[list[Entity], Field(max_length=1000)]


class Relations(BaseModel):
    relations: Annotated[list[Relation], Field(max_length=1000)]


class Observations(BaseModel):
    observations: Annotated[list[Added], Field(max_length=1000)]


class EntityNames(BaseModel):
    entityNames: Annotated[list[Id], Field(max_length=1000)]  # noqa: N815


class Deletions(BaseModel):
    deletions: Annotated[list[Deleted], Field(max_length=1000)]


class Query(BaseModel):
    query: Annotated[Text, Field(max_length=10_000)]


class Names(BaseModel):
    names: Annotated[list[Id], Field(max_length=1000)]


class Nothing(BaseModel):
    """`read_graph` takes nothing."""


async def create_entities(asking: Asking, given: Entities) -> Told:
    _about_to_write(asking, given)
    wanted = [each.meant() for each in given.entities]
    made = await asking.home.graph.create_entities(asking.caller, asking.user_id, wanted)
    return _listed("entities", [_entity(each) for each in made])


async def create_relations(asking: Asking, given: Relations) -> Told:
    _about_to_write(asking, given)
    wanted = [each.meant() for each in given.relations]
    made = await asking.home.graph.create_relations(asking.caller, asking.user_id, wanted)
    return _listed("relations", [_relation(each) for each in made])


async def add_observations(asking: Asking, given: Observations) -> Told:
    _about_to_write(asking, given)
    added = [(each.entityName, each.contents) for each in given.observations]
    results = await asking.home.graph.add_observations(asking.caller, asking.user_id, added)
    return _listed("results", [{"entityName": name, "addedObservations": new} for name, new in results])


async def delete_entities(asking: Asking, given: EntityNames) -> Told:
    asking.act_as("DELETE", f"{_NOTES}/note")
    await asking.home.graph.delete_entities(asking.caller, asking.user_id, given.entityNames)
    return _done("Entities deleted successfully")


async def delete_observations(asking: Asking, given: Deletions) -> Told:
    _about_to_write(asking, given)
    deleted = [(each.entityName, each.observations) for each in given.deletions]
    await asking.home.graph.delete_observations(asking.caller, asking.user_id, deleted)
    return _done("Observations deleted successfully")


async def delete_relations(asking: Asking, given: Relations) -> Told:
    _about_to_write(asking, given)
    deleted = [each.meant() for each in given.relations]
    await asking.home.graph.delete_relations(asking.caller, asking.user_id, deleted)
    return _done("Relations deleted successfully")


async def read_graph(asking: Asking, _given: Nothing) -> Told:
    return _told(await graph_of(asking))


async def search_nodes(asking: Asking, given: Query) -> Told:
    words = given.query.lower()
    graph = await graph_of(asking)
    return _told(
        graph.around(
            lambda entity: any(
                words in text.lower() for text in (entity.name, entity.entity_type, *entity.observations)
            )
        )
    )


async def open_nodes(asking: Asking, given: Names) -> Told:
    return _told((await graph_of(asking)).around(lambda entity: entity.name in given.names))


async def graph_of(asking: Asking) -> Graph:
    asking.act_as("GET", _NOTES)
    return await asking.home.graph.read(asking.caller, asking.user_id)


def _about_to_write(asking: Asking, given: BaseModel) -> None:
    """As `POST /api/v1/memory/notes` does it: search must keep up with the notes."""
    asking.act_as("POST", _NOTES)
    owner, indexer = notes_owner(asking.caller, asking.user_id), asking.home.search.indexer
    indexer.refuse_notes(owner)
    indexer.note_came(owner, given.model_dump_json())


def as_json(graph: Graph) -> dict[str, Any]:
    return {
        "entities": [_entity(each) for each in graph.entities],
        "relations": [_relation(each) for each in graph.relations],
    }


def _entity(entity: GraphEntity) -> dict[str, Any]:
    return {
        "name": entity.name,
        "entityType": entity.entity_type,
        "observations": list(entity.observations),
    }


def _relation(relation: GraphRelation) -> dict[str, Any]:
    return {"from": relation.source, "to": relation.to, "relationType": relation.relation_type}


def written(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _told(graph: Graph) -> Told:
    told = as_json(graph)
    return Told(written(told), told)


def _listed(name: str, items: list[dict[str, Any]]) -> Told:
    return Told(written(items), {name: items})


def _done(message: str) -> Told:
    return Told(message, {"success": True, "message": message})


_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}


def _text(description: str | None = None) -> Schema:
    return {"type": "string"} | ({"description": description} if description else {})


def _list(items: Schema, description: str | None = None) -> Schema:
    return {"type": "array", "items": items} | ({"description": description} if description else {})


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _closed(schema: Schema) -> Schema:
    """As answers are described: no further properties, at any depth."""
    if schema["type"] == "array":
        return {**schema, "items": _closed(schema["items"])}
    if schema["type"] != "object":
        return schema
    properties = {name: _closed(each) for name, each in schema["properties"].items()}
    return {**schema, "properties": properties, "additionalProperties": False}


def _takes(**properties: Schema) -> Schema:
    required = {"required": list(properties)} if properties else {}
    return _DRAFT | {"type": "object", "properties": properties} | required


def _gives(**properties: Schema) -> Schema:
    return _DRAFT | _closed(_object(properties))


_ENTITY = _object(
    {
        "name": _text("The name of the entity"),
        "entityType": _text("The type of the entity"),
        "observations": _list(_text(), "An array of observation contents associated with the entity"),
    }
)
_RELATION = _object(
    {
        "from": _text("The name of the entity where the relation starts"),
        "to": _text("The name of the entity where the relation ends"),
        "relationType": _text("The type of the relation"),
    }
)
_ADDED = _object(
    {
        "entityName": _text("The name of the entity to add the observations to"),
        "contents": _list(_text(), "An array of observation contents to add"),
    }
)
_DELETED = _object(
    {
        "entityName": _text("The name of the entity containing the observations"),
        "observations": _list(_text(), "An array of observations to delete"),
    }
)
_RESULT = _object({"entityName": _text(), "addedObservations": _list(_text())})
_DONE = _gives(success={"type": "boolean"}, message=_text())
_GRAPH = _gives(entities=_list(_ENTITY), relations=_list(_RELATION))
_CREATES = {"reads": False, "repeatable": False}
_DELETES = {"reads": False, "destroys": True}

GRAPH: Mapping[str, Tool] = {
    "create_entities": Tool(
        "Create Entities",
        "Create multiple new entities in the knowledge graph",
        Entities,
        create_entities,
        schemas=(_takes(entities=_list(_ENTITY)), _gives(entities=_list(_ENTITY))),
        **_CREATES,
    ),
    "create_relations": Tool(
        "Create Relations",
        "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice",
        Relations,
        create_relations,
        schemas=(_takes(relations=_list(_RELATION)), _gives(relations=_list(_RELATION))),
        **_CREATES,
    ),
    "add_observations": Tool(
        "Add Observations",
        "Add new observations to existing entities in the knowledge graph",
        Observations,
        add_observations,
        schemas=(_takes(observations=_list(_ADDED)), _gives(results=_list(_RESULT))),
        **_CREATES,
    ),
    "delete_entities": Tool(
        "Delete Entities",
        "Delete multiple entities and their associated relations from the knowledge graph",
        EntityNames,
        delete_entities,
        schemas=(_takes(entityNames=_list(_text(), "An array of entity names to delete")), _DONE),
        **_DELETES,
    ),
    "delete_observations": Tool(
        "Delete Observations",
        "Delete specific observations from entities in the knowledge graph",
        Deletions,
        delete_observations,
        schemas=(_takes(deletions=_list(_DELETED)), _DONE),
        **_DELETES,
    ),
    "delete_relations": Tool(
        "Delete Relations",
        "Delete multiple relations from the knowledge graph",
        Relations,
        delete_relations,
        schemas=(_takes(relations=_list(_RELATION, "An array of relations to delete")), _DONE),
        **_DELETES,
    ),
    "read_graph": Tool(
        "Read Graph", "Read the entire knowledge graph", Nothing, read_graph, schemas=(_takes(), _GRAPH)
    ),
    "search_nodes": Tool(
        "Search Nodes",
        "Search for nodes in the knowledge graph based on a query",
        Query,
        search_nodes,
        schemas=(
            _takes(
                query=_text("The search query to match against entity names, types, and observation content")
            ),
            _GRAPH,
        ),
    ),
    "open_nodes": Tool(
        "Open Nodes",
        "Open specific nodes in the knowledge graph by their names",
        Names,
        open_nodes,
        schemas=(_takes(names=_list(_text(), "An array of entity names to retrieve")), _GRAPH),
    ),
}
