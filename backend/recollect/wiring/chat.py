"""Everything that talks: backends, the gate, prompts, chat turns, and the background work that asks a model."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from recollect.context.llm import Usage
from recollect.infra.sql.chat_store import SqlChatStore
from recollect.infra.sql.people_store import SqlPeopleStore
from recollect.infra.sql.thread_store import SqlThreadStore
from recollect.service.answering import Patience
from recollect.service.background_model import BackgroundModel
from recollect.service.breaker import Breaker
from recollect.service.chat import Chat
from recollect.service.gate import QUIET_SECONDS, Gate
from recollect.service.images import Images
from recollect.service.likeness import Likeness
from recollect.service.live_turns import LiveTurns
from recollect.service.ports import EntryStore
from recollect.service.prompting import PromptMaker
from recollect.service.recall_source import RecallSource
from recollect.service.rewriter import Rewriter
from recollect.service.slot_maps import SlotMaps
from recollect.service.standing import StandingMemories
from recollect.settings import Settings
from recollect.wiring.backends import Backends
from recollect.wiring.search import Search
from recollect.wiring.thread_models import ThreadModels


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
    entries: EntryStore,
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
