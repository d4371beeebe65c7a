"""The Memory page: browse, search with reasons, read with quotes, edit, pin, undo, forget, bring notes along."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import MAY_8, Site, Visit, Visits
from tests.processes import wait_until
from tests.standins import made_exports
from tests.standins.tool_tasks import tool_task

DAY = 86_400_000


def show(visit: Visit, text: str) -> Page:
    """The page of the fact that says this."""
    assert visit.user is not None
    return visit.open("memory", "entries", visit.site.facts(visit.user)[text])


def test_memories_are_browsed_by_kind_by_month_and_by_day(site: Site, visit: Visits) -> None:
    site.remember("ann", "ann-0", "I have a cat called Ida.", at=MAY_8 - 40 * DAY)
    site.remember("ann", "ann-1", "My name is Ann.", "I live in Berlin.")
    site.remember("ann", "ann-2", "I work as a nurse.", at=MAY_8 + 3 * DAY)
    page = visit(site, "ann").open("memory")
    memories = page.get_by_role("list", name="Memories")
    expect(memories.get_by_role("heading", name="Monday, 11 May 2026")).to_be_visible()
    expect(memories.get_by_role("heading", name="Friday, 8 May 2026")).to_be_visible()
    page.get_by_role("button", name="Facts").click()
    expect(memories.get_by_role("link")).to_have_count(4)
    months = page.get_by_role("navigation", name="Months")
    expect(months.get_by_role("link")).to_have_text(["May 2026, 3", "March 2026, 1"])
    expect(memories.get_by_role("heading", level=2)).to_have_text(["May 2026, 3", "March 2026, 1"])
    expect(months.locator("[aria-current]")).to_have_text("May 2026, 3")
    months.get_by_role("link", name="March 2026").click()
    expect(memories.get_by_role("link")).to_have_text([re.compile("a cat called Ida")])
    expect(months.locator("[aria-current]")).to_have_text("March 2026, 1")
    months.get_by_role("link", name="May 2026").click()
    expect(memories.get_by_role("link")).to_have_count(4)
    page.get_by_label("Day").fill("2026-05-11")
    expect(memories.get_by_role("link")).to_have_count(1)
    expect(memories.get_by_role("link", name="Ann works as a nurse.")).to_be_visible()
    page.reload()
    expect(memories.get_by_role("link")).to_have_count(1)


def test_a_search_tells_why_it_found_each_text(site: Site, visit: Visits) -> None:
    site.post("threads", thread_id="s-1", user_id="searcher", title="Pets and walks")
    site.remember("searcher", "s-1", "I have a dog called Rex.", "I like long walks.")
    page = visit(site, "searcher").open("memory")
    page.get_by_role("searchbox", name="Search memories").fill("Rex")
    hits = page.get_by_role("list", name="Hits")
    expect(hits.get_by_role("listitem")).to_have_count(1)
    expect(hits.get_by_role("listitem")).to_contain_text("a dog called Rex")
    expect(hits.get_by_role("listitem")).to_contain_text("Pets and walks")
    hits.get_by_text(re.compile(r"Why: score \d")).first.click()
    expect(hits.get_by_role("row", name=re.compile("its words"))).to_be_visible()
    page.get_by_role("button", name="Facts").click()
    expect(hits.get_by_role("listitem")).to_contain_text("searcher has a dog called Rex.")
    hits.get_by_role("link").click()
    expect(page.get_by_role("article", name="searcher has a dog called Rex.")).to_be_visible()
    page.get_by_role("searchbox", name="Search memories").fill("quantum chromodynamics")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    expect(hits.get_by_role("listitem")).to_have_count(0)


def test_a_memory_shows_the_words_it_came_from(site: Site, visit: Visits) -> None:
    site.remember("quoted", "q-1", "I live in Lisbon.")
    page = show(visit(site, "quoted"), "quoted lives in Lisbon.")
    came_from = page.get_by_role("region", name="Where it came from")
    expect(came_from.get_by_role("blockquote")).to_have_text("I live in Lisbon.")
    came_from.get_by_role("link", name="Show in its conversation").click()
    expect(page).to_have_url(re.compile(r"#/chat/q-1/t-1$"))


def test_a_memory_is_edited_pinned_and_undone(site: Site, visit: Visits) -> None:
    site.remember("editor", "e-1", "I live in Vienna.")
    page = show(visit(site, "editor"), "editor lives in Vienna.")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Text").fill("editor lives in Madrid.")
    page.get_by_role("button", name="Save").click()
    article = page.get_by_role("article", name="editor lives in Madrid.")
    expect(article.get_by_text("edited by a person")).to_be_visible()
    expect(
        page.get_by_role("list", name="Memories").get_by_role("link", name="editor lives in Madrid.")
    ).to_be_visible()
    article.get_by_role("button", name="Pin", exact=True).click()
    expect(article.get_by_role("button", name="Unpin")).to_be_visible()
    article.get_by_text("History: 2 changes").click()
    versions = article.get_by_role("list", name="Versions, the newest first").get_by_role("listitem")
    expect(versions).to_have_count(3)
    expect(versions.last).to_contain_text("editor lives in Vienna.")
    versions.last.get_by_role("button", name="Back to this version").click()
    expect(page.get_by_role("article", name="editor lives in Vienna.")).to_be_visible()
    page.get_by_role("article").get_by_role("button", name="Undo").click()
    expect(page.get_by_role("article", name="editor lives in Madrid.")).to_be_visible()


@pytest.mark.slow
def test_an_edit_of_what_was_changed_meanwhile_is_refused_and_nothing_typed_is_lost(
    site: Site, visit: Visits
) -> None:
    site.remember("twice", "tw-1", "I live in Cairo.")
    page = show(visit(site, "twice"), "twice lives in Cairo.")
    page.get_by_role("button", name="Edit", exact=True).click()
    entry = site.facts("twice")["twice lives in Cairo."]
    site.client.patch(f"/api/v1/memory/entries/{entry}", json={"text": "elsewhere"}).raise_for_status()
    page.get_by_label("Text").fill("typed here")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("changed meanwhile")
    expect(page.get_by_label("Text")).to_have_value("typed here")
    page.get_by_role("button", name="Read it again").click()
    expect(page.get_by_role("article")).to_contain_text("elsewhere")


@pytest.mark.slow
def test_what_was_changed_meanwhile_is_read_again_before_it_is_pinned(site: Site, visit: Visits) -> None:
    site.remember("pia", "pia-1", "I live in Riga.")
    page = show(visit(site, "pia"), "pia lives in Riga.")
    article = page.get_by_role("article")
    expect(article.get_by_role("button", name="Pin", exact=True)).to_be_visible()
    entry = site.facts("pia")["pia lives in Riga."]
    site.client.patch(f"/api/v1/memory/entries/{entry}", json={"text": "elsewhere"}).raise_for_status()
    article.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_text("changed meanwhile")).to_be_visible()
    expect(article).to_contain_text("elsewhere")
    article.get_by_role("button", name="Pin", exact=True).click()
    expect(article.get_by_role("button", name="Unpin")).to_be_visible()


def test_forgetting_says_before_what_goes_along_and_then_it_is_gone_everywhere(
    site: Site, visit: Visits
) -> None:
    site.remember("lethe", "l-1", "I live in Tokyo.", "I have a cat called Ida.")
    wait_until(lambda: len(site.get("users/lethe/profile")["entries"]) == 2, "a profile of two lines")
    page = show(visit(site, "lethe"), "lethe lives in Tokyo.")
    page.get_by_role("button", name="Forget").click()
    dialog = page.get_by_role("dialog", name="Forget this memory?")
    along = dialog.get_by_role("list", name=re.compile("Goes along"))
    expect(along).to_have_text("Profile: lethe lives in Tokyo.")
    dialog.get_by_role("button", name="Cancel").click()
    assert "lethe lives in Tokyo." in site.facts("lethe")
    page.get_by_role("button", name="Forget").click()
    dialog.get_by_role("button", name="Forget for good").click()
    expect(page.get_by_text("Choose a memory")).to_be_visible()
    memories = page.get_by_role("list", name="Memories")
    expect(memories.get_by_role("link", name="lethe lives in Tokyo.")).to_have_count(0)
    expect(memories.get_by_role("link", name="lethe has a cat called Ida.")).to_have_count(1)
    assert list(site.facts("lethe")) == ["lethe has a cat called Ida."]
    page.get_by_role("link", name="Profile", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("Ida")
    expect(page.get_by_text("Tokyo")).to_have_count(0)


def test_the_profile_is_a_page_whose_lines_lead_to_their_sources(site: Site, visit: Visits) -> None:
    site.remember("paula", "p-1", "My name is Paula.", "I work as a baker.")
    wait_until(lambda: len(site.get("users/paula/profile")["entries"]) == 2, "a profile of two lines")
    page = visit(site, "paula").open("memory", "profile")
    expect(page.get_by_role("region", name="Identity")).to_contain_text("paula's name is Paula.")
    page.get_by_role("region", name="Work").get_by_role("link").click()
    expect(page.get_by_role("article").get_by_role("blockquote")).to_have_text("I work as a baker.")


@pytest.mark.parametrize("name", ["Porto trip.md"])
def test_a_note_is_brought_along_by_dropping_it(site: Site, visit: Visits, name: str) -> None:
    page = visit(site, "noted").open("memory")
    drop(page, name, "# Porto\n\nMarta lives in the **Rua das Flores**.\n")
    expect(page.get_by_text(f"{name} is in your vault")).to_be_visible()
    page.get_by_role("button", name="Open").click()
    article = page.get_by_role("article")
    expect(article.get_by_role("heading", name="Porto", exact=True)).to_be_visible()
    expect(article.locator("strong")).to_have_text("Rua das Flores")
    expect(page.get_by_role("list", name="Notes").get_by_role("link")).to_have_count(1)
    drop(page, name, "Another text.")
    page.get_by_role("dialog", name="Replace the note?").get_by_role(
        "button", name="Replace", exact=True
    ).click()
    expect(page.get_by_role("article")).to_contain_text("Another text.")

    drop(page, "conversations.json", made_exports.export("Claude", 2, 3).decode())
    report = page.get_by_role("dialog", name="conversations.json is imported")
    expect(report).to_contain_text("Claude: 2 conversations, 6 messages.")
    report.get_by_role("button", name="Done").click()
    assert {each["title"] for each in site.get("threads", user_id="noted")["threads"]} == {
        "Conversation 0",
        "Conversation 1",
    }
    drop(page, "other.json", "{}")
    expect(page.get_by_text("none of the formats")).to_be_visible()


@pytest.mark.slow
def test_notes_are_chosen_with_a_button_too_and_what_is_no_note_is_said(
    site: Site, visit: Visits, tmp_path: Path
) -> None:
    (tmp_path / "list.md").write_text("- bread\n- salt\n", encoding="utf-8")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    page = visit(site, "chooser").open("memory", "notes")
    page.get_by_label("Markdown notes").set_input_files([tmp_path / "photo.png", tmp_path / "list.md"])
    expect(page.get_by_text("photo.png is no Markdown or text file.")).to_be_visible()
    page.get_by_role("list", name="Notes").get_by_role("link", name=re.compile("list")).click()
    expect(page.get_by_role("article").get_by_role("listitem")).to_have_text(["bread", "salt"])


@pytest.mark.slow
def test_every_note_that_is_there_already_is_asked_about(site: Site, visit: Visits, tmp_path: Path) -> None:
    names = ["bread.md", "salt.md", "wine.md"]
    for name in names:
        site.post("memory/notes", user_id="baker", name=name, text="old")
        (tmp_path / name).write_text("new")
    page = visit(site, "baker").open("memory", "notes")
    with page.expect_response(lambda response: names[-1] in (response.request.post_data or "")):
        page.get_by_label("Markdown notes").set_input_files([tmp_path / name for name in names])
    page.wait_for_load_state("networkidle")
    dialog = page.get_by_role("dialog", name="Replace the note?")
    for name, answer in zip(names, ("Replace", "Cancel", "Replace"), strict=True):
        expect(dialog).to_contain_text(name)
        dialog.get_by_role("button", name=answer, exact=True).click()
    expect(dialog).to_have_count(0)
    texts = [site.get(f"memory/notes/{name}", user_id="baker")["text"] for name in names]
    assert texts == ["new", "old", "new"]


@pytest.mark.slow
def test_a_note_keeps_its_letters_or_is_refused(site: Site, visit: Visits, tmp_path: Path) -> None:
    text = "Grüße aus Porto"
    kept = ("utf-8", "utf-8-sig", "utf-16")
    for encoding in (*kept, "latin-1"):
        (tmp_path / f"{encoding}.md").write_bytes(text.encode(encoding))
    page = visit(site, "scribe").open("memory", "notes")
    files = [tmp_path / f"{encoding}.md" for encoding in (*kept, "latin-1")]
    page.get_by_label("Markdown notes").set_input_files(files)
    expect(page.get_by_text("latin-1.md is no text in UTF-8 or UTF-16.")).to_be_visible()
    expect(page.get_by_role("list", name="Notes").get_by_role("link")).to_have_count(3)
    for encoding in kept:
        assert site.get(f"memory/notes/{encoding}.md", user_id="scribe")["text"] == text


@pytest.mark.slow
def test_what_an_agent_learned_is_shown_with_the_cases_it_was_made_of(site: Site, visit: Visits) -> None:
    page = visit(site, "tess").open("memory", "skills")
    expect(page.get_by_text("No skills yet")).to_be_visible()
    for number, server in enumerate(("web", "mail", "database")):
        asked = f"Free some space on the full disk of the {server} server"
        messages = tool_task(f"te{number}-", MAY_8 + number * DAY, asked, user="tess")
        added = {"session_id": f"tess-{number}", "user_id": "tess"}
        site.post("memory/add", agent_id="caretaker", messages=messages, **added)
        site.post("memory/flush", timeout=30, **added)
    wait_until(lambda: site.get("memory/skills", user_id="tess")["skills"], "a skill")
    page.reload()
    skill = page.get_by_role("article")
    expect(skill).to_contain_text("agent caretaker")
    expect(skill.locator(".chip", has_text="delete_files")).to_be_visible()
    skill.get_by_text("What it says", exact=True).click()
    expect(skill.locator(".markdown")).to_contain_text("disk_usage")
    skill.get_by_text("Made of 3 cases").click()
    skill.get_by_role("listitem").get_by_role("link").first.click()
    expect(page.get_by_role("article")).to_contain_text("Free some space on the full disk")
    assert site.get("memory/skills", user_id="nobody")["skills"] == []


def drop(page: Page, name: str, text: str) -> None:
    """As a person drops a file onto the page."""
    data = page.evaluate_handle(
        """([name, text]) => {
            const data = new DataTransfer();
            data.items.add(new File([text], name, {type: 'text/markdown'}));
            return data;
        }""",
        [name, text],
    )
    for event in ("dragenter", "dragover", "drop"):
        page.get_by_role("heading", name="Memory").dispatch_event(event, {"dataTransfer": data})
