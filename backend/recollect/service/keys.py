"""Keys: who may come in."""

import secrets

from recollect.errors import InvalidInput, KeyRequired, Refused
from recollect.memory.access import DEFAULT_SPACE, ApiKey, Caller, secret_hash
from recollect.service.ports import Clock, KeyStore

PREFIX = "rk_"


def identify(
    keys: KeyStore, secret: str | None, operator_token: str, *, on_loopback: bool, space: str | None = None
) -> Caller:
    """Who a secret belongs to. On loopback and without any key in force, everybody is the operator of `default`.

    The command line on this machine acts in whichever space it names.
    """
    if secret is not None and secrets.compare_digest(secret.encode(), operator_token.encode()):
        return Caller(space or DEFAULT_SPACE, local_operator=True)
    if secret is None or not secret.startswith(PREFIX):
        # A client's own placeholder key ("sk-none") does no harm where no keys are wanted.
        if keys.any_in_force() or not on_loopback:
            raise KeyRequired
        return Caller()
    key = keys.find(secret_hash(secret))
    if key is None:
        raise KeyRequired("this API key is unknown or was revoked")
    return Caller(key.space, key.user_id)


async def create_key(
    keys: KeyStore, clock: Clock, caller: Caller, *, space: str, user_id: str | None, name: str | None
) -> tuple[ApiKey, str]:
    """A new key and its secret, which is shown this once."""
    _operators_only(caller)
    if not space:
        raise InvalidInput("space must not be empty", field="space")
    secret = PREFIX + secrets.token_urlsafe(32)
    key = ApiKey(f"k_{secrets.token_hex(6)}", space, user_id, name, clock())
    await keys.add(key, secret_hash(secret))
    return key, secret


async def list_keys(keys: KeyStore, caller: Caller) -> list[ApiKey]:
    _operators_only(caller)
    return await keys.list_keys()


async def revoke_key(keys: KeyStore, clock: Clock, caller: Caller, key_id: str) -> ApiKey:
    _operators_only(caller)
    return await keys.revoke(key_id, clock())


def _operators_only(caller: Caller) -> None:
    if not caller.local_operator:
        raise Refused("keys are managed with 'recollect keys' on the machine that runs the server")
