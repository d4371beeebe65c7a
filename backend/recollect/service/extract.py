"""Extraction: what a memcell holds that is worth remembering, by a model where there is one, else by rules."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from recollect.memory.extraction import case, case_rules, prompts, rules
from recollect.memory.extraction.answer import ANSWER_SCHEMA, lacking, parse_memcell_answer
from recollect.memory.extraction.draft import CellText, Extraction
from recollect.memory.extraction.grounding import ground
from recollect.memory.model import JsonObject
from recollect.memory.stored_cell import StoredCell
from recollect.service.background_model import ChatPrefix
from recollect.service.prompt_texts import PromptTexts
from recollect.service.questions import Appended, Question, Questions

RULES = "rules"

LivePrefix = Callable[[StoredCell], Awaitable[ChatPrefix | None]]
"""The chat's own prompt where the backend has it in its cache, and it holds every turn of the cell."""


async def no_prefix(cell: StoredCell) -> None:
    """For backends that keep no prefixes."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came out, by whom, and what it cost."""

    extraction: Extraction
    by: str
    cost: JsonObject = field(default_factory=dict)
    """Tokens in, out and cached; empty where no model was asked now."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """Asks once for a cell: the answer is kept before it is used, and serves every strategy and every retry."""

    questions: Questions | None
    """None: rules do the work."""
    prompts: PromptTexts
    live_prefix: LivePrefix = no_prefix

    async def user_memory(self, stored: StoredCell, cell: CellText) -> Extracted:
        """Episode, facts and foresight of a cell. Raises Preempted, ModelUnavailable and ExtractionFailed."""
        if self.questions is None:
            return Extracted(rules.extract_by_rules(cell), RULES)
        template = await self.prompts.text(stored.thread.space, "memcell")
        kept, cost = await self.questions.answer(
            Question(
                "memcell",
                stored.thread.space,
                stored.thread.thread_id,
                stored.memcell_id,
                prompts.memcell_messages(template, cell),
                ANSWER_SCHEMA,
                lambda text: parse_memcell_answer(text, cell),
                Appended(prompts.memcell_instruction(template, cell), lambda: self.live_prefix(stored)),
                lacks=lacking,
            )
        )
        return Extracted(ground(parse_memcell_answer(kept.text, cell), cell), kept.model, cost)

    async def case(self, stored: StoredCell, cell: CellText) -> Extracted:
        """What the agent did in a stretch with tool calls."""
        if self.questions is None:
            return Extracted(case_rules.case_by_rules(cell), RULES)
        template = await self.prompts.text(stored.thread.space, "case")
        kept, cost = await self.questions.answer(
            Question(
                "case",
                stored.thread.space,
                stored.thread.thread_id,
                stored.memcell_id,
                case.case_messages(template, cell),
                case.CASE_SCHEMA,
                lambda text: case.parse_case_answer(text, cell),
            )
        )
        return Extracted(case.ground_case(case.parse_case_answer(kept.text, cell), cell), kept.model, cost)
