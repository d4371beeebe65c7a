"""Webhooks: who is told of what, and how a delivery is signed."""

import hmac
import json
from dataclasses import dataclass, field

from recollect.domain.model import JsonObject
from recollect.domain.paths import owner_folder

TURN_ENDED, MEMORY_MADE, FORGOTTEN = EVENTS = ("turn.ended", "memory.made", "forgotten")


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that is told of events: of one user, or of everybody in the space."""

    webhook_id: str
    space: str
    user_id: str | None
    url: str
    secret: str = field(repr=False)
    events: tuple[str, ...]
    """In the order of EVENTS."""
    created: int

    def wants(self, event: str, space: str, owner: str) -> bool:
        """`owner` is the folder of whom the event is about."""
        if event not in self.events or space != self.space:
            return False
        return self.user_id is None or owner == owner_folder(space, self.user_id)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one webhook, or there."""

    delivery_id: str
    event: str
    state: str
    """`queued`, `running`, `dead` or `delivered`."""
    tries: int
    error: str | None
    at: int
    """When it was delivered, or is due."""
    job_id: int | None = None


def signed_delivery(
    secret: str, delivery_id: str, event: str, data: JsonObject, timestamp: int
) -> tuple[bytes, dict[str, str]]:
    """The body of a delivery and its headers. `timestamp` is that of this try."""
    told = {"id": delivery_id, "event": event, "timestamp": timestamp, "data": data}
    body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    signature = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, "sha256").hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-Recollect-Id": delivery_id,
        "X-Recollect-Timestamp": str(timestamp),
        "X-Recollect-Signature": f"sha256={signature}",
    }
    return body, headers
