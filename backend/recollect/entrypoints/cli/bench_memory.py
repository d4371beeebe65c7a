"""`recollect bench memory`: how much of what should be remembered is, and how much of what is remembered is right."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from recollect.memory.extraction.score import LabelledDialogue
    from recollect.service.bench_memory import Measured
    from recollect.settings import Settings

EPILOG = (
    "Examples: recollect bench memory  |  RECOLLECT_LLM__BASE_URL=http://127.0.0.1:8080/v1 recollect bench memory"
    "  |  recollect bench memory --file mine.jsonl --json"
)


def memory(
    file: Annotated[
        Path | None,
        typer.Option(
            help="Dialogues of your own, in the form of those that ship.", exists=True, dir_okay=False
        ),
    ] = None,
    home: Annotated[
        Path | None, typer.Option("--home", help="Whose settings are used; nothing else in it is touched.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Measure extraction on labelled dialogues: by rules, and by your backend where one is configured."""
    from importlib import resources

    from recollect.entrypoints.cli.rendering import print_json, print_table, say
    from recollect.memory.extraction.score import read_dialogues
    from recollect.settings import load_settings

    shipped = resources.files("recollect").joinpath("data", "extraction-dialogues.jsonl")
    dialogues = read_dialogues(file.read_text("utf-8") if file is not None else shipped.read_text("utf-8"))
    measured = asyncio.run(_measure(load_settings(home=home), dialogues))
    rows = [_row(each, dialogues, language) for each in measured for language in _languages(dialogues)]
    if json:
        print_json(rows)
        return
    columns = (
        "method", "dialogues", "precision", "recall", "right", "told", "wanted", "refused", "unread", "seconds",
    )  # fmt: skip
    print_table(columns, [[row[column] for column in columns] for row in rows])
    if len(measured) == 1:
        say("No backend is configured: set RECOLLECT_LLM__BASE_URL to measure yours beside the rules.")


async def _measure(settings: "Settings", dialogues: "tuple[LabelledDialogue, ...]") -> "list[Measured]":
    from recollect.entrypoints.cli.rendering import progress_bar
    from recollect.service.bench_memory import measure_model, measure_rules
    from recollect.service.prompt_texts import shipped_prompt
    from recollect.wiring.lone_model import background_model

    measured = [measure_rules(dialogues)]
    async with background_model(settings) as model:
        if model is not None:
            name = settings.tasks.model or settings.llm.model or "your backend"
            with progress_bar("asking your backend") as progress:
                measured.append(
                    await measure_model(dialogues, model, shipped_prompt("memcell"), name, progress)
                )
    return measured


def _languages(dialogues: "tuple[LabelledDialogue, ...]") -> list[str]:
    return ["all", *sorted({dialogue.language for dialogue in dialogues})]


def _row(measured: "Measured", dialogues: "tuple[LabelledDialogue, ...]", language: str) -> dict[str, Any]:
    chosen = [each for each in dialogues if language in ("all", each.language)]
    found = measured.score(chosen)
    whole = language == "all"
    return {
        "method": measured.method,
        "dialogues": f"{len(chosen)} {language}",
        "precision": round(found.precision, 3),
        "recall": round(found.recall, 3),
        "right": found.right,
        "told": len(found.judged),
        "wanted": found.wanted,
        "refused": measured.refused if whole else "",
        "unread": measured.unread if whole else "",
        "seconds": round(measured.seconds, 1) if whole else "",
    }
