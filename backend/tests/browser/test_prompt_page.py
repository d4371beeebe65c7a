"""The Prompt page: what was sent for any answer, in its blocks, beside the prompt before it; and the meter below answers."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.site import MAY_8, MINUTE, Site, Visits
from tests.cache_chat import NO_BACKGROUND_WORK
from tests.processes import StandInModel, wait_until


def add_turns(site: Site, user: str, thread: str, number: int) -> None:
    """Messages that nobody answers."""
    messages = [
        {"sender_id": user, "role": "user", "timestamp": MAY_8 + place * MINUTE, "content": f"told {place}"}
        for place in range(number)
    ]
    site.post("memory/add", session_id=thread, user_id=user, messages=messages)


@pytest.mark.slow
def test_the_prompt_before_is_found_however_much_was_taken_in_since(
    tmp_path: Path, model: StandInModel, visit: Visits
) -> None:
    with Site(tmp_path / "home", model, NO_BACKGROUND_WORK) as site:
        site.post("threads/apart/messages", user_id="paul", content="The first words")
        add_turns(site, "paul", "apart", 150)
        page = visit(site, "paul").open("prompt", "apart")
        changed = page.get_by_role("region", name="What changed")
        expect(changed).to_contain_text("The first prompt of this chat.")
        site.post("threads/apart/messages", user_id="paul", content="The second words")
        page.reload()
        expect(page.get_by_role("region", name="Words")).to_contain_text("The second words")
        expect(changed).to_contain_text("Epoch")
        expect(changed).not_to_contain_text("The first prompt of this chat.")
        expect(page.get_by_text("as before").first).to_be_visible()


@pytest.mark.slow
def test_a_summary_is_a_block_of_its_own_and_words_that_look_like_one_are_not(
    tmp_path: Path, model: StandInModel, visit: Visits
) -> None:
    with Site(tmp_path / "home", model, {"RECOLLECT_CHAT__MAX_TURNS": "8"}) as site:
        seen = visit(site, "sue")
        summed_up: list[bool] = []
        for number in range(6):
            words = f"[Summary] Earlier in this conversation, number {number}"
            site.post("threads/summed/messages", user_id="sue", content=words)
            wait_until(lambda: not site.get("jobs")["jobs"], "every job done")
            page = seen.open("prompt", "summed", f"t-{2 * number + 2}")
            expect(page.get_by_role("region", name="Words")).to_contain_text(f"number {number}")
            sent = site.get(f"threads/summed/turns/t-{2 * number + 2}/prompt", user_id="sue")
            has_summary = "(a summary, quoted)" in str(sent["messages"][1]["content"])
            expect(page.get_by_role("region", name="Summary")).to_have_count(int(has_summary))
            summed_up.append(has_summary)
        assert set(summed_up) == {False, True}


@pytest.mark.slow
def test_the_meter_tells_what_an_answer_cost_and_why_the_cache_missed(
    tmp_path: Path, model: StandInModel, visit: Visits
) -> None:
    model.control(caches=True)
    with Site(tmp_path / "home", model) as site:
        page = visit(site, "metra").open("chat")
        meters = page.locator(".meter")
        for number, text in enumerate(("Tell me about Porto.", "And about Faro?"), 1):
            page.get_by_role("textbox", name="Message").fill(text)
            page.get_by_role("textbox", name="Message").press("Enter")
            expect(meters).to_have_count(number)
        sent = site.get(f"threads/{page.url.split('/')[-1]}/turns/t-4/prompt", user_id="metra")
        assert sent["cached_tokens"] > 0
        told = rf"{sent['cached_tokens']} cached\s*{sent['evaluated_tokens']} evaluated\s*[\d.]+ m?s to the first token"
        expect(meters.last).to_have_text("Cost")
        meters.last.get_by_text("Cost").click()
        expect(meters.last).to_contain_text(re.compile(told))
        expect(meters.last).not_to_contain_text("missed")
        page.get_by_role("button", name="Edit message").first.click()
        page.get_by_role("textbox", name="Edit message").fill("Tell me about Lagos.")
        page.get_by_role("textbox", name="Edit message").press("Enter")
        expect(meters).to_have_count(1)
        meters.get_by_text("Cost").click()
        expect(meters).to_contain_text("Cache missed: the conversation goes on from another branch")
