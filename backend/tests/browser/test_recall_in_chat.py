"""What one conversation said is recalled in another, with its sources; corrections reach the next prompt."""

import re
import time

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.site import MAY_8, MINUTE, Site, Visits
from tests.processes import wait_until


def ask(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("article", name=re.compile("^You")).last).to_contain_text(text)
    answer = page.get_by_role("article", name=re.compile("^Assistant")).last
    expect(answer).to_contain_text("I see:")
    expect(answer.get_by_role("button", name="Answer again")).to_be_enabled()


def context_of_the_last_answer(page: Page) -> Locator:
    """On the Prompt page: the block that was added beside the words."""
    page.get_by_role("link", name="What was sent").last.click()
    expect(page.get_by_role("heading", name="Prompt", level=1)).to_be_visible()
    return page.get_by_role("region", name="Context")


def test_a_memory_of_one_thread_is_used_in_another_and_leads_to_its_source(site: Site, visit: Visits) -> None:
    site.remember("rita", "first", "I live in Lisbon.")
    page = visit(site, "rita").open("chat")
    ask(page, "Where do I live?")
    expect(page.get_by_role("log")).to_contain_text("Lisbon")
    page.get_by_role("button", name=re.compile(r"memor(y|ies) used")).click()
    used = page.get_by_role("list", name="Memories used for this answer")
    expect(used).to_contain_text("rita lives in Lisbon.")
    used.get_by_role("link", name=re.compile("^Said")).first.click()
    expect(page).to_have_url(re.compile(r"#/chat/first/t-1"))
    expect(page.get_by_role("log")).to_contain_text("I live in Lisbon.")


@pytest.mark.slow
def test_an_edited_memory_is_in_the_next_prompt_as_corrected(site: Site, visit: Visits) -> None:
    site.remember("cora", "cora-1", "I live in Vienna.")
    page = visit(site, "cora").open("chat")
    ask(page, "Where do I live?")
    chat = page.url
    entry = site.facts("cora")["cora lives in Vienna."]
    page.goto(f"{site.address}/#/memory/entries/{entry}")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Text").fill("cora lives in Madrid.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("article", name="cora lives in Madrid.")).to_be_visible()
    page.goto(chat)
    ask(page, "And where do I live now?")
    expect(context_of_the_last_answer(page)).to_contain_text("cora lives in Madrid.")


@pytest.mark.slow
def test_a_correction_on_the_page_holds_until_a_later_message_says_otherwise(
    site: Site, visit: Visits
) -> None:
    site.remember("dora", "dora-1", "I live in Vienna.")
    page = visit(site, "dora").open("memory", "entries", site.facts("dora")["dora lives in Vienna."])
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Text").fill("dora lives in Madrid.")
    page.get_by_role("button", name="Save").click()
    corrected = page.get_by_role("article", name="dora lives in Madrid.")
    expect(corrected.get_by_text("edited by a person")).to_be_visible()

    def profile() -> list[str]:
        return [each["text"] for each in site.get("users/dora/profile")["entries"]]

    site.remember("dora", "dora-2", "I live in Oslo.", at=MAY_8 + 60 * MINUTE)
    page.reload()
    expect(corrected).to_be_visible()
    expect(page.get_by_text("Superseded by")).to_have_count(0)
    assert profile() == ["dora lives in Madrid."]
    site.remember("dora", "dora-3", "I live in Rome.", at=int(time.time() * 1000) + MINUTE)
    page.reload()
    expect(corrected).to_contain_text("Superseded by")
    expect(corrected.get_by_role("link", name="dora lives in Rome.")).to_be_visible()
    wait_until(lambda: profile() == ["dora lives in Rome."], "the profile has the later word")


@pytest.mark.slow
def test_the_prompt_is_shown_block_by_block_with_what_changed(site: Site, visit: Visits) -> None:
    site.remember("petra", "petra-1", "I like trains.")
    page = visit(site, "petra").open("chat")
    ask(page, "What do I like?")
    ask(page, "And what else?")
    page.get_by_role("link", name="What was sent").last.click()
    for name in ("Instructions", "History", "Context", "Words"):
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Words")).to_contain_text("And what else?")
    expect(page.get_by_role("region", name="Words")).to_contain_text("new")
    expect(page.get_by_role("region", name="History").get_by_text("as before").first).to_be_visible()
    expect(page.get_by_role("region", name="What changed")).to_contain_text("It only grew")
    page.get_by_text("The request as it left").click()
    expect(page.get_by_text('"session_id"')).to_be_visible()
    page.get_by_role("link", name="Answer before").click()
    expect(page.get_by_role("region", name="What changed")).to_contain_text("The first prompt of this chat.")
    shown = page.get_by_role("region", name="Instructions").locator("pre").inner_text()
    thread = page.url.split("/")[-2]
    sent = site.get(f"threads/{thread}/turns/t-2/prompt", user_id="petra")
    assert shown == sent["messages"][0]["content"]


def test_a_chat_says_what_waits_to_be_remembered_and_has_it_remembered_now(site: Site, visit: Visits) -> None:
    page = visit(site, "wilma").open("chat")
    ask(page, "My name is Wilma and I live in Graz.")
    waiting = page.get_by_text(re.compile("2 messages wait to be remembered, until .* at the latest"))
    expect(waiting).to_be_visible()
    page.get_by_role("button", name="Remember now").click()
    expect(waiting).to_be_hidden()
    expect(page.get_by_text("Remembered.")).to_be_visible()
    title = page.get_by_role("main").get_by_role("heading", level=1)
    expect(title).not_to_have_text("New chat")
    listed = page.get_by_role("list", name="Chats").get_by_role("link", name=title.inner_text())
    expect(listed).to_be_visible()
    wait_until(lambda: "wilma lives in Graz." in site.facts("wilma"), "the fact is made")
