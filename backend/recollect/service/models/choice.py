"""Which model a name or a thread means, and the default one: where it comes from, and connecting another."""

import asyncio
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import SecretStr

from recollect.domain.access import DEFAULT_SPACE, Caller
from recollect.domain.llm import BackendFacts, ChatCall, Finished, find_model
from recollect.domain.model import ThreadRef
from recollect.errors import Conflict, InvalidInput, ModelUnavailable, Refused, UnknownModel
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.configured import DEFAULT, Backend, Backends, endpoints
from recollect.infra.backends.local_model import LocalModel
from recollect.infra.backends.server import Endpoint
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.settings_file import write_settings
from recollect.service.models.background import ThreadModel
from recollect.service.people import preset_in_force
from recollect.settings import Settings, set_in_environment, settings_file, variable_of

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


_TABLE = "llm"
_FIELDS = ("base_url", "api_key", "model")
_VARIABLES = [variable_of((_TABLE, name)) for name in _FIELDS]
_HELLO = "Answer with the word yes."
_MOST_TOKENS = 16
_LONGEST_SECONDS = 60.0
"""A server may have to load the model first."""
Source = Literal["settings", "found", "demonstration", "none"]


@dataclass(frozen=True, slots=True)
class DefaultModel:
    """What answers chats that name no backend. `fixed_by` is the variable that a form can't change, if there is one."""

    source: Source
    server: str | None
    fixed_by: str | None


@dataclass(frozen=True, slots=True)
class Connected:
    """A model that has just answered."""

    model: str | None
    facts: BackendFacts


async def default_model(backends: Backends, small_model: LocalModel, settings: Settings) -> DefaultModel:
    """Asks who runs on this machine, where none is configured; starts nothing."""
    source: Source = "none"
    if backends.configured:
        source = "settings"
    elif await backends.has_chat_model():
        source = "found"
    elif small_model.is_set_up():
        source = "demonstration"
    server = backends.get().server if source == "settings" else None
    is_member = settings.member_url is not None  # What is set in its home, others don't see.
    return DefaultModel(source, server, _fixed_by() or (_VARIABLES[0] if is_member else None))


def may_connect(caller: Caller) -> bool:
    """Everybody's words go to the default model: only the operator of the server chooses it."""
    return caller.local_operator or (caller.user_id is None and caller.space == DEFAULT_SPACE)


async def connect_model(
    caller: Caller, settings: Settings, base_url: str, api_key: str | None, model: str | None
) -> tuple[Settings, Connected]:
    """Try the model with one short call, and write it into `recollect.toml`; returns the settings that name it.

    Raises InvalidInput, which names the field that is wrong; Conflict where the environment takes precedence, or the
    server is one of several.
    """
    if not may_connect(caller):
        raise Refused(
            "the model is everybody's: use a key of the space 'default' that belongs to no single user"
        )
    if (variable := _fixed_by()) is not None:
        raise Conflict(
            f"{variable} is set where the server was started, and takes precedence: change it there"
        )
    if settings.member_url is not None:
        raise Conflict(
            "this server is one of several, and the others would not see what is set in its home:"
            f" set {', '.join(_VARIABLES)} where they are started"
        )
    given = {"base_url": base_url, "api_key": SecretStr(api_key) if api_key else None, "model": model}
    llm = settings.llm.model_copy(update=given)
    connected = await _tried(endpoints(settings)(DEFAULT, llm, base_url))
    values = dict(zip(_FIELDS, (base_url, api_key, model), strict=True))
    await write_settings(settings_file(settings.home), _TABLE, values)
    return settings.model_copy(update={_TABLE: llm}), connected


def _fixed_by() -> str | None:
    return set_in_environment((_TABLE,), *((_TABLE, name) for name in _FIELDS))


async def _tried(endpoint: Endpoint) -> Connected:
    patience = endpoint.patience
    first_token = min(patience.first_token, _LONGEST_SECONDS)
    endpoint = endpoint.model_copy(update={"patience": replace(patience, first_token=first_token)})
    try:
        backend = HttpBackend(endpoint)
    except ValueError as error:
        raise InvalidInput(f"base_url: this is no address of a server: {error}", field="base_url") from None
    facts: BackendFacts | None = None
    try:
        facts = await backend.facts()
        call = ChatCall([{"role": "user", "content": _HELLO}], max_tokens=_MOST_TOKENS, thinks_little=True)
        answered = None
        async with aclosing(backend.stream(call)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    answered = event.model
        return Connected(endpoint.model or answered or next(iter(facts.models), None), facts)
    except UnknownModel as error:
        raise InvalidInput(error.message, field="model") from error
    except ModelUnavailable as error:
        raise InvalidInput(error.message, field=_field_at_fault(error, endpoint, facts)) from error
    finally:
        await backend.aclose()


def _field_at_fault(error: ModelUnavailable, endpoint: Endpoint, facts: BackendFacts | None) -> str:
    """The one of the three that a person should look at."""
    if any(status in error.details for status in ("(401)", "(403)")):
        return "api_key"
    if facts is None or (endpoint.model is None and not facts.models):
        return "base_url"
    return "model"
