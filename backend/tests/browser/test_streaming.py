"""Streams: seen as they come, joined again after a reload, in several tabs, stopped where somebody wants."""

import re
from copy import copy

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.axe import grave_problems
from tests.browser.bad_line import BadLine
from tests.browser.site import Site, Visits
from tests.http_client import Json
from tests.processes import StandInModel, wait_until

WORDS = [f"word{number:02}" for number in range(40)]
ANSWER = " ".join(WORDS)
"""More than thirty pieces of the stand-in's."""
MERMAID = "graph TD\n  A[Start] --> B{$x$?}"
AS_WRITTEN = (
    "It costs $5 and $10, or US$7.",
    r"$\wrong{x}$",
    r"\(\href{https://example.org}{x}\)",
    r"$\def\a{\a\a}\a$",
    "$HOME/$USER",
    "`$code$`",
)
MATH = (
    "The $n$th one is $x^2$, **bold \\(a_1 * b_1\\)**, and\n\n$$\n\\fbox{y}\n= \\frac{1}{2}\n- z\n$$\n\n"
     "\\[\n" + "a + " * 60 + "b\n\\]\n\n" + "\n\n".join(AS_WRITTEN) + f"\n\n```mermaid\n{MERMAID}\n```\n"
)  # fmt: skip


def say(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("textbox", name="Message").press("Enter")


def log(page: Page) -> Locator:
    return page.get_by_role("log", name="Messages")


def test_a_reload_in_mid_stream_loses_nothing_and_doubles_nothing(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.25, only="chat")
    page = visit(site, "reloader").open("chat")
    say(page, "Count for me.")
    expect(log(page)).to_contain_text(WORDS[6])
    expect(log(page)).not_to_contain_text(WORDS[-1])
    page.reload()
    expect(log(page)).to_contain_text(WORDS[6])
    expect(log(page)).to_contain_text(WORDS[-1])
    answers = page.get_by_role("article", name=re.compile("^Assistant"))
    expect(answers).to_have_count(1)
    expect(answers.get_by_text(ANSWER)).to_be_visible()
    expect(page.get_by_role("button", name="Answer again")).to_be_visible()
    (thread,) = site.get("threads", user_id="reloader")["threads"]
    path = f"threads/{thread['thread_id']}/turns"

    def turns() -> list[Json]:
        found: list[Json] = site.get(path, user_id="reloader")["turns"]
        return found

    wait_until(lambda: turns()[1]["status"] == "complete", "the answer complete in the journal")
    assert [turn["content"] for turn in turns()] == ["Count for me.", ANSWER]


def test_formulas_are_set_as_they_stream_and_what_is_none_stays_as_it_was_written(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    """That no script fails and no policy is broken, every visit checks."""
    page = visit(site, "emmy", viewport={"width": 390, "height": 844}).open("chat")
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    model.control(answer="Plain **words**.", only="chat")
    say(page, "Hello")
    expect(log(page).locator("strong")).to_be_visible()
    assert not [url for url in loaded if "katex" in url]
    model.control(answer=MATH, chunk_delay_seconds=0.005, only="chat")
    say(page, "And in signs?")
    answer = page.get_by_role("article", name=re.compile("^Assistant")).last
    expect(answer.get_by_role("button", name="Answer again")).to_be_enabled()
    expect(answer.locator(".katex")).to_have_count(5)
    texs = answer.locator("annotation[encoding='application/x-tex']")
    assert [tex.strip() for tex in texs.all_text_contents()[:3]] == ["n", "x^2", "a_1 * b_1"]
    expect(answer.get_by_role("group", name="Formula")).to_have_count(2)
    for text in AS_WRITTEN:
        expect(answer.get_by_text(text.strip("`"), exact=True)).to_be_visible()
    expect(answer.locator("pre")).to_have_text(MERMAID)
    fonts = page.evaluate("document.fonts.ready.then(() => document.fonts.check('1em KaTeX_Math'))")
    assert fonts
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert grave_problems(page) == []


@pytest.mark.slow
def test_an_answer_goes_on_where_it_was_each_time_the_connection_breaks_off(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.1, only="chat")
    with BadLine(site.address) as line:
        far_away = copy(site)
        far_away.address = line.address
        page = visit(far_away, "traveller").open("chat")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        say(page, "Count through the tunnels.")
        for place in (4, 16):
            expect(log(page)).to_contain_text(WORDS[place])
            line.break_off()
        answer = page.get_by_role("article", name=re.compile("^Assistant"))
        expect(answer.get_by_role("button", name="Answer again")).to_be_enabled()
        expect(answer.locator(".markdown")).to_have_text(ANSWER)
        assert len([url for url in asked if "/stream?" in url]) >= 2
        assert len([url for url in asked if url.endswith("/messages")]) == 1


@pytest.mark.slow
def test_a_reload_keeps_what_is_being_typed_until_it_is_sent(site: Site, visit: Visits) -> None:
    page = visit(site, "drafter").open("chat")
    typed = page.get_by_role("textbox", name="Message")
    for words in ("A question that", "Another one that"):
        typed.fill(f"{words} takes long to write")
        page.reload()
        expect(typed).to_have_value(f"{words} takes long to write")
        typed.press("Enter")
        expect(log(page)).to_contain_text(f"{words} takes long to write")
        expect(page.get_by_role("button", name="Answer again").last).to_be_enabled()
        page.reload()
        expect(typed).to_have_value("")


@pytest.mark.slow
def test_whoever_leaves_a_chat_at_once_has_still_said_it(site: Site, visit: Visits) -> None:
    seen = visit(site, "hasty")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    seen.page.route(re.compile("/messages$"), hold)
    page = seen.open("chat")
    with page.expect_request(re.compile("/messages$")):
        say(page, "Said in passing")
    page.get_by_role("link", name="New chat", exact=True).click()
    expect(log(page)).to_have_count(0)
    held.pop().continue_()
    page.get_by_role("list", name="Chats").get_by_role("link").click()
    expect(log(page)).to_contain_text("Said in passing")


@pytest.mark.slow
def test_what_could_not_be_sent_is_there_when_one_comes_back(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="unsent", user_id="patient", title="Unsent")
    site.post("threads/unsent/turns", user_id="patient", role="user", content="Hello")
    page = visit(site, "patient").open("chat", "unsent")
    page.route(re.compile("/messages$"), lambda route: route.abort())
    say(page, "Words for later")
    page.get_by_role("link", name="New chat", exact=True).click()
    expect(page.get_by_text("The server doesn't answer.")).to_be_visible()
    page.get_by_role("link", name="Unsent").click()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Words for later")


@pytest.mark.slow
def test_two_tabs_see_the_same_stream(site: Site, model: StandInModel, visit: Visits) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.1, only="chat")
    tabs = visit(site, "tabs")
    page = tabs.open("chat")
    say(page, "Count here.")
    expect(log(page)).to_contain_text(WORDS[2])
    other = tabs.new_page()
    other.goto(page.url)
    for each in (other, page):
        expect(log(each)).to_contain_text(WORDS[-1])
        expect(each.get_by_role("article", name=re.compile("^Assistant"))).to_have_count(1)


def test_a_stopped_answer_is_kept_as_far_as_it_came_and_the_next_one_works(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer=ANSWER, chunk_delay_seconds=0.5, only="chat")
    page = visit(site, "stopper").open("chat")
    say(page, "Count until I stop you.")
    expect(log(page)).to_contain_text(WORDS[3])
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text(re.compile("stopped here|It ends here"))).to_be_visible()
    expect(log(page)).not_to_contain_text(WORDS[-1])
    model.control(answer="Here I am again.", only="chat")
    say(page, "And now?")
    expect(log(page)).to_contain_text("Here I am again.")


def test_a_failed_answer_says_why_and_can_be_asked_for_again(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control("error", only="chat")
    page = visit(site, "unlucky").open("chat")
    say(page, "Hello?")
    expect(page.get_by_role("alert").first).to_contain_text(re.compile("."))
    model.control(answer="Now it works.", only="chat")
    page.get_by_role("button", name="Answer again").click()
    expect(log(page)).to_contain_text("Now it works.")


def test_edited_and_repeated_answers_are_branches_that_stay(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    model.control(answer="The first answer.", only="chat")
    page = visit(site, "brancher").open("chat")
    say(page, "A question")
    expect(log(page)).to_contain_text("The first answer.")
    model.control(answer="The second answer.", only="chat")
    page.get_by_role("button", name="Answer again").click()
    expect(log(page)).to_contain_text("The second answer.")
    page.get_by_role("button", name="Version before").click()
    expect(log(page)).to_contain_text("The first answer.")
    page.get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit message").fill("Another question")
    model.control(answer="The third answer.", only="chat")
    page.get_by_role("textbox", name="Edit message").press("Enter")
    expect(log(page)).to_contain_text("The third answer.")
    expect(log(page)).not_to_contain_text("The first answer.")
    page.reload()
    expect(log(page)).to_contain_text("The third answer.")
    page.get_by_role("article", name=re.compile("^You")).get_by_role("button", name="Version before").click()
    expect(log(page)).to_contain_text("A question")


@pytest.mark.slow
def test_a_chat_that_cannot_be_read_for_a_moment_stays_in_the_list(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="steady", user_id="steve", title="Steady")
    page = visit(site, "steve").open("chat")
    chats = page.get_by_role("list", name="Chats")
    expect(chats.get_by_role("link")).to_have_count(1)
    page.route(re.compile(r"/threads/steady\?"), lambda route: route.abort())
    page.get_by_role("button", name="Actions for Steady").click()
    page.get_by_role("menuitem", name="Pin").click()
    expect(page.get_by_text("The server doesn't answer.")).to_be_visible()
    expect(chats.get_by_role("link")).to_have_count(1)


@pytest.mark.slow
def test_chats_stay_listed_when_the_next_page_of_them_cannot_be_read(site: Site, visit: Visits) -> None:
    for number in range(110):
        site.post("threads", thread_id=f"paged-{number}", user_id="pam", title=f"Thread {number}")
    page = visit(site, "pam").page
    page.route(re.compile(r"/threads\?.*after="), lambda route: route.abort())
    page.goto(f"{site.address}/#/chat")
    chats = page.get_by_role("list", name="Chats")
    chats.get_by_role("link", name="Thread 109").focus()
    page.keyboard.press("End")
    expect(page.get_by_role("alert")).to_contain_text("The server doesn't answer.")
    expect(chats.get_by_role("link").last).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    chats.get_by_role("link").last.focus()
    page.keyboard.press("End")
    expect(chats.get_by_role("link", name=re.compile(r"^Thread 0\b"))).to_be_focused()


@pytest.mark.slow
def test_a_text_selected_beyond_the_edge_of_a_dialog_does_not_close_it(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="edge", user_id="edgar", title="Edge")
    page = visit(site, "edgar").open("chat")
    page.get_by_role("button", name="Actions for Edge").click()
    page.get_by_role("menuitem", name="Rename").click()
    title = page.get_by_role("dialog").get_by_label("Title")
    title.fill("A better name")
    title.hover()
    page.mouse.down()
    page.mouse.move(5, 5)
    page.mouse.up()
    expect(title).to_have_value("A better name")
    page.mouse.click(5, 5)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_threads_are_renamed_pinned_searched_and_deleted(site: Site, visit: Visits) -> None:
    for number in range(3):
        site.post("threads", thread_id=f"side-{number}", user_id="tidy", title=f"Thread {number}")
    page = visit(site, "tidy").open("chat")
    chats = page.get_by_role("list", name="Chats")
    expect(chats.get_by_role("link")).to_have_count(3)
    page.get_by_role("button", name="Actions for Thread 0").click()
    page.get_by_role("menuitem", name="Pin").click()
    expect(chats.get_by_role("link").first).to_contain_text("Thread 0")
    page.get_by_role("button", name="Actions for Thread 1").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_role("dialog").get_by_label("Title").fill("Renamed")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(chats.get_by_role("link", name="Renamed")).to_be_visible()
    page.get_by_role("searchbox", name="Search chats").fill("thread 2")
    expect(chats.get_by_role("link")).to_have_count(1)
    page.get_by_role("button", name="Actions for Thread 2").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("searchbox", name="Search chats").fill("")
    expect(chats.get_by_role("link")).to_have_count(2)
    titles = [thread["title"] for thread in site.get("threads", user_id="tidy")["threads"]]
    assert sorted(titles) == ["Renamed", "Thread 0"]
