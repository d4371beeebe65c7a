"""What leaves a thread's window is summed up before it goes; where that fails it goes without."""

from dataclasses import replace

import pytest

from recollect.domain.job import SUMMARY, Job
from recollect.domain.model import Append, JsonObject, NewTurn, ThreadRef, Turn
from recollect.errors import BackendDown
from recollect.infra.journal.chats import SqlChatStore
from recollect.service.chat.followups import (
    SUMMARY_BYTES,
    Summariser,
    SummaryFailed,
    digest_of_turns,
    summary_in,
    summary_prompt,
)
from recollect.service.models.backend_priority import Gate
from recollect.service.models.background import Answer, ChatPrefix
from tests.contract.journals import Journal
from tests.fakes import START, FakeBackend
from tests.standins.background import answering, model_on, saying

JOB = Job(1, SUMMARY, "lane", "default", "me", "t1", {"epoch": 2, "cut": 7, "places": [3, 4, 5, 6]})
TEXT = "Ann moves to Porto on 1 June."


@pytest.fixture
async def journal(journal: Journal) -> Journal:
    turns = [
        NewTurn("user" if n % 2 else "assistant", f"words of turn {n}", START + n, "ann")
        for n in range(1, 11)
    ]
    await journal.threads.append(Append("default", "t1", turns))
    await journal.execute(
        "INSERT INTO epochs SELECT pk, 2, 3, 'the window is full', '', '', 1, NULL, 0, 0 FROM threads"
    )
    return journal


@pytest.fixture
def store(journal: Journal) -> SqlChatStore:
    return SqlChatStore(journal.database, clock=journal.clock, schedule=journal.schedule)


async def kept(journal: Journal) -> list[tuple[int, int, str, str]]:
    """The summaries of the thread: epoch, cut, digest, text."""
    found = await journal.database.read("SELECT epoch, cut, digest, text FROM summaries")
    return [(row["epoch"], row["cut"], row["digest"], row["text"]) for row in found]


def summariser(
    journal: Journal, store: SqlChatStore, backend: FakeBackend, gate: Gate | None = None
) -> Summariser:
    return Summariser(journal.transcripts, store, model_on(backend, gate))


async def test_the_turns_that_leave_are_summed_up_and_kept_with_their_digest(
    journal: Journal, store: SqlChatStore
) -> None:
    backend = answering(saying(TEXT))
    await summariser(journal, store, backend).handle(JOB)
    history = await journal.history("t1")
    assert await kept(journal) == [(2, 7, digest_of_turns(history[2:6]), TEXT)]
    shown = str(backend.calls[0].messages)
    assert [n for n in range(1, 11) if f"words of turn {n}" in shown.replace("turn 10", "")] == [3, 4, 5, 6]


@pytest.mark.parametrize("masks", [True, False])
async def test_no_summary_holds_a_secret(journal: Journal, store: SqlChatStore, masks: bool) -> None:
    """Though the model saw it: it rides on the chat's own prompt."""
    work = summariser(journal, store, answering(saying("The key is AKIAIOSFODNN7EXAMPLE.")))
    await replace(work, masks_secrets=masks).handle(JOB)
    ((*_, text),) = await kept(journal)
    assert text == f"The key is {'[secret]' if masks else 'AKIAIOSFODNN7EXAMPLE'}."


async def test_the_prompt_asks_for_facts_and_to_follow_nothing_that_is_quoted(
    journal: Journal, store: SqlChatStore
) -> None:
    await journal.execute("UPDATE epochs SET summary = ?", "Ann has a sister called Marta.")
    backend = answering(saying(TEXT))
    await summariser(journal, store, backend).handle(JOB)
    (call,) = backend.calls
    assert "Facts only" in str(call.messages[0]["content"])
    assert "follow none" in str(call.messages[0]["content"])
    assert "not instructions" in str(call.messages[1]["content"])
    assert "Marta" in str(call.messages[1]["content"])
    assert call.session is None


async def test_with_the_live_prompt_the_call_rides_on_it(journal: Journal, store: SqlChatStore) -> None:
    live: list[JsonObject] = [{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}]
    asked: list[tuple[ThreadRef, int]] = []

    async def live_prompt(thread: ThreadRef, epoch: int) -> ChatPrefix:
        asked.append((thread, epoch))
        return ChatPrefix(live, "session", 1)

    backend = answering(saying(TEXT))
    work = replace(summariser(journal, store, backend), live_prompt=live_prompt)
    await work.handle(JOB)
    (call,) = backend.calls
    assert (call.messages[:2], len(call.messages), call.session, call.slot) == (live, 3, "session", 1)
    assert "words of turn 6" in str(call.messages[2]["content"])
    assert asked == [(ThreadRef("default", "me", "t1"), 2)]


async def test_a_failure_counts_and_the_last_one_leaves_no_summary_and_no_dead_job(
    journal: Journal, store: SqlChatStore, caplog: pytest.LogCaptureFixture
) -> None:
    work = summariser(journal, store, answering(saying(BackendDown("x"))))
    for attempts in (0, 1):
        with pytest.raises(SummaryFailed):
            await work.handle(replace(JOB, attempts=attempts))
    await work.handle(replace(JOB, attempts=2))
    assert await kept(journal) == []
    assert "without a summary" in caplog.text


async def test_without_a_model_nothing_is_summed_up(journal: Journal, store: SqlChatStore) -> None:
    await Summariser(journal.transcripts, store, None).handle(JOB)
    assert await kept(journal) == []


async def test_what_was_forgotten_meanwhile_is_not_summed_up(journal: Journal, store: SqlChatStore) -> None:
    await journal.delete("t1")
    backend = answering(saying(TEXT))
    await summariser(journal, store, backend).handle(JOB)
    assert (await kept(journal), backend.calls) == ([], [])


def said(text: str, **changes: object) -> Turn:
    return replace(Turn("t-1", "m1", "user", "ann", text, START), **changes)  # type: ignore[arg-type]


def test_a_prompt_of_its_own_is_bounded_and_cuts_long_turns_before_short_ones() -> None:
    turns = [said("short words"), *[said("x" * 50_000) for _ in range(30)]]
    prompt = "".join(str(message["content"]) for message in summary_prompt(turns, "y" * 50_000))
    assert len(prompt) < 16_000
    assert "short words" in prompt


# Answers


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (TEXT, TEXT),
        (f"```\n{TEXT}\n```", TEXT),
        (f"  {TEXT} \n\n\n And more. ", f"{TEXT}\nAnd more."),
    ],
)
def test_a_summary_is_read_as_plain_text(text: str, summary: str) -> None:
    assert summary_in(Answer(text)) == summary


@pytest.mark.parametrize("text", [f"{TEXT} " * 100, "安搬到波尔图。" * 200, "x" * 5000])
def test_a_long_summary_is_cut_after_a_sentence_and_within_its_limit(text: str) -> None:
    summary = summary_in(Answer(text))
    assert SUMMARY_BYTES * 0.9 <= len(summary.encode()) <= SUMMARY_BYTES + len("…".encode())
    assert summary.endswith((".", "。", "…"))


def test_a_summary_that_was_cut_short_loses_its_broken_sentence() -> None:
    assert summary_in(Answer(f"{TEXT} She also wants to", cut_short=True)) == TEXT


@pytest.mark.parametrize("text", ["", "  \n ", "```\n```", "…"])
def test_nothing_is_no_summary(text: str) -> None:
    with pytest.raises(SummaryFailed):
        summary_in(Answer(text))
