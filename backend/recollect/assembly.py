"""Builds the large parts of an App: what talks, what searches, what makes memories."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from recollect.domain.boundary import BoundaryRules
from recollect.domain.breaker import Breaker
from recollect.domain.job import Job
from recollect.domain.llm import Usage
from recollect.domain.model import JsonObject
from recollect.domain.strategy import Tuning
from recollect.failpoints import FailPoints
from recollect.infra.backends.configured import Backends
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.embedders.openai import OpenAiEmbedder
from recollect.infra.index.store import LanceIndex
from recollect.infra.journal.cells import SqlCellTexts, SqlModelAnswers
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.files import SqlNoteStore, SqlTranscriptStore
from recollect.infra.journal.index import SqlIndexLedger
from recollect.infra.journal.people import SqlPeopleStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.vault import Vault
from recollect.service.chat.always_on_memories import Likeness, StandingMemories
from recollect.service.chat.context import RecallSource
from recollect.service.chat.prompt import PromptMaker
from recollect.service.chat.receive_stream import Patience
from recollect.service.chat.rewrite import Rewriter
from recollect.service.chat.stream import LiveTurns
from recollect.service.chat.turn import Chat
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.forget.purge import IndexForgetter
from recollect.service.models.background import BackgroundModel
from recollect.service.models.cached_model_calls import Questions
from recollect.service.models.choice import ThreadModels
from recollect.service.models.gate import QUIET_SECONDS, Gate
from recollect.service.models.slots import SlotMaps
from recollect.service.ports import Embedder
from recollect.service.recall.corpus_cache import CorpusCache
from recollect.service.recall.embedding import MeaningIndexer
from recollect.service.recall.indexer import Indexer
from recollect.service.recall.reindex import Reindexer
from recollect.service.recall.search import Recall
from recollect.service.recall.verify import IndexVerifier
from recollect.service.recall.words import WordIndexer
from recollect.service.remember.consolidate import Cases, Remembering
from recollect.service.remember.extract import Extractor, LivePrefix, PromptTexts
from recollect.service.remember.profile import Profiles
from recollect.service.remember.strategies import StrategyWork
from recollect.service.skills.files import SkillGraves, SkillShelf
from recollect.service.skills.skills import SkillMaker, Skills
from recollect.service.vault.images import Images
from recollect.settings import Settings


def boundary_rules(settings: Settings) -> BoundaryRules:
    return BoundaryRules(
        gap_ms=int(settings.memorize.gap_minutes * 60_000),
        max_turns=settings.memorize.max_turns,
        max_chars=settings.memorize.max_chars,
    )


def embedder_of(settings: Settings) -> OnnxEmbedder | OpenAiEmbedder | None:
    """The embedder that is configured; its model is loaded when it is first used."""
    chosen = settings.embedding
    if chosen.kind == "openai":
        assert chosen.base_url is not None
        assert chosen.model is not None
        return OpenAiEmbedder(
            base_url=chosen.base_url,
            model=chosen.model,
            api_key=chosen.api_key.get_secret_value() if chosen.api_key else None,
            timeout=chosen.timeout_seconds,
            dimensions=chosen.dimensions,
            batch=chosen.batch or 64,
        )
    if chosen.kind == "onnx":
        return OnnxEmbedder(settings.model_folder, threads=chosen.threads, batch=chosen.batch or 16)
    return None


@dataclass(frozen=True, slots=True)
class Engines:
    """What search stands on."""

    index: LanceIndex
    ledger: SqlIndexLedger
    threads: SqlThreadStore
    transcripts: SqlTranscriptStore
    coverage: SqlCoverage
    notes: SqlNoteStore
    vault: Vault
    fail_points: FailPoints
    clock: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Search:
    """The parts of an App that keep the index and search it."""

    embedder: OnnxEmbedder | OpenAiEmbedder | None
    corpora: CorpusCache
    indexer: Indexer
    verifier: IndexVerifier
    recall: Recall
    reindexer: Reindexer
    forgetter: IndexForgetter

    @property
    def embedded_texts(self) -> int:
        """Since the start."""
        return self.reindexer.meaning.embedded


def build_search(settings: Settings, engines: Engines, on_damage: Callable[[str, str, str], None]) -> Search:
    """A new embedder for every start: one that was closed stays closed."""
    embedder = embedder_of(settings)
    locks = OwnerLocks()
    corpora = CorpusCache(
        engines.index,
        engines.ledger,
        engines.transcripts,
        locks,
        budget_bytes=settings.index.cache_mb * 1024 * 1024,
        on_damage=on_damage,
    )
    words = WordIndexer(
        engines.index,
        engines.ledger,
        engines.transcripts,
        engines.notes,
        engines.vault,
        locks,
        corpora,
        engines.fail_points,
    )
    meaning = MeaningIndexer(
        engines.index,
        engines.ledger,
        engines.transcripts,
        words,
        locks,
        corpora,
        embedder,
        engines.fail_points,
    )
    indexer = Indexer(
        engines.index,
        engines.ledger,
        words,
        meaning,
        corpora,
        embedder,
        delay_seconds=settings.index.delay_ms / 1000,
    )
    verifier = IndexVerifier(
        engines.index,
        engines.ledger,
        engines.transcripts,
        engines.threads,
        engines.coverage,
        engines.notes,
        engines.vault,
    )
    recall = Recall(
        indexer,
        corpora,
        engines.ledger,
        engines.threads,
        engines.transcripts,
        embedder,
        clock=engines.clock,
        embed_seconds=settings.embedding.query_seconds,
    )
    reindexer = Reindexer(
        indexer,
        engines.index,
        engines.ledger,
        words,
        meaning,
        embedder,
        verifier.problems,
        engines.fail_points,
    )
    forgetter = IndexForgetter(words, indexer, indexer.generations.in_use)
    return Search(embedder, corpora, indexer, verifier, recall, reindexer, forgetter)


@dataclass(frozen=True, slots=True)
class Talking:
    """The parts of an App that ask models."""

    backends: Backends
    gate: Gate
    slots: SlotMaps
    recall: RecallSource
    rewriter: Rewriter
    chat: Chat
    models: ThreadModels
    background: BackgroundModel | None
    """None where nobody configured a model: then rules do the background work."""


def build_talking(
    settings: Settings,
    backends: Backends,
    chats: SqlChatStore,
    threads: SqlThreadStore,
    people: SqlPeopleStore,
    search: Search,
    images: Images,
    entries: SqlEntryStore,
    *,
    clock: Callable[[], int],
    on_answer: Callable[[str, Usage, float | None], None],
) -> Talking:
    gate, slots = Gate(quiet_seconds=QUIET_SECONDS), SlotMaps()
    new_breaker = partial(Breaker, clock=time.monotonic)
    rewriter = Rewriter(
        clock=time.monotonic, new_breaker=new_breaker, deadline_seconds=settings.chat.rewrite_seconds
    )
    recall = RecallSource(
        search.recall,
        Likeness(search.corpora),
        StandingMemories(entries, threads),
        breaker=new_breaker(),
        clock=time.monotonic,
        deadline_seconds=settings.chat.recall_seconds,
    )
    chat = Chat(
        chats,
        threads,
        people,
        backends,
        PromptMaker(rewriter, recall),
        gate,
        slots,
        LiveTurns(),
        images,
        clock=clock,
        max_turns=settings.chat.max_turns,
        patience=Patience(settings.chat.answer_seconds, settings.chat.orphan_seconds),
        on_answer=on_answer,
    )
    models = ThreadModels(backends, chats, threads, people)
    background = _background(settings, backends, gate, slots, models)
    return Talking(backends, gate, slots, recall, rewriter, chat, models, background)


def _background(
    settings: Settings, backends: Backends, gate: Gate, slots: SlotMaps, models: ThreadModels
) -> BackgroundModel | None:
    if not backends.configured and settings.tasks.base_url is None:
        return None

    lease = settings.jobs.lease_seconds
    answering = min(settings.memorize.model_timeout_seconds, lease / 2)
    return BackgroundModel(
        models.of,
        gate,
        answer_seconds=answering,
        patience_seconds=min(45.0, lease * 0.9 - answering),
        on_own_prompt=slots.disturbed,
    )


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """What the strategies need."""

    cells: SqlCellTexts
    entries: SqlEntryStore
    answers: SqlModelAnswers
    shelf: SkillShelf
    people: SqlPeopleStore
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
