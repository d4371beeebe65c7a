"""The measurement of recall, over a search that answers what the test says."""

import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from recall_data import read_conversations
from recall_measure import (
    BASELINE,
    CONTEXTS,
    EARLIER_QUESTIONS,
    HOPELESS_AFTER_SECONDS,
    RECOLLECT,
    STALLED_AFTER_SECONDS,
    WITHOUT_MEMORY,
    Answer,
    Block,
    BlockThread,
    Conversation,
    MeasuredHome,
    Pace,
    Query,
    Question,
    RecallReport,
    measure_recall,
)
from recall_metrics import Hit

from recollect.errors import IndexUnavailable, InvalidInput
from recollect.service.coordination import Progress


def message(number: int, content: str) -> dict[str, Any]:
    return {
        "message_id": f"m{number}",
        "sender_id": "Ann",
        "role": "user",
        "timestamp": 1_700_000_000_000 + number,
        "content": content,
    }


def conversation(name: str, *questions: Question) -> Conversation:
    return Conversation(
        name, [message(1, "cats purr"), message(2, "dogs bark"), message(3, "both eat")], questions
    )


def question(text: str, *evidence: str, category: str = "pets") -> Question:
    return Question(text, category, frozenset(evidence))


class Search:
    """Stands in for a home: embeds one message a look, answers with what `found` holds, records all calls."""

    def __init__(self, found: dict[str | None, Sequence[Hit]], degraded: Sequence[str] = ()) -> None:
        self.found = found
        self.degraded = degraded
        self.embeds = True
        self.added: list[str] = []
        self.embedded: dict[str, int] = {}
        self.queries: list[Query] = []
        self.remembered: list[str] = []
        self.memories: int | None = None
        """How many each conversation gives; None: none are to be made."""
        self.bars: dict[str, list[tuple[int, int]]] = {}
        self.now = 0.0
        self.problem: str | None = None

    async def add(self, conversation: Conversation) -> None:
        self.added.append(conversation.conversation_id)

    async def count_embedded(self, user_id: str) -> tuple[int, int]:
        self.embedded[user_id] = min(self.embedded.get(user_id, 0) + self.embeds, 3)
        return self.embedded[user_id], 3

    async def remember(self, conversation: Conversation) -> int:
        assert not self.queries, "remembered after the first question"
        self.remembered.append(conversation.conversation_id)
        return self.memories or 0

    async def ask(self, query: Query) -> Answer:
        assert all(self.embedded[owner] == 3 for owner in self.added), "asked before all was embedded"
        self.queries.append(query)
        self.now += 0.010 if query.variant is None else 0.020
        return Answer(self.found[query.variant], self.degraded)

    def open_thread(self, conversation: Conversation, context_tokens: int) -> BlockThread:
        return _Thread()

    async def rest(self) -> None:
        self.now += 1

    @contextmanager
    def stage(self, title: str) -> Iterator[Progress]:
        seen = self.bars.setdefault(title, [])
        yield lambda done, total: seen.append((done, total))

    async def measure(self, *conversations: Conversation, variants: Sequence[str] = ()) -> RecallReport:
        return await measure_recall(
            conversations,
            MeasuredHome(
                self.add,
                self.count_embedded,
                self.ask,
                lambda: self.problem,
                None if self.memories is None else self.remember,
                self.open_thread,
            ),
            top_k=50,
            stage=self.stage,
            pace=Pace(lambda: self.now, self.rest),
            variants=variants,
        )


class _Thread:
    """Its blocks hold m1 alone, and its epoch m2 besides."""

    async def ask(self, text: str, answer: str) -> Block:
        assert answer
        return Block(new=["m1"], held=["m1", "m2"], evaluated=100, ends_epoch=True)


def hits(*ids: str) -> list[Hit]:
    return [Hit("text", (name,)) for name in ids]


async def test_every_conversation_is_added_and_asked_for_an_owner_of_its_own() -> None:
    search = Search({None: hits("m1")})
    await search.measure(
        conversation("one", question("a?", "m1")),
        conversation("two", question("b?", "m2"), question("c?", "m1")),
    )
    assert search.added == ["one", "two"]
    assert [(query.user_id, query.text) for query in search.queries] == [
        ("one", "a?"),
        ("two", "b?"),
        ("two", "c?"),
    ]
    assert {query.asked_at for query in search.queries} == {1_700_000_000_003}


async def test_scores_are_means_over_questions_by_category_and_overall() -> None:
    search = Search({None: hits("m1")})
    report = await search.measure(
        conversation(
            "one",
            question("a?", "m1", category="x"),
            question("b?", "m2", category="x"),
            question("c?", "m1", "m2", category="w"),
        )
    )
    ours = report.methods[0]
    overall = ours.overall()
    assert overall is not None
    assert (ours.method, overall.at_5) == (RECOLLECT, 0.5)
    assert {name: (count, scores.at_10) for name, (count, scores) in ours.by_category().items()} == {
        "w": (1, 0.5),
        "x": (2, 0.5),
    }
    assert list(ours.by_category()) == ["w", "x"]


async def test_questions_without_evidence_are_left_out_and_counted() -> None:
    search = Search({None: hits("m1")})
    report = await search.measure(conversation("one", question("a?", "m1"), question("who knows?")))
    assert (report.questions, report.left_out, len(search.queries)) == (1, 1, 1)
    assert (report.conversations, report.messages) == (1, 3)


async def test_the_baseline_answers_the_same_questions_from_the_same_messages() -> None:
    report = await Search({None: []}).measure(
        conversation(
            "one",
            question("who barks? dogs bark", "m2"),
            question("elephants", "m1"),
            question("Ann", "m1", "m2", "m3"),
        )
    )
    ours, baseline = report.methods
    assert baseline.method == BASELINE
    assert [scores.at_5 for scores in baseline.scores] == [1, 0, 1]
    assert baseline.categories == ours.categories


async def test_each_variant_answers_every_question_and_gets_a_row() -> None:
    search = Search({None: hits("m1"), "no words": hits("m2")})
    report = await search.measure(
        conversation("one", question("a?", "m1"), question("b?", "m1")), variants=["no words"]
    )
    assert [(query.text, query.variant) for query in search.queries] == [
        ("a?", None), ("a?", "no words"), ("b?", None), ("b?", "no words"),
    ]  # fmt: skip
    assert [result.method for result in report.methods] == [RECOLLECT, "no words", BASELINE]
    assert [result.scores[0].at_5 for result in report.methods[:2]] == [1, 0]
    assert [result.milliseconds(0.95) for result in report.methods[:2]] == pytest.approx([10, 20])


async def test_with_memories_every_question_is_asked_with_them_and_without() -> None:
    search = Search({None: hits("m1"), WITHOUT_MEMORY: hits("m2")})
    search.memories = 2
    report = await search.measure(
        conversation("one", question("a?", "m1")), conversation("two", question("b?", "m1"))
    )
    assert (search.remembered, report.memories) == (["one", "two"], 4)
    assert [result.method for result in report.methods] == [RECOLLECT, WITHOUT_MEMORY, BASELINE]
    assert [result.scores[0].at_5 for result in report.methods[:2]] == [1, 0]


async def test_where_nothing_is_remembered_nothing_is_measured() -> None:
    search = Search({None: hits("m1")})
    search.memories = 0
    with pytest.raises(InvalidInput, match="no memories to measure"):
        await search.measure(conversation("one", question("a?", "m1")))
    assert search.queries == []


async def test_a_degraded_search_is_counted() -> None:
    report = await Search({None: []}, degraded=["meaning"]).measure(conversation("one", question("a?", "m1")))
    assert report.methods[0].degraded == 1
    assert report.methods[-1].degraded == 0


@pytest.mark.parametrize(
    ("problem", "seconds"), [(None, STALLED_AFTER_SECONDS), ("there is no model", HOPELESS_AFTER_SECONDS)]
)
async def test_an_index_that_stands_still_ends_the_measurement(problem: str | None, seconds: float) -> None:
    search = Search({None: []})
    search.embeds, search.problem = False, problem
    with pytest.raises(IndexUnavailable, match=f"0 of 3 messages are embedded.*{problem or 'nobody'}"):
        await search.measure(conversation("one", question("a?", "m1")))
    assert search.now == pytest.approx(seconds, abs=2)


# --- reading the data ---------------------------------------------------------------------------------------


def line(name: str = "one", **changes: Any) -> str:
    value = {
        "id": name,
        "messages": [message(1, "cats purr")],
        "questions": [{"question": "who purrs?", "category": "pets", "evidence": ["m1"]}],
    }
    return json.dumps({**value, **changes})


def test_conversations_are_read_plain_and_compressed(tmp_path: Path) -> None:
    plain, compressed = tmp_path / "data.jsonl", tmp_path / "data.jsonl.gz"
    plain.write_text(f"{line()}\n\n{line('two')}\n")
    compressed.write_bytes(gzip.compress(plain.read_bytes()))
    found = read_conversations(plain)
    assert found == read_conversations(compressed)
    assert [item.conversation_id for item in found] == ["one", "two"]
    assert found[0].messages == [message(1, "cats purr")]
    assert found[0].questions == [Question("who purrs?", "pets", frozenset({"m1"}))]


def test_a_limit_takes_the_first_conversations_and_reads_no_further(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(f"{line()}\nnot read\n")
    assert len(read_conversations(file, 1)) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1 is not valid JSON"),
        ("", "holds no conversation"),
        (f"{line()}\n{line()}", "line 2: its id was there before"),
        (line(messages=[]), "line 1, messages"),
        (line(messages=[{**message(1, "x"), "message_id": None}]), "needs a message_id"),
        (line(messages=[message(1, "x"), message(1, "y")]), "needs a message_id of its own"),
        (line(messages=[{**message(1, "x"), "role": "nobody"}]), "line 1, messages.0.role"),
        (line(questions=[{"question": "a?", "evidence": ["m9"]}]), "'m9' is no message"),
    ],
)
def test_a_line_that_can_not_be_used_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=says):
        read_conversations(file)


async def test_blocks_are_counted_in_threads_of_one_question_and_after_forty_others() -> None:
    search = Search({None: hits("m1")})
    one = question("a?", "m1", "m2")
    report = await search.measure(conversation("one", *[one] * (EARLIER_QUESTIONS + 2)))
    assert [result.context_tokens for result in report.blocks] == list(CONTEXTS)
    for result in report.blocks:
        assert result.first == [0.5] * (EARLIER_QUESTIONS + 2)
        assert result.later == [1.0] * 2
        assert result.evaluated == [100] * (EARLIER_QUESTIONS + 1)
        assert result.epoch_ends == EARLIER_QUESTIONS + 1
