"""What a chat app asks by itself (a title, tags, a query to search with): answered by the model, and kept nowhere."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from recollect.domain.access import Caller
from recollect.domain.chat import Accepted, ChatRequest
from recollect.domain.llm import ChatCall, Usage
from recollect.domain.model import DEFAULT_USER, JsonObject, Thread, Turn
from recollect.errors import RecollectError
from recollect.infra.backends.configured import Backends
from recollect.infra.journal.people import SqlPresetStore
from recollect.service.chat.receive_stream import Outcome, Patience, stream_llm
from recollect.service.chat.stream import LiveTurn
from recollect.service.coordination import Clock
from recollect.service.models.backend_priority import Gate
from recollect.service.models.llama_slots import LlamaSlots
from recollect.service.people import preset_in_force

_KEY = "housekeeping"
"""In place of a thread's key: all such calls share one slot of a server, so that chats keep theirs."""
_log = logging.getLogger("recollect.chat")


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """Sends the messages as they came: without memory, and without a thread."""

    backends: Backends
    people: SqlPresetStore
    gate: Gate
    slots: LlamaSlots
    patience: Patience
    clock: Clock
    on_answer: Callable[[str, Usage, float | None], None]
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
            live.stop("the server was stopped")
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, live: LiveTurn, request: ChatRequest, messages: Sequence[JsonObject]) -> None:
        outcome = Outcome(status="failed")
        try:
            outcome = await self._answer(live, request, messages)
        except RecollectError as error:
            outcome.error = error
        except Exception as error:  # noqa: BLE001 - whoever waits for it is told
            _log.exception("a housekeeping request failed inside Recollect")
            outcome.error = RecollectError(f"something went wrong inside Recollect: {type(error).__name__}")
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
        usage = Usage()
        async with self.gate.chat(backend, _KEY):
            call = ChatCall(
                messages=messages,
                model=request.model or preset.model,
                max_tokens=request.answer_limit(None, facts.context_tokens),
                options=request.options,
                choices=request.choices,
                slot=self.slots.take(backend, facts, _KEY, begins=True),
                space=thread.space,
            )
            try:
                outcome = await stream_llm(None, backend, call, live, self.patience)
                usage = outcome.finished.usage if outcome.finished else usage
            finally:
                self.slots.done(backend, _KEY, usage)
        self.on_answer(backend.name, usage, outcome.first_token_ms)
        return outcome
