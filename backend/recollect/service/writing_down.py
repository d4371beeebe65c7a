"""Writing down what is sent to a model: beside its answer, which it need not hold up."""

import asyncio
import logging

from recollect.errors import RecollectError
from recollect.memory.chat import Accepted, SentPrompt
from recollect.service.ports import ChatStore

AFTER_SECONDS = 0.05
_log = logging.getLogger("recollect.chat")


class WritingDown:
    """Of one prompt. What the user said is durable since it was accepted; an answer that has ended before this begins
    is written down together with its prompt, in one transaction.
    """

    def __init__(self, store: ChatStore, accepted: Accepted, prompt: SentPrompt) -> None:
        self._store, self._accepted, self._prompt = store, accepted, prompt
        self._task: asyncio.Task[bool] | None = None
        self._timer = asyncio.get_running_loop().call_later(AFTER_SECONDS, self._start)

    async def ended(self) -> SentPrompt | None:
        """Waits for what is under way. Returns what is still to be written, with the answer."""
        self._timer.cancel()
        is_written = self._task is not None and await self._task
        return None if is_written else self._prompt

    def _start(self) -> None:
        self._task = asyncio.create_task(self._write())

    async def _write(self) -> bool:
        thread = self._accepted.thread
        try:
            await self._store.begin(thread.space, thread.thread_id, self._accepted, self._prompt)
        except RecollectError as error:
            _log.warning("a prompt could not be written down yet: %s", error.message)
            return False
        return True
