"""The part of a chat's prompt that a backend has cached, so that background work can append to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.domain.extraction.draft import StoredCell
from recollect.domain.identity import place_of
from recollect.domain.model import JsonObject, ThreadRef
from recollect.infra.backends.configured import Backends
from recollect.infra.backends.dialect import guess_tokens
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.chat.turn import session_of
from recollect.service.models.background import ChatPrefix
from recollect.service.models.choice import ThreadModels
from recollect.service.vault.images import Images

_ROOM_TOKENS = 3_000
"""For an instruction and its answer, at least."""


@dataclass(frozen=True, slots=True)
class LivePrefixes:
    """A thread's live prompt, where the backend that does the background work is the one that chats."""

    backends: Backends
    models: ThreadModels
    chats: SqlChatStore
    threads: SqlThreadStore
    images: Images

    async def of_epoch(self, thread: ThreadRef, epoch: int) -> ChatPrefix | None:
        """None where that epoch has ended."""
        return await self._prefix(thread, await self._messages(thread, epoch=epoch))

    async def holding(self, cell: StoredCell) -> ChatPrefix | None:
        """None where some of the cell's turns are no longer in the prompt, or it is no longer in a cache nearby."""
        thread = cell.thread.ref
        chatting = await self.models.chatting(thread)
        facts = await chatting.backend.facts()
        if not facts.local:
            return None
        places = [place_of(turn) for turn in cell.turns]
        messages = await self._messages(thread, holding=places)
        if messages is None:
            return None
        tokens = sum(guess_tokens(str(message.get("content") or "")) + 8 for message in messages)
        if facts.context_tokens is not None and tokens + _ROOM_TOKENS > facts.context_tokens:
            return None
        return await self._prefix(thread, messages)

    async def _messages(
        self, thread: ThreadRef, *, epoch: int | None = None, holding: Sequence[int] = ()
    ) -> list[JsonObject] | None:
        if self.backends.tasks is not self.backends.get():
            return None
        return await self.chats.live_prompt(thread, epoch, holding)

    async def _prefix(self, thread: ThreadRef, messages: list[JsonObject] | None) -> ChatPrefix | None:
        if messages is None:
            return None
        shown = await self.images.opened(thread.space, thread.user_id, messages)
        return ChatPrefix(shown.messages, session_of(thread))
