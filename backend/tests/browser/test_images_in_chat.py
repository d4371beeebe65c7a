"""Images in messages: shown from the vault, kept when a message is edited, never fetched from elsewhere."""

import base64
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Site, Visits
from tests.http_client import Json
from tests.processes import StandInModel

pytestmark = pytest.mark.slow

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def picture(content: bytes = PIXEL, kind: str = "png") -> Json:
    url = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def say(site: Site, user: str, thread: str, text: str, *parts: Json, **fields: object) -> None:
    said = [{"type": "text", "text": text}, *parts]
    site.post(f"threads/{thread}/messages", user_id=user, parts=said, **fields)


def shown_pictures(page: Page) -> list[int]:
    """The width of each, as the browser read it; 0 for one that it could not."""
    images = page.get_by_role("img", name="Sent with this message")
    expect(images.first).to_be_visible()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.picture img')].every((image) => image.complete)"
    )
    return [int(image.evaluate("image => image.naturalWidth")) for image in images.all()]


def test_an_image_is_shown_with_its_message_and_stays_when_that_is_edited(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    say(site, "iris", "iris-1", "What is this?", picture())
    page = visit(site, "iris").open("chat", "iris-1")
    expect(page.get_by_role("log")).to_contain_text("What is this?")
    assert shown_pictures(page) == [1]
    page.get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit message").fill("And what is that?")
    page.get_by_role("textbox", name="Edit message").press("Enter")
    expect(page.get_by_role("article", name=re.compile("^Assistant")).get_by_text("I see")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("And what is that?")
    assert shown_pictures(page) == [1]
    turns = site.get("threads/iris-1/turns", user_id="iris")["turns"]
    assert turns[2]["parts"][1] == turns[0]["parts"][1]
    assert turns[2]["content"] == "And what is that?"


def test_an_image_is_shown_where_the_server_wants_a_key(own_site: Site, visit: Visits) -> None:
    say(own_site, "iris", "iris-1", "What is this?", picture())
    seen = visit(own_site)
    seen.keep("key", own_site.key_for("iris"))
    assert shown_pictures(seen.open("chat", "iris-1")) == [1]


def test_an_image_elsewhere_is_named_and_not_fetched_and_what_is_no_image_is_said(
    site: Site, visit: Visits
) -> None:
    """That no other host is asked, every visit checks."""
    elsewhere = {"type": "image_url", "image_url": {"url": "https://images.example/cat.png"}}
    drawing = {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg onload=alert(1)>"}}
    broken = picture(b"<script>window.broken = 1</script>")
    say(site, "ira", "ira-1", "Look", elsewhere, drawing, broken)
    page = visit(site, "ira").open("chat", "ira-1")
    message = page.get_by_role("article", name=re.compile("^You"))
    expect(message).to_contain_text("image: https://images.example/cat.png")
    expect(message).to_contain_text("image: data:image/svg+xml")
    expect(message).to_contain_text("an image that can't be shown")
    expect(message.get_by_role("img", name="Sent with this message")).to_have_count(0)
    assert page.evaluate("window.broken") is None


def test_an_incognito_image_is_shown_too(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="ina-1", user_id="ina", incognito=True)
    say(site, "ina", "ina-1", "Between us", picture())
    assert shown_pictures(visit(site, "ina").open("chat", "ina-1")) == [1]
