"""A server that is gone: said at once, nothing lost, nothing doubled, and the page goes on by itself."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import grave_problems
from tests.browser.site import Site, Visits
from tests.http_client import Json
from tests.processes import StandInModel, wait_until

WORDS = [f"word{number:02}" for number in range(40)]
ANSWER = " ".join(WORDS)
PHONE = {"width": 390, "height": 844}


def say(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("textbox", name="Message").press("Enter")


def log(page: Page) -> Locator:
    return page.get_by_role("log", name="Messages")


def banner(page: Page) -> Locator:
    return page.get_by_role("alert").filter(has_text="The server doesn't answer.")


def answers(page: Page) -> Locator:
    return page.get_by_role("article", name=re.compile("^Assistant"))


def turns_of(site: Site, user: str) -> list[Json]:
    (thread,) = site.get("threads", user_id=user)["threads"]
    turns: list[Json] = site.get(f"threads/{thread['thread_id']}/turns", user_id=user)["turns"]
    return turns


def said(site: Site, user: str) -> list[str]:
    return [turn["content"] for turn in turns_of(site, user) if turn["role"] == "user"]


def test_an_answer_whose_server_is_killed_is_given_when_it_is_back(
    own_site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.25, only="chat")
    page = visit(own_site, "ann", viewport=PHONE).open("chat")
    say(page, "Count for me.")
    expect(log(page)).to_contain_text(WORDS[3])
    own_site.kill()
    expect(banner(page)).to_be_visible(timeout=2000)
    expect(log(page)).to_contain_text("Count for me.")
    expect(log(page)).to_contain_text(WORDS[3])
    assert grave_problems(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    told, menu = banner(page).bounding_box(), page.get_by_role("button", name="Chats").bounding_box()
    assert told is not None
    assert menu is not None
    assert told["y"] + told["height"] <= menu["y"], "the banner covers nothing"
    model.control(answer=ANSWER, only="chat")
    own_site.restart()
    expect(answers(page).get_by_text(ANSWER)).to_be_visible()
    expect(banner(page)).to_have_count(0)
    expect(answers(page)).to_have_count(1)
    expect(page.get_by_role("status").filter(has_text="The answer is complete.")).to_have_count(1)
    assert said(own_site, "ann") == ["Count for me."]


@pytest.mark.slow
def test_what_is_sent_to_a_server_that_is_gone_is_sent_once_when_it_is_back(
    own_site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer="Here I am.", only="chat")
    page = visit(own_site, "ann").open("chat")
    expect(page.get_by_text("Welcome to Recollect")).to_be_visible()
    own_site.kill()
    say(page, "Are you there?")
    expect(banner(page)).to_be_visible()
    expect(log(page)).to_contain_text("Are you there?")
    own_site.restart()
    expect(answers(page).get_by_text("Here I am.")).to_be_visible()
    assert said(own_site, "ann") == ["Are you there?"]


@pytest.mark.slow
def test_a_message_that_no_server_took_can_be_called_back(own_site: Site, visit: Visits) -> None:
    page = visit(own_site, "ann").open("chat")
    expect(page.get_by_text("Welcome to Recollect")).to_be_visible()
    own_site.kill()
    say(page, "On second thoughts")
    expect(banner(page)).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("On second thoughts")
    own_site.restart()
    expect(banner(page)).to_have_count(0)
    assert own_site.get("threads", user_id="ann")["threads"] == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["refused", "never answered"])
def test_a_first_message_that_was_not_taken_is_there_after_a_reload(
    site: Site, visit: Visits, end: str
) -> None:
    page = visit(site, f"reloader, {end}").open("chat")
    page.route("**/messages", lambda route: route.abort() if end == "refused" else None)
    say(page, "Are you there?")
    if end == "refused":
        expect(page.get_by_role("textbox", name="Message")).to_have_value("Are you there?")
    else:
        expect(log(page)).to_contain_text("Are you there?")
    page.reload()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Are you there?")
    expect(page.get_by_text("This chat is not here")).to_have_count(0)


@pytest.mark.slow
def test_what_is_sent_after_an_answer_broke_off_follows_that_answer_in_its_order(
    own_site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.25, only="chat")
    page = visit(own_site, "ann").open("chat")
    say(page, "First")
    expect(log(page)).to_contain_text(WORDS[3])
    own_site.kill()
    expect(banner(page)).to_be_visible()
    say(page, "Second")
    say(page, "Third")
    for text in ("First", "Second", "Third"):
        expect(log(page).get_by_text(text, exact=True)).to_be_visible()
    model.control(answer="Here I am.", only="chat")
    own_site.restart()
    expect(answers(page).get_by_text("Here I am.")).to_have_count(3)
    assert said(own_site, "ann") == ["First", "Second", "Third"]
    shown = log(page).inner_text()
    assert re.findall(r"First|Second|Third|Here I am", shown) == [
        "First", "Here I am", "Second", "Here I am", "Third", "Here I am",
    ]  # fmt: skip


@pytest.mark.slow
def test_what_waited_at_a_server_that_was_killed_stays_in_sight(
    own_site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.25, only="chat")
    page = visit(own_site, "ann").open("chat")
    say(page, "First")
    expect(log(page)).to_contain_text(WORDS[3])
    say(page, "Second")
    wait_until(lambda: said(own_site, "ann") == ["First", "Second"], "both are taken")
    own_site.kill()
    expect(banner(page)).to_be_visible()
    model.control(answer="To the second.", only="chat")
    own_site.restart()
    expect(answers(page).last.get_by_text("To the second.")).to_be_visible()
    expect(log(page).get_by_text("First", exact=True)).to_be_visible()
    expect(log(page).get_by_text("Second", exact=True)).to_be_visible()
    expect(answers(page)).to_have_count(2)
    expect(answers(page).first).to_contain_text("server stopped before the answer was complete")
    again = [turn["parent_id"] for turn in turns_of(own_site, "ann")[4:]]
    assert again == ["t-3"], "an answer to the first would be on a branch of its own"


@pytest.mark.slow
def test_messages_that_no_server_took_are_all_there_after_a_reload(site: Site, visit: Visits) -> None:
    page = visit(site, "reloader of two").open("chat")
    page.route("**/messages", lambda route: None)
    for text in ("Are you there?", "Hello?"):
        say(page, text)
        expect(log(page)).to_contain_text(text)
    page.reload()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Are you there?\n\nHello?")


@pytest.mark.slow
def test_two_tabs_of_a_killed_server_ask_once(own_site: Site, model: StandInModel, visit: Visits) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.25, only="chat")
    tabs = visit(own_site, "ann")
    page = tabs.open("chat")
    say(page, "Count for us.")
    expect(log(page)).to_contain_text(WORDS[2])
    other = tabs.new_page()
    other.goto(page.url)
    expect(log(other)).to_contain_text(WORDS[4])
    own_site.kill()
    expect(banner(other)).to_be_visible()
    model.control(answer=ANSWER, only="chat")
    own_site.restart()
    for tab in (page, other):
        expect(answers(tab).get_by_text(ANSWER)).to_be_visible()
        expect(answers(tab)).to_have_count(1)
    assert [turn["role"] for turn in turns_of(own_site, "ann")] == ["user", "assistant", "assistant"]


@pytest.mark.slow
def test_a_page_that_could_not_be_read_is_read_when_the_server_is_back(own_site: Site, visit: Visits) -> None:
    own_site.post("threads", thread_id="t", user_id="ann", title="Trip")
    page = visit(own_site, "ann").open("chat")
    expect(page.get_by_role("link", name="Trip")).to_be_visible()
    own_site.kill()
    page.get_by_role("searchbox", name="Search chats").fill("tri")
    expect(banner(page)).not_to_have_count(0)
    own_site.restart()
    expect(page.get_by_role("list", name="Chats").get_by_role("link", name="Trip")).to_be_visible()


@pytest.mark.slow
def test_stop_ends_one_answer_and_the_next_is_given(site: Site, model: StandInModel, visit: Visits) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.5, only="chat")
    page = visit(site, "stella").open("chat")
    say(page, "First")
    expect(log(page)).to_contain_text(WORDS[1])
    say(page, "Second")
    wait_until(lambda: said(site, "stella") == ["First", "Second"], "both are taken")
    model.control(answer="To the second.", only="chat")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(log(page)).to_contain_text("To the second.")
    expect(answers(page)).to_have_count(2)
    expect(answers(page).first).to_contain_text("It ends here")


@pytest.mark.slow
def test_an_error_says_what_to_do_and_a_screen_reader_hears_that_no_answer_came(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control("rate_limit", only="chat")
    page = visit(site, "lucy").open("chat")
    say(page, "Hello?")
    expect(page.get_by_role("alert").filter(has_text="Wait a moment, then ask again.")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="No answer came.")).to_have_count(1)
    expect(page.get_by_role("status").filter(has_text="complete")).to_have_count(0)
