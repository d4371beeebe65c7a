"""The model backends of a home: those that the settings name, else one found on this machine, else the small model."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from recollect.domain.llm import BackendFacts, ChatCall, StreamEvent
from recollect.errors import BackendDown, InvalidInput, ModelUnavailable
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.dialect import guess_tokens
from recollect.infra.backends.local_model import SMOLLM2
from recollect.infra.backends.server import Endpoint, Patience
from recollect.setting_groups import BackendSettings, TasksSettings
from recollect.settings import Settings

DEFAULT = "default"
TASKS = "tasks"

EndpointMaker = Callable[..., Endpoint]
USUAL_ADDRESSES = ("http://127.0.0.1:11434", "http://127.0.0.1:1234", "http://127.0.0.1:8080")
"""Where Ollama, LM Studio and llama.cpp listen unless told otherwise. Who listens there is asked, not assumed."""
PROBE_SECONDS = 0.3
_REMEMBERED_SECONDS = 30.0
THIS_MACHINE = "this machine"
SmallModel = Callable[[], Awaitable[str]]
"""Starts the small model if it doesn't run, and tells its address. Raises ModelUnavailable with what to do."""


class Backend(Protocol):
    """A model's server. Raises the kinds of ModelUnavailable, in words a user understands."""

    @property
    def name(self) -> str:
        """The name it has in the settings."""
        ...

    @property
    def server(self) -> str:
        """The host and port that it is reached at: backends of different names may be one server."""
        ...

    @property
    def label(self) -> str | None:
        """A note shown with its answers; None for a model that people chose."""
        ...

    @property
    def gate_group(self) -> str:
        """Backends on the same hardware share one."""
        ...

    async def facts(self) -> BackendFacts:
        """Asked once, then remembered until the backend goes away."""
        ...

    def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        """Stream the answer. Closing the iterator cancels the request at once."""
        ...

    async def count_tokens(self, text: str) -> int:
        """By its own tokenizer where it has one, else a careful guess."""
        ...

    def problem(self) -> str | None:
        """What is wrong with it, as far as its last call showed; None when that went well."""
        ...


class FoundBackend:
    """Looks for a server when it is used, and again when that one has gone."""

    reads_pdf = False

    def __init__(
        self,
        configured: Endpoint,
        *,
        small_model: SmallModel | None = None,
        addresses: Sequence[str] = USUAL_ADDRESSES,
        seconds: float = PROBE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`configured` has everything but the address. Each of `addresses` is probed for at most `seconds`."""
        self.name = configured.name
        self.gate_group = configured.gate_group or THIS_MACHINE
        self._configured = configured
        self._small_model = small_model
        self._addresses = tuple(addresses)
        self._patience = Patience(connect=seconds, question=seconds, introduction=seconds)
        self._monotonic = monotonic
        self._choosing = asyncio.Lock()
        self._found: str | None = None
        """The address found by the last search, which is repeated after `_REMEMBERED_SECONDS`."""
        self._looked_at: float | None = None
        self._backends: dict[tuple[str, str | None], HttpBackend] = {}
        self._current: HttpBackend | None = None
        self._problem: str | None = None
        self.label: str | None = None
        """Shown with the small model's answers, if the last call went to that."""

    @property
    def server(self) -> str:
        """Host and port of the one that is used now."""
        return self._current.server if self._current is not None else THIS_MACHINE

    @property
    def last_activity(self) -> datetime | None:
        return self._current.last_activity if self._current is not None else None

    def problem(self) -> str | None:
        return self._problem or (self._current.problem() if self._current is not None else None)

    async def aclose(self) -> None:
        backends, self._backends, self._current = self._backends, {}, None
        for backend in backends.values():
            await backend.aclose()

    async def is_found(self) -> bool:
        """Whether a server runs on this machine; the small model is none."""
        async with self._choosing:
            return await self._look() is not None

    async def facts(self) -> BackendFacts:
        backend = await self._backend()
        try:
            return await backend.facts()
        except BackendDown:
            self._looked_at = None
            raise

    async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        backend = await self._backend()
        try:
            async with aclosing(backend.stream(call)) as events:
                async for event in events:
                    yield event
        except BackendDown:
            self._looked_at = None
            raise

    async def count_tokens(self, text: str) -> int:
        """A careful guess while there is no server to ask."""
        try:
            backend = await self._backend()
        except ModelUnavailable:
            return guess_tokens(text)
        return await backend.count_tokens(text)

    async def _backend(self) -> HttpBackend:
        async with self._choosing:
            try:
                self._current = await self._choose()
            except ModelUnavailable as error:
                self._problem = error.message
                raise
            self._problem = None
            return self._current

    async def _choose(self) -> HttpBackend:
        found = await self._look()
        if found is not None:
            self.label = None
            return self._at(base_url=found)
        if self._small_model is not None:
            address = await self._small_model()
            self.label = SMOLLM2.label
            return self._at(base_url=address, model=None, models=[])
        looked = (
            ", and none was found running on this machine (Ollama, LM Studio, llama.cpp)"
            if self._addresses
            else ""
        )
        raise BackendDown(
            f"no model is configured{looked}. Set RECOLLECT_LLM__BASE_URL to the address of one."
        )

    async def _look(self) -> str | None:
        """The first address that fits, or the one found before for as long as it fits."""
        if self._looked_at is None or self._monotonic() - self._looked_at >= _REMEMBERED_SECONDS:
            fits = await asyncio.gather(*(_fits(address, self._patience) for address in self._addresses))
            found = [address for address, fit in zip(self._addresses, fits, strict=True) if fit]
            self._found = self._found if self._found in found else next(iter(found), None)
            self._looked_at = self._monotonic()
        return self._found

    def _at(self, **given: Any) -> HttpBackend:
        """One per address: streams from other addresses go on."""
        key = (given["base_url"], self.label)
        if key not in self._backends:
            self._backends[key] = HttpBackend(self._configured.model_copy(update=given))
        return self._backends[key]


async def _fits(address: str, patience: Patience) -> bool:
    backend = HttpBackend(Endpoint(name="looked for", base_url=address, local=True, patience=patience))
    try:
        facts = await backend.facts()
    except ModelUnavailable:
        return False  # No server there, or one that serves no models.
    finally:
        await backend.aclose()
    return facts.kind != "other" and bool(facts.models)


AnyBackend = HttpBackend | FoundBackend


class Backends:
    """Every backend by its name. Nothing is asked or started before it is used; `aclose` ends the use of all.

    The default is RECOLLECT_LLM__…, else the first of the named ones, else one that is found when it is needed:
    running on this machine, or the small model.
    """

    def __init__(
        self,
        settings: Settings,
        small_model: SmallModel | None = None,
        *,
        addresses: Sequence[str] = USUAL_ADDRESSES,
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        """`addresses` is where a server is looked for if none is configured."""
        self._small_model = small_model
        self._addresses = addresses
        self._probe_seconds = probe_seconds
        self.changing = asyncio.Lock()
        """Held while other settings are tried out and taken."""
        self._replaced: list[AnyBackend] = []
        """No call begins there any more; one that runs may go on."""
        self._build(settings)

    def use(self, settings: Settings) -> None:
        """Use the backends that these settings name from now on."""
        self._replaced += self.all()
        self._build(settings)

    def _build(self, settings: Settings) -> None:
        endpoint = endpoints(settings)
        named = {
            name: HttpBackend(endpoint(name, backend, backend.base_url))
            for name, backend in settings.backends.items()
        }
        self.configured = settings.llm.base_url is not None or bool(named)
        """Whether the default is one that a person chose."""
        groups = {DEFAULT: settings.llm, **settings.backends}
        self._models = {
            name: tuple(filter(None, (group.model, *group.models))) for name, group in groups.items()
        }
        self._by_name: dict[str, AnyBackend] = {}
        if settings.llm.base_url is not None:
            self._by_name[DEFAULT] = HttpBackend(endpoint(DEFAULT, settings.llm, settings.llm.base_url))
        elif named:
            self._by_name[DEFAULT] = next(iter(named.values()))
        else:
            self._by_name[DEFAULT] = FoundBackend(
                endpoint(DEFAULT, settings.llm, "http://127.0.0.1"),
                small_model=self._small_model,
                addresses=self._addresses if settings.llm.discover else (),
                seconds=self._probe_seconds,
            )
        self._by_name |= named
        self.tasks: AnyBackend = self._tasks(settings, endpoint)
        """For background work."""
        self._by_name.setdefault(TASKS, self.tasks)

    @property
    def names(self) -> list[str]:
        """What a thread or preset may pick."""
        return [name for name in self._by_name if name != TASKS]

    def get(self, name: str | None = None) -> AnyBackend:
        """The backend of that name, or the default."""
        found = self._by_name.get(name or DEFAULT)
        if found is None:
            raise InvalidInput(
                f"there is no backend {name!r}. Configured: {', '.join(self.names)}", field="backend"
            )
        return found

    def all(self) -> list[AnyBackend]:
        """Each once, the default first."""
        return list(dict.fromkeys(self._by_name.values()))

    async def has_model(self) -> bool:
        """Whether memory has a model to ask: a configured one, or one that runs on this machine."""
        return await _is_real(self.tasks)

    async def has_chat_model(self) -> bool:
        """Whether chats have one that is no demonstration."""
        return await _is_real(self.get())

    def configured_models(self, name: str) -> tuple[str, ...]:
        """Models that a backend's settings name, even while the server doesn't answer."""
        return self._models.get(name, ())

    async def aclose(self) -> None:
        for backend in (*self._replaced, *self.all()):
            await backend.aclose()

    def _tasks(self, settings: Settings, endpoint: EndpointMaker) -> AnyBackend:
        """A server of its own, another model of the default's server, or the default itself."""
        tasks, llm = settings.tasks, settings.llm
        if tasks.base_url is not None:
            return HttpBackend(endpoint(TASKS, tasks, tasks.base_url))
        if tasks.model is not None and llm.base_url is not None:
            same_server = llm.model_copy(update={"model": tasks.model})
            return HttpBackend(endpoint(TASKS, same_server, llm.base_url))
        return self._by_name[DEFAULT]


async def _is_real(backend: AnyBackend) -> bool:
    return await backend.is_found() if isinstance(backend, FoundBackend) else True


def endpoints(settings: Settings) -> EndpointMaker:
    """Makes the endpoint of a name from its group of settings and its address."""
    chat = settings.chat
    patience = Patience(
        connect=chat.connect_seconds, first_token=chat.first_token_seconds, stall=chat.stall_seconds
    )
    return partial(_endpoint, patience=patience, masks_secrets=settings.mask_secrets)


def _endpoint(name: str, settings: BackendSettings | TasksSettings, base_url: str, **given: Any) -> Endpoint:
    shared = settings.model_dump(include=set(BackendSettings.model_fields))
    return Endpoint.model_validate({**shared, **given, "name": name, "base_url": base_url})
