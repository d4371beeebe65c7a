"""Who is asking: API keys and callers."""

import base64
import hashlib
import hmac
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from recollect.errors import KeyRequired, Refused

DEFAULT_SPACE = "default"
USER_HEADER = "X-Recollect-User"
SIGNED_USER_HEADER = "X-OpenWebUI-User-Jwt"
READ, WRITE, DELETE, ADMIN = SCOPES = ("read", "write", "delete", "admin")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored: the secret itself is shown once and never kept."""

    key_id: str
    space: str
    user_id: str | None
    name: str | None
    created: int
    revoked: int | None = None
    expires: int | None = None
    scopes: tuple[str, ...] = SCOPES
    """What it allows, in the order of SCOPES."""
    last_used: int | None = None
    replaced_by: str | None = None
    """The key that a rotation made instead of this one."""

    def is_in_force(self, now: int) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


def default_scopes(user_id: str | None) -> tuple[str, ...]:
    """A key of the whole space allows everything; a user's key all but `admin`."""
    return SCOPES if user_id is None else (READ, WRITE, DELETE)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request. Without a user it is the operator of its space, who sees all of it."""

    space: str = DEFAULT_SPACE
    user_id: str | None = None
    local_operator: bool = False
    """The command line on this machine, which alone manages keys and backups."""
    key_id: str | None = None
    scopes: tuple[str, ...] = SCOPES
    is_hint: bool = False
    """A header named the user: an explicit `user_id` takes precedence."""
    on_acting: Callable[[str], None] = field(default=lambda user_id: None, compare=False, repr=False)
    """Called with the user whenever the request's user is determined. It may raise."""

    def acting_for(self, user_id: str | None, *hints: str | None) -> str | None:
        """The user a request is about; None: nobody was named, so it is the operator.

        The key's user, or the signed one. Else the first that was named: `user_id`, the header's, one of `hints`.
        Raises Refused where `user_id` is another than the key's, the signed one or the query's.
        """
        acting = self.user_id
        if acting is None or (self.is_hint and user_id):
            acting = next((name for name in (user_id, *hints) if name), None)
        elif user_id not in (None, acting):
            raise Refused("the request is for another user than its key or query names", field="user_id")
        if acting is not None:
            self.on_acting(acting)
        return acting


def signed_user(token: str, secret: str, now: int) -> str:
    """The `sub` of an HS256 JSON Web Token. Raises KeyRequired unless it is signed with the secret and valid now.

    It must say when it expires (`exp`), and may say when it begins to be valid (`nbf`).
    """
    signed, _, signature = token.rpartition(".")
    try:
        head, claims = (json.loads(_decoded(part)) for part in signed.split("."))
        given, algorithm = _decoded(signature), head["alg"]
        user_id, begins, expires = claims["sub"], _seconds(claims.get("nbf", 0)), _seconds(claims["exp"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise KeyRequired(
            f"{SIGNED_USER_HEADER}: this is no signed token", field=SIGNED_USER_HEADER
        ) from None
    made = hmac.digest(secret.encode(), signed.encode(), "sha256")
    if algorithm != "HS256" or not hmac.compare_digest(made, given):
        raise KeyRequired(f"{SIGNED_USER_HEADER}: the signature is wrong", field=SIGNED_USER_HEADER)
    if not user_id or not isinstance(user_id, str) or not begins * 1000 <= now < expires * 1000:
        raise KeyRequired(
            f"{SIGNED_USER_HEADER}: it is not valid now, or names nobody", field=SIGNED_USER_HEADER
        )
    return user_id


def _seconds(claim: object) -> float:
    """Raises TypeError or ValueError for what is no NumericDate."""
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        raise TypeError("not a number")
    if not math.isfinite(claim):
        raise ValueError("not finite")
    return float(claim)


def _decoded(part: str) -> bytes:
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


def secret_hash(secret: str) -> str:
    """Digest of a key. A plain hash is enough: keys are 32 random bytes."""
    return hashlib.sha256(secret.encode()).hexdigest()
