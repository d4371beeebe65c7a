"""Recognise: which thread a client means that resends its history with every request, and what of it is new.

1. The client names a thread, or one of the owner's own is known by what is resent.
2. Where all of the history is known the thread goes on, or is answered again; where a part is, it branches there.
3. Where nothing is, a new thread is opened, and the history stored in it first.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.domain.access import Caller
from recollect.domain.chat import ChatRequest
from recollect.domain.history_matching import (
    COPY,
    QUOTATION,
    Sighting,
    all_digest,
    best_of,
    count_examples,
    count_history,
    is_silent,
    is_task_shaped,
    may_go_on,
    quotes_chat,
    said_digest,
    words_of,
)
from recollect.domain.identity import turn_number
from recollect.domain.model import DEFAULT_USER, JsonObject, NewTurn, ThreadRef, Turn
from recollect.errors import InvalidInput
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.history_matching import SqlHistoryMatching
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.off_loop import off_loop
from recollect.service.chat.stream import LiveTurn
from recollect.service.chat.turn import Chat

_NEAR = 50
"""Turns among which the call of a tool is looked for first."""
_QUOTED_CHATS, _QUOTED_TURNS = 10, 6
"""In how many of a user's newest chats, and how far back, a quotation is looked for."""


@dataclass(frozen=True, slots=True)
class ResentHistory:
    """All that a client sent, without its system messages, which are instructions. There is at least one message."""

    messages: tuple[NewTurn, ...]
    request: ChatRequest
    """The other options of the request. Matching finds the thread and the turns."""
    thread_id: str | None = None
    """Where the client names it."""
    places: tuple[int, ...] = ()
    """Where each message stood in what the client sent, for telling it of one that is wrong."""
    chat_id: str | None = None
    """What a front end calls the conversation; its own requests about one (a title, tags) have the same."""
    examples: int = 0
    """How many of the messages, from the first on, the client calls examples."""
    appended: bool = False
    """All of it is new, and follows `parent_id`, or the end of the thread that the client names."""
    parent_id: str | None = None
    field: str = "messages"
    """What the client's protocol calls the messages."""
    waiting: str | None = None
    """Threads whose ids begin so wait for an answer to what was last said in them, if this is it."""

    def only_message(self) -> str | None:
        """What a person says who opens a conversation, or a chat app about one. None: it goes on with something."""
        said = [message for message in self.messages if message.role != "system"]
        return words_of(said[0]) if len(said) == 1 and said[0].role == "user" and not self.appended else None

    def is_housekeeping(self) -> bool:
        """Whether a chat app asks it by itself, to judge by its shape."""
        text = self.only_message()
        instructions = [message.content for message in self.messages if message.role == "system"]
        return text is not None and is_task_shaped(text, [*instructions, *(self.request.system_texts or ())])


@dataclass(frozen=True, slots=True)
class _Owner:
    space: str
    user_id: str

    def thread(self, thread_id: str) -> ThreadRef:
        return ThreadRef(self.space, self.user_id, thread_id)


@dataclass(frozen=True, slots=True)
class _Told:
    """The messages that say something, and the digest of what each says."""

    messages: list[NewTurn]
    said: list[bytes]

    @classmethod
    def of(cls, messages: Sequence[NewTurn]) -> "_Told":
        digests = [(message, said_digest(message)) for message in messages]
        said = [(message, digest) for message, digest in digests if digest is not None]
        return cls([message for message, _ in said], [digest for _, digest in said])


@dataclass(frozen=True, slots=True)
class HistoryMatching:
    """`handle_chat_turn` for clients that keep their history themselves."""

    chat: Chat
    histories: SqlHistoryMatching
    threads: SqlThreadStore
    chats: SqlChatStore

    async def handle(self, caller: Caller, resent: ResentHistory) -> LiveTurn:
        """Durable, in its place and on its way when this returns."""
        user_id = caller.acting_for(resent.request.user_id)
        if resent.appended:
            return await self._append(caller, _Owner(caller.space, user_id or DEFAULT_USER), resent)
        said = [(turn.content, turn.parts, turn.tool_calls) for turn in resent.messages]
        told = await off_loop(said, lambda: _Told.of(resent.messages), count=len(said))
        messages = told.messages
        if not messages:
            raise InvalidInput(f"{resent.field}: nothing was said", field=resent.field)
        digest = await off_loop(said, lambda: all_digest(messages), count=len(said))
        if resent.thread_id is not None:
            thread = await self.threads.meant(resent.thread_id, space=caller.space, user_id=user_id)
            owner = _Owner(thread.space, thread.user_id)
            is_new = await self.threads.find(thread) is None
            placed: ChatRequest | None = await self._named(owner, resent.thread_id, told, is_new=is_new)
        else:
            owner = _Owner(caller.space, user_id or DEFAULT_USER)
            placed = await self._in_chat(owner, resent.chat_id, told)
            if placed is None:
                begun = await self.histories.from_the_beginning(owner.space, owner.user_id, told.said)
                placed = _waited_in(begun, told, resent.waiting)
                placed = placed or await self._matched(owner, told, begun, digest, resent.request.key)
        placed = placed or _opened(_new_id(owner, resent.request.key, digest), messages)
        await self._refuse_orphans(owner, placed, resent)
        examples = max(placed.examples, _named_examples(placed, resent))
        # A chat app asks about the chat, as a rule. It may be a person, too: so it is kept, apart from their chats.
        quotes = await self._quotes_chat(owner, resent)
        request = replace(
            resent.request,
            memory=resent.request.memory and not quotes,
            left_alone=QUOTATION if quotes else None,
            thread_id=placed.thread_id,
            turns=placed.turns,
            earlier=placed.earlier,
            examples=examples,
            one_shot=quotes
            or (resent.thread_id is None and resent.chat_id is None and len(placed.earlier) == examples),
            parent_id=placed.parent_id,
            user_id=owner.user_id,
            resent=digest,
        )
        return await self.chat.handle_chat_turn(caller, request)

    async def _quotes_chat(self, owner: _Owner, resent: ResentHistory) -> bool:
        """Whether it opens a conversation and quotes a chat that it is no part of."""
        text = resent.only_message()
        if resent.thread_id is not None or text is None or "\n" not in text:
            return False
        if resent.chat_id is not None:
            chats = [await self.threads.get_history(owner.thread(resent.chat_id), _QUOTED_TURNS)]
        else:
            chats = await self.threads.newest_turns(owner.space, owner.user_id, _QUOTED_CHATS, _QUOTED_TURNS)
        return any(quotes_chat(text, turns) for turns in chats)

    async def _append(self, caller: Caller, owner: _Owner, resent: ResentHistory) -> LiveTurn:
        assert resent.thread_id is not None
        placed = replace(_opened(resent.thread_id, resent.messages), parent_id=resent.parent_id)
        await self._refuse_orphans(owner, placed, resent)
        request = replace(
            resent.request,
            thread_id=placed.thread_id,
            turns=placed.turns,
            earlier=placed.earlier,
            parent_id=placed.parent_id,
            user_id=owner.user_id,
        )
        return await self.chat.handle_chat_turn(caller, request)

    async def _refuse_orphans(self, owner: _Owner, placed: ChatRequest, resent: ResentHistory) -> None:
        """A tool's result whose call nobody knows could not be shown to the model: its client must hear of it."""
        new = {id(turn) for turn in (*placed.earlier, *placed.turns)}
        orphans = [n for n in _orphaned_results(resent.messages) if id(resent.messages[n]) in new]
        if not orphans:
            return
        unknown = orphans
        for most in (_NEAR, None):  # Most results follow their calls closely.
            known = await self.threads.get_history(owner.thread(placed.thread_id), most)
            called = {call_id for turn in known for call_id in _called(turn)}
            unknown = [number for number in orphans if resent.messages[number].tool_call_id not in called]
            if not unknown:
                return
        place = resent.places[unknown[0]] if resent.places else unknown[0]
        where = f"{resent.field}[{place}]"
        raise InvalidInput(
            f"{where}: the result of a tool without the call that it answers before it",
            field=f"{where}.tool_call_id" if resent.field == "messages" else f"{where}.call_id",
        )

    async def _named(self, owner: _Owner, thread_id: str, told: _Told, *, is_new: bool) -> ChatRequest:
        """Match within the thread the client names. A client that sends only new messages adds them at its end."""
        messages = told.messages
        history = count_history(messages)
        if is_new:
            return _opened(thread_id, messages)
        if history:
            sighting = best_of(await self._sightings(owner, told, thread_id))
            if sighting is not None:
                return _going_on(sighting, messages)
        return ChatRequest(thread_id, turns=tuple(messages[history:]))

    async def _in_chat(self, owner: _Owner, chat_id: str | None, told: _Told) -> ChatRequest | None:
        """The thread of that id, where it is new or the messages go on from what was said in it. None: it is not meant."""
        if chat_id is None:
            return None
        if await self.threads.find(owner.thread(chat_id)) is None:
            return _opened(chat_id, told.messages)
        sighting = best_of(await self._sightings(owner, told, chat_id))
        return None if sighting is None else _going_on(sighting, told.messages)

    async def ends_with(self, thread: ThreadRef, said: Sequence[NewTurn]) -> list[Turn]:
        """The thread's last turns, if they are the first of these, up to an answer that was given there."""
        last = await self.threads.get_history(thread, len(said))
        digests, wanted = [said_digest(turn) for turn in last], [said_digest(turn) for turn in said]
        for known in range(len(last), 0, -1):
            if last[-1].role == "assistant" and digests[-known:] == wanted[:known]:
                given = last[-1].model is not None or await self.chats.receipts(thread, last[-1:])
                return list(last[-known:]) if given else []
        return []

    async def leave_copy(self, thread: ThreadRef, copied: Sequence[Turn]) -> JsonObject:
        """Have memory leave alone what a new thread begins with, if just that was asked and answered in another one.

        Returns the thread and the turns there, where nothing was said after them, for a receipt.
        """
        said = [digest for turn in copied if (digest := said_digest(turn)) is not None]
        found = await self.histories.from_the_beginning(thread.space, thread.user_id, said)
        seen = [each for each in found if each.known == len(said) and each.answered]
        seen = [each for each in seen if each.thread_id != thread.thread_id]
        if seen:
            await self.chats.leave_examples(thread, 1, len(copied), COPY)
        for each in seen:
            last = await self.threads.get_history(thread._replace(thread_id=each.thread_id), len(copied))
            if last[-1].turn_id == each.turn_id and [said_digest(turn) for turn in last] == said:
                return {"thread": each.thread_id, "turns": [turn.turn_id for turn in last]}
        return {}

    async def _matched(
        self, owner: _Owner, told: _Told, begun: list[Sighting], digest: bytes, key: str | None
    ) -> ChatRequest | None:
        seen = await self._sightings(owner, told, begun=begun)
        found = [
            sighting
            for sighting in seen
            if may_go_on(sighting, told.messages) or await self._is_waited_for(owner, sighting, digest)
        ]
        sighting = best_of(found)
        if sighting is None:
            return await self._opened_with_examples(owner, told, seen, _new_id(owner, key, digest))
        if not sighting.is_tip and not await self.chat.was_asked(owner.thread(sighting.thread_id), key):
            sighting = await self._ends_with_history(owner, told, sighting.known) or sighting
        return _going_on(sighting, told.messages)

    async def _opened_with_examples(
        self, owner: _Owner, told: _Told, seen: Sequence[Sighting], thread_id: str
    ) -> ChatRequest:
        """A new thread. What its client has put first in others is left alone by memory, there and here."""
        opened = _opened(thread_id, told.messages)
        examples = count_examples(told.messages, seen)
        if not examples:
            return opened
        for each in (each for each in seen if each.known >= examples and not each.answered):
            last = (turn_number(each.turn_id) or 0) - (each.known - examples)
            await self.chats.leave_examples(owner.thread(each.thread_id), last - examples + 1, last)
        return replace(opened, examples=examples)

    async def _ends_with_history(self, owner: _Owner, told: _Told, known: int) -> Sighting | None:
        """Prefer a thread that ends where the history does over one in which the same was said next."""
        history = count_history(told.messages)
        if not 0 < history < known:
            return None
        found = await self.histories.from_the_beginning(owner.space, owner.user_id, told.said[:history])
        tips = [each for each in found if each.known == history and each.is_tip and each.answered]
        return best_of(tips)

    async def _is_waited_for(self, owner: _Owner, sighting: Sighting, digest: bytes) -> bool:
        """A client that lost its connection asks for the answer that is on its way."""
        if not self.chat.live.is_any_running(owner.thread(sighting.thread_id)):
            return False
        thread = await self.threads.find(owner.thread(sighting.thread_id))
        return thread is not None and self.chat.unheard(thread, digest) is not None

    async def _sightings(
        self,
        owner: _Owner,
        told: _Told,
        thread_id: str | None = None,
        begun: list[Sighting] | None = None,
    ) -> list[Sighting]:
        """Where the longest parts of the messages end that are known; `begun`, where they begin a thread, if known."""
        said, found = told.said, begun
        if _shows_more_than_text(told.messages[-1]):
            said, found = said[:-1], None  # Its words don't tell what it shows: it counts as new.
        if found is None:
            found = await self.histories.from_the_beginning(owner.space, owner.user_id, said, thread_id)
        known = found[0].known if found else 0
        if known < count_history(told.messages):
            found = found + await self.histories.in_the_middle(
                owner.space, owner.user_id, said, known, thread_id
            )
        return found


def _waited_in(begun: Sequence[Sighting], told: _Told, prefix: str | None) -> ChatRequest | None:
    """The one thread with this prefix that ends with just these messages, unanswered. None where several do."""
    if prefix is None or told.messages[-1].role == "assistant":
        return None
    ends = [
        each
        for each in begun
        if each.known == len(told.said) and each.is_tip and each.thread_id.startswith(prefix)
    ]
    return _going_on(ends[0], told.messages) if len(ends) == 1 else None


def _going_on(sighting: Sighting, messages: Sequence[NewTurn]) -> ChatRequest:
    """What is known keeps its turns; the rest follows the last of them."""
    rest = messages[sighting.known :]
    history = count_history(rest)
    return ChatRequest(
        sighting.thread_id,
        turns=tuple(rest[history:]),
        earlier=tuple(rest[:history]),
        parent_id=sighting.turn_id,
    )


def _opened(thread_id: str, messages: Sequence[NewTurn]) -> ChatRequest:
    history = count_history(messages)
    return ChatRequest(thread_id, turns=tuple(messages[history:]), earlier=tuple(messages[:history]))


def _named_examples(placed: ChatRequest, resent: ResentHistory) -> int:
    """How many of what is stored first are called examples; what is known already was stored before."""
    called = {id(message) for message in resent.messages[: resent.examples]}
    return sum(id(message) in called for message in placed.earlier)


def _orphaned_results(messages: Sequence[NewTurn]) -> list[int]:
    """Places of the results that don't follow their calls, with nothing but other results in between."""
    orphans: list[int] = []
    called: set[str] = set()
    for number, message in enumerate(messages):
        if message.role == "tool" and message.tool_call_id not in called:
            orphans.append(number)
        elif message.role == "assistant" and not is_silent(message):
            called = _called(message)
        elif message.role == "user":
            called = set()
    return orphans


def _called(turn: Turn | NewTurn) -> set[str]:
    return {str(call.get("id")) for call in turn.tool_calls or ()}


def _shows_more_than_text(message: NewTurn) -> bool:
    return any(part.get("type") != "text" for part in message.parts or ())


def _new_id(owner: _Owner, key: str | None, digest: bytes) -> str:
    """The same for a request that is sent again with its key: it joins the thread that it opened."""
    if key is None:
        return f"t_{secrets.token_hex(8)}"
    asked = "\x00".join([owner.space, owner.user_id, key]).encode() + digest
    return f"t_{hashlib.sha256(asked).hexdigest()[:16]}"
