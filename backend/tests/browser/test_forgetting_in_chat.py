"""Forgetting a message, a chat or a note on the page: what goes along is said before, and then it is gone, in every tab."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Site, Visits
from tests.processes import StandInModel, wait_until

pytestmark = pytest.mark.slow


def ask_to_forget(page: Page, text: str) -> None:
    said = page.get_by_role("article", name=re.compile("^You")).filter(has_text=text)
    said.get_by_role("button", name="Forget message").click()


def test_a_message_goes_with_its_answers_and_its_memories_as_was_said_before(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer="Noted.", only="chat")
    site.remember("fay", "fay-1", "I live in Tokyo.", "I have a cat called Ida.")
    site.post("threads/fay-1/messages", user_id="fay", content="And I like tea.")
    tabs = visit(site, "fay")
    page = tabs.open("chat", "fay-1")
    other = tabs.new_page()
    other.goto(page.url)
    expect(other.get_by_role("log")).to_contain_text("I live in Tokyo.")
    ask_to_forget(page, "I live in Tokyo.")
    dialog = page.get_by_role("dialog", name="Forget this message?")
    expect(dialog.get_by_role("list", name=re.compile("Goes along"))).to_contain_text(
        "Fact: fay lives in Tokyo."
    )
    expect(dialog).to_contain_text("1 message goes")
    dialog.get_by_role("button", name="Cancel").click()
    assert "fay lives in Tokyo." in site.facts("fay")
    ask_to_forget(page, "And I like tea.")
    expect(dialog).to_contain_text("2 messages go")
    dialog.get_by_label("With the answers to it").uncheck()
    expect(dialog).to_contain_text("1 message goes")
    dialog.get_by_role("button", name="Cancel").click()
    ask_to_forget(page, "I live in Tokyo.")
    dialog.get_by_role("button", name="Forget for good").click()
    for each in (page, other):
        expect(each.get_by_role("log")).not_to_contain_text("Tokyo")
        expect(each.get_by_role("log")).to_contain_text("a cat called Ida")
    wait_until(lambda: "fay lives in Tokyo." not in site.facts("fay"), "the fact gone")


def test_a_chat_goes_from_every_tab_and_what_goes_along_is_said_before(site: Site, visit: Visits) -> None:
    site.remember("gus", "gus-1", "I live in Oslo.")
    site.post("threads", thread_id="gus-2", user_id="gus", title="Another chat")
    site.post("threads/gus-2/turns", user_id="gus", role="user", content="Stay here.")
    tabs = visit(site, "gus")
    page = tabs.open("chat", "gus-2")
    other = tabs.new_page()
    tabs.open("chat", "gus-1", page=other)
    expect(other.get_by_role("log")).to_contain_text("I live in Oslo.")
    page.get_by_role("button", name=re.compile("^Actions for Chat of")).click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete this chat?")
    expect(dialog).to_contain_text("1 message goes")
    expect(dialog.get_by_role("list", name=re.compile("Goes along"))).to_contain_text(
        "Fact: gus lives in Oslo."
    )
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("list", name="Chats").get_by_role("link")).to_have_count(1)
    expect(page.get_by_role("log")).to_contain_text("Stay here.")
    expect(other.get_by_text("This chat is not here")).to_be_visible()
    assert "Oslo" not in other.locator("main").inner_text()


def test_a_note_is_forgotten_with_the_prompts_that_quoted_it(site: Site, visit: Visits) -> None:
    note = site.post(
        "memory/notes", user_id="nan", name="Keys.md", text="The spare key lies under the blue pot."
    )
    wait_until(
        lambda: site.post("memory/search", user_id="nan", query="spare key blue pot")["hits"],
        "the note found",
    )
    site.post(
        "threads/nan-1/messages", user_id="nan", content="Where does the spare key lie, under which pot?"
    )
    sent = site.get("threads/nan-1/turns/t-2/prompt", user_id="nan")
    assert "blue pot" in str(sent["messages"])
    page = visit(site, "nan").open("memory", "notes", note["name"])
    expect(page.get_by_role("article")).to_contain_text("blue pot")
    page.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog", name="Forget this note?").get_by_role("button", name="Forget for good").click()
    expect(page.get_by_text("No notes yet")).to_be_visible()
    wait_until(lambda: not site.get("jobs")["jobs"], "every job done")
    assert (
        site.client.get("/api/v1/threads/nan-1/turns/t-2/prompt", params={"user_id": "nan"}).status_code
        == 404
    )
    assert site.post("memory/search", user_id="nan", query="spare key blue pot", types=["note"])["hits"] == []
