"""Images in messages: attached, shown from the vault, kept when a message is edited, never fetched from elsewhere."""

import base64
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import grave_problems
from tests.browser.site import Site, Visits
from tests.http_client import Json
from tests.processes import StandInModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def picture(content: bytes = PIXEL, kind: str = "png") -> Json:
    url = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def say(site: Site, user: str, thread: str, text: str, *parts: Json, **fields: object) -> None:
    said = [{"type": "text", "text": text}, *parts]
    site.post(f"threads/{thread}/messages", user_id=user, parts=said, **fields)


def shown_pictures(page: Page, count: int) -> list[int]:
    """The width of each, as the browser read it; 0 for one that it could not."""
    images = page.get_by_role("img", name="Sent with this message")
    expect(images).to_have_count(count)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.picture img')].every((image) => image.complete)"
    )
    return [int(image.evaluate("image => image.naturalWidth")) for image in images.all()]


BRINGS = """([zone, kind, name, type, content, padding]) => {
    const data = new DataTransfer();
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    data.items.add(new File([bytes, new Uint8Array(padding)], name, {type}));
    const details = {bubbles: true, cancelable: true, dataTransfer: data, clipboardData: data};
    const made = kind === "paste" ? new ClipboardEvent(kind, details) : new DragEvent(kind, details);
    document.querySelector(zone).dispatchEvent(made);
}"""


def test_images_are_attached_by_button_paste_and_drop_and_sent_once_they_can_be(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    seen = visit(site, "ida", viewport={"width": 390, "height": 844})
    page = seen.open("chat")
    waiting = page.get_by_role("list", name="Files to send")
    written = page.get_by_role("textbox", name="Message")

    def bring(
        kind: str, name: str, media_type: str = "image/png", content: bytes = PIXEL, padding: int = 0
    ) -> None:
        zone = ".composer textarea" if kind == "paste" else ".conversation"
        text = base64.b64encode(content).decode()
        page.evaluate(BRINGS, [zone, kind, name, media_type, text, padding])

    button = page.get_by_role("button", name="Attach files")
    written.press("Shift+Tab")
    expect(button).to_be_focused()
    with page.expect_file_chooser() as chosen:
        button.press("Enter")
    chosen.value.set_files({"name": "chosen.png", "mimeType": "image/png", "buffer": PIXEL})
    expect(waiting.get_by_role("img", name="chosen.png")).to_be_visible()
    bring("paste", "pasted.png")
    expect(waiting.get_by_role("img", name="pasted.png")).to_be_visible()
    bring("dragover", "dropped.png")
    expect(page.get_by_text("Drop files to send them")).to_be_visible()
    for name, media_type, content, padding, why in (
        ("song.mp3", "audio/mpeg", PIXEL, 0, "Only PNG, JPEG, GIF and WebP"),
        ("broken.png", "image/png", b"no image", 0, "There is no image"),
        ("large.png", "image/png", PIXEL, 20_000_000, "can have 20 MB in all"),
    ):
        bring("drop", name, media_type, content, padding)
        expect(page.get_by_text(re.compile(f"{why}.* {name} "))).to_be_visible()
    bring("drop", "dropped.png")
    expect(waiting.get_by_role("img")).to_have_count(3)
    waiting.get_by_role("button", name="Remove pasted.png").press("Enter")
    expect(waiting.get_by_role("img")).to_have_count(2)
    expect(written).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert grave_problems(page) == []

    page.route(re.compile("/messages$"), lambda route: route.fulfill(status=503, json={}))
    written.fill("What is this?")
    written.press("Enter")
    expect(page.get_by_text("The server answered 503.")).to_be_visible()
    expect(written).to_have_value("What is this?")
    page.unroute_all()
    seen.open("chat").reload()
    expect(waiting.get_by_role("img")).to_have_count(2)
    written.press("Enter")
    expect(page.get_by_role("button", name="Answer again")).to_be_enabled()
    expect(waiting).to_have_count(0)
    sent = page.get_by_role("article", name=re.compile("^You"))
    expect(sent).to_contain_text("What is this?")
    assert shown_pictures(page, 2) == [1, 1]
    asked = model.calls_of_chats()[-1]["messages"][-1]["content"]
    assert [part for part in asked if part["type"] == "image_url"] == [picture(), picture()]

    bring("drop", "list.md", "", b"- buy a lighthouse")
    expect(waiting).to_contain_text("list.md")
    assert grave_problems(page) == []
    page.get_by_role("button", name="Send").click()
    expect(sent.last).to_contain_text("list.md")
    expect(page.get_by_role("list", name="Sources of this answer")).to_contain_text("file: list.md")
    assert '- file "list.md":\n  "- buy a lighthouse"' in str(
        model.calls_of_chats()[-1]["messages"][-2]["content"]
    )

    model.control("error", status=400, only="chat")
    bring("paste", "alone.png")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert").first).to_contain_text("the model may not be able to see images")
    page.reload()
    assert shown_pictures(page, 3) == [1, 1, 1]
    expect(page.get_by_role("alert").first).to_contain_text(
        "choose one that can in the settings of this chat"
    )
    (thread,) = site.get("threads", user_id="ida")["threads"]
    turns = site.get(f"threads/{thread['thread_id']}/turns", user_id="ida")["turns"]
    assert [part["type"] for part in turns[4]["parts"]] == ["image_url"]


@pytest.mark.slow
def test_an_image_is_shown_with_its_message_and_stays_when_that_is_edited(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    say(site, "iris", "iris-1", "What is this?", picture())
    page = visit(site, "iris").open("chat", "iris-1")
    expect(page.get_by_role("log")).to_contain_text("What is this?")
    assert shown_pictures(page, 1) == [1]
    page.get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit message").fill("And what is that?")
    page.get_by_role("textbox", name="Edit message").press("Enter")
    expect(page.get_by_role("article", name=re.compile("^Assistant")).get_by_text("I see")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("And what is that?")
    assert shown_pictures(page, 1) == [1]
    turns = site.get("threads/iris-1/turns", user_id="iris")["turns"]
    assert turns[2]["parts"][1] == turns[0]["parts"][1]
    assert turns[2]["content"] == "And what is that?"


@pytest.mark.slow
def test_an_image_is_shown_where_the_server_wants_a_key(own_site: Site, visit: Visits) -> None:
    say(own_site, "iris", "iris-1", "What is this?", picture())
    seen = visit(own_site)
    seen.keep("key", own_site.key_for("iris"))
    assert shown_pictures(seen.open("chat", "iris-1"), 1) == [1]


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_incognito_image_is_shown_too(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="ina-1", user_id="ina", incognito=True)
    say(site, "ina", "ina-1", "Between us", picture())
    assert shown_pictures(visit(site, "ina").open("chat", "ina-1"), 1) == [1]


@pytest.mark.slow
def test_a_file_beside_an_image_takes_no_more_room_than_its_name(site: Site, visit: Visits) -> None:
    seen = visit(site, "iggy")
    tall = picture(seen.open("chat").screenshot())
    text = f"data:text/markdown;base64,{base64.b64encode(b'- buy a lighthouse').decode()}"
    say(
        site,
        "iggy",
        "iggy-1",
        "Both",
        tall,
        {"type": "file", "file": {"filename": "list.md", "file_data": text}},
    )
    page = seen.open("chat", "iggy-1")
    shown_pictures(page, 1)
    image = page.get_by_role("img", name="Sent with this message").bounding_box()
    name = page.get_by_role("article", name=re.compile("^You")).get_by_text("list.md").bounding_box()
    assert image is not None
    assert name is not None
    assert name["height"] < 40 < image["height"]
