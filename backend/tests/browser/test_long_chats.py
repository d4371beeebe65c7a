"""Chats that are longer than a page of turns, or have more versions than that: all of it can be reached."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.site import Site, Visit
from tests.processes import StandInModel

pytestmark = pytest.mark.slow

Visits = Callable[..., Visit]
TALL = {"width": 1280, "height": 4000}


def talk(site: Site, user: str, thread: str, number: int) -> None:
    """Turns without a model: the user and the assistant in turn."""
    for place in range(1, number + 1):
        role = "user" if place % 2 else "assistant"
        site.post(f"threads/{thread}/turns", user_id=user, role=role, content=f"turn number {place}.")


def test_on_a_tall_screen_earlier_turns_come_by_themselves(site: Site, visit: Visits) -> None:
    talk(site, "tall", "tall-1", 30)
    page = visit(site, "tall", viewport=TALL).open("chat", "tall-1")
    expect(page.get_by_role("log")).to_contain_text("turn number 1.")
    expect(page.get_by_text("Earlier messages")).to_have_count(0)


def test_a_message_with_many_versions_of_its_answer_is_shown_with_them(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    site.post("threads/many-1/messages", user_id="manya", content="The only question")
    for _ in range(24):
        site.post("threads/many-1/messages", user_id="manya", parent_id="t-1")
    page = visit(site, "manya").open("chat", "many-1")
    expect(page.get_by_role("log")).to_contain_text("The only question")
    expect(page.get_by_role("group", name="Versions")).to_contain_text("25 / 25")


def test_an_edit_far_from_the_beginning_branches_where_the_message_stands(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    """With no earlier turn at hand the page knows all the same what the message follows."""
    talk(site, "farah", "far-1", 40)
    page = visit(site, "farah", viewport={"width": 1280, "height": 500}).open("chat", "far-1")
    first = page.get_by_role("article", name=re.compile("^You")).first
    expect(first).to_contain_text("turn number 21.")
    page.evaluate("document.querySelectorAll('[aria-label=\"Edit message\"]')[0].click()")
    page.get_by_role("textbox", name="Edit message").fill("Edited here")
    page.get_by_role("textbox", name="Edit message").press("Enter")
    expect(page.get_by_role("log")).to_contain_text("Edited here")
    (edited,) = [
        turn
        for turn in site.get("threads/far-1/turns", user_id="farah", max_turns=2)["turns"]
        if turn["role"] == "user"
    ]
    assert (edited["content"], edited["parent_id"]) == ("Edited here", "t-20")


def test_a_link_leads_to_a_message_far_above(site: Site, visit: Visits) -> None:
    talk(site, "lin", "lin-1", 150)
    page = visit(site, "lin").open("chat", "lin-1", "t-5")
    marked = page.get_by_role("article").filter(has_text="turn number 5.")
    expect(marked).to_be_in_viewport()
    expect(marked).to_have_class(re.compile("marked"))


def test_a_link_to_a_message_that_was_forgotten_says_so_and_shows_the_chat(site: Site, visit: Visits) -> None:
    talk(site, "gone", "gone-1", 4)
    site.client.delete("/api/v1/threads/gone-1/turns/t-2", params={"user_id": "gone"}).raise_for_status()
    page = visit(site, "gone").open("chat", "gone-1", "t-2")
    expect(page.get_by_text("That message is not here any more.")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("turn number 4.")
