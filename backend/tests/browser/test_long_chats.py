"""Long chats: a link opens one deep inside, the rest comes as one scrolls, and all of it can be reached."""

import re
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.site import Site, Visits
from tests.cache_chat import NO_BACKGROUND_WORK
from tests.processes import StandInModel

pytestmark = pytest.mark.slow

AT_REST = """async () => {
    const view = document.querySelector("[role=log]");
    for (let before = null; before !== view.scrollTop; ) {
        before = view.scrollTop;
        await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    }
}"""
"""Until nothing scrolls any more."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, model: StandInModel) -> Iterator[Site]:
    """One of its own: what memory makes of thousands of messages would keep all other tests waiting."""
    with Site(tmp_path_factory.mktemp("long") / "home", model, NO_BACKGROUND_WORK) as site:
        yield site


def message(page: Page, place: int) -> Locator:
    return page.get_by_role("article").filter(has_text=f"turn number {place}.")


def places(page: Page) -> list[int]:
    """Of the messages that are drawn."""
    texts = page.get_by_role("log").inner_text()
    return [int(place) for place in re.findall(r"turn number (\d+)\.", texts)]


def asked_turns(page: Page) -> list[int]:
    """How many turns are asked for by each request, as they are made."""
    asked: list[int] = []

    def note(url: str) -> None:
        address = urlsplit(url)
        if address.path.endswith("/turns"):
            asked.append(int(parse_qs(address.query)["max_turns"][0]))

    page.on("request", lambda request: note(request.url))
    return asked


@pytest.mark.parametrize("place", [3, 1000, 1998])
def test_a_few_turns_are_read_however_long_the_chat_is(site: Site, visit: Visits, place: int) -> None:
    user = f"deep-link-{place}"
    site.talk(user, user, 2000)
    seen = visit(site, user)
    asked = asked_turns(seen.page)
    page = seen.open("chat", user, f"t-{place}")
    expect(message(page, place)).to_be_in_viewport()
    expect(message(page, place)).to_have_class(re.compile("marked"))
    page.wait_for_load_state("networkidle")
    assert sum(asked) <= 100
    shown = places(page)
    assert shown == list(range(shown[0], shown[-1] + 1))


def test_older_and_newer_turns_come_on_scrolling(site: Site, visit: Visits) -> None:
    site.talk("scrolla", "scrolla", 400)
    page = visit(site, "scrolla").open("chat", "scrolla", "t-200")
    expect(message(page, 200)).to_be_in_viewport()
    message(page, 200).hover()
    scroll_until(page, -300, lambda: places(page)[0] < 160)
    scroll_until(page, 300, lambda: places(page)[-1] > 300)
    shown = places(page)
    assert shown == list(range(shown[0], shown[-1] + 1))
    scroll_until(page, 3000, lambda: places(page)[-1] == 400)
    expect(page.get_by_role("link", name="Newest messages")).to_have_count(0)
    assert places(page) == list(range(shown[0], 401))


@pytest.mark.parametrize(("asked", "by", "comes"), [("before", -300, 175), ("after", 300, 225)])
def test_what_is_in_sight_stays_where_it_is_when_more_turns_come(
    site: Site, visit: Visits, asked: str, by: int, comes: int
) -> None:
    user = f"still-{asked}"
    site.talk(user, user, 400)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    seen_by = visit(site, user)
    seen_by.page.route(re.compile(rf"/turns\?.*{asked}="), hold)
    page = seen_by.open("chat", user, "t-200")
    message(page, 200).hover()
    scroll_until(page, by, lambda: len(held) > 0)
    page.evaluate(AT_REST)
    seen = {place: top_of(page, place) for place in (195, 200, 205)}
    held.pop().continue_()
    expect(message(page, comes)).to_have_count(1)
    page.evaluate(AT_REST)
    assert {place: top_of(page, place) for place in seen} == pytest.approx(seen, abs=1)


def top_of(page: Page, place: int) -> float:
    box = message(page, place).bounding_box()
    assert box is not None
    return box["y"]


def scroll_until(page: Page, by: int, reached: Callable[[], bool]) -> None:
    for _ in range(200):
        if reached():
            return
        page.mouse.wheel(0, by)
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    raise AssertionError(f"not reached by scrolling; there are {places(page)}")


def test_the_newest_messages_are_one_click_away(site: Site, visit: Visits) -> None:
    site.talk("newa", "newa", 100)
    page = visit(site, "newa").open("chat", "newa", "t-5")
    expect(message(page, 5)).to_be_in_viewport()
    page.get_by_role("link", name="Newest messages").click()
    expect(message(page, 100)).to_be_in_viewport()
    expect(page.get_by_role("link", name="Newest messages")).to_have_count(0)


def test_what_is_said_far_above_follows_the_newest_message(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    site.talk("saya", "saya", 100)
    model.control(answer="An answer at the end.", only="chat")
    page = visit(site, "saya").open("chat", "saya", "t-5")
    expect(message(page, 5)).to_be_in_viewport()
    page.get_by_role("textbox", name="Message").fill("Said from above")
    page.get_by_role("textbox", name="Message").press("Enter")
    expect(page.get_by_role("article").filter(has_text="An answer at the end.")).to_be_in_viewport()
    expect(page.get_by_role("log")).to_contain_text("turn number 100.")
    assert 5 not in places(page)
    said, _ = site.get("threads/saya/turns", user_id="saya", max_turns=2)["turns"]
    assert (said["content"], said["parent_id"]) == ("Said from above", None)


def test_a_message_far_above_is_edited_where_it_stands(
    site: Site, model: StandInModel, visit: Visits
) -> None:
    site.talk("edita", "edita", 100)
    model.control(answer="Another course.", only="chat")
    page = visit(site, "edita").open("chat", "edita", "t-21")
    message(page, 21).get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit message").fill("Edited here")
    page.get_by_role("textbox", name="Edit message").press("Enter")
    expect(page.get_by_role("log")).to_contain_text("Another course.")
    shown = places(page)
    assert (shown[-1], 100 in shown) == (20, False)
    expect(page.get_by_role("group", name="Versions")).to_contain_text("2 / 2")
    page.get_by_role("button", name="Version before").click()
    expect(page.get_by_role("log")).to_contain_text("turn number 22.")


@pytest.mark.parametrize("parent", ["t-20", "t-0"])
def test_what_a_branch_goes_on_from_is_reached_at_once_however_far_above_it_stands(
    site: Site, visit: Visits, parent: str
) -> None:
    user, last = f"branch-{parent}", int(parent.removeprefix("t-"))
    for number, edited in ((600, "The second version"), (900, "The third version")):
        site.talk(user, user, number)
        site.post(f"threads/{user}/messages", user_id=user, content=edited, parent_id=parent)
    seen = visit(site, user)
    asked = asked_turns(seen.page)
    page = seen.open("chat", user)
    said = page.get_by_role("article").filter(has_text="The third version")
    expect(said.get_by_role("group", name="Versions")).to_contain_text("3 / 3")
    page.wait_for_load_state("networkidle")
    assert len(asked) <= 3
    shown = places(page)
    assert bool(shown) == bool(last)
    assert shown == list(range(last + 1 - len(shown), last + 1))
    said.get_by_role("button", name="Version before").click()
    expect(page.get_by_role("log")).to_contain_text("The second version")


def test_when_the_linked_message_is_forgotten_what_stood_around_it_stays(site: Site, visit: Visits) -> None:
    site.talk("forga", "forga", 100)
    page = visit(site, "forga").open("chat", "forga", "t-41")
    message(page, 41).get_by_role("button", name="Forget message").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(message(page, 41)).to_have_count(0)
    expect(message(page, 43)).to_be_in_viewport()
    assert 100 not in places(page)


def test_on_a_tall_screen_earlier_turns_come_by_themselves(site: Site, visit: Visits) -> None:
    site.talk("tall", "tall-1", 30)
    page = visit(site, "tall", viewport={"width": 1280, "height": 4000}).open("chat", "tall-1")
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
    site.talk("farah", "far-1", 40)
    model.control(answer="Answered there.", only="chat")
    page = visit(site, "farah", viewport={"width": 1280, "height": 500}).open("chat", "far-1")
    first = page.get_by_role("article", name=re.compile("^You")).first
    expect(first).to_contain_text("turn number 21.")
    page.evaluate("document.querySelectorAll('[aria-label=\"Edit message\"]')[0].click()")
    page.get_by_role("textbox", name="Edit message").fill("Edited here")
    page.get_by_role("textbox", name="Edit message").press("Enter")
    expect(page.get_by_role("log")).to_contain_text("Answered there.")
    (edited,) = [
        turn
        for turn in site.get("threads/far-1/turns", user_id="farah", max_turns=2)["turns"]
        if turn["role"] == "user"
    ]
    assert (edited["content"], edited["parent_id"]) == ("Edited here", "t-20")


def test_a_link_to_a_message_that_was_forgotten_says_so_and_shows_the_chat(site: Site, visit: Visits) -> None:
    site.talk("gone", "gone-1", 4)
    site.client.delete("/api/v1/threads/gone-1/turns/t-2", params={"user_id": "gone"}).raise_for_status()
    page = visit(site, "gone").open("chat", "gone-1", "t-2")
    expect(page.get_by_text("That message is not here any more.")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("turn number 4.")
