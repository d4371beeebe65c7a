"""A real Chromium for each file of tests, a real server and a stand-in model for all of them.

Playwright's own loop ends with each file: tests of other files run theirs in the same process. Tests share the
server, and each of them is another user.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.site import Site, Visit
from tests.processes import StandInModel

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 40
"""For anything that a test expects to see."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        reason = "no Chromium: install it with 'apt-get install chromium'"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses root, which is what CI often is.
        browser = playwright.chromium.launch(executable_path=program, chromium_sandbox=os.geteuid() != 0)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def model() -> Iterator[StandInModel]:
    with StandInModel() as model:
        yield model


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, model: StandInModel) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site") / "home", model) as site:
        yield site


@pytest.fixture
def own_site(tmp_path: Path, model: StandInModel) -> Iterator[Site]:
    """For a test after which others could not go on: as soon as there is a key, everybody needs one."""
    with Site(tmp_path / "home", model) as site:
        yield site


@pytest.fixture(autouse=True)
def _polite_model(request: pytest.FixtureRequest) -> None:
    """What one test asked of the model is not in force in the next."""
    if "model" in request.fixturenames:
        request.getfixturevalue("model").control()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens a site as somebody: `visit(site, "ann")`. What must never happen in a page fails the test."""
    with ExitStack() as visits:

        def begin(site: Site, user: str | None = None, **options: object) -> Visit:
            return visits.enter_context(Visit(browser, site, user, SECONDS * 1000, dict(options)))

        yield begin
