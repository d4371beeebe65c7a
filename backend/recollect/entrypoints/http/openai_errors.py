"""Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`, with the statuses its clients know."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from recollect.entrypoints.http.errors import error_body, status_of
from recollect.errors import RecollectError
from recollect.memory.model import JsonObject

_STATUS = {422: 400}
_OWN_STATUS = {"unknown_model": 404, "context_length_exceeded": 400}
_CODES = {
    "key_required": "invalid_api_key",
    "unknown_model": "model_not_found",
    "rate_limited": "rate_limit_exceeded",
}
DO_NOT_RETRY = {"x-should-retry": "false"}
_NOT_TO_BE_RETRIED = "model_refused"
"""Its server understood the request and said no: OpenAI's clients would ask twice more."""


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
    always = (400, 401, 403, 404, 413, 503, 507)
    answer = {"model": OpenAiErrorAnswer, "description": "An error."}
    return dict.fromkeys(sorted({*always, *statuses}), answer)


def speaks_openai(path: str) -> bool:
    """Whether who asks for this path expects errors in OpenAI's shape."""
    return path == ROOT or path.startswith(f"{ROOT}/")


def for_either_door(render: Render) -> Render:
    """The same error in the shape of the door at which it is told."""

    async def told(request: Request, error: Exception) -> JSONResponse:
        native = await render(request, error)
        return in_openai_shape(native) if speaks_openai(request.scope["path"]) else native

    return told


def in_openai_shape(native: JSONResponse) -> JSONResponse:
    """The same error as the native API tells it, headers included."""
    body = json.loads(bytes(native.body))
    told, status = openai_body(body, native.status_code)
    headers = {name: value for name, value in native.headers.items() if name in _KEPT_HEADERS}
    if body["error"]["code"] == _NOT_TO_BE_RETRIED:
        headers |= DO_NOT_RETRY
    return JSONResponse(told, status, headers=headers)


def openai_body(native: JsonObject, status: int) -> tuple[JsonObject, int]:
    error, status = _translated(native["error"], status)
    return {"error": error}, status


def error_chunk(error: RecollectError) -> JsonObject:
    """For a stream that has begun already."""
    told = error_body(error.code, error.message, field=error.field)["error"]
    return {"error": _translated(told, status_of(error))[0]}


def _translated(told: JsonObject, status: int) -> tuple[JsonObject, int]:
    code = told["code"]
    if code == "too_large" and told.get("field") == "content":
        code = "context_length_exceeded"
    status = _OWN_STATUS.get(code, _STATUS.get(status, status))
    error = {
        "message": told["message"],
        "type": _type_of(status),
        "param": told.get("field"),
        "code": _CODES.get(code, code),
    }
    return error, status


def _type_of(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
