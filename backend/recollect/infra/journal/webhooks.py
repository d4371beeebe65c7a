"""Webhooks, the deliveries that are queued in the transaction of their cause, and a log of the last ones."""

import secrets

from recollect.domain.job import DELIVERY, Job, webhook_lane
from recollect.domain.model import JsonObject, ThreadRef
from recollect.domain.paths import owner_folder
from recollect.domain.webhook import FORGOTTEN, Delivery, Webhook
from recollect.errors import Conflict
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import Database, write_transaction
from recollect.infra.journal.rows import NewJob, dumped, made, queue_jobs

MOST_WEBHOOKS = 1000
"""Of a space."""
_LOGGED = 100
"""Deliveries of a webhook that are remembered."""
WEBHOOK_COLUMNS = "webhook_id, space, user_id, url, secret, events, created"
ADD_WEBHOOK = f"INSERT INTO webhooks ({WEBHOOK_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"

IS_TO = f"kind = '{DELIVERY}' AND json_extract(payload_json, '$.webhook_id') = :webhook_id"

# What else is told of somebody or something forgotten is of no use any more.
DROP = f"""
DELETE FROM jobs WHERE kind = '{DELIVERY}' AND state != 'running' AND space = :space
    AND json_extract(payload_json, '$.event') != '{FORGOTTEN}'
    AND json_extract(payload_json, '$.data.user_id') = :user_id
    AND (:thread_id IS NULL OR json_extract(payload_json, '$.data.thread_id') = :thread_id)"""

UNFINISHED = f"""
SELECT pk AS job_id, dedupe AS delivery_id, json_extract(payload_json, '$.event') AS event, state,
    attempts AS tries, error, run_at AS at
FROM jobs WHERE {IS_TO} ORDER BY pk DESC LIMIT :limit"""

DELIVERED = """
SELECT NULL AS job_id, delivery_id, event, 'delivered' AS state, tries, NULL AS error, at
FROM webhook_deliveries WHERE webhook_id = :webhook_id ORDER BY pk DESC LIMIT :limit"""

LOG = "INSERT INTO webhook_deliveries (webhook_id, delivery_id, event, tries, at) VALUES (?, ?, ?, ?, ?)"

FORGET_OLD = """
DELETE FROM webhook_deliveries WHERE webhook_id = :webhook_id AND pk <= (
    SELECT pk FROM webhook_deliveries WHERE webhook_id = :webhook_id ORDER BY pk DESC LIMIT 1 OFFSET :kept)"""


def load_webhooks(connection: Connection) -> None:
    """Keep all webhooks with the writer's connection: an event that nobody wants costs no query."""
    found = connection.all(f"SELECT {WEBHOOK_COLUMNS} FROM webhooks")
    connection.kept["webhooks"] = tuple(map(_webhook_of, found))


def announce(
    connection: Connection, event: str, space: str, owner: str, data: JsonObject, now: int
) -> int | None:
    """Queue a delivery to each webhook that wants the event. Returns when they are due; None where nobody does.

    `owner` is the folder of whom it is about. `data` holds ids, never words.
    """
    wanting = [each for each in _webhooks(connection) if each.wants(event, space, owner)]
    if not wanting:
        return None
    jobs = []
    for webhook in wanting:
        thread = None
        if webhook.user_id is not None:
            thread = ThreadRef(space, webhook.user_id, data.get("thread_id") or "")
        delivery_id, told = f"evt_{secrets.token_hex(12)}", {"at": now, **data}
        payload = {"webhook_id": webhook.webhook_id, "id": delivery_id, "event": event, "data": told}
        lane = webhook_lane(webhook.webhook_id)
        jobs.append(NewJob(DELIVERY, lane, space, thread, now, dumped(payload) or "", delivery_id))
    return queue_jobs(connection, jobs, now)


def announce_of_user(
    connection: Connection, event: str, space: str, user_id: str, data: JsonObject, now: int
) -> int | None:
    """`announce` of what is about a user."""
    if not has_webhooks(connection):
        return None
    return announce(connection, event, space, owner_folder(space, user_id), {"user_id": user_id, **data}, now)


def drop_deliveries(connection: Connection, space: str, user_id: str, thread_id: str | None = None) -> None:
    """Deliveries about a thread that is forgotten, or about a user, whose own webhooks go too."""
    if not has_webhooks(connection):
        return
    connection.run(DROP, {"space": space, "user_id": user_id, "thread_id": thread_id})
    if thread_id is None:
        theirs = "SELECT webhook_id FROM webhooks WHERE space = ? AND user_id = ?"
        for (webhook_id,) in connection.all(theirs, (space, user_id)):
            _remove(connection, webhook_id)


class SqlWebhookStore:
    """Webhooks and their deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> None:
        """At the start, and after every change."""
        await self._database.write(load_webhooks)

    async def add(self, webhook: Webhook) -> None:
        """Raises Conflict where the space has too many."""

        def work(connection: Connection) -> None:
            (count,) = connection.one("SELECT count(*) FROM webhooks WHERE space = ?", (webhook.space,))
            if count >= MOST_WEBHOOKS:
                raise Conflict(f"the space has {count} webhooks; delete some first")
            connection.run(ADD_WEBHOOK, webhook_row(webhook))

        await self._database.write(work)
        await self.load()

    async def all(self) -> list[Webhook]:
        """Oldest first."""
        found = await self._database.read(
            f"SELECT {WEBHOOK_COLUMNS} FROM webhooks ORDER BY created, webhook_id"
        )
        return [_webhook_of(row) for row in found]

    async def get(self, webhook_id: str) -> Webhook | None:
        found = await self._database.one(
            f"SELECT {WEBHOOK_COLUMNS} FROM webhooks WHERE webhook_id = ?", (webhook_id,)
        )
        return None if found is None else _webhook_of(found)

    async def remove(self, webhook_id: str) -> None:
        """With what is still to be delivered to it."""
        await self._database.write(lambda connection: _remove(connection, webhook_id))
        await self.load()

    async def deliveries(self, webhook_id: str, limit: int) -> list[Delivery]:
        """What is still to be delivered, then what was delivered last; each newest first."""
        bound = {"webhook_id": webhook_id, "limit": limit}
        waiting = await self._database.read(UNFINISHED, bound)
        delivered = await self._database.read(DELIVERED, bound)
        return [made(Delivery, row) for row in [*waiting, *delivered][:limit]]

    @write_transaction
    def delivered(self, connection: Connection, job: Job, now: int) -> None:
        """Log a delivery. A webhook that is gone has no log."""
        webhook_id, delivery_id, event = (job.payload[name] for name in ("webhook_id", "id", "event"))
        known = connection.one("SELECT 1 FROM webhooks WHERE webhook_id = ?", (webhook_id,))
        if known is not None:
            connection.run("DELETE FROM webhook_deliveries WHERE delivery_id = ?", (delivery_id,))
            connection.run(LOG, (webhook_id, delivery_id, event, job.attempts + 1, now))
            connection.run(FORGET_OLD, {"webhook_id": webhook_id, "kept": _LOGGED})

    async def make_way(self, job: Job) -> None:
        """What failed waits in a lane of its own: the webhook's next deliveries need not wait for it."""
        lane = f"{webhook_lane(job.payload['webhook_id'])}/{job.payload['id']}"
        await self._database.execute("UPDATE jobs SET lane = ? WHERE pk = ?", (lane, job.job_id))


def webhook_row(webhook: Webhook) -> tuple[object, ...]:
    """For ADD_WEBHOOK."""
    head = (webhook.webhook_id, webhook.space, webhook.user_id, webhook.url, webhook.secret)
    return (*head, " ".join(webhook.events), webhook.created)


def _remove(connection: Connection, webhook_id: str) -> None:
    connection.run(f"DELETE FROM jobs WHERE {IS_TO} AND state != 'running'", {"webhook_id": webhook_id})
    connection.run("DELETE FROM webhooks WHERE webhook_id = ?", (webhook_id,))


def has_webhooks(connection: Connection) -> bool:
    return bool(_webhooks(connection))


def _webhooks(connection: Connection) -> tuple[Webhook, ...]:
    found: tuple[Webhook, ...] = connection.kept.get("webhooks", ())
    return found


def _webhook_of(row: Row) -> Webhook:
    return made(Webhook, row, events=tuple(row["events"].split()))
