"""What a person does with chats beside talking: by keyboard alone, keeping, leaving and finding them."""

import json
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


def test_a_chat_is_archived_found_and_brought_back(site: Site, visit: Visits) -> None:
    for name in ("Kept", "Put away"):
        site.post("threads", thread_id=name, user_id="arla", title=name)
    page = visit(site, "arla").open("chat")
    chats = page.get_by_role("list", name="Chats")
    expect(chats.get_by_role("heading")).to_have_text(["Today"])
    page.get_by_role("button", name="Actions for Put away").click()
    page.get_by_role("menuitem", name="Archive").click()
    expect(chats.get_by_role("link")).to_have_count(1)
    page.get_by_role("searchbox", name="Search chats").fill("put")
    expect(chats.get_by_role("link", name=re.compile("Put away"))).to_be_visible()
    page.get_by_role("searchbox", name="Search chats").fill("")
    page.get_by_role("button", name="Archived", exact=True).click()
    expect(chats.get_by_role("link")).to_have_count(1)
    chats.get_by_role("link").click()
    expect(
        page.get_by_role("region", name="Conversation").get_by_text("Archived", exact=True)
    ).to_be_visible()
    assert grave_problems(page) == []
    chats.get_by_role("button", name="Actions for Put away").click()
    page.get_by_role("menuitem", name="Unarchive").click()
    expect(page.get_by_text("Nothing is archived.")).to_be_visible()
    page.get_by_role("button", name="Archived", exact=True).click()
    expect(chats.get_by_role("link")).to_have_count(2)


@pytest.mark.slow
def test_a_single_call_through_the_api_is_listed_apart_until_it_goes_on(site: Site, visit: Visits) -> None:
    asked = {"model": "recollect", "messages": [{"role": "user", "content": "What is a fjord?"}]}
    called = site.client.post("/v1/chat/completions", json=asked, headers={"X-Recollect-User": "apia"})
    thread = called.raise_for_status().headers["X-Recollect-Thread"]
    site.post("threads", thread_id="Talk", user_id="apia", title="Talk")
    page = visit(site, "apia").open("chat")
    chats = page.get_by_role("list", name="Chats")
    expect(chats.get_by_role("link")).to_have_text([re.compile("Talk")])
    page.get_by_role("button", name="API", exact=True).click()
    expect(chats.get_by_role("link")).to_have_attribute("href", re.compile(thread))
    assert grave_problems(page) == []
    chats.get_by_role("link").click()
    expect(page.get_by_role("log")).to_contain_text("What is a fjord?")
    page.get_by_role("textbox", name="Message").fill("And a delta?")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No single calls through the API.")).to_be_visible()
    page.get_by_role("button", name="API", exact=True).click()
    expect(chats.get_by_role("link")).to_have_count(2)


@pytest.mark.slow
def test_a_chat_is_exported_as_markdown_and_as_json(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="exa-1", user_id="exa", title="Trip / plans")
    site.post("threads/exa-1/turns", user_id="exa", role="user", content="To *Porto*, in June.")
    page = visit(site, "exa").open("chat", "exa-1")
    expect(page.get_by_role("log")).to_contain_text("Porto")
    texts = {}
    for form, ending in (("Markdown", "md"), ("JSON", "json")):
        page.get_by_role("button", name="Actions for Trip / plans").last.click()
        with page.expect_download() as saved:
            page.get_by_role("menuitem", name=f"Export as {form}").click()
        assert saved.value.suggested_filename == f"Trip plans.{ending}"
        texts[ending] = saved.value.path().read_text(encoding="utf-8")
    assert "# Trip / plans" in texts["md"]
    assert "To *Porto*, in June." in texts["md"]
    assert [turn["content"] for turn in json.loads(texts["json"])["turns"]] == ["To *Porto*, in June."]


@pytest.mark.slow
def test_deleting_a_chat_leaves_the_memory_that_was_edited(site: Site, visit: Visits) -> None:
    site.remember("delia", "delia-1", "I have a dog called Rex.", "I live in Porto.")
    facts = site.facts("delia")
    assert len(facts) > 1
    (edited, *_), (kept, *_) = facts.values(), facts
    path = f"/api/v1/memory/entries/{edited}"
    site.client.patch(path, json={"user_id": "delia", "text": f"{kept} Truly."}).raise_for_status()
    page = visit(site, "delia").open("chat", "delia-1")
    page.get_by_role("button", name=re.compile("^Actions for")).last.click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("radio", name="go too; those that I edited stay")).to_be_checked()
    expect(dialog.get_by_role("list")).not_to_contain_text(f"Fact: {kept} Truly.")
    assert grave_problems(page) == []
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_have_count(0)
    assert list(site.facts("delia")) == [f"{kept} Truly."]
