"""Which backend and model a thread's background work asks."""

from recollect.infra.sql.chat_store import SqlChatStore
from recollect.infra.sql.people_store import SqlPeopleStore
from recollect.infra.sql.thread_store import SqlThreadStore
from recollect.service.background_model import ThreadModel
from recollect.service.presets import preset_in_force
from recollect.wiring.backends import Backends


class ThreadModels:
    """The one for background work where it is configured, else the one that the thread chats with.

    Another one would get words that were not meant for it, and on a local server take the place of the chat's model.
    """

    def __init__(
        self, backends: Backends, chats: SqlChatStore, threads: SqlThreadStore, people: SqlPeopleStore
    ) -> None:
        self._backends = backends
        self._chats = chats
        self._threads = threads
        self._people = people

    async def of(self, space: str, thread_id: str) -> ThreadModel:
        if self._backends.tasks is not self._backends.get():
            return ThreadModel(self._backends.tasks)
        return await self.chatting(space, thread_id)

    async def chatting(self, space: str, thread_id: str) -> ThreadModel:
        """The one that gave its last whole answer; before the first, the one that its preset or the thread itself names."""
        last = await self._chats.last_cache(space, thread_id)
        name, _, model = (last or "").partition("/")
        if (
            name in self._backends.names
        ):  # It may be gone from the settings: then the next prompt goes elsewhere, too.
            return ThreadModel(self._backends.get(name), model or None)
        thread = await self._threads.get_thread(thread_id, space=space)
        if thread is None:
            return ThreadModel(self._backends.get())
        preferences = await self._people.preferences(space, thread.user_id)
        preset = await preset_in_force(self._people, space, thread.preset, preferences.preset)
        return ThreadModel(self._backends.get(preset.backend or thread.backend), preset.model)
