"""Settings of quotas: what one user, and one key, may use over time."""

from pydantic import BaseModel, ConfigDict, Field

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
