"""What models are asked to answer has an end, whoever they are."""

from collections.abc import Iterator

import pytest

from recollect.domain import boundary
from recollect.domain.extraction import answer
from recollect.domain.extraction import skill as skill_model
from recollect.domain.model import JsonObject

SCHEMAS = {
    "boundaries": boundary.ANSWER_SCHEMA,
    "memcell": answer.ANSWER_SCHEMA,
    "case": answer.CASE_SCHEMA,
    "skill": skill_model.SKILL_SCHEMA,
}


def parts(schema: JsonObject) -> Iterator[JsonObject]:
    if "type" in schema:
        yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
        yield from parts(each)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_list_in_an_answer_has_an_end(name: str) -> None:
    lists = [part for part in parts(SCHEMAS[name]) if part["type"] == "array"]
    assert lists
    assert all(0 < each["maxItems"] <= 80 for each in lists)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_object_in_an_answer_has_all_of_its_fields_and_no_other(name: str) -> None:
    objects = [part for part in parts(SCHEMAS[name]) if part["type"] == "object"]
    assert all(each["required"] == list(each["properties"]) for each in objects)
    assert all(each["additionalProperties"] is False for each in objects)


def test_the_reasoning_about_boundaries_is_a_sentence() -> None:
    assert boundary.ANSWER_SCHEMA["properties"]["reasoning"]["maxLength"] <= 200


def test_the_answer_about_a_memcell_has_the_fields_that_the_design_names() -> None:
    fields = answer.ANSWER_SCHEMA["properties"]
    assert list(fields) == ["asks", "episode", "facts", "foresight", "case"]
    fact = fields["facts"]["items"]["properties"]
    assert list(fact) == ["text", "about", "category", "when", "until", "quotes", "replaces", "ends"]
    assert fact["when"] == {"type": ["string", "null"]}
    assert list(fact["quotes"]["items"]["properties"]) == ["message", "words"]
    assert [each.get("type") for each in fields["episode"]["anyOf"]] == ["object", "null"]
