"""Webhooks: how deliveries are signed, and which addresses they may go to."""

import pytest

from recollect.domain.webhook import signed_delivery
from recollect.errors import DeliveryFailed, InvalidInput
from recollect.infra.addresses import Addresses
from recollect.infra.webhook_sender import WebhookSender
from tests.receiver import SECRET, Receiver

BODY, HEADERS = signed_delivery(SECRET, "evt_1", "forgotten", {"user_id": "änn"}, 1_770_000_000_000)


def test_a_delivery_is_signed_over_its_time_and_its_bytes() -> None:
    body, headers = signed_delivery("s", "evt_1", "forgotten", {"user_id": "änn"}, 1_770_000_000_000)
    assert body.decode() == (
        '{"id":"evt_1","event":"forgotten","timestamp":1770000000000,"data":{"user_id":"änn"}}'
    )
    assert headers == {
        "Content-Type": "application/json",
        "X-Recollect-Id": "evt_1",
        "X-Recollect-Timestamp": "1770000000000",
        # printf '%s' "1770000000000.$body" | openssl dgst -sha256 -hmac s
        "X-Recollect-Signature": "sha256=3f90d6932abb39788161e65749f76a8e6c51d0e4f75047592257c78ebb42d7d6",
    }


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    asked: list[str] = []

    def resolve(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    sender = WebhookSender(Addresses(allow_private=True, resolve=resolve), 5)
    with Receiver() as receiver:
        await sender.send(receiver.url.replace("127.0.0.1", "hooks.example"), HEADERS, BODY)
        await sender.aclose()
    assert (receiver.ids, receiver.problems, asked) == (["evt_1"], [], ["hooks.example"])


@pytest.mark.parametrize("inside", ["127.0.0.1", "10.0.0.7", "169.254.1.1", "::1", "fe80::1", "fd00::1"])
async def test_a_name_that_comes_to_lead_inside_gets_nothing(inside: str) -> None:
    found = ["93.184.216.34"]
    sender = WebhookSender(Addresses(resolve=lambda host: found), 5)
    await sender.check("https://hooks.example/x", "ann")
    found[:] = ["93.184.216.34", inside]
    with pytest.raises(DeliveryFailed, match="must not lead to this machine or a private network"):
        await sender.send("https://hooks.example/x", HEADERS, BODY)
    with pytest.raises(InvalidInput):
        await sender.check("https://hooks.example/x", "ann")


async def test_a_receiver_that_is_not_there_is_named_as_the_reason() -> None:
    sender = WebhookSender(Addresses(allow_private=True), 5)
    with pytest.raises(DeliveryFailed, match=r"cannot be reached \(ConnectError\)"):
        await sender.send("http://127.0.0.1:9/x", HEADERS, BODY)
    unknown = WebhookSender(Addresses(resolve=lambda host: []), 5)
    with pytest.raises(DeliveryFailed, match="a host that is not known"):
        await unknown.send("https://nobody.example/x", HEADERS, BODY)
    await sender.aclose()
