"""Settings: of the user, of one chat, and keys and users for an operator; memories by hand and by the button."""

import re
import time

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.axe import grave_problems
from tests.browser.site import Site, Visits

PHONE = {"width": 390, "height": 844}
SOON = 10
"""Seconds from the button to an answer that recalls."""


def say(page: Page, text: str, answer: str | re.Pattern[str]) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("log", name="Messages")).to_contain_text(answer)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_a_chat_is_remembered_by_the_button_and_recalled_in_another_within_ten_seconds(
    site: Site, visit: Visits
) -> None:
    page = visit(site, "rhea").open()
    say(page, "My sister Marta lives in Porto.", "I see: Marta, Porto")
    button = page.get_by_role("button", name="Remember now")
    expect(page.get_by_text("2 messages wait to be remembered")).to_be_visible()
    began = time.monotonic()
    button.press("Enter")
    expect(button).to_have_count(0)
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    page.get_by_role("link", name="New chat", exact=True).click()
    expect(page.get_by_role("heading", name="A new chat")).to_be_visible()
    say(page, "Where does my sister live?", "I see: Marta, Porto")
    assert time.monotonic() - began < SOON


def test_who_was_at_the_button_writes_next_even_where_it_goes_before_the_answer(
    site: Site, visit: Visits
) -> None:
    page = visit(site, "rhea").open()
    say(page, "My brother Luca lives in Turin.", re.compile("I see:"))
    button = page.get_by_role("button", name=re.compile("Remember(ing…| now)"))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/memory/flush", hold)
    with page.expect_request("**/memory/flush"):
        button.press("Enter")
    answer = held[0].fetch()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(button).to_have_count(0)
    held[0].fulfill(response=answer)
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()


@pytest.mark.slow
def test_a_user_turns_memory_off_and_the_operator_writes_a_preset(site: Site, visit: Visits) -> None:
    page = visit(site, "sol").open("settings")
    page.get_by_label("Remember what I say").uncheck()
    page.reload()
    expect(page.get_by_label("Remember what I say")).not_to_be_checked()
    assert site.get("users/sol/preferences")["auto_memory"] is False
    page.get_by_role("button", name="New preset").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("pirate")
    dialog.get_by_label("What the model is told").fill("Answer like a pirate.")
    dialog.get_by_label("Temperature").fill("hot")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Temperature")
    assert grave_problems(page) == []
    dialog.get_by_label("Temperature").fill("0.5")
    dialog.get_by_role("button", name="Save").click()
    presets = page.get_by_role("list", name="Presets")
    expect(presets).to_contain_text("Answer like a pirate.")
    page.get_by_label("Preset of new chats").select_option("pirate")
    expect(page.get_by_label("Preset of new chats")).to_have_value("pirate")
    page.get_by_role("button", name="Delete the preset pirate").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(presets).not_to_contain_text("pirate")


@pytest.mark.slow
def test_a_chat_has_its_own_model_and_may_be_temporary_and_without_memory(site: Site, visit: Visits) -> None:
    page = visit(site, "tess").open()
    page.get_by_role("button", name="Settings of this chat").click()
    dialog = page.get_by_role("dialog", name="Settings of this chat")
    dialog.get_by_label("Model").select_option(label="stand-in")
    dialog.get_by_label("Use memory in this chat").uncheck()
    dialog.get_by_label("Temporary chat").check()
    assert grave_problems(page) == []
    dialog.get_by_role("button", name="Done").click()
    say(page, "Marta lives in Porto.", "I see: Marta, Porto")
    conversation = page.get_by_role("region", name="Conversation")
    expect(conversation.get_by_text("temporary", exact=True)).to_be_visible()
    expect(page.get_by_role("list", name="Chats").get_by_role("link", name="Temporary chat")).to_be_visible()
    (thread,) = site.get("threads", user_id="tess")["threads"]
    assert thread["incognito"] is True
    assert site.get("coverage", user_id="tess")["skipped"] == 2
    assert site.model.calls_of_chats()[-1]["model"] == "stand-in"


@pytest.mark.slow
def test_a_memory_is_added_by_hand(site: Site, visit: Visits) -> None:
    page = visit(site, "uma", viewport=PHONE).open("memory")
    page.get_by_role("button", name="Add a memory").click()
    dialog = page.get_by_role("dialog", name="Add a memory")
    dialog.get_by_label("What should be remembered").fill("I am allergic to walnuts.")
    assert grave_problems(page) == []
    dialog.get_by_role("button", name="Add").click()
    expect(page.get_by_role("article", name="I am allergic to walnuts.")).to_contain_text("written by hand")
    page.get_by_role("link", name="Back to the list").click()
    expect(page.get_by_role("list", name="Memories").get_by_role("link")).to_have_count(1)


@pytest.mark.slow
def test_the_operator_makes_keys_that_are_shown_once_and_revokes_them(own_site: Site, visit: Visits) -> None:
    own_site.post("threads", user_id="vera", thread_id="v")
    seen = visit(own_site)
    page = seen.open("settings")
    expect(page.get_by_role("list", name="Users")).to_contain_text("vera")

    def make(name: str, user: str = "") -> str:
        page.get_by_role("button", name="New key").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill(name)
        if user:
            dialog.get_by_label("For one user").fill(user)
        dialog.get_by_role("button", name="Make the key").click()
        secret = dialog.get_by_label("The key", exact=True).input_value()
        assert grave_problems(page) == []
        dialog.get_by_role("button", name="Done").click()
        expect(dialog).to_have_count(0)
        assert secret not in page.content()
        return secret

    make("mine")
    secret = make("of vera", "vera")
    keys = page.get_by_role("list", name="API keys")
    expect(keys.get_by_role("listitem")).to_have_count(2)
    headers = {"Authorization": f"Bearer {secret}"}
    assert own_site.client.get("/api/v1/whoami", headers=headers).json()["user_id"] == "vera"
    page.get_by_role("button", name="Revoke the key of vera").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(keys.get_by_role("listitem")).to_have_count(1)
    assert own_site.client.get("/api/v1/whoami", headers=headers).status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_a_phone(
    site: Site, visit: Visits, theme: str
) -> None:
    page = visit(site, "wim", viewport=PHONE, color_scheme=theme).open("settings")
    page.get_by_text("It is named in the settings.").wait_for()
    expect(page.get_by_role("list", name="Presets").get_by_role("listitem").first).to_be_visible()
    assert grave_problems(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
