"""EverOS' own client at Recollect's door: add, flush, search, get, edit, delete."""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from json import dumps
from typing import Any

import pytest
from everos_cloud.client import EverOS, EverOSError
from everos_cloud.exceptions import ApiException
from everos_cloud.models.add_operation import AddOperation
from everos_cloud.models.data import Data
from everos_cloud.models.explicit_info_data import ExplicitInfoData
from everos_cloud.models.filter_node import FilterNode
from fastapi.routing import APIRoute

from recollect.entrypoints.http.doors.everos import router
from recollect.entrypoints.http.errors import EVEROS
from tests.chatting import with_backend
from tests.http_client import Home, Json, bearer
from tests.processes import Server, wait_until
from tests.remembering import MAY_8, polite_model

INVALID, REFUSED, NO_KEY, NOT_FOUND = 422, 403, 401, 404


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    sys.stdout.write(f"everos-cloud {version('everos-cloud')}\n")
    settings = with_backend(polite_model().base_url)
    with Server(tmp_path_factory.mktemp("everos") / "home", settings) as server:
        yield server


def said(user: str, *texts: str) -> list[Json]:
    return [
        {"sender_id": user, "role": "user", "timestamp": MAY_8 + 1000 * number, "content": text}
        for number, text in enumerate(texts)
    ]


def test_what_is_added_is_extracted_found_listed_changed_and_deleted(server: Server) -> None:
    with EverOS("none", host=server.address) as client:
        added = client.add("s1", said("ann", "I live in Berlin.", "I like parks."))
        assert (added.message_count, added.status) == (2, "queued")
        assert client.flush("s1").status == "extracted"
        assert client.flush("never").status == "no_extraction"

        (episode,) = client.get("episode", user_id="ann").episodes
        assert (episode.session_id, episode.user_id, episode.type) == ("s1", "ann", "Conversation")
        assert "ann lives in Berlin." in [fact.content for fact in episode.atomic_facts]

        def found() -> list[Any]:
            data = client.search("Where does Ann live?", user_id="ann", include_profile=True, top_k=5)
            return [data] if data.episodes else []

        wait_until(found, "the memories are indexed")
        (data,) = found()
        assert "Berlin" in data.episodes[0].episode
        assert 0 < data.episodes[0].score <= 1
        (page,) = data.profiles
        assert (page.user_id, list(page.profile_data)) == ("ann", ["explicit_info", "implicit_traits"])
        assert client.search("Berlin", user_id="ann", app_id="another").episodes == []
        assert client.search("Berlin", user_id="bob").episodes == []
        unknown = FilterNode.from_dict({"session_id": "s2"})
        assert client.search("Berlin", user_id="ann", filters=unknown).episodes == []
        assert (
            client.get(
                "episode", user_id="ann", filters=FilterNode.from_dict({"session_id": "s2"})
            ).total_count
            == 0
        )

        line = ExplicitInfoData(category="hobby", description="Ann plays the oboe.")
        made = client.edit("ann", [AddOperation(action="add", type="explicit_info", data=Data(line))])
        assert (made.applied, made.results[0].status) == (1, "applied")
        assert client.delete(user_id="ann", session_id="s1").count >= 2
        assert client.get("episode", user_id="ann").total_count == 0


def test_what_is_not_possible_is_said_in_its_words(server: Server) -> None:
    with EverOS("none", host=server.address) as client:
        wrong: list[tuple[Callable[[], Any], str]] = [
            (
                lambda: client.search("x", user_id="ann", filters=FilterNode.from_dict({"mood": "good"})),
                "filters.mood",
            ),
            (lambda: client.get("agent_skill", agent_id="a"), "memory_type"),
            (lambda: client.delete(session_id="s1"), "user_id"),
        ]
        for ask, told in wrong:
            with pytest.raises((EverOSError, ApiException)) as refused:
                ask()
            assert told in str(vars(refused.value))


def test_whatever_is_sent_nothing_breaks(server: Server) -> None:
    paths = [route.path for route in router.routes if isinstance(route, APIRoute)]
    odd: list[Any] = [[], 7, {"filters": {"AND": 7}}, {"messages": {"a": 1}}, {"query": "x", "top_k": 10**9}]
    odd += [{"session_id": "..", "messages": [{}]}, {"user_id": "a", "agent_id": "b", "query": "x"}]
    for path in paths:
        for body in odd:
            answer = server.client.post(path, json=body)
            assert (answer.status_code, list(answer.json())) == (INVALID, ["request_id", "error"]), (
                path,
                body,
            )


def test_half_of_a_surrogate_pair_is_refused_wherever_it_is(server: Server) -> None:
    operation = {"action": "add", "type": "\ud83d", "data": {"description": "Ann sings."}}
    body = dumps({"user_id": "ann", "operations": [operation]})
    answer = server.client.post(f"{EVEROS}/edit", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == INVALID, answer.text


async def test_keys_keep_users_and_spaces_apart(home: Home) -> None:
    body: Json = {"session_id": "s1", "messages": said("ann", "I live in Berlin."), "async_mode": False}
    (await home.client.post(f"{EVEROS}/add", json=body)).raise_for_status()
    bob, stranger = await home.make_key("bob"), await home.make_key(space="elsewhere")
    for path, asked in (("search", {"query": "Berlin"}), ("get", {"memory_type": "episode"})):
        for headers, status in ((bob, REFUSED), (bearer("wrong"), NO_KEY)):
            answer = await home.client.post(
                f"{EVEROS}/{path}", json={**asked, "user_id": "ann"}, headers=headers
            )
            assert (answer.status_code, list(answer.json())) == (status, ["request_id", "error"])
        for headers in (bob, stranger):
            answer = await home.client.post(f"{EVEROS}/{path}", json=asked, headers=headers)
            assert answer.raise_for_status().json()["data"]["episodes"] == []
    flushed = await home.client.post(f"{EVEROS}/flush", json={"session_id": "s1"}, headers=stranger)
    assert flushed.json()["data"]["status"] == "no_extraction"
    fact = {"user_id": "ann", "text": "Ann has a secret."}
    space = await home.make_key()
    made = (await home.client.post("/api/v1/memory/entries", json=fact, headers=space)).json()["id"]
    calls: list[tuple[str, Json]] = [
        ("update", {"memory_type": "episode", "memory_id": made, "patch": {"episode": "Mine."}}),
        ("delete_by_ids", {"memory_type": "episode", "memory_ids": [made]}),
    ]
    for path, asked in calls:
        for headers, more in ((bob, {}), (stranger, {}), (space, {"user_id": "bob"})):
            answer = await home.client.post(f"{EVEROS}/{path}", json={**asked, **more}, headers=headers)
            assert (answer.status_code, list(answer.json())) == (NOT_FOUND, ["request_id", "error"])
    operations: list[Json] = [
        {"action": "delete", "item_id": made},
        {"action": "update", "item_id": made, "data": {"description": "Mine."}},
    ]
    for headers in (bob, space):
        edit = {"user_id": "bob", "operations": operations}
        edited = (await home.client.post(f"{EVEROS}/edit", json=edit, headers=headers)).raise_for_status()
        assert [each["status"] for each in edited.json()["data"]["results"]] == ["rejected", "rejected"]
    for more in ({"user_id": "bob"}, {"user_id": "ann", "app_id": "other"}):
        gone = (await home.client.post(f"{EVEROS}/delete", json=more, headers=space)).raise_for_status()
        assert gone.json()["data"]["count"] == 0
    wanted = {"memory_type": "episode", "user_id": "ann"}
    for more, count in (({}, True), ({"app_id": "other"}, False)):
        found = (await home.client.post(f"{EVEROS}/get", json={**wanted, **more}, headers=space)).json()[
            "data"
        ]
        assert bool(found["total_count"]) is count
    kept = (await home.client.get(f"/api/v1/memory/entries/{made}", headers=space)).raise_for_status()
    assert kept.json()["text"] == "Ann has a secret."
