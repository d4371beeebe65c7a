"""One table from exceptions to HTTP, one envelope for every error, and the same in the shapes of other protocols."""

import json
import logging
import math
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from recollect import errors
from recollect.domain.model import JsonObject
from recollect.entrypoints.http.answers import ErrorAnswer

STATUS: dict[type[errors.RecollectError], int] = {
    errors.InvalidInput: 422,
    errors.TooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.NotFound: 404,
    errors.AlreadyExists: 409,
    errors.Conflict: 409,
    errors.TooMuchQueued: 429,
    errors.OverQuota: 429,
    errors.KeyRequired: 401,
    errors.Refused: 403,
    errors.Unavailable: 503,
    errors.StorageUnavailable: 507,
    errors.ModelUnavailable: 503,
    errors.RateLimited: 429,
    errors.ModelTooSlow: 504,
    errors.StreamBroken: 502,
    errors.ModelRefused: 502,
}
_NAMES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
_log = logging.getLogger("recollect.http")

ERROR_ID = "recollect_error_id"
ALWAYS = (401, 403, 408, 413, 415, 422, 429, 431, 503, 507)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors a route can answer with, for its description."""
    return {
        status: {"model": ErrorAnswer, "description": "An error."} for status in sorted({*ALWAYS, *statuses})
    }


def error_body(
    code: str, message: str, *, field: str | None = None, error_id: str | None = None
) -> dict[str, Any]:
    detail = {"code": code, "message": message, "field": field, "id": error_id}
    return {"error": {name: value for name, value in detail.items() if value is not None}}


def body_of(error: errors.RecollectError) -> dict[str, Any]:
    return error_body(error.code, error.message, field=error.field)


def status_of(error: errors.RecollectError) -> int:
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


async def render_known(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.RecollectError)
    status = status_of(error)
    if status >= 500:
        _log.error("%s: %s", error.code, error.message)
    return JSONResponse(body_of(error), status, headers=headers_of(error))


def headers_of(error: errors.RecollectError) -> dict[str, str]:
    """Headers of an error: WWW-Authenticate, Retry-After or none."""
    waits = errors.Unavailable | errors.TooMuchQueued | errors.OverQuota
    if isinstance(error, waits) and error.retry_after is not None:
        return {"Retry-After": str(math.ceil(error.retry_after))}
    return {"WWW-Authenticate": "Bearer"} if status_of(error) == 401 else {}


async def render_unexpected(request: Request, _error: Exception) -> JSONResponse:
    """What the caller sees of an error nobody foresaw: an id. The guard writes the rest to the log."""
    error_id = request.scope.setdefault(ERROR_ID, secrets.token_hex(6))
    return JSONResponse(unexpected_body(error_id), 500)


def unexpected_body(error_id: str) -> dict[str, Any]:
    message = f"something went wrong inside Recollect; the log has it under the id {error_id}"
    return error_body("internal", message, error_id=error_id)


async def render_invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    text, field = first_problem(error.errors())
    return JSONResponse(error_body("invalid", text, field=field), 422)


def first_problem(problems: Sequence[Any]) -> tuple[str, str]:
    """Of pydantic's errors: the first in words, with how many more there are, and the field at fault."""
    field = _field_at_fault(problems[0])
    more = len(problems) - 1
    return f"{field}: {_in_words(problems[0])}" + (f" (and {more} more)" if more else ""), field


async def render_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:
        # FastAPI's only one: a body that is no text at all, or nested too deeply.
        return JSONResponse(error_body("invalid", "body: cannot be read as JSON", field="body"), 422)
    field = "body" if error.status_code == 413 else None
    body = error_body(_NAMES.get(error.status_code, "http_error"), str(error.detail), field=field)
    return JSONResponse(body, error.status_code, headers=error.headers)


def field_name(location: tuple[int | str, ...] | list[int | str]) -> str:
    """`messages[0].content` from ("body", "messages", 0, "content")."""
    name = ""
    for part in location[1:] if location and location[0] in {"body", "query", "path", "header"} else location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return name


def _field_at_fault(item: dict[str, Any]) -> str:
    if item["type"] == "json_invalid":
        return "body"
    within = item.get("ctx", {}).get("field")
    return field_name([*item["loc"], within] if within else item["loc"]) or str(item["loc"][0])


def _in_words(item: dict[str, Any]) -> str:
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        return "this field is not known"
    if item["type"] == "json_invalid":
        return f"the body is not valid JSON: {item.get('ctx', {}).get('error', message)}"
    return message[:1].lower() + message[1:]


_OWN_STATUS = {
    **dict.fromkeys((*errors.CODES_OF_REFUSALS, "text_refused"), 400),
    **dict.fromkeys(("unknown_model", "model_not_found"), 404),
}
_CODES = {
    "key_required": "invalid_api_key",
    "unknown_model": "model_not_found",
    "rate_limited": "rate_limit_exceeded",
    "over_quota": "rate_limit_exceeded",
    "disk_quota_used": "insufficient_quota",
}
DO_NOT_RETRY = {"x-should-retry": "false"}
_NOT_TO_BE_RETRIED = ("model_refused", "disk_quota_used", "insufficient_quota")
"""The answer would be the same: OpenAI's clients would ask twice more."""


ROOT = "/v1"
_KEPT_HEADERS = ("allow", "retry-after", "www-authenticate")

Render = Callable[[Request, Exception], Awaitable[JSONResponse]]


class OpenAiError(BaseModel):
    message: str
    type: str
    param: str | None
    code: str


class OpenAiErrorAnswer(BaseModel):
    error: OpenAiError


def documented_for_openai(*statuses: int) -> dict[int | str, dict[str, Any]]:
    always = (400, 401, 403, 404, 408, 413, 415, 429, 431, 503, 507)
    answer = {"model": OpenAiErrorAnswer, "description": "An error."}
    return dict.fromkeys(sorted({*always, *statuses}), answer)


def speaks_openai(path: str) -> bool:
    """Whether who asks for this path expects errors in OpenAI's shape."""
    return path == ROOT or path.startswith(f"{ROOT}/")


def in_shape_of(
    path: str, body: JsonObject, status: int, *, to_anthropic: bool = False
) -> tuple[JsonObject, int]:
    """A native error's body and status, in the shape of the door at which it is told.

    `to_anthropic`: it is Anthropic's client that asks, where both have the same path.
    """
    if path == MCP:
        return mcp_body(body, status), status
    if speaks_anthropic(path):
        return anthropic_body(body, status)
    if path.startswith(f"{EVEROS}/"):
        told = {name: body["error"][name] for name in ("code", "message")}
        return {"request_id": secrets.token_hex(12), "error": told}, status
    if speaks_supermemory(path):
        return {"error": body["error"]["message"], "details": body["error"].get("field")}, status
    if speaks_mem0(path):
        return {"detail": body["error"]["message"]}, status
    if not speaks_openai(path):
        return body, status
    return anthropic_body(body, status) if to_anthropic else openai_body(body, status)


def for_either_door(render: Render) -> Render:
    """The same error in the shape of the door at which it is told, headers included."""

    async def told(request: Request, error: Exception) -> JSONResponse:
        native, path = await render(request, error), request.scope["path"]
        body = json.loads(bytes(native.body))
        to_anthropic = ANTHROPICS_HEADER in request.headers
        shaped, status = in_shape_of(path, body, native.status_code, to_anthropic=to_anthropic)
        if shaped is body:
            return native
        headers = {name: value for name, value in native.headers.items() if name in _KEPT_HEADERS}
        if path != MCP and body["error"]["code"] in _NOT_TO_BE_RETRIED:
            headers |= DO_NOT_RETRY
        return JSONResponse(shaped, status, headers=headers)

    return told


def openai_body(native: JsonObject, status: int) -> tuple[JsonObject, int]:
    """The same error in OpenAI's words, and its status there."""
    told = native["error"]
    code = told["code"]
    if code == "too_large" and told.get("field") == "content":
        code = "context_length_exceeded"
    status = _OWN_STATUS.get(code, 400 if status == 422 else status)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {
        "message": told["message"],
        "type": "rate_limit_error" if status == 429 else kind,
        "param": told.get("field"),
        "code": _CODES.get(code, code),
    }
    return {"error": error}, status


ANTHROPIC = f"{ROOT}/messages"
ANTHROPICS_HEADER = "anthropic-version"
"""Its clients always send it."""
_ANTHROPIC_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class AnthropicError(BaseModel):
    type: str
    message: str


class AnthropicErrorAnswer(BaseModel):
    type: str
    error: AnthropicError


def documented_for_anthropic(*statuses: int) -> dict[int | str, dict[str, Any]]:
    answer = {"model": AnthropicErrorAnswer, "description": "An error."}
    return dict.fromkeys(documented_for_openai(*statuses), answer)


def speaks_anthropic(path: str) -> bool:
    """Whether who asks for this path expects errors in Anthropic's shape."""
    return path == ANTHROPIC or path.startswith(f"{ANTHROPIC}/")


def anthropic_body(native: JsonObject, status: int) -> tuple[JsonObject, int]:
    """The same error in Anthropic's words, and its status there. Its clients know a long prompt by its first words."""
    told, status = openai_body(native, status)
    message = told["error"]["message"]
    if told["error"]["code"] == "context_length_exceeded":
        message = f"prompt is too long: {message}"
    usual = "api_error" if status >= 500 else "invalid_request_error"
    kind = _ANTHROPIC_KINDS.get(status, usual)
    return {"type": "error", "error": {"type": kind, "message": message}}, status


EVEROS = "/api/v2/memory"
speaks_mem0 = re.compile(
    r"/v1/(?:ping|memories|event|entities|batch|exports|summary|feedback)/.*|/v3/memories/.*"
    r"|/v2/(?:entities|profiles)/.*|/(?:memories(?:/.*)?|search|reset|configure)"
    r"|/api/v1/(?:orgs|webhooks/projects)/.*",
    re.DOTALL,
).fullmatch
"""Whether who asks for this path expects errors in mem0's shape."""
speaks_supermemory = re.compile(
    r"/v3/(?:documents|search|settings|connections)(?:/.*)?|/v4/(?:search|profile|memories)", re.DOTALL
).fullmatch


MCP = "/mcp"
_RPC_CODES = {404: -32601, 405: -32600, 413: -32600, 415: -32600, 422: -32602}
"""JSON-RPC's, by HTTP status; all others are ours."""
_OWN_RPC_CODE = -32000


class RpcError(BaseModel):
    code: int
    message: str
    data: dict[str, Any] | None = None


class RpcErrorAnswer(BaseModel):
    jsonrpc: str
    id: str | int | None
    error: RpcError


def documented_for_mcp() -> dict[int | str, dict[str, Any]]:
    answer = {"model": RpcErrorAnswer, "description": "An error."}
    return dict.fromkeys(sorted({*ALWAYS, 400, 404, 405, 406}), answer)


def mcp_body(native: JsonObject, status: int) -> JsonObject:
    """The same error as JSON-RPC tells one that belongs to no message."""
    told = native["error"]
    data = {name: value for name, value in told.items() if name != "message"}
    error = {"code": _RPC_CODES.get(status, _OWN_RPC_CODE), "message": told["message"], "data": data}
    return {"jsonrpc": "2.0", "id": None, "error": error}
