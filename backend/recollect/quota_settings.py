"""Settings of limits and quotas: what one request may hold, and what a user and a key may use over time."""

from pydantic import BaseModel, ConfigDict, Field


class LimitSettings(BaseModel):
    """What one request may hold, how long it may take to arrive, how many connections there may be, and how much work."""

    model_config = ConfigDict(extra="forbid")

    header_bytes: int = Field(65_536, ge=1024, description="Most bytes of request line and headers.")
    body_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="Largest request body in bytes.")
    chat_body_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="Largest chat request in bytes, with images and resent history.",
    )
    head_seconds: float = Field(30, gt=0, le=3600, description="Time for request line and headers to arrive.")
    body_seconds: float = Field(
        60,
        gt=0,
        le=3600,
        description="Time for a body to arrive, and a second more for every 4 KiB of it; "
        "and for a client to read more of its answer.",
    )
    keep_alive_seconds: int = Field(75, ge=6, le=3600, description="How long idle connections stay open.")
    connections: int = Field(1000, ge=2, description="Most connections at once.")
    unfinished: int = Field(200, ge=1, description="Most requests that have not arrived in full.")
    messages: int = Field(500, ge=1, description="Most messages in one memory/add request.")
    backlog: int = Field(2000, ge=1, description="Jobs of a user that may be overdue; then adds answer 429.")
    unsearched: int = Field(5000, ge=1, description="Messages of a user that search may lack; likewise.")


DEFAULTS = {
    "user_requests": 1_200,
    "key_requests": 12_000,
    "user_bytes": 128 * 1024 * 1024,
    "key_bytes": 1024 * 1024 * 1024,
    "user_model_calls": 5_000,
    "user_disk_mb": 10_240,
}
"""Where the server listens on another address than loopback."""


class QuotaSettings(BaseModel):
    """What a user and a key may use. Unset: as in DEFAULTS, and no limit on loopback; 0: no limit anywhere."""

    model_config = ConfigDict(extra="forbid")

    user_requests: int | None = Field(None, ge=0, description="Requests of a user a minute; 0: any number.")
    key_requests: int | None = Field(None, ge=0, description="Requests with a key a minute; 0: any number.")
    user_bytes: int | None = Field(
        None, ge=0, description="Bytes in bodies of a user's requests a minute; 0: any number."
    )
    key_bytes: int | None = Field(
        None, ge=0, description="Bytes in bodies of requests with a key a minute; 0: any number."
    )
    user_model_calls: int | None = Field(
        None, ge=0, description="Background calls to a model for a user a day; 0: any number."
    )
    user_disk_mb: int | None = Field(
        None, ge=0, description="Megabytes of a user's files in the vault; 0: any number."
    )

    def in_force(self, name: str, *, on_loopback: bool) -> int:
        """The limit of this name; 0: none."""
        given: int | None = getattr(self, name)
        return given if given is not None else 0 if on_loopback else DEFAULTS[name]
