"""Forgetting one turn: what hangs on it goes, what stands beside it stays, and nothing that comes late survives."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.domain.chat import ChatRequest, ContextBlock
from recollect.domain.entries.entry import EntryChange, KeptAnswer, KnownEntry
from recollect.domain.identity import key_within_user
from recollect.domain.model import NewTurn, ThreadRef
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.prompts import keep_block
from recollect.infra.journal.rows import thread_pk
from recollect.infra.journal.sqlite import SqliteConnector
from tests.http_client import START, Home, Json, opened
from tests.unit.made_entries import DAY, WHEN, known

KEY = key_within_user("default", "t1")


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    """Ann said four things in one thread, and one in another; no strategy works on them."""
    off = {name: {"enabled": False} for name in ("episode", "facts", "foresight", "profile")}
    async with opened(tmp_path / "home", embedding={"kind": "none"}, strategies=off) as home:
        await home.add("t1", "one walrus", "two", "three", "four", user_id="ann")
        await home.add("t2", "elsewhere", user_id="ann")
        for thread in ("t1", "t2"):
            await home.client.post("/api/v1/memory/flush", json={"session_id": thread, "user_id": "ann"})
        await home.drain()
        yield home


async def forget(home: Home, turn_id: str = "t-1", thread: str = "t1", **query: Any) -> httpx2.Response:
    return await home.client.delete(f"/api/v1/threads/{thread}/turns/{turn_id}", params=query)


async def forgotten(home: Home, turn_id: str = "t-1", **query: Any) -> Json:
    answer: Json = (await forget(home, turn_id, **query)).raise_for_status().json()
    await home.drain()
    return answer


async def put(home: Home, *entries: KnownEntry) -> None:
    await home.put(*entries)
    await home.drain()


async def run(home: Home, sql: str, *parameters: object) -> None:
    await home.app.database.write(lambda connection: connection.run(sql, parameters))


async def count(home: Home, table: str, where: str = "1") -> int:
    ((row),) = await home.app.database.read(f"SELECT count(*) AS number FROM {table} WHERE {where}")
    return int(row["number"])


async def remind(home: Home, thread: str, memory: str) -> None:
    """As if the memory had been sent with the first turn of a thread."""
    block, ref = ContextBlock("a walrus", {memory: "digest"}), ThreadRef("default", "ann", thread)
    await home.app.database.write(
        lambda connection: keep_block(connection, thread_pk(connection, ref), 1, block)
    )


async def in_order(home: Home) -> None:
    """Every message is accounted for, the vault says what the journal says, and nothing is left of the rest."""
    await home.app.search.indexer.settled()
    assert (await home.app.verifier.verify()).problems == []
    assert (await home.app.forgotten_verifier.verify()).problems == []


async def test_the_proof_holds_in_a_home_in_which_nothing_was_forgotten(home: Home) -> None:
    assert (await home.app.forgotten_verifier.verify()).problems == []


async def test_its_memcell_keeps_its_id_and_loses_the_turn(home: Home) -> None:
    ((before, _),) = await home.app.cells.list_cells(ThreadRef("default", "ann", "t1"))
    await forgotten(home, "t-2")
    ((after, messages),) = await home.app.cells.list_cells(ThreadRef("default", "ann", "t1"))
    assert (after.memcell_id, after.turn_ids) == (before.memcell_id, ("t-1", "t-3", "t-4"))
    assert len(messages) == 3
    await in_order(home)


async def test_a_memcell_without_turns_goes(home: Home) -> None:
    await home.client.delete("/api/v1/threads/t2/turns/t-1")
    await home.drain()
    assert await home.app.cells.list_cells(ThreadRef("default", "ann", "t2")) == []
    await in_order(home)


@pytest.mark.parametrize("turn_id", ["t-1", "t-2", "t-4"])
async def test_the_transcript_holds_the_others(home: Home, turn_id: str) -> None:
    await forgotten(home, turn_id)
    text = await home.app.vault.read("default/users/ann/threads/t1/0001.md") or ""
    assert [f"^t-{number}\n" in text for number in range(1, 5)] == [
        f"t-{number}" != turn_id for number in range(1, 5)
    ]
    await in_order(home)


async def test_what_is_said_next_gets_a_number_of_its_own(home: Home) -> None:
    await forgotten(home, "t-4")
    (receipt,) = await home.add("t1", "five", user_id="ann")
    await home.drain()
    assert receipt["turn_id"] == "t-5"
    await in_order(home)


async def test_versions_kept_beside_go_whole(home: Home) -> None:
    kept = home.app.settings.vault_path / "default/users/ann/threads/t1/0001.conflict-12345678.md"
    kept.write_text("the walrus, as somebody saved it", encoding="utf-8")
    await forgotten(home)
    assert not kept.exists()


async def test_an_entry_of_several_turns_goes_when_one_is_forgotten(home: Home) -> None:
    await put(home, known("fa-1", "a walrus", turns=("t-1", "t-2")), known("fa-2", "stays", turns=("t-2",)))
    assert (await forgotten(home))["entries"] == 1
    left = await home.app.entry_store.list_entries("default")
    assert [each.entry_id for each in left] == ["fa-2"]
    await in_order(home)


async def test_what_would_go_along_is_told_before_and_is_what_goes(home: Home) -> None:
    await put(home, known("fa-1", "a walrus", turns=("t-1", "t-2")), known("fa-2", "stays", turns=("t-2",)))
    told = (await home.client.get("/api/v1/threads/t1/turns/t-1/deletion")).raise_for_status().json()
    assert (told["turns"], told["entries"]) == (1, 1)
    assert [(each["id"], each["text"]) for each in told["goes_along"]] == [("fa-1", "a walrus")]
    whole = (await home.client.get("/api/v1/threads/t1/deletion")).raise_for_status().json()
    assert (whole["turns"], whole["entries"]) == (4, 2)
    assert len(await home.app.entry_store.list_entries("default")) == 2, "nothing is changed by asking"
    gone = await forgotten(home)
    assert (gone["forgotten"], gone["entries"]) == (1, 1)


async def test_what_would_go_of_anothers_is_not_told(home: Home) -> None:
    for path in ("threads/t1/deletion", "threads/t1/turns/t-1/deletion", "threads/t1/turns/t-99/deletion"):
        answer = await home.client.get(f"/api/v1/{path}", params={"user_id": "bob"})
        assert answer.status_code == 404, path


async def test_what_a_forgotten_fact_had_superseded_holds_again(home: Home) -> None:
    old = known("fa-1", turns=("t-2",), extra={"superseded_by": "fa-2", "until": "2026-05-08T14:03:00.000Z"})
    new = known("fa-2", turns=("t-1",), when=WHEN + DAY, extra={"supersedes": "fa-1"})
    await put(home, old, new)
    await forgotten(home)
    (left,) = await home.app.entry_store.list_entries("default")
    assert (left.entry_id, left.holds, "until" in left.entry.extra) == ("fa-1", True, False)


async def test_a_version_that_cited_it_goes_from_the_history(home: Home) -> None:
    await put(home, known("fa-1", "a walrus", turns=("t-1",)))
    (stored,) = await home.app.entry_store.list_entries("default")
    later = known("fa-1", "something else", turns=("t-2",), revision=stored.revision)
    await put(home, later)
    assert len(await home.app.entry_store.history("default", "fa-1")) == 1
    await forgotten(home)
    assert await home.app.entry_store.history("default", "fa-1") == []


async def test_answers_that_models_gave_about_the_thread_go(home: Home) -> None:
    await home.app.model_answers.keep(
        ThreadRef("default", "ann", "t1"), "c-1", "memcell", "d", KeptAnswer("a walrus", "m")
    )
    await forgotten(home)
    assert await count(home, "model_answers") == 0


@pytest.mark.parametrize("memory", [f"{KEY}:t-1", "fa-1"])
async def test_the_prompts_of_a_thread_that_was_reminded_of_it_begin_again(home: Home, memory: str) -> None:
    await put(home, known("fa-1", "a walrus", turns=("t-1",)))
    await remind(home, "t2", memory)
    await forgotten(home)
    assert await count(home, "context_blocks") == 0


async def test_a_title_that_quotes_it_goes(home: Home) -> None:
    await home.client.patch("/api/v1/threads/t1", json={"title": "The Walrus", "user_id": "ann"})
    await forgotten(home)
    assert (await home.client.get("/api/v1/threads/t1")).json()["title"] is None


@pytest.mark.parametrize(("title", "turn"), [("Numbers", "t-1"), ("Äpfel", "t-5")])
async def test_a_title_of_words_that_others_say_stays(home: Home, title: str, turn: str) -> None:
    await home.add("t1", "Äpfel.", "ÄPFEL!", user_id="ann")
    await home.client.patch("/api/v1/threads/t1", json={"title": title, "user_id": "ann"})
    await forgotten(home, turn)
    assert (await home.client.get("/api/v1/threads/t1")).json()["title"] == title


async def test_a_branch_goes_on_from_what_its_first_turn_followed(home: Home) -> None:
    for text, parent in (("branch", "t-2"), ("its answer", None), ("another", "t-5")):
        turn = {"role": "user", "content": text, "timestamp": START, "user_id": "ann", "parent_id": parent}
        await home.client.post("/api/v1/threads/t1/turns", json={k: v for k, v in turn.items() if v})
    await home.drain()
    await forgotten(home, "t-5")
    left = {
        turn.turn_id: turn.parent_id
        for turn in await home.app.THREADS.get_history(await home.app.THREADS.meant("t1"))
    }
    assert (left["t-6"], left["t-7"]) == ("t-2", "t-2")
    await in_order(home)


async def test_turns_that_name_themselves_or_later_ones_as_parents_are_forgotten_like_others(
    home: Home,
) -> None:
    for number, parent in ((5, "t-5"), (6, "t-7"), (7, "t-6"), (8, "t-999999999999")):
        turn = {"role": "user", "content": f"round {number}", "user_id": "ann", "parent_id": parent}
        (await home.client.post("/api/v1/threads/t1/turns", json=turn)).raise_for_status()
    await home.drain()
    for name in ("t-5", "t-7", "t-6", "t-8"):
        await forgotten(home, name)
    await in_order(home)


async def test_its_answers_go_along_when_asked(home: Home) -> None:
    for number, role in enumerate(("user", "assistant", "tool", "assistant", "user", "assistant")):
        turn = {"role": role, "content": str(number), "user_id": "ann"}
        await home.client.post("/api/v1/threads/t1/turns", json=turn)
    answer = await forgotten(home, "t-5", answers=True)
    assert answer["turn_ids"] == ["t-5", "t-6", "t-7", "t-8"]
    await in_order(home)


async def test_a_turn_that_is_still_being_written_is_a_conflict(home: Home) -> None:
    turn = NewTurn("user", "wait", START, "ann")
    await home.app.chats.accept("default", ChatRequest("t1", (turn,), user_id="ann"))
    answer = await forget(home, "t-6")
    assert (answer.status_code, "cancel" in answer.text) == (409, True)


async def test_a_turn_of_an_incognito_thread_is_forgotten(home: Home) -> None:
    await home.client.post(
        "/api/v1/threads", json={"thread_id": "secret", "user_id": "ann", "incognito": True}
    )
    await home.add("secret", "a walrus", user_id="ann")
    assert (await forget(home, "t-1", "secret")).status_code == 200
    await home.drain()
    assert (await home.coverage())["forgotten"] == 1


async def test_a_turn_that_a_person_edited_is_forgotten(home: Home) -> None:
    path = home.app.settings.vault_path / "default/users/ann/threads/t1/0001.md"
    path.write_text(path.read_text(encoding="utf-8").replace("one walrus", "one sea-cow"), encoding="utf-8")
    await forgotten(home)
    assert "sea-cow" not in path.read_text(encoding="utf-8")
    assert list(path.parent.glob("*")) == [path]


async def test_what_a_job_still_wrote_of_it_goes_too(home: Home) -> None:
    async with home.app.jobs.paused():
        await forget(home)
        await home.app.entry_store.apply(
            EntryChange(
                "default",
                "default/users/ann",
                "extraction",
                "late",
                (known("fa-9", "a walrus", turns=("t-1",)),),
            )
        )
    await home.drain()
    assert await home.app.entry_store.list_entries("default") == []
    await in_order(home)


async def test_what_a_forgotten_user_chooses_before_their_files_are_gone_is_kept(home: Home) -> None:
    preferences = home.app.settings.vault_path / "default/users/ann/preferences.md"
    path = "/api/v1/users/ann/preferences"
    await home.client.patch(path, json={"time_zone": "Asia/Tokyo", "auto_memory": False})
    await home.drain()
    async with home.app.jobs.paused():
        await home.client.delete("/api/v1/users/ann")
        await home.client.patch(path, json={"time_zone": "Europe/Lisbon"})
    await home.drain()
    chosen = (await home.client.get(path)).json()
    assert (chosen["time_zone"], chosen["auto_memory"]) == ("Europe/Lisbon", True)
    assert "Europe/Lisbon" in preferences.read_text(encoding="utf-8")
    await in_order(home)


async def test_what_would_go_with_a_forgotten_users_files_is_refused_until_they_are_gone(home: Home) -> None:
    """A memory or a note that was taken before would be lost."""
    memory = {"user_id": "ann", "kind": "facts", "text": "Ann has a boat."}
    note = {"user_id": "ann", "name": "plan", "text": "to sail"}
    said = {"entries": memory, "notes": note}
    async with home.app.jobs.paused():
        await home.client.delete("/api/v1/users/ann")
        for path, body in said.items():
            assert (await home.client.post(f"/api/v1/memory/{path}", json=body)).status_code == 429
    await home.drain()
    for path, body in said.items():
        assert (await home.client.post(f"/api/v1/memory/{path}", json=body)).status_code == 201
    await home.drain()
    asked = {"user_id": "ann"}
    (memory,) = (await home.client.get("/api/v1/memory/entries", params=asked)).json()["entries"]
    (note,) = (await home.client.get("/api/v1/memory/notes", params=asked)).json()["notes"]
    assert (memory["text"], note["name"]) == ("Ann has a boat.", "plan.md")
    await in_order(home)


async def test_what_a_forgotten_user_had_written_by_hand_is_not_taken_in_afterwards(home: Home) -> None:
    """They are back in a new thread before their files are gone: what is known from then on is kept."""
    await put(home, known("fa-1", turns=("t-1",)))
    file = next((home.app.settings.vault_path / "default/users/ann/facts").iterdir())
    async with home.app.jobs.paused(["purge"]):
        async with home.app.jobs.paused():
            section = "\n## The cellar ^fa-77\n- when: 2026-05-08T14:03:00Z\n\n> a walrus\n"
            file.write_text(file.read_text(encoding="utf-8") + section, encoding="utf-8")
            await home.client.delete("/api/v1/users/ann")
            await home.add("t9", "I am back", user_id="ann")
        await home.app.vault_sweep.sweep()
        await home.app.entry_files.settle_all()
    await home.drain()
    assert await home.app.entry_store.list_entries("default") == []
    assert not file.exists()
    await in_order(home)


async def test_forgetting_twice_at_once_forgets_both(home: Home) -> None:
    async with home.app.jobs.paused():
        await forget(home, "t-1")
        await forget(home, "t-2")
    await home.drain()
    assert [
        turn.turn_id for turn in await home.app.THREADS.get_history(await home.app.THREADS.meant("t1"))
    ] == ["t-3", "t-4"]
    await in_order(home)


async def test_no_copy_of_a_deleted_row_is_left_in_a_page(tmp_path: Path) -> None:
    """Rows that grow are moved between pages, and their old bytes stay where they were."""
    database = Database(SqliteConnector(tmp_path / "journal.db"))
    await database.open()
    forgetting = SqlForgetting(database, clock=lambda: START)
    try:
        await database.write(_much_that_grows)
        await forgetting.overwrite()
        await database.connector.fold_log()
        assert b"walrus" not in (tmp_path / "journal.db").read_bytes()
    finally:
        await database.close()


def _much_that_grows(connection: Connection) -> None:
    connection.run("CREATE TABLE texts (pk INTEGER PRIMARY KEY, text TEXT)")
    for number in range(1000):
        connection.run("INSERT INTO texts VALUES (?, 'walrus')", (number * 7919 % 1009,))
    for size in (200, 700, 1500):
        connection.run("UPDATE texts SET text = text || ? WHERE pk % 3 = 0", ("x" * size,))
    connection.run("DELETE FROM texts")


class TestTheProof:
    """Each kind of leftover is found."""

    async def test_a_section_of_a_transcript(self, home: Home) -> None:
        await forgotten(home)
        path = home.app.settings.vault_path / "default/users/ann/threads/t1/0001.md"
        text = path.read_text(encoding="utf-8")
        section = "\n## user · ann · 2026-05-08T14:03:00.000Z ^t-1\n\n> one walrus\n"
        (path.parent / "0001.conflict-1.md").write_text(text + section, encoding="utf-8")
        assert await problems(home) == ["sections of transcripts: 1 of 8"]

    async def test_a_link_of_an_entry(self, home: Home) -> None:
        await forgotten(home)
        path = home.app.settings.vault_path / "default/users/ann/other.md"
        path.write_text("[[threads/t1/0001#^t-1]] [[threads/t1/0001#^t-2]]", encoding="utf-8")
        assert await problems(home) == ["links of memories to transcripts: 1 of 2"]

    async def test_a_source_of_an_entry(self, home: Home) -> None:
        await put(home, known("fa-1", turns=("t-2",)))
        await forgotten(home)
        await run(home, "UPDATE entry_sources SET turn = 1")
        assert "sources of memories: 1 of 1" in await problems(home)

    async def test_a_kept_answer(self, home: Home) -> None:
        await forgotten(home)
        await home.app.model_answers.keep(
            ThreadRef("default", "ann", "t1"), "c-gone", "memcell", "d", KeptAnswer("", "m")
        )
        assert await problems(home) == ["kept answers of models: 1 of 1"]

    async def test_a_block_that_names_it(self, home: Home) -> None:
        await forgotten(home)
        await remind(home, "t2", f"{KEY}:t-1")
        assert await problems(home) == ["context blocks: 1 of 1"]

    async def test_a_row_in_an_old_version_of_the_index(self, home: Home) -> None:
        await home.app.search.indexer.settled()
        generation, owner = home.app.search.indexer.live.name, "default/users/ann"
        stored = await home.app.index.load(generation, owner)
        gone = next(place for place, row in enumerate(stored.rows) if row.row_id == f"{KEY}:t-1")
        await forgotten(home)
        await home.app.index.put(generation, owner, [stored.rows[gone]], [stored.words[gone]])
        await home.app.index.remove(generation, owner, [f"{KEY}:t-1"])
        assert [problem for problem in await problems(home) if problem.startswith("rows in all")]


async def problems(home: Home) -> list[str]:
    return (await home.app.forgotten_verifier.verify()).problems
