"""Many threads at once, each a small conversation about its own subject: none hears of another's."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.http_client import Json, opened
from tests.processes import StandInModel
from tests.stress.utils import (
    PATIENT_SECONDS,
    SUBJECTS,
    Api,
    Figures,
    Size,
    Subject,
    asked_and_answered,
    doubles,
    leaks_of,
    named_in,
    recognised,
)

THREADS = 20
DIMENSIONS = 2048
"""Of the stand-in's vectors, in which a word is a number: in fewer, names that differ would be alike by chance."""


def everybody(subject: Subject) -> str:
    return "ann"


def each_their_own(subject: Subject) -> str:
    return f"a friend of {subject.name}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("user_of", "memory"),
    [(everybody, True), (each_their_own, True), (everybody, False)],
    ids=["one user", "a user each", "one user without memory"],
)
async def test_follow_ups_are_about_their_own_subject_and_no_other_is_seen(
    tmp_path: Path,
    model: StandInModel,
    size: Size,
    figures: Figures,
    user_of: Callable[[Subject], str],
    memory: bool,
) -> None:
    model.control(chunk_delay_seconds=0.005)
    before = len(model.log())
    llm = {"base_url": model.base_url, "model": "stand-in"}
    rounds = size.of(quick=1, long=3)
    embedding = {"kind": "openai", "dimensions": DIMENSIONS, **llm}
    settings: Json = {"embedding": embedding, "chat": {"recall_seconds": PATIENT_SECONDS}}
    async with opened(tmp_path / "home", llm=llm, **settings) as home:
        api = Api(home.client, figures)
        for number in range(rounds):
            conversations = [
                converse(api, f"{subject.name} {number}", subject, user_id=user_of(subject), memory=memory)
                for subject in SUBJECTS[:THREADS]
            ]
            await asyncio.gather(*conversations)
        threads = await api.threads()
        assert sorted(thread["thread_id"] for thread in threads) == sorted(
            f"{subject.name} {number}" for subject in SUBJECTS[:THREADS] for number in range(rounds)
        )
        for subject in SUBJECTS[:THREADS]:
            for number in range(rounds):
                await holds_exactly(api, f"{subject.name} {number}", subject)
        await api.drained()
        figures.leaked += len(leaks_of(model.log()[before:], {each.name: each.name for each in SUBJECTS}))
    figures.nothing_wrong()


async def converse(api: Api, thread: str, subject: Subject, **fields: object) -> None:
    for question in subject.questions:
        answer = await api.answer(thread, question, **fields)
        assert recognised(answer) == [subject.name], f"{question!r} in {thread!r}"


async def holds_exactly(api: Api, thread: str, subject: Subject) -> None:
    """Its turns, all of them and no other, in order; and every prompt speaks of its subject alone."""
    turns = await api.turns(thread)
    wanted = [
        each for question in subject.questions for each in (("user", question), ("assistant", "complete"))
    ]
    assert asked_and_answered(turns) == wanted
    api.figures.duplicated += doubles(turns)
    for turn in turns[1::2]:
        prompt = await api.prompt(thread, turn["turn_id"])
        assert named_in(str(prompt)) == {subject.name}, prompt
