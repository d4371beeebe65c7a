"""Embedding models side by side, as the measurement of recall shows them."""

from pathlib import Path

from recall_measure import RECOLLECT, Conversation, MethodResult, Question
from recall_metrics import Scores
from recall_models import ALONE, ModelResult, recall_rows


def scores(share: float) -> Scores:
    return Scores(share, share, share, share, share / 2)


def asked(name: str, *kinds: str) -> Conversation:
    return Conversation(name, [], [Question("what?", kind, frozenset(["m1"])) for kind in kinds])


def result(file: Path, kinds: list[str], alone: list[float], whole: list[float]) -> ModelResult:
    methods = {
        name: MethodResult(name, kinds, [scores(share) for share in shares])
        for name, shares in ((ALONE, alone), (RECOLLECT, whole))
    }
    return ModelResult(Path("model"), {file: methods})


def test_conversations_have_a_row_for_each_way_of_ranking_and_for_each_category() -> None:
    file, kinds = Path("talks.jsonl"), ["pets", "food"]
    first, second = result(file, kinds, [0, 0], [1, 0]), result(file, kinds, [0.5, 0.5], [1, 1])
    assert recall_rows(file, [asked("c1", *kinds)], [first, second]) == [
        ("vectors alone", "0.0 / 0.0", "50.0 / 25.0"),
        ("whole ranking", "50.0 / 25.0", "100.0 / 50.0"),
        ("  food", "0.0 / 0.0", "100.0 / 50.0"),
        ("  pets", "100.0 / 50.0", "100.0 / 50.0"),
    ]


def test_a_table_of_messages_has_rows_by_language_each_with_vectors_and_ranking() -> None:
    file, kinds = Path("words.tsv"), ["same language", "same language"]
    rows = recall_rows(
        file, [asked("de", kinds[0]), asked("tr", kinds[1])], [result(file, kinds, [0, 1], [1, 1])]
    )
    assert rows == [("same language", "50 / 100"), ("  de", "0 / 100"), ("  tr", "100 / 100")]
