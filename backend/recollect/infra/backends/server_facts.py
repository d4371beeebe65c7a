"""What a server told of itself, for as long as that can be trusted."""

import asyncio
import time
from collections.abc import Callable

from recollect.context.llm import BackendFacts
from recollect.errors import BackendDown, ModelTooSlow, ModelUnavailable, StreamBroken
from recollect.infra.backends.endpoint import Endpoint
from recollect.infra.backends.fingerprint import Ask, fingerprint
from recollect.infra.backends.server import ModelServer

UNSETTLED_SECONDS = 5.0
"""How long facts serve that some question was left open in."""
IDLE_SECONDS = 30.0
"""A local server that sent nothing for so long may have been restarted, with other settings or as another engine."""
REPLACED = frozenset({400, 404, 405, 422})
"""With these a server answers, too, that is not the one that was asked before."""


class ServerFacts:
    """Asked once, and again when something makes them doubtful."""

    def __init__(
        self,
        endpoint: Endpoint,
        server: ModelServer,
        ask: Ask,
        *,
        on_told: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self._server = server
        self._ask = ask
        self._on_told = on_told
        self._monotonic = monotonic
        self._asking = asyncio.Lock()
        self._known: BackendFacts | None = None
        self._last: BackendFacts | None = None
        """The last ones that were settled, though they may be doubtful by now."""
        self._is_settled = False
        self._asked_at = 0.0
        self.takes_extras = True
        """Until it refuses them; one that was restarted or replaced is offered them again."""

    async def get(self) -> BackendFacts:
        """Raises what keeps the server from telling."""
        if self._known is not None and not self._is_due():
            return self._known
        async with self._asking:
            known = self._known
            if known is None:
                return await self._ask_patiently()
            if self._is_due():
                return await self._check(known)
            return known

    async def ask_anew(self) -> BackendFacts:
        async with self._asking:
            return await self._ask_all()

    def doubt(self) -> None:
        """Ask again before they are used again."""
        self._known = None

    def after(self, error: ModelUnavailable) -> None:
        """A call failed: whoever answers at this address next may be another engine."""
        if isinstance(error, BackendDown | StreamBroken):
            self.doubt()
        if isinstance(error, BackendDown):
            self.takes_extras = True

    def after_status(self, status: int) -> None:
        """A call was refused: perhaps because the server is not what it was."""
        if status in REPLACED or status >= 500:
            self.doubt()

    def _is_due(self) -> bool:
        age = self._monotonic() - self._asked_at
        if not self._is_settled:
            return age >= UNSETTLED_SECONDS
        is_local = self._known is not None and self._known.local
        return is_local and min(age, self._server.idle_seconds()) >= IDLE_SECONDS

    async def _check(self, known: BackendFacts) -> BackendFacts:
        """A server that is only slow to tell is still what it was."""
        try:
            return await self._ask_all()
        except BackendDown:
            self.doubt()
            raise
        except ModelUnavailable:
            self._asked_at = self._monotonic()
            return known

    async def _ask_patiently(self) -> BackendFacts:
        """A server, or a machine, that is busy for some seconds costs nobody their answer."""
        give_up_at = self._monotonic() + self._endpoint.patience.introduction
        while True:
            try:
                return await self._ask_all()
            except ModelTooSlow:
                if self._monotonic() >= give_up_at:
                    raise

    async def _ask_all(self) -> BackendFacts:
        try:
            found = await fingerprint(self._endpoint, self._ask)
        except ModelUnavailable as error:
            self.after(error)
            raise
        self._known, self._is_settled, self._asked_at = found.facts, found.is_settled, self._monotonic()
        self._on_told()
        if found.is_settled:
            if self._last is not None and _differ(self._last, found.facts):
                self.takes_extras = True
            self._last = found.facts
        return found.facts


def _differ(one: BackendFacts, other: BackendFacts) -> bool:
    return (one.kind, one.models) != (other.kind, other.models)
