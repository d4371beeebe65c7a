"""Everything that makes memories out of conversations."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from recollect.failpoints import FailPoints
from recollect.memory.job import Job
from recollect.memory.model import JsonObject
from recollect.memory.strategy import Tuning
from recollect.service.background_model import BackgroundModel
from recollect.service.cases import Cases
from recollect.service.extract import Extractor, LivePrefix
from recollect.service.owner_locks import OwnerLocks
from recollect.service.ports import (
    CellTexts,
    Clock,
    Embedder,
    EntryStore,
    ModelAnswers,
    PeopleStore,
    Vault,
)
from recollect.service.profiles import Profiles
from recollect.service.prompt_texts import PromptTexts
from recollect.service.questions import Questions
from recollect.service.remember import Remembering
from recollect.service.skill_graves import SkillGraves
from recollect.service.skill_making import SkillMaker
from recollect.service.skill_shelf import SkillShelf
from recollect.service.skills import Skills
from recollect.service.strategy_work import StrategyWork


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """What the strategies need."""

    cells: CellTexts
    entries: EntryStore
    answers: ModelAnswers
    shelf: SkillShelf
    people: PeopleStore
    vault: Vault
    tuning: Callable[[], Tuning]
    clock: Clock
    fail_points: FailPoints
    locks: OwnerLocks


@dataclass(frozen=True, slots=True)
class MemoryWork:
    """The handlers of what follows a memcell, and a chat turn with tools."""

    strategies: StrategyWork
    case_of_turns: Callable[[Job], Awaitable[JsonObject]]


def build_memory(
    parts: MemoryParts,
    model: BackgroundModel | None,
    embedder: Embedder | None,
    live_prefix: LivePrefix,
) -> MemoryWork:
    """`model` None: rules do the work."""
    questions = None if model is None else Questions(model, parts.answers, parts.fail_points)
    prompts = PromptTexts(parts.vault)
    extractor = Extractor(questions, prompts, live_prefix)
    remembering = Remembering(
        parts.cells,
        parts.entries,
        extractor,
        parts.people,
        embedder,
        parts.tuning,
        parts.clock,
        parts.locks,
        parts.fail_points,
    )
    cases = Cases(parts.cells, parts.entries, parts.people, extractor, remembering)
    maker = SkillMaker(questions, prompts)
    skills = Skills(parts.entries, parts.answers, parts.shelf, maker, SkillGraves(parts.entries))
    work = StrategyWork(
        {
            "episode": remembering.handle,
            "facts": remembering.handle,
            "foresight": remembering.handle,
            "profile": Profiles(parts.entries, parts.locks).handle,
            "case": cases.handle,
            "skill": skills.handle,
        },
        parts.tuning,
        parts.entries,
    )
    return MemoryWork(work, cases.from_turns)
