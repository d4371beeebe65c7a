"""Images: files of the vault that a turn refers to, sent on as they came, gone when the last reference is."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.chatting import post, prompt, with_backend
from tests.files_under import files_under
from tests.http_client import QUICK, Json, coverage, drained, thread_path, turns
from tests.processes import Server, recollect, recollect_json, wait_until
from tests.standins.standin_engines import StandInEngine

CAT, DOG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"GIF89a" + bytes(range(255, -1, -1))
GONE = "(an image that is no longer there)"


def url_of(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def name_of(content: bytes, kind: str = "png") -> str:
    return f"{hashlib.sha256(content).hexdigest()[:32]}.{kind}"


def image(url: str, **fields: Any) -> Json:
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def stored(content: bytes, **fields: Any) -> Json:
    return image(f"vault:images/{name_of(content)}", **fields)


TEXT = {"type": "text", "text": "What is this?"}


@pytest.fixture(scope="module")
def engine() -> Iterator[StandInEngine]:
    with StandInEngine("vllm") as running:
        yield running


@pytest.fixture(scope="module")
def server(engine: StandInEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """All tests share it: each has users and threads of its own."""
    home = tmp_path_factory.mktemp("images") / "home"
    with Server(home, with_backend(engine.base_url)) as running:
        yield running


@pytest.fixture
def client(server: Server) -> httpx2.Client:
    return server.client


@pytest.fixture
def ann(request: pytest.FixtureRequest) -> str:
    """The user of one test, and the beginning of the names of its threads."""
    return f"ann-{hashlib.sha256(request.node.name.encode()).hexdigest()[:8]}"


def folder_of(server: Server, user: str = "ann") -> Path:
    return server.home / "vault/default/users" / user / "images"


def show(client: httpx2.Client, thread: str, *parts: Json, user_id: str = "ann", **fields: Any) -> Json:
    given = {"user_id": user_id, "parts": [TEXT, *parts], **fields}
    answer: Json = post(client, thread, None, **given).raise_for_status().json()
    return answer


def last_chat(engine: StandInEngine) -> Json:
    """The last request for an answer: titles are asked for, too."""
    return [body for body in engine.chats() if "[Context]" in json.dumps(body)][-1]


def parts_sent(engine: StandInEngine) -> list[Json]:
    """Of the last request, in order."""
    messages = last_chat(engine)["messages"]
    return [part for each in messages if isinstance(each["content"], list) for part in each["content"]]


def images_sent(engine: StandInEngine) -> list[Json]:
    return [part for part in parts_sent(engine) if part["type"] == "image_url"]


def bytes_under(home: Path, content: bytes) -> list[Path]:
    """Files that hold an image, as bytes or as base64."""
    kept = (content, base64.b64encode(content))
    return [path for path, held in files_under(home).items() if any(form in held for form in kept)]


def test_an_image_is_a_file_before_the_turn_is_answered(
    server: Server, client: httpx2.Client, ann: str
) -> None:
    cat = CAT + ann.encode()
    answer = show(client, f"{ann}-1", image(url_of(cat), detail="high"), user_id=ann)
    assert answer["user_turn"]["parts"] == [TEXT, stored(cat, detail="high")]
    assert (folder_of(server, ann) / name_of(cat)).read_bytes() == cat
    assert bytes_under(server.home, cat) == [folder_of(server, ann) / name_of(cat)]


def test_the_model_gets_the_same_data_urls_at_every_turn(
    client: httpx2.Client, engine: StandInEngine, ann: str
) -> None:
    show(client, f"{ann}-1", image(url_of(CAT), detail="high"), user_id=ann)
    first = last_chat(engine)["messages"]
    assert images_sent(engine) == [image(url_of(CAT), detail="high")]
    show(client, f"{ann}-1", image(url_of(DOG, "gif")), user_id=ann)
    assert last_chat(engine)["messages"][: len(first)] == first
    assert images_sent(engine) == [image(url_of(CAT), detail="high"), image(url_of(DOG, "gif"))]
    assert prompt(client, f"{ann}-1", "t-4", user_id=ann)["first_difference"] is None


def test_the_receipt_has_references(server: Server, client: httpx2.Client, ann: str) -> None:
    show(client, f"{ann}-1", image(url_of(CAT)), user_id=ann)
    found = prompt(client, f"{ann}-1", "t-2", user_id=ann)
    assert found["messages"][-1]["content"] == [TEXT, stored(CAT)]
    assert found["request"]["messages"] == found["messages"]
    assert "images" not in found["detail"]


@pytest.mark.parametrize("kind", ["ollama", "anthropic"])
def test_an_engine_with_a_shape_of_its_own_gets_the_image_and_the_receipt_none(
    tmp_path: Path, kind: str
) -> None:
    with StandInEngine(kind) as engine:
        settings = with_backend(engine.base_url, LLM__KIND=kind)
        with Server(tmp_path / "home", settings) as server:
            show(server.client, "t1", image(url_of(CAT)))
            sent = json.dumps(last_chat(engine))
            told = json.dumps(prompt(server.client, "t1", "t-2", user_id="ann")["request"])
    content = base64.b64encode(CAT).decode()
    assert (content in sent, content in told) == (True, False)
    assert sent.replace(content, f"vault:images/{name_of(CAT)}") == told


def test_addresses_pass_unchanged(
    server: Server, client: httpx2.Client, engine: StandInEngine, ann: str
) -> None:
    part = image("https://example.org/cat.png")
    assert show(client, f"{ann}-1", part, user_id=ann)["user_turn"]["parts"] == [TEXT, part]
    assert images_sent(engine) == [part]
    assert not folder_of(server, ann).exists()


def test_a_plain_append_takes_images_out_too(
    server: Server, client: httpx2.Client, engine: StandInEngine, ann: str
) -> None:
    body = {
        "user_id": ann,
        "role": "user",
        "parts": [image(url_of(CAT))],
        "message_id": "m1",
        "timestamp": 1,
    }
    first = client.post(thread_path(f"{ann}-1", "turns"), json=body)
    again = client.post(thread_path(f"{ann}-1", "turns"), json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["parts"] == [stored(CAT)]
    show(client, f"{ann}-1", user_id=ann)
    assert images_sent(engine) == [image(url_of(CAT))]


def test_a_client_may_show_an_image_again_by_its_reference(
    client: httpx2.Client, engine: StandInEngine, ann: str
) -> None:
    show(client, f"{ann}-1", image(url_of(CAT)), user_id=ann)
    show(client, f"{ann}-2", stored(CAT), user_id=ann)
    assert images_sent(engine) == [image(url_of(CAT))]


@pytest.mark.parametrize("path", ["messages", "turns"])
@pytest.mark.parametrize(
    "part",
    [
        image("data:image/png;base64,not base64!"),
        image("data:image/jpeg;base64,"),
        {"type": "image_url", "image_url": {"url": 17}},
        stored(DOG),
        image("vault:images/../../bob/images/x.png"),
    ],
)
def test_what_is_no_image_is_refused_by_name_and_stores_nothing(
    server: Server, client: httpx2.Client, path: str, part: Json, ann: str
) -> None:
    body = {"user_id": ann, "parts": [TEXT, part], **({"role": "user"} if path == "turns" else {})}
    refused = client.post(thread_path(f"{ann}-1", path), json=body)
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "parts[1]")
    assert client.get(thread_path(f"{ann}-1")).status_code == 404
    assert coverage(client, user_id=ann)["messages"] == 0
    assert not folder_of(server, ann).exists()


def test_nobody_sees_or_writes_anothers_images(server: Server, client: httpx2.Client, ann: str) -> None:
    show(client, f"{ann}-1", image(url_of(CAT)), user_id=ann)
    assert post(client, f"{ann}-2", None, parts=[stored(CAT)], user_id=f"bob-{ann}").status_code == 422
    body = {"user_id": f"bob-{ann}", "role": "user", "parts": [image(url_of(DOG))]}
    for path in ("messages", "turns"):
        given = body if path == "turns" else {name: body[name] for name in ("user_id", "parts")}
        client.post(thread_path(f"{ann}-1", path), json=given).raise_for_status()
    assert [path.name for path in folder_of(server, ann).iterdir()] == [name_of(CAT)]
    assert [path.name for path in folder_of(server, f"bob-{ann}").iterdir()] == [name_of(DOG)]


def test_an_image_that_is_missing_is_told_to_the_model_and_in_the_receipt(
    server: Server, client: httpx2.Client, engine: StandInEngine, ann: str
) -> None:
    show(client, f"{ann}-1", image(url_of(CAT)), image(url_of(DOG)), user_id=ann)
    (folder_of(server, ann) / name_of(CAT)).unlink()
    (folder_of(server, ann) / name_of(DOG)).write_bytes(b"something else")
    answer = show(client, f"{ann}-1", user_id=ann)
    assert [part for part in parts_sent(engine) if part.get("text") == GONE] == [
        {"type": "text", "text": GONE}
    ] * 2
    missing = [f"vault:images/{name_of(content)}" for content in (CAT, DOG)]
    assert answer["receipt"]["images"] == {"missing": missing}
    found = prompt(client, f"{ann}-1", "t-4", user_id=ann)
    assert found["detail"]["images"] == {"missing": missing}
    assert GONE in json.dumps(found["request"])


def test_an_image_goes_with_the_last_thread_that_shows_it(
    server: Server, client: httpx2.Client, ann: str
) -> None:
    cat, dog = CAT + ann.encode(), DOG + ann.encode()
    show(client, f"{ann}-1", image(url_of(cat)), image(url_of(dog)), user_id=ann)
    show(client, f"{ann}-2", image(url_of(cat)), user_id=ann)
    show(client, f"{ann}-3", image(url_of(cat)), user_id=f"bob-{ann}")
    client.delete(thread_path(f"{ann}-1"), params={"user_id": ann}).raise_for_status()
    drained(client)
    own = folder_of(server, ann) / "holiday.png"
    own.write_bytes(b"mine")
    assert {path.name for path in folder_of(server, ann).iterdir()} == {name_of(cat), own.name}
    assert bytes_under(server.home, dog) == []
    client.delete(thread_path(f"{ann}-2"), params={"user_id": ann}).raise_for_status()
    drained(client)
    assert bytes_under(server.home, cat) == [folder_of(server, f"bob-{ann}") / name_of(cat)]
    assert list(folder_of(server, ann).iterdir()) == [own]  # A picture of the person's stays.


def test_an_incognito_thread_leaves_no_file(
    server: Server, client: httpx2.Client, engine: StandInEngine, ann: str
) -> None:
    thread = {"thread_id": f"{ann}-1", "user_id": ann, "incognito": True}
    client.post("/api/v1/threads", json=thread).raise_for_status()
    show(client, f"{ann}-1", image(url_of(CAT)), user_id=ann)
    assert images_sent(engine) == [image(url_of(CAT))]
    assert not folder_of(server, ann).exists()


@pytest.mark.slow
def test_a_rebuilt_journal_still_shows_its_images(tmp_path: Path, engine: StandInEngine) -> None:
    home, settings = tmp_path / "home", with_backend(engine.base_url)
    with Server(home, settings) as server:
        show(server.client, "t1", image(url_of(CAT)))
        drained(server.client)
        before = turns(server.client, "t1")
        server.stop()
    for path in home.glob("journal.db*"):
        path.unlink()
    assert recollect(home, "rebuild").returncode == 0
    with Server(home, settings) as server:
        assert turns(server.client, "t1")[0]["parts"] == before[0]["parts"] == [TEXT, stored(CAT)]
        show(server.client, "t1")
        assert images_sent(engine) == [image(url_of(CAT))]
        assert recollect_json(home, "verify")["ok"]


def test_a_backup_holds_the_images(tmp_path: Path) -> None:
    body = {"user_id": "ann", "role": "user", "parts": [image(url_of(CAT))]}
    with Server(tmp_path / "home", QUICK) as server:
        server.client.post(thread_path("t1", "turns"), json=body).raise_for_status()
        drained(server.client)
        recollect_json(tmp_path / "home", "backup", str(tmp_path / "backup.tar.gz"))
    assert recollect_json(tmp_path / "restored", "restore", str(tmp_path / "backup.tar.gz"))["ok"]
    assert (tmp_path / "restored/vault/default/users/ann/images" / name_of(CAT)).read_bytes() == CAT


@pytest.mark.parametrize("point", ["vault.written_beside", "vault.synced", "vault.renamed"])
def test_a_kill_while_an_image_is_kept_accepts_no_turn(
    tmp_path: Path, engine: StandInEngine, point: str
) -> None:
    home, settings = tmp_path / "home", with_backend(engine.base_url)
    body = {"user_id": "ann", "parts": [TEXT, image(url_of(CAT))]}
    with Server(home, {**settings, "RECOLLECT_FAIL_POINT": point}) as server:
        with pytest.raises(httpx2.TransportError):
            server.client.post(thread_path("t1", "messages"), json=body)
        wait_until(server.has_ended, "it was killed")
    with Server(home, settings) as server:
        assert coverage(server.client)["messages"] == 0
        show(server.client, "t1", image(url_of(CAT)))
        assert (folder_of(server) / name_of(CAT)).read_bytes() == CAT


def image_of(client: httpx2.Client, thread: str, name: str, **query: str) -> httpx2.Response:
    return client.get(f"{thread_path(thread)}/images/{name}", params=query)


@pytest.mark.parametrize("kind", ["png", "jpeg", "jpg", "gif", "webp"])
def test_an_image_is_handed_out_as_it_came_and_as_nothing_but_a_picture(
    client: httpx2.Client, ann: str, kind: str
) -> None:
    hostile = b"<script>alert(1)</script><svg onload=alert(2)>" + ann.encode()
    show(client, f"{ann}-1", image(url_of(hostile, kind)), user_id=ann)
    answer = image_of(client, f"{ann}-1", name_of(hostile, kind), user_id=ann)
    assert (answer.status_code, answer.content) == (200, hostile)
    assert answer.headers["content-type"] == f"image/{kind.replace('jpg', 'jpeg')}"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    assert answer.headers["cache-control"] == "no-store"


def test_nobody_elses_image_is_handed_out(client: httpx2.Client, ann: str) -> None:
    cat, bob = CAT + ann.encode(), f"bob-{ann}"
    show(client, f"{ann}-1", image(url_of(cat)), user_id=ann)
    show(client, f"{bob}-1", user_id=bob)
    asked = [
        image_of(client, f"{ann}-1", name_of(cat), user_id=bob),
        image_of(client, f"{bob}-1", name_of(cat), user_id=bob),
        image_of(client, f"{bob}-1", name_of(cat), user_id=ann),
        image_of(client, "no-such-thread", name_of(cat), user_id=ann),
    ]
    assert [answer.status_code for answer in asked] == [404] * 4


def test_what_is_no_image_of_the_vault_is_not_there(server: Server, client: httpx2.Client, ann: str) -> None:
    cat = CAT + ann.encode()
    show(client, f"{ann}-1", image(url_of(cat)), user_id=ann)
    folder = folder_of(server, ann)
    (folder / "secret.svg").write_text("<svg onload=alert(1)>")
    for name in ("secret.svg", "..%2Fpreferences.md", name_of(DOG), name_of(cat).upper()):
        assert image_of(client, f"{ann}-1", name, user_id=ann).status_code == 404, name
    (folder / name_of(cat)).write_bytes(b"exchanged")
    assert image_of(client, f"{ann}-1", name_of(cat), user_id=ann).status_code == 404
