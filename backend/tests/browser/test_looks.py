"""Every page in light and dark, on a phone, by keyboard, and as axe-core sees it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import grave_problems
from tests.browser.demo import CHAT, LAST_ANSWER, USER, DemoSite
from tests.browser.site import Visit, Visits
from tests.processes import StandInModel

pytestmark = pytest.mark.slow

PHONE = {"width": 390, "height": 844}
PAGES = {
    "an empty chat": ("chat", "Recollect keeps every conversation"),
    "chat": (f"chat/{CHAT}", "no coffee after midnight"),
    "memories": ("memory", "Saturday, 2 May 2026"),
    "search": ("memory/entries?q=sister", "Why: score"),
    "profile": ("memory/profile", "Ann has a dog called Rex."),
    "skills": ("memory/skills", "Made of 3 cases"),
    "cases": ("memory/cases", "Free some space"),
    "notes": ("memory/notes", "lisbon"),
    "prompt": (f"prompt/{CHAT}/{LAST_ANSWER}", "It only grew"),
    "health": ("health", "Every accepted message is where it should be."),
    "settings": ("settings", "It is named in the settings."),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, model: StandInModel) -> Iterator[DemoSite]:
    with DemoSite(tmp_path_factory.mktemp("demo") / "home", model) as site:
        site.furnish()
        yield site


def show(visit: Visit, name: str) -> Page:
    address, said = PAGES[name]
    page = visit.page
    page.goto(f"{visit.site.address}/#/{address}")
    expect(page.get_by_text(said).first).to_be_visible()
    return page


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_problem_on_any_page(site: DemoSite, visit: Visits, theme: str) -> None:
    seen = visit(site, USER, color_scheme=theme)
    found = {name: grave_problems(show(seen, name)) for name in PAGES}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_axe_finds_no_serious_problem_in_a_memory_and_its_dialogs(site: DemoSite, visit: Visits) -> None:
    page = show(visit(site, USER), "memories")
    page.get_by_role("list", name="Memories").get_by_role("link").first.click()
    page.get_by_text("History: never changed").click()
    assert grave_problems(page) == []
    page.get_by_role("button", name="Edit", exact=True).click()
    assert grave_problems(page) == []
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("dialog")).to_contain_text(re.compile("goes along|Goes along"))
    assert grave_problems(page) == []


def test_nothing_is_ever_wider_than_a_phone(site: DemoSite, visit: Visits) -> None:
    seen = visit(site, USER, viewport=PHONE, has_touch=True)
    seen.context.add_init_script(WATCH_WIDTH)
    for name in PAGES:
        page = show(seen, name)
        page.wait_for_load_state("networkidle")
        # Three frames later all that came with the last answer is drawn.
        frames = page.evaluate("() => frames_seen")
        page.wait_for_function("before => frames_seen >= before + 3", arg=frames)
        assert page.evaluate("() => Object.values(beyond)") == [], name


def test_a_name_without_a_gap_is_broken_on_a_phone(site: DemoSite, visit: Visits) -> None:
    page = visit(site, "W" * 200, viewport=PHONE).open("memory", "profile")
    nothing = page.get_by_text("Nothing is known about")
    expect(nothing).to_be_visible()
    box = nothing.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]


WATCH_WIDTH = """
window.beyond = {};
window.frames_seen = 0;
const look = () => {
    for (const element of document.querySelectorAll('main *, nav *')) {
        const {left, right, width} = element.getBoundingClientRect();
        const scrolls = element.closest('.table, pre, .plot, .virtual-row, .tabs, .months, .side, svg');
        if (scrolls || width <= 1 || (right <= innerWidth + 1 && left >= -1)) continue;
        const told = `${location.hash}: ${element.outerHTML.slice(0, 120)} from ${left} to ${right}`;
        beyond[element.outerHTML.slice(0, 120)] ??= told;
    }
    if (document.documentElement.scrollWidth > innerWidth) beyond.whole ??= `${location.hash}: the page itself`;
    frames_seen += 1;
    requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
"""Looks at every frame that is drawn, so that nothing passes by unseen."""


def test_a_phone_does_all_that_a_desk_does(site: DemoSite, visit: Visits) -> None:
    page = show(visit(site, USER, viewport=PHONE, has_touch=True), "an empty chat")
    page.get_by_role("button", name="Chats", exact=True).click()
    page.get_by_role("list", name="Chats").get_by_role("link", name="Packing for Lisbon").click()
    expect(page.get_by_role("log")).to_contain_text("herbal tea")
    page.get_by_role("link", name="Memory", exact=True).click()
    page.get_by_role("button", name="Facts").click()
    page.get_by_role("list", name="Memories").get_by_role("link", name="Ann likes trains.").click()
    expect(page.get_by_role("article", name="Ann likes trains.")).to_be_in_viewport()
    page.get_by_role("link", name="Back to the list").click()
    expect(page.get_by_role("list", name="Memories")).to_be_in_viewport()


def brightness(page: Page) -> float:
    """Of the ground, from 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_the_theme_is_the_systems_until_one_is_chosen_and_then_kept(site: DemoSite, visit: Visits) -> None:
    page = show(visit(site, USER, color_scheme="dark"), "memories")
    assert brightness(page) < 60
    page.emulate_media(color_scheme="light")
    assert brightness(page) > 200
    page.get_by_role("button", name=re.compile("^Account of")).click()
    page.get_by_role("menuitem", name="Dark theme").click()
    assert brightness(page) < 60
    page.reload()
    expect(page.get_by_text("Saturday, 2 May 2026")).to_be_visible()
    assert brightness(page) < 60


def test_the_keyboard_alone_leads_to_a_memory_and_back(site: DemoSite, visit: Visits) -> None:
    page = show(visit(site, USER), "memories")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    rows = page.get_by_role("list", name="Memories").get_by_role("link")
    for _ in range(20):
        page.keyboard.press("Tab")
        if rows.first.evaluate("row => row === document.activeElement"):
            break
    expect(rows.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("article")).to_be_visible()


def test_the_keyboard_alone_renames_a_chat_and_focus_comes_back(site: DemoSite, visit: Visits) -> None:
    page = show(visit(site, USER), "chat")
    actions = page.get_by_role("region", name="Conversation").get_by_role(
        "button", name="Actions for Packing for Lisbon"
    )
    for close in ("Escape", "Enter"):
        actions.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").get_by_label("Title")).to_be_focused()
        page.keyboard.press(close)
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(actions).to_be_focused()
