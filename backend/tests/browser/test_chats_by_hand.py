"""What a person does with chats beside talking: by keyboard alone, keeping, leaving and finding them."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import grave_problems
from tests.browser.site import Site, Visits
from tests.processes import StandInModel

PHONE = {"width": 390, "height": 844}


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the control of that name has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.innerText") == name:
            return
    raise AssertionError(f"Tab never came to {name!r}")


def test_a_chat_is_had_stopped_found_and_left_by_keyboard_alone(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    site.post("threads", thread_id="kay-1", user_id="kay", title="Holidays")
    model.control(answer=" ".join(f"word{n}" for n in range(60)), chunk_delay_seconds=0.5, only="chat")
    page = visit(site, "kay").open("chat")
    writing = page.get_by_role("textbox", name="Message")
    expect(writing).to_be_focused()
    page.keyboard.type("Count for me?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("log")).to_contain_text("word1")
    page.keyboard.press("Escape")
    expect(page.get_by_role("log")).to_contain_text("It ends here")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("searchbox", name="Search chats")).to_be_focused()
    page.keyboard.type("holi")
    chats = page.get_by_role("list", name="Chats")
    expect(chats.get_by_role("link")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Holidays")).to_be_visible()
    page.keyboard.press("Control+Shift+o")
    expect(writing).to_be_focused()
    expect(page.get_by_role("heading", name="Holidays")).to_have_count(0)
    page.keyboard.press("Control+/")
    shortcuts = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(shortcuts).to_contain_text("Stop the answer")
    assert grave_problems(page) == []
    page.keyboard.press("Escape")
    expect(shortcuts).to_have_count(0)
    page.keyboard.type("?")
    expect(writing).to_have_value("?")


@pytest.mark.slow
def test_shortcuts_work_from_any_page_and_on_a_narrow_one(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="kit-1", user_id="kit", title="Plans")
    page = visit(site, "kit", viewport=PHONE).open("health")
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("searchbox", name="Search chats")).to_be_focused()
    expect(page.get_by_role("link", name=re.compile("Plans"))).to_be_in_viewport()


@pytest.mark.slow
def test_menus_and_dialogs_are_worked_by_keyboard_alone(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="kim-1", user_id="kim", title="Old name")
    page = visit(site, "kim").open("chat")
    expect(page.get_by_role("link", name="Old name")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("searchbox", name="Search chats")).to_be_focused()
    tab_to(page, "Actions for Old name")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Rename chat")).to_be_visible()
    page.keyboard.press("Control+a")
    page.keyboard.type("New name")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="New name")).to_be_visible()
