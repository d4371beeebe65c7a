"""5,000 threads and 50,000 entries: pages are small, lists stay quick, nothing jumps while they are scrolled."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.browser.seed_many import USER, entry_name
from tests.browser.site import Site, Visits
from tests.forking import BACKEND
from tests.http_client import Json
from tests.processes import StandInModel

pytestmark = pytest.mark.slow

THREADS, ENTRIES = 5_000, 50_000
FIRST_LOAD_BYTES = 200_000
LONGEST_TASK_MS = 100
"""Of processor time: by the clock a task is as long as the machine is busy."""
TRACED = ["disabled-by-default-devtools.timeline", "__metadata"]

WATCH = """
window.shift = 0;
new PerformanceObserver((list) => list.getEntries().forEach((each) => shift += each.value)).observe({type: 'layout-shift'});
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, model: StandInModel) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("scale") / "home"
    seed = [sys.executable, "-m", "tests.browser.seed_many", str(home), str(THREADS), str(ENTRIES)]
    subprocess.run(seed, cwd=BACKEND, check=True, timeout=120)
    with Site(home, model) as site:
        yield site


@dataclass(frozen=True)
class List:
    """A page's list: where it is, what it is called, and the route that it is read from."""

    address: str
    name: str
    route: str
    near_the_end: Callable[[Site], str]
    """Tells `after` of a page that hundreds of rows come after."""
    query: Json = field(default_factory=dict)


def past_most_threads(site: Site) -> str:
    after: Json = {}
    for _ in range(THREADS // 1000 - 1):
        after = {"after": site.get("threads", user_id=USER, order="recent", limit=1000, **after)["next"]}
    return str(after["after"])


CHATS = List("chat", "Chats", "threads", past_most_threads, {"order": "recent"})
MEMORIES = List("memory", "Memories", "memory/entries", lambda site: entry_name(ENTRIES - 600))
LISTS = pytest.mark.parametrize("shown", [CHATS, MEMORIES], ids=["chats", "memories"])


@LISTS
def test_the_last_pages_of_a_list_come_as_quickly_as_the_first(site: Site, shown: List) -> None:
    first = paging_seconds(site, shown, None)
    last = paging_seconds(site, shown, shown.near_the_end(site))
    # The quickest of each: what is slow by itself is so each time.
    assert min(last) < 2 * min(first) + 0.05, (first, last)


def paging_seconds(site: Site, shown: List, after: str | None) -> list[float]:
    """Of five pages, as many rows each as the page asks for, that hold no row twice."""
    rows: list[str] = []
    times = []
    for _ in range(5):
        query: Json = {"user_id": USER, "limit": 100, **shown.query, **({"after": after} if after else {})}
        started = time.perf_counter()
        page = site.get(shown.route, **query)
        times.append(time.perf_counter() - started)
        (found,) = (value for value in page.values() if isinstance(value, list))
        rows += [row.get("id") or row["thread_id"] for row in found]
        after = page["next"]
    assert len(rows) == len(set(rows)) == 500
    return times


@LISTS
def test_the_first_load_is_small_however_much_there_is(site: Site, visit: Visits, shown: List) -> None:
    seen = visit(site, USER)
    sizes: dict[str, int] = {}

    def weigh(request: Request) -> None:
        told = request.sizes()
        sizes[request.url] = told["responseBodySize"] + told["responseHeadersSize"]

    seen.page.on("requestfinished", weigh)
    expect(rows_of(seen.open(shown.address), shown).first).to_be_visible()
    seen.page.wait_for_load_state("networkidle")
    total = sum(sizes.values())
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:6]
    assert 10_000 < total < FIRST_LOAD_BYTES, f"{total} bytes: {largest}"


@LISTS
def test_scrolling_has_no_long_task_and_no_jump(
    site: Site, browser: Browser, visit: Visits, shown: List
) -> None:
    scrolled = scroll(site, browser, visit, shown)
    assert scrolled.tasks > 100
    assert scrolled.most_processor_ms < LONGEST_TASK_MS
    assert scrolled.shift < 0.02
    assert scrolled.most_rows < 100, "only what is in sight is drawn"


@dataclass(frozen=True)
class Scrolled:
    """What was seen while somebody scrolled down a thousand rows."""

    tasks: int
    most_processor_ms: float
    shift: float
    most_rows: int


def scroll(site: Site, browser: Browser, visit: Visits, shown: List) -> Scrolled:
    page = visit(site, USER).open(shown.address)
    expect(rows_of(page, shown).first).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.evaluate(WATCH)
    rows_of(page, shown).first.hover()
    browser.start_tracing(page=page, categories=TRACED)
    most, depth = 0, 0
    while depth <= 1_000:
        page.mouse.wheel(0, 3_000)
        drawn, depth = drawn_rows(page, shown, beyond=depth)
        most = max(most, drawn)
    tasks = task_milliseconds(browser.stop_tracing())
    return Scrolled(len(tasks), max(tasks), page.evaluate("shift"), most)


def rows_of(page: Page, shown: List) -> Locator:
    return page.get_by_role("list", name=shown.name).get_by_role("listitem")


DRAWN = """([list, beyond]) => {
    const rows = document.querySelectorAll(`[role=list][aria-label="${list}"] > [data-index]`);
    const last = Number(rows[rows.length - 1].dataset.index);
    return last > beyond && [rows.length, last];
}"""


def drawn_rows(page: Page, shown: List, beyond: int) -> tuple[int, int]:
    """How many rows are drawn, and the place of the last, once that is beyond what was drawn before.

    Asked in one cheap question: finding rows by their roles would be a long task of its own.
    """
    drawn, last = page.wait_for_function(DRAWN, arg=[shown.name, beyond]).json_value()
    return int(drawn), int(last)


def task_milliseconds(trace: bytes) -> list[float]:
    """The processor's time that each task of the page's main thread took."""
    events = json.loads(trace)["traceEvents"]
    pages = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    return [
        event["tdur"] / 1000
        for event in events
        if event["name"] == "RunTask" and "tdur" in event and (event["pid"], event["tid"]) in pages
    ]
