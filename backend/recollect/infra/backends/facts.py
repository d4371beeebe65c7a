"""Which engine a server is and what it can do, found by asking it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from recollect.domain.llm import BackendFacts, find_model
from recollect.domain.model import JsonObject
from recollect.errors import BackendDown, ModelTooSlow, ModelUnavailable, StreamBroken
from recollect.infra.backends.address import OWN_ADDRESS, cloud_kind, is_local
from recollect.infra.backends.dialect import (
    dict_of,
    dicts_in,
    drops_reasoning,
    listed_models,
    positive_int,
    text_or_none,
    wants_alternation,
)
from recollect.infra.backends.ollama import ollama_facts
from recollect.infra.backends.openai_compatible import llama_cpp_facts
from recollect.infra.backends.server import Endpoint, ModelServer, NotJsonError, StatusError
from recollect.setting_groups import BackendKind

MODELS = "models"
LM_STUDIO_MODELS = "/api/v0/models"
SGLANG_MODEL = "/get_model_info"
_CLOUD: frozenset[BackendKind] = frozenset({"openai", "anthropic", "openrouter"})
_ROUTES: dict[BackendKind, tuple[str, ...]] = {
    "llama.cpp": ("/props", MODELS),
    "ollama": ("/api/version", "/api/tags"),
    "lmstudio": (LM_STUDIO_MODELS, MODELS),
    "vllm": ("/version", MODELS),
    "sglang": (SGLANG_MODEL, MODELS),
}
_ALL_ROUTES = tuple(dict.fromkeys(route for routes in _ROUTES.values() for route in routes))
_OWNERS: dict[str, BackendKind] = {"llamacpp": "llama.cpp", "vllm": "vllm", "sglang": "sglang"}
_CONTEXT_LENGTHS = (
    "loaded_context_length", "max_context_length", "max_model_len", "context_length", "context_window",
)  # fmt: skip
"""What servers call it in their lists; LM Studio's loaded length comes before the most that the model can take."""

_LOADING = 503
_NO_SUCH_ROUTE = 501
_TOO_MANY = 429

Answers = Mapping[str, JsonObject]
"""What a server answered to each question, by path; empty where it had no such answer."""
Ask = Callable[[str, JsonObject | None], Awaitable[Any]]
"""Asks a route, posting the body if there is one. Raises StatusError, or a kind of ModelUnavailable."""


def local_of(endpoint: Endpoint, kind: BackendKind | None) -> bool:
    """The setting wins. A cloud's engine is not local, even behind a proxy on this machine."""
    if endpoint.local is not None:
        return endpoint.local
    return kind not in _CLOUD and is_local(endpoint.base_url)


async def fingerprint(endpoint: Endpoint, ask: Ask) -> tuple[BackendFacts, bool]:
    """The facts of a server that answers, and whether they are settled: no question that matters is left open.

    Raises what kept every question from being answered.
    """
    known = endpoint.kind or cloud_kind(endpoint.base_url)
    routes = _ALL_ROUTES if known is None else _ROUTES.get(known, (MODELS,))
    told = dict(zip(routes, await asyncio.gather(*(_ask_one(route, ask) for route in routes)), strict=True))
    _raise_for(told, is_enough_known=known is not None and endpoint.model is not None)
    answers = {route: dict_of(answer) for route, answer in told.items()}
    kind = known or _recognise(answers)
    facts, is_told = await _facts(kind, endpoint, answers, ask)
    missing = {route for route, answer in told.items() if _may_pass(answer)}
    if known is not None or kind != "other":
        missing &= set(_ROUTES.get(kind, (MODELS,)))
    facts = replace(
        facts,
        models=tuple(endpoint.models) or facts.models,
        context_tokens=endpoint.context_tokens or facts.context_tokens,
    )
    return facts, is_told and not missing


def _raise_for(told: Mapping[str, Any], *, is_enough_known: bool) -> None:
    """Raise if the server answered nothing, is still loading, requires a key, or is this one."""
    if all(_may_pass(answer) for answer in told.values()):
        refused = next((answer for answer in told.values() if isinstance(answer, StatusError)), None)
        if refused is None:
            raise next(iter(told.values()))
        if not is_enough_known:
            raise refused.error
    for answer in told.values():
        if isinstance(answer, StatusError) and answer.status == _LOADING:
            raise answer.error  # What it says of itself now is not all there is.
    listing = told.get(MODELS)
    if isinstance(listing, StatusError) and listing.status in (401, 403, OWN_ADDRESS):
        raise listing.error


def _may_pass(answer: Any) -> bool:
    """Whether it is a temporary fault that says nothing about the engine: a proxy's, a time-out, a rate limit."""
    if isinstance(answer, StatusError):
        fault = answer.status >= 500 and answer.status != _NO_SUCH_ROUTE
        return fault or answer.status == _TOO_MANY
    return isinstance(answer, ModelUnavailable) and not isinstance(answer, NotJsonError)


async def _ask_one(route: str, ask: Ask, body: JsonObject | None = None) -> Any:
    """The answer, or the error in its place: a server that lacks a route is another engine, no fault."""
    try:
        return await ask(route, body)
    except (StatusError, ModelUnavailable) as error:
        return error


def _recognise(answers: Answers) -> BackendKind:
    if "default_generation_settings" in answers["/props"]:
        return "llama.cpp"
    if text_or_none(answers["/api/version"].get("version")) and "models" in answers["/api/tags"]:
        return "ollama"
    if any("state" in entry for entry in listed_models(answers[LM_STUDIO_MODELS])):
        return "lmstudio"
    for entry in listed_models(answers[MODELS])[:1]:  # Engines name themselves as the owner of a model.
        if owner := _OWNERS.get(str(entry.get("owned_by")).lower()):
            return owner
    if text_or_none(answers[SGLANG_MODEL].get("model_path")):
        return "sglang"
    if text_or_none(answers["/version"].get("version")):
        return "vllm"
    return "other"


async def _facts(
    kind: BackendKind, endpoint: Endpoint, answers: Answers, ask: Ask
) -> tuple[BackendFacts, bool]:
    """The facts, and whether a question that only this engine is asked was answered."""
    local = local_of(endpoint, kind)
    listed = listed_models(answers.get(MODELS, {}))
    if kind == "llama.cpp":
        models = tuple(entry["id"] for entry in listed)
        return llama_cpp_facts(answers["/props"], models, local=local), True
    if kind == "ollama":
        tags = dicts_in(answers["/api/tags"].get("models"))
        models = tuple(tag["name"] for tag in tags if text_or_none(tag.get("name")))
        model = _chosen(endpoint, models)
        shown = None if model is None else await _ask_one("/api/show", ask, {"model": model})
        facts = ollama_facts(models, model, dict_of(shown), local=local)
        return facts, not _may_pass(shown)
    if kind == "lmstudio":
        listed = _lm_studio_chat_models(answers) or listed
    return _listed_facts(kind, endpoint, listed, local=local), True


def _listed_facts(
    kind: BackendKind, endpoint: Endpoint, listed: list[dict[str, Any]], *, local: bool
) -> BackendFacts:
    """All that the list of models tells."""
    models = tuple(entry["id"] for entry in listed)
    model = _chosen(endpoint, models)
    entry = next((entry for entry in listed if entry["id"] == model), {})
    lengths = (positive_int(entry.get(name)) for name in _CONTEXT_LENGTHS)
    return BackendFacts(
        kind,
        local,
        context_tokens=next(filter(None, lengths), None),
        models=models,
        alternating_roles=(local or kind == "lmstudio") and wants_alternation(None, model),
        drops_reasoning=drops_reasoning(None, model),
    )


def _lm_studio_chat_models(answers: Answers) -> list[dict[str, Any]]:
    """Loaded models come first: another one would have to be loaded before it answers."""
    chats = [
        entry
        for entry in listed_models(answers[LM_STUDIO_MODELS])
        if "embedding" not in str(entry.get("type"))
    ]
    return sorted(chats, key=lambda entry: entry.get("state") != "loaded")


def _chosen(endpoint: Endpoint, models: tuple[str, ...]) -> str | None:
    """The model that calls get which name none."""
    if endpoint.model is not None:
        return find_model(endpoint.model, models) or endpoint.model
    return next(iter(endpoint.models or models), None)


UNSETTLED_SECONDS = 5.0
"""How long facts are used while a question is still unanswered."""
IDLE_SECONDS = 30.0
"""A local server silent for this long may have been restarted, with other settings or as another engine."""
REPLACED = frozenset({400, 404, 405, 422})
"""Statuses that may mean another server now runs at this address."""


class ServerFacts:
    """The facts of a server, cached until something suggests that they are stale."""

    def __init__(
        self, endpoint: Endpoint, server: ModelServer, ask: Ask, *, monotonic: Callable[[], float]
    ) -> None:
        self._endpoint = endpoint
        self._server = server
        self._ask = ask
        self._monotonic = monotonic
        self._asking = asyncio.Lock()
        self._known: BackendFacts | None = None
        self._is_stale = False
        """Ask again before the next use."""
        self._is_settled = False
        self._asked_at = 0.0
        self.takes_extras = True
        """Whether to send extra fields. Off once the server refuses them, on again after a restart."""
        self.problem: str | None = None
        """What is wrong with the server, as far as its last call showed."""

    async def get(self) -> BackendFacts:
        """Raises what keeps the server from telling."""
        if self._known is None or self._is_stale or self._is_due():
            async with self._asking:
                try:
                    if self._known is None or self._is_stale:
                        return await self._ask_patiently()
                    if self._is_due():
                        return await self._check(self._known)
                except ModelUnavailable as error:
                    self.after(error)
                    raise
        return self._known

    async def ask_again(self) -> BackendFacts:
        async with self._asking:
            return await self._ask_all()

    def after(self, error: ModelUnavailable) -> None:
        """A call failed: whoever answers at this address next may be another engine."""
        self.problem = error.message
        self._is_stale = self._is_stale or isinstance(error, BackendDown | StreamBroken)
        if isinstance(error, BackendDown):
            self.takes_extras = True

    def after_status(self, status: int) -> None:
        """A call was refused: perhaps because the server is not what it was."""
        self._is_stale = self._is_stale or status in REPLACED or status >= 500

    def _is_due(self) -> bool:
        age = self._monotonic() - self._asked_at
        if not self._is_settled:
            return age >= UNSETTLED_SECONDS
        is_local = self._known is not None and self._known.local
        return is_local and min(age, self._server.idle_seconds()) >= IDLE_SECONDS

    async def _check(self, known: BackendFacts) -> BackendFacts:
        """Keeps the known facts if the server is only slow."""
        try:
            return await self._ask_all()
        except BackendDown:
            raise
        except ModelUnavailable:
            self._asked_at = self._monotonic()
            return known

    async def _ask_patiently(self) -> BackendFacts:
        """Retries while the server is too busy to answer, up to `patience.introduction` seconds."""
        give_up_at = self._monotonic() + self._endpoint.patience.introduction
        while True:
            try:
                return await self._ask_all()
            except ModelTooSlow:
                if self._monotonic() >= give_up_at:
                    raise

    async def _ask_all(self) -> BackendFacts:
        facts, is_settled = await fingerprint(self._endpoint, self._ask)
        before = self._known
        if before is not None and (before.kind, before.models) != (facts.kind, facts.models):
            self.takes_extras = True
        self._known, self._is_stale = facts, False
        self._is_settled, self._asked_at = is_settled, self._monotonic()
        self.problem = None
        return facts
