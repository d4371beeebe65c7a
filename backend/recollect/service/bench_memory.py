"""Measure extraction on dialogues that say what should come out of them, by rules and by any model."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from recollect.memory.extraction import prompts, rules
from recollect.memory.extraction.answer import ANSWER_SCHEMA, parse_memcell_answer
from recollect.memory.extraction.draft import CellText, Extraction
from recollect.memory.extraction.grounding import ground
from recollect.memory.extraction.repair import repair_messages
from recollect.memory.extraction.score import ExtractionScore, LabelledDialogue, score
from recollect.service.background_model import BackgroundModel
from recollect.service.ports import Progress, no_progress

_ANSWER_TOKENS = 1_500


@dataclass(slots=True)
class Measured:
    """What one way of extracting got right."""

    method: str
    extractions: dict[str, Extraction] = field(default_factory=dict)
    unread: int = 0
    """Dialogues whose answer could not be used."""
    refused: int = 0
    """Statements that the dialogue's own words do not support."""
    seconds: float = 0.0

    def score(self, dialogues: Sequence[LabelledDialogue]) -> ExtractionScore:
        return score(dialogues, self.extractions)


def measure_rules(dialogues: Sequence[LabelledDialogue]) -> Measured:
    measured = Measured("rules")
    started = time.monotonic()
    for dialogue in dialogues:
        measured.extractions[dialogue.dialogue_id] = rules.extract_by_rules(dialogue.cell)
    measured.seconds = time.monotonic() - started
    return measured


async def measure_model(
    dialogues: Sequence[LabelledDialogue],
    model: BackgroundModel,
    template: str,
    name: str,
    progress: Progress = no_progress,
) -> Measured:
    """As the strategies ask: one call for a dialogue, one second chance, and only what its words support."""
    measured = Measured(name)
    started = time.monotonic()
    for number, dialogue in enumerate(dialogues):
        progress(number, len(dialogues))
        found = await _ask(model, template, dialogue.cell)
        if found is None:
            measured.unread += 1
        grounded = ground(found or Extraction(), dialogue.cell)
        measured.refused += len(grounded.refused)
        measured.extractions[dialogue.dialogue_id] = grounded
    measured.seconds = time.monotonic() - started
    return measured


async def _ask(model: BackgroundModel, template: str, cell: CellText) -> Extraction | None:
    messages = prompts.memcell_messages(template, cell)
    for _ in range(2):
        answer = await model.ask(
            messages,
            space="bench",
            thread_id=cell.memcell_id,
            max_tokens=_ANSWER_TOKENS,
            schema=ANSWER_SCHEMA,
        )
        try:
            return parse_memcell_answer(answer.text, cell)
        except ValueError as error:
            messages = repair_messages(messages, answer.text, str(error))
    return None
