"""The measurement of recall, over a search that answers what the test says."""

import gzip
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from recall_data import read_conversations
from recall_measure import (
    BASELINE,
    RECOLLECT,
    Answer,
    Conversation,
    MeasuredHome,
    Pace,
    Query,
    Question,
    RecallReport,
    measure_recall,
)
from recall_metrics import Hit

from recollect.errors import InvalidInput
from recollect.service.coordination import no_progress


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
    """Stands in for a home: everything is embedded, and `found` is what it answers."""

    def __init__(self, found: Sequence[Hit]) -> None:
        self.found = found
        self.queries: list[Query] = []

    async def add(self, conversation: Conversation) -> None: ...

    async def count_embedded(self, user_id: str) -> tuple[int, int]:
        return 3, 3

    async def ask(self, query: Query) -> Answer:
        self.queries.append(query)
        return Answer(self.found)

    async def rest(self) -> None: ...

    async def measure(self, *conversations: Conversation) -> RecallReport:
        home = MeasuredHome(self.add, self.count_embedded, self.ask, lambda: None)
        pace = Pace(lambda: 0.0, self.rest)
        return await measure_recall(
            conversations, home, top_k=50, stage=lambda title: nullcontext(no_progress), pace=pace
        )


def hits(*ids: str) -> list[Hit]:
    return [Hit("text", (name,)) for name in ids]


async def test_scores_are_means_over_questions_by_category_and_overall() -> None:
    search = Search(hits("m1"))
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
    search = Search(hits("m1"))
    report = await search.measure(conversation("one", question("a?", "m1"), question("who knows?")))
    assert (report.questions, report.left_out, len(search.queries)) == (1, 1, 1)
    assert (report.conversations, report.messages) == (1, 3)


async def test_the_baseline_answers_the_same_questions_from_the_same_messages() -> None:
    report = await Search([]).measure(
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
