"""Long queries, texts and notes, large images, many values and long histories keep the event loop, and so everybody else, for 20 ms at most."""

import asyncio
import base64
import gc
import json
import math
import random
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest
import pytest_asyncio

from recollect.entrypoints.http.server import collect_between_requests, create_api, warm_up
from tests.http_client import Home, Json, longest_pause, message, opened
from tests.remembering import MortalModel

pytestmark = pytest.mark.asyncio(loop_scope="module")
LONGEST = 0.020
AS_JSON = {"Content-Type": "application/json"}
CHAT, SEARCH, NOTES = "/v1/chat/completions", "/api/v1/memory/search", "/api/v1/memory/notes"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def home(tmp_path_factory: pytest.TempPathFactory, running: MortalModel) -> AsyncIterator[Home]:
    """All that is loaded on first use is loaded. Nothing is made of what the tests say."""
    later = {"pause_seconds": 86_400, "boundary_every": 1000}
    folder = tmp_path_factory.mktemp("event-loop") / "home"
    async with opened(folder, llm={"base_url": running.base_url}, memorize=later) as home:
        await home.add("t", *(f"Marta moved to Porto on 5 May 2026, she said {n} 年月" for n in range(400)))
        await home.app.search.indexer.settled()
        for path, body in (
            (SEARCH, {"query": "Porto", "user_id": "me"}),
            (CHAT, {"messages": [said("hi")]}),
            ("/api/v1/threads/warm/messages", {"content": "hi"}),
        ):
            (await home.client.post(path, json=body)).raise_for_status()
        yield home


def said(text: str) -> Json:
    return {"role": "user", "content": text}


async def pause(home: Home, path: str, new_body: Callable[[int], Json], status: int = 200) -> float:
    _, longest = await best_pause(home, path, lambda number: json.dumps(new_body(number)).encode(), status)
    return longest


async def best_pause(
    home: Home, path: str, content: Callable[[int], bytes], status: int
) -> tuple[httpx2.Response, float]:
    """The best of three: another process may have been in the way."""
    shortest, number = math.inf, 0
    while True:
        request = home.client.post(path, content=content(number), headers=AS_JSON)
        answer, longest = await longest_pause(request)
        assert answer.status_code == status, answer.text
        shortest, number = min(shortest, longest), number + 1
        if shortest < LONGEST or number == 3:
            return answer, shortest


@pytest.mark.parametrize(
    "query",
    [
        "".join(random.Random(1).choices([chr(code) for code in range(0x4E00, 0x9FFF)], k=10_000)),
        "5月" * 5_000,
        "May " * 2_500,
        "on 5 May " * 1_100,
        " ".join(f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)),
    ],
    ids=["random characters", "one month", "may", "one day", "many days"],
)
async def test_a_long_query(home: Home, query: str) -> None:
    assert await pause(home, SEARCH, lambda n: {"query": query, "user_id": "me"}) < LONGEST


async def test_a_body_of_very_many_values_is_refused_by_a_limit_that_it_names(home: Home) -> None:
    too_many = {"messages": [said("x")], "tools": [{"a": [[]] * 60_000}]}
    content = json.dumps(too_many).encode().replace(b"[[]", b"[[]" + b",[]" * 7_000_000)
    _, longest = await best_pause(home, CHAT, lambda n: content, 413)
    assert longest < LONGEST
    answer = await home.client.post(CHAT, json=too_many)
    assert answer.json()["error"]["message"] == "body: it holds more than 50000 JSON values"


@pytest.mark.parametrize("door", ["add", "native", "openai"])
async def test_many_values(home: Home, door: str) -> None:
    calls = [{"a": [0] * 100} for _ in range(200)]
    bodies: dict[str, tuple[str, Json, int]] = {
        "add": ("/api/v1/memory/add", {"session_id": "s", "messages": [message("x", tool_calls=calls)]}, 202),
        "native": ("/api/v1/threads/n/messages", {"parts": [{"type": "text", "text": "x", "b": calls}]}, 200),
        "openai": (CHAT, {"messages": [{"role": "assistant", "tool_calls": calls}, said("y")]}, 200),
    }
    path, body, status = bodies[door]
    assert await pause(home, path, lambda n: body, status) < LONGEST


async def test_a_long_history(home: Home) -> None:
    def history(number: int) -> Json:
        messages = [{**said(f"{number} {n}"), "role": ("user", "assistant")[n % 2]} for n in range(4_999)]
        return {"messages": messages}

    assert await pause(home, CHAT, history) < LONGEST


async def test_tool_results_without_calls_are_found_in_linear_time(home: Home) -> None:
    results = [{"role": "tool", "tool_call_id": f"c{n}", "content": "x"} for n in range(4_000)]
    assert await pause(home, CHAT, lambda n: {"messages": [*results, said("y")]}, 400) < LONGEST


async def test_a_longer_history_is_refused_by_a_limit_that_it_names(home: Home) -> None:
    answer = await home.client.post(CHAT, json={"messages": [said("x")] * 5_001})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"
    assert "at most 5000" in answer.json()["error"]["message"]


@pytest.mark.parametrize("text", ["words and words, ", "Wörter, 年月 "], ids=["latin", "other scripts"])
@pytest.mark.parametrize("door", ["openai", "native"])
async def test_a_long_text(home: Home, door: str, text: str) -> None:
    def body(number: int) -> Json:
        long = f"{number} {text * (1_000_000 // len(text))}"[:1_000_000]
        return {"messages": [said(long)]} if door == "openai" else {"content": long}

    path = CHAT if door == "openai" else "/api/v1/threads/long/messages"
    assert await pause(home, path, body) < LONGEST


@pytest.mark.parametrize(
    "text", [b"words and ", b"\\u0041", b'\\"', "年月".encode()], ids=["latin", "u", "quotes", "cjk"]
)
@pytest.mark.parametrize("path", [CHAT, "/api/v1/threads/long/messages"], ids=["openai", "native"])
async def test_a_text_of_thirty_megabytes_is_refused(home: Home, path: str, text: bytes) -> None:
    before, after = (
        (b'{"messages": [{"role": "user", "content": "', b'"}]}')
        if path == CHAT
        else (b'{"content": "', b'"}')
    )
    content = before + text * (30_000_000 // len(text)) + after
    answer, longest = await best_pause(home, path, lambda n: content, 413)
    assert longest < LONGEST
    assert answer.json()["error"]["code"] == "too_large"
    assert "more than 1000000 characters" in answer.json()["error"]["message"]


@pytest.mark.slow
async def test_notes_of_very_many_headings(home: Home) -> None:
    """Until search finds them; their owner's texts are in memory. Less strict: no other run can make up for this."""

    async def import_all() -> httpx2.Response:
        answers = [await home.client.post(NOTES, content=body, headers=AS_JSON) for body in bodies]
        assert {answer.status_code for answer in answers} == {201}
        await home.app.search.indexer.settled()
        return answers[0]

    texts = ["\n".join(f"# h{each} {n}\n\nx{each}" for each in range(45_000)) for n in range(2)]
    bodies = [
        json.dumps({"name": f"n{n}", "text": text, "user_id": "me"}).encode() for n, text in enumerate(texts)
    ]
    _, longest = await longest_pause(import_all())
    assert longest < 3 * LONGEST
    found = await home.client.post(SEARCH, json={"query": "h44999", "user_id": "me", "mode": "keyword"})
    assert "h44999" in found.json()["hits"][0]["text"]


@pytest.mark.parametrize("door", ["openai", "native"])
async def test_a_large_image(home: Home, door: str) -> None:
    def body(number: int) -> Json:
        content = base64.b64encode(random.Random(number).randbytes(8 * 1024 * 1024)).decode()
        parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{content}"}}]
        return {"messages": [{"role": "user", "content": parts}]} if door == "openai" else {"parts": parts}

    path = CHAT if door == "openai" else "/api/v1/threads/image/messages"
    assert await pause(home, path, body) < LONGEST


async def test_the_first_request_of_a_server() -> None:
    api = httpx2.ASGITransport(create_api.__wrapped__())
    async with httpx2.AsyncClient(transport=api, base_url="http://test") as client:
        answer, longest = await longest_pause(client.get("/nowhere"))
    assert answer.status_code == 404
    assert longest < LONGEST


async def test_full_garbage_collections_leave_out_what_was_loaded_at_the_start(home: Home) -> None:
    """Each would hold up every thread for a tenth of a second."""
    try:
        await warm_up(home.app)
        assert gc.get_freeze_count() > 100_000
    finally:
        gc.unfreeze()


async def test_full_garbage_collections_wait_for_a_moment_without_requests() -> None:
    usual, busy, collected = gc.get_threshold(), True, asyncio.Event()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            collected.set()

    collecting = asyncio.create_task(collect_between_requests(lambda: busy))
    await asyncio.sleep(0)
    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(20 * usual[0] * usual[1])]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(collected.wait(), 2.5)
        busy = False
        await asyncio.wait_for(collected.wait(), 30)
    finally:
        gc.callbacks.remove(note)
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)
    assert kept
    assert gc.get_threshold() == usual
