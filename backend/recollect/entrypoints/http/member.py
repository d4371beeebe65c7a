"""One of several servers on a journal. The one that leads answers; the others pass requests on to it, and stand by."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect import __version__
from recollect.app import App
from recollect.entrypoints.http import errors
from recollect.entrypoints.http.answers import LiveAnswer
from recollect.entrypoints.http.forwarding import (
    NOT_LEADING,
    Arrived,
    BrokenOff,
    Forwarder,
    NotSent,
)
from recollect.entrypoints.http.guard import FORWARDED
from recollect.entrypoints.http.server import (
    Door,
    announced,
    create_server,
    door_config,
    refuse_open_door,
    stopping,
    warm_up_and_collect,
    warn_of_settings,
)
from recollect.errors import HomeInUse, RecollectError, SchemaTooNew, Unavailable
from recollect.infra.addresses import is_loopback
from recollect.infra.journal.database import leadership_of
from recollect.infra.journal.postgres_leader import Leadership, Seen

_LOOK_EVERY = 0.25
_PATIENCE = 3.0
"""Seconds for which nobody may hold the journal before a server takes it: one that restarts, or whose connection broke,
is back by then."""
_WORKERS_PATIENCE = 1.5
"""Workers are the first to take it."""
_RETRY_AFTER = 2.0
METRICS_TYPE = "text/plain; version=0.0.4"
_SAFE = ("GET", "HEAD", "OPTIONS")
_log = logging.getLogger("recollect.member")
_refused = errors.for_either_door(errors.render_known)


class Member:
    """Between the guard and the application of a server: answers itself while it leads."""

    def __init__(self, app: App, leadership: Leadership, *, is_worker: bool) -> None:
        self._app = app
        self._leadership = leadership
        self._patience = _WORKERS_PATIENCE if is_worker else _PATIENCE
        self._is_open = not is_loopback(app.settings.host)
        self._is_starting = False
        self._is_too_old = False
        self.is_ending: Callable[[], bool] = lambda: False
        self.leads = False
        """Whether the home is open here."""
        self._forwarder: Forwarder | None = None
        self._somebody_leads = asyncio.Event()
        self._inner: ASGIApp | None = None

    def around(self, inner: ASGIApp) -> ASGIApp:
        """The application, answering for whoever leads."""
        self._inner = inner
        return self._answer

    async def stand_by(self) -> None:
        """Pass requests on until nobody leads; then lead. Returns when this server does."""
        free_since: float | None = None
        while not self.leads:
            seen = await self._look()
            now = time.monotonic()
            if seen is None or seen.is_held:
                free_since = None
            elif free_since is None:
                free_since = now
            elif self._may_lead() and (seen.leader is None or now - free_since >= self._patience):
                free_since = None
                await self._try_to_lead()
                if not self.leads:
                    await asyncio.sleep(_LOOK_EVERY)
                continue
            if seen is not None:
                await self._follow(seen)
            await asyncio.sleep(_LOOK_EVERY)

    def _may_lead(self) -> bool:
        return not (self._is_too_old or self.is_ending())

    async def lead(self) -> None:
        """Keep the journal. Returns when another server has taken it."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            seen = await self._look()
            if seen is None:
                continue
            if seen.leader is None or seen.leader.operator != self._app.lock.token:
                return
            if not seen.is_held:
                await self._hold_again()

    async def close(self) -> None:
        await self._follow(None)
        await asyncio.to_thread(self._leadership.close)

    async def _look(self) -> Seen | None:
        """None while PostgreSQL does not answer: who led leads, for all that is known."""
        return await asyncio.to_thread(self._leadership.look)

    async def _try_to_lead(self) -> None:
        self._is_starting = True
        try:
            await self._follow(None)
            _log.info("nobody leads: this server takes the journal")
            await self._app.start()
        except (HomeInUse, Unavailable) as error:
            _log.info("this server does not lead yet: %s", error)
        except SchemaTooNew as error:
            self._is_too_old = True
            _log.warning("this server can only pass requests on: %s", error)
        else:
            self.leads = True
            self._app.metrics.leads.set(1)
            self._somebody_leads.set()
            _log.warning("this server leads now")
        finally:
            self._is_starting = False

    async def _hold_again(self) -> None:
        """A write makes the connection again that broke, and takes the lock."""
        try:
            await self._app.database.write(lambda connection: None)
        except Unavailable as error:
            _log.info("the journal is not held: %s", error)

    async def _follow(self, seen: Seen | None) -> None:
        """Pass requests on to whom the journal names. What waits for somebody else's answer breaks off."""
        leader = seen.leader if seen is not None and seen.is_held else None
        if seen is not None and seen.leader is not None and seen.leader.operator == self._app.lock.token:
            leader = None
        current = self._forwarder
        if seen is not None and not seen.is_held and current is not None and seen.leader == current.leader:
            return  # PostgreSQL restarts: who leads goes on, unless somebody else takes the journal.
        if leader == (current.leader if current is not None else None):
            return
        self._forwarder = None
        self._somebody_leads.clear()
        if leader is not None:
            _log.info("the server at %s leads", leader.address)
            self._forwarder = Forwarder(leader, self._app.lock.token, is_open=self._is_open)
            self._somebody_leads.set()
        if current is not None:
            await current.aclose()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._inner is not None
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
        elif scope["path"] == "/health/live":
            role = "leads" if self.leads else "stands by"
            await JSONResponse(LiveAnswer(version=__version__, role=role).model_dump())(scope, receive, send)
        elif self.leads:
            await self._inner(scope, receive, send)
        elif scope["path"] == "/metrics":
            await self._own_metrics(scope, receive, send)
        else:
            await self._answer_elsewhere(scope, receive, send)

    async def _own_metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Each server has figures of its own; whether they are the caller's to see, the leader knows."""
        told: list[Message] = []

        async def keep(message: Message) -> None:
            told.append(message)

        await self._answer_elsewhere(scope, receive, keep)
        if told and told[0]["status"] == 200:
            await Response(self._app.metrics.render(), media_type=METRICS_TYPE)(scope, receive, send)
            return
        for message in told:
            await send(message)

    async def _answer_elsewhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def noting(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._pass_on(scope, Arrived(scope, receive), noting, lambda: began)
        except RecollectError as error:
            refused = await _refused(Request(scope), error)
            await refused(scope, receive, send)

    async def _pass_on(
        self, scope: Scope, arrived: Arrived, send: Send, has_begun: Callable[[], bool]
    ) -> None:
        """To whoever leads, and to the next leader if that can be done without doing it twice. Raises Unavailable."""
        assert self._inner is not None
        until = time.monotonic() + self._app.settings.database_wait_seconds
        is_from_a_member = FORWARDED in scope["recollect.headers"]
        while True:
            if is_from_a_member and not (self.leads or self._is_starting):
                mark = {FORWARDED.decode(): "not leading"}
                await Response(status_code=NOT_LEADING, headers=mark)(scope, arrived.again(), send)
                return
            await self._wait_for_a_leader(until)
            forwarder = None if is_from_a_member else self._forwarder
            if forwarder is None:
                if self.leads:
                    await self._inner(scope, arrived.again(), send)
                    return
                await asyncio.sleep(0)
                continue
            try:
                await forwarder.pass_on(scope, arrived, send)
            except NotSent as error:
                if not arrived.can_be_sent_again or time.monotonic() >= until:
                    told = "the server that leads can't be reached; nothing of this was done"
                    raise Unavailable(told, retry_after=_RETRY_AFTER) from error
            except BrokenOff as error:
                if has_begun():
                    return  # The connection ends with half an answer, as it would with the leader itself.
                may_repeat = scope["method"] in _SAFE and arrived.can_be_sent_again
                if not may_repeat or time.monotonic() >= until:
                    raise Unavailable(
                        "the server that leads went away before it answered; whether this was done is not known."
                        " Ask again: a message that has an id is kept once",
                        retry_after=_RETRY_AFTER,
                    ) from error
            else:
                self._app.metrics.forwarded.inc()
                return
            await asyncio.sleep(_LOOK_EVERY)

    async def _wait_for_a_leader(self, until: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await self._somebody_leads.wait()
        except TimeoutError as error:
            told = "no server leads at the moment; nothing of this was done. Is PostgreSQL running?"
            raise Unavailable(told, retry_after=_RETRY_AFTER) from error


async def serve_beside_others(app: App, *, is_worker: bool) -> None:
    """Serve beside others on the same journal until told to stop, or until another has taken it."""
    settings = app.settings
    warn_of_settings(settings)
    member = Member(app, leadership_of(settings), is_worker=is_worker)
    app.lock.acquire()
    server = Door(door_config(app, create_server(app, member.around)))

    member.is_ending = lambda: server.should_exit

    async def attend() -> None:
        await member.stand_by()
        refuse_open_door(app)
        caring = asyncio.create_task(warm_up_and_collect(app, server))
        try:
            await member.lead()
        finally:
            caring.cancel()
            await asyncio.gather(caring, return_exceptions=True)

    with announced(app) as listener, stopping(app, server) as ending:
        attending = asyncio.create_task(attend())
        attending.add_done_callback(lambda _: server.handle_exit(signal.SIGTERM, None))
        try:
            await server.serve(sockets=[listener])
        finally:
            was_overtaken = attending.done()
            attending.cancel()
            ended = await asyncio.gather(attending, *ending, return_exceptions=True)
            await member.close()
            if member.leads:
                # What an overtaken server would still write is refused.
                with suppress(Unavailable) if was_overtaken else nullcontext():
                    await app.stop()
            app.lock.release()
    if isinstance(ended[0], Exception):
        raise ended[0]
    if was_overtaken:
        raise HomeInUse("another server leads now; this one ends, so that it is started again and stands by")
