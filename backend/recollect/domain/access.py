"""Who is asking: API keys and callers."""

import hashlib
from dataclasses import dataclass

from recollect.errors import NotFound

DEFAULT_SPACE = "default"
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

    def acting_for(self, user_id: str | None) -> str | None:
        """The user a request is about: the key's, or else the one it names. They must agree."""
        if self.user_id is not None and user_id is not None and user_id != self.user_id:
            raise NotFound("there is no such user for this key", field="user_id")
        return self.user_id if user_id is None else user_id


def secret_hash(secret: str) -> str:
    """Keys are 32 random bytes: a plain hash cannot be guessed back."""
    return hashlib.sha256(secret.encode()).hexdigest()
