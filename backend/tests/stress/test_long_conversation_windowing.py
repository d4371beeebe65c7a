"""Conversations of 50, 100 and 1,000 turns: the window moves in halves, and what left it is still remembered."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from tests.http_client import Home, Json, message, opened
from tests.processes import StandInModel
from tests.stress.utils import PATIENT_SECONDS, Api, Figures, Size, doubles

WINDOW = 16
SECRET = "My locker at the swimming pool has the number 4711."
QUESTION = "Which number has my locker at the swimming pool?"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("turns", [50, 100, 1000])
async def test_the_window_moves_in_halves_and_what_left_it_is_recalled(
    tmp_path: Path, model: StandInModel, figures: Figures, size: Size, turns: int
) -> None:
    before = len(model.calls()["bodies"])
    llm = {"base_url": model.base_url, "model": "stand-in"}
    chat = {"max_turns": WINDOW, "recall_seconds": PATIENT_SECONDS}
    settings: Json = {"llm": llm, "embedding": {"kind": "none"}, "chat": chat}
    async with opened(tmp_path / "home", **settings) as home:
        api = Api(home.client, figures)
        said = [SECRET, *(small_talk(number) for number in range(1, turns // 2 - 1)), QUESTION]
        chatted = min(len(said), size.of(quick=30, long=500))
        await add_answered(api, said[:-chatted])
        sent = [await prompt_of(api, words) for words in said[-chatted:-1]]
        await home.app.search.indexer.settled()
        last = await api.say("t", QUESTION, user_id="ann")
        sent.append(await api.prompt("t", last["assistant_turn"]["turn_id"]))
        moves_in_halves(sent, said)
        asked = [body["messages"] for body in model.calls()["bodies"][before:]]
        assert not [prompt for prompt in sent if prompt["messages"] not in asked]
        assert "4711" in words_of(sent[-1]), last["receipt"]
        assert last["receipt"]["recall"]["memories"]
        stored = await api.turns("t")
        assert [turn["content"] for turn in stored[::2]] == said
        assert {turn["status"] for turn in stored} == {"complete"}
        figures.duplicated += doubles(stored)
        await history_is_cut_at_its_old_end(home, turns)
    figures.nothing_wrong()


def small_talk(number: int) -> str:
    return f"Tell me a line about clouds, please, the {number}th of them."


async def add_answered(api: Api, said: list[str]) -> None:
    """A conversation that was held elsewhere."""
    pairs = [
        (message(words, number), message("I see.", number, role="assistant", sender_id="assistant"))
        for number, words in enumerate(said)
    ]
    for start in range(0, len(pairs), 100):
        batch = [each for pair in pairs[start : start + 100] for each in pair]
        await api.add("t", batch, user_id="ann")


async def prompt_of(api: Api, words: str) -> Json:
    answer = await api.say("t", words, user_id="ann")
    assert answer["assistant_turn"]["status"] == "complete"
    return await api.prompt("t", answer["assistant_turn"]["turn_id"])


def words_of(prompt: Json) -> str:
    return "\n".join(str(message["content"]) for message in prompt["messages"])


def said_in(prompt: Json, said: list[str]) -> list[str]:
    """Which of the user's messages a prompt has as messages of their own, in its order."""
    known = set(said)
    return [
        message["content"]
        for message in prompt["messages"]
        if message["role"] == "user" and message["content"] in known
    ]


def moves_in_halves(sent: list[Json], said: list[str]) -> None:
    """Every prompt ends with the newest message, has at most the window, and only grows but where half of it goes."""
    held = [said_in(prompt, said) for prompt in sent]
    for number, words in enumerate(held):
        place = len(said) - len(held) + number + 1
        assert words == said[place - len(words) : place], f"prompt {number}"
        assert 0 < 2 * len(words) - 1 <= WINDOW + 1, (
            f"prompt {number} holds {len(words)} of the user's messages"
        )
    shrinks = 0
    for (before, after), (shorter, longer) in zip(pairwise(held), pairwise(sent), strict=True):
        if len(after) > len(before):
            assert longer["messages"][: len(shorter["messages"])] == shorter["messages"]
            assert longer["first_difference"] is None
        else:
            shrinks += 1
            assert WINDOW // 4 - 2 <= len(after) <= WINDOW // 4 + 2, f"{len(before)} became {len(after)}"
    assert shrinks >= (2 * len(held) - WINDOW) // (WINDOW // 2 + 4)


async def history_is_cut_at_its_old_end(home: Home, turns: int) -> None:
    """`get_history` and the route agree: at most `max_turns`, the newest always among them, oldest first."""
    everything = await home.app.THREADS.get_history(await home.app.THREADS.meant("t"))
    assert len(everything) == turns
    for most in (1, 2, 7, turns - 1, turns, turns + 1, 10 * turns):
        history = await home.app.THREADS.get_history(await home.app.THREADS.meant("t"), most)
        assert [turn.turn_id for turn in history] == [turn.turn_id for turn in everything[-most:]]
        answer = (await home.client.get("/api/v1/threads/t/turns", params={"max_turns": most})).json()
        assert [turn["turn_id"] for turn in answer["turns"]] == [turn.turn_id for turn in history]


@pytest.mark.timeout(300)
async def test_history_is_whole_while_turns_arrive(
    tmp_path: Path, model: StandInModel, figures: Figures, size: Size
) -> None:
    """Readers at any moment see the newest turns without a gap, and never more than they asked for."""
    llm = {"base_url": model.base_url, "model": "stand-in"}
    async with opened(tmp_path / "home", llm=llm, embedding={"kind": "none"}) as home:
        api, done = Api(home.client, figures), asyncio.Event()

        async def read() -> None:
            newest = 0
            while not done.is_set():
                turns = await home.app.THREADS.get_history(await home.app.THREADS.meant("t"), 5)
                numbers = [int(turn.turn_id.removeprefix("t-")) for turn in turns]
                assert len(numbers) <= 5
                assert all(after == before + 1 for before, after in pairwise(numbers))
                assert not numbers or numbers[-1] >= newest
                newest = max([newest, *numbers])
                await asyncio.sleep(0.002)

        readers = [asyncio.create_task(read()) for _ in range(4)]
        for number in range(size.of(quick=25, long=150)):
            await api.say("t", small_talk(number), user_id="ann", memory=False)
        done.set()
        await asyncio.gather(*readers)
