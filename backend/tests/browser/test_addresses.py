"""Chats by any id that the API takes can be opened, gone on with, looked into and deleted; any address shows a page."""

import re
import sqlite3
from contextlib import closing
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.seed_many import THREADS
from tests.browser.site import MAY_8, Site, Visits
from tests.processes import StandInModel

pytestmark = pytest.mark.slow

ODD = ("...", "%2e", "%2e%2e", "a/b", "../x", "a?b", "a#b", "a&b=c+d", "日本", "a b")


@pytest.mark.parametrize("thread", ODD)
def test_a_chat_is_whole_whatever_its_id(site: Site, model: StandInModel, visit: Visits, thread: str) -> None:
    user = f"odd {ODD.index(thread)}"
    model.control(answer="The answer.", only="chat")
    # Thread ids are unique within a space, so nobody else's test may use this one.
    site.post(
        f"threads/{quote(thread, safe='')}/turns", user_id=user, role="user", content="The first words."
    )
    page = visit(site, user).open("chat")
    page.get_by_role("list", name="Chats").get_by_role("link").click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("The first words.")
    page.get_by_role("textbox", name="Message").fill("The second words.")
    page.get_by_role("textbox", name="Message").press("Enter")
    expect(log).to_contain_text("The answer.")
    page.reload()
    expect(log).to_contain_text("The answer.")
    page.get_by_role("link", name="What was sent").click()
    expect(page.get_by_role("region", name="Words")).to_contain_text("The second words.")
    page.get_by_role("link", name="In the chat").click()
    expect(log.get_by_role("article").filter(has_text="The answer.")).to_have_class(re.compile("marked"))
    page.get_by_role("button", name=re.compile("^Actions for")).first.click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("for good|Delete")).click()
    expect(page.get_by_text("No chats yet.")).to_be_visible()
    assert site.get("threads", user_id=user)["threads"] == []


def test_one_that_no_address_can_hold_is_listed_and_nothing_else_is_asked_for(
    site: Site, visit: Visits
) -> None:
    """No thread is opened by such an id: this one is as an older version left it."""
    refused = site.client.post("/api/v1/threads", json={"user_id": "dot", "thread_id": ".."})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "thread_id")
    with closing(sqlite3.connect(site.home / "journal.db")) as journal, journal:
        journal.execute(THREADS, ("..", "dot", "An old one", MAY_8, MAY_8))
    site.post("threads", user_id="dot", thread_id="dot-1", title="Another")
    page = visit(site, "dot").open("chat")
    chats = page.get_by_role("list", name="Chats").get_by_role("link")
    expect(chats).to_have_count(2)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    chats.filter(has_text="An old one").click()
    expect(page.get_by_text("no address can hold it")).to_be_visible()
    assert [url for url in asked if "/api/" in url] == []
    chats.filter(has_text="Another").click()
    expect(page.get_by_role("heading", name="Another")).to_be_visible()


@pytest.mark.parametrize("name", ["constructor", "toString", "__proto__"])
def test_a_page_that_is_not_there_is_the_chat_and_a_part_of_memory_its_entries(
    site: Site, visit: Visits, name: str
) -> None:
    seen = visit(site, "lost")
    expect(seen.open(name).get_by_role("textbox", name="Message")).to_be_visible()
    expect(seen.open("memory", name).get_by_text("Nothing is remembered yet")).to_be_visible()
