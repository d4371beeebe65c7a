"""Forgetting over HTTP, to the last byte: a word that was everywhere is nowhere under the home."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.chatting import say
from tests.forgetting import CANARY, entries, files_with_the_word, fill, recalled, settings
from tests.http_client import coverage, drained, message, turns
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until


@pytest.fixture
def server(tmp_path: Path, model: StandInModel) -> Iterator[Server]:
    with Server(tmp_path / "home", settings(model)) as server:
        yield server


def nothing_is_left(server: Server) -> None:
    drained(server.client)
    assert files_with_the_word(server.home) == []
    proof = recollect_json(server.home, "verify", "--forgotten")
    assert (proof["ok"], proof["problems"]) == (True, [])
    assert recollect_json(server.home, "verify")["problems"] == []


def test_a_word_is_everywhere_before_it_is_forgotten(server: Server, model: StandInModel) -> None:
    fill(server.client, model)
    held = files_with_the_word(server.home)
    for place in (
        "journal.db",
        "threads/t1/0001.md",
        "/facts/",
        "/episodes/",
        "profile.md",
        "index/",
        "prompt ",
    ):
        assert [path for path in held if place in path], f"{place} of {held}"


def test_nothing_is_left_of_a_message_and_its_answer(server: Server, model: StandInModel) -> None:
    turn = fill(server.client, model)
    path = f"/api/v1/threads/t1/turns/{turn['turn_id']}"
    answer = server.client.delete(path, params={"answers": True}).raise_for_status().json()
    assert answer["turn_ids"] == ["t-1", "t-2"]
    assert answer["entries"] >= 3
    nothing_is_left(server)
    assert [turn["turn_id"] for turn in turns(server.client, "t1")] == ["t-3", "t-4"]
    assert coverage(server.client)["forgotten"] == 2
    told = [entry["text"] for entry in entries(server.client, "ann", "facts")]
    assert any("nurse" in text for text in told), told


def test_nothing_is_left_of_a_thread(server: Server, model: StandInModel) -> None:
    fill(server.client, model)
    server.client.delete("/api/v1/threads/t1").raise_for_status()
    nothing_is_left(server)
    assert any("Mog" in entry["text"] for entry in entries(server.client, "ann", "facts"))


@pytest.mark.parametrize("memories", ["made", pytest.param("none", marks=pytest.mark.slow)])
def test_memories_of_a_forgotten_thread_stay_where_that_is_asked_for(
    server: Server, model: StandInModel, memories: str
) -> None:
    fill(server.client, model)
    before = {entry["id"]: entry for entry in entries(server.client, "ann", "facts")}
    cited = server.client.get("/api/v1/threads/t1/deletion", params={"user_id": "ann"}).json()["goes_along"]
    edited = next(each for each in cited if each["kind"] == "facts")
    corrected = {"user_id": "ann", "text": "It is another thing."}
    server.client.patch(f"/api/v1/memory/entries/{edited['id']}", json=corrected).raise_for_status()
    server.client.delete("/api/v1/threads/t1", params={"memories": memories}).raise_for_status()
    drained(server.client)
    left = {entry["id"]: entry["text"] for entry in entries(server.client, "ann", "facts")}
    assert left[edited["id"]] == "It is another thing."
    assert (left.keys() == before.keys()) == (memories == "none")
    found = server.client.get(f"/api/v1/memory/entries/{edited['id']}", params={"user_id": "ann"}).json()
    assert found["quotes"] == []
    proof = recollect_json(server.home, "verify", "--forgotten")
    assert (proof["ok"], proof["problems"]) == (True, [])
    assert recollect_json(server.home, "verify")["problems"] == []


def test_nothing_is_left_of_a_user(server: Server, model: StandInModel) -> None:
    fill(server.client, model)
    other = {
        "session_id": "of-bob",
        "user_id": "bob",
        "messages": [message("I live in Rome.", sender_id="bob")],
    }
    server.client.post("/api/v1/memory/add", json=other).raise_for_status()
    gone = server.client.delete("/api/v1/users/ann").raise_for_status().json()
    assert (gone["threads"], gone["forgotten"] > 5, gone["entries"] > 3) == (3, True, True)
    nothing_is_left(server)
    left = [path for path in (server.home / "vault/default/users/ann").rglob("*") if path.is_file()]
    assert {path.parent.name for path in left} == {"forgotten"}
    assert [turn["content"] for turn in turns(server.client, "of-bob")] == ["I live in Rome."]
    again = server.client.delete("/api/v1/users/ann").raise_for_status().json()
    assert (again["threads"], again["forgotten"], again["entries"]) == (0, 0, 0)


@pytest.mark.parametrize("how", ["api", "editor"])
@pytest.mark.slow
def test_nothing_is_left_of_a_memory_that_a_person_deleted(
    how: str, server: Server, model: StandInModel
) -> None:
    client = server.client
    said = "I live in Rome. I work as a nurse. I have a cat called Mog."
    say(client, "t1", said, user_id="ann", memory=True)
    client.post("/api/v1/memory/flush", json={"session_id": "t1", "user_id": "ann"}).raise_for_status()
    fact = next(entry for entry in entries(client, "ann", "facts") if "Rome" in entry["text"])
    change = {"text": f"Ann lives in Rome, in the quarter of {CANARY}.", "user_id": "ann"}
    client.patch(f"/api/v1/memory/entries/{fact['id']}", json=change).raise_for_status()
    wait_until(lambda: recalled(client, "ann"), "the word is recalled in another thread", every=0.3)
    drained(client)
    held = files_with_the_word(server.home)
    for place in ("journal.db", "/facts/", "profile.md", "index/", "prompt "):
        assert [path for path in held if place in path], f"{place} of {held}"
    if how == "api":
        path = f"/api/v1/memory/entries/{fact['id']}"
        client.delete(path, params={"user_id": "ann"}).raise_for_status()
        assert CANARY not in str(prompts(client, "t2"))
    else:
        file = server.home / "vault" / fact["path"]
        file.write_text(without_section(file.read_text(), fact["id"]), encoding="utf-8")
        wait_until(lambda: fact["id"] not in str(entries(client, "ann", "facts")), "it is taken in")
    nothing_is_left(server)
    assert said in [turn["content"] for turn in turns(client, "t1")]


def prompts(client: httpx2.Client, thread: str) -> list[object]:
    """Those that can still be read."""
    answers = [turn for turn in turns(client, thread) if turn["role"] == "assistant"]
    read = [client.get(f"/api/v1/threads/{thread}/turns/{turn['turn_id']}/prompt") for turn in answers]
    return [answer.json() for answer in read if answer.status_code == 200]


def without_section(text: str, entry_id: str) -> str:
    """A file of entries as a person leaves it who deletes one."""
    sections = re.split(r"(?m)^(?=## )", text)
    return "".join(section for section in sections if entry_id not in section)


@pytest.mark.slow
def test_what_another_message_says_stays(server: Server, model: StandInModel) -> None:
    turn = fill(server.client, model)
    body = {"session_id": "t3", "user_id": "ann", "messages": [message(f"{CANARY} is far away.")]}
    server.client.post("/api/v1/memory/add", json=body).raise_for_status()
    server.client.delete(f"/api/v1/threads/t1/turns/{turn['turn_id']}?answers=true").raise_for_status()
    drained(server.client)
    assert turns(server.client, "t3")[0]["content"] == f"{CANARY} is far away."
    assert "default/users/ann/threads/t3/0001.md" in str(files_with_the_word(server.home))
    assert recollect_json(server.home, "verify", "--forgotten")["ok"]


class TestRefusals:
    def test_a_turn_that_is_not_there_is_not_found(self, server: Server) -> None:
        add(server.client, "t1")
        for path in ("t1/turns/t-9", "t1/turns/nonsense", "none/turns/t-1"):
            assert server.client.delete(f"/api/v1/threads/{path}").status_code == 404

    def test_anothers_turn_is_not_found(self, server: Server) -> None:
        add(server.client, "t1")
        answer = server.client.delete("/api/v1/threads/t1/turns/t-1", params={"user_id": "bob"})
        assert answer.status_code == 404
        assert len(turns(server.client, "t1")) == 1

    def test_nobody_acts_for_another_user(self, server: Server) -> None:
        answer = server.client.delete("/api/v1/users/ann", params={"user_id": "bob"})
        assert answer.status_code == 403

    def test_the_same_message_again_is_refused_as_forgotten(self, server: Server) -> None:
        add(server.client, "t1")
        server.client.delete("/api/v1/threads/t1/turns/t-1").raise_for_status()
        assert add(server.client, "t1") == ["forgotten"]


def add(client: httpx2.Client, thread: str) -> list[str]:
    body = {"session_id": thread, "user_id": "ann", "messages": [message("Hello.", message_id="m1")]}
    answer = client.post("/api/v1/memory/add", json=body).raise_for_status().json()
    return [receipt["status"] for receipt in answer["receipts"]]


class TestCommands:
    def test_it_asks_before_it_forgets(self, server: Server) -> None:
        add(server.client, "t1")
        refused = recollect(server.home, "forget", "t1", "t-1", text="n\n")
        assert refused.returncode == 1
        assert len(turns(server.client, "t1")) == 1

    def test_it_forgets_a_turn_a_thread_and_a_user(self, server: Server) -> None:
        for thread in ("t1", "t2", "t3"):
            add(server.client, thread)
        assert recollect_json(server.home, "forget", "t1", "t-1", "--yes")["turn_ids"] == ["t-1"]
        assert recollect_json(server.home, "forget", "t2", "--yes")["forgotten"] == 1
        assert recollect_json(server.home, "forget", "--user", "ann", "--yes")["threads"] == 2
        assert server.client.get("/api/v1/threads").json()["threads"] == []

    def test_it_forgets_the_thread_of_the_user_who_is_named(self, server: Server) -> None:
        for user in ("ann", "bob"):
            body = {"session_id": "t1", "user_id": user, "messages": [message("Hello.")]}
            server.client.post("/api/v1/memory/add", json=body).raise_for_status()
        ambiguous = recollect(server.home, "forget", "t1", "--yes")
        assert (ambiguous.returncode, "several users" in ambiguous.stderr) == (1, True)
        assert recollect_json(server.home, "forget", "t1", "--user", "bob", "--yes")["forgotten"] == 1
        (left,) = server.client.get("/api/v1/threads").json()["threads"]
        assert left["user_id"] == "ann"

    def test_it_wants_a_thread_or_a_user(self, server: Server) -> None:
        assert recollect(server.home, "forget", "--yes").returncode == 2

    def test_the_proof_says_what_it_looked_at(self, server: Server) -> None:
        add(server.client, "t1")
        server.client.delete("/api/v1/threads/t1/turns/t-1").raise_for_status()
        proof = recollect(server.home, "verify", "--forgotten")
        assert proof.returncode == 0, proof.stdout
        assert "1 messages were forgotten" in proof.stdout
        assert "sections of transcripts" in proof.stdout
