"""Any address shows a page, whatever it names."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.site import Site, Visit

pytestmark = pytest.mark.slow

Visits = Callable[..., Visit]
EVERY_OBJECT_HAS = ("constructor", "toString", "__proto__")


@pytest.mark.parametrize("name", EVERY_OBJECT_HAS)
def test_a_page_that_is_not_there_is_the_chat_and_a_part_of_memory_its_entries(
    site: Site, visit: Visits, name: str
) -> None:
    seen = visit(site, "lost")
    expect(seen.open(name).get_by_role("textbox", name="Message")).to_be_visible()
    expect(seen.open("memory", name).get_by_text("Nothing is remembered yet")).to_be_visible()
