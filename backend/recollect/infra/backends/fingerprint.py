"""Which engine a server is, by asking it; its port says nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from recollect.context.llm import BackendFacts, BackendKind
from recollect.errors import BackendDown, ModelTooSlow, ModelUnavailable
from recollect.infra.backends.address import cloud_kind, is_local
from recollect.infra.backends.chat_templates import drops_reasoning, wants_alternation
from recollect.infra.backends.dialect import Answers
from recollect.infra.backends.endpoint import Endpoint
from recollect.infra.backends.engines.llama_cpp import llama_cpp_facts, recognise_llama_cpp
from recollect.infra.backends.engines.ollama import ollama_facts, ollama_models, recognise_ollama
from recollect.infra.backends.listings import (
    dicts_in,
    listed_models,
    model_ids,
    owner_of,
    positive_int,
    text_or_none,
)
from recollect.infra.backends.model_names import find_model
from recollect.infra.backends.server import StatusError
from recollect.memory.model import JsonObject

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
_OWNERS: dict[str, BackendKind] = {"llamacpp": "llama.cpp", "vllm": "vllm", "sglang": "sglang"}
_EMBEDDING = "embedding"

Ask = Callable[[str, JsonObject | None], Awaitable[Any]]
"""Asks a route, posting the body if there is one. Raises StatusError, or a kind of ModelUnavailable."""


def local_of(endpoint: Endpoint, kind: BackendKind | None) -> bool:
    """What is set wins; a cloud's engine is not local even where a proxy on this machine stands for it."""
    if endpoint.local is not None:
        return endpoint.local
    return kind not in _CLOUD and is_local(endpoint.base_url)


async def fingerprint(endpoint: Endpoint, ask: Ask) -> BackendFacts:
    """The facts of a server that answers. Raises what kept every question from being answered."""
    known = endpoint.kind or cloud_kind(endpoint.base_url)
    routes = _routes(known)
    answers = dict(zip(routes, await _ask_all(routes, ask), strict=True))
    kind = known or _recognise(answers)
    facts = await _facts(kind, endpoint, answers, ask)
    return replace(
        facts,
        models=endpoint.models or facts.models,
        context_tokens=endpoint.context_tokens or facts.context_tokens,
    )


def _routes(known: BackendKind | None) -> tuple[str, ...]:
    if known is not None:
        return _ROUTES.get(known, (MODELS,))
    return tuple(dict.fromkeys(route for routes in _ROUTES.values() for route in routes))


async def _ask_all(routes: tuple[str, ...], ask: Ask) -> list[Any]:
    """Every answer, None where there is none; raises when the server answered nothing at all, or wants a key."""
    answers = await asyncio.gather(*(_ask_one(route, ask) for route in routes))
    if all(isinstance(answer, BackendDown | ModelTooSlow) for answer in answers):
        raise answers[0]
    for answer in answers:
        if isinstance(answer, StatusError) and answer.status == 503:
            raise answer.error  # Still loading: what it says of itself now is not all there is.
    refused = answers[routes.index(MODELS)] if MODELS in routes else None
    if isinstance(refused, StatusError) and refused.status in (401, 403):
        raise refused.error
    return [None if isinstance(answer, Exception) else answer for answer in answers]


async def _ask_one(route: str, ask: Ask) -> Any:
    """The answer, or the error in its place: a server that lacks a route is another engine, no fault."""
    try:
        return await ask(route, None)
    except (StatusError, ModelUnavailable) as error:
        return error


def _recognise(answers: Answers) -> BackendKind:
    if recognise_llama_cpp(answers):
        return "llama.cpp"
    if recognise_ollama(answers):
        return "ollama"
    if any("state" in entry for entry in listed_models(answers.get(LM_STUDIO_MODELS))):
        return "lmstudio"
    if owner := _OWNERS.get(owner_of(answers.get(MODELS))):
        return owner
    version, sglang = answers.get("/version"), answers.get(SGLANG_MODEL)
    if isinstance(sglang, dict) and text_or_none(sglang.get("model_path")):
        return "sglang"
    if isinstance(version, dict) and text_or_none(version.get("version")):
        return "vllm"
    return "other"


async def _facts(kind: BackendKind, endpoint: Endpoint, answers: Answers, ask: Ask) -> BackendFacts:
    local = local_of(endpoint, kind)
    listing = answers.get(MODELS)
    if kind == "llama.cpp":
        return llama_cpp_facts(answers, model_ids(listing), local=local)
    if kind == "ollama":
        return await _ask_ollama(endpoint, answers, ask, local=local)
    if kind == "lmstudio":
        return _lm_studio_facts(endpoint, answers, local=local)
    models = model_ids(listing)
    model = _chosen(endpoint, models)
    entry = next((entry for entry in listed_models(listing) if entry["id"] == model), {})
    length = entry.get("max_model_len") or entry.get("context_length") or entry.get("context_window")
    return BackendFacts(
        kind,
        local,
        context_tokens=positive_int(length),
        models=models,
        alternating_roles=local and wants_alternation(None, model),
        drops_reasoning=drops_reasoning(None, model),
    )


async def _ask_ollama(endpoint: Endpoint, answers: Answers, ask: Ask, *, local: bool) -> BackendFacts:
    models = ollama_models(answers)
    model = _chosen(endpoint, models)
    shown = None
    if model is not None:
        answer = await _ask_one_posting("/api/show", {"model": model}, ask)
        shown = None if isinstance(answer, Exception) else answer
    return ollama_facts(models, model, shown, local=local, context_tokens=endpoint.context_tokens)


async def _ask_one_posting(route: str, body: JsonObject, ask: Ask) -> Any:
    return await _ask_one(route, lambda asked, _: ask(asked, body))


def _lm_studio_facts(endpoint: Endpoint, answers: Answers, *, local: bool) -> BackendFacts:
    """Loaded models come first: another one would have to be loaded before it answers."""
    told = answers.get(LM_STUDIO_MODELS)
    entries = dicts_in(told.get("data")) if isinstance(told, dict) else []
    chats = [entry for entry in entries if _EMBEDDING not in str(entry.get("type"))]
    chats.sort(key=lambda entry: entry.get("state") != "loaded")
    models = tuple(str(entry["id"]) for entry in chats if text_or_none(entry.get("id")))
    models = models or model_ids(answers.get(MODELS))
    model = _chosen(endpoint, models)
    chosen = next((entry for entry in chats if entry.get("id") == model), {})
    length = chosen.get("loaded_context_length") or chosen.get("max_context_length")
    return BackendFacts(
        "lmstudio",
        local,
        context_tokens=positive_int(length),
        models=models,
        alternating_roles=wants_alternation(None, model),
        drops_reasoning=drops_reasoning(None, model),
    )


def _chosen(endpoint: Endpoint, models: tuple[str, ...]) -> str | None:
    """The model that calls get which name none."""
    if endpoint.model is not None:
        return find_model(endpoint.model, models) or endpoint.model
    return next(iter(endpoint.models or models), None)
