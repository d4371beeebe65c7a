"""The model backends that the settings name."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from recollect.errors import InvalidInput
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.discovery import PROBE_SECONDS, USUAL_ADDRESSES, FoundBackend, SmallModel
from recollect.infra.backends.server import Endpoint, Patience
from recollect.setting_groups import BackendSettings, TasksSettings
from recollect.settings import Settings

DEFAULT = "default"
TASKS = "tasks"

AnyBackend = HttpBackend | FoundBackend
EndpointMaker = Callable[..., Endpoint]


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
