"""The default model: where it comes from, and connecting another one while the server runs."""

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import SecretStr

from recollect.domain.access import DEFAULT_SPACE, Caller
from recollect.domain.llm import BackendFacts, ChatCall, Finished
from recollect.errors import Conflict, InvalidInput, ModelUnavailable, Refused, UnknownModel
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.configured import DEFAULT, Backends, endpoints
from recollect.infra.backends.local_model import LocalModel
from recollect.infra.backends.server import Endpoint
from recollect.infra.settings_file import write_settings
from recollect.settings import Settings, set_in_environment, settings_file

_TABLE = "llm"
_FIELDS = ("base_url", "api_key", "model")
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


async def default_model(backends: Backends, small_model: LocalModel) -> DefaultModel:
    """Asks who runs on this machine, where none is configured; starts nothing."""
    source: Source = "none"
    if backends.configured:
        source = "settings"
    elif await backends.has_chat_model():
        source = "found"
    elif small_model.is_set_up():
        source = "demonstration"
    server = backends.get().server if source == "settings" else None
    return DefaultModel(source, server, _fixed_by())


def may_connect(caller: Caller) -> bool:
    """Everybody's words go to the default model: only the operator of the server chooses it."""
    return caller.local_operator or (caller.user_id is None and caller.space == DEFAULT_SPACE)


async def connect_model(
    caller: Caller, settings: Settings, base_url: str, api_key: str | None, model: str | None
) -> tuple[Settings, Connected]:
    """Try the model with one short call, and write it into `recollect.toml`; returns the settings that name it.

    Raises InvalidInput, which names the field that is wrong; Conflict where the environment takes precedence.
    """
    if not may_connect(caller):
        raise Refused(
            "the model is everybody's: use a key of the space 'default' that belongs to no single user"
        )
    if (variable := _fixed_by()) is not None:
        raise Conflict(
            f"{variable} is set where the server was started, and takes precedence: change it there"
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
