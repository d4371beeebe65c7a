"""mem0's protocols, in the words of its client (2.2.1), which `make clients` runs: it needs a vector store to be imported."""

from base64 import urlsafe_b64encode
from functools import partial
from json import dumps
from typing import Any

import pytest
from fastapi.routing import APIRoute

from recollect.entrypoints.http.doors.mem0 import router
from tests.eventually import eventually
from tests.http_client import Home, Json, opened
from tests.remembering import remembering

ANN = {"filters": {"user_id": "ann"}}
JSON = {"Content-Type": "application/json"}
INVALID, NOT_FOUND, REFUSED, NO_KEY = 422, 404, 403, 401


async def call(home: Home, method: str, path: str, body: Any = None, key: str = "any", **query: Any) -> Any:
    """As the client sends it: any key where none is in force."""
    headers = {"Authorization": f"Token {key}", "Mem0-User-ID": "0" * 32}
    query |= {"org_id": "recollect", "project_id": "default"}
    answer = await home.client.request(method, path, json=body, params=query, headers=headers)
    return answer.raise_for_status().json()


async def kept(home: Home, text: str, user_id: str = "ann") -> str:
    body = {"messages": [{"role": "user", "content": text}], "user_id": user_id, "infer": False}
    told = await call(home, "POST", "/v3/memories/add/", body)
    assert told["status"] == "SUCCEEDED"
    memory_id: str = told["results"][0]["id"]
    return memory_id


async def _finds(home: Home, search: Json, expected: set[str]) -> bool:
    found = (await call(home, "POST", "/v3/memories/search/", search))["results"]
    return {each["id"] for each in found} == expected


async def test_the_platform_client_adds_finds_changes_and_deletes(home: Home) -> None:
    assert (await call(home, "GET", "/v1/ping/"))["status"] == "ok"
    oboe = await kept(home, "Ann plays the oboe.")
    bob = await kept(home, "Bob plays the tuba.", "bob")
    wanted = {"query": "oboe", **ANN}

    async def results() -> list[Json]:
        found: list[Json] = (await call(home, "POST", "/v3/memories/search/", wanted))["results"]
        return found

    await eventually(results)
    found = {"results": await results()}
    assert [(each["id"], each["memory"]) for each in found["results"]] == [(oboe, "Ann plays the oboe.")]
    assert 0 < found["results"][0]["score"] <= 1
    page = await call(home, "POST", "/v3/memories/", ANN, page=1, page_size=1)
    assert (page["count"], page["next"], [each["id"] for each in page["results"]]) == (1, None, [oboe])
    changed = await call(home, "PUT", f"/v1/memories/{oboe}/", {"text": "Ann plays the viola."})
    assert changed["memory"] == "Ann plays the viola."
    first = page["results"][0]
    assert changed["created_at"] == first["created_at"] <= first["updated_at"] < changed["updated_at"]
    assert (await call(home, "GET", f"/v1/memories/{oboe}/"))["memory"] == "Ann plays the viola."
    assert changed["user_id"] == (await call(home, "GET", f"/memories/{oboe}"))["user_id"] == "ann"
    history = await call(home, "GET", f"/v1/memories/{oboe}/history/")
    assert history[0]["created_at"] == first["created_at"] < history[1]["updated_at"]
    assert [(each["event"], each["old_memory"], each["new_memory"]) for each in history] == [
        ("ADD", None, "Ann plays the oboe."),
        ("UPDATE", "Ann plays the oboe.", "Ann plays the viola."),
    ]
    await call(home, "PUT", "/v1/batch/", {"memories": [{"memory_id": bob, "text": "Bob plays nothing."}]})
    await call(home, "DELETE", "/v1/batch/", {"memories": [{"memory_id": bob}]})
    await call(home, "DELETE", f"/v1/memories/{oboe}/")
    assert (await home.client.get(f"/v1/memories/{oboe}/")).status_code == NOT_FOUND
    third = await kept(home, "Ann sings.")
    assert (await call(home, "DELETE", "/v1/memories/", user_id="ann"))["message"].startswith("1 ")
    assert (await home.client.get(f"/memories/{third}")).status_code == NOT_FOUND


async def test_an_event_tells_whether_memories_were_made_and_changes_nothing(tmp_path: Any) -> None:
    async with remembering(tmp_path / "home") as home:
        added = [
            await call(home, "POST", "/v3/memories/add/", {"messages": "I like parks.", "user_id": who, "run_id": "r1"})
            for who in ("ann", "bob")
        ]  # fmt: skip
        path = f"/v1/event/{added[0]['event_id']}/"

        async def status() -> str:
            told: str = (await call(home, "GET", path))["status"]
            return told

        async def is_made() -> bool:
            return await status() == "SUCCEEDED"

        await eventually(is_made)
        await home.add("r1", "I like the sea, too.", user_id="ann")
        assert await status() == "PENDING"
        jobs = (await home.client.get("/api/v1/jobs")).json()["jobs"]
        assert "flush" not in [job["kind"] for job in jobs]
        ann, bob, space = [await home.make_key(who) for who in ("ann", "bob", None)]
        stranger = await home.make_key(space="elsewhere")
        expected = ((ann, 200), (space, 200), (bob, NOT_FOUND), (stranger, NOT_FOUND))
        surrogate = urlsafe_b64encode(rb'["ann", "\ud800"]').decode()
        assert (await home.client.get(f"/v1/event/{surrogate}/", headers=space)).status_code == NOT_FOUND
        for headers, code in expected:
            assert (await home.client.get(path, headers=headers)).status_code == code


async def test_messages_become_memories_that_tell_their_thread_and_metadata(tmp_path: Any) -> None:
    async with remembering(tmp_path / "home") as home:
        said = [{"role": "user", "content": "I live in Berlin."}, {"role": "assistant", "content": "Nice."}]
        names: Json = {"user_id": "ann", "run_id": "r1"}
        body: Json = {"messages": said, **names, "metadata": {"source": "app"}}
        told = await call(home, "POST", "/memories", body)
        assert "ann lives in Berlin." in [each["memory"] for each in told["results"]]
        wanted = {"query": "Where does Ann live?", **names}

        async def found() -> list[Json]:
            results: list[Json] = (await call(home, "POST", "/search", wanted))["results"]
            return results

        await eventually(found)
        best = (await found())[0]
        assert (best["user_id"], best["run_id"], best["metadata"]) == ("ann", "r1", {"source": "app"})
        added = await call(home, "POST", "/v3/memories/add/", {"messages": "I like parks.", **ANN})
        assert added["status"] == "PENDING"
        other = {"filters": {"AND": [{"user_id": "ann"}, {"run_id": "r2"}]}}
        assert (await call(home, "POST", "/v3/memories/", other))["count"] == 0
        nowhere = {"query": "Where does Ann live?", **other}
        assert (await call(home, "POST", "/v3/memories/search/", nowhere))["results"] == []
        for app in ("work", "home"):
            said = [{"role": "user", "content": f"I keep a cat at {app}."}]
            of_app = {"user_id": "erin", "app_id": app, "agent_id": f"bot-{app}"}
            await call(home, "POST", "/memories", {"messages": said, **of_app})
        for narrow in ({"app_id": "work"}, {"agent_id": "bot-work"}):
            wanted = {"filters": {"AND": [{"user_id": "erin"}, narrow]}}
            listed = (await call(home, "POST", "/v3/memories/", wanted))["results"]
            hosted = (await call(home, "GET", "/memories", user_id="erin", **narrow))["results"]
            assert [each["memory"] for each in hosted] == [each["memory"] for each in listed] != []
            assert not any("home" in each["memory"] for each in listed)
            search = {"query": "cat", "threshold": 0, **wanted}
            expected = {each["id"] for each in listed}
            await eventually(partial(_finds, home, search, expected))
        assert (await call(home, "POST", "/v3/memories/", {"filters": {"agent_id": "bot-work"}}))[
            "count"
        ] == 0
        past = {"filters": {"user_id": "ann", "created_at": {"lt": "2001-01-01"}}}
        assert (await call(home, "POST", "/v3/memories/", past))["count"] == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        ("POST", "/v3/memories/", {"filters": {"OR": [{"user_id": "a"}]}}, "filters.OR"),
        ("POST", "/v3/memories/", {"filters": {"user_id": {"in": ["a", "b"]}}}, "filters.user_id"),
        ("POST", "/v3/memories/", {"filters": {"created_at": {"gte": "soon"}}}, "filters.created_at.gte"),
        ("POST", "/v3/memories/add/", {"messages": []}, "messages"),
        (
            "POST",
            "/v3/memories/add/",
            {"messages": [{"role": "user", "content": " "}]},
            "messages[0].content",
        ),
        ("POST", "/memories", {"messages": "Hi", "infer": False, "metadata": {"a": 1}}, "metadata"),
        ("POST", "/memories", {"messages": "Hi", "infer": False, "app_id": "work"}, "app_id"),
        ("POST", "/v3/memories/", {"filters": {"user_id": "*"}}, "filters.user_id: must be one id"),
        ("POST", "/search", {"query": "x", "user_id": "*"}, "user_id: must be one id"),
        ("GET", "/memories?user_id=*", None, "user_id: must be one id"),
        ("GET", "/memories?run_id=..", None, "run_id"),
        ("POST", "/v3/memories/", {"filters": {"AND": [{"app_id": "a"}, {"app_id": "b"}]}}, "two ids"),
        ("PUT", "/memories/fa-1", {}, "text"),
        ("DELETE", "/memories", None, "user_id"),
        ("POST", "/v1/exports/", {}, "exports"),
    ],
)
async def test_what_is_not_possible_is_said_in_its_words(
    home: Home, method: str, path: str, body: Any, told: str
) -> None:
    answer = await home.client.request(method, path, json=body)
    assert answer.status_code == INVALID
    assert told in answer.json()["detail"]


async def test_nobody_reaches_anothers_memories(tmp_path: Any) -> None:
    async with opened(tmp_path / "home") as home:
        secret = await kept(home, "Ann plays the oboe.")
        keys = [("ann", "default"), ("bob", "default"), (None, "elsewhere")]
        made = [(await home.make_key(*whose))["Authorization"] for whose in keys]
        ann, bob, stranger = (each.removeprefix("Bearer ") for each in made)
        calls: list[tuple[str, str, Any]] = [
            ("GET", f"/v1/memories/{secret}/", None),
            ("GET", f"/memories/{secret}/history", None),
            ("PUT", f"/v1/memories/{secret}/", {"text": "Changed."}),
            ("DELETE", f"/memories/{secret}", None),
        ]
        for method, path, body in calls:
            for key, status in ((bob, NOT_FOUND), (stranger, NOT_FOUND), ("wrong", NO_KEY)):
                answer = await home.client.request(
                    method, path, json=body, headers={"Authorization": f"Token {key}"}
                )
                assert (answer.status_code, list(answer.json())) == (status, ["detail"]), (path, key)
        for path, more in (("/v3/memories/", {}), ("/search", {"query": "oboe"})):
            answer = await home.client.post(
                path, json={**ANN, **more}, headers={"Authorization": f"Token {bob}"}
            )
            assert answer.status_code == REFUSED
            found = await call(home, "POST", path, more, key=stranger)
            assert found["results"] == []
        space = (await home.make_key())["Authorization"].removeprefix("Bearer ")
        named = {"user_id": "bob", "text": "Changed."}
        with_space_key: list[tuple[str, str, Any]] = [
            ("PUT", f"/v1/memories/{secret}/", named),
            ("PUT", f"/memories/{secret}", named),
            ("PUT", "/v1/batch/", {"memories": [{"memory_id": secret, **named}]}),
            ("DELETE", "/v1/batch/", {"memories": [{"memory_id": secret, "user_id": "bob"}]}),
        ]
        for method, path, body in with_space_key:
            headers = {"Authorization": f"Token {space}"}
            answer = await home.client.request(method, path, json=body, headers=headers)
            assert (answer.status_code, list(answer.json())) == (NOT_FOUND, ["detail"]), path
        assert (await call(home, "DELETE", "/memories", key=space, user_id="bob"))["message"].startswith("0 ")
        for asking in (ann, space):
            row = await call(home, "GET", f"/v1/memories/{secret}/", key=asking)
            assert (row["memory"], row["user_id"]) == ("Ann plays the oboe.", "ann")
        nowhere = await home.client.get(
            "/api/v1/orgs/organizations/", headers={"Authorization": f"Token {ann}"}
        )
        assert (nowhere.status_code, list(nowhere.json())) == (NOT_FOUND, ["detail"])


async def test_whatever_is_sent_nothing_breaks(home: Home) -> None:
    odd: list[Any] = [
        None,
        [],
        7,
        {"filters": 7},
        {"filters": {"AND": 7}},
        {"query": {}},
        {"messages": {"a": 1}},
    ]
    odd += [{"messages": [{"content": [{"type": "image_url"}]}]}, {"timestamp": 1e300, "messages": "x"}]
    odd += [{"filters": {"AND": [{"AND": [{"AND": [{"AND": [{"AND": [{"AND": []}]}]}]}]}]}, "query": "x"}]
    odd += [{"memories": [{"memory_id": "x", "text": "\ud800"}]}, {"text": "x" * 2_000_000}, {"run_id": ".."}]
    paths = {route.path: route.methods or set() for route in router.routes if isinstance(route, APIRoute)}
    for path, methods in paths.items():
        for body in odd:
            named = path.format(memory_id="%00", event_id="x", kind="user", name="nobody")
            for method in methods:
                answer = await home.client.request(method, named, content=dumps(body), headers=JSON)
                assert answer.status_code < 500, (method, named, body, answer.text)
                assert answer.status_code < 400 or list(answer.json()) == ["detail"], answer.text
