"""What routes ask for: the app, who is calling, ids out of paths and queries."""

from dataclasses import replace
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from recollect.app import App
from recollect.domain.access import Caller
from recollect.entrypoints import SPACE_HEADER
from recollect.entrypoints.http.guard import SLASH_IN_ID
from recollect.entrypoints.http.requests import MAX_ID, Id, addressable
from recollect.errors import InvalidInput, UnsupportedMediaType
from recollect.service.people import identify

_NOTED = {"user_id": "user", "thread_id": "thread", "turn_id": "turn"}
"""Ids in an address, and what the log calls them."""


async def get_app(request: Request) -> App:
    app: App = request.scope["recollect.app"]
    return app


def authenticated(request: Request) -> Caller:
    """Who the key belongs to, read off the headers alone, once a request.

    Raises KeyRequired where a key is needed and missing or wrong.
    """
    known: Caller | None = request.scope.get("recollect.caller")
    if known is not None:
        return known
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    given = secret.strip() if scheme.lower() == "bearer" and secret.strip() else None
    app: App = request.scope["recollect.app"]
    space = request.headers.get(SPACE_HEADER)  # Percent-encoded: a space may be called anything.
    caller = identify(
        app.keys,
        given,
        app.lock.token,
        on_loopback=request.scope["recollect.on_loopback"],
        space=unquote(space) if space else None,
    )
    request.scope["recollect.caller"] = caller
    return caller


def admit_body(request: Request) -> None:
    """Refuse a body that nobody would use, before a byte of it is read: one without a key, or that is no JSON."""
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    authenticated(request)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedMediaType(
            f"Content-Type: must be application/json, not {kind[:100] or 'unset'}", field="Content-Type"
        )


async def get_caller(request: Request) -> Caller:
    """Raises KeyRequired where keys are in force and none, or a wrong one, is given.

    Notes the ids in the request's address for its log line.
    """
    caller = authenticated(request)
    if request.scope["query_string"]:
        caller = _narrowed(caller, request)
    note(request, user=caller.user_id)
    for name, value in request.path_params.items():
        if name in _NOTED:
            note(request, **{_NOTED[name]: _with_slashes(value)[:MAX_ID]})
    return caller


def _narrowed(caller: Caller, request: Request) -> Caller:
    """`user_id` in the query says who asks, on every route; a parameter that no route knows is a mistake."""
    route = request.scope.get("route")
    known = {"user_id"}
    if isinstance(route, APIRoute):
        known |= {parameter.alias for parameter in route.dependant.query_params}
    for name in request.query_params:
        if name not in known:
            raise InvalidInput(f"{name}: this parameter is not known", field=name)
    user_id = request.query_params.get("user_id")
    if user_id == "":
        raise InvalidInput("user_id: must not be empty", field="user_id")
    return replace(caller, user_id=caller.acting_for(user_id))


def note(request: Request, **ids: str | None) -> None:
    """Put ids into this request's line of the log. What is known already stays: a key's user above all."""
    notes: dict[str, str] = request.scope["recollect"]
    for name, value in ids.items():
        if value is not None:
            notes.setdefault(name, value)


def _with_slashes(identifier: str) -> str:
    return identifier.replace(SLASH_IN_ID, "/")


Home = Annotated[App, Depends(get_app)]
Calling = Annotated[Caller, Depends(get_caller)]
PathId = Annotated[str, Path(min_length=1, max_length=MAX_ID), AfterValidator(_with_slashes)]
OpenedId = Annotated[PathId, AfterValidator(addressable)]
"""Of a thread that is opened where it does not exist."""
UserQuery = Annotated[Id | None, Query(description="Whose; unset: the key's user, or all of the space.")]
