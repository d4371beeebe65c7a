"""A temporary home in which recall is measured. Importing this imports all of Recollect."""

import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import cast

import httpx2
from recall_measure import WITHOUT_MEMORY, Answer, Block, Conversation, MeasuredHome, Query
from recall_metrics import CHARACTERS_A_TOKEN, Hit
from servers import standin_model

from recollect.app import App, open_app
from recollect.domain.access import Caller
from recollect.domain.breaker import Breaker
from recollect.domain.chat import Accepted, Epoch, LastPrompt, SentTurn
from recollect.domain.chat import Conversation as ChatState
from recollect.domain.entries.entry import CASES, EPISODES
from recollect.domain.identity import turn_id
from recollect.domain.llm import BackendFacts
from recollect.domain.model import Role, Thread, Turn
from recollect.domain.prompt import common_prefix
from recollect.domain.recall.hits import Scope, Selection, tokens
from recollect.domain.recall.rows import NOTE, TURN
from recollect.domain.recall.weights import Weights
from recollect.domain.strategy import STRATEGIES
from recollect.entrypoints.cli.client import HomeClient, add_all
from recollect.entrypoints.http.server import create_server
from recollect.errors import StorageUnavailable
from recollect.infra.backends.configured import Backend
from recollect.service.chat.always_on_memories import AlwaysOnMemories, QuerySimilarity
from recollect.service.chat.context import RecallSource
from recollect.service.chat.context_builder import PromptMaker
from recollect.service.chat.epoch import Draft
from recollect.service.chat.rewrite import Rewriter
from recollect.service.chat.sources import Sources
from recollect.service.coordination import no_progress
from recollect.service.recall.search import Search
from recollect.service.recall.verify import meaning_problem
from recollect.setting_groups import ChatSettings, LlmSettings, StrategiesSettings
from recollect.settings import Settings

_IN_PROCESS = "http://127.0.0.1"
_DEFAULT = Weights()
_OFF = Weights(**{each.name: 0 for each in fields(Weights)})  # type: ignore[arg-type]

VARIANTS: dict[str, Weights] = {
    "words alone": replace(_OFF, words=1),
    "meaning alone": replace(_OFF, meaning=1, centred=True),
    "words and meaning": replace(_OFF, words=_DEFAULT.words, meaning=_DEFAULT.meaning, centred=True),
    "all, without words": replace(_DEFAULT, words=0),
    "all, without meaning": replace(_DEFAULT, meaning=0),
    "all, without centring": replace(_DEFAULT, centred=False),
    "all, without the neighbourhood": replace(_DEFAULT, near_people=0, near_assistant=0),
    "all, without dates": replace(_DEFAULT, date=0, meant=0, meant_alone=0),
    "all, without speakers": replace(_DEFAULT, speaker=0),
    "all, without questions and replies": replace(_DEFAULT, asking=0, reply=0),
    "all, without the user's precedence": replace(_DEFAULT, user=0, instruction=0, preference=0),
    "all, without what memories bring": replace(_DEFAULT, brought=0),
}
"""The rankings that an ablation compares with the shipped one: what each part of the score brings."""
_MANY_JOBS = 10_000
_WORK_SECONDS = 600.0


@asynccontextmanager
async def measured_home(
    settings: Settings, top_k: int, *, with_memory: bool, facts: Path | None = None
) -> AsyncIterator[MeasuredHome]:
    """A temporary home with the given settings, opened in this process and spoken to over its HTTP API.

    With `facts` memories are made by a stand-in for a model, which answers from that table.
    """
    with_memory = with_memory or facts is not None
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder, _asking(facts) as llm:
        home = Path(folder) / "home"
        async with open_app(_settings_for(settings, home, llm, with_memory=with_memory)) as app:
            transport = httpx2.ASGITransport(app=create_server(app))
            headers = {"Authorization": f"Bearer {app.lock.token}"}
            async with httpx2.AsyncClient(
                base_url=_IN_PROCESS, headers=headers, timeout=600, transport=transport, trust_env=False
            ) as http:
                doors = Doors(app, HomeClient(http), top_k)
                remember = doors.remember if with_memory else None
                prompts = prompt_maker(app)
                yield MeasuredHome(
                    doors.add,
                    doors.count_embedded,
                    doors.ask,
                    doors.problem,
                    remember,
                    lambda conversation, context_tokens: GivenAnswers(prompts, conversation, context_tokens),
                )


@contextmanager
def _asking(facts: Path | None) -> Iterator[LlmSettings]:
    """The model that makes memories: none, or the stand-in."""
    if facts is None:
        yield LlmSettings()
        return
    with standin_model() as settings:
        address = settings["RECOLLECT_LLM__BASE_URL"]
        control = {"table": json.loads(facts.read_text(encoding="utf-8"))}
        httpx2.post(f"{address}/control", json=control, timeout=60, trust_env=False).raise_for_status()
        yield LlmSettings(base_url=address, model="stand-in")


def _settings_for(settings: Settings, home: Path, llm: LlmSettings, *, with_memory: bool) -> Settings:
    """The same search in another home. No model but the embedder has a part in it."""
    embedding = settings.embedding.model_copy(update={"folder": settings.model_folder})
    return settings.model_copy(
        update={
            "home": home,
            "database_url": None,
            "llm": llm,
            "tasks": LlmSettings(),
            "embedding": embedding,
            "strategies": settings.strategies if with_memory else _all_off(),
        }
    )


def _all_off() -> StrategiesSettings:
    return StrategiesSettings.model_validate({each.name: {"enabled": False} for each in STRATEGIES})


class Doors:
    """How a measurement adds, waits and asks: by the same routes as everybody else."""

    def __init__(self, app: App, client: HomeClient, top_k: int) -> None:
        self._app = app
        self._client = client
        self._top_k = top_k

    async def add(self, conversation: Conversation) -> None:
        owner = conversation.conversation_id
        messages = [dict(message) for message in conversation.messages]
        await add_all(self._client, owner, owner, messages, no_progress)

    async def count_embedded(self, user_id: str) -> tuple[int, int]:
        counts = await self._client.call("GET", "/api/v1/coverage", params={"user_id": user_id})
        return min(counts["indexed"], counts["embedded"]), counts["messages"] - counts["skipped"]

    def problem(self) -> str | None:
        return meaning_problem(self._app.search.indexer)

    async def remember(self, conversation: Conversation) -> int:
        """Close its last memcell, wait for what is made of all of them, and until that can be found."""
        owner = conversation.conversation_id
        body = {"session_id": owner, "user_id": owner, "timeout": _WORK_SECONDS}
        await self._client.call("POST", "/api/v1/memory/flush", json=body)
        await self._work_ends()
        await self._app.vault_sweep.sweep()
        await self._app.search.indexer.settled()
        owned = await self._app.search.corpus_cache.get(Caller().space, owner)
        view = owned.corpus.view()
        return int((view.is_entry & view.there).sum())

    async def _work_ends(self) -> None:
        while jobs := await self._app.jobs.list_jobs(space=None, limit=_MANY_JOBS):
            for job in jobs:
                if job.state == "dead":
                    raise StorageUnavailable(f"a job of the kind {job.kind} failed: {job.error}")
                if not await self._app.jobs.wait_for(job.job_id, _WORK_SECONDS):
                    raise StorageUnavailable(f"a job of the kind {job.kind} does not end")

    async def ask(self, query: Query) -> Answer:
        if query.variant is not None:
            return await self._ask_another_ranking(query, query.variant)
        body = {
            "user_id": query.user_id,
            "query": query.text,
            "top_k": self._top_k,
            "now": query.asked_at,
        }
        found = await self._client.call("POST", "/api/v1/memory/search", json=body)
        hits = [
            _counted(hit["type"], "".join((hit["text"], *hit["said"])), hit["message_ids"])
            for hit in found["hits"]
        ]
        return Answer(hits, tuple(found["degraded"]))

    async def _ask_another_ranking(self, query: Query, variant: str) -> Answer:
        """The same search with other weights, which no route offers."""
        if variant == WITHOUT_MEMORY:
            scope, weights = Scope(types=frozenset((TURN, NOTE))), replace(Weights(), brought=0)
        else:
            scope, weights = Scope(), VARIANTS[variant]
        selection = Selection(scope=scope, top_k=self._top_k)
        search = Search(query.text, query.user_id, selection=selection, now=query.asked_at)
        found = await self._app.search.recall.search(Caller(), search, weights)
        hits = [_counted(hit.row.type, hit.text, hit.message_ids) for hit in found.hits]
        return Answer(hits, tuple(found.degraded))


def _counted(kind: str, text: str, message_ids: Sequence[str]) -> Hit:
    """A fact, a plan or a line of the profile stands for the messages it came from. An episode or a case, of many
    messages, earns nothing. The text of each counts.
    """
    return Hit(text, tuple(message_ids) if _stands(kind) else ())


def _stands(kind: str) -> bool:
    """Whether a hit of this kind counts for its messages."""
    return kind not in (EPISODES, CASES)


def prompt_maker(app: App) -> PromptMaker:
    """As the app's own, with time for every search."""
    new_breaker = partial(Breaker, clock=time.monotonic)
    recall = RecallSource(
        app.search.recall,
        QuerySimilarity(app.search.corpus_cache),
        AlwaysOnMemories(app.entry_store, app.THREADS),
        new_breaker=new_breaker,
        clock=time.monotonic,
        deadline_seconds=_WORK_SECONDS,
    )
    rewriter = Rewriter(clock=time.monotonic, new_breaker=new_breaker)
    sources = Sources(app.settings.sources, app.THREADS, app.people, app.talking.backends)
    return PromptMaker(rewriter, recall, app.skills.offered, sources)


class GivenAnswers:
    """A chat whose prompts are made as always, and whose answers are given instead of asked of a model."""

    name, label = "bench", None

    def __init__(self, prompts: PromptMaker, conversation: Conversation, context_tokens: int) -> None:
        self._prompts = prompts
        self._now = conversation.ended_at
        self._facts = BackendFacts("llama.cpp", local=True, context_tokens=context_tokens)
        self._thread = Thread(Caller().space, "questions", conversation.conversation_id, self._now, self._now)
        self._path: list[SentTurn] = []
        self._epoch: Epoch | None = None
        self._last: LastPrompt | None = None
        self._sent: dict[int, list[str]] = {}
        """Ids of the messages in each block, by its turn's position."""

    async def count_tokens(self, text: str) -> int:
        return tokens(text)

    async def ask(self, text: str, answer: str) -> Block:
        place = len(self._path) + 1
        said, told = self._turn(place, "user", text), self._turn(place + 1, "assistant", answer)
        sent = await self._prompts.prepare(
            Draft(
                accepted=Accepted(self._thread, (said,), (told,)),
                conversation=ChatState(self._thread, 0, self._epoch, tuple(self._path), (), self._last),
                backend=cast("Backend", self),
                facts=self._facts,
                model=None,
                instructions=(),
                max_turns=ChatSettings().max_turns,
                max_tokens=None,
                now=self._now,
            )
        )
        recalled = sent.detail["recall"]["memories"]
        if sent.detail["recall"]["left_out"]:
            raise StorageUnavailable(str(sent.detail["recall"]["left_out"]))
        self._sent[place] = [
            name for each in recalled for name in each["message_ids"] if _stands(each["type"])
        ]
        known = b"" if self._last is None else self._last.messages
        self._path += [SentTurn(said, sent.block), SentTurn(told)]
        self._epoch, self._last = sent.epoch, LastPrompt(place + 1, sent.epoch.number, sent.messages, {})
        first = max(sent.epoch.first_position, sent.epoch.blocks_from)
        return Block(
            new=self._sent[place],
            held=[name for at, names in self._sent.items() if at >= first for name in names],
            evaluated=(len(sent.messages) - common_prefix(known, sent.messages)) // CHARACTERS_A_TOKEN,
            ends_epoch=sent.opens_epoch,
        )

    def _turn(self, place: int, role: Role, text: str) -> Turn:
        return Turn(turn_id(place), f"m{place}", role, role, text, self._now)
