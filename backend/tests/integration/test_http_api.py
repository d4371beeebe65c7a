"""The HTTP door: every route, its shapes, and what it refuses. In this process, without a socket."""

import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.domain.job import Job
from recollect.domain.model import MAX_TIMESTAMP, Append, Receipt
from recollect.entrypoints.logs import logging_to_stderr
from tests.http_client import START, Home, Json, client_of, message, opened, thread_path

TURN_FIELDS = {
    "turn_id", "message_id", "role", "sender_id", "content", "parts", "tool_calls", "tool_call_id",
    "reasoning", "parent_id", "model", "timestamp", "status",
}  # fmt: skip
THREAD_FIELDS = {
    "thread_id", "user_id", "agent_id", "title", "tags", "preset", "backend", "incognito", "created",
    "updated", "turn_count", "pinned",
}  # fmt: skip
COVERAGE_FIELDS = {
    "messages", "buffered", "celled", "skipped", "forgotten", "missing", "indexed", "embedded", "digest",
}  # fmt: skip
ODD_IDS = {
    "a path upwards": "../../etc/x",
    "a hidden name": ".index",
    "a device": "CON",
    "300 characters": "x" * 300,
    "Chinese": "会议记录",
    "emoji": "👩‍🚀🪐",
    "spaces": " two  spaces ",
    "a slash": "a/b",
    "an encoded slash": "a%2Fb",
    "a question mark": "who?#me&you=1",
    "three dots": "...",
    "encoded dots": "%2e%2e",
    "dots and a slash": "./.",
}


def error_of(answer: httpx2.Response) -> Json:
    """The error in its envelope, which holds nothing else."""
    body = answer.json()
    assert set(body) == {"error"}
    error: Json = body["error"]
    assert set(error) <= {"code", "message", "field", "id"}
    return error


class TestThreads:
    async def test_a_new_thread_has_every_field(self, home: Home) -> None:
        body = {"thread_id": "t1", "user_id": "ann", "title": "Porto", "tags": ["move", "move", "family"]}
        answer = await home.client.post("/api/v1/threads", json=body)
        assert answer.status_code == 201
        thread = answer.json()
        assert set(thread) == THREAD_FIELDS
        assert (thread["thread_id"], thread["user_id"], thread["title"]) == ("t1", "ann", "Porto")
        assert (thread["tags"], thread["turn_count"], thread["incognito"]) == (["move", "family"], 0, False)

    async def test_an_id_that_is_not_given_is_made(self, home: Home) -> None:
        answers = [await home.client.post("/api/v1/threads", json={"user_id": "ann"}) for _ in range(2)]
        made = {answer.json()["thread_id"] for answer in answers}
        assert len(made) == 2

    async def test_an_id_that_is_taken_is_a_conflict(self, home: Home) -> None:
        await home.client.post("/api/v1/threads", json={"thread_id": "t1"})
        answer = await home.client.post("/api/v1/threads", json={"thread_id": "t1"})
        assert (answer.status_code, error_of(answer)["field"]) == (409, "thread_id")

    async def test_a_thread_is_read_as_it_was_made(self, home: Home) -> None:
        made = (await home.client.post("/api/v1/threads", json={"thread_id": "t1", "title": "x"})).json()
        assert (await home.client.get("/api/v1/threads/t1")).json() == made

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

    async def test_a_deleted_thread_is_gone_and_counted_as_forgotten(self, home: Home) -> None:
        await home.add("t1", "one", "two")
        answer = await home.client.delete("/api/v1/threads/t1")
        assert answer.json() == {"thread_id": "t1", "forgotten": 2}
        assert (await home.client.get("/api/v1/threads/t1")).status_code == 404
        assert (await home.coverage())["forgotten"] == 2

    async def test_deleting_twice_under_one_id_forgets_both_owners_words(self, home: Home) -> None:
        await home.add("t1", "ann's unmistakable sentence", user_id="ann")
        await home.drain()
        async with home.app.jobs.paused():
            await home.client.delete("/api/v1/threads/t1")
            await home.add("t1", "bob's unmistakable sentence", user_id="bob")
            await home.client.delete("/api/v1/threads/t1")
        await home.drain()
        assert files_with(home, b"unmistakable") == []


def files_with(home: Home, words: bytes) -> list[str]:
    folder = home.app.settings.home
    return [str(path) for path in folder.rglob("*") if path.is_file() and words in path.read_bytes()]


class TestTurns:
    async def test_an_appended_turn_has_every_field(self, home: Home) -> None:
        body = {
            "role": "assistant", "content": "Yes.", "message_id": "m1", "sender_id": "helper", "timestamp": START,
            "parts": [{"type": "text", "text": "Yes."}], "tool_calls": [{"id": "c1"}], "tool_call_id": "c0",
            "reasoning": "thinking", "parent_id": "t-0", "model": "small", "status": "partial",
        }  # fmt: skip
        answer = await home.client.post("/api/v1/threads/t1/turns", json=body)
        assert answer.status_code == 201
        assert set(answer.json()) == TURN_FIELDS
        assert answer.json() == {**body, "turn_id": "t-1"}

    async def test_a_turn_can_be_read_as_soon_as_it_is_answered(self, home: Home) -> None:
        added = (
            await home.client.post("/api/v1/threads/t1/turns", json={"role": "user", "content": "Hi"})
        ).json()
        assert (await home.client.get("/api/v1/threads/t1/turns")).json() == {"turns": [added]}

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
    async def test_made_ids_name_session_time_and_number(self, home: Home) -> None:
        (receipt,) = await home.add("t1", "one")
        assert receipt["message_id"] == f"m_t1_{START}_1"

    async def test_a_message_sent_twice_is_reported_and_stored_once(self, home: Home) -> None:
        body = {"session_id": "t1", "messages": [message("one", message_id="m1")] * 2}
        receipts = (await home.client.post("/api/v1/memory/add", json=body)).json()["receipts"]
        assert [receipt["status"] for receipt in receipts] == ["accepted", "duplicate"]
        assert (await home.coverage())["messages"] == 1

    async def test_a_forgotten_message_is_not_taken_again(self, home: Home) -> None:
        body = {"session_id": "t1", "messages": [message("one", message_id="m1")]}
        await home.client.post("/api/v1/memory/add", json=body)
        await home.client.delete("/api/v1/threads/t1")
        (receipt,) = (await home.client.post("/api/v1/memory/add", json=body)).json()["receipts"]
        assert (receipt["status"], receipt["turn_id"]) == ("forgotten", None)

    async def test_tags_of_an_add_join_those_of_the_thread(self, home: Home) -> None:
        await home.add("t1", "one", tags=["a", "b"])
        await home.add("t1", "two", tags=["b", "c"])
        assert (await home.client.get("/api/v1/threads/t1")).json()["tags"] == ["a", "b", "c"]

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

    async def test_a_flush_past_its_time_is_pending_with_what_is_left(self, home: Home) -> None:
        async with home.app.jobs.paused():
            await home.add("t1", "one", "two")
            answer = await home.client.post("/api/v1/memory/flush", json={"session_id": "t1", "timeout": 0})
        flushed = answer.json()
        assert answer.status_code == 202
        assert (flushed["status"], flushed["buffered"], flushed["memcells"]) == ("pending", 2, [])

    async def test_a_pending_flush_is_done_later(self, home: Home) -> None:
        async with home.app.jobs.paused():
            await home.add("t1", "one", "two")
            await home.client.post("/api/v1/memory/flush", json={"session_id": "t1", "timeout": 0})
        await home.drain()
        assert (await home.coverage())["celled"] == 2


class TestOperations:
    async def test_coverage_counts_every_message_once(self, home: Home) -> None:
        await home.add("t1", "one", "two")
        body = {"session_id": "t1", "messages": [message("rules", role="system")]}
        await home.client.post("/api/v1/memory/add", json=body)
        await home.client.post("/api/v1/memory/flush", json={"session_id": "t1"})
        await home.add("t2", "three")
        await home.add("t3", "four")
        await home.client.delete("/api/v1/threads/t3")
        counted = await home.coverage()
        assert set(counted) >= COVERAGE_FIELDS
        assert [counted[name] for name in ("messages", "celled", "buffered", "skipped", "forgotten", "missing")] == [
            5, 2, 1, 1, 1, 0,
        ]  # fmt: skip

    async def test_coverage_of_one_session_leaves_out_the_others(self, home: Home) -> None:
        await home.add("t1", "one", "two")
        await home.add("t2", "three")
        answer = await home.client.get("/api/v1/coverage", params={"session_id": "t2"})
        assert answer.json()["messages"] == 1

    async def test_the_digest_changes_with_a_message(self, home: Home) -> None:
        await home.add("t1", "one")
        before = (await home.coverage())["digest"]
        await home.add("t1", "two")
        assert (await home.coverage())["digest"] != before

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
        assert {(job["kind"], job["thread_id"], job["state"], job["attempts"]) for job in listed} == {
            ("boundary", "t1", "queued", 0),
            ("transcribe", "t1", "queued", 0),
        }

    async def test_a_dead_job_is_retried(self, home: Home) -> None:
        dead = await bury_one(home)
        assert (await home.client.get("/health")).json()["status"] == "degraded"
        answer = await home.client.post(f"/api/v1/jobs/{dead.job_id}/retry")
        assert answer.status_code == 200
        assert answer.json()["state"] in ("queued", "running")  # It is due at once.
        await home.drain()
        assert (await home.client.get("/api/v1/jobs")).json() == {"jobs": []}

    @pytest.mark.parametrize("job_id", ["0", "999999", "-1", "9" * 30])
    async def test_retrying_a_job_that_is_not_there_is_a_clear_refusal(self, home: Home, job_id: str) -> None:
        answer = await home.client.post(f"/api/v1/jobs/{job_id}/retry")
        assert answer.status_code in {404, 422}
        assert error_of(answer)["message"]

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

    async def test_metrics_are_prometheus_text(self, home: Home) -> None:
        await home.add("t1", "one")
        answer = await home.client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        assert 'recollect_messages_total{status="accepted"} 1.0' in answer.text.splitlines()

    async def test_the_openapi_document_is_served(self, home: Home) -> None:
        assert "/api/v1/memory/add" in (await home.client.get("/openapi.json")).json()["paths"]


async def bury_one(home: Home) -> Job:
    """A dead transcribe job."""
    async with home.app.jobs.paused():
        await home.add("t1", "one")
        await home.app.database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE jobs SET state = 'dead', attempts = 8, error = 'OSError: told to fail'"
                    " WHERE kind = 'transcribe'"
                ).rowcount
            )
        )
    (dead,) = await home.app.jobs.list_jobs(space=None, state="dead")
    return dead


def a_message(**fields: Any) -> Json:
    return {"session_id": "t1", "messages": [message("fine"), {**message("fine"), **fields}]}


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


BAD_ADDS: dict[str, tuple[Json, str]] = {
    "an unknown field": ({**a_message(), "colour": "red"}, "colour"),
    "an unknown field of a message": (a_message(colour="red"), "messages[1].colour"),
    "empty content": (a_message(content=""), "messages[1].content"),
    "blank content": (a_message(content=" \n"), "messages[1].content"),
    "content that is null": (a_message(content=None), "messages[1].content"),
    "NUL in the content": (a_message(content="a\0b"), "messages[1].content"),
    "NUL in the session": ({**a_message(), "session_id": "a\0b"}, "session_id"),
    "NUL in a tool call": (a_message(tool_calls=[{"a": ["\0"]}]), "messages[1].tool_calls"),
    "a lone surrogate in the content": (a_message(content="a\ud800b"), "messages[1].content"),
    "a lone surrogate in the session": ({**a_message(), "session_id": "\udfff"}, "session_id"),
    "a lone surrogate in a tool call's key": (a_message(tool_calls=[{"\ud800": 1}]), "messages[1].tool_calls"),
    "a lone surrogate in a tag": ({**a_message(), "tags": ["\ud800"]}, "tags[0]"),
    "a negative time": (a_message(timestamp=-1), "messages[1].timestamp"),
    "a time after the year 9999": (a_message(timestamp=MAX_TIMESTAMP + 1), "messages[1].timestamp"),
    "a time with a fraction": (a_message(timestamp=1.5), "messages[1].timestamp"),
    "a time as text": (a_message(timestamp="2026-05-08T14:03:00Z"), "messages[1].timestamp"),
    "a time as digits in text": (a_message(timestamp="1770000000000"), "messages[1].timestamp"),
    "a time that is true": (a_message(timestamp=True), "messages[1].timestamp"),
    "no time": ({"session_id": "t1", "messages": [{"sender_id": "ann", "role": "user", "content": "x"}]}, "messages[0].timestamp"),
    "an unknown role": (a_message(role="robot"), "messages[1].role"),
    "an empty sender": (a_message(sender_id=""), "messages[1].sender_id"),
    "an empty session": ({**a_message(), "session_id": ""}, "session_id"),
    "a session of 600 characters": ({**a_message(), "session_id": "x" * 600}, "session_id"),
    "a session that is a number": ({**a_message(), "session_id": 7}, "session_id"),
    "content that is a list": (a_message(content=["x"]), "messages[1].content"),
    "messages that are an object": ({"session_id": "t1", "messages": {}}, "messages"),
    "no messages": ({"session_id": "t1", "messages": []}, "messages"),
    "501 messages": ({"session_id": "t1", "messages": [message("x")] * 501}, "messages"),
    "tool calls 80 levels deep": (a_message(tool_calls=[{"a": nested(80)}]), "messages[1].tool_calls"),
    "a tool call with a number beyond 64 bits": (a_message(tool_calls=[{"n": 10**30}]), "messages[1].tool_calls"),
}  # fmt: skip


class TestBadInput:
    @pytest.mark.parametrize("name", BAD_ADDS)
    async def test_a_bad_add_is_refused_by_field_and_stores_nothing(self, home: Home, name: str) -> None:
        body, field = BAD_ADDS[name]
        before = await home.coverage()
        answer = await home.client.post("/api/v1/memory/add", content=json.dumps(body), headers=AS_JSON)
        assert 400 <= answer.status_code < 500
        assert error_of(answer)["field"] == field
        assert await home.coverage() == before
        assert (await home.client.get("/api/v1/threads")).json() == {"threads": []}

    @pytest.mark.parametrize("name", ["{", "", "not json", "[1, 2", '"text"', "[]", "null", "\xff\xfe"])
    async def test_a_body_that_is_no_json_object_is_refused_as_a_whole(self, home: Home, name: str) -> None:
        answer = await home.client.post("/api/v1/memory/add", content=name.encode("latin-1"), headers=AS_JSON)
        assert 400 <= answer.status_code < 500
        assert error_of(answer)["field"] == "body"

    async def test_a_body_nested_beyond_reason_is_refused(self, home: Home) -> None:
        answer = await home.client.post(
            "/api/v1/memory/add", content="[" * 200_000 + "]" * 200_000, headers=AS_JSON
        )
        assert 400 <= answer.status_code < 500
        assert error_of(answer)["field"] == "body"

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
    async def test_a_number_that_is_none_is_refused(self, home: Home, number: str) -> None:
        body = json.dumps(a_message(tool_calls=[{"n": "NUMBER"}])).replace('"NUMBER"', number)
        answer = await home.client.post("/api/v1/memory/add", content=body, headers=AS_JSON)
        assert (answer.status_code, error_of(answer)["field"]) == (422, "messages[1].tool_calls")

    @pytest.mark.parametrize("number", ["NaN", "-1", "601", '"soon"'])
    async def test_a_time_out_that_makes_no_sense_is_refused(self, home: Home, number: str) -> None:
        await home.add("t1", "one")
        body = f'{{"session_id": "t1", "timeout": {number}}}'
        answer = await home.client.post("/api/v1/memory/flush", content=body, headers=AS_JSON)
        assert (answer.status_code, error_of(answer)["field"]) == (422, "timeout")

    async def test_500_messages_are_taken(self, home: Home) -> None:
        assert len(await home.add("t1", *["x"] * 500)) == 500

    async def test_the_last_millisecond_of_9999_is_taken(self, home: Home) -> None:
        body = {"session_id": "t1", "messages": [message("x", timestamp=MAX_TIMESTAMP)]}
        assert (await home.client.post("/api/v1/memory/add", json=body)).status_code == 202

    async def test_an_emoji_sent_as_a_surrogate_pair_is_one_character(self, home: Home) -> None:
        body = json.dumps({"session_id": "t1", "messages": [message("🪐")]}, ensure_ascii=True)
        await home.client.post("/api/v1/memory/add", content=body, headers=AS_JSON)
        (turn,) = (await home.client.get("/api/v1/threads/t1/turns")).json()["turns"]
        assert turn["content"] == "🪐"

    @pytest.mark.parametrize(
        ("path", "field"),
        [
            ("/api/v1/threads?limit=0", "limit"),
            ("/api/v1/threads?limit=1001", "limit"),
            ("/api/v1/threads?user_id=a%00b", "user_id"),
            ("/api/v1/jobs?state=lost", "state"),
            ("/api/v1/jobs?after=-1", "after"),
            ("/api/v1/threads/t1/turns?max_turns=-1", "max_turns"),
            ("/api/v1/threads/a%00b", "path"),
            (f"/api/v1/threads/{'x' * 600}", "thread_id"),
        ],
    )
    async def test_a_bad_query_or_path_is_refused_by_name(self, home: Home, path: str, field: str) -> None:
        answer = await home.client.get(path)
        assert (answer.status_code, error_of(answer)["field"]) == (422, field)

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"role": "user", "content": ""}, "content"),
            ({"role": "user"}, "content"),
            ({"role": "user", "content": "x", "status": "streaming"}, "status"),
            ({"role": "user", "content": "x", "parts": [{"a": "\0"}]}, "parts"),
            ({"role": "user", "content": "x", "reasoning": "\ud800"}, "reasoning"),
            ({"role": "user", "content": "x", "timestamp": 0.5}, "timestamp"),
            ({"role": "user", "content": "x", "turn_id": "t-1"}, "turn_id"),
        ],
    )
    async def test_a_bad_turn_is_refused_by_field_and_stores_nothing(
        self, home: Home, body: Json, field: str
    ) -> None:
        answer = await home.client.post("/api/v1/threads/t1/turns", content=json.dumps(body), headers=AS_JSON)
        assert (answer.status_code, error_of(answer)["field"]) == (422, field)
        assert (await home.coverage())["messages"] == 0

    @pytest.mark.parametrize("body", [{"title": "\0"}, {"tags": ["\ud800"]}, {"owner": "bob"}])
    async def test_a_bad_change_leaves_the_thread_as_it_was(self, home: Home, body: Json) -> None:
        made = (await home.client.post("/api/v1/threads", json={"thread_id": "t1"})).json()
        answer = await home.client.patch("/api/v1/threads/t1", content=json.dumps(body), headers=AS_JSON)
        assert (answer.status_code, error_of(answer)["field"].partition("[")[0]) == (422, next(iter(body)))
        assert (await home.client.get("/api/v1/threads/t1")).json() == made


AS_JSON = {"Content-Type": "application/json"}


class TestBodyLimit:
    @pytest.fixture
    async def small(self, tmp_path: Path) -> AsyncIterator[Home]:
        async with opened(tmp_path / "home", limits={"body_bytes": 2048}) as home:
            yield home

    @pytest.mark.parametrize("path", ["memory/add", "memory/flush", "threads", "threads/t1/turns"])
    async def test_a_chunked_body_that_turns_out_too_large_is_refused_and_not_stored(
        self, small: Home, path: str
    ) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            yield json.dumps({"session_id": "t1", "messages": [message("x")]}).encode()
            for _ in range(4):
                yield b" " * 1024

        answer = await small.client.post(f"/api/v1/{path}", content=chunks(), headers=AS_JSON)
        assert "content-length" not in answer.request.headers
        assert (answer.status_code, error_of(answer)["field"]) == (413, "body")
        assert (await small.coverage())["messages"] == 0

    async def test_a_body_within_the_limit_is_taken(self, small: Home) -> None:
        assert len(await small.add("t1", "x" * 1500)) == 1


class TestIds:
    @pytest.mark.parametrize("name", ODD_IDS)
    async def test_any_id_works_for_threads_and_users_and_stays_in_the_vault(
        self, home: Home, name: str
    ) -> None:
        odd = ODD_IDS[name]
        await home.add(odd, "one", user_id=odd)
        await home.client.post(thread_path(odd, "turns"), json={"role": "user", "content": "two"})
        thread = (await home.client.get(thread_path(odd), params={"user_id": odd})).raise_for_status().json()
        assert (thread["thread_id"], thread["user_id"], thread["turn_count"]) == (odd, odd, 2)
        listed = (await home.client.get("/api/v1/threads", params={"user_id": odd})).json()["threads"]
        assert [item["thread_id"] for item in listed] == [odd]
        await home.drain()
        (transcript,) = home.app.settings.vault_path.rglob("*.md")
        assert transcript.resolve().is_relative_to(home.app.settings.vault_path.resolve())
        assert not [path for path in home.app.settings.home.parent.iterdir() if path.name != "home"]
        await home.client.patch(thread_path(odd), json={"title": "found"})
        forgotten = await home.client.delete(thread_path(odd))
        assert forgotten.json() == {"thread_id": odd, "forgotten": 2}

    async def test_ids_that_differ_in_case_alone_have_files_of_their_own(self, home: Home) -> None:
        await home.add("Notes", "upper")
        await home.add("notes", "lower")
        await home.drain()
        folders = {path.parent.name.casefold() for path in home.app.settings.vault_path.rglob("*.md")}
        assert len(folders) == 2


class FailingThreads:
    """A thread store whose journal is broken in a way nobody foresaw."""

    async def append(self, append: Append) -> list[Receipt]:
        raise ZeroDivisionError(f"while storing {append.turns[0].content}")


class TestUnexpectedErrors:
    @pytest.fixture
    async def broken(self, home: Home) -> AsyncIterator[httpx2.AsyncClient]:
        home.app.THREADS = FailingThreads()  # type: ignore[assignment]
        async with client_of(home.app) as client:
            yield client

    async def test_a_500_carries_an_id_that_is_in_the_log_and_no_traceback(
        self, home: Home, broken: httpx2.AsyncClient, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with logging_to_stderr(home.app.settings):
            answer = await broken.post("/api/v1/memory/add", json=a_message())
        error = error_of(answer)
        assert f"unexpected error {error['id']}: ZeroDivisionError" in capfd.readouterr().err
        assert (answer.status_code, error["code"]) == (500, "internal")
        assert error["id"] in error["message"]
        assert "ZeroDivisionError" not in answer.text

    async def test_the_traceback_of_a_500_is_not_formatted_on_the_event_loop(
        self, home: Home, broken: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[int] = []
        format_exception = logging.Formatter.formatException

        def noted(formatter: logging.Formatter, ei: Any) -> str:
            seen.append(threading.get_ident())
            return format_exception(formatter, ei)

        monkeypatch.setattr(logging.Formatter, "formatException", noted)
        root = logging.getLogger()
        monkeypatch.setattr(root, "handlers", [])  # pytest's own handlers format at once.
        with logging_to_stderr(home.app.settings):
            await broken.post("/api/v1/memory/add", json=a_message())
        assert seen
        assert threading.get_ident() not in seen


class TestQueries:
    async def test_a_parameter_nobody_knows_is_refused(self, home: Home) -> None:
        answer = await home.client.get("/api/v1/threads", params={"userid": "bob"})
        assert (answer.status_code, error_of(answer)["field"]) == (422, "userid")

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", "threads/t1/turns", {"role": "user", "content": "hi"}),
            ("PATCH", "threads/t1", {"title": "mine"}),
            ("POST", "memory/flush", {"session_id": "t1"}),
            ("POST", "memory/add", {"session_id": "t1", "messages": [message("hi")]}),
        ],
    )
    async def test_the_user_in_the_query_counts_on_every_route(
        self, home: Home, method: str, path: str, body: Json
    ) -> None:
        await home.add("t1", "one", user_id="ann")
        answer = await home.client.request(method, f"/api/v1/{path}", params={"user_id": "bob"}, json=body)
        assert answer.status_code == 404

    async def test_query_and_body_must_name_the_same_user(self, home: Home) -> None:
        body = {"session_id": "t1", "user_id": "ann", "messages": [message("hi")]}
        answer = await home.client.post("/api/v1/memory/add", params={"user_id": "bob"}, json=body)
        assert answer.status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("memory/add", '{"session_id": "t1", "messages": [' + ",".join(["{}"] * 300_000) + "]}"),
        ("threads", "{" + ",".join(f'"f{number}": 1' for number in range(100_000)) + "}"),
    ],
)
async def test_a_body_with_very_many_mistakes_is_refused_at_once(home: Home, path: str, body: str) -> None:
    started = time.process_time()
    answer = await home.client.post(f"/api/v1/{path}", content=body, headers=AS_JSON)
    assert answer.status_code == 422
    assert time.process_time() - started < 2


async def test_tags_of_a_thread_do_not_grow_without_end(home: Home) -> None:
    def tagged(name: str) -> Json:
        tags = [f"{name}-{number}" for number in range(60)]
        return {"session_id": "t1", "tags": tags, "messages": [message(name)]}

    (await home.client.post("/api/v1/memory/add", json=tagged("a"))).raise_for_status()
    answer = await home.client.post("/api/v1/memory/add", json=tagged("b"))
    assert (answer.status_code, error_of(answer)["field"]) == (422, "tags")
    assert (await home.coverage())["messages"] == 1
