"""Making one skill out of cases: by a model where there is one, else by rules."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from recollect.memory.extraction.skill import Case, Skill, basis_of
from recollect.memory.extraction.skill_model import SKILL_SCHEMA, parse_skill_answer, skill_messages
from recollect.memory.extraction.skill_rules import improve_by_rules
from recollect.memory.model import JsonObject
from recollect.service.extract import RULES
from recollect.service.prompt_texts import PromptTexts
from recollect.service.questions import ExtractionFailed, Question, Questions


@dataclass(frozen=True, slots=True)
class SkillOrder:
    """What a skill is to be made of: the one that there is, if any, and all of its cases, the oldest first."""

    space: str
    owner: str
    thread_id: str
    """Of the newest case."""
    cases: Sequence[Case]
    skill: Skill | None = None
    taken: Collection[str] = ()
    """Names that other skills have."""


@dataclass(frozen=True, slots=True)
class SkillMaker:
    """Where the model has no answer that can be used the rules make the skill, and what is told of it says so."""

    questions: Questions | None
    """None: rules do the work."""
    prompts: PromptTexts

    async def make(self, order: SkillOrder) -> tuple[Skill, JsonObject]:
        """The skill, and what its receipt is to say. Raises Preempted and ModelUnavailable."""
        by_rules = improve_by_rules(order.skill, order.cases, order.taken)
        by_rules = replace(by_rules, by=RULES, basis=basis_of(order.cases))
        if self.questions is None:
            return by_rules, {"by": RULES}
        try:
            return await self._by_model(self.questions, order)
        except ExtractionFailed as error:
            return by_rules, {"by": RULES, "instead_of_a_model": str(error)}

    async def _by_model(self, questions: Questions, order: SkillOrder) -> tuple[Skill, JsonObject]:
        template = await self.prompts.text(order.space, "skill")

        def read(text: str) -> tuple[Skill, Counter[str]]:
            skill, refused = parse_skill_answer(text, order.skill, order.cases, order.taken)
            return skill, Counter(each.reason for each in refused)

        question = Question(
            "skill",
            order.space,
            order.thread_id,
            order.owner,
            skill_messages(template, order.skill, order.cases),
            SKILL_SCHEMA,
            read,
            stage="skill",
        )
        kept, cost = await questions.answer(question)
        skill, refused = read(kept.text)
        told: JsonObject = {"by": kept.model, "cost": cost, "refused": dict(refused)}
        made = replace(skill, by=kept.model, basis=basis_of(order.cases))
        return made, {name: value for name, value in told.items() if value}
