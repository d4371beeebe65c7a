"""What routes ask for: the app, who is calling, ids out of paths and queries."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated
from urllib.parse import unquote, unquote_to_bytes

from fastapi import Depends, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from recollect.app import App
from recollect.domain.access import ADMIN, SIGNED_USER_HEADER, USER_HEADER, Caller, signed_user
from recollect.domain.forgetting import Memories
from recollect.entrypoints import SPACE_HEADER
from recollect.entrypoints.http.access import admit, body_bytes, counted, owner_named
from recollect.entrypoints.http.guard import FORWARDED, SLASH_IN_ID, is_import
from recollect.entrypoints.http.requests import MAX_ID, Id, addressable, storable
from recollect.errors import Conflict, InvalidInput, KeyRequired, UnsupportedMediaType
from recollect.infra.addresses import is_loopback
from recollect.service.access.keys import identify

_NOTED = {"user_id": "user", "thread_id": "thread", "turn_id": "turn", "entry_id": "entry", "key_id": "key"}
"""Ids in an address, and what the log calls them."""


async def get_app(request: Request) -> App:
    app: App = request.scope["recollect.app"]
    return app


def header(request: Request, name: str) -> str | None:
    """Without a search through all of them, which starlette makes for every name."""
    given: bytes | None = request.scope["recollect.headers"].get(name.lower().encode())
    return None if given is None else given.decode("latin-1")


def authenticated(request: Request) -> Caller:
    """Who the key belongs to, read off the headers alone, once a request, which counts for the key's quotas.

    Raises KeyRequired where a key is needed and missing or wrong, OverQuota where a quota is used up.
    """
    known: Caller | None = request.scope.get("recollect.caller")
    if known is not None:
        return known
    caller = _identified(request)
    length = header(request, "content-length") or "0"
    is_told = length.isdigit() and header(request, "transfer-encoding") is None
    caller = request.scope["recollect.caller"] = counted(
        request.scope, caller, int(length) if is_told else None
    )
    return caller


def is_operator(request: Request) -> bool:
    """Whether the caller may be told what is nobody's but the server's. Costs no quota, and refuses nobody."""
    try:
        caller = _identified(request)
    except KeyRequired:
        return False
    return caller.user_id is None and ADMIN in caller.scopes


def asked_on_this_machine(request: Request) -> None:
    """Raises Conflict where one of several servers is asked from elsewhere to write a file: nobody would find it."""
    app: App = request.scope["recollect.app"]
    is_elsewhere = request.client is not None and not is_loopback(request.client.host)
    if app.settings.member_url is not None and (
        is_elsewhere or FORWARDED in request.scope["recollect.headers"]
    ):
        raise Conflict(
            "the file would be on the machine of the server that leads, and stay there: run the command on that"
            f" machine, with the home of the server at {app.settings.member_url}"
        )


def _identified(request: Request) -> Caller:
    """Raises KeyRequired."""
    scheme, _, secret = (header(request, "authorization") or "").partition(" ")
    given = secret.strip() if scheme.lower() in ("bearer", "token") else None
    given = given or (header(request, "x-api-key") or "").strip() or None  # As Anthropic's clients send it.
    app: App = request.scope["recollect.app"]
    space = header(request, SPACE_HEADER)  # Percent-encoded: a space may be called anything.
    return identify(
        app.keys,
        given,
        app.lock.token,
        on_loopback=request.scope["recollect.on_loopback"],
        now=app.clock(),
        space=unquote(space) if space else None,
    )


def admit_body(request: Request) -> None:
    """Refuse a body that nobody would use, before a byte of it is read: one without a key, or that is not in the form that the route takes."""
    if header(request, "content-length") in (None, "0") and header(request, "transfer-encoding") is None:
        return
    authenticated(request)
    kind = (header(request, "content-type") or "").partition(";")[0].strip().lower()
    is_file = is_import(request.method, request.scope["path"])
    wanted = "application/octet-stream" if is_file else "application/json"
    if kind != wanted:
        raise UnsupportedMediaType(
            f"Content-Type: must be {wanted}, not {kind[:100] or 'unset'}", field="Content-Type"
        )


async def get_caller(request: Request) -> Caller:
    """Who is asking, as far as key, query and headers tell; a body may name somebody to `Caller.acting_for`.

    Raises KeyRequired where keys are in force and none, or a wrong one, is given; Refused where it lacks a scope.
    Notes the ids in the request's address for its log line.
    """
    caller = authenticated(request)
    named = {
        name: _with_slashes(value)[:MAX_ID] for name, value in request.path_params.items() if name in _NOTED
    }
    admit(request.scope, caller)
    caller = _narrowed(caller, request)
    request.scope["recollect.user_is_hint"] = caller.is_hint
    note(request, user=caller.user_id)
    note(request, **{_NOTED[name]: value for name, value in named.items()})
    note(request, **await owner_named(request.scope, named, caller))
    if caller.user_id is not None and not (caller.is_hint and body_bytes(request.scope)):
        caller.acting_for(None)  # A body may name another than the header does; else it is decided.
    return caller


def _narrowed(caller: Caller, request: Request) -> Caller:
    """The key's user, else the signed one, else the first that is named: in the query, in a header."""
    user_id = _user_in_query(request) if request.scope["query_string"] else None
    app: App = request.scope["recollect.app"]
    named, settings = id_in_header(USER_HEADER, request), app.settings
    token = header(request, SIGNED_USER_HEADER)
    if caller.user_id is None and token:
        if settings.user_jwt_secret is None:
            raise KeyRequired(
                f"{SIGNED_USER_HEADER}: RECOLLECT_USER_JWT_SECRET is not set, so nobody can tell who signed it",
                field=SIGNED_USER_HEADER,
            )
        signed = signed_user(token, settings.user_jwt_secret.get_secret_value(), app.clock())
        caller = replace(caller, user_id=_checked_id(SIGNED_USER_HEADER, signed))
    if caller.user_id is not None:
        caller.acting_for(user_id)
        caller.acting_for(named)
        return caller
    if user_id is not None:
        return replace(caller, user_id=user_id)
    hint = named or id_in_header(settings.user_headers, request)
    return caller if hint is None else replace(caller, user_id=hint, is_hint=True)


def _user_in_query(request: Request) -> str | None:
    """`user_id` in the query says who asks, on every route; a parameter that no route knows is a mistake."""
    route = request.scope.get("route")
    known = {"user_id"}
    if isinstance(route, APIRoute):
        asking = (route.dependant, *route.dependant.dependencies)
        known |= {parameter.alias for each in asking for parameter in each.query_params}
    for name in request.query_params:
        if name not in known:
            raise InvalidInput(f"{name}: this parameter is not known", field=name)
    user_id = request.query_params.get("user_id")
    if user_id == "":
        raise InvalidInput("user_id: must not be empty", field="user_id")
    return user_id


def id_in_header(names: str | Sequence[str], request: Request) -> str | None:
    """The id in the first of these headers that is given, percent-encoded or UTF-8; an empty one names nobody."""
    for name in (names,) if isinstance(names, str) else names:
        if given := header(request, name):
            try:
                return _checked_id(name, unquote_to_bytes(given.encode("latin-1")).decode())
            except UnicodeDecodeError:
                raise InvalidInput(f"{name}: this is no id", field=name) from None
    return None


def _checked_id(field: str, identifier: str) -> str:
    try:
        if identifier and len(identifier) <= MAX_ID:
            return storable(identifier)
    except ValueError as error:
        raise InvalidInput(f"{field}: this is no id: it {error}", field=field) from None
    raise InvalidInput(f"{field}: this is no id", field=field)


def note(request: Request, **ids: str | None) -> None:
    """Put ids into this request's line of the log. What is known already stays: a key's user above all.

    Only a user whom a header named gives way to one whom the request names itself.
    """
    notes: dict[str, str] = request.scope["recollect"]
    for name, value in ids.items():
        if value is not None and (
            name not in notes or (name == "user" and request.scope["recollect.user_is_hint"])
        ):
            notes[name] = value


def _with_slashes(identifier: str) -> str:
    return identifier.replace(SLASH_IN_ID, "/")


Home = Annotated[App, Depends(get_app)]
Calling = Annotated[Caller, Depends(get_caller)]
PathId = Annotated[str, Path(min_length=1, max_length=MAX_ID), AfterValidator(_with_slashes)]
OpenedId = Annotated[PathId, AfterValidator(addressable)]
"""Of a thread that is opened where it does not exist."""
UserQuery = Annotated[Id | None, Query(description="Whose; unset: the key's user, or all of the space.")]
WhichMemories = Annotated[
    Memories,
    Query(description="Which memories made from it go: all, none, or `made`: those that nobody edited."),
]
