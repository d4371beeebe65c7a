"""Extraction: what a memcell holds that is worth remembering, by a model where there is one, else by rules."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from recollect.errors import ModelTooSlow
from recollect.failpoints import FailPoints
from recollect.memory.extraction import case, case_rules, prompts, rules
from recollect.memory.extraction.answer import ANSWER_SCHEMA, parse_memcell_answer
from recollect.memory.extraction.draft import CellText, Extraction
from recollect.memory.extraction.grounding import ground
from recollect.memory.extraction.repair import repair_messages
from recollect.memory.kept_answer import KeptAnswer
from recollect.memory.model import JsonObject
from recollect.memory.stored_cell import StoredCell
from recollect.service.background_model import Answer, BackgroundModel, ChatPrefix
from recollect.service.ports import ModelAnswers
from recollect.service.prompt_texts import PromptTexts

RULES = "rules"
_ANSWER_TOKENS = 1_500

LivePrefix = Callable[[StoredCell], Awaitable[ChatPrefix | None]]
"""The chat's own prompt where the backend has it in its cache, and it holds every turn of the cell."""


async def no_prefix(cell: StoredCell) -> None:
    """For backends that keep no prefixes."""


class ExtractionFailed(Exception):
    """The model's answer can't be used, not even after a second chance, or finds no end; this counts as an attempt."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came out, by whom, and what it cost."""

    extraction: Extraction
    by: str
    cost: JsonObject = field(default_factory=dict)
    """Tokens in, out and cached; empty where no model was asked now."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One prompt and how its answer is read."""

    name: str
    messages: Sequence[JsonObject]
    """As a prompt of its own."""
    schema: JsonObject
    read: Callable[[str], Extraction]
    appended: JsonObject | None = None
    """What follows the chat's own prompt instead."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """Asks once for a cell: the answer is kept before it is used, and serves every strategy and every retry."""

    model: BackgroundModel | None
    answers: ModelAnswers
    prompts: PromptTexts
    fail_points: FailPoints
    live_prefix: LivePrefix = no_prefix

    async def user_memory(self, stored: StoredCell, cell: CellText) -> Extracted:
        """Episode, facts and foresight of a cell. Raises Preempted, ModelUnavailable and ExtractionFailed."""
        if self.model is None:
            return Extracted(rules.extract_by_rules(cell), RULES)
        template = await self.prompts.text(stored.thread.space, "memcell")
        task = _Task(
            "memcell",
            prompts.memcell_messages(template, cell),
            ANSWER_SCHEMA,
            lambda text: parse_memcell_answer(text, cell),
            prompts.memcell_instruction(template, cell),
        )
        kept, cost = await self._answer(self.model, stored, task)
        return Extracted(ground(task.read(kept.text), cell), kept.model, cost)

    async def case(self, stored: StoredCell, cell: CellText) -> Extracted:
        """What the agent did in a stretch with tool calls."""
        if self.model is None:
            return Extracted(case_rules.case_by_rules(cell), RULES)
        template = await self.prompts.text(stored.thread.space, "case")
        task = _Task(
            "case",
            case.case_messages(template, cell),
            case.CASE_SCHEMA,
            lambda text: case.parse_case_answer(text, cell),
        )
        kept, cost = await self._answer(self.model, stored, task)
        return Extracted(case.ground_case(task.read(kept.text), cell), kept.model, cost)

    async def _answer(
        self, model: BackgroundModel, stored: StoredCell, task: _Task
    ) -> tuple[KeptAnswer, JsonObject]:
        space, digest = stored.thread.space, prompts.prompt_digest(task.name, task.messages)
        kept = await self.answers.answer(space, stored.memcell_id, task.name, digest)
        if kept is not None:
            return kept, {}
        answer = await self._ask(model, stored, task)
        kept = KeptAnswer(answer.text, answer.model or "a model", _cost(answer))
        await self.answers.keep(space, stored.thread.thread_id, stored.memcell_id, task.name, digest, kept)
        self.fail_points.reach("extract.answer_kept")
        return kept, dict(kept.usage)

    async def _ask(self, model: BackgroundModel, stored: StoredCell, task: _Task) -> Answer:
        """An answer that can be read, at the second chance at the latest."""
        prefix = await self.live_prefix(stored) if task.appended is not None else None
        messages = (
            [task.appended] if prefix is not None and task.appended is not None else list(task.messages)
        )
        answer = await self._once(model, stored, task, messages, prefix)
        try:
            task.read(answer.text)
            return answer
        except ValueError as error:
            first = str(error)
        answer = await self._once(model, stored, task, repair_messages(messages, answer.text, first), prefix)
        try:
            task.read(answer.text)
            return answer
        except ValueError as error:
            raise ExtractionFailed(f"the model's answer can't be used: {error}") from None

    async def _once(
        self,
        model: BackgroundModel,
        stored: StoredCell,
        task: _Task,
        messages: Sequence[JsonObject],
        prefix: ChatPrefix | None,
    ) -> Answer:
        try:
            answer = await model.ask(
                messages,
                space=stored.thread.space,
                thread_id=stored.thread.thread_id,
                max_tokens=_ANSWER_TOKENS,
                schema=task.schema,
                prefix=prefix,
            )
        except ModelTooSlow as error:
            # No outage, which would be waited out for as long as it takes: it counts, and ends some time.
            raise ExtractionFailed(error.message) from error
        self.fail_points.reach("extract.answered")
        return answer


def _cost(answer: Answer) -> JsonObject:
    told = {
        "prompt_tokens": answer.usage.prompt_tokens,
        "completion_tokens": answer.usage.completion_tokens,
        "cached_tokens": answer.usage.cached_tokens,
    }
    return {name: value for name, value in told.items() if value is not None}
