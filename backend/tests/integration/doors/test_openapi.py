"""The OpenAPI document is a promise: whatever it allows to be sent is answered as it says."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from recollect.entrypoints.http.server import create_api
from tests.chatting import with_backend
from tests.http_client import add, bearer, message
from tests.processes import Server, StandInModel

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
schema = schemathesis.openapi.from_dict(create_api().openapi())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With a thread that generated requests can hardly miss, and an embedder, without which some answer 503."""
    with StandInModel() as model:
        embedder = {"KIND": "openai", "BASE_URL": model.base_url, "MODEL": "stand-in"}
        given = with_backend(
            model.base_url, **{f"EMBEDDING__{name}": value for name, value in embedder.items()}
        )
        with Server(tmp_path_factory.mktemp("openapi") / "home", given) as server:
            add(server.client, "0", [message("one"), message("two", 1)])
            yield server


@pytest.fixture(scope="module")
def operator(server: Server) -> dict[str, str]:
    """The command line's own token: it opens every route."""
    return bearer(json.loads((server.home / "recollect.lock").read_text())["token"])


@schema.parametrize()
@settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_a_documented_one(
    case: "schemathesis.Case[Any]", server: Server, operator: dict[str, str]
) -> None:
    answer = case.call(base_url=server.address, headers=operator)
    case.validate_response(answer, checks=CHECKS)
    if answer.status_code >= 400 and not case.path.startswith("/health"):
        assert {"code", "message"} <= set(answer.json()["error"])


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
