"""A second user sees nothing of the first: not in lists, not by address, not in search, prompt or health."""

import re

from playwright.sync_api import expect

from tests.browser.site import Site, Visits

SECRET = "Ravensburg"


def test_a_second_user_sees_nothing_of_the_first(own_site: Site, visit: Visits) -> None:
    site = own_site
    site.remember("ann", "anns-thread", f"I live in {SECRET}.")
    site.post("threads/anns-chat/messages", user_id="ann", content=f"Tell me about {SECRET}.")
    site.post("memory/notes", user_id="ann", name="secret.md", text=f"{SECRET} again")
    entry = site.facts("ann")[f"ann lives in {SECRET}."]
    secret = site.key_for("bob")
    bob = visit(site)
    bob.keep("key", secret)
    page = bob.page
    everything = {
        "chat": "No chats yet.",
        "chat/anns-chat": "This chat is not here",
        "chat/anns-thread/t-1": "This chat is not here",
        "memory": "Nothing is remembered yet",
        f"memory/entries/{entry}": "there is no entry",
        "memory/profile": "Nothing is known about bob yet",
        "memory/skills": "No skills yet",
        "memory/notes": "No notes yet",
        "memory/notes/secret.md": "there is no note",
        f"memory/entries?q={SECRET}": "Nothing found",
        "prompt": "Nothing was sent yet",
        "prompt/anns-chat/t-2": "there is no thread",
        "health": "Nothing was answered yet.",
    }
    for address, said in everything.items():
        page.goto(f"{site.address}/#/{address}")
        expect(page.get_by_text(re.compile(re.escape(said), re.IGNORECASE)).first).to_be_visible()
        assert SECRET not in page.locator("body").inner_text()
    expect(page.get_by_role("region", name="Coverage")).to_contain_text("Accepted")
    expect(page.get_by_role("region", name="Coverage").get_by_text("0", exact=True).first).to_be_visible()
    expect(page.get_by_role("region", name="Index")).to_have_count(0)
