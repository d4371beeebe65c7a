"""What the HTTP door refuses, which ids it takes, and what it says of errors. In this process, without a socket."""

import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.domain.model import MAX_TIMESTAMP, Append, Receipt
from recollect.entrypoints.logs import logging_to_stderr
from tests.http_client import Home, Json, add_one, client_of, error_of, message, opened, thread_path

AS_JSON = {"Content-Type": "application/json"}
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

    @pytest.mark.parametrize(
        "body",
        ["{", "", "not json", "[1, 2", '"text"', "[]", "null", "\xff\xfe", "[" * 200_000 + "]" * 200_000],
        ids=lambda body: body[:8],
    )
    async def test_a_body_that_is_no_json_object_is_refused_as_a_whole(self, home: Home, body: str) -> None:
        answer = await home.client.post("/api/v1/memory/add", content=body.encode("latin-1"), headers=AS_JSON)
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
        assert (await add_one(home.client, "t1", "x", timestamp=MAX_TIMESTAMP)).status_code == 202

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
        assert (await home.client.get("/api/v1/threads/t1")).json() == {**made, "waiting": None}


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
    @pytest.mark.parametrize(
        ("method", "path", "body", "status"),
        [
            ("POST", "threads/t1/turns", {"role": "user", "content": "hi"}, 201),
            ("PATCH", "threads/t1", {"title": "mine"}, 404),
            ("POST", "memory/flush", {"session_id": "t1"}, 404),
            ("POST", "memory/add", {"session_id": "t1", "messages": [message("hi")]}, 202),
        ],
    )
    async def test_the_user_in_the_query_counts_on_every_route(
        self, home: Home, method: str, path: str, body: Json, status: int
    ) -> None:
        await home.add("t1", "one", user_id="ann")
        answer = await home.client.request(method, f"/api/v1/{path}", params={"user_id": "bob"}, json=body)
        assert answer.status_code == status
        anns = (await home.client.get("/api/v1/threads/t1/turns", params={"user_id": "ann"})).json()
        assert [turn["content"] for turn in anns["turns"]] == ["one"]

    async def test_query_and_body_must_name_the_same_user(self, home: Home) -> None:
        body = {"session_id": "t1", "user_id": "ann", "messages": [message("hi")]}
        answer = await home.client.post("/api/v1/memory/add", params={"user_id": "bob"}, json=body)
        assert answer.status_code == 403


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
    assert answer.status_code in (413, 422)
    assert time.process_time() - started < 2


async def test_tags_of_a_thread_do_not_grow_without_end(home: Home) -> None:
    def tagged(name: str) -> Json:
        tags = [f"{name}-{number}" for number in range(60)]
        return {"session_id": "t1", "tags": tags, "messages": [message(name)]}

    (await home.client.post("/api/v1/memory/add", json=tagged("a"))).raise_for_status()
    answer = await home.client.post("/api/v1/memory/add", json=tagged("b"))
    assert (answer.status_code, error_of(answer)["field"]) == (422, "tags")
    assert (await home.coverage())["messages"] == 1


INSIDE = [
    "http://example.org/cat.png",
    "file:///etc/passwd",
    "FILE:/etc/passwd",
    " https://example.org/cat.png",
    "//example.org/cat.png",
    "cat.png",
    "",
    "https://localhost/",
    "https://LOCALHOST./",
    "https://api.localhost/",
    "https://printer.local/",
    "https://host.docker.internal/",
    "https://redis:6379/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0177.0.0.1/",
    "https://4294967297/",
    "https://0/",
    "https://10.0.0.7/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://224.0.0.1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[fe80::1%25eth0]/",
    "https://[fd00::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://127\u30020\u30020\u30021/",
    "https://127.0.0.1\u3002/",
    "https://169.254.169.254\uff0e/latest/meta-data",
    "https://2130706433\uff61/",
    "https://nas.local\u3002/",
    "https://printer\u3002:8443/",
    "https://127.0.0%2e1/",
    "https://example.org@127.0.0.1/",
    "https://127.0.0.1\\@example.org/",
    "https://[::1/",
]
OUTSIDE = ["https://93.184.215.14/cat.png", "HTTPS://[2606:2800:21f:cb07::1]:8443/x", "data:image/svg+xml,x"]


LONG = "x" * 1_000_001
HALVES = [{"type": "text", "text": LONG[:500_001]}, {"type": "refusal", "refusal": LONG[:500_000]}]
CALLS = [{"function": {"name": "f", "arguments": LONG}}]
ADD, SAY, APPEND, CHAT = (
    f"/{path}" for path in ("api/v1/memory/add", "api/v1/threads/t1/messages", "api/v1/threads/t1/turns", "v1/chat/completions")
)  # fmt: skip


class TestLongTexts:
    """One message's text has a limit of its own: chat bodies may be large only for their images."""

    @pytest.mark.parametrize(
        ("path", "body", "field"),
        [
            (ADD, {"session_id": "t1", "messages": [message("x"), message(LONG)]}, "messages[1].content"),
            (ADD, {"session_id": "t1", "messages": [message("x", tool_calls=CALLS)]}, "messages[0].tool_calls"),
            (SAY, {"content": LONG}, "content"),
            (SAY, {"parts": HALVES}, "parts"),
            (APPEND, {"role": "tool", "content": LONG}, "content"),
            (APPEND, {"role": "assistant", "content": "x", "reasoning": LONG}, "reasoning"),
            (APPEND, {"role": "assistant", "tool_calls": CALLS}, "tool_calls"),
            (CHAT, {"messages": [{"role": "user", "content": LONG}]}, "messages[0].content"),
            (CHAT, {"messages": [{"role": "user", "content": HALVES}]}, "messages[0].content"),
            (CHAT, {"messages": [{"role": "assistant", "tool_calls": CALLS}]}, "messages[0].tool_calls"),
            (CHAT, {"messages": [{"role": "user", "content": "x"}], "tools": [{"a": LONG}]}, "tools"),
        ],
    )  # fmt: skip
    async def test_more_text_than_a_message_may_have_is_refused_by_field_and_limit(
        self, home: Home, path: str, body: Json, field: str
    ) -> None:
        answer = await home.client.post(path, json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (413, "too_large")
        assert error["param" if path == CHAT else "field"] == field
        assert error["message"] == f"{field}: must not have more than 1000000 characters"
        assert (await home.coverage())["messages"] == 0

    @pytest.mark.parametrize("text", ["x", '"', "\\", "年", "🙂"])
    async def test_as_much_as_it_may_have_is_taken_however_it_is_written(self, home: Home, text: str) -> None:
        body = {"role": "user", "content": text * 1_000_000}
        for content in (json.dumps(body), json.dumps(body, ensure_ascii=False)):
            answer = await home.client.post(
                APPEND, content=content, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == (201 if len(content) < 4 * 1024 * 1024 else 413)
            if answer.status_code == 413:
                assert "RECOLLECT_LIMITS__BODY_BYTES" in answer.text

    async def test_images_and_other_data_are_no_text(self, home: Home) -> None:
        parts = [
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'AAAA' * 400_000}"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA" * 400_000, "format": "wav"}},
        ]
        answer = await home.client.post(APPEND, json={"role": "user", "parts": parts})
        assert answer.status_code == 201


class TestLinks:
    """A backend fetches what a part links to: from its place, which may be inside a network."""

    @pytest.mark.parametrize("url", INSIDE)
    async def test_a_link_into_the_network_is_refused_by_field_and_stores_nothing(
        self, home: Home, url: str
    ) -> None:
        for name, linked in (("image_url", {"url": url}), ("image_url", url), ("video_url", {"url": url})):
            body = {"role": "user", "parts": [{"type": name, name: linked}]}
            answer = await home.client.post("/api/v1/threads/t1/turns", json=body)
            assert (answer.status_code, error_of(answer)["field"]) == (422, f"parts[0].{name}")
        assert (await home.coverage())["messages"] == 0

    @pytest.mark.parametrize(
        ("part", "place"),
        [
            ({"type": "image", "image": "http://127.0.0.1/"}, "image"),
            ({"type": "image", "image": " \thttp://127.0.0.1/"}, "image"),
            ({"type": "image", "image": "\u00a0http://127.0.0.1/"}, "image"),
            ({"type": "image", "image": "\ufeff\u2003file:///etc/passwd"}, "image"),
            ({"type": "image", "source": {"type": "url", "url": "//127.0.0.1/"}}, "source.url"),
            ({"type": "image", "image": "ht\ntp:\n//127.0.0.1/"}, "image"),
            ({"type": "image", "image": " " * 10_000 + "http://127.0.0.1/"}, "image"),
            ({"type": "file", "file": {"file_data": "http://127.0.0.1/"}}, "file.file_data"),
            ({"type": "image", "source": [{"uri": "FILE:///etc/passwd"}]}, "source[0].uri"),
            ({"type": "text", "text": {"image": "gopher:x"}}, "text.image"),
            ({"type": "image_url", "image_url": {"url": "data:,", "other": "ftp://x"}}, "image_url.other"),
        ],
    )
    async def test_a_link_in_any_field_of_a_part_is_refused_at_both_doors(
        self, home: Home, part: Json, place: str
    ) -> None:
        said = {"type": "text", "text": "look"}
        body = {"role": "user", "parts": [said, part]}
        native = await home.client.post("/api/v1/threads/t1/turns", json=body)
        assert (native.status_code, error_of(native)["field"]) == (422, f"parts[1].{place}")
        messages = {"messages": [{"role": "user", "content": [said, part]}]}
        openai = await home.client.post("/v1/chat/completions", json=messages)
        assert (openai.status_code, openai.json()["error"]["param"]) == (400, f"parts[1].{place}")

    async def test_words_and_data_are_no_links(self, home: Home) -> None:
        parts = [
            {"type": "text", "text": "http://127.0.0.1/ is this machine"},
            {"type": "refusal", "refusal": "mailto:me"},
            {"type": "input_audio", "input_audio": {"data": "UklGRiQ+/A==", "format": "wav"}},
            {"type": "file", "file": {"filename": "a report.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
            {"type": "new", "title": "Note: a colon", "image": "https://93.184.215.14/cat.png"},
        ]  # fmt: skip
        body = {"role": "user", "parts": parts}
        assert (await home.client.post("/api/v1/threads/t1/turns", json=body)).status_code == 201

    @pytest.mark.parametrize("url", OUTSIDE)
    async def test_a_link_out_of_it_is_taken(self, home: Home, url: str) -> None:
        body = {"role": "user", "parts": [{"type": "image_url", "image_url": {"url": url}}]}
        assert (await home.client.post("/api/v1/threads/t1/turns", json=body)).status_code == 201

    @pytest.mark.parametrize(
        ("url", "status"), [("http://127.0.0.1/cat.png", 201), ("file:///etc/passwd", 422)]
    )
    async def test_a_setting_allows_private_addresses_and_no_files(
        self, tmp_path: Path, url: str, status: int
    ) -> None:
        body = {"role": "user", "parts": [{"type": "image_url", "image_url": {"url": url}}]}
        async with opened(tmp_path / "home", chat={"allow_private_images": True}) as home:
            assert (await home.client.post("/api/v1/threads/t1/turns", json=body)).status_code == status
