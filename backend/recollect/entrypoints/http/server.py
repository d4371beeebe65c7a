"""The HTTP application, and running it."""

import asyncio
import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from recollect import __version__
from recollect.app import App
from recollect.entrypoints.http import errors
from recollect.entrypoints.http.access import audited, count_arriving
from recollect.entrypoints.http.connection import Connection, Connections
from recollect.entrypoints.http.deps import admit_body
from recollect.entrypoints.http.direct_route import Shortcut
from recollect.entrypoints.http.doors import (
    anthropic,
    conversations,
    everos,
    mcp,
    mem0,
    responses,
    supermemory,
)
from recollect.entrypoints.http.guard import FORWARDED, OPEN, Guard
from recollect.entrypoints.http.openai_schemas import LABEL_HEADER, THREAD_HEADER, TURN_HEADER
from recollect.entrypoints.http.routes import (
    chat,
    entries,
    forget,
    memory,
    openai,
    operations,
    people,
    threads,
    web,
    webhooks,
)
from recollect.errors import HomeUnusable, RecollectError
from recollect.infra.addresses import is_loopback
from recollect.settings import TOML_NAME, Settings, unknown_variables

_log = logging.getLogger("recollect.http")
STOP_SECONDS = 10
"""How long requests under way have when the server is told to stop."""
ANSWER_SECONDS = 8.0
"""How long answers under way have; then they end, are stored as far as they got, and their clients are told."""
_refused = errors.for_either_door(errors.render_known)
_COLLECT_EVERY = 60.0
"""Seconds after which garbage is collected even while requests are under way."""
_NEVER = 1_000_000_000
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, never bound by itself


@cache
def create_api() -> FastAPI:
    """Routes and error handling, built once. A request's scope says which home it is for."""
    api = FastAPI(
        title="Recollect",
        version=__version__,
        description="A self-hosted memory server for LLM chat and agents.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in (
        memory.router,
        entries.router,
        threads.router,
        forget.router,
        memory.imports_router,
        chat.router,
        openai.router,
        responses.router,
        conversations.router,
        anthropic.router,
        mcp.router,
        mem0.router,
        everos.router,
        supermemory.router,
        people.router,
        operations.router,
        webhooks.router,
        web.router,
        operations.operator_router,
    ):
        api.include_router(router)
    api.add_exception_handler(RecollectError, errors.for_either_door(errors.render_known))
    api.add_exception_handler(RequestValidationError, errors.for_either_door(errors.render_invalid))
    api.add_exception_handler(HTTPException, errors.for_either_door(errors.render_http))
    api.add_exception_handler(Exception, errors.for_either_door(errors.render_unexpected))
    # FastAPI makes routes when they are first looked at, for half a second: no request waits for that.
    for route in api.routes:
        route.matches({"type": "http", "method": "GET", "path": "/nowhere", "root_path": "", "headers": []})
    return api


def create_server(app: App, around: Callable[[ASGIApp], ASGIApp] = lambda inner: inner) -> Guard:
    """The whole ASGI application for a home; `around` goes between its guard and all the rest."""
    api = create_api()
    settings = app.settings
    local = is_loopback(settings.host)
    direct = (memory, openai, responses, anthropic, mcp, mem0, everos, supermemory)
    routed = Shortcut(api, [route for door in direct for route in door.router.routes])

    async def at_home(scope: Scope, receive: Receive, send: Send) -> None:
        scope["recollect.app"], scope["recollect.on_loopback"] = app, local
        if scope["type"] == "http":
            if scope["recollect.headers"].get(FORWARDED) == OPEN:
                scope["recollect.on_loopback"] = False
            request = Request(scope)
            try:
                admit_body(request)
            except RecollectError as error:
                refused = await _refused(request, error)
                await refused(scope, receive, send)
                return
            if "transfer-encoding" in request.headers:
                receive = count_arriving(scope, receive)
            send = audited(scope, send)
        await routed(scope, receive, send)

    inner: ASGIApp = at_home
    # As browsers send them. The guard has refused all others; a wildcard is none that a browser sends.
    if origins := [origin.lower().rstrip("/") for origin in settings.allowed_origins]:
        inner = CORSMiddleware(
            inner,
            allow_origins=[origin for origin in origins if origin != "*"],
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=[THREAD_HEADER, TURN_HEADER, LABEL_HEADER, "Retry-After"],
        )
    return Guard(
        around(inner),
        metrics=app.metrics,
        limits=settings.limits,
        check_host=local or bool(settings.allowed_hosts),
        allowed_hosts=[*settings.allowed_hosts, *([settings.host.strip("[]")] if local else [])],
        allowed_origins=settings.allowed_origins,
    )


def run_server(serving: Coroutine[Any, Any, None]) -> None:
    """Run until it ends, on the fastest loop there is."""
    import uvloop

    # By default a thread that renders a transcript may keep a request waiting for 5 ms at a time.
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving)


class Door(uvicorn.Server):
    """Does not handle signals: uvicorn would raise them again at its end, before the home is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def door_config(app: App, asgi: ASGIApp | None = None) -> uvicorn.Config:
    """How a home is served over the network: within its limits."""
    limits = app.settings.limits
    return uvicorn.Config(
        asgi or create_server(app),
        http=cast(Any, partial(Connection, shared=Connections(limits, app.metrics))),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


async def serve(app: App) -> None:
    """Serve until told to stop. Requests under way are answered, running jobs end, the rest waits."""
    warn_of_settings(app.settings)
    async with app:
        refuse_open_door(app)
        server = Door(door_config(app))
        with announced(app) as listener, stopping(app, server) as ending:
            caring = asyncio.create_task(warm_up_and_collect(app, server))
            try:
                await server.serve(sockets=[listener])
            finally:
                caring.cancel()
                await asyncio.gather(caring, *ending, return_exceptions=True)


def warn_of_settings(settings: Settings) -> None:
    for name, meant in unknown_variables().items():
        _log.warning(
            "the variable %s is no setting of Recollect's%s", name, meant or "; see docs/settings.md"
        )
    if (file := exposed_file(settings)) is not None:
        _log.warning("%s holds a key, and its mode lets everybody read it: chmod 600 %s", file, file)


def refuse_open_door(app: App) -> None:
    host = app.settings.host
    if not is_loopback(host) and not app.keys.all_in_force(app.clock()):
        raise HomeUnusable(
            f"refusing to listen on {host} without API keys: anybody could read everything. "
            "Make one with 'recollect keys create', or listen on 127.0.0.1."
        )
    if app.keys.closed_at is not None and not app.keys.all_in_force(app.clock()):
        _log.warning("no API key is in force: see 'recollect keys create' and 'recollect keys open'")


@contextmanager
def announced(app: App) -> Iterator[socket.socket]:
    """What the server listens on, after its address is told."""
    settings = app.settings
    listener = _bind(settings.host, settings.port)
    address = _address(settings.host, listener.getsockname()[1])
    app.lock.announce(address)
    sys.stdout.write(f"Recollect {__version__} is listening on {address} (home: {settings.home})\n")
    sys.stdout.flush()
    with listener:
        yield listener


@contextmanager
def stopping(app: App, server: Door) -> Iterator[list[asyncio.Task[None]]]:
    """What SIGTERM and SIGINT begin, besides letting the server end."""
    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []

    def stop(number: signal.Signals) -> None:
        server.handle_exit(number, None)
        loop.call_later(ANSWER_SECONDS, lambda: ending.append(asyncio.create_task(app.chat.stop())))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    yield ending


async def warm_up(app: App) -> None:
    """Make the first requests fast, and full garbage collections short: these hold up every thread.

    What is loaded now stays until the end, so none of them has to look at it again.
    """
    await app.warm_up()
    gc.freeze()


async def warm_up_and_collect(app: App, server: uvicorn.Server) -> None:
    await warm_up(app)
    await collect_between_requests(lambda: bool(server.server_state.tasks))


async def collect_between_requests(is_busy: Callable[[], bool]) -> None:
    """Run full garbage collections, which hold up every thread, while no request is under way."""
    young, middle, enough = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    last = time.monotonic()
    try:
        while True:
            await asyncio.sleep(1)
            is_late = time.monotonic() - last > _COLLECT_EVERY
            if gc.get_count()[2] >= enough and (is_late or not is_busy()):
                gc.collect()
                last = time.monotonic()
    finally:
        gc.set_threshold(young, middle, enough)


@asynccontextmanager
async def private_socket(app: App) -> AsyncIterator[str]:
    """Serve an open home to this process alone: the path of a socket that nobody else can reach.

    Requests under way have ended when the block has.
    """
    config = uvicorn.Config(
        create_server(app), http="httptools", ws="none", log_config=None, access_log=False, lifespan="off"
    )
    config.load()
    state = ServerState()
    connected = partial(HttpToolsProtocol, config=config, server_state=state, app_state={})
    with TemporaryDirectory(prefix="recollect-") as folder:
        path = f"{folder}/socket"
        server = await asyncio.get_running_loop().create_unix_server(connected, path)
        try:
            yield path
        finally:
            server.close()
            await asyncio.gather(*state.tasks, return_exceptions=True)


@asynccontextmanager
async def shared_door(app: App) -> AsyncIterator[str]:
    """Serve an open home on a free port of this machine: the address, which other commands find in the home's lock."""
    listener = _bind("127.0.0.1", 0)
    address = _address("127.0.0.1", listener.getsockname()[1])
    server = Door(door_config(app))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    app.lock.announce(address)
    try:
        yield address
    finally:
        server.should_exit = True
        await serving


def exposed_file(settings: Settings) -> Path | None:
    """The settings file, if others may read it and a secret is in it."""
    file = settings.home / TOML_NAME
    if not file.is_file() or not file.stat().st_mode & 0o004:
        return None
    text = file.read_text(encoding="utf-8")
    secrets = [*_secrets(settings.model_dump()), settings.postgres_url or ""]
    return file if any(secret in text for secret in secrets if secret) else None


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr) and value:
        yield value.get_secret_value()
    elif isinstance(value, dict):
        for item in value.values():
            yield from _secrets(item)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise HomeUnusable(
            f"cannot listen on {host}:{port}: {error.strerror}. Choose another port with RECOLLECT_PORT or --port."
        ) from error
    listener.listen(2048)
    return listener


def _address(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{'127.0.0.1' if host == ANY_ADDRESS else shown}:{port}"
