"""Whatever goes wrong below /v1 is told in OpenAI's shape, and an answer that broke off is not passed off as whole."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from recollect.domain.chat import Accepted
from recollect.domain.llm import Delta, Finished
from recollect.domain.model import Status, Thread, Turn
from recollect.entrypoints.http.openai_schemas import CompletionBody, completion, headers_of
from recollect.service.chat.stream import LiveTurn
from tests.chatting import joined
from tests.fakes import START
from tests.http_client import turns
from tests.openai_clients import engine, openai_client, running, server, user_says
from tests.processes import Server, wait_until
from tests.standins.standin_engines import StandInEngine

__all__ = ["engine", "running", "server"]
MIB = 1024 * 1024
AS_JSON = {"Content-Type": "application/json"}


# --- the shape --------------------------------------------------------------------------------------------------


def small_chat(**headers: str) -> dict[str, Any]:
    return {"json": {"messages": [user_says("hi")]}, "headers": headers}


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "code"),
    [
        ("POST", "/v1/chat/completions", small_chat(host="evil.example"), 403, "refused"),
        ("POST", "/v1/chat/completions", small_chat(origin="https://evil.example"), 403, "refused"),
        ("POST", "/v1/moderations", {"json": {}}, 404, "not_found"),
        ("GET", "/v1", {}, 404, "not_found"),
        ("GET", "/v1/chat/completions", {}, 405, "method_not_allowed"),
        ("POST", "/v1/chat/completions", {"content": b"x" * 33 * MIB}, 413, "too_large"),
        ("POST", "/v1/models", {"content": b"x" * 5 * MIB}, 413, "too_large"),
        ("POST", "/v1/chat/completions", {"content": b"{", "headers": AS_JSON}, 400, "invalid"),
        ("POST", "/v1/chat/completions", {"content": b"{}"}, 415, "unsupported_media_type"),
        ("GET", "/v1/models/nobody-9000", {}, 404, "model_not_found"),
    ],
)
def test_errors_have_openais_shape(
    server: Server, method: str, path: str, sent: dict[str, Any], status: int, code: str
) -> None:
    answer = server.client.request(method, path, **sent)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", code)


def test_the_native_doors_errors_keep_their_own_shape(server: Server) -> None:
    assert set(server.client.get("/api/v1/nothing").json()["error"]) == {"code", "message"}
    assert set(server.client.get("/v1x").json()["error"]) == {"code", "message"}


# --- large bodies -----------------------------------------------------------------------------------------------


def photo(size: int) -> dict[str, Any]:
    url = "data:image/jpeg;base64," + base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(size)).decode()
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize("native", [True, False])
def test_a_photo_of_several_megabytes_is_taken_at_either_door(
    server: Server, engine: StandInEngine, native: bool
) -> None:
    parts = [{"type": "text", "text": "what is this?"}, photo(3_200_000)]
    if native:
        body: dict[str, Any] = {"user_id": "ann", "parts": parts, "memory": False}
        answer = server.client.post("/api/v1/threads/photos/messages", json=body)
    else:
        messages = [{"role": "user", "content": parts}]
        answer = server.client.post("/v1/chat/completions", json={"messages": messages})
    assert answer.status_code == 200, answer.text[:300]


# --- answers that broke off -------------------------------------------------------------------------------------


def cancel(server: Server, thread: str) -> None:
    server.client.post(f"/api/v1/threads/{thread}/cancel", json={}).raise_for_status()


def test_a_cancelled_stream_ends_with_an_error_and_without_its_end(
    server: Server, engine: StandInEngine
) -> None:
    engine.control("stall")
    body = {"messages": [user_says("a long story of the sea")], "stream": True}
    headers = {"X-Recollect-Thread": "stopped"}
    lines: list[str] = []
    with server.client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
        for line in response.iter_lines():
            if '"content":"You' in line:
                cancel(server, "stopped")
            lines += [line.removeprefix("data: ")] if line else []
    assert "[DONE]" not in lines
    events = [json.loads(line) for line in lines if line.startswith("{")]
    assert "it was cancelled" in events[-1]["error"]["message"]
    assert not any(choice["finish_reason"] for event in events[:-1] for choice in event["choices"])


def test_a_cancelled_answer_is_an_error_that_is_not_tried_again(
    server: Server, engine: StandInEngine
) -> None:
    engine.control("stall")
    asked = len(engine.chats())

    def ask_for_a_story() -> openai.APIStatusError:
        messages: list[Any] = [user_says("a long story of ships")]
        headers = {"X-Recollect-Thread": "ships"}
        with (
            openai_client(server.address, retries=2) as client,
            pytest.raises(openai.APIStatusError) as raised,
        ):
            client.chat.completions.create(model="recollect", messages=messages, extra_headers=headers)
        return raised.value

    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(ask_for_a_story)
        wait_until(lambda: len(engine.chats()) > asked, "the chat to reach the engine")
        with joined(server.client, "ships") as events:
            next(event for event in events if event["event"] == "delta")
        cancel(server, "ships")
        error = asking.result()
    assert "it was cancelled" in error.message
    assert len(engine.chats()) == asked + 1
    assert turns(server.client, "ships")[-1]["status"] == "partial"


def live_turn(status: Status, receipt: dict[str, Any]) -> LiveTurn:
    answer = Turn("t-2", "m-2", "assistant", "assistant", "half", START, status=status)
    live = LiveTurn(Accepted(Thread("default", "t1", "ann", START, START), (), (answer,)))
    live.add(Delta("half"))
    live.finished = Finished({0: "stop"})
    live.end(answer, receipt)
    return live


# --- the label of the small model ---------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["SmolLM2 135M, a taste", None])
def test_an_answer_of_the_small_model_says_that_it_is_a_taste_and_no_other_does(label: str | None) -> None:
    live = live_turn("complete", {"label": label} if label else {"backend": "default"})
    body = CompletionBody.model_validate({"messages": [user_says("hi")]})
    assert completion(live, body).get("system_fingerprint") == label
    assert headers_of(live).get("X-Recollect-Label") == label
