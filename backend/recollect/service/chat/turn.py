"""Chat: one turn of a conversation, from the user's words to the stored answer and the work that follows.

1. On arrival the user's turn and a place for its answer are stored in the journal, as `queued`.
2. Turns of one thread run one after another, in the order in which they arrived; threads don't wait for each other.
3. The prompt is made (`prompt.py`) and sent; it is recorded while the answer streams (`receive_stream.py`).
4. The answer is stored as it ended, and the jobs that follow are queued with it (`ending.py`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import takewhile

from recollect.domain.access import Caller
from recollect.domain.chat import Accepted, ChatRequest, Conversation
from recollect.domain.identity import thread_key
from recollect.domain.llm import ChatCall, Usage
from recollect.domain.model import JsonObject, Thread, ThreadRef, Turn
from recollect.domain.people import Preset
from recollect.errors import InvalidInput, ModelRefused, NotFound, RecollectError
from recollect.infra.backends.configured import Backends
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.off_loop import off_loop
from recollect.service.chat.context_builder import Prepared, PromptMaker
from recollect.service.chat.ending import STOPS_WITH_SERVER, ChatEnding, Done
from recollect.service.chat.epoch import Wanted
from recollect.service.chat.housekeeping import Housekeeping
from recollect.service.chat.receive_stream import Outcome, Patience, PromptRecorder, stream_llm
from recollect.service.chat.stream import LiveTurn, LiveTurns
from recollect.service.coordination import Clock
from recollect.service.models.backend_priority import Gate
from recollect.service.models.llama_slots import LlamaSlots
from recollect.service.people import preset_in_force, require_preset
from recollect.service.vault.images import Images

_log = logging.getLogger("recollect.chat")
_LAST_TURNS = 16
"""Enough to hold the last answer of a thread."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A turn that was accepted, until it has ended."""

    live: LiveTurn
    request: ChatRequest
    conversation: Conversation | None
    """What its prompt is made of; None where turns before it were still to end when it came."""


@dataclass(slots=True)
class _Lane:
    """The turns of one thread that wait, and the task that runs them."""

    waiting: deque[_Waiting] = field(default_factory=deque)
    accepting: asyncio.Lock = field(default_factory=asyncio.Lock)
    arrivals: int = 0
    runner: "asyncio.Task[None] | None" = None


class Chat:
    """`handle_chat_turn` and what belongs to it."""

    def __init__(
        self,
        store: SqlChatStore,
        threads: SqlThreadStore,
        people: SqlPresetStore,
        backends: Backends,
        prompts: PromptMaker,
        gate: Gate,
        slots: LlamaSlots,
        live: LiveTurns,
        images: Images,
        *,
        clock: Clock,
        max_turns: int,
        patience: Patience,
        on_answer: Callable[[str, Usage, float | None], None] = lambda backend, usage, ms: None,
    ) -> None:
        self._store = store
        self._threads = threads
        self._people = people
        self._backends = backends
        self._prompts = prompts
        self._gate = gate
        self._slots = slots
        self.live = live
        self._images = images
        self._clock = clock
        self._max_turns = max_turns
        self._patience = patience
        self._ending = ChatEnding(store, threads, patience)
        self._on_answer = on_answer
        self._lanes: dict[str, _Lane] = {}
        self._asking_whose = asyncio.Lock()
        self.housekeeping = Housekeeping(backends, people, gate, slots, patience, clock, on_answer)

    async def start(self) -> None:
        """After a kill: what was being answered is marked, and the next turn works."""
        if count := await self._store.recover():
            _log.info("%d turns were cut short by the last stop and are marked", count)

    async def stop(self) -> None:
        """What streams is stored as far as it got."""
        for lane in list(self._lanes.values()):
            for each in lane.waiting:
                each.live.stop(STOPS_WITH_SERVER)
        for live in self.live.all():
            live.stop(STOPS_WITH_SERVER)
        runners = [lane.runner for lane in self._lanes.values() if lane.runner is not None]
        await asyncio.gather(*runners, return_exceptions=True)
        await self.housekeeping.stop()
        await self._ending.stop()

    async def handle_chat_turn(self, caller: Caller, request: ChatRequest) -> LiveTurn:
        """Accept one turn; it is durable, in its place and on its way when this returns.

        A request whose key was used before, or the same unanswered message of a client that lost its connection,
        joins the turn that there is.
        """
        thread = await self._meant(caller, request)
        request = replace(request.with_texts(), user_id=thread.user_id)
        key = thread_key(thread)
        lane = self._lanes.setdefault(key, _Lane())
        lane.arrivals += 1
        try:
            # Before anything is waited for: whoever comes first is first.
            async with lane.accepting:
                await require_preset(self._people, caller.space, request.preset)
                request = await self._prompts.sources.taken_in(thread, request)
                shown = await self._images.taken_out(thread, (*request.earlier, *request.turns))
                earlier = len(request.earlier)
                request = replace(request, earlier=shown.turns[:earlier], turns=shown.turns[earlier:])
                said = [(turn.content, turn.parts, turn.tool_calls) for turn in request.turns]
                digest = await off_loop(said, request.digest)
                joined = await self._joined(thread, request, digest)
                if joined is not None:
                    return joined
                async with self._images.kept(thread, shown):
                    accepted, conversation = await self._accepted(lane, thread, request)
                live = LiveTurn(accepted, digest)
                self.live.add(live)
                lane.waiting.append(_Waiting(live, request, conversation))
                if lane.runner is None:
                    lane.runner = asyncio.create_task(self._run_lane(key, lane), name=f"chat-{key[:8]}")
                return live
        finally:
            lane.arrivals -= 1
            self._tidy(key, lane)

    async def _meant(self, caller: Caller, request: ChatRequest) -> ThreadRef:
        """In the order of arrival, also where the journal has to be asked whose thread it is."""
        acting = caller.acting_for(request.user_id)
        if acting is not None:
            return ThreadRef(caller.space, acting, request.thread_id)
        async with self._asking_whose:
            return await self._threads.meant(request.thread_id, space=caller.space)

    async def _accepted(
        self, lane: _Lane, thread: ThreadRef, request: ChatRequest
    ) -> tuple[Accepted, Conversation | None]:
        skip_reason = await self._skip_reason(thread, request)
        if lane.waiting:
            return await self._store.accept(thread.space, request, skip_reason), None
        return await self._store.accept_next(thread.space, request, self._max_turns + 1, skip_reason)

    async def _skip_reason(self, thread: ThreadRef, request: ChatRequest) -> str | None:
        """Why memory leaves this exchange alone, if it does."""
        if not request.memory:
            return request.left_alone or "memory is off for this message"
        preferences = await self._people.preferences(thread.space, thread.user_id)
        return None if preferences.auto_memory else "auto_memory is off"

    async def was_asked(self, thread: ThreadRef, key: str | None) -> bool:
        """Whether a request with this key came to the thread before."""
        return key is not None and await self._store.requested(thread, key) is not None

    async def _joined(self, ref: ThreadRef, request: ChatRequest, digest: bytes) -> LiveTurn | None:
        """The turn that this request asked for already, if it did."""
        if request.key is None and not self.live.is_any_running(ref):
            return None
        thread = await self._threads.find(ref)
        if thread is None:
            return None
        if request.key is not None:
            known = await self._store.requested(ref, request.key)
            if known is None:
                return None
            asked, answer = known
            if asked != digest:
                raise InvalidInput(
                    "Idempotency-Key: it was used for another message of this thread", field="Idempotency-Key"
                )
            if answer.status == "failed":
                return None  # It was never answered: the client may well ask again, while nothing was said since.
            return await self._live_or_stored(thread, answer)
        return self.unheard(thread, digest)

    def unheard(self, thread: Thread, digest: bytes) -> LiveTurn | None:
        """The answer to just this request that runs and that nobody listens to: its client lost its connection."""
        running = self.live.running(thread)
        if not running or running[-1].listeners:
            return None
        last = running[-1]
        return last if last.asked == digest and not last.stop_reason else None

    async def _live_or_stored(self, thread: Thread, answer: Turn) -> LiveTurn:
        found = self.live.get(thread, answer)
        if found is not None:
            return found
        live = LiveTurn(Accepted(thread, await self._question(thread, answer), (answer,)))
        receipt = await self._store.prompt(thread.ref, answer.turn_id)
        live.replay(answer, receipt.detail if receipt else {})
        return live

    async def _question(self, thread: Thread, answer: Turn) -> tuple[Turn, ...]:
        """What was said to get this answer; nothing where only another answer was asked for."""
        if answer.parent_id is not None:
            return ()
        before = await self._threads.get_history(thread.ref, _LAST_TURNS, before=answer.turn_id)
        said = takewhile(lambda turn: turn.role != "assistant", reversed(before))
        return tuple(said)[::-1]

    def forget(self, thread: ThreadRef) -> None:
        """Before a thread is deleted: what runs or waits in it ends, and nobody can join it any more."""
        lane = self._lanes.get(thread_key(thread))
        waiting = [each.live for each in lane.waiting] if lane is not None else []
        for live in (*waiting, *self.live.forget(thread)):
            live.stop("the thread was forgotten")

    async def join(self, thread: Thread, turn_id: str | None) -> LiveTurn:
        """A thread's answer to follow: the one named, else the one that streams, else the last one."""
        if turn_id is None:
            running = self.live.running(thread)
            if running:
                return running[0]
            last = await self._threads.get_history(thread.ref, _LAST_TURNS)
            answers = [turn for turn in last if turn.role == "assistant"]
            if not answers:
                raise NotFound("nothing streams in this thread, and nothing was answered yet")
            return await self._live_or_stored(thread, answers[-1])
        answer = await self._threads.turn(thread.ref, turn_id)
        if answer is None or answer.role != "assistant":
            raise NotFound(f"there is no answer {turn_id!r} in this thread")
        return await self._live_or_stored(thread, answer)

    def cancel(
        self, thread: Thread, *, everything: bool = False, turn_id: str | None = None
    ) -> list[LiveTurn]:
        """Stop the turn that runs, or that of `turn_id`; with `everything` those that wait, too."""
        running = [live for live in self.live.running(thread) if turn_id in (None, live.turn.turn_id)]
        stopped = running if everything else running[:1]
        for live in stopped:
            live.stop("it was cancelled")
        return stopped

    async def _run_lane(self, key: str, lane: _Lane) -> None:
        try:
            while lane.waiting:
                turn = lane.waiting[0]
                try:
                    await self._run(turn)
                except Exception:  # noqa: BLE001 - those that wait behind it are answered all the same
                    _log.exception("the end of a chat turn failed inside Recollect")
                finally:
                    # Whatever happened, it is over: nothing is answered twice, and nobody waits for ever.
                    lane.waiting.popleft()
                    self._let_go(turn.live)
        finally:
            lane.runner = None
            self._tidy(key, lane)

    def _let_go(self, live: LiveTurn) -> None:
        if not live.has_ended:
            live.end(live.turn, live.receipt, RecollectError("the answer could not be stored"))
        self.live.ended(live)

    def _tidy(self, key: str, lane: _Lane) -> None:
        if not lane.arrivals and not lane.waiting and lane.runner is None:
            self._lanes.pop(key, None)

    async def _run(self, turn: _Waiting) -> None:
        live, done = turn.live, Done()
        try:
            if live.stop_reason is not None:
                done.outcome.why = live.stop_reason
            else:
                await self._answer(turn, done)
        except RecollectError as error:
            done.outcome.error = error
        except Exception as error:  # noqa: BLE001 - the turn ends with it, and the next one works
            _log.exception("a chat turn failed inside Recollect")
            done.outcome.error = RecollectError(
                f"something went wrong inside Recollect: {type(error).__name__}"
            )
        await self._ending.end(live, turn.request, done)

    async def _answer(self, turn: _Waiting, done: Done) -> None:
        live, request = turn.live, turn.request
        accepted = live.accepted
        thread = accepted.thread
        preferences = await self._people.preferences(thread.space, thread.user_id)
        done.auto_skills = preferences.auto_skills
        conversation = turn.conversation or await self._store.conversation(accepted, self._max_turns + 1)
        thread = await self._with_preset(thread, request)
        preset = await preset_in_force(self._people, thread.space, thread.preset, preferences.preset)
        backend = self._backends.get(request.backend or preset.backend or thread.backend)
        facts = await backend.facts()
        wanted = Wanted(
            accepted=accepted,
            backend=backend,
            facts=facts,
            model=request.model or preset.model,
            instructions=_instructions(request, preset),
            max_turns=self._max_turns,
            max_tokens=request.answer_limit(preset.max_tokens, facts.context_tokens),
            now=self._clock(),
            time_zone=request.time_zone or preferences.time_zone,
            memory=request.memory,
            links=await self._prompts.sources.fetched(thread, preset, accepted.turns, conversation),
            has_tools=bool(request.options.get("tools")) or thread.agent_id is not None,
        )
        await self._send(live, request, preset, wanted, conversation, done)
        refused = isinstance(done.outcome.error, ModelRefused) and done.outcome.status == "failed"
        if refused and (told := await backend.facts()) != facts:
            # It was restarted with a smaller context, say: then the prompt is cut to that.
            wanted = replace(wanted, facts=told)
            await self._send(live, request, preset, wanted, conversation, done)

    async def _send(
        self,
        live: LiveTurn,
        request: ChatRequest,
        preset: Preset,
        wanted: Wanted,
        conversation: Conversation,
        done: Done,
    ) -> None:
        """Make the prompt, send it, and write it down."""
        done.prepared = prepared = await self._prompts.prepare(wanted, conversation)
        live.begun(prepared.sent.detail)
        writing = PromptRecorder(self._store, live.accepted, prepared.sent)
        try:
            done.outcome, done.detail = await self._stream(live, request, preset, wanted, prepared)
        finally:
            done.unwritten = await writing.ended()

    async def _with_preset(self, thread: Thread, request: ChatRequest) -> Thread:
        """A preset that a request names is the thread's from then on."""
        if request.preset is None or request.preset == thread.preset:
            return thread
        return await self._threads.update(thread.ref, {"preset": request.preset})

    async def _stream(
        self, live: LiveTurn, request: ChatRequest, preset: Preset, wanted: Wanted, prepared: Prepared
    ) -> tuple[Outcome, JsonObject]:
        thread = live.accepted.thread
        key = thread_key(thread.ref)
        options = dict(request.options)
        if preset.temperature is not None:
            options.setdefault("temperature", preset.temperature)
        async with self._gate.chat(wanted.backend, key):
            shown = await self._images.opened(thread.space, thread.user_id, prepared.messages)
            call = ChatCall(
                messages=shown.messages,
                model=wanted.model,
                max_tokens=prepared.max_tokens,
                options=options,
                choices=request.choices,
                session=session_of(thread.ref),
                slot=self._slots.take(wanted.backend, wanted.facts, key, begins=prepared.sent.opens_epoch),
                space=thread.space,
            )
            usage = Usage()
            try:
                outcome = await stream_llm(self._store, wanted.backend, call, live, self._patience)
                usage = outcome.finished.usage if outcome.finished else usage
            finally:
                self._slots.done(wanted.backend, key, usage)
        self._on_answer(wanted.backend.name, usage, outcome.first_token_ms)
        outcome.payload = shown.referring(outcome.payload)
        return outcome, {**outcome.told(), **shown.receipt()}


def session_of(thread: ThreadRef) -> str:
    """Names a thread to a backend's cache: the same for its whole life, another for every thread of every space."""
    return f"recollect-{thread_key(thread)}"


def _instructions(request: ChatRequest, preset: Preset) -> tuple[str, ...]:
    persona = f"You are {preset.persona}." if preset.persona else None
    texts = (preset.instructions, persona) if request.system_texts is None else request.system_texts
    return tuple(text for text in texts if text)
