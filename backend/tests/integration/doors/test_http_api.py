"""The HTTP door: every route and its shapes. In this process, without a socket."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.files_under import files_under
from tests.http_client import START, Home, add_one, error_of, message


class TestThreads:
    async def test_a_new_thread_is_as_it_was_asked_for_and_is_read_so(self, home: Home) -> None:
        body = {"thread_id": "t1", "user_id": "ann", "title": "Porto", "tags": ["move", "move", "family"]}
        answer = await home.client.post("/api/v1/threads", json=body)
        assert answer.status_code == 201
        thread = answer.json()
        assert (await home.client.get("/api/v1/threads/t1")).json() == {**thread, "waiting": None}
        assert (thread["thread_id"], thread["user_id"], thread["title"]) == ("t1", "ann", "Porto")
        assert (thread["tags"], thread["turn_count"], thread["incognito"]) == (["move", "family"], 0, False)

    async def test_an_id_that_is_taken_is_a_conflict(self, home: Home) -> None:
        await home.client.post("/api/v1/threads", json={"thread_id": "t1"})
        answer = await home.client.post("/api/v1/threads", json={"thread_id": "t1"})
        assert (answer.status_code, error_of(answer)["field"]) == (409, "thread_id")

    async def test_threads_are_listed_page_by_page_until_there_is_no_next(self, home: Home) -> None:
        for number in range(5):
            await home.client.post("/api/v1/threads", json={"thread_id": f"t{number}"})
        pages = await home.pages("threads", "threads", limit=2)
        seen = [[thread["thread_id"] for thread in page] for page in pages]
        assert seen == [["t0", "t1"], ["t2", "t3"], ["t4"]]

    async def test_a_change_leaves_what_it_does_not_name(self, home: Home) -> None:
        body = {"thread_id": "t1", "title": "old", "tags": ["kept"], "preset": "default"}
        await home.client.post("/api/v1/threads", json=body)
        changed = (
            await home.client.patch("/api/v1/threads/t1", json={"title": "new", "preset": None})
        ).json()
        assert (changed["title"], changed["tags"], changed["preset"]) == ("new", ["kept"], None)

    async def test_deleting_twice_under_one_id_forgets_both_owners_words(self, home: Home) -> None:
        await home.add("t1", "ann's unmistakable sentence", user_id="ann")
        await home.drain()
        async with home.app.jobs.paused():
            await home.client.delete("/api/v1/threads/t1")
            await home.add("t1", "bob's unmistakable sentence", user_id="bob")
            await home.client.delete("/api/v1/threads/t1")
        await home.drain()
        files = files_under(home.app.settings.home)
        assert [path for path, content in files.items() if b"unmistakable" in content] == []


class TestTurns:
    async def test_an_appended_turn_has_every_field(self, home: Home) -> None:
        body = {
            "role": "assistant", "content": "Yes.", "message_id": "m1", "sender_id": "helper", "timestamp": START,
            "parts": [{"type": "text", "text": "Yes."}], "tool_calls": [{"id": "c1"}], "tool_call_id": "c0",
            "reasoning": "thinking", "parent_id": "t-0", "model": "small", "status": "partial",
        }  # fmt: skip
        answer = await home.client.post("/api/v1/threads/t1/turns", json=body)
        assert answer.status_code == 201
        assert answer.json() == {**body, "turn_id": "t-1"}

    async def test_a_message_id_that_is_there_gives_the_turn_that_holds_it(self, home: Home) -> None:
        body = {"role": "user", "content": "Hi", "message_id": "m1", "timestamp": START}
        first = await home.client.post("/api/v1/threads/t1/turns", json=body)
        second = await home.client.post("/api/v1/threads/t1/turns", json=body)
        assert (second.status_code, second.json()) == (200, first.json())

    async def test_a_message_id_that_was_forgotten_is_a_conflict(self, home: Home) -> None:
        body = {"role": "user", "content": "Hi", "message_id": "m1"}
        await home.client.post("/api/v1/threads/t1/turns", json=body)
        await home.client.delete("/api/v1/threads/t1")
        answer = await home.client.post("/api/v1/threads/t1/turns", json=body)
        assert (answer.status_code, error_of(answer)["field"]) == (409, "message_id")

    async def test_max_turns_gives_the_newest_oldest_first(self, home: Home) -> None:
        await home.add("t1", *"abcde")
        answer = await home.client.get("/api/v1/threads/t1/turns", params={"max_turns": 2})
        assert [turn["content"] for turn in answer.json()["turns"]] == ["d", "e"]

    @pytest.mark.parametrize("most", [1000, 10**9, 10**30])
    async def test_max_turns_has_no_upper_limit(self, home: Home, most: int) -> None:
        await home.add("t1", *[f"text {number}" for number in range(120)])
        answer = await home.client.get("/api/v1/threads/t1/turns", params={"max_turns": most})
        assert len(answer.json()["turns"]) == 120

    async def test_turns_without_max_turns_are_paged_backwards(self, home: Home) -> None:
        texts = [f"text {number}" for number in range(230)]
        await home.add("t1", *texts)
        pages = await home.pages("threads/t1/turns", "turns", "before")
        assert [turn["content"] for page in reversed(pages) for turn in page] == texts

    @pytest.mark.parametrize("before", ["t-99", "nonsense", "t-" + "9" * 40, "t-\N{ARABIC-INDIC DIGIT ONE}"])
    async def test_a_page_before_a_turn_that_is_not_there_is_not_found(self, home: Home, before: str) -> None:
        await home.add("t1", "one")
        answer = await home.client.get("/api/v1/threads/t1/turns", params={"before": before})
        assert (answer.status_code, error_of(answer)["field"]) == (404, "before")


class TestMemory:
    async def test_a_message_sent_twice_is_reported_and_stored_once(self, home: Home) -> None:
        body = {"session_id": "t1", "messages": [message("one", message_id="m1")] * 2}
        added = (await home.client.post("/api/v1/memory/add", json=body)).json()
        assert [receipt["status"] for receipt in added["receipts"]] == ["accepted", "duplicate"]
        thread = (await home.client.get("/api/v1/threads/t1")).json()
        assert added["waiting"] == thread["waiting"]
        assert added["waiting"]["messages"] == 1
        assert (await home.coverage())["messages"] == 1

    async def test_a_forgotten_message_is_not_taken_again(self, home: Home) -> None:
        await add_one(home.client, "t1", "one", message_id="m1")
        await home.client.delete("/api/v1/threads/t1")
        (receipt,) = (await add_one(home.client, "t1", "one", message_id="m1")).json()["receipts"]
        assert (receipt["status"], receipt["turn_id"]) == ("forgotten", None)

    async def test_tool_calls_come_back_as_they_were_sent(self, home: Home) -> None:
        calls = [
            {"id": "c1", "function": {"name": "look", "arguments": '{"a": "\\u00e9"}'}, "n": [1, 2.5, None]}
        ]
        said = message("", role="assistant", content=None, tool_calls=calls)
        told = message("found", role="tool", tool_call_id="c1")
        body = {"session_id": "t1", "messages": [said, told]}
        await home.client.post("/api/v1/memory/add", json=body)
        first, second = (await home.client.get("/api/v1/threads/t1/turns")).json()["turns"]
        assert (first["tool_calls"], second["tool_call_id"]) == (calls, "c1")

    async def test_a_flush_closes_everything_and_names_its_memcells(self, home: Home) -> None:
        await home.add("t1", "one", "two", "three")
        answer = await home.client.post("/api/v1/memory/flush", json={"session_id": "t1"})
        flushed = answer.json()
        assert (answer.status_code, flushed["status"], flushed["buffered"]) == (200, "done", 0)
        (cell,) = flushed["memcells"]
        assert set(cell) == {"memcell_id", "message_ids", "reason", "state", "strategies"}
        assert cell["message_ids"] == [f"m_t1_{START}_{number}" for number in (1, 2, 3)]

    async def test_a_flush_past_its_time_is_pending_with_what_is_left_and_done_later(
        self, home: Home
    ) -> None:
        async with home.app.jobs.paused():
            await home.add("t1", "one", "two")
            answer = await home.client.post("/api/v1/memory/flush", json={"session_id": "t1", "timeout": 0})
        flushed = answer.json()
        assert answer.status_code == 202
        assert (flushed["status"], flushed["buffered"], flushed["memcells"]) == ("pending", 2, [])
        await home.drain()
        assert (await home.coverage())["celled"] == 2


class TestOperations:
    async def test_coverage_counts_every_message_once(self, home: Home) -> None:
        await home.add("t1", "one", "two")
        await add_one(home.client, "t1", "rules", role="system")
        await home.client.post("/api/v1/memory/flush", json={"session_id": "t1"})
        await home.add("t3", "four")
        await home.client.delete("/api/v1/threads/t3")
        await home.add("t2", "three")
        counted = await home.coverage()
        assert [counted[name] for name in ("messages", "celled", "buffered", "skipped", "forgotten", "missing")] == [
            5, 2, 1, 1, 1, 0,
        ]  # fmt: skip

    async def test_jobs_that_wait_are_listed_page_by_page(self, home: Home) -> None:
        async with home.app.jobs.paused():
            for number in range(3):
                await home.add(f"t{number}", "one")
            pages = await home.pages("jobs", "jobs", limit=2)
        seen = [job["job_id"] for page in pages for job in page]
        assert len(seen) == 6
        assert seen == sorted(set(seen))

    async def test_a_job_says_what_it_is(self, home: Home) -> None:
        async with home.app.jobs.paused():
            await home.add("t1", "one")
            listed = (await home.client.get("/api/v1/jobs", params={"state": "queued"})).json()["jobs"]
            retried = await home.client.post(f"/api/v1/jobs/{listed[0]['job_id']}/retry")
        assert (retried.status_code, "waits to run at" in error_of(retried)["message"]) == (409, True)
        assert {(job["kind"], job["thread_id"], job["state"], job["attempts"]) for job in listed} == {
            ("boundary", "t1", "queued", 0),
            ("transcribe", "t1", "queued", 0),
        }

    async def test_a_sound_server_is_ready_with_nothing_degraded(self, home: Home) -> None:
        answer = await home.client.get("/health")
        assert (answer.status_code, answer.json()["status"], answer.json()["degraded"]) == (200, "ok", [])

    async def test_a_missing_vault_is_named_as_degraded_and_liveness_is_not_affected(
        self, home: Home
    ) -> None:
        home.app.settings.vault_path.rename(home.app.settings.home / "elsewhere")
        health = (await home.client.get("/health")).json()
        assert health["status"] == "degraded"
        assert "vault" in health["degraded"][0]
        assert (await home.client.get("/health/live")).status_code == 200

    async def test_metrics_do_not_mind_that_an_index_goes_while_it_is_measured(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = home.app.settings.index_path / "g000000"
        gone.mkdir(parents=True)
        scan = os.scandir

        def vanishing(path: str | Path = ".") -> Iterator[os.DirEntry[str]]:
            if Path(path) == gone:
                gone.rmdir()
            return scan(path)

        monkeypatch.setattr(os, "scandir", vanishing)
        answer = await home.client.get("/metrics")
        assert not gone.exists()
        assert answer.status_code == 200, answer.text

    async def test_metrics_are_prometheus_text(self, home: Home) -> None:
        await home.add("t1", "one")
        answer = await home.client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        assert 'recollect_messages_total{status="accepted"} 1.0' in answer.text.splitlines()

    async def test_the_openapi_document_is_served(self, home: Home) -> None:
        assert "/api/v1/memory/add" in (await home.client.get("/openapi.json")).json()["paths"]
