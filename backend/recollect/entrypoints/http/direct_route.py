"""A leaner way into the one route that every message takes."""

import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from recollect.entrypoints.http.dependencies import get_app, get_caller
from recollect.entrypoints.http.errors import render_invalid, render_known
from recollect.errors import RecollectError


class DirectRoute(APIRoute):
    """For endpoints `(home, caller, body, request) -> model`: described as ever, called without the machinery.

    The body goes straight from bytes into its model, and the answer from its model into bytes.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        assert self.body_field is not None
        body_type = self.body_field.field_info.annotation
        assert isinstance(body_type, type)
        assert issubclass(body_type, BaseModel)
        status = self.status_code or 200

        async def handle(request: Request) -> Response:
            caller = await get_caller(request)
            body = _parsed(body_type, await request.body())
            answer: BaseModel = await self.endpoint(await get_app(request), caller, body, request)
            return Response(answer.model_dump_json(), status, media_type="application/json")

        return handle


class Shortcut:
    """Calls the direct routes of an API by their path and method; everything else takes the usual way."""

    def __init__(self, api: FastAPI, routes: Iterable[BaseRoute]) -> None:
        self._api = api
        self._direct = {
            (method, route.path): (route, route.get_route_handler())
            for route in routes
            if isinstance(route, DirectRoute)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._direct.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if found is None:
            await self._api(scope, receive, send)
            return
        scope["app"] = self._api
        scope["route"], handle = found
        request = Request(scope, receive, send)
        try:
            response = await handle(request)
        except RecollectError as error:
            response = await render_known(request, error)
        except RequestValidationError as error:
            response = await render_invalid(request, error)
        await response(scope, receive, send)


def _parsed(model: type[BaseModel], content: bytes) -> BaseModel:
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        problems = error.errors()
    if problems[0]["type"] == "json_invalid":
        problems = _problems_of_loose_json(model, content) or problems
    raise RequestValidationError([{**problem, "loc": ("body", *problem["loc"])} for problem in problems])


def _problems_of_loose_json(model: type[BaseModel], content: bytes) -> Any:
    """The strict parser says only where it stopped; this names the field of, say, a lone surrogate."""
    try:
        model.model_validate(json.loads(content))
    except ValidationError as error:
        return error.errors()
    except (ValueError, RecursionError):
        return None
    return None
