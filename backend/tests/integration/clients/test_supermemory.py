"""supermemory's protocol, in the words of its npm client (4.25.4), which `make clients` runs."""

from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute

from recollect.entrypoints.http.doors.supermemory import router
from tests.eventually import eventually
from tests.http_client import Home, Json, bearer, message
from tests.remembering import remembering

INVALID, NOT_FOUND, NO_KEY, CONFLICT = 422, 404, 401, 409
ANN = {"containerTag": "ann"}


async def call(home: Home, method: str, path: str, body: Any = None, headers: Any = None) -> Any:
    answer = await home.client.request(method, path, json=body, headers=headers)
    return answer.raise_for_status().json() if answer.content else None


async def test_a_document_becomes_memories_is_found_changed_and_forgotten(tmp_path: Path) -> None:
    async with remembering(tmp_path / "home") as home:
        body = {"content": "I live in Berlin.", "customId": "d1", "metadata": {"source": "app"}, **ANN}
        assert (await call(home, "POST", "/v3/documents", body))["id"] == "d1"

        async def found(**more: Any) -> list[Json]:
            asked = {"q": "Where does Ann live?", "threshold": 0, **ANN, **more}
            results: list[Json] = (await call(home, "POST", "/v4/search", asked))["results"]
            return results

        await eventually(found)
        assert {"ann lives in Berlin."} <= {each["memory"] for each in await found()}
        assert (await found())[0]["metadata"] == {"source": "app"}
        assert "I live in Berlin." in [each["chunk"] for each in await found(searchMode="documents")]
        assert await found(containerTag="bob") == []
        (document,) = (await call(home, "POST", "/v3/search", {"q": "Berlin", **ANN}))["results"]
        assert (document["documentId"], document["chunks"][0]["content"]) == ("d1", "I live in Berlin.")

        stored = await call(home, "GET", "/v3/documents/d1")
        assert (stored["content"], stored["metadata"], stored["status"]) == (
            "I live in Berlin.",
            {"source": "app"},
            "done",
        )
        listed = await call(home, "POST", "/v3/documents/list", {"containerTags": ["ann"]})
        assert [each["id"] for each in listed["memories"]] == ["d1"]
        profile = (await call(home, "POST", "/v4/profile", {**ANN, "q": "Berlin"}))["profile"]
        assert any("Berlin" in line for line in profile["dynamic"])

        wanted = {"content": "ann lives in Berlin.", **ANN}
        changed = await call(home, "PATCH", "/v4/memories", {**wanted, "newContent": "Ann lives in Lisbon."})
        assert changed["memory"] == "Ann lives in Lisbon."
        gone = await call(home, "DELETE", "/v4/memories", {"id": changed["id"], **ANN})
        assert gone == {"id": changed["id"], "forgotten": True}
        await call(home, "PATCH", "/v3/documents/d1", {"content": "I like parks."})
        changed = await call(home, "GET", "/v3/documents/d1")
        assert (changed["content"], changed["metadata"]) == ("I like parks.", {"source": "app"})
        again = {"content": "I like the sea.", "customId": "d1", **ANN}
        assert (await call(home, "POST", "/v3/documents", again))["status"] == "queued"
        newest = await call(home, "GET", "/v3/documents/d1")
        assert (newest["content"], newest["metadata"]) == ("I like the sea.", {"source": "app"})
        assert (await call(home, "POST", "/v3/documents", again))["status"] == "done"
        assert (await call(home, "GET", "/v3/documents/d1"))["updatedAt"] == newest["updatedAt"]
        said = [message("Hello."), message("Hi.", 1, role="assistant")]
        chat = {"session_id": "chat", "user_id": "ann", "messages": said}
        await call(home, "POST", "/api/v1/memory/add", chat)
        taken = {**again, "customId": "chat"}
        assert (await home.client.post("/v3/documents", json=taken)).status_code == CONFLICT
        await call(home, "DELETE", "/v3/documents/d1")
        assert (await home.client.get("/v3/documents/d1")).status_code == NOT_FOUND


async def test_a_batch_tells_what_could_not_be_added(home: Home) -> None:
    await call(home, "POST", "/api/v1/threads", {"thread_id": "d1", "user_id": "ann", "tags": [str(n) for n in range(100)]})  # fmt: skip
    documents: list[Any] = [
        {"content": "One.", "containerTag": "bob"},
        "Two.",
        {"content": "Three.", "customId": "d1"},
    ]
    key = await home.make_key("ann")
    told = await call(home, "POST", "/v3/documents/batch", {"documents": documents, "containerTag": "x"}, key)
    assert [each["status"] for each in told["results"]] == ["queued", "queued", "error"]
    assert (told["success"], told["failed"], told["results"][2]["id"]) == (2, 1, "")
    assert "tags" in told["results"][2]["error"]
    answer = await home.client.post(
        "/v3/documents/batch", json={"documents": documents[2:], "containerTag": "x"}, headers=key
    )
    assert answer.status_code == INVALID
    space = await home.make_key()
    told = await call(home, "POST", "/v3/documents/batch", {"documents": documents[:2], **ANN}, space)
    owners = [
        (await call(home, "GET", f"/v3/documents/{each['id']}", headers=space))["containerTags"]
        for each in told["results"]
    ]
    assert owners == [["bob"], ["ann"]]


async def test_nobody_reaches_anothers_documents_and_nothing_breaks(home: Home) -> None:
    await call(home, "POST", "/v3/documents", {"content": "A secret.", "customId": "d1", **ANN})
    odd: list[Any] = [None, [], 7, {"q": {}}, {"content": " "}, {"containerTags": ["a", "b"], "q": "x"}]
    odd += [
        {"filters": {"AND": []}, "q": "x"},
        {"ids": [7]},
        {"documents": [{}]},
        {"customId": "..", "content": "x"},
    ]
    routes = {route.path: route.methods or set() for route in router.routes if isinstance(route, APIRoute)}
    for path, methods in routes.items():
        for method in methods - {"GET"}:
            for body in odd:
                named = path.replace(":path", "").format(document_id="nothing", rest="x")
                answer = await home.client.request(method, named, json=body)
                assert answer.status_code < 500, (method, named, body, answer.text)
                assert answer.status_code < 400 or list(answer.json()) == ["error", "details"], answer.text

    ann, bob = await home.make_key("ann"), await home.make_key("bob")
    stranger = await home.make_key(space="elsewhere")
    for headers, status in ((bob, NOT_FOUND), (stranger, NOT_FOUND), (bearer("wrong"), NO_KEY)):
        for method, body in (("GET", None), ("PATCH", {"content": "Mine."}), ("DELETE", None)):
            answer = await home.client.request(method, "/v3/documents/d1", json=body, headers=headers)
            assert answer.status_code == status, answer.text
    for headers in (bob, stranger):
        # With a user's key the container is a tag, and names nobody.
        listed = await call(home, "POST", "/v3/documents/list", {"containerTags": ["bob"]}, headers)
        assert listed["memories"] == []
        asked = {"q": "secret", "containerTag": "bob", "searchMode": "hybrid", "threshold": 0}
        assert (await call(home, "POST", "/v4/search", asked, headers))["results"] == []
    space = await home.make_key()
    path = "/v3/documents/d1"
    refused = await home.client.patch(path, json={"content": "Mine.", "containerTag": "bob"}, headers=space)
    assert refused.status_code == NOT_FOUND
    for method in ("GET", "DELETE"):
        answer = await home.client.request(method, path, params={"containerTag": "bob"}, headers=space)
        assert answer.status_code == NOT_FOUND
    told = await call(home, "DELETE", "/v3/documents/bulk", {"ids": ["d1"], "containerTags": ["bob"]}, space)
    assert (told["deletedCount"], [each["id"] for each in told["errors"]]) == (0, ["d1"])
    told = await call(home, "DELETE", "/v3/documents/bulk", {"ids": ["d1"], "containerTags": ["x"]}, ann)
    assert told["deletedCount"] == 0, "a tag of a user's key narrows too"
    fact = {"user_id": "ann", "text": "Ann has a secret."}
    memory = (await home.client.post("/api/v1/memory/entries", json=fact, headers=space)).json()["id"]
    for method, more in (("PATCH", {"newContent": "Mine."}), ("DELETE", {})):
        body = {"id": memory, "containerTag": "bob", **more}
        answer = await home.client.request(method, "/v4/memories", json=body, headers=space)
        assert answer.status_code == NOT_FOUND
    await call(
        home, "POST", "/v3/documents", {"content": "Bob's.", "customId": "d1", "containerTag": "bob"}, space
    )
    await call(home, "PATCH", path, {"content": "Bob's own.", "containerTag": "bob"}, space)
    assert (await call(home, "GET", f"{path}?containerTag=bob", headers=space))["content"] == "Bob's own."
    assert (await call(home, "GET", "/v3/documents/d1", headers=ann))["content"] == "A secret."
