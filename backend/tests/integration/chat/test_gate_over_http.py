"""While a chat streams on a local backend no background call runs on it; afterwards they run one by one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tests.chatting import say, streamed, with_backend
from tests.http_client import Json, add, jobs, message, turns
from tests.processes import Server, StandInModel, wait_until

QUICK_BOUNDARIES = {
    "MEMORIZE__BOUNDARY": "model",
    "MEMORIZE__BOUNDARY_EVERY": "2",
    "MEMORIZE__DELAY_MS": "0",
}


@pytest.fixture
def model() -> Iterator[StandInModel]:
    with StandInModel() as model:
        yield model


def log(model: StandInModel) -> list[Json]:
    found: list[Json] = model.calls()["log"]
    return found


def overlaps(calls: list[Json]) -> list[tuple[Json, Json]]:
    spans = sorted(calls, key=lambda call: int(call["started"]))
    return [
        (first, second)
        for first, second in pairwise(spans)
        if first["ended"] is None or first["ended"] > second["started"]
    ]


@pytest.mark.slow
def test_queued_work_waits_for_the_chat_and_then_runs_one_by_one(tmp_path: Path, model: StandInModel) -> None:
    settings = with_backend(model.base_url, **QUICK_BOUNDARIES)
    with Server(tmp_path / "home", settings) as server:
        client = server.client
        model.control(chunk_delay_seconds=0.3, answer="one two three four five six seven eight nine ten")
        with streamed(client, "chat", "count") as stream:
            next(stream)
            model.calls(in_flight=1)
            for number in range(5):
                add(client, f"t{number}", [message(f"text {n}", n) for n in range(4)], user_id="ann")
            wait_until(lambda: len(jobs(client)) >= 5, "boundaries are queued")
            during = [call for call in log(model) if call.get("boundaries")]
            list(stream)
        model.control()
        wait_until(lambda: sum(bool(call.get("boundaries")) for call in log(model)) >= 5, "the work is done")
        wait_until(lambda: all(call["ended"] is not None for call in log(model)), "all have ended")
        assert during == []
        assert overlaps(log(model)) == []
        assert model.calls()["most_in_flight"] == 1


def test_a_chat_sends_a_running_call_back_and_it_runs_again_unpunished(
    tmp_path: Path, model: StandInModel
) -> None:
    settings = with_backend(model.base_url, **QUICK_BOUNDARIES)
    with Server(tmp_path / "home", settings) as server:
        client = server.client
        model.control("silent", times=1)
        add(client, "t", [message(f"text {n}", n) for n in range(4)], user_id="ann")
        model.calls(in_flight=1)
        answer = say(client, "chat", "Who is Donald Trump?")
        assert answer["assistant_turn"]["content"] == "I see: Donald Trump"
        assert answer["receipt"]["time_to_first_token_ms"] < 20_000, "the silent call would last for minutes"
        wait_until(
            lambda: client.get("/api/v1/coverage", params={"session_id": "t"}).json()["celled"] == 4,
            "the boundary was found after all",
        )
        assert [job for job in jobs(client) if job["attempts"] or job["error"]] == []
        assert model.calls()["most_in_flight"] <= 2


def test_a_thread_gets_a_title_from_its_first_exchange(tmp_path: Path, model: StandInModel) -> None:
    with Server(tmp_path / "home", with_backend(model.base_url)) as server:
        say(server.client, "t", "Who is Donald Trump?")
        title = wait_until(lambda: server.client.get("/api/v1/threads/t").json()["title"], "it has a title")
        assert "Trump" in title
        server.client.patch("/api/v1/threads/t", json={"title": "Mine"}).raise_for_status()
        say(server.client, "t", "and his children?")
        assert server.client.get("/api/v1/threads/t").json()["title"] == "Mine"


def test_chats_of_many_threads_stream_beside_each_other(tmp_path: Path, model: StandInModel) -> None:
    with Server(tmp_path / "home", with_backend(model.base_url)) as server:
        model.control(chunk_delay_seconds=0.3)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda n: say(server.client, f"t{n}", "Who is Marie Curie?"), range(6)))
        assert model.calls()["most_in_flight"] >= 2
        assert all(turns(server.client, f"t{n}")[1]["content"] == "I see: Marie Curie" for n in range(6))
