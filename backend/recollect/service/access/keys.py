"""API keys: who a secret belongs to, and making, rotating and revoking them."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from recollect.domain.access import DEFAULT_SPACE, SCOPES, ApiKey, Caller, default_scopes, secret_hash
from recollect.errors import Conflict, InvalidInput, KeyRequired, Refused, Unavailable
from recollect.infra.journal.keys import SqlKeyStore, no_key
from recollect.service.coordination import BackgroundLoop, Clock

PREFIX = "rk_"
NOT_IN_FORCE = "this API key is unknown, expired or revoked"
_WRITE_SECONDS = 60.0
_LONGEST_TIMER = 86_400.0
_log = logging.getLogger("recollect.access")


def identify(
    keys: SqlKeyStore,
    secret: str | None,
    operator_token: str,
    *,
    on_loopback: bool,
    now: int,
    space: str | None = None,
) -> Caller:
    """Who a secret belongs to. On loopback, and while no key closes the server, everybody is the operator of `default`.

    The command line on this machine acts in whichever space it names. Raises KeyRequired.
    """
    if secret is not None and secrets.compare_digest(secret.encode(), operator_token.encode()):
        return Caller(space or DEFAULT_SPACE, local_operator=True)
    if secret is None or not secret.startswith(PREFIX):
        # A client's own placeholder key ("sk-none") does no harm where no keys are wanted.
        if keys.closed_at is not None or not on_loopback:
            raise KeyRequired
        return Caller()
    key = keys.find(secret_hash(secret))
    if key is None:
        raise KeyRequired(NOT_IN_FORCE)
    if not key.is_in_force(now):
        _log.warning("a request used the key %s, which has expired", key.key_id)
        raise KeyRequired(NOT_IN_FORCE)
    keys.used(key.key_id, now)
    return Caller(key.space, key.user_id, key_id=key.key_id, scopes=key.scopes)


def require_scopes(caller: Caller, needed: Sequence[str]) -> None:
    """Raises Refused, which names what the key lacks."""
    if missing := [scope for scope in needed if scope not in caller.scopes]:
        raise Refused(f"this key lacks the scope {' and '.join(missing)}", field="scopes")


async def create_key(
    keys: SqlKeyStore,
    clock: Clock,
    caller: Caller,
    *,
    space: str,
    user_id: str | None,
    name: str | None,
    scopes: Sequence[str] | None = None,
    expires: int | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its secret, which is shown this once. From the first key on, every request needs one.

    Nobody makes a key for another space, or with scopes that their own lacks.
    """
    _require_operator(caller)
    if not _manages(caller, space):
        raise Refused(f"this key manages the keys of the space {caller.space!r} alone", field="space")
    now = clock()
    if expires is not None and expires <= now:
        raise InvalidInput("expires: must be in the future", field="expires")
    allowed = default_scopes(user_id) if scopes is None else tuple(each for each in SCOPES if each in scopes)
    require_scopes(caller, allowed)
    return await _add(keys, ApiKey("", space, user_id, name, now, expires=expires, scopes=allowed))


async def rotate_key(
    keys: SqlKeyStore, clock: Clock, caller: Caller, key_id: str, overlap_ms: int
) -> tuple[ApiKey, str]:
    """A new key with the same space, user, name, scopes and lifetime. The old one ends after the overlap, or earlier.

    Raises Conflict for a key that is not in force, or was rotated before.
    """
    old, now = await _managed(keys, caller, key_id), clock()
    if not old.is_in_force(now):
        raise Conflict(f"the key {key_id} is not in force any more: create a new one")
    if old.replaced_by is not None:
        raise Conflict(f"the key {key_id} was rotated already: rotate {old.replaced_by}")
    lifetime = None if old.expires is None else old.expires - old.created
    new = replace(
        old, created=now, expires=None if lifetime is None else now + lifetime, revoked=None, last_used=None
    )
    require_scopes(caller, old.scopes)
    ends = now + overlap_ms if old.expires is None else min(old.expires, now + overlap_ms)
    return await _add(keys, new, replace(old, expires=ends))


async def _add(keys: SqlKeyStore, key: ApiKey, replaced: ApiKey | None = None) -> tuple[ApiKey, str]:
    secret = PREFIX + secrets.token_urlsafe(32)
    made = replace(key, key_id=f"k_{secrets.token_hex(6)}")
    await keys.add(made, secret_hash(secret), replaced=replaced)
    return made, secret


async def list_keys(keys: SqlKeyStore, caller: Caller) -> list[ApiKey]:
    """Those of the caller's space; for the command line on this machine, all."""
    _require_operator(caller)
    return [key for key, _ in await keys.list_with_hashes() if _manages(caller, key.space)]


async def revoke_key(keys: SqlKeyStore, clock: Clock, caller: Caller, key_id: str) -> tuple[ApiKey, int]:
    """The key, and how many are still in force. Without any, the server stays closed until `open_server`."""
    await _managed(keys, caller, key_id)
    key = await keys.revoke(key_id, clock())
    return key, len(keys.all_in_force(clock()))


async def open_server(keys: SqlKeyStore, clock: Clock, caller: Caller) -> None:
    """Let every program on this machine in without a key. Raises Conflict while a key is in force."""
    if not caller.local_operator:
        raise Refused("a server is opened with 'recollect keys open' on the machine that runs it")
    if held := keys.all_in_force(clock()):
        names = ", ".join(key.key_id for key in held[:5]) + (", …" if len(held) > 5 else "")
        raise Conflict(f"keys are in force: revoke them first ({names})")
    await keys.open()


def _require_operator(caller: Caller) -> None:
    if not caller.local_operator and caller.user_id is not None:
        raise Refused("keys are managed by the operator of a space: use a key that belongs to no single user")


def _manages(caller: Caller, space: str) -> bool:
    return caller.local_operator or caller.space == space


async def _managed(keys: SqlKeyStore, caller: Caller, key_id: str) -> ApiKey:
    """Raises NotFound for a key of another space."""
    _require_operator(caller)
    key = await keys.get(key_id)
    if not _manages(caller, key.space):
        raise no_key(key_id)
    return key


@contextmanager
def ending_with_key(
    keys: SqlKeyStore, clock: Clock, key_id: str | None, end: Callable[[], None]
) -> Iterator[None]:
    """Call `end` when the key is revoked or expires while the block runs."""
    if key_id is None:
        yield
        return
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        if timer is not None:
            timer.cancel()
        if (key := keys.in_force(key_id, clock())) is None:
            end()
        elif key.expires is not None:
            timer = loop.call_later(min((key.expires - clock()) / 1000, _LONGEST_TIMER), look)

    keys.watchers.add(look)
    try:
        look()
        yield
    finally:
        keys.watchers.discard(look)
        if timer is not None:
            timer.cancel()


class KeyUses(BackgroundLoop):
    """Writes down when keys were last used: once a minute, and at the end."""

    def __init__(self, keys: SqlKeyStore) -> None:
        self._keys = keys

    async def stop(self) -> None:
        await super().stop()
        await self._write()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_WRITE_SECONDS)
            await self._write()

    async def _write(self) -> None:
        try:
            await self._keys.write_uses()
        except Unavailable as error:
            _log.warning("the last use of keys cannot be written yet: %s", error)
