"""`recall.py --models`: embedding models side by side, by their vectors alone and by the whole ranking, with their costs."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recall_home import measured_home
from recall_measure import (
    RECOLLECT,
    Conversation,
    MethodResult,
    Pace,
    Stage,
    measure_recall,
)
from recall_metrics import Scores, mean

from recollect.infra.embedders.onnx_model import TOKENIZER_FILE, model_file
from recollect.infra.model_setup import describe
from recollect.settings import Settings

ALONE = "meaning alone"
"""The variant that ranks by the vectors and nothing else."""
_ROUNDS = 3
_MESSAGES, _QUERIES = 300, 100
"""Of the first conversation, to measure speed with."""
_COST = Path(__file__).parent / "model_cost.py"
_COSTS = {
    "query_ms": "a query, ms",
    "messages_a_second": "messages a second",
    "mib": "memory, MiB",
}

Row = tuple[str, ...]


@dataclass(slots=True)
class ModelResult:
    """What was found with one model, in each file by each way of ranking; and what it costs."""

    folder: Path
    found: dict[Path, dict[str, MethodResult]] = field(default_factory=dict)
    costs: list[Mapping[str, float]] = field(default_factory=list)
    """Of each round."""

    @property
    def name(self) -> str:
        return str(describe(self.folder).get("name") or self.folder.name)

    @property
    def megabytes(self) -> float:
        """Of the model and its tokenizer on disk."""
        files = (model_file(self.folder), self.folder / TOKENIZER_FILE)
        return sum(file.stat().st_size for file in files if file is not None) / 1e6


async def measure_models(
    folders: Sequence[Path],
    sets: Mapping[Path, Sequence[Conversation]],
    settings: Settings,
    *,
    top_k: int,
    stage: Stage,
    pace: Pace,
) -> list[ModelResult]:
    """Each model on every file, in a home of its own."""
    results = [ModelResult(folder) for folder in folders]
    for result in results:
        embedding = settings.embedding.model_copy(update={"kind": "onnx", "folder": result.folder})
        with_model = settings.model_copy(update={"embedding": embedding})
        for file, conversations in sets.items():
            async with measured_home(with_model, top_k, with_memory=False) as home:
                report = await measure_recall(
                    conversations,
                    replace(home, open_thread=None),
                    top_k=top_k,
                    stage=stage,
                    pace=pace,
                    variants=(ALONE,),
                )
            result.found[file] = {method.method: method for method in report.methods}
    return results


def measure_costs(results: Sequence[ModelResult], conversation: Conversation) -> None:
    """What each model costs on texts of a conversation, in turns, so that a busy moment hits all of them."""
    messages = [f"{message['sender_id']}: {message['content']}" for message in conversation.messages]
    queries = [question.text for question in conversation.questions]
    texts = json.dumps({"messages": messages[:_MESSAGES], "queries": queries[:_QUERIES]})
    for _ in range(_ROUNDS):
        for result in results:
            command = [sys.executable, str(_COST), str(result.folder)]
            done = subprocess.run(command, input=texts, capture_output=True, text=True, check=True)
            result.costs.append(json.loads(done.stdout))


def recall_rows(
    file: Path, conversations: Sequence[Conversation], results: Sequence[ModelResult]
) -> list[Row]:
    """A row for each way of ranking, and one for each part of the file: of a table of messages its languages, whose
    figure is how often the right one is among the first five; of conversations the categories.
    """
    if file.suffix == ".tsv":
        return _rows_by_language(file, conversations, results)
    found = [result.found[file] for result in results]
    rows = [
        (shown, *(_two(method[name].overall()) for method in found))
        for name, shown in ((ALONE, "vectors alone"), (RECOLLECT, "whole ranking"))
    ]
    by_category = [method[RECOLLECT].by_category() for method in found]
    rows += [
        (f"  {category}", *(_two(each[category][1]) for each in by_category)) for category in by_category[0]
    ]
    return rows


def _rows_by_language(
    file: Path, conversations: Sequence[Conversation], results: Sequence[ModelResult]
) -> list[Row]:
    languages = [each.conversation_id for each in conversations for asked in each.questions if asked.evidence]
    kinds = dict.fromkeys(next(iter(results[0].found[file].values())).categories)

    def cell(result: ModelResult, kind: str, language: str | None = None) -> str:
        shares = (
            mean(scores).at_5
            for name in (ALONE, RECOLLECT)
            if (scores := _of(result.found[file][name], languages, kind, language))
        )
        return " / ".join(f"{100 * share:.0f}" for share in shares)

    return [
        (
            kind if language is None else f"  {language}",
            *(cell(result, kind, language) for result in results),
        )
        for kind in kinds
        for language in (None, *dict.fromkeys(languages))
    ]


def _of(method: MethodResult, languages: Sequence[str], kind: str, language: str | None) -> list[Scores]:
    asked = zip(languages, method.categories, method.scores, strict=True)
    return [scores for spoken, of, scores in asked if of == kind and language in (None, spoken)]


def cost_rows(results: Sequence[ModelResult]) -> list[Row]:
    """Each cost of each model, the middle one of the rounds."""

    def row(title: str, figure: Callable[[ModelResult], float]) -> Row:
        return (title, *(f"{figure(result):.1f}" for result in results))

    def middle(name: str) -> Callable[[ModelResult], float]:
        return lambda result: statistics.median(cost[name] for cost in result.costs)

    return [
        *(row(title, middle(name)) for name, title in _COSTS.items()),
        row("on disk, MB", lambda result: result.megabytes),
    ]


def _two(scores: Scores | None) -> str:
    return "-" if scores is None else f"{100 * scores.at_10:.1f} / {100 * scores.within_budget:.1f}"
