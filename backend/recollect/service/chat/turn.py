"""Chat: one turn of a conversation, from the user's words to the stored answer and the work that follows.

1. On arrival the user's turn and a place for its answer are stored in the journal, as `queued`.
2. Turns of one thread run one after another, in the order in which they arrived; threads don't wait for each other.
3. The prompt is made (`context_builder.py`) and sent; it is recorded while the answer streams (`answer.py`).
4. The answer is stored as it ended, and the jobs that follow are queued with it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile

from recollect.domain.access import Caller
from recollect.domain.chat import Accepted, ChatRequest, Conversation
from recollect.domain.identity import session_of, thread_key
from recollect.domain.llm import ChatCall, Usage
from recollect.domain.model import Thread, ThreadRef, Turn
from recollect.domain.people import Preferences, Preset
from recollect.errors import InvalidInput, ModelRefused, NotFound, RecollectError
from recollect.infra.backends.configured import Backends
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.off_loop import off_loop
from recollect.service.chat.answer import (
    STOPS_WITH_SERVER,
    ChatCalls,
    ChatEnding,
    Outcome,
    Patience,
    PromptRecorder,
    as_recollect_error,
)
from recollect.service.chat.context_builder import PromptMaker
from recollect.service.chat.epoch import Draft
from recollect.service.chat.housekeeping import Housekeeping
from recollect.service.chat.stream import LiveTurn, LiveTurns
from recollect.service.coordination import Clock
from recollect.service.models.backend_priority import Gate
from recollect.service.models.llama_slots import LlamaSlots
from recollect.service.people import preset_in_force, require_preset
from recollect.service.vault.images import Images

_log = logging.getLogger("recollect.chat")
_LAST_TURNS = 16
"""Enough to hold the last answer of a thread."""


@dataclass(slots=True)
class _Lane:
    """The turns of one thread that wait, each with what answers it, and the task that runs them."""

    waiting: deque[tuple[LiveTurn, Callable[[], Awaitable[None]]]] = field(default_factory=deque)
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
        self.live = live
        self._images = images
        self._clock = clock
        self._max_turns = max_turns
        self._ending = ChatEnding(store, patience)
        self._calls = ChatCalls(gate, slots, patience, on_answer)
        self._lanes: dict[str, _Lane] = {}
        self._asking_whose = asyncio.Lock()
        self.housekeeping = Housekeeping(backends, people, self._calls, clock)

    async def start(self) -> None:
        """After a kill: what was being answered is marked, and the next turn works."""
        if count := await self._store.recover():
            _log.info("%d turns were cut short by the last stop and are marked", count)

    async def stop(self) -> None:
        """What streams is stored as far as it got."""
        for lane in list(self._lanes.values()):
            for live, _ in lane.waiting:
                live.stop(STOPS_WITH_SERVER)
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
                preferences = await self._people.preferences(thread.space, thread.user_id)
                request = await self._prompts.sources.taken_in(thread, request, preferences)
                shown = await self._images.taken_out(thread, (*request.earlier, *request.turns))
                earlier = len(request.earlier)
                request = replace(request, earlier=shown.turns[:earlier], turns=shown.turns[earlier:])
                said = [(turn.content, turn.parts, turn.tool_calls) for turn in request.turns]
                digest = await off_loop(said, request.digest)
                joined = await self._joined(thread, request, digest)
                if joined is not None:
                    return joined
                async with self._images.kept(thread, shown):
                    skip_reason = _skip_reason(request, preferences)
                    accepted, conversation = await self._accepted(lane, thread, request, skip_reason)
                live = LiveTurn(accepted, digest)
                self.live.add(live)
                answer = partial(self._answer, live, request, preferences, conversation)
                lane.waiting.append((live, answer))
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
        self, lane: _Lane, thread: ThreadRef, request: ChatRequest, skip_reason: str | None
    ) -> tuple[Accepted, Conversation | None]:
        """What its prompt is made of, too, unless turns before it are still to end."""
        if lane.waiting:
            return await self._store.accept(thread.space, request, skip_reason), None
        return await self._store.accept_next(thread.space, request, self._max_turns + 1, skip_reason)

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
        waiting = [live for live, _ in lane.waiting] if lane is not None else []
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
                live, answer = lane.waiting[0]
                try:
                    await answer()
                except Exception:  # noqa: BLE001 - those that wait behind it are answered all the same
                    _log.exception("the end of a chat turn failed inside Recollect")
                finally:
                    # Whatever happened, it is over: nothing is answered twice, and nobody waits for ever.
                    lane.waiting.popleft()
                    self._let_go(live)
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

    async def _answer(
        self,
        live: LiveTurn,
        request: ChatRequest,
        preferences: Preferences,
        conversation: Conversation | None,
    ) -> None:
        outcome = Outcome(status="failed")
        try:
            if live.stop_reason is not None:
                outcome.why = live.stop_reason
            else:
                if conversation is None:
                    conversation = await self._store.conversation(live.accepted, self._max_turns + 1)
                preset, draft = await self._begun(live.accepted, request, preferences, conversation)
                outcome = await self._sent(live, request, preset, draft)
                refused = isinstance(outcome.error, ModelRefused) and outcome.status == "failed"
                if refused and (told := await draft.backend.facts()) != draft.facts:
                    # It was restarted with a smaller context, say: then the prompt is cut to that.
                    outcome = await self._sent(live, request, preset, replace(draft, facts=told))
        except Exception as error:  # noqa: BLE001 - the turn ends with it, and the next one works
            outcome.error = as_recollect_error(error, "a chat turn")
        await self._ending.end(live, request, outcome, auto_skills=preferences.auto_skills)

    async def _begun(
        self,
        accepted: Accepted,
        request: ChatRequest,
        preferences: Preferences,
        conversation: Conversation,
    ) -> tuple[Preset, Draft]:
        """The preset in force, and the draft of the prompt."""
        thread = await self._with_preset(accepted.thread, request)
        preset = await preset_in_force(self._people, thread.space, thread.preset, preferences.preset)
        backend = self._backends.get(request.backend or preset.backend or thread.backend)
        facts = await backend.facts()
        return preset, Draft(
            accepted=accepted,
            conversation=conversation,
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

    async def _sent(self, live: LiveTurn, request: ChatRequest, preset: Preset, draft: Draft) -> Outcome:
        """Make the prompt, send it, and write it down."""
        sent = await self._prompts.prepare(draft)
        live.begun(sent.detail)
        writing = PromptRecorder(self._store, live.accepted, sent)
        outcome = Outcome(status="failed")
        try:
            outcome = await self._streamed(live, request, preset, draft, begins=sent.opens_epoch)
        except Exception as error:  # noqa: BLE001 - what was sent is known all the same
            outcome.error = as_recollect_error(error, "a chat turn")
        finally:
            outcome.unwritten = await writing.ended()
        outcome.draft, outcome.sent = draft, sent
        return outcome

    async def _with_preset(self, thread: Thread, request: ChatRequest) -> Thread:
        """A preset that a request names is the thread's from then on."""
        if request.preset is None or request.preset == thread.preset:
            return thread
        return await self._threads.update(thread.ref, {"preset": request.preset})

    async def _streamed(
        self, live: LiveTurn, request: ChatRequest, preset: Preset, draft: Draft, *, begins: bool
    ) -> Outcome:
        thread = live.accepted.thread
        options = dict(request.options)
        if preset.temperature is not None:
            options.setdefault("temperature", preset.temperature)
        shown = await self._images.opened(thread.space, thread.user_id, draft.messages)
        call = ChatCall(
            messages=shown.messages,
            model=draft.model,
            max_tokens=draft.answer_limit,
            options=options,
            choices=request.choices,
            session=session_of(thread.ref),
            space=thread.space,
        )
        key = thread_key(thread.ref)
        outcome = await self._calls.stream(
            self._store, draft.backend, draft.facts, call, live, key, begins=begins
        )
        outcome.payload = shown.referring(outcome.payload)
        outcome.detail = {**outcome.told(), **shown.receipt()}
        return outcome


def _skip_reason(request: ChatRequest, preferences: Preferences) -> str | None:
    """Why memory leaves this exchange alone, if it does."""
    if not request.memory:
        return request.left_alone or "memory is off for this message"
    return None if preferences.auto_memory else "auto_memory is off"


def _instructions(request: ChatRequest, preset: Preset) -> tuple[str, ...]:
    persona = f"You are {preset.persona}." if preset.persona else None
    texts = (preset.instructions, persona) if request.system_texts is None else request.system_texts
    return tuple(text for text in texts if text)
