"""Webhooks: who may have which, and the job that makes a delivery."""

import secrets
from collections.abc import Mapping, Sequence

from recollect.domain.access import ADMIN, Caller
from recollect.domain.job import DELIVERY, Job
from recollect.domain.webhook import EVENTS, Delivery, Webhook, signed_delivery
from recollect.errors import DeliveryFailed, NotFound
from recollect.failpoints import FailPoints
from recollect.infra.addresses import Addresses
from recollect.infra.journal.database import Database
from recollect.infra.journal.webhooks import SqlWebhookStore
from recollect.infra.webhook_sender import WebhookSender
from recollect.service.access.keys import require_scopes
from recollect.service.coordination import Clock
from recollect.setting_groups import WebhookSettings

_LONGEST_DELAY_MS = 3_600_000


def patience(settings: WebhookSettings) -> Mapping[str, tuple[int, int]]:
    """For the job engine: a receiver may be down for hours."""
    return {DELIVERY: (settings.max_attempts, _LONGEST_DELAY_MS)}


class Webhooks:
    """A user has webhooks on what is theirs; the operator of a space, with the scope `admin`, on all of it."""

    def __init__(
        self, database: Database, settings: WebhookSettings, clock: Clock, fail_points: FailPoints
    ) -> None:
        self.store = SqlWebhookStore(database)
        schemes = "https: or http:" if settings.allow_private else "https:"
        addresses = Addresses(allow_private=settings.allow_private, schemes=schemes)
        self.sender = WebhookSender(addresses, settings.timeout_seconds)
        self._clock = clock
        self._fail_points = fail_points

    async def create(
        self, caller: Caller, user_id: str | None, url: str, secret: str, events: Sequence[str] | None
    ) -> Webhook:
        """Raises InvalidInput for an address that no delivery may go to."""
        user_id = _whose(caller, user_id)
        await self.sender.check(url, (caller.space, user_id))
        chosen = tuple(event for event in EVENTS if events is None or event in events)
        webhook_id = f"wh_{secrets.token_hex(8)}"
        webhook = Webhook(webhook_id, caller.space, user_id, url, secret, chosen, self._clock())
        await self.store.add(webhook)
        return webhook

    async def all_of(self, caller: Caller, user_id: str | None) -> list[Webhook]:
        """Those of the user; without one, all of the space."""
        user_id = _whose(caller, user_id)
        return [
            each
            for each in await self.store.all()
            if each.space == caller.space and user_id in (None, each.user_id)
        ]

    async def get(self, caller: Caller, user_id: str | None, webhook_id: str) -> Webhook:
        """Raises NotFound for another's."""
        user_id = _whose(caller, user_id)
        found = await self.store.get(webhook_id)
        if found is None or found.space != caller.space or user_id not in (None, found.user_id):
            raise NotFound(f"there is no webhook {webhook_id!r}", field="webhook_id")
        return found

    async def delete(self, caller: Caller, user_id: str | None, webhook_id: str) -> Webhook:
        """With what is still to be delivered to it."""
        webhook = await self.get(caller, user_id, webhook_id)
        await self.store.remove(webhook_id)
        return webhook

    async def deliveries(
        self, caller: Caller, user_id: str | None, webhook_id: str, limit: int
    ) -> Sequence[Delivery]:
        """The last ones: what is still to be delivered first."""
        await self.get(caller, user_id, webhook_id)
        return await self.store.deliveries(webhook_id, limit)

    async def test(self, caller: Caller, user_id: str | None, webhook_id: str) -> tuple[str, str | None]:
        """Send a delivery of the event `test`, once; returns its id, and why it was not accepted."""
        webhook = await self.get(caller, user_id, webhook_id)
        delivery_id, now = f"evt_{secrets.token_hex(12)}", self._clock()
        data = {"at": now, "user_id": webhook.user_id}
        body, headers = signed_delivery(webhook.secret, delivery_id, "test", data, now)
        try:
            await self.sender.send(webhook.url, headers, body)
        except DeliveryFailed as error:
            return delivery_id, error.message
        return delivery_id, None

    async def handle(self, job: Job) -> None:
        """Make one delivery. After a kill it may be made again, with the same id."""
        told = job.payload
        webhook = await self.store.get(told["webhook_id"])
        if webhook is None:
            return
        body, headers = signed_delivery(
            webhook.secret, told["id"], told["event"], told["data"], self._clock()
        )
        try:
            await self.sender.send(webhook.url, headers, body)
        except DeliveryFailed:
            await self.store.make_way(job)
            raise
        self._fail_points.reach("webhook.sent")
        await self.store.delivered(job, self._clock())


def _whose(caller: Caller, user_id: str | None) -> str | None:
    """Whose webhooks a request is about; None: those of the whole space, which are the operator's."""
    acting = caller.acting_for(user_id)
    if acting is None:
        require_scopes(caller, (ADMIN,))
    return acting
