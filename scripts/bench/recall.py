"""`python scripts/bench/recall.py FILE...`: how much of the evidence for each question a search finds, beside BM25."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from recall_measure import BlockResult, Conversation, MethodResult, Pace, RecallReport
    from recall_metrics import Scores

    from recollect.settings import Settings

_REST_SECONDS = 0.2


def recall(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Conversations with questions, one a line, as JSON (.jsonl or .jsonl.gz).",
            exists=True,
            dir_okay=False,
        ),
    ],
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many conversations of each file.")
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="Hits to ask for with each question.")] = 50,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Ask again with each part of the ranking switched off.")
    ] = False,
    with_memory: Annotated[
        bool,
        typer.Option(
            "--with-memory",
            help="Make memories of the conversations, without a model, and ask with them and without.",
        ),
    ] = False,
    facts: Annotated[
        Path | None,
        typer.Option(
            "--facts",
            help="What a model says of the conversations, as JSON rows for tests/standins/table_answers.py: "
            "memories are made with a stand-in that answers so.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    models: Annotated[
        list[Path] | None,
        typer.Option(
            "--models",
            metavar="FOLDER",
            help="Compare these embedding models instead (once for each): vectors alone, whole ranking, costs.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(
            "--home", help="Whose settings and embedding model are used; nothing else in it is touched."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Measure how much of the evidence for each question a search finds, beside BM25 on the same messages.

    Every file is added to a temporary home of its own, each conversation for an owner of its own.
    """
    from recall_data import read_conversations

    from recollect.entrypoints.cli.render import print_json
    from recollect.settings import load_settings

    settings = load_settings(home=home)
    sets = {file: read_conversations(file, limit) for file in files}
    if models:
        _compare(settings, sets, models, top_k)
        return
    reports = {
        file: asyncio.run(_measure(settings, conversations, top_k, ablation, with_memory, facts))
        for file, conversations in sets.items()
    }
    if json:
        print_json({"top_k": top_k, "files": [_as_json(file, report) for file, report in reports.items()]})
        return
    for file, report in reports.items():
        _print_report(file, report)


def _compare(
    settings: "Settings", sets: "Mapping[Path, Sequence[Conversation]]", models: Sequence[Path], top_k: int
) -> None:
    from recall_models import cost_rows, measure_costs, measure_models, recall_rows

    from recollect.entrypoints.cli.render import print_table, progress_bar, say

    results = asyncio.run(
        measure_models(models, sets, settings, top_k=top_k, stage=progress_bar, pace=_pace())
    )
    measure_costs(results, next(iter(sets.values()))[0])
    names = [result.name for result in results]
    for file, conversations in sets.items():
        figures = "among the first five: vectors / ranking" if file.suffix == ".tsv" else "R@10 / @1k"
        say(f"{file.name}, {figures}, in %")
        print_table(("", *names), recall_rows(file, conversations, results))
        say()
    print_table(("on one thread", *names), cost_rows(results))


def _pace() -> "Pace":
    import time

    from recall_measure import Pace

    return Pace(time.perf_counter, lambda: asyncio.sleep(_REST_SECONDS))


async def _measure(
    settings: "Settings",
    conversations: "Sequence[Conversation]",
    top_k: int,
    ablation: bool,
    with_memory: bool,
    facts: Path | None,
) -> "RecallReport":
    from recall_home import measured_home
    from recall_measure import measure_recall

    from recollect.entrypoints.cli.render import progress_bar

    async with measured_home(settings, top_k, with_memory=with_memory, facts=facts) as home:
        return await measure_recall(
            conversations,
            home,
            top_k=top_k,
            stage=progress_bar,
            pace=_pace(),
            variants=_variant_names() if ablation else (),
        )


def _variant_names() -> Sequence[str]:
    """The rankings that an ablation compares with the shipped one."""
    from recall_home import VARIANTS

    return tuple(VARIANTS)


def _as_json(file: Path, report: "RecallReport") -> dict[str, Any]:
    from dataclasses import asdict

    def method_as_json(result: "MethodResult") -> dict[str, Any]:
        overall = result.overall()
        return {
            "method": result.method,
            "overall": asdict(overall) if overall else None,
            "by_category": {
                name: {"questions": count, **asdict(scores)}
                for name, (count, scores) in result.by_category().items()
            },
            "search_ms": {"p50": result.milliseconds(0.5), "p95": result.milliseconds(0.95)},
            "degraded": result.degraded,
        }

    return {
        "file": str(file),
        "conversations": report.conversations,
        "messages": report.messages,
        "questions": report.questions,
        "left_out": report.left_out,
        "memories": report.memories,
        "methods": [method_as_json(result) for result in report.methods],
        "blocks": [
            {
                "context_tokens": result.context_tokens,
                "first": _mean(result.first),
                "later": _mean(result.later),
                "turns_an_epoch": _turns_an_epoch(result),
                "evaluated_tokens_a_turn": _mean(result.evaluated),
            }
            for result in report.blocks
        ],
    }


def _print_report(file: Path, report: "RecallReport") -> None:
    from recollect.entrypoints.cli.render import print_table, say

    say(
        f"{file.name}: {report.conversations} conversations, {report.messages} messages, {report.questions} questions"
    )
    if report.memories is not None:
        say(
            f"{report.memories} memories; they take up tokens; a fact stands for its messages, an episode for none"
        )
    if report.left_out:
        say(f"{report.left_out} questions without evidence were left out")
    say("evidence found, in %: among the first 5, 10, 20 messages; @1k: in the first 1,000 tokens")
    columns = ("R@5", "R@10", "R@20", "MRR", "@1k")
    print_table(
        ("", *columns, "p50 ms", "p95 ms"),
        [
            (result.method, *_shown(overall), *(f"{result.milliseconds(share):.1f}" for share in (0.5, 0.95)))
            for result in report.methods
            if (overall := result.overall())
        ],
    )
    for result in report.methods:
        if result.degraded:
            say(
                f"DEGRADED: {result.method} answered {result.degraded} questions with less than its whole search"
            )
    say()
    ours = report.methods[0]
    baseline = report.methods[-1 if report.memories is None else 1]
    beside = "BM25" if report.memories is None else "without"
    theirs = baseline.by_category()
    print_table(
        ("category", "n", *columns, f"{beside} @10", "@1k"),
        [
            (name, count, *_shown(scores), _percent(theirs[name][1].at_10), _percent(theirs[name][1].within_budget))
            for name, (count, scores) in ours.by_category().items()
        ],
    )  # fmt: skip
    say()
    _print_blocks(report.blocks)


def _print_blocks(results: "Sequence[BlockResult]") -> None:
    from recall_measure import EARLIER_QUESTIONS

    from recollect.entrypoints.cli.render import print_table, say

    if not results:
        return
    say(
        f"evidence in the context block, in %: of a thread's first question; after {EARLIER_QUESTIONS} others in one"
        " thread, in the block or the epoch"
    )
    print_table(
        ("context", "first", f"after {EARLIER_QUESTIONS}", "turns an epoch", "tokens evaluated a turn"),
        [
            (
                f"{result.context_tokens:,}",
                _percent(_mean(result.first)),
                _percent(_mean(result.later)) if result.later else "-",
                f"{_turns_an_epoch(result):.1f}",
                f"{_mean(result.evaluated):.0f}",
            )
            for result in results
        ],
    )
    say()


def _mean(values: "Sequence[float]") -> float:
    return sum(values) / max(1, len(values))


def _turns_an_epoch(result: "BlockResult") -> float:
    return len(result.evaluated) / max(1, result.epoch_ends)


def _shown(scores: "Scores") -> list[str]:
    return [
        *(_percent(share) for share in (scores.at_5, scores.at_10, scores.at_20)),
        f"{scores.reciprocal_rank:.3f}",
        _percent(scores.within_budget),
    ]


def _percent(share: float) -> str:
    return f"{share * 100:.1f}"


if __name__ == "__main__":
    typer.run(recall)
