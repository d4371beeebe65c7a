"""Who is asking: the key, a signed token, headers and fields, and what each may say."""

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.settings import load_settings
from tests.http_client import COMPLETIONS, Home, Json, bearer, completion, opened, thread_path
from tests.processes import StandInModel

SIGNING = "a secret that Open WebUI knows"
Asked = tuple[dict[str, str], str, Json]
"""Headers, query and further fields of the body."""


def signed(
    user: str | None, *, seconds: float = 86_400, secret: str = SIGNING, alg: str = "HS256", **more: Any
) -> dict[str, str]:
    """As Open WebUI sends it; `more` are further claims, or None for one that it leaves out."""
    now = int(time.time())
    person = {"sub": user, "email": "ann@chat.example", "name": "Ann Ö", "role": "user"}
    claims = {**person, "iss": "open-webui", "iat": now, "exp": now + seconds, **more}
    claims = {name: value for name, value in claims.items() if name == "sub" or value is not None}
    parts = [_part(json.dumps(part).encode()) for part in ({"alg": alg, "typ": "JWT"}, claims)]
    parts.append(_part(hmac.digest(secret.encode(), b".".join(parts), "sha256")))
    return {"X-OpenWebUI-User-Jwt": b".".join(parts).decode()}


def _part(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


WITH_THE_SPACES_KEY: list[tuple[Asked, list[Any]]] = [
    (({}, "", {}), [None, "me"]),
    (({"X-Recollect-User": "%E5%BC%A0", "X-OpenWebUI-User-Id": "x"}, "", {"user": "x"}), ["张", "张"]),
    (({"X-Recollect-User": "x"}, "?user_id=ann", {"user": "x"}), ["ann", "ann"]),
    (({"X-Recollect-User": "hint"}, "", {"user_id": "ann"}), ["hint", "ann"]),
    (({"X-OpenWebUI-User-Id": "ann"}, "", {"user": "x", "metadata": {"user_id": "x"}}), ["ann", "ann"]),
    (({}, "", {"user": "ann", "metadata": {"user_id": "x"}}), [None, "ann"]),
    (({}, "", {"metadata": {"user_id": "ann"}}), [None, "ann"]),
    (({"X-OpenWebUI-User-Id": "", "X-Recollect-User": ""}, "", {"user": ""}), [None, "me"]),
    (({"X-Recollect-User": "%FF"}, "", {}), [422, 400]),
    ((signed("ann") | {"X-OpenWebUI-User-Id": "x"}, "", {"user": "x"}), ["ann", "ann"]),
    ((signed("ann") | {"X-Recollect-User": "bob"}, "", {}), [403, 403]),
    ((signed("ann"), "?user_id=bob", {}), [403, 403]),
    ((signed("ann"), "", {"user_id": "bob"}), ["ann", 403]),
    ((signed("ann", seconds=-1), "", {}), [401, 401]),
    ((signed("ann", exp=None), "", {}), [401, 401]),
    ((signed("ann", exp=str(int(time.time()) + 43_200)), "", {}), [401, 401]),
    ((signed("ann", exp=True, nbf=False), "", {}), [401, 401]),
    ((signed("ann", exp=float("inf")), "", {}), [401, 401]),
    ((signed("ann", nbf=int(time.time())), "", {}), ["ann", "ann"]),
    ((signed("ann", nbf="0"), "", {}), [401, 401]),
    ((signed("ann", nbf=int(time.time()) + 43_200), "", {}), [401, 401]),
    ((signed("ann", nbf="soon"), "", {}), [401, 401]),
    ((signed(None), "", {}), [401, 401]),
    ((signed(""), "", {}), [401, 401]),
    ((signed("\ud800"), "", {}), [422, 400]),
    ((signed("ann", secret="another"), "", {}), [401, 401]),
    ((signed("ann", alg="none"), "", {}), [401, 401]),
    (({"X-OpenWebUI-User-Jwt": "no.token.at all"}, "", {}), [401, 401]),
]
WITH_ANNS_KEY: list[tuple[Asked, list[Any]]] = [
    (
        ({"X-OpenWebUI-User-Id": "bob"}, "", {"user": "bob", "metadata": {"user_id": "bob"}}),
        ["ann", "ann"],
    ),
    ((signed("bob", secret="another"), "", {}), ["ann", "ann"]),
    (({"X-Recollect-User": "ann"}, "?user_id=ann", {"user_id": "ann"}), ["ann", "ann"]),
    (({"X-Recollect-User": "bob"}, "", {}), [403, 403]),
    (({}, "?user_id=bob", {}), [403, 403]),
    (({}, "", {"user_id": "bob"}), ["ann", 403]),
]


class TestWhoIsAsking:
    @pytest.mark.parametrize(
        ("key", "cases"), [(None, WITH_THE_SPACES_KEY), ("ann", WITH_ANNS_KEY)], ids=["space", "user"]
    )
    async def test_a_users_key_names_its_user_and_any_other_the_first_who_is_named(
        self, tmp_path: Path, model: StandInModel, key: str | None, cases: list[tuple[Asked, list[Any]]]
    ) -> None:
        """Told by `whoami` at the native API, by the owner of the thread that it opens at OpenAI's."""
        settings = {"llm": {"base_url": model.base_url}, "user_jwt_secret": SIGNING}
        async with opened(tmp_path / "home", **settings) as home, home.keyed(key) as client:
            client.headers["X-Recollect-Memory"] = "off"
            for (headers, query, body), expected in cases:
                native = await client.get(f"/api/v1/whoami{query}", headers=headers)
                said = completion("hi", **body)
                answered = await client.post(f"{COMPLETIONS}{query}", headers=headers, json=said)
                who: list[Any] = [native.json().get("user_id", native.status_code), answered.status_code]
                if answered.status_code == 200:
                    path = thread_path(answered.headers["X-Recollect-Thread"])
                    thread = await home.client.get(path, headers=bearer(home.app.lock.token))
                    who[1] = thread.json()["user_id"]
                assert who == expected, (headers, query, body)

    async def test_a_signed_user_is_refused_where_nothing_can_verify_it(self, home: Home) -> None:
        answer = await home.client.get("/api/v1/whoami", headers=signed("ann"))
        assert (answer.status_code, "RECOLLECT_USER_JWT_SECRET" in answer.text) == (401, True)

    async def test_headers_of_another_front_end_are_named_in_the_settings(self, tmp_path: Path) -> None:
        settings = load_settings(home=tmp_path / "home", user_headers="X-Chat-User, X-Forwarded-Email")
        async with opened(tmp_path / "home", user_headers=settings.user_headers) as home:
            for headers, who in (
                ({"X-Forwarded-Email": "a@b.example"}, "a@b.example"),
                ({"X-OpenWebUI-User-Id": "x"}, None),
            ):
                assert (await home.client.get("/api/v1/whoami", headers=headers)).json()["user_id"] == who


class TestTwoPeopleBehindOneKey:
    async def test_they_chat_search_and_are_reminded_of_their_own_alone(
        self, tmp_path: Path, model: StandInModel
    ) -> None:
        backend = {"base_url": model.base_url}
        async with opened(tmp_path / "home", llm=backend) as home, home.keyed() as client:
            for user, city in (("ann", "Porto"), ("bob", "Oslo")):
                headers = {"X-OpenWebUI-User-Id": user, "X-OpenWebUI-Chat-Id": f"chat of {user}"}
                told = completion(f"The harbour of {city} is where I live.")
                (await client.post(COMPLETIONS, json=told, headers=headers)).raise_for_status()
            await home.app.search.indexer.settled()
            model.control("answer", parrot=True)
            for user, own, others in (("ann", "Porto", "Oslo"), ("bob", "Oslo", "Porto")):
                headers = {"X-OpenWebUI-User-Id": user, "X-OpenWebUI-Chat-Id": f"new chat of {user}"}
                asked = completion("At which harbour do I live?")
                answer = await client.post(COMPLETIONS, json=asked, headers=headers)
                found = await client.post("/api/v1/memory/search", json={"query": "harbour"}, headers=headers)
                listed = await client.get("/api/v1/threads", headers=headers)
                prompt = model.calls_of_chats()[-1]
                for shown in (answer.text, found.text, json.dumps(prompt)):
                    assert own in shown
                    assert others not in shown
                assert {each["user_id"] for each in listed.json()["threads"]} == {user}
                theirs = await client.get("/api/v1/threads/chat of ann", headers=headers)
                assert theirs.status_code == (200 if user == "ann" else 404)


class TestChatsOfAFrontEnd:
    """Open WebUI names its conversation in a header, and in the requests for titles and tags that it makes itself."""

    async def test_the_conversation_is_the_thread_and_a_title_is_not_in_it(
        self, tmp_path: Path, model: StandInModel
    ) -> None:
        headers = {"X-OpenWebUI-User-Id": "ann", "X-OpenWebUI-Chat-Id": "chat-1"}
        async with opened(tmp_path / "home", llm={"base_url": model.base_url}) as home:

            async def post(*said: str, **more: str) -> str:
                roles = ("user", "assistant")
                messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)]
                body = {
                    "model": "recollect",
                    "messages": messages,
                    "metadata": {"thread_id": "less than a header"},
                }
                answer = await home.client.post(COMPLETIONS, json=body, headers=headers | more)
                return str(answer.raise_for_status().headers["X-Recollect-Thread"])

            assert await post("hello") == "chat-1"
            answer = (await home.client.get("/api/v1/threads/chat-1/turns")).json()["turns"][1]["content"]
            assert await post("Write a title for: hello") != "chat-1"
            assert await post("hello", answer, "go on") == "chat-1"
            assert await post("hello") == "chat-1", "the first answer is asked for again"
            turns = (await home.client.get("/api/v1/threads/chat-1/turns")).json()["turns"]
            assert [turn["content"] for turn in turns if turn["role"] == "user"] == ["hello", "go on"]
            assert await post("of another", **{"X-OpenWebUI-User-Id": "bob"}) == "chat-1"
            again = await home.client.get("/api/v1/threads/chat-1/turns", params={"user_id": "ann"})
            assert again.json()["turns"] == turns
            assert await post("named", **{"X-Recollect-Thread": "t-named"}) == "t-named"
