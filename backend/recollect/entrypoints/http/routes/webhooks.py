"""Webhooks: addresses that are told of what happens, and the log of what they were told."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from recollect.entrypoints.http.answers import Answer
from recollect.entrypoints.http.deps import Calling, Home, PathId, UserQuery, note
from recollect.entrypoints.http.direct_route import BodyRoute
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.requests import Body, Id

router = APIRouter(prefix="/api/v1/webhooks", tags=["webhooks"], route_class=BodyRoute)
Event = Literal["turn.ended", "memory.made", "forgotten"]


class WebhookBody(Body):
    url: str = Field(min_length=1, max_length=2000, description="Where deliveries are posted to; https.")
    secret: str = Field(min_length=1, max_length=500, description="Signs deliveries. It is never shown.")
    events: Annotated[list[Event], Field(min_length=1)] | None = Field(None, description="Default: all.")
    user_id: Id | None = Field(None, description="Whose events; unset: the key's user, or all of the space.")


class WebhookAnswer(Answer):
    webhook_id: str
    user_id: str | None
    url: str
    events: list[str]
    created: int


class WebhooksAnswer(BaseModel):
    webhooks: list[WebhookAnswer]


class DeliveryAnswer(Answer):
    delivery_id: str = Field(description="The `id` that the receiver gets, the same at every try.")
    event: str
    state: Literal["queued", "running", "dead", "delivered"]
    tries: int
    error: str | None = Field(description="Of the last try that failed.")
    at: int = Field(description="When it was delivered, or is due.")
    job_id: int | None = Field(description="Until it is delivered: the job, which can be retried once dead.")


class TriedAnswer(BaseModel):
    delivery_id: str
    error: str | None = Field(description="Why it was not accepted; null: it was.")


class DeliveriesAnswer(BaseModel):
    deliveries: list[DeliveryAnswer]


@router.post("", status_code=201, responses=documented(409))
async def create_webhook(home: Home, caller: Calling, body: WebhookBody, request: Request) -> WebhookAnswer:
    """Have events posted to an address. 409: the space has too many webhooks."""
    made = await home.webhooks.create(caller, body.user_id, body.url, body.secret, body.events)
    note(request, webhook=made.webhook_id, user=made.user_id)
    return WebhookAnswer.of(made)


@router.get("", responses=documented())
async def list_webhooks(home: Home, caller: Calling, user_id: UserQuery = None) -> WebhooksAnswer:
    """Those of the user, or all of the space, without their secrets."""
    found = await home.webhooks.all_of(caller, user_id)
    return WebhooksAnswer(webhooks=[WebhookAnswer.of(each) for each in found])


@router.get("/{webhook_id}", responses=documented(404))
async def get_webhook(
    home: Home, caller: Calling, webhook_id: PathId, user_id: UserQuery = None
) -> WebhookAnswer:
    return WebhookAnswer.of(await home.webhooks.get(caller, user_id, webhook_id))


@router.delete("/{webhook_id}", responses=documented(404))
async def delete_webhook(
    home: Home, caller: Calling, webhook_id: PathId, request: Request, user_id: UserQuery = None
) -> WebhookAnswer:
    """Delete a webhook with all that is still to be delivered to it."""
    gone = await home.webhooks.delete(caller, user_id, webhook_id)
    note(request, webhook=webhook_id, user=gone.user_id)
    return WebhookAnswer.of(gone)


@router.get("/{webhook_id}/deliveries", responses=documented(404))
async def list_deliveries(
    home: Home,
    caller: Calling,
    webhook_id: PathId,
    user_id: UserQuery = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> DeliveriesAnswer:
    """The last deliveries: what is still to be delivered, then what was; each newest first."""
    found = await home.webhooks.deliveries(caller, user_id, webhook_id, limit)
    return DeliveriesAnswer(deliveries=[DeliveryAnswer.of(each) for each in found])


@router.post("/{webhook_id}/test", responses=documented(404))
async def try_webhook(
    home: Home, caller: Calling, webhook_id: PathId, user_id: UserQuery = None
) -> TriedAnswer:
    """Send a delivery of the event `test` now, and tell what came of it. It is tried once."""
    delivery_id, error = await home.webhooks.test(caller, user_id, webhook_id)
    return TriedAnswer(delivery_id=delivery_id, error=error)
