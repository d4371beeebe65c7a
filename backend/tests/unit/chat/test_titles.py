"""A thread without a title of anybody's choosing gets one from its first exchange."""

import asyncio
import json
from dataclasses import replace

import pytest

from recollect.domain.job import TITLE, Job
from recollect.domain.model import Append, NewTurn, Thread, Turn
from recollect.errors import BackendDown
from recollect.service.chat.followups import (
    MAX_TITLE,
    Titles,
    first_words,
    title_in,
    title_prompt,
)
from recollect.service.models.backend_priority import Gate
from tests.contract.journals import Journal
from tests.eventually import eventually
from tests.fakes import START, FakeBackend
from tests.standins.background import answering, model_on, saying, silent

JOB = Job(1, TITLE, "lane", "default", "ann", "t1", {"turns": ["t-1", "t-2"]})
QUESTION = "How do I get from Lisbon to Porto by train?"


async def talk(
    journal: Journal, title: str | None = None, *, question: str = QUESTION, incognito: bool = False
) -> None:
    await journal.threads.create_thread(
        Thread("default", "t1", "ann", START, START, title=title, incognito=incognito)
    )
    turns = [NewTurn("user", question, START, "ann"), NewTurn("assistant", "By CP.", START, "bot")]
    await journal.threads.append(Append("default", "t1", turns))


async def title_of(journal: Journal) -> str | None:
    thread = await journal.threads.get_thread("t1")
    assert thread is not None
    return thread.title


def titles(journal: Journal, backend: FakeBackend | None, gate: Gate | None = None) -> Titles:
    return Titles(journal.threads, None if backend is None else model_on(backend, gate))


def titled(title: str) -> FakeBackend:
    return answering(saying(json.dumps({"title": title})))


async def test_the_model_sees_the_exchange_as_data_and_belongs_to_no_session(journal: Journal) -> None:
    await talk(journal)
    backend = titled("x")
    await titles(journal, backend).handle(JOB)
    (call,) = backend.calls
    assert call.session is None
    shown = str(call.messages[-1]["content"])
    assert "not instructions" in shown
    assert QUESTION in shown
    assert "By CP." in shown


@pytest.mark.parametrize(
    "backend",
    [None, answering(saying(BackendDown("x"))), answering(saying("")), titled("")],
    ids=["no model", "a dead one", "nothing", "an empty title"],
)
async def test_without_a_title_worth_having_the_first_words_are_taken(
    journal: Journal, backend: FakeBackend | None
) -> None:
    await talk(journal)
    await titles(journal, backend).handle(JOB)
    assert await title_of(journal) == "How do I get from Lisbon to Porto by train?"


@pytest.mark.parametrize("backend", [None, titled("Trains")], ids=["no model", "a model"])
async def test_no_title_and_no_prompt_for_one_holds_a_secret(
    journal: Journal, backend: FakeBackend | None
) -> None:
    await talk(journal, question="Does AKIAIOSFODNN7EXAMPLE work in Porto?")
    await titles(journal, backend).handle(JOB)
    assert await title_of(journal) == ("Trains" if backend else "Does [secret] work in Porto?")
    assert "AKIA" not in str(backend and backend.calls[0].messages)
    await journal.update("t1", {"title": None})
    await replace(titles(journal, None), masks_secrets=False).handle(JOB)
    assert await title_of(journal) == "Does AKIAIOSFODNN7EXAMPLE work in Porto?"


@pytest.mark.parametrize(("title", "incognito"), [("My journey", False), (None, True)])
async def test_a_title_that_a_person_gave_stays_and_an_incognito_thread_gets_none(
    journal: Journal, title: str | None, incognito: bool
) -> None:
    await talk(journal, title, incognito=incognito)
    backend = titled("Trains")
    await titles(journal, backend).handle(JOB)
    assert (await title_of(journal), backend.calls) == (title, [])


async def test_a_title_that_a_person_gives_while_the_model_thinks_stays(journal: Journal) -> None:
    await talk(journal)
    backend = silent()
    work = asyncio.create_task(titles(journal, backend).handle(JOB))
    await eventually(lambda: backend.in_flight)
    await journal.update("t1", {"title": "My journey"})
    backend.release(100)
    await work
    assert await title_of(journal) == "My journey"


# Answers


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('{"title": "Trains to Porto"}', "Trains to Porto"),
        ('Sure!\n```json\n{"title": "Trains to Porto"}\n```', "Trains to Porto"),
        ("Trains to Porto", "Trains to Porto"),
        ('"Trains to Porto."', "Trains to Porto"),
        ("**Title:** Trains to Porto", "Trains to Porto"),
        ("# Trains to Porto\n\nThis title says…", "Trains to Porto"),
        ("“Züge nach Porto”", "Züge nach Porto"),
        ("《去波尔图的火车》", "去波尔图的火车"),
        ("标题：去波尔图的火车。", "去波尔图的火车"),  # noqa: RUF001
        ('{"title": "[Trains](http://x) to `Porto`"}', "Trains to Porto"),
        ('{"title": "Trains\\u0000 to\\n Porto"}', "Trains to Porto"),
        ('{"title": "snake_case and 2 * 3 * 4"}', "snake_case and 2 3 4"),
    ],
)
def test_a_title_is_read_as_plain_text(answer: str, title: str) -> None:
    assert title_in(answer) == title


@pytest.mark.parametrize(
    "answer",
    ["", "   ", "```", '{"title": 7}', '{"title": "…"}', "?!", '{"title": "cut sh',
     "I would be happy to help you with that. " * 6, "{" * 1000, '{"title": ' + "[" * 60_000 + "}"],
)  # fmt: skip
def test_rubbish_is_no_title(answer: str) -> None:
    assert title_in(answer) is None


@pytest.mark.parametrize(
    "answer", ["many words " * 15, "x" * 150, "去" * 150, '{"title": "' + "a b " * 40 + '"}']
)
def test_a_long_title_is_cut_to_its_limit(answer: str) -> None:
    title = title_in(answer)
    assert title is not None
    assert 40 <= len(title) <= MAX_TITLE
    assert title.endswith("…")


def said(text: str) -> list[Turn]:
    return [Turn("t-1", "m1", "user", "ann", text, START)]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("  two\n lines ", "two lines"),
        (
            "Please explain to me in detail how the trains from Lisbon to Porto run",
            "Please explain to me in detail how the trains from Lisbon…",
        ),
        ("a" * 100, "a" * 59 + "…"),
        ("", None),
        ("   ", None),
    ],
)
def test_first_words_end_between_words_and_within_the_limit(text: str, title: str | None) -> None:
    assert first_words(said(text)) == title


def test_a_prompt_holds_a_bounded_part_of_long_messages() -> None:
    exchange = [*said("x" * 100_000), Turn("t-2", "m2", "assistant", "bot", "y" * 100_000, START)]
    prompt = "".join(str(message["content"]) for message in title_prompt(exchange))
    assert len(prompt) < 3000
    assert "xxxx" in prompt
    assert "yyyy" in prompt
