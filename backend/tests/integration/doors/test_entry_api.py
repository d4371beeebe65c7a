"""Entries over HTTP: read with their quotes, corrected, pinned, deleted, undone, explained; each for its owner alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.domain.entries.entry import CASES, PROFILE
from recollect.domain.markdown.front_matter import write_time
from tests.eventually import eventually
from tests.http_client import START, Home, Json, opened
from tests.unit.made_entries import DAY, WHEN, known

ENTRIES = "/api/v1/memory/entries"
BOB = "default/users/bob"
MOVED = (
    known("fa-8", extra={"until": write_time(WHEN + DAY), "superseded_by": "fa-9"}),
    known("fa-9", "Ann lives in Porto.", when=WHEN + DAY, extra={"supersedes": "fa-8"}),
)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    """Ann said two things, Bob one; a fact was made of each thread, and a line of Ann's profile."""
    async with opened(tmp_path / "home") as home:
        await home.add("t1", "I live in Berlin.", "And I like it.", user_id="ann")
        await home.add("t2", "I live in Rome.", user_id="bob")
        await home.put(
            known("fa-1", turns=("t-1", "t-2"), extra={"subject": "Ann"}),
            known("fa-2", "Bob lives in Rome.", owner=BOB, thread="t2", turns=("t-1",)),
            known("pr-1", kind=PROFILE, when=WHEN + DAY, by="profile, rules", extra={"fact": "fa-1"}),
        )
        yield home


async def get(home: Home, path: str = "", **query: Any) -> Json:
    answer: Json = (await home.client.get(ENTRIES + path, params=query)).raise_for_status().json()
    return answer


async def patch(home: Home, entry_id: str, **changes: Any) -> httpx2.Response:
    return await home.client.patch(f"{ENTRIES}/{entry_id}", json=changes)


async def ids(home: Home, **query: Any) -> list[str]:
    return [entry["id"] for entry in (await get(home, **query))["entries"]]


class TestWriting:
    async def test_a_memory_written_by_hand_is_theirs_and_found(self, home: Home) -> None:
        body = {"user_id": "cleo", "text": "I am allergic to walnuts."}
        added = await home.client.post(ENTRIES, json=body)
        assert added.status_code == 201
        entry = added.json()
        assert (entry["kind"], entry["edited"], entry["title"]) == ("facts", True, body["text"])
        assert await ids(home, user_id="cleo") == [entry["id"]]
        assert entry["id"] not in await ids(home, user_id="ann")
        await home.drain()
        (file,) = (home.app.settings.vault_path / "default/users/cleo/facts").iterdir()
        assert body["text"] in file.read_text()
        search = {"user_id": "cleo", "query": "walnuts"}

        async def found() -> bool:
            hits = (await home.client.post("/api/v1/memory/search", json=search)).json().get("hits", [])
            return [hit["text"] for hit in hits] == [body["text"]]

        await eventually(found)


class TestReading:
    async def test_a_listed_entry_says_all_about_itself(self, home: Home) -> None:
        (entry,) = (await get(home, user_id="ann", kind="facts"))["entries"]
        assert entry.pop("path").startswith("default/users/ann/facts/")
        (first, second) = (await home.client.get("/api/v1/threads/t1/turns")).json()["turns"]
        assert entry == {
            "id": "fa-1", "kind": "facts", "owner": "users/ann", "title": "Ann lives in Berlin.",
            "text": "Ann lives in Berlin.", "when": WHEN, "by": "facts, rules", "pinned": False, "edited": False,
            "until": None, "superseded_by": None, "supersedes": [], "properties": {"subject": "Ann"},
            "revision": 1, "memcell": None, "message_ids": [first["message_id"], second["message_id"]],
        }  # fmt: skip

    async def test_they_are_chosen_by_kind_time_and_owner(self, home: Home) -> None:
        await home.put(known("ca-1", kind=CASES, owner="default/agents/helper", turns=("t-1",)))
        assert await ids(home, user_id="ann", since=WHEN + DAY) == ["pr-1"]
        assert await ids(home, user_id="ann", until=WHEN + DAY) == ["fa-1"]
        assert await ids(home, agent_id="helper") == ["ca-1"]
        assert await ids(home, agent_id="helper", user_id="bob") == []
        assert sorted(await ids(home, kind=["facts", "cases"])) == ["ca-1", "fa-1", "fa-2"]

    async def test_they_are_counted_by_the_months_of_a_zone(self, home: Home) -> None:
        last_minute_of_may = 1_780_271_940_000
        await home.put(known("fa-5", when=last_minute_of_may), known("ep-1", kind="episodes", when=0))

        async def months(**query: Any) -> list[tuple[str, int]]:
            found = (await home.client.get("/api/v1/memory/months", params=query)).raise_for_status().json()
            return [(each["month"], each["entries"]) for each in found["months"]]

        assert await months(user_id="ann") == [("2026-05", 3), ("1970-01", 1)]
        assert await months(user_id="ann", kind="facts", time_zone="Europe/Lisbon") == [
            ("2026-06", 1),
            ("2026-05", 1),
        ]
        assert await months(user_id="ann", kind="episodes", time_zone="America/Lima") == [("1969-12", 1)]
        assert await months(user_id="cleo") == []
        assert (await home.client.get("/api/v1/memory/months?time_zone=Mars")).status_code == 422

    async def test_cases_come_from_every_agent_to_those_whose_they_are(self, home: Home) -> None:
        agent = "default/agents/clerk"
        await home.put(
            known("ca-1", kind=CASES, owner=agent, turns=("t-1",)),
            known("ca-2", kind=CASES, owner=agent, thread="t2", user="bob", turns=("t-1",)),
        )
        assert await ids(home, user_id="ann", kind="cases") == ["ca-1"]
        assert await ids(home, user_id="bob", kind="cases") == ["ca-2"]

    async def test_a_profile_is_a_page_with_its_lines_in_order(self, home: Home) -> None:
        lines = {"pr-2": "likes", "pr-3": "identity", "pr-4": "home", "pr-5": "home"}
        for number, (entry_id, category) in enumerate(lines.items()):
            extra = {"category": category}
            await home.put(known(entry_id, kind=PROFILE, when=WHEN + number, extra=extra))
        page = (await home.client.get("/api/v1/users/ann/profile")).raise_for_status().json()
        assert [entry["id"] for entry in page["entries"]] == ["pr-3", "pr-5", "pr-4", "pr-2", "pr-1"]
        others = (await home.client.get("/api/v1/users/bob/profile")).json()
        assert others == {"user_id": "bob", "entries": []}

    async def test_an_entry_shows_its_quotes_and_what_is_forgotten(self, home: Home) -> None:
        entry = await get(home, "/fa-1")
        assert entry["quotes"][0] == {
            "user_id": "ann", "thread_id": "t1", "turn_id": "t-1", "forgotten": False, "message_id": entry["message_ids"][0],
            "role": "user", "sender_id": "ann", "timestamp": START, "content": "I live in Berlin.",
        }  # fmt: skip
        await home.put(known("fa-7", turns=("t-99",)))
        (gone,) = (await get(home, "/fa-7"))["quotes"]
        assert (gone["turn_id"], gone["forgotten"], gone["content"], gone["message_id"]) == (
            "t-99", True, None, None,
        )  # fmt: skip

    async def test_what_supersedes_what_is_shown(self, home: Home) -> None:
        await home.put(*MOVED)
        old, new = await get(home, "/fa-8"), await get(home, "/fa-9")
        assert (old["until"], old["superseded_by"], new["supersedes"]) == (WHEN + DAY, "fa-9", ["fa-8"])
        assert [(linked["relation"], linked["title"]) for linked in old["linked"]] == [
            ("superseded_by", "Ann lives in Porto.")
        ]


class TestChanging:
    async def test_a_persons_words_win_and_have_a_history(self, home: Home) -> None:
        edited = (await patch(home, "fa-1", text="I live in Porto.", revision=1)).raise_for_status().json()
        assert (edited["text"], edited["edited"], edited["revision"]) == ("I live in Porto.", True, 2)
        versions = (await get(home, "/fa-1/history"))["versions"]
        assert [(each["revision"], each["text"], each["actor"]) for each in versions] == [
            (1, "Ann lives in Berlin.", None),
            (2, "I live in Porto.", "person"),
        ]
        assert versions[1]["cause"] == "text changed by a person"

    async def test_an_old_revision_is_a_conflict(self, home: Home) -> None:
        await patch(home, "fa-1", pinned=True)
        answer = await patch(home, "fa-1", text="x", revision=1)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["field"]) == (409, "conflict", "revision")

    async def test_a_pin_is_no_edit(self, home: Home) -> None:
        pinned = (await patch(home, "fa-1", pinned=True, title=None, text=None, when=None)).json()
        assert (pinned["pinned"], pinned["edited"], pinned["text"]) == (True, False, "Ann lives in Berlin.")

    async def test_a_change_is_undone_and_the_undoing_too(self, home: Home) -> None:
        await patch(home, "fa-1", text="I live in Porto.")
        once = (await home.client.post(f"{ENTRIES}/fa-1/undo")).raise_for_status().json()
        again = (await home.client.post(f"{ENTRIES}/fa-1/undo", json={})).raise_for_status().json()
        back = await home.client.post(f"{ENTRIES}/fa-1/undo", json={"revision": 1})
        assert [once["text"], again["text"], back.json()["text"]] == [
            "Ann lives in Berlin.",
            "I live in Porto.",
            "Ann lives in Berlin.",
        ]

    async def test_there_may_be_nothing_to_undo(self, home: Home) -> None:
        nothing = await home.client.post(f"{ENTRIES}/fa-1/undo")
        await patch(home, "fa-1", pinned=True)
        never = await home.client.post(f"{ENTRIES}/fa-1/undo", json={"revision": 9})
        assert (nothing.status_code, nothing.json()["error"]["code"]) == (409, "conflict")
        assert (never.status_code, never.json()["error"]["field"]) == (422, "revision")

    async def test_a_deleted_entry_is_gone_for_good_with_what_was_made_of_it(self, home: Home) -> None:
        deleted = (await home.client.delete(f"{ENTRIES}/fa-1")).raise_for_status().json()
        assert deleted == {
            "id": "fa-1",
            "deleted": True,
            "went_along": [{"id": "pr-1", "kind": "profile"}],
            "changed": [],
        }
        assert await ids(home, user_id="ann") == []
        undo = await home.client.post(f"{ENTRIES}/fa-1/undo")
        assert (undo.status_code, "can't be brought back" in undo.json()["error"]["message"]) == (404, True)
        (deletion,) = await home.app.entries.store.deletions("default", "default/users/ann")
        assert deletion.entry_id == "fa-1"

    async def test_what_would_go_along_is_told_before_and_nothing_is_changed(self, home: Home) -> None:
        preview = await get(home, "/fa-1/deletion")
        line = {
            "id": "pr-1",
            "kind": "profile",
            "title": "Ann lives in Berlin.",
            "text": "Ann lives in Berlin.",
        }
        assert preview == {"id": "fa-1", "goes_along": [line], "changes": []}
        assert await ids(home, user_id="ann") == ["pr-1", "fa-1"]

    async def test_what_would_hold_again_is_told_before(self, home: Home) -> None:
        await home.put(*MOVED)
        preview = await get(home, "/fa-9/deletion")
        assert [each["id"] for each in preview["changes"]] == ["fa-8"]

    async def test_what_cannot_be_is_refused_by_name(self, home: Home) -> None:
        refused: list[Json] = [
            {"colour": "red"}, {"kind": "facts"}, {"text": " \n"}, {"text": ""}, {"text": "x" * 20_001},
            {"text": "a\x00b"}, {"title": " "}, {"title": "two\nlines"}, {"title": "two\u2028lines"},
            {"title": "ends\n"}, {"when": "yesterday"}, {"when": -1}, {"when": 1.5}, {"pinned": "yes"},
            {"revision": 0}, {"revision": "1"},
        ]  # fmt: skip
        for changes in refused:
            answer = await patch(home, "fa-1", **changes)
            assert (answer.status_code, answer.json()["error"]["field"]) == (422, next(iter(changes)))
        answer = await home.client.post(f"{ENTRIES}/fa-1/undo", json={"steps": 2})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, "steps")
        assert (await get(home, "/fa-1"))["revision"] == 1

    async def test_a_list_that_cannot_be_is_refused_by_name(self, home: Home) -> None:
        refused: dict[str, Json] = {
            "kind[0]": {"kind": "dreams"},
            "until": {"since": 5, "until": 5},
            "since": {"since": "May"},
            "limit": {"limit": 0},
            "colour": {"colour": "red"},
        }
        for at_fault, query in refused.items():
            answer = await home.client.get(ENTRIES, params=query)
            assert (answer.status_code, answer.json()["error"]["field"]) == (422, at_fault)


async def test_anothers_entry_is_not_found_by_any_route(home: Home) -> None:
    async with home.keyed("bob") as bob:
        listed = (await bob.get(ENTRIES)).json()
        answers = [
            await bob.get(f"{ENTRIES}/fa-1"),
            await bob.patch(f"{ENTRIES}/fa-1", json={"text": "mine"}),
            await bob.delete(f"{ENTRIES}/fa-1"),
            await bob.get(f"{ENTRIES}/fa-1/history"),
            await bob.post(f"{ENTRIES}/fa-1/undo"),
            await bob.get(f"{ENTRIES}/fa-1/why"),
            await bob.get(f"{ENTRIES}/fa-1/deletion"),
            await bob.get("/api/v1/users/ann/profile"),
            await bob.get(ENTRIES, params={"after": "fa-1"}),
            await bob.get(ENTRIES, params={"user_id": "ann"}),
        ]
    assert [entry["id"] for entry in listed["entries"]] == ["fa-2"]
    assert [answer.status_code for answer in answers] == [404] * 7 + [403, 404, 403]
    assert "Berlin" not in "".join(answer.text for answer in answers)
