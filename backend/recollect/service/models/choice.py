"""The models that all backends have together, and which one a name or a thread means."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from recollect.domain.llm import find_model
from recollect.domain.model import ThreadRef
from recollect.errors import ModelUnavailable, UnknownModel
from recollect.infra.backends.configured import Backends
from recollect.infra.backends.port import Backend
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.models.background import ThreadModel
from recollect.service.people import preset_in_force

OWN_CHOICE = "recollect"
"""The model that thread, preset or default backend choose."""


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model under the name by which a client asks for it."""

    name: str
    backend: str


async def offered_models(backends: Backends) -> list[OfferedModel]:
    """Of all backends that answer. A name that several have comes with the backend's in front."""
    listed = await _listed(backends)
    count = Counter(model for _, models in listed for model in models)
    offered = [
        OfferedModel(model if count[model] == 1 else f"{backend}/{model}", backend)
        for backend, models in listed
        for model in models
    ]
    return [OfferedModel(OWN_CHOICE, OWN_CHOICE), *offered]


async def offered_model(backends: Backends, name: str) -> OfferedModel:
    """Raises UnknownModel, which names those there are."""
    offered = await offered_models(backends)
    for model in offered:
        if name in (model.name, f"{model.backend}/{model.name}"):
            return model
    names = ", ".join(model.name for model in offered[:20])
    raise UnknownModel(f"there is no model {name!r}. There are: {names}", field="model")


async def chosen_model(backends: Backends, name: str | None) -> tuple[str | None, str | None]:
    """Backend and model that a name means: as it is listed somewhere, else in another spelling; the default first.

    A name that no backend lists is left for the default to make sense of.
    """
    if name is None or name == OWN_CHOICE:
        return None, None
    backend, slash, model = name.partition("/")
    if backend in backends.names:
        return backend, model if slash and model else None
    distinct = _distinct(backends)
    default = next(iter(distinct))
    if len(distinct) == 1:
        return None, name
    if name in await _models_of(distinct[default]):
        return default, name
    listed = await _listed(backends, and_configured=True)
    found = [backend for backend, models in listed if name in models]
    found += [backend for backend, models in listed if find_model(name, models) is not None]
    return (found[0] if found else None), name


async def _listed(backends: Backends, *, and_configured: bool = False) -> list[tuple[str, tuple[str, ...]]]:
    """Names of models by backend; of one that doesn't answer none, or those that its settings name."""
    distinct = _distinct(backends)
    found = await asyncio.gather(*(_models_of(backend) for backend in distinct.values()))
    return [
        (name, models or (backends.configured_models(name) if and_configured else ()))
        for name, models in zip(distinct, found, strict=True)
    ]


async def _models_of(backend: Backend) -> tuple[str, ...]:
    try:
        return (await backend.facts()).models
    except ModelUnavailable:
        return ()  # It says so in health, and to whoever asks for it.


def _distinct(backends: Backends) -> dict[str, Backend]:
    """Each backend once: the default may have a name of its own, too."""
    by_identity = {id(backends.get(name)): name for name in backends.names}
    return {name: backends.get(name) for name in by_identity.values()}


class ThreadModels:
    """The one for background work where it is configured, else the one that the thread chats with.

    Another one would get words that were not meant for it, and on a local server take the place of the chat's model.
    """

    def __init__(
        self, backends: Backends, chats: SqlChatStore, threads: SqlThreadStore, people: SqlPresetStore
    ) -> None:
        self._backends = backends
        self._chats = chats
        self._threads = threads
        self._people = people

    async def of(self, thread: ThreadRef) -> ThreadModel:
        if self._backends.tasks is not self._backends.get():
            return ThreadModel(self._backends.tasks)
        return await self.chatting(thread)

    async def chatting(self, ref: ThreadRef) -> ThreadModel:
        """The one that gave its last whole answer; before the first, the one that its preset or the thread itself names."""
        last = await self._chats.last_cache(ref)
        name, _, model = (last or "").partition("/")
        # One that is gone from the settings is not asked: the next prompt goes elsewhere too.
        if name in self._backends.names:
            backend = self._backends.get(name)
            if not self._backends.configured and find_model(model, await _models_of(backend)) is None:
                model = ""  # Another server runs on this machine by now.
            return ThreadModel(backend, model or None)
        thread = await self._threads.find(ref)
        if thread is None:
            return ThreadModel(self._backends.get())
        preferences = await self._people.preferences(ref.space, ref.user_id)
        preset = await preset_in_force(self._people, ref.space, thread.preset, preferences.preset)
        return ThreadModel(self._backends.get(preset.backend or thread.backend), preset.model)
