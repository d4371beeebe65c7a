"""How a turn of a chat ends: its answer is stored as far as it got, with the work that follows."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace

from recollect.domain.chat import AnswerText, ChatRequest, SentPrompt
from recollect.domain.job import JobSpec
from recollect.domain.model import JsonObject, ThreadRef, Turn
from recollect.errors import RecollectError, Unavailable
from recollect.infra.journal.chats import SERVER_STOPPED, SqlChatStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.chat.context_builder import Prepared
from recollect.service.chat.post_turn_jobs import FinishedTurn, run_post_response_tasks
from recollect.service.chat.receive_stream import Outcome, Patience
from recollect.service.chat.stream import LiveTurn

STOPS_WITH_SERVER = "the server was stopped"
_log = logging.getLogger("recollect.chat")


@dataclass(slots=True)
class Done:
    """What came of a turn, as far as it got."""

    outcome: Outcome = field(default_factory=lambda: Outcome(status="failed"))
    detail: JsonObject = field(default_factory=dict)
    prepared: Prepared | None = None
    unwritten: SentPrompt | None = None
    """What was sent, where it is still to be written down."""
    auto_skills: bool = False
    """By the user's preferences."""


class ChatEnding:
    """Stores answers; one that the disk does not take is stored as soon as there is room."""

    def __init__(self, store: SqlChatStore, threads: SqlThreadStore, patience: Patience) -> None:
        self._store = store
        self._threads = threads
        self._patience = patience
        self._unstored: set[asyncio.Task[None]] = set()
        """Tasks that retry answers the disk refused."""

    async def stop(self) -> None:
        """The next start marks what the disk did not take until now."""
        for storing in self._unstored:
            storing.cancel()
        await asyncio.gather(*self._unstored, return_exceptions=True)

    async def end(self, live: LiveTurn, request: ChatRequest, done: Done) -> None:
        """Store the answer with its follow-up jobs, and tell all followers."""
        accepted = live.accepted
        outcome, detail, prepared = done.outcome, done.detail, done.prepared
        if outcome.error is not None:
            detail = {**detail, "error": outcome.error.message, "code": outcome.error.code}
        elif outcome.why is not None:
            detail = {**detail, "error": outcome.why}
            if outcome.why == STOPS_WITH_SERVER:
                detail["code"] = SERVER_STOPPED
        texts = [choice.answer for choice in live.in_stored_order()]
        model = outcome.finished.model if outcome.finished else None
        try:
            jobs = _following_jobs(live, request, done, texts[-1])
        except Exception:  # noqa: BLE001 - the answer is stored all the same
            _log.exception("could not decide which jobs follow a chat turn")
            jobs = ()

        receipt = {**(prepared.sent.detail if prepared else {}), **request.kept, **detail}

        def store() -> Awaitable[Turn]:
            return self._store.finish(
                accepted,
                texts,
                status=outcome.status,
                model=model,
                prompt=done.unwritten,
                payload=_beside_the_prompt(outcome.payload, prepared),
                detail=receipt,
                jobs=jobs,
            )

        try:
            turn = await self._stored(store)
        except RecollectError as error:
            _log.error("an answer could not be stored: %s", error.message)
            if isinstance(error, Unavailable):
                storing = asyncio.create_task(self._store_when_possible(store))
                self._unstored.add(storing)
                storing.add_done_callback(self._unstored.discard)
            turn = replace(accepted.answer, content=texts[-1].content, status="failed")
            outcome.error = outcome.error or error
        live.end(turn, {**receipt, **await self._waiting(accepted.thread.ref)}, outcome.error)

    async def _waiting(self, thread: ThreadRef) -> JsonObject:
        """For the receipt: how many messages wait for extraction, and until when. Not stored: it soon changes."""
        try:
            waiting = await self._threads.waiting(thread)
        except Unavailable:
            return {}
        return {} if waiting is None else {"waiting": asdict(waiting)}

    async def _stored(self, store: Callable[[], Awaitable[Turn]]) -> Turn:
        """Retries for a while before reporting an error, so that a briefly full disk loses no answer."""
        for wait in self._patience.store_again_seconds:
            try:
                return await store()
            except Unavailable as error:
                _log.warning("could not store an answer, trying again: %s", error.message)
                await asyncio.sleep(wait)
        return await store()

    async def _store_when_possible(self, store: Callable[[], Awaitable[Turn]]) -> None:
        """Nobody waits for it any more, but a turn must not be left as if it still streamed."""
        while True:
            await asyncio.sleep(self._patience.store_again_seconds[-1])
            try:
                await store()
            except Unavailable:
                continue
            except RecollectError as error:
                _log.warning("an answer that waited for the disk was not stored: %s", error.message)
            return


def _following_jobs(
    live: LiveTurn, request: ChatRequest, done: Done, text: AnswerText
) -> tuple[JobSpec, ...]:
    accepted, prepared = live.accepted, done.prepared
    if prepared is None:
        return ()
    answer = replace(
        accepted.answer,
        content=text.content,
        tool_calls=list(text.tool_calls) or None,
        status=done.outcome.status,
    )
    turns = [*prepared.history, *accepted.turns]
    asked = next((n for n in range(len(turns) - 1, -1, -1) if turns[n].role == "user"), None)
    if asked is None:
        return ()
    finished = FinishedTurn(
        thread=accepted.thread,
        question=turns[asked],
        answer=answer,
        since_question=[*turns[asked + 1 :], answer],
        first_answer=prepared.is_first_answer,
        extract_skills=request.extract_skills,
        auto_skills=done.auto_skills and request.memory,
        leaving=prepared.leaving,
    )
    return run_post_response_tasks(finished)


def _beside_the_prompt(payload: JsonObject | None, prepared: Prepared | None) -> JsonObject | None:
    """The parts of a request to store; its messages only if they differ from the prompt's, which is stored anyway."""
    if payload is None or prepared is None or payload.get("messages") != prepared.messages:
        return payload
    return {**payload, "messages": None}
