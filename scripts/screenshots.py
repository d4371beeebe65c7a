"""Takes the pictures of the documentation, of a demo home that is the same every time: `make screenshots`.

Each page in a light window, some of them in a dark one and on a phone; as PNG files in docs/pictures.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.demo import CHAT, LAST_ANSWER, NOW, RECALLED, USER, DemoSite
from tests.processes import StandInModel

REPOSITORY = Path(__file__).resolve().parents[1]
PICTURES = REPOSITORY / "docs" / "pictures"
MOST_BYTES = 150_000
WINDOW = {"width": 1180, "height": 760}
PHONE = {"width": 390, "height": 780}


@dataclass(frozen=True)
class Picture:
    """One picture: where it is taken, and what is done there before."""

    name: str
    address: str
    then: Callable[[Page], None]
    viewport: dict[str, int]
    dark: bool = False


def shows(text: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_text(text).first.wait_for()


def asks_in_a_new_chat(page: Page) -> None:
    question, answer = RECALLED
    page.get_by_role("textbox", name="Message").fill(question)
    page.keyboard.press("Enter")
    page.get_by_text(answer).wait_for()
    page.get_by_role("button", name="used").click()
    page.get_by_text("Said 15 Apr").first.wait_for()
    page.get_by_role("article").first.evaluate("element => element.scrollIntoView({block: 'start'})")


def opens_fact(page: Page) -> None:
    page.get_by_role("link", name="Ann has a dog called Rex").click()
    page.get_by_role("article").wait_for()
    page.get_by_text("Where it came from").wait_for()


def opens_skill(page: Page) -> None:
    page.get_by_text("What it says", exact=True).click()


def explains_a_hit(page: Page) -> None:
    page.get_by_role("searchbox", name="Search memories").fill("When do I visit my sister?")
    page.get_by_text("Why: score").first.click()


def shows_all_figures(page: Page) -> None:
    page.get_by_role("img", name="Plot").wait_for()
    page.get_by_text("0 missing").wait_for()


ALL = (
    Picture("chat", f"chat/{CHAT}/t-4", shows("Alfa Pendular"), WINDOW),
    Picture("chat-dark", f"chat/{CHAT}", shows("you like herbal tea"), WINDOW, dark=True),
    Picture("chat-phone", f"chat/{CHAT}", shows("you like herbal tea"), PHONE),
    Picture("memory", "memory/entries?kind=facts", opens_fact, WINDOW),
    Picture("memory-search", "memory", explains_a_hit, WINDOW),
    Picture("memory-phone", "memory", shows("Lisbon"), PHONE),
    Picture("profile", "memory/profile", shows("dog called Rex"), WINDOW),
    Picture("skills", "memory/skills", opens_skill, WINDOW),
    Picture("prompt", f"prompt/{CHAT}/{LAST_ANSWER}", shows("It only grew"), WINDOW),
    Picture("health", "health", shows_all_figures, {"width": 1180, "height": 1160}),
    Picture("health-dark", "health", shows_all_figures, WINDOW, dark=True),
    Picture(
        "recalled", "chat", asks_in_a_new_chat, WINDOW
    ),  # The last: the chat is in the list from then on.
)


def main(*names: str) -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("screenshots: no Chromium; install it with 'apt-get install chromium'")
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="recollect-demo-") as folder,
        StandInModel() as model,
        DemoSite(Path(folder) / "home", model) as site,
        sync_playwright() as playwright,
    ):
        site.furnish()
        browser = playwright.chromium.launch(executable_path=program, args=["--lang=en-GB"])
        for picture in ALL:
            if not names or picture.name in names:
                take(browser, site, picture)
        browser.close()


def take(browser: Browser, site: DemoSite, picture: Picture) -> None:
    context = browser.new_context(
        viewport={"width": picture.viewport["width"], "height": picture.viewport["height"]},
        color_scheme="dark" if picture.dark else "light",
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    context.add_init_script(f"localStorage.setItem('recollect.user', '{USER}')")
    page = context.new_page()
    page.clock.set_fixed_time(datetime.fromtimestamp(NOW / 1000, UTC))
    page.goto(f"{site.address}/#/{picture.address}")
    picture.then(page)
    page.wait_for_load_state("networkidle")
    target = PICTURES / f"{picture.name}.png"
    page.screenshot(path=target, animations="disabled", caret="hide")
    context.close()
    size = target.stat().st_size
    print(f"{target.relative_to(REPOSITORY)}  {size // 1000} kB")
    if size > MOST_BYTES:
        sys.exit(f"screenshots: {target.name} has more than {MOST_BYTES} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
