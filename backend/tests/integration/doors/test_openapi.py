"""The OpenAPI document is a promise: whatever it allows to be sent is answered as it says, and to whom it belongs."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from recollect.entrypoints.http.server import create_api
from tests.chatting import with_backend
from tests.http_client import Json, add, bearer, coverage, drained, message, thread_path
from tests.processes import Server, StandInModel, recollect_json

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SECONDS = 60
"""For an answer. A flush waits for a model, and a reindex for the disk."""
DOCUMENT = create_api().openapi()
schema = schemathesis.openapi.from_dict(DOCUMENT)
Operation = schemathesis.schemas.APIOperation[Any, Any, Any, Any]
OPERATIONS = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
DRAWING = settings(
    max_examples=settings().max_examples // 2,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def model() -> Iterator[StandInModel]:
    with StandInModel() as model:
        yield model


@pytest.fixture(scope="module")
def usual(model: StandInModel) -> dict[str, str]:
    """Settings with an embedder, without which some answer 503."""
    embedder = {"KIND": "openai", "BASE_URL": model.base_url, "MODEL": "stand-in"}
    return with_backend(model.base_url, **{f"EMBEDDING__{name}": value for name, value in embedder.items()})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, usual: dict[str, str]) -> Iterator[Server]:
    """With a thread that generated requests can hardly miss."""
    with Server(tmp_path_factory.mktemp("openapi") / "home", usual) as server:
        add(server.client, "0", [message("one"), message("two", 1)])
        yield server


@pytest.fixture(scope="module")
def operator(server: Server) -> dict[str, str]:
    """The command line's own token: it opens every route."""
    return bearer(json.loads((server.home / "recollect.lock").read_text())["token"])


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_answer_is_a_documented_one(
    operation: Operation, server: Server, operator: dict[str, str]
) -> None:
    """Of requests that the document allows, and of others."""
    cases = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]

    @DRAWING
    @given(st.one_of(cases))
    def call(case: "schemathesis.Case[Any]") -> None:
        answer = case.call(base_url=server.address, headers=operator, timeout=SECONDS)
        case.validate_response(answer, checks=CHECKS)
        if answer.status_code >= 400 and not case.path.startswith("/health"):
            code = "type" if case.path.startswith("/v1/messages") else "code"
            assert {code, "message"} <= set(answer.json()["error"])

    call()


WILD = {
    "an unknown route": ("GET", "/nowhere", {}, None),
    "an unknown method": ("PUT", "/api/v1/threads", {}, None),
    "a foreign host": ("GET", "/api/v1/threads", {"Host": "evil.example"}, None),
    "a foreign origin": ("GET", "/api/v1/threads", {"Origin": "http://evil.example"}, None),
    "a wrong key": ("GET", "/api/v1/threads", {"Authorization": "Bearer rk_wrong"}, None),
    "a body that is no JSON": ("POST", "/api/v1/memory/add", {"Content-Type": "application/json"}, b"{"),
    "a body of another type": ("POST", "/api/v1/memory/flush", {"Content-Type": "text/plain"}, b"hello"),
    "a body in no encoding": ("POST", "/api/v1/threads", {"Content-Type": "application/json"}, b"\xff\xfe\xfd"),
    "a body too large": ("POST", "/api/v1/memory/add", {"Content-Type": "application/json"}, b" " * 5_000_000),
    "a body nested too deeply": ("POST", "/api/v1/threads", {"Content-Type": "application/json"}, b"[" * 99_999),
    "a path with NUL": ("GET", "/api/v1/threads/a%00b", {}, None),
    "a path in no encoding": ("GET", "/api/v1/threads/%FF%FE", {}, None),
    "a path with half a surrogate pair": ("GET", "/api/v1/threads/%ED%A0%80", {}, None),
    "a number beyond reason": ("POST", f"/api/v1/jobs/{'9' * 40}/retry", {}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", WILD)
def test_every_refusal_in_the_wild_uses_the_envelope(server: Server, name: str) -> None:
    method, path, headers, body = WILD[name]
    with httpx2.Client(base_url=server.address, timeout=60, trust_env=False) as client:
        answer = client.request(method, path, headers=headers, content=body)
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    assert {"code", "message"} <= set(answer.json()["error"])


class Person:
    """A user with a key, and with something of every kind, in each of which stands a word that only they use."""

    def __init__(self, server: Server, name: str, marker: str) -> None:
        secret = recollect_json(server.home, "keys", "create", "--user", name)["secret"]
        self.name, self.marker, self.key = name, marker, bearer(secret)
        self.client = httpx2.Client(base_url=server.address, timeout=60, trust_env=False, headers=self.key)
        self.known: dict[str, list[str]] = {}
        """By the names that parameters and fields have."""
        self._times = 0

    def gets_something(self) -> None:
        """Once more than before: calls of their own may have deleted all of it."""
        self._times += 1
        thread, key = f"{self.name} {self._times}", {"Idempotency-Key": f"{self.name} key"}
        self._post("/api/v1/threads", thread_id=thread, title=f"{self.marker} title", tags=[self.marker])
        told = ("I live in {}.", "I have a dog called {}.", "My name is {}.", "I like the parks of {}.")
        add(self.client, thread, [message(each.format(self.marker), n) for n, each in enumerate(told)])
        picture = base64.b64encode(PNG + self.marker.encode()).decode()
        shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
        parts = [{"type": "text", "text": f"What is {self.marker}?"}, shown]
        asked = self._post(thread_path(thread, "messages"), parts=parts, headers=key)
        noted = self._post("/api/v1/memory/notes", name=thread, text=f"{self.marker} noted")
        self._post("/api/v1/memory/flush", session_id=thread)
        drained(self.client)
        entries = self._get("memory/entries")["entries"]
        image = asked["user_turn"]["parts"][1]["image_url"]["url"]
        self.known = {
            "thread_id": [thread],
            "session_id": [thread],
            "x-recollect-thread": [thread],
            "entry_id": [each["id"] for each in entries],
            "turn_id": ["t-1", "t-5", "t-6"],
            "parent_id": ["t-1", "t-6"],
            "name": [noted["name"], image.rpartition("/")[2]],
            "user_id": [self.name],
            "x-recollect-user": [self.name],
            "message_id": [asked["user_turn"]["message_id"]],
            "idempotency-key": list(key.values()),
            "query": ["Where do I live?", "dog", "parks"],
            "after": [thread, entries[0]["id"], "t-1"],
            "job_id": [str(number) for number in range(1, 20)],
            "image": [image],
        }

    def holds(self) -> Json:
        """All that another user's calls must not change."""
        counted = coverage(self.client)
        lists = ("threads", "memory/entries", "memory/notes", f"users/{self.name}/preferences")
        return {
            "messages": [counted[name] for name in ("messages", "forgotten", "missing", "doubled", "digest")],
            "turns": self._get(f"threads/{self.known['thread_id'][0]}/turns"),
            **{path: self._get(path) for path in lists},
        }

    def is_told_of_by(self, answer: bytes) -> bool:
        picture = base64.b64encode(PNG + self.marker.encode())[:-8]
        return self.marker.encode() in answer or picture in answer

    def _get(self, path: str) -> Json:
        found: Json = self.client.get(f"/api/v1/{path}").raise_for_status().json()
        return found

    def _post(self, path: str, headers: dict[str, str] | None = None, **body: Any) -> Json:
        answer: Json = self.client.post(path, json=body, headers=headers).raise_for_status().json()
        return answer


@pytest.fixture(scope="module")
def people(
    tmp_path_factory: pytest.TempPathFactory, usual: dict[str, str], model: StandInModel
) -> Iterator[dict[str, Person]]:
    """Two users of one space. The model repeats their words wherever it is told them."""
    markers = {"ann": "Qortann", "bob": "Zibbbob"}
    model.control(entities=list(markers.values()))
    with Server(tmp_path_factory.mktemp("two") / "home", usual) as server:
        people = {name: Person(server, name, marker) for name, marker in markers.items()}
        with people["ann"].client, people["bob"].client:
            yield people


@pytest.fixture(scope="module")
def quiet(people: dict[str, Person]) -> tuple[Person, Person, Json]:
    """Who calls, and who does nothing and keeps what they have."""
    caller, other = people.values()
    for each in (caller, other):
        each.gets_something()
    drained(other.client)
    return caller, other, other.holds()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_no_call_tells_or_changes_anything_of_another_user(
    quiet: tuple[Person, Person, Json], operation: Operation
) -> None:
    """Most ids in the generated calls are the other's."""
    caller, other, had = quiet
    call_at_random(operation, caller, other)
    assert other.holds() == had


def call_at_random(operation: Operation, caller: Person, other: Person) -> None:
    cases, fields = operation.as_strategy(), fields_of(operation)

    @settings(DRAWING, max_examples=settings().max_examples // 6)
    @given(st.data())
    def call(data: st.DataObject) -> None:
        case = data.draw(cases)
        aim(data, case, fields, caller, other)
        answer = case.call(base_url=str(caller.client.base_url), headers=caller.key, timeout=SECONDS)
        case.validate_response(answer, checks=CHECKS[:2])
        assert not other.is_told_of_by(answer.content + str(answer.headers).encode()), answer.text

    call()


def fields_of(operation: Operation) -> dict[str, set[str]]:
    """The names in a call's query, headers and body; in its path all are given always."""
    described = DOCUMENT["paths"][operation.path][operation.method]
    fields: dict[str, set[str]] = {"query": set(), "header": set(), "path": set(), "body": set()}
    for parameter in described.get("parameters", ()):
        fields[parameter["in"]].add(parameter["name"])
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    reference = body.get("$ref") or body.get("anyOf", [{}])[0].get("$ref", "")
    if reference:
        fields["body"] = set(DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]["properties"])
    return fields


def aim(
    data: st.DataObject,
    case: "schemathesis.Case[Any]",
    fields: dict[str, set[str]],
    caller: Person,
    other: Person,
) -> None:
    """Put ids that exist in the place of generated ones: mostly the other's, and rarely their name, which is 403."""
    places: dict[str, Any] = {"path": case.path_parameters, "query": case.query, "header": case.headers}
    if isinstance(case.body, dict):
        places["body"] = case.body
        if "parts" in fields["body"] and data.draw(st.booleans()):
            case.body.pop("content", None)
            case.body["parts"] = [{"type": "image_url", "image_url": {"url": other.known["image"][0]}}]
    for place, named in places.items():
        for name in sorted(fields[place] & other.known.keys()):
            is_name = name in {"user_id", "x-recollect-user"}
            if place != "path" and (is_name or data.draw(st.booleans())):
                named.pop(name, None)
            if place == "path" or data.draw(st.integers(0, 7 if is_name else 1)) == 0:
                whose = other if data.draw(st.integers(0, 2)) else caller
                named[name] = data.draw(st.sampled_from(whose.known[name]))
