"""Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`, with the statuses its clients know."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from recollect.entrypoints.http.errors import error_body, render_http, render_invalid, render_known, status_of
from recollect.errors import RecollectError
from recollect.memory.model import JsonObject

_STATUS = {422: 400}
_OWN_STATUS = {"unknown_model": 404, "context_length_exceeded": 400}
_CODES = {
    "key_required": "invalid_api_key",
    "unknown_model": "model_not_found",
    "rate_limited": "rate_limit_exceeded",
}
_NOT_TO_BE_RETRIED = "model_refused"
"""Its server understood the request and said no: OpenAI's clients would ask twice more."""


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


class OpenAiRoute(APIRoute):
    """Whatever goes wrong on it is told in OpenAI's shape."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RecollectError as error:
                return in_openai_shape(await render_known(request, error))
            except RequestValidationError as error:
                return in_openai_shape(await render_invalid(request, error))
            except HTTPException as error:
                return in_openai_shape(await render_http(request, error))

        return answer


def in_openai_shape(native: JSONResponse) -> JSONResponse:
    """The same error as the native API tells it, headers included."""
    told = json.loads(bytes(native.body))["error"]
    error, status = _translated(told, native.status_code)
    headers = {
        name: value for name, value in native.headers.items() if name in ("retry-after", "www-authenticate")
    }
    if told["code"] == _NOT_TO_BE_RETRIED:
        headers["x-should-retry"] = "false"
    return JSONResponse({"error": error}, status, headers=headers)


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
