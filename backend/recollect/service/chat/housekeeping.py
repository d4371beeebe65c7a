"""What a chat app asks by itself (a title, tags, a query to search with): answered by the model, and kept nowhere."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from recollect.domain.access import Caller
from recollect.domain.chat import Accepted, ChatRequest
from recollect.domain.llm import ChatCall
from recollect.domain.model import DEFAULT_USER, JsonObject, Thread, Turn
from recollect.infra.backends.configured import Backends
from recollect.infra.journal.people import SqlPresetStore
from recollect.service.chat.answer import STOPS_WITH_SERVER, ChatCalls, Outcome, as_recollect_error
from recollect.service.chat.stream import LiveTurn
from recollect.service.coordination import Clock
from recollect.service.people import preset_in_force

_KEY = "housekeeping"
"""In place of a thread's key: all such calls share one slot of a server, so that chats keep theirs."""


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """Sends the messages as they came: without memory, and without a thread."""

    backends: Backends
    people: SqlPresetStore
    calls: ChatCalls
    clock: Clock
    _running: "dict[LiveTurn, asyncio.Task[None]]" = field(default_factory=dict)

    def handle(self, caller: Caller, request: ChatRequest, messages: Sequence[JsonObject]) -> LiveTurn:
        """On its way when this returns. Its thread has no id: there is none."""
        user_id = caller.acting_for(request.user_id) or DEFAULT_USER
        now = self.clock()
        answer = Turn(secrets.token_hex(8), "", "assistant", "assistant", "", now, status="queued")
        thread = Thread(caller.space, "", user_id, now, now, incognito=True)
        live = LiveTurn(Accepted(thread, (), (answer,) * request.choices))
        self._running[live] = asyncio.create_task(self._run(live, request, messages), name=_KEY)
        return live

    async def stop(self) -> None:
        for live in self._running:
            live.stop(STOPS_WITH_SERVER)
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, live: LiveTurn, request: ChatRequest, messages: Sequence[JsonObject]) -> None:
        outcome = Outcome(status="failed")
        try:
            outcome = await self._answer(live, request, messages)
        except Exception as error:  # noqa: BLE001 - whoever waits for it is told
            outcome.error = as_recollect_error(error, "a housekeeping request")
        finally:
            del self._running[live]
            model = outcome.finished.model if outcome.finished else None
            turn = replace(live.turn, status=outcome.status, model=model)
            why = {"error": outcome.why} if outcome.why else {}
            live.end(turn, {**live.receipt, **outcome.told(), **why}, outcome.error)

    async def _answer(self, live: LiveTurn, request: ChatRequest, messages: Sequence[JsonObject]) -> Outcome:
        thread = live.accepted.thread
        preferences = await self.people.preferences(thread.space, thread.user_id)
        preset = await preset_in_force(self.people, thread.space, preferences.preset)
        backend = self.backends.get(request.backend or preset.backend)
        live.begun({"label": backend.label} if backend.label else {})
        facts = await backend.facts()
        call = ChatCall(
            messages=messages,
            model=request.model or preset.model,
            max_tokens=request.answer_limit(None, facts.context_tokens),
            options=request.options,
            choices=request.choices,
            space=thread.space,
        )
        return await self.calls.stream(None, backend, facts, call, live, _KEY, begins=True)
