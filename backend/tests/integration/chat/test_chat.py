"""A chat turn over HTTP: its history, its order, its streams, and what is left when something breaks."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.chatting import joined, post, prompt, say, streamed, text_of, with_backend
from tests.http_client import Json, coverage, turns
from tests.processes import Server, StandInModel, wait_until

ORPHAN_SECONDS = "5"
"""Longer than a client takes to come back on a busy machine."""


@pytest.fixture(scope="module")
def server(running: StandInModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("chat") / "home"
    settings = with_backend(running.base_url, CHAT__ORPHAN_SECONDS=ORPHAN_SECONDS)
    with Server(home, settings) as server:
        yield server


@pytest.fixture
def client(server: Server, model: StandInModel) -> httpx2.Client:
    return server.client


@pytest.fixture
def thread(request: pytest.FixtureRequest) -> str:
    return f"thread of {request.node.name}"


def contents(found: list[Json]) -> list[str]:
    return [turn["content"] for turn in found]


def test_a_follow_up_sees_what_was_said_before(client: httpx2.Client, thread: str) -> None:
    first = say(client, thread, "Who is Donald Trump?", memory=True, user_id="carol")
    assert first["assistant_turn"]["content"] == "I see: Donald Trump"
    second = say(client, thread, "who are his children?", memory=True, user_id="carol")
    assert second["assistant_turn"]["content"] == "I see: Donald Trump"
    third = say(client, thread, "summarize that in one sentence", memory=True, user_id="carol")
    assert third["assistant_turn"]["content"] == "I see: Donald Trump"
    assert contents(turns(client, thread)) == [
        "Who is Donald Trump?", "I see: Donald Trump",
        "who are his children?", "I see: Donald Trump",
        "summarize that in one sentence", "I see: Donald Trump",
    ]  # fmt: skip
    assert "Donald Trump" in second["receipt"]["rewriter"]["query"]


def test_a_thread_sees_nothing_of_another(client: httpx2.Client, thread: str) -> None:
    say(client, f"{thread} 1", "Who is Angela Merkel?", user_id="bob", memory=False)
    answer = say(client, f"{thread} 2", "who are his children?", user_id="bob", memory=False)
    assert answer["assistant_turn"]["content"] == "I see: nothing"


def test_the_answer_has_the_shape_that_clients_rely_on(client: httpx2.Client, thread: str) -> None:
    answer = say(client, thread, "Who is Marie Curie?")
    assert set(answer) == {"thread_id", "user_turn", "assistant_turn", "receipt"}
    assert (answer["thread_id"], answer["user_turn"]["turn_id"]) == (thread, "t-1")
    assert (answer["user_turn"]["status"], answer["assistant_turn"]["status"]) == ("complete", "complete")
    assert (answer["assistant_turn"]["turn_id"], answer["assistant_turn"]["role"]) == ("t-2", "assistant")
    assert answer["user_turn"]["sender_id"] == "ann"


def test_events_tell_the_same_as_the_answer(client: httpx2.Client, thread: str) -> None:
    with streamed(client, thread, "Who is Donald Trump?") as stream:
        found = list(stream)
    assert [event["event"] for event in (found[0], found[-1])] == ["meta", "done"]
    assert text_of(found) == "I see: Donald Trump"
    assert found[-1]["data"]["assistant_turn"] == turns(client, thread)[1]
    assert found[0]["data"]["user_turn"]["content"] == "Who is Donald Trump?"


def test_reasoning_is_streamed_and_kept_apart(
    client: httpx2.Client, model: StandInModel, thread: str
) -> None:
    model.control("reasoning")
    with streamed(client, thread, "Who is Donald Trump?") as stream:
        found = list(stream)
    thought = "".join(event["data"]["text"] for event in found if event["event"] == "reasoning")
    answer = turns(client, thread)[1]
    assert thought
    assert (answer["reasoning"], answer["content"]) == (thought, text_of(found))
    say(client, thread, "go on")
    sent = prompt(client, thread, "t-4")["messages"]
    assert thought not in str(sent)


def _until_it_speaks(stream: Iterator[Json]) -> None:
    while next(stream)["event"] != "delta":
        continue


def _alone(server: Server, thread: str, text: str) -> Json:
    with httpx2.Client(base_url=server.address, timeout=60, trust_env=False) as own:
        return say(own, thread, text)


def _turns_or_none(server: Server, thread: str) -> list[Json]:
    found = server.client.get(f"/api/v1/threads/{thread}/turns", params={"max_turns": 100})
    return found.json()["turns"] if found.status_code == 200 else []


def test_a_queued_turn_shows_until_it_is_answered(server: Server, model: StandInModel, thread: str) -> None:
    model.control("stall")
    with streamed(server.client, thread, "Who is Donald Trump?") as stream:
        _until_it_speaks(stream)
        behind = threading.Thread(target=lambda: _alone(server, thread, "who are his children?"))
        behind.start()
        wait_until(lambda: len(_turns_or_none(server, thread)) == 4, "the second is there")
        wait_until(lambda: turns(server.client, thread)[1]["status"] == "streaming", "the first streams")
        assert [turn["status"] for turn in turns(server.client, thread)][2:] == ["queued", "queued"]
        sent = server.client.get(f"/api/v1/threads/{thread}/turns/t-4/prompt")
        assert (sent.status_code, "not written down yet" in sent.text) == (404, True)
        model.control()
        server.client.post(f"/api/v1/threads/{thread}/cancel", json={"user_id": "ann"}).raise_for_status()
    behind.join()
    statuses = [turn["status"] for turn in turns(server.client, thread)]
    assert statuses == ["complete", "partial", "complete", "complete"]


def test_cancelling_all_stops_what_waits_too(server: Server, model: StandInModel, thread: str) -> None:
    model.control("stall")
    with streamed(server.client, thread, "Who is Donald Trump?") as stream:
        _until_it_speaks(stream)
        behind = threading.Thread(target=lambda: post(server.client, thread, "and then?"))
        behind.start()
        wait_until(lambda: len(_turns_or_none(server, thread)) == 4, "the second is there")
        stopped = server.client.post(f"/api/v1/threads/{thread}/cancel", json={"user_id": "ann", "all": True})
        assert stopped.json() == {"cancelled": ["t-2", "t-4"]}
    behind.join()
    assert [turn["status"] for turn in turns(server.client, thread)][1::2] == ["partial", "failed"]
    model.control()
    assert say(server.client, thread, "Who is Marie Curie?")["assistant_turn"]["status"] == "complete"


def test_cancelling_one_answer_leaves_the_one_that_streams(
    server: Server, model: StandInModel, thread: str
) -> None:
    model.control("stall")
    with streamed(server.client, thread, "Who is Donald Trump?") as stream:
        _until_it_speaks(stream)
        behind = threading.Thread(target=lambda: post(server.client, thread, "and then?"))
        behind.start()
        wait_until(lambda: len(_turns_or_none(server, thread)) == 4, "the second is there")

        def cancel(turn_id: str) -> object:
            path = f"/api/v1/threads/{thread}/cancel"
            return server.client.post(path, json={"user_id": "ann", "turn_id": turn_id}, timeout=20).json()

        assert cancel("t-9") == {"cancelled": []}
        model.control()
        assert cancel("t-2") == {"cancelled": ["t-2"]}
    behind.join()
    assert [turn["status"] for turn in turns(server.client, thread)][1::2] == ["partial", "complete"]


def test_two_tabs_see_the_same_stream(server: Server, model: StandInModel, thread: str) -> None:
    model.control(chunk_delay_seconds=0.05, answer="one two three four five six seven eight nine ten eleven")
    with streamed(server.client, thread, "count") as first:
        opening = [next(first) for _ in range(3)]
        with joined(server.client, thread, user_id="ann") as second:
            whole = list(second)
        rest = list(first)
    assert text_of(whole) == text_of(opening + rest) == turns(server.client, thread)[1]["content"]


def test_a_stream_is_resumed_from_an_event_on(server: Server, model: StandInModel, thread: str) -> None:
    model.control(chunk_delay_seconds=0.1, answer="one two three four five six seven eight nine ten eleven")
    with streamed(server.client, thread, "count") as first:
        seen = [next(first) for _ in range(3)]
    with joined(server.client, thread, user_id="ann", after=seen[-1]["id"]) as second:
        rest = list(second)
    answer = turns(server.client, thread)[1]
    assert answer["status"] == "complete"
    assert text_of(seen) + text_of(rest) == answer["content"]
    with joined(server.client, thread, user_id="ann", after=seen[-1]["id"]) as later:
        assert text_of(list(later)) == text_of(rest)


def test_an_answer_nobody_listens_to_is_kept_as_far_as_it_got(
    server: Server, model: StandInModel, thread: str
) -> None:
    model.control("stall", answer="one two three four five six seven eight nine ten eleven")
    with streamed(server.client, thread, "count") as stream:
        for _ in range(3):
            next(stream)
    wait_until(lambda: turns(server.client, thread)[1]["status"] == "partial", "it is given up")
    left = turns(server.client, thread)[1]
    assert left["content"]
    assert "went away" in prompt(server.client, thread, left["turn_id"], user_id="ann")["detail"]["error"]
    model.control()
    assert (
        say(server.client, thread, "Who is Marie Curie?")["assistant_turn"]["content"] == "I see: Marie Curie"
    )


def test_a_request_sent_twice_with_its_key_is_answered_once(client: httpx2.Client, thread: str) -> None:
    first = post(client, thread, "Who is Donald Trump?", key="k1").raise_for_status().json()
    again = post(client, thread, "Who is Donald Trump?", key="k1").raise_for_status().json()
    assert again["assistant_turn"] == first["assistant_turn"]
    assert len(turns(client, thread)) == 2
    other = post(client, thread, "Who is Marie Curie?", key="k1")
    assert (other.status_code, other.json()["error"]["field"]) == (422, "Idempotency-Key")


def test_a_client_that_lost_its_connection_joins_the_turn_it_asked_for(
    server: Server, model: StandInModel, thread: str
) -> None:
    model.control(chunk_delay_seconds=0.1, answer="one two three four five six seven eight nine ten eleven")
    with streamed(server.client, thread, "count") as stream:
        next(stream)
    again = say(server.client, thread, "count")
    assert again["assistant_turn"]["turn_id"] == "t-2"
    assert len(turns(server.client, thread)) == 2


@pytest.mark.parametrize(
    ("mode", "status", "code"),
    [
        ("error", 502, "model_refused"),
        ("rate_limit", 429, "rate_limited"),
        ("early_end", 502, "stream_broken"),
        ("rubbish", 502, "stream_broken"),
    ],
)
def test_a_backend_that_fails_leaves_a_marked_turn_and_the_next_one_works(
    client: httpx2.Client, model: StandInModel, thread: str, mode: str, status: int, code: str
) -> None:
    model.control(mode)
    answer = post(client, thread, "Who is Donald Trump?")
    assert answer.json()["error"]["code"] in (code, "model_unavailable"), answer.text
    assert answer.status_code in (status, 503)
    assert turns(client, thread)[1]["status"] in ("failed", "partial")
    model.control()
    assert "Donald Trump" in say(client, thread, "who are his children?")["assistant_turn"]["content"]


def test_a_message_that_was_never_answered_is_not_said_twice(
    client: httpx2.Client, model: StandInModel, thread: str
) -> None:
    model.control("error")
    for _ in range(3):
        assert post(client, thread, "Who is Donald Trump?").status_code >= 500
    model.control()
    assert say(client, thread, "Who is Donald Trump?")["assistant_turn"]["content"] == "I see: Donald Trump"
    stored = turns(client, thread)
    assert [turn["role"] for turn in stored] == ["user", *["assistant"] * 4]
    assert [turn["status"] for turn in stored] == ["complete", *["failed"] * 3, "complete"]


def test_a_dead_backend_fails_fast_and_in_words(tmp_path: Path) -> None:
    with Server(tmp_path / "home", with_backend("http://127.0.0.1:9")) as server:
        answer = post(server.client, "t", "hello")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "backend_down")
        assert (
            "127.0.0.1:9" in answer.json()["error"]["message"]
            or "default" in answer.json()["error"]["message"]
        )
        assert answer.json()["assistant_turn"]["status"] == "failed"
        assert coverage(server.client)["missing"] == 0


def test_a_server_killed_while_it_streams_leaves_a_marked_turn(tmp_path: Path, model: StandInModel) -> None:
    home, settings = tmp_path / "home", with_backend(model.base_url)
    model.control("stall", answer="one two three four five six seven eight nine ten eleven")
    with Server(home, settings) as server, streamed(server.client, "t", "count") as stream:
        seen = [next(stream) for _ in range(3)]
        wait_until(lambda: turns(server.client, "t")[1]["content"], "what streamed is saved")
        server.kill()
    model.control()
    with Server(home, settings) as server:
        stored = turns(server.client, "t")
        assert (stored[0]["status"], stored[1]["status"]) == ("complete", "partial")
        assert (
            server.client.get("/api/v1/threads/t/turns/t-2/prompt").json()["detail"]["code"]
            == "server_stopped"
        )
        assert stored[1]["content"].startswith(text_of(seen)[:3])
        assert say(server.client, "t", "Who is Marie Curie?")["assistant_turn"]["status"] == "complete"
        counted = coverage(server.client)
        assert (counted["missing"], counted["messages"]) == (0, 4)


@pytest.mark.slow
def test_a_server_told_to_stop_tells_whoever_listens_that_the_answer_ends_here(
    tmp_path: Path, model: StandInModel
) -> None:
    home, settings = tmp_path / "home", with_backend(model.base_url)
    model.control("stall", answer="one two three four five six seven eight nine ten eleven")
    with Server(home, settings) as server, streamed(server.client, "t", "count") as stream:
        _until_it_speaks(stream)
        server.process.terminate()
        last = list(stream)[-1]
        assert (last["event"], last["data"]["assistant_turn"]["status"]) == ("done", "partial")
        assert last["data"]["receipt"]["error"] == "the server was stopped"
        assert last["data"]["receipt"]["code"] == "server_stopped"
        assert server.wait_for_end() == 0
    model.control()
    with Server(home, settings) as server:
        stored = turns(server.client, "t")
        assert (stored[0]["status"], stored[1]["status"]) == ("complete", "partial")


def test_tool_calls_pass_through_and_keep_their_place(
    client: httpx2.Client, model: StandInModel, thread: str
) -> None:
    model.control("tool_call")
    called = say(client, thread, "What is the weather in Paris?")["assistant_turn"]
    assert called["tool_calls"][0]["function"]["name"] == "weather"
    result = {
        "role": "tool",
        "content": "sunny",
        "tool_call_id": called["tool_calls"][0]["id"],
        "user_id": "ann",
    }
    client.post(f"/api/v1/threads/{thread}/turns", json=result).raise_for_status()
    model.control()
    say(client, thread, "and now?")
    sent = prompt(client, thread, "t-5", user_id="ann")["messages"]
    roles = [message["role"] for message in sent]
    place = roles.index("tool")
    assert sent[place - 1]["tool_calls"] == called["tool_calls"]
    assert sent[place]["content"] == "sunny"


def test_content_parts_reach_the_model_unchanged(client: httpx2.Client, thread: str) -> None:
    parts = [{"type": "text", "text": "What is this, in Porto?"}]
    answer = post(client, thread, None, parts=parts).raise_for_status().json()
    assert answer["user_turn"]["parts"] == parts
    assert prompt(client, thread, "t-2", user_id="ann")["messages"][-1]["content"] == parts


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"content": "  "}, "content"),
        ({"content": "a", "parts": [{"type": "text", "text": "b"}]}, "parts"),
        ({"content": "a", "time_zone": "Mars/Olympus"}, "time_zone"),
        ({"content": "a", "preset": "nobody"}, "preset"),
        ({"content": "a", "parent_id": "t-99"}, "parent_id"),
        ({"content": "a", "temperature": 3}, "temperature"),
        ({"content": "a", "colour": "red"}, "colour"),
    ],
)
def test_what_is_not_allowed_is_named_and_nothing_is_stored(
    client: httpx2.Client, thread: str, body: Json, field: str
) -> None:
    answer = client.post(f"/api/v1/threads/{thread}/messages", json={"user_id": "ann", **body})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert client.get(f"/api/v1/threads/{thread}", params={"user_id": "ann"}).status_code == 404


def test_nobody_else_reads_streams_or_cancels_in_a_thread_and_who_chats_there_has_one_of_their_own(
    client: httpx2.Client, thread: str
) -> None:
    say(client, thread, "Who is Donald Trump?")
    path = f"/api/v1/threads/{thread}"
    assert client.get(f"{path}/stream", params={"user_id": "bob"}).status_code == 404
    assert client.post(f"{path}/cancel", json={"user_id": "bob"}).status_code == 404
    assert client.get(f"{path}/turns/t-2/prompt", params={"user_id": "bob"}).status_code == 404
    bobs = say(client, thread, "hello", user_id="bob")
    sent = prompt(client, thread, bobs["assistant_turn"]["turn_id"], user_id="bob")
    assert (bobs["user_turn"]["turn_id"], "Trump" in str(sent)) == ("t-1", False)


@pytest.mark.parametrize("parent", ["t-1", "t-2", "t-999999999999"])
def test_a_turn_that_names_itself_or_a_later_one_as_its_parent_follows_the_one_before(
    client: httpx2.Client, thread: str, parent: str
) -> None:
    turn = {"role": "user", "content": "Who is Donald Trump?", "user_id": "ann", "parent_id": parent}
    client.post(f"/api/v1/threads/{thread}/turns", json=turn).raise_for_status()
    answer = say(client, thread, "Who is Angela Merkel?")
    sent = prompt(client, thread, answer["assistant_turn"]["turn_id"])
    assert answer["assistant_turn"]["content"] == "I see: Donald Trump, Angela Merkel"
    assert str(sent["request"]["messages"]).count("Who is Donald Trump?") == 1


def test_a_branch_leaves_the_other_one_as_it_is(client: httpx2.Client, thread: str) -> None:
    say(client, thread, "Who is Donald Trump?")
    say(client, thread, "Who is Angela Merkel?")
    branch = say(client, thread, "Who is Marie Curie?", parent_id="t-2")
    assert branch["assistant_turn"]["content"] == "I see: Donald Trump, Marie Curie"
    assert "branch" in branch["receipt"]["cause"]
    again = say(client, thread, "and now?")
    assert again["assistant_turn"]["content"] == "I see: Donald Trump, Marie Curie"
    assert len(turns(client, thread)) == 8
