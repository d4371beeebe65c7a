"""HTML, SVG and script in messages, memories, titles, ids and notes are shown as text and never become markup."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Site, Visits
from tests.processes import StandInModel

pytestmark = pytest.mark.slow

HOSTILE = (
    '<script>window.broken = 1</script><img src="x" onerror="window.broken = 2"><svg onload="window.broken = 3">'
    '<a href="javascript:window.broken=4">go</a></svg><b>bold</b>'
)
MARKDOWN = (
    f"{HOSTILE}\n\n[click](javascript:window.broken=5) ![picture](http://example.org/x.png)\n\n"
    f"```html\n{HOSTILE}\n```\n\n| a |\n| --- |\n| {HOSTILE.replace('|', '')} |\n\n<details open ontoggle=window.broken=6>x</details>"
)
USER = '<i onclick="window.broken = 7">mallory</i>'
THREAD = '"><script>window.broken = 8</script>/../<u>'


def assert_whole(page: Page) -> None:
    """Nothing ran, and nothing that was said became an element."""
    assert page.evaluate("window.broken") is None
    made = page.locator(
        "main script, main img[src=x], main u, main i[onclick], main [onerror], main [ontoggle]"
    )
    assert made.count() == 0
    assert page.locator("main b", has_text="bold").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0
    assert page.locator("img[src^='http']").count() == 0


@pytest.fixture(scope="module")
def hostile(site: Site, model: StandInModel) -> Site:
    model.control(answer=MARKDOWN, only="chat")
    path = f"threads/{quote(THREAD, safe='')}"
    site.post(f"{path}/messages", user_id=USER, content=HOSTILE)
    site.client.patch(f"/api/v1/{path}", json={"user_id": USER, "title": HOSTILE}).raise_for_status()
    model.control()
    site.remember(USER, "plain", "I live in Rome.")
    ((text, entry),) = site.facts(USER).items()
    assert "lives in Rome" in text
    changes = {"user_id": USER, "title": HOSTILE, "text": MARKDOWN}
    site.client.patch(f"/api/v1/memory/entries/{entry}", json=changes).raise_for_status()
    site.post("memory/notes", user_id=USER, name=f"{HOSTILE[:60]}.md", text=MARKDOWN)
    return site


@pytest.fixture
def page(hostile: Site, visit: Visits) -> Page:
    return visit(hostile, USER).page


def goto(page: Page, site: Site, *parts: str) -> None:
    page.goto(f"{site.address}/#/{'/'.join(quote(part, safe='') for part in parts)}")


def test_in_messages_answers_and_titles(hostile: Site, page: Page) -> None:
    goto(page, hostile, "chat", THREAD)
    expect(page.get_by_role("log").get_by_text("<script>window.broken = 1</script>").first).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.get_by_role("log")).to_contain_text("<details open ontoggle=window.broken=6>")
    assert_whole(page)


def test_in_prompts(hostile: Site, page: Page) -> None:
    goto(page, hostile, "prompt", THREAD, "t-2")
    expect(page.get_by_role("region", name="Words")).to_contain_text(HOSTILE)
    assert_whole(page)


def test_in_memories(hostile: Site, page: Page) -> None:
    (entry,) = hostile.facts(USER).values()
    goto(page, hostile, "memory", "entries", entry)
    expect(page.get_by_role("article").get_by_role("heading", level=2)).to_have_text(HOSTILE)
    expect(page.get_by_role("list", name="Memories")).to_contain_text("<script>window.broken = 1</script>")
    assert_whole(page)
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("dialog")).to_contain_text(HOSTILE)
    assert_whole(page)


def test_in_notes_and_search(hostile: Site, page: Page) -> None:
    goto(page, hostile, "memory", "notes")
    page.get_by_role("list", name="Notes").get_by_role("link").click()
    expect(page.get_by_role("article")).to_contain_text("<script>window.broken = 1</script>")
    assert_whole(page)
    page.goto(f"{hostile.address}/#/memory/entries?q=broken")
    expect(page.get_by_role("list", name="Hits").get_by_role("listitem").first).to_contain_text("<script>")
    assert_whole(page)


def test_in_an_address(hostile: Site, page: Page) -> None:
    for parts in (
        ("chat", HOSTILE),
        ("memory", "entries", HOSTILE),
        ("prompt", HOSTILE, HOSTILE),
        (HOSTILE,),
    ):
        goto(page, hostile, *parts)
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        assert_whole(page)


def test_in_names_of_models_tools_agents_and_jobs_and_in_the_words_of_errors(
    tmp_path: Path, model: StandInModel, visit: Visits
) -> None:
    with Site(tmp_path / "home", model) as site:
        call = {"id": HOSTILE, "type": "function", "function": {"name": HOSTILE, "arguments": HOSTILE}}
        told = {"model": HOSTILE, "reasoning": HOSTILE, "tool_calls": [call], "status": "partial"}
        site.post("threads/t1/turns", user_id=USER, role="user", content="Hello", sender_id=HOSTILE)
        site.post("threads/t1/turns", user_id=USER, role="assistant", content=MARKDOWN, **told)
        site.post("threads/t1/turns", user_id=USER, role="tool", content=HOSTILE, tool_call_id=HOSTILE)
        site.give_up_a_job("t1", HOSTILE)
        page = visit(site, USER).page
        goto(page, site, "chat", "t1")
        expect(page.get_by_role("log").get_by_text(HOSTILE).first).to_be_visible()
        page.get_by_text("Thoughts").click()
        expect(page.locator(".tool-calls")).to_contain_text(HOSTILE)
        assert_whole(page)
        goto(page, site, "health")
        expect(page.get_by_role("region", name="Jobs").first).to_contain_text(HOSTILE)
        assert_whole(page)


DEEP = {
    "quotes": ">" * 50_000,
    "lists": "- " * 25_000 + "x",
    "emphasis": "*" * 20_000 + "a" + "*" * 20_000,
    "pairs": "*a" * 40_000,
    "nested": "\n".join(f"{'  ' * depth}- a" for depth in range(200)),
    "brackets": "[" * 50_000,
}


@pytest.mark.parametrize("kind", DEEP)
def test_no_text_is_too_deep_or_too_dear_to_be_shown(site: Site, visit: Visits, kind: str) -> None:
    user, thread = f"deep-{kind}", f"deep-{kind}"
    for content in (DEEP[kind], "Said after it."):
        site.post(f"threads/{thread}/turns", user_id=user, role="assistant", content=content)
    page = visit(site, user).page
    goto(page, site, "chat", thread)
    expect(page.get_by_role("log")).to_contain_text("Said after it.")
    shown = page.get_by_role("article").first.locator(".markdown")
    expect(shown).to_contain_text(re.compile("[>*a\\[x]"))
