"""The first time: an empty page that says what this is and which model it found; a key where one is wanted."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.axe import grave_problems
from tests.browser.found_server import LOOKED_FOR_AT
from tests.browser.site import Site, Visits
from tests.processes import StandInModel
from tests.standins.standin_engines import StandInEngine


def test_an_empty_page_says_what_this_is_which_model_it_found_and_offers_a_first_message(
    own_site: Site, visit: Visits
) -> None:
    page = visit(own_site).open()
    expect(page.get_by_role("heading", name="Welcome to Recollect")).to_be_visible()
    expect(page.get_by_text("Recollect keeps every conversation")).to_be_visible()
    expect(page.get_by_text("Model: stand-in, on your own hardware")).to_be_visible()
    page.get_by_role("group", name="First messages").get_by_role("button").first.click()
    expect(page.get_by_role("textbox", name="Message")).to_have_value(re.compile("Marta"))
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("log", name="Messages")).to_contain_text("I see: Marta, Porto")
    expect(page.get_by_role("list", name="Chats").get_by_role("link")).to_have_count(1)
    for name in ("Memory", "Prompt", "Health", "Settings"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


def test_a_model_that_does_not_answer_is_named_with_what_to_do(
    tmp_path: Path, model: StandInModel, visit: Visits
) -> None:
    with Site(tmp_path / "home", model, {"RECOLLECT_LLM__BASE_URL": "http://127.0.0.1:9"}) as site:
        page = visit(site).open()
        expect(page.get_by_text("doesn't answer")).to_be_visible()
        page.get_by_role("link", name="What to do").click()
        expect(page.get_by_role("article", name="default").get_by_text("in trouble")).to_be_visible()


UNSET = {"RECOLLECT_LLM__BASE_URL": "", "RECOLLECT_LLM__MODEL": ""}


def test_without_a_model_the_page_asks_for_one_tries_it_and_chats_at_once(
    tmp_path: Path, model: StandInModel, visit: Visits
) -> None:
    with Site(tmp_path / "home", model, UNSET) as site:
        page = visit(site, viewport={"width": 390, "height": 844}).open()
        form = page.get_by_role("form", name="Connect a model")
        address = form.get_by_label("Address of the model server")
        address.fill("127.0.0.1:9")
        form.get_by_role("button", name="Test and connect").click()
        expect(form.get_by_role("alert")).to_contain_text("Is it running?")
        expect(address).to_have_attribute("aria-invalid", "true")
        assert grave_problems(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        address.fill(model.base_url)
        form.get_by_label("Model, if").fill("no-such")
        form.get_by_role("button", name="Test and connect").click()
        expect(form.get_by_role("alert")).to_contain_text("It has: stand-in")
        form.get_by_label("Model, if").fill("stand-in")
        form.get_by_label("API key").fill("sk-1")
        form.get_by_role("button", name="Test and connect").click()
        expect(page.get_by_text("Model: stand-in, on your own hardware")).to_be_visible()
        page.get_by_role("textbox", name="Message").fill("Marta lives in Porto.")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("log", name="Messages")).to_contain_text("I see: Marta, Porto")
        assert f'base_url = "{model.base_url}"' in (site.home / "recollect.toml").read_text()


def test_a_model_that_runs_on_this_machine_is_found(
    tmp_path: Path, model: StandInModel, visit: Visits
) -> None:
    with StandInEngine("ollama") as engine:
        looking = {"RECOLLECT_LLM__DISCOVER": "true", "RECOLLECT_PORT": "0", LOOKED_FOR_AT: engine.base_url}
        site = Site(tmp_path / "home", model, {**UNSET, **looking})
        site.run_instead("tests.browser.found_server")
        with site:
            page = visit(site).open()
            expect(page.get_by_text("found on this machine")).to_be_visible()
            expect(page.get_by_role("form", name="Connect a model")).to_have_count(0)


@pytest.mark.slow
def test_a_key_is_asked_for_where_the_server_wants_one(own_site: Site, visit: Visits) -> None:
    secret = own_site.key_for("ann")
    page = visit(own_site).open()
    key = page.get_by_label("API key")
    for wrong in ("rk_…", "rk_wrong"):
        key.fill(wrong)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("alert")).to_contain_text("The server doesn't know this key")
    assert grave_problems(page) == []
    key.fill(secret)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Welcome to Recollect")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Welcome to Recollect")).to_be_visible()
    page.get_by_role("button", name=re.compile("Account of ann")).click()
    page.get_by_role("menuitem", name="Forget the key here").click()
    expect(key).to_be_visible()
