"""Imports: what was said elsewhere is here, once, with its times, titles and branches; and the report says the rest."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.domain.access import Caller
from recollect.domain.imports.conversation import Said, conversation, moment
from recollect.domain.strategy import STRATEGY
from recollect.infra.journal import cells
from recollect.service.imports import source
from tests.eventually import eventually
from tests.fakes import FakeClock
from tests.http_client import Home, Json, error_of, opened
from tests.processes import recollect
from tests.standins import made_exports as made

IMPORTS = "/api/v1/imports"


async def send(
    home: Home, content: bytes, name: str = "conversations.json", user: str = "ann", **query: Any
) -> httpx2.Response:
    headers = {"Content-Type": "application/octet-stream"}
    params = {"user_id": user, "name": name, **query}
    return await home.client.post(IMPORTS, params=params, content=content, headers=headers)


async def bring(home: Home, content: bytes, name: str = "conversations.json", **query: Any) -> Json:
    """The report of an import that succeeds."""
    answer = (await send(home, content, name, **query)).raise_for_status()
    *_, last = (json.loads(line) for line in answer.text.splitlines())
    report: Json = last["result"]
    return report


async def turns(home: Home, thread: str, user: str = "ann") -> list[Json]:
    params: Json = {"user_id": user, "max_turns": 10_000}
    answer = await home.client.get(f"/api/v1/threads/{thread}/turns", params=params)
    found: list[Json] = answer.raise_for_status().json()["turns"]
    return found


async def threads(home: Home, user: str = "ann") -> dict[str, Json]:
    answer = await home.client.get("/api/v1/threads", params={"user_id": user, "limit": 100})
    return {each["thread_id"]: each for each in answer.raise_for_status().json()["threads"]}


PREFIXES = {"ChatGPT": "chatgpt", "Claude": "claude", "Open WebUI": "openwebui"}


@pytest.mark.parametrize("form", list(PREFIXES))
async def test_conversations_come_with_their_times_and_titles_and_never_twice(home: Home, form: str) -> None:
    content = made.export(form, 3, 5)
    report = await bring(home, content, dry_run=True)
    assert (report["formats"], report["conversations"], report["messages"]) == ([form], 3, 15)
    assert await threads(home) == {}

    report = await bring(home, content)
    assert (report["conversations"], report["messages"], report["already"]["messages"]) == (3, 15, 0)
    thread = f"{PREFIXES[form]}-conversation-2"
    listed = await threads(home)
    began = (made.START + 2 * made.DAY) * 1000
    assert listed[thread]["title"] == "Conversation 2"
    assert (listed[thread]["created"], listed[thread]["updated"]) == (began, began + 240_000)
    said = await turns(home, thread)
    assert [(turn["content"], turn["timestamp"]) for turn in said] == [
        (made.words(2, number), began + 60_000 * number) for number in range(5)
    ]
    assert [(turn["role"], turn["sender_id"]) for turn in said[:2]] == [
        ("user", "ann"),
        ("assistant", "assistant"),
    ]
    again = await bring(home, made.zipped({"export/conversations.json": content, "export/a.png": b"x"}))
    assert (again["messages"], again["already"]["messages"]) == (0, 15)
    assert again["left_out"]["images and other files"] == 1
    assert (await home.coverage())["messages"] == 15


async def test_the_current_branch_is_the_thread_and_others_are_branches_of_it(home: Home) -> None:
    told = made.chatgpt(1, 4)
    made.branch(told, "c1-m0", "other-answer", "assistant", "Another answer.")
    made.branch(told, "other-answer", "other-question", "user", "And then?")
    report = await bring(home, json.dumps([told]).encode())
    assert (report["messages"], report["branches"]) == (6, 2)
    said = {turn["message_id"]: turn for turn in await turns(home, "chatgpt-conversation-1")}
    assert list(said) == ["c1-m0", "other-answer", "other-question", "c1-m1", "c1-m2", "c1-m3"]
    assert said["c1-m1"]["parent_id"] == said["c1-m0"]["turn_id"]
    assert [name for name, turn in said.items() if turn["parent_id"]] == ["c1-m1"]
    covered = await home.coverage()
    assert (covered["messages"], covered["skipped"], covered["missing"]) == (6, 2, 0)

    # The person went back to the other branch, and on from there; meanwhile the thread went on here.
    await home.add("chatgpt-conversation-1", "Said here.", user_id="ann")
    made.branch(told, "other-question", "more", "assistant", "Then this.")
    told["current_node"] = "more"
    assert (await bring(home, json.dumps([told]).encode()))["messages"] == 1
    *_, here, more = await turns(home, "chatgpt-conversation-1")
    assert (here["content"], more["content"]) == ("Said here.", "Then this.")
    assert more["parent_id"] == said["other-question"]["turn_id"]


async def test_what_no_person_and_no_model_said_is_left_out_and_counted(home: Home) -> None:
    told = made.chatgpt(1, 2)
    for name, role, more in (
        ("call", "assistant", {"recipient": "python"}),
        ("result", "tool", {"author": {"role": "tool", "name": "python"}}),
        ("code", "assistant", {"content": {"content_type": "code", "text": "print(1)"}}),
        ("thought", "assistant", {"content": {"content_type": "thoughts", "thoughts": []}}),
        ("instructions", "user", {"content": {"content_type": "user_editable_context"}}),
    ):
        made.branch(told, told["current_node"], name, role, "not for us")
        told["mapping"][name]["message"].update(more)
        told["current_node"] = name
    made.branch(told, "instructions", "last", "assistant", "Here is the picture.")
    told["current_node"] = "last"
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://1"}
    told["mapping"]["last"]["message"]["content"] = {
        "content_type": "multimodal_text",
        "parts": [picture, "Here is the picture."],
    }
    report = await bring(home, json.dumps([told]).encode())
    assert report["left_out"] == {
        "hidden messages": 2,
        "tool calls and results": 2,
        "thinking": 1,
        "images and other media": 1,
    }
    said = await turns(home, "chatgpt-conversation-1")
    assert [turn["content"] for turn in said][2:] == ["print(1)", "Here is the picture."]
    assert not any(turn["parent_id"] for turn in said)


async def test_attached_text_is_named_in_its_message_and_is_no_word_of_the_person(home: Home) -> None:
    told = made.claude(1, 2)
    attached = {"file_name": "contract.pdf", "extracted_content": "The rent is 900 euros."}
    told["chat_messages"][0]["attachments"] = [attached]
    report = await bring(home, json.dumps([told]).encode())
    assert report["attachments"] == 1
    first = (await turns(home, "claude-conversation-1"))[0]
    assert first["content"] == f"{made.words(1, 0)}\n\n[attached: contract.pdf]"
    assert first["parts"][1]["text"] == "[contract.pdf]\n\nThe rent is 900 euros."


async def test_documents_of_claudes_projects_and_what_it_remembers_become_notes(home: Home) -> None:
    documents = [{"filename": "plan.md", "content": "# Plan"}, {"filename": "../a/b.csv", "content": "1,2"}]
    project = {"uuid": "p1", "name": "Garden", "prompt_template": "Be short.", "docs": documents}
    memory = {
        "conversations_memory": "Ann gardens.",
        "project_memories": {"p1": "Roses."},
        "account_uuid": "a",
    }
    files = {
        "conversations.json": made.export("Claude", 1, 2),
        "projects.json": json.dumps([project, {"name": "Empty", "prompt_template": "", "docs": []}]).encode(),
        "memories.json": json.dumps([memory]).encode(),
        "users.json": b'[{"full_name": "Ann"}]',
    }
    report = await bring(home, made.zipped(files))
    assert (report["conversations"], report["notes"]) == (1, 5)
    assert report["left_out"] == {"users.json: no conversations": 1}
    notes = home.app.settings.vault_path / "default/users/ann/notes/claude"
    assert {str(path.relative_to(notes)): path.read_text() for path in notes.rglob("*.md")} == {
        "Garden/instructions.md": "Be short.",
        "Garden/plan.md": "# Plan",
        "Garden/-a-b.csv.md": "1,2",
        "memory.md": "Ann gardens.",
        "memory of projects/p1.md": "Roses.",
    }
    assert (await bring(home, made.zipped(files)))["already"]["notes"] == 5


@pytest.mark.parametrize("odd", [["text"], {"a": 1}])
async def test_a_block_of_a_session_whose_type_is_no_text_is_left_out_alone(home: Home, odd: Any) -> None:
    first, *lines = made.claude_code(1, 2)
    damaged = {**lines[0], "uuid": "odd", "message": {"role": "user", "content": [{"type": odd}]}}
    report = await bring(home, made.lines([first, damaged, *lines]), "session-1.jsonl")
    assert (report["messages"], report["left_out"]) == (2, {"tool calls and results": 3})


async def test_a_session_of_claude_code_is_what_was_said_in_it(home: Home) -> None:
    lines = made.claude_code(1, 6)
    parent = lines[1]["uuid"]
    meta = {**lines[1], "uuid": "meta", "parentUuid": parent, "isMeta": True}
    side = {**lines[1], "uuid": "side", "parentUuid": None, "isSidechain": True}
    content = made.lines([*lines[:2], meta, side, *lines[2:]]) + b'{"type": "user", "uu'
    files = {
        "projects/-work/session-1.jsonl": content,
        "projects/-work/session-2.jsonl": made.lines(made.claude_code(2, 2)),
    }
    report = await bring(home, made.zipped(files), "projects")
    assert (report["formats"], report["conversations"], report["messages"]) == (["Claude Code"], 2, 8)
    assert report["left_out"] == {
        "tool calls and results": 8,
        "hidden messages": 1,
        "messages of sub-agents": 1,
    }
    said = await turns(home, "claude-code-session-1")
    assert [turn["content"] for turn in said] == [made.words(1, number) for number in range(6)]
    assert not any(turn["parent_id"] for turn in said)
    assert (await threads(home))["claude-code-session-1"]["title"] == "Conversation 1"
    again = await bring(home, made.lines(made.claude_code(1, 8)), "session-1.jsonl")
    assert (again["messages"], again["already"]["messages"]) == (2, 6)


async def test_a_rewound_session_keeps_what_was_taken_back_as_a_branch(home: Home) -> None:
    lines = made.claude_code(1, 4)
    rewound = {
        **lines[1],
        "uuid": "again",
        "parentUuid": "c1-m1",
        "message": {"role": "user", "content": "Again."},
    }
    report = await bring(home, made.lines([*lines, rewound]), "session-1.jsonl")
    assert (report["messages"], report["branches"]) == (5, 2)
    *_, last = await turns(home, "claude-code-session-1")
    assert (last["content"], last["parent_id"]) == ("Again.", "t-2")


async def test_server_memorys_file_becomes_entities(home: Home) -> None:
    told: list[Json] = [
        {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["lives in Porto"]},
        {"type": "entity", "name": "Acme", "entityType": "company", "observations": []},
        {"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works at"},
        {"type": "entity", "name": 1},
    ]
    report = await bring(home, made.lines(told), "memory.jsonl")
    assert (report["formats"], report["entities"], report["relations"]) == (["server-memory"], 2, 1)
    assert report["left_out"] == {"entities and relations that can't be read": 1}
    told[0]["observations"] = ["lives in Porto", "has a dog"]
    again = await bring(home, made.lines(told), "memory.jsonl")
    assert (again["entities"], again["already"]) == (0, {"entities": 2, "relations": 1})
    graph = await home.app.graph.read(Caller("default"), "ann")
    assert {entity.name: entity.observations for entity in graph.entities} == {
        "Ann": ("lives in Porto", "has a dog"),
        "Acme": (),
    }


async def test_notes_keep_their_bytes_and_names_and_are_never_rewritten(home: Home) -> None:
    files = {
        "vault/Über uns.md": "\ufeff# Hi\r\n[[Other note]]".encode(),
        "vault/deep/er/Other note.markdown": b"- a\n",
        "vault/CON.md": b"device",
        "vault/latin.md": b"\xe9",
        "vault/long.md": b"x" * 1_000_001,
    }
    report = await bring(home, made.zipped(files), "vault.zip")
    assert (report["formats"], report["notes"]) == (["Markdown"], 3)
    assert report["left_out"] == {"notes that are not UTF-8": 1, "notes of more than 1,000,000 bytes": 1}
    notes = home.app.settings.vault_path / "default/users/ann/notes"
    assert (notes / "vault/Über uns.md").read_bytes() == files["vault/Über uns.md"]
    assert (notes / "vault/deep/er/Other note.markdown").read_bytes() == b"- a\n"
    assert (await bring(home, b"out", "../../../escape.md"))["notes"] == 1
    assert (notes / "escape.md").read_bytes() == b"out"
    assert len(list(notes.rglob("*.m*"))) == 4
    files["vault/CON.md"] = b"changed"
    again = await bring(home, made.zipped(files), "vault.zip")
    assert (again["notes"], again["already"]["notes"]) == (0, 2)
    assert again["left_out"]["notes whose name has another text here"] == 1


async def test_a_forgotten_thread_does_not_come_back(home: Home) -> None:
    content = made.export("Claude", 1, 3)
    await bring(home, content)
    gone = await home.client.delete("/api/v1/threads/claude-conversation-0", params={"user_id": "ann"})
    gone.raise_for_status()
    report = await bring(home, content)
    assert (report["messages"], report["left_out"]) == (0, {"messages that were forgotten here": 3})
    assert await threads(home) == {}


async def test_imported_threads_are_remembered_bit_by_bit_and_end_no_chat(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.app.quiet_threads.stop()  # It looks every five seconds by itself.
    await home.add("live", "I am still talking.", user_id="ann")
    await bring(home, made.export("Claude", 30, 4))
    await home.drain()
    assert (await home.coverage())["celled"] == 0

    async def all_wait() -> bool:
        waiting = await home.app.jobs.list_jobs(space=None)
        return [job.kind for job in waiting].count(STRATEGY) == 20

    async with home.app.jobs.paused([STRATEGY]):
        assert await home.app.cells.close_quiet(home.app.clock(), 20) == 20
        await eventually(all_wait)
        monkeypatch.setattr(cells, "TO_CLOSE", cells.TO_CLOSE.replace(">= 50", ">= 20"))
        assert await home.app.quiet_threads.close_quiet() == 0, "much waits already"
    await home.drain()
    assert await home.app.quiet_threads.close_quiet() == 10
    await home.drain()
    covered = await home.coverage()
    assert (covered["celled"], covered["buffered"], covered["missing"]) == (120, 1, 0)


async def test_an_import_waits_while_too_much_of_its_user_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.service.imports.importer._ROOM_SECONDS", 0.01)
    clock = FakeClock()
    async with opened(tmp_path / "home", limits={"backlog": 2}, clock=clock) as home:
        async with home.app.jobs.paused():
            await home.add("one", "hello", user_id="ann")
            clock.advance(10_000)
            importing = asyncio.create_task(bring(home, made.export("Claude", 4, 2)))
            await asyncio.wait([importing], timeout=0.1)
            assert not importing.done()
        while not importing.done():
            clock.advance(1_000)  # Jobs that are due are counted once a second.
            await asyncio.wait([importing], timeout=0.02)
        assert (await importing)["messages"] == 8


def test_the_command_finds_out_what_a_file_is(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "my notes"
    (folder / ".obsidian").mkdir(parents=True)
    (folder / ".obsidian" / "a.json").write_text("{}")
    (folder / "Trip to Porto.md").write_bytes(b"Rua das Flores\r\n")
    (folder / "conversations.json").write_bytes(made.export("ChatGPT", 2, 3))
    (folder / "user.json").write_text("{}")
    told = recollect(home, "import", str(folder), "--user", "ann")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.splitlines() == [
        "Markdown, ChatGPT: 2 conversations, 6 messages, 1 note imported",
        "  left out: hidden messages (2)",
        "  left out: my notes/user.json: no conversations (1)",
        "memories are made of them in the background; 'recollect status' says what waits",
    ]
    note = home / "vault/default/users/ann/notes/my notes/Trip to Porto.md"
    assert note.read_bytes() == b"Rua das Flores\r\n"


async def test_each_user_has_their_own_import_and_no_key_has_none(home: Home) -> None:
    content = made.export("Claude", 1, 2)
    async with home.keyed("ann") as ann, home.keyed("bob") as bob:
        headers = {"Content-Type": "application/octet-stream"}
        taken = await ann.post(IMPORTS, content=content, headers=headers)
        assert json.loads(taken.text.splitlines()[-1])["result"]["messages"] == 2
        path = "/api/v1/threads/claude-conversation-0/turns"
        assert (await ann.get(path)).status_code == 200
        assert (await bob.get(path)).status_code == 404
        for client, query, status in ((bob, {"user_id": "ann"}, 403), (home.client, {}, 401)):
            refused = await client.post(IMPORTS, params=query, content=content, headers=headers)
            assert refused.status_code == status
        wrong = {**headers, "Authorization": "Bearer rk_wrong"}
        assert (await home.client.post(IMPORTS, content=content, headers=wrong)).status_code == 401


UNREADABLE = (
    b"", b"[", b"{}", b"[]", b"[1, 2]", b"\xff\xfe\x00", b"PK\x03\x04broken", b"[" * 100_000, b'{"type": "entity"}',
    b'[{"mapping": 1}]', b"null", b'[{"mapping": {}},', b'{"a": "\\ud800"}', b'{"type": "user", "sessionId": 1}',
)  # fmt: skip


async def test_what_can_not_be_read_is_refused_in_words(home: Home) -> None:
    for content in UNREADABLE:
        answer = await send(home, content)
        if answer.status_code == 422:
            assert error_of(answer)["code"] == "invalid", content
        else:
            assert json.loads(answer.text.splitlines()[-1])["result"]["messages"] == 0, content
    assert [(await send(home, each)).status_code for each in UNREADABLE].count(422) == 12


FIELDS = (
    "id", "uuid", "title", "name", "message", "author", "role", "sender", "content", "parts", "timestamp", "mapping",
    "create_time", "created_at", "parent", "parentId", "current_node", "currentId", "metadata", "history", "chat",
)  # fmt: skip


@pytest.mark.parametrize("form", list(PREFIXES))
async def test_a_conversation_with_wrong_values_takes_nothing_else_along(home: Home, form: str) -> None:
    def spoilt(value: Any, place: str, wrong: Any) -> Any:
        if isinstance(value, dict):
            return {key: wrong if key == place else spoilt(item, place, wrong) for key, item in value.items()}
        return [spoilt(item, place, wrong) for item in value] if isinstance(value, list) else value

    make = made.MAKERS[form]
    wrongs: tuple[Any, ...] = (None, 1, "x", [], {}, [1], {"a": []}, -1e400, "2020-99-99")
    places = [(place, wrong) for place in FIELDS for wrong in wrongs]
    broken = [spoilt(make(number + 10, 2), *place) for number, place in enumerate(places)]
    report = await bring(home, json.dumps([make(1, 2), *broken, make(2, 2)]).encode(), dry_run=True)
    assert report["conversations"] + report["left_out"].get("conversations without messages", 0) > 100
    assert (await bring(home, json.dumps([make(1, 2), *broken[::7], make(2, 2)]).encode()))["messages"] >= 4
    assert len(await turns(home, f"{PREFIXES[form]}-conversation-2")) == 2


async def test_an_export_that_breaks_off_is_taken_as_far_as_it_goes(home: Home) -> None:
    content = made.export("Claude", 5, 2)
    report = await bring(home, content[: len(content) * 3 // 5])
    assert (report["conversations"], report["messages"]) in ((2, 4), (3, 6))
    (reason,) = report["left_out"]
    assert reason.startswith("conversations.json can't be read on: ")
    assert (await bring(home, content))["messages"] == 10 - report["messages"]


async def test_a_damaged_archive_gives_what_is_whole_and_a_report_of_the_rest(home: Home) -> None:
    good, first = made.export("Claude", 2, 2), {"title": "x", "mapping": None}
    plain = made.zipped(
        {"a.json": good, "conversations.json": json.dumps([first, made.chatgpt(1, 2)]).encode()}
    )
    report = await bring(home, plain, "whole.zip", dry_run=True)
    assert (report["formats"], report["conversations"]) == (["Claude", "ChatGPT"], 3)
    refused = error_of(await send(home, plain[: len(plain) // 2], "x.zip"))
    assert refused["message"] == "x.zip can't be read: the list of its files, at its end, is missing"
    assert (
        "can't be read: Bad CRC-32"
        in error_of(await send(home, spoilt_crc(made.zipped({"a.json": good}), "a.json"), "x.zip"))["message"]
    )
    report = await bring(home, spoilt_crc(plain, "conversations.json"), "x.zip")
    assert (report["messages"], list(report["left_out"])) == (
        4,
        ["conversations.json can't be read on: Bad CRC-32 for file 'conversations.json'"],
    )

    drawn = random.Random(1)
    said = (made.claude(number, 2, lambda *_: drawn.randbytes(1500).hex()) for number in range(300))
    long = b"".join(made.written(said))
    packed = bytearray(made.zipped({"a.json": long, "b.md": b"after it"}))
    middle = len(packed) * 3 // 4
    packed[middle : middle + 3000] = drawn.randbytes(3000)
    report = await bring(home, bytes(packed), "x.zip", dry_run=True)
    assert 50 < report["conversations"] < 300
    assert report["notes"] == 1
    (reason,) = report["left_out"]
    assert reason.startswith("a.json can't be read on: ")


def spoilt_crc(archive: bytes, name: str) -> bytes:
    """One member's checksum is another, in the list of the archive's files."""
    place = archive.rindex(name.encode()) - 46
    assert archive[place : place + 4] == b"PK\x01\x02"
    return archive[: place + 16] + bytes(4) + archive[place + 20 :]


async def test_a_time_that_can_not_be_read_is_as_if_none_was_told(home: Home) -> None:
    told = made.chatgpt(1, 3)
    told["mapping"]["c1-m1"]["message"]["create_time"] = 1e300
    told["mapping"]["c1-m2"]["message"]["create_time"] = -1e18
    report = await bring(home, json.dumps([told]).encode())
    assert report["left_out"] == {"hidden messages": 1, "times that can't be read": 2}
    said = await turns(home, "chatgpt-conversation-1")
    assert {turn["timestamp"] for turn in said} == {(made.START + made.DAY) * 1000}


async def test_an_archive_of_too_many_files_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    content = made.zipped({f"{number}.md": b"x" for number in range(20)})
    monkeypatch.setattr(source, "_LARGEST_DIRECTORY", 900)
    assert "too many files" in error_of(await send(home, content))["message"]
    end = content.rfind(b"PK\x05\x06")
    longer = b"PK\x06\x06" + bytes(36) + (2**40).to_bytes(8, "little") + bytes(8)
    locator = b"PK\x06\x07" + bytes(4) + end.to_bytes(8, "little") + bytes(4)
    monkeypatch.setattr(source, "_LARGEST_DIRECTORY", 90_000)
    assert (
        "too many files"
        in error_of(await send(home, content[:end] + longer + locator + content[end:]))["message"]
    )
    monkeypatch.setattr(source, "_MOST_UNPACKED", 10)
    assert "unpacked" in error_of(await send(home, content))["message"]


async def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path / "home", limits={"import_bytes": 2000}) as home:
        refused = await send(home, made.export("Claude", 50, 2))
        assert (refused.status_code, error_of(refused)["code"]) == (413, "too_large")
        assert "RECOLLECT_LIMITS__IMPORT_BYTES" in error_of(refused)["message"]


def test_a_value_is_read_whole_wherever_a_piece_of_the_file_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [{"a": 'b\\u00e9"]'}, 12345, True, None, [], "ü" * 50, {"n": -1.5e3}]
    file = tmp_path / "array.json"
    file.write_bytes(("\ufeff [" + " ,\n".join(json.dumps(each) for each in values) + "] ").encode())
    for size in range(1, 40):
        monkeypatch.setattr(source, "_CHUNK", size)
        with file.open("rb") as opened_file:
            assert list(source.array(opened_file)) == values


def test_trees_with_circles_and_lost_parents_are_put_in_order() -> None:
    def said(name: str, parent: str | None) -> Said:
        return Said(name, parent, "user", name)

    told = conversation("x", "1", None, [said("a", "b"), said("b", "a"), said("c", "lost"), said("d", "c")])
    assert sorted(each.message_id for each in told.said) == ["a", "b", "c", "d"]
    assert [each.parent for each in told.said if each.message_id == "d"] == ["c"]
    deep = [said(str(number), str(number - 1) if number else None) for number in range(3_000)]
    assert len(conversation("x", "1", "t", deep).said) == 3_000
    unnamed = [conversation("x", None, f"t{number}", deep[:number]).thread_id for number in (3, 4)]
    assert unnamed[0] == unnamed[1] != conversation("x", None, None, deep[1:4]).thread_id
    assert moment("2024-05-08T14:03:00.5Z") == moment(1715176980.5) == moment(1715176980500)
