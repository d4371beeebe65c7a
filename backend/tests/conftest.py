"""Which tests run, and how large they are; and the fixtures that several folders use.

`--quick` is what `make test` runs: ten minutes on two cores. It leaves out what is marked `slow` (tests that start a
server many times, kill it over and over, or ask a real model for minutes), runs three cases of each sweep under
`stress` and `browser`, and draws 20 examples for each property instead of 200.

`--stress=long` is for hours when a machine has nothing to do.
"""

import functools
import os
import signal
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpcore2
import hypothesis
import pytest

from recollect.infra.journal import connection
from recollect.settings import PACKAGED_MODEL
from tests import buckets, cache_figures, deployment, postgres
from tests.cache_figures import REMARK, table
from tests.contract import journals
from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault, new_vault
from tests.remembering import MortalModel
from tests.stress import utils
from tests.stress.utils import Size

LONG = "long"
SLOW = "slow"
TESTS = Path(__file__).resolve().parent
SWEEPS = (TESTS / "stress", TESTS / "browser")
"""Folders in which every case of a parametrised test costs seconds."""
TABLES = {
    cache_figures.PROMPTS: cache_figures.HEADINGS,
    utils.STRESS: utils.HEADINGS,
    utils.KILLS: utils.KILL_HEADINGS,
}
FOLDERS = ("stress", "browser", "integration", "contract", "unit")

# Hundreds of servers and commands are started: each would compile all of the code for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Models that this machine has for its servers are none of the tests': these name theirs.
os.environ["XDG_CACHE_HOME"] = str(TESTS.parents[1] / ".venv" / "cache")
# A shell's background jobs ignore Ctrl-C, and so would the commands at which the tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Thousands of clients are made: each would read the certificates of the machine, which takes 65 ms.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

hypothesis.settings.register_profile("quick", max_examples=20, derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("all", max_examples=200, deadline=None, database=None)


FIRST_JOURNAL: list[sqlite3.Connection] = []
run_alembic = connection._run_alembic


@functools.wraps(run_alembic)
def copy_first_journal(driver: sqlite3.Connection) -> None:
    """New journals are copies of the first one: to make the tables takes 60 ms, and thousands are opened."""
    is_new = driver.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    if is_new and FIRST_JOURNAL:
        FIRST_JOURNAL[0].backup(driver)
        return
    run_alembic(driver)
    if is_new:
        first = sqlite3.connect(":memory:", check_same_thread=False)
        driver.backup(first)
        FIRST_JOURNAL.append(first)


connection._run_alembic = copy_first_journal


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("recollect", "which tests run, and how large they are")
    group.addoption("--quick", action="store_true", help="leave out slow tests and most cases of sweeps")
    group.addoption(
        "--stress",
        choices=[size.value for size in Size],
        default=Size.QUICK.value,
        help="quick: every test, in small sizes; long: only those that are larger then, or marked long",
    )
    group.addoption("--kills", type=int, default=2000, help="of servers, in the long test of them")
    group.addoption(
        "--storms", type=int, default=10, help="of twenty kills each, in the long test of several servers"
    )
    group.addoption("--seed", default="", help="of chance, in that test")
    group.addoption(
        "--artefacts",
        metavar="FOLDER",
        help="where the plot of the soak goes; else into its temporary folder",
    )
    group.addoption(
        "--deployment",
        choices=("folder", "cluster"),
        default="folder",
        help="where homes keep what they hold: in their folder, or in a PostgreSQL and an S3 of the tests' own",
    )


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("quick" if config.getoption("quick") else "all")
    config.add_cleanup(postgres.end_clusters)
    if config.getoption("deployment") == "cluster":
        journals.CONNECTOR = postgres.journal_of
        deployment.HOMES = deployment.ClusterHomes()


def pytest_unconfigure() -> None:
    buckets.stop()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    size = Size(config.getoption("stress"))
    chosen = [item for item in items if _is_of(size, item)]
    if config.getoption("quick"):
        chosen = _quick(chosen)
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = sorted(chosen, key=_longest_first)


def _longest_first(item: pytest.Item) -> int:
    """Files of few long tests begin, so that at the end no process waits for another."""
    folder = item.path.relative_to(TESTS).parts[0]
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


def _is_of(size: Size, item: pytest.Item) -> bool:
    is_long = item.get_closest_marker(LONG) is not None
    if size is Size.QUICK:
        return not is_long
    return is_long or "size" in getattr(item, "fixturenames", ())


def _quick(items: list[pytest.Item]) -> list[pytest.Item]:
    items = [item for item in items if item.get_closest_marker(SLOW) is None]
    sweeps: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if any(folder in item.path.parents for folder in SWEEPS):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    left_out = {case for cases in sweeps.values() for case in cases if case not in _spread(cases)}
    return [item for item in items if item not in left_out]


def _spread(cases: list[pytest.Item]) -> tuple[pytest.Item, ...]:
    """The first, the middle and the last."""
    return cases[0], cases[len(cases) // 2], cases[-1]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests measured: a test's property is a row of the table of that name, or a remark."""
    reports = [each for outcome in ("", "passed", "failed") for each in terminalreporter.getreports(outcome)]
    told = [each for report in reports if report.when == "teardown" for each in report.user_properties]
    for title, headings in TABLES.items():
        if rows := [value for name, value in told if name == title]:
            terminalreporter.section(title)
            for line in table(headings, rows):
                terminalreporter.write_line(line)
    for name, text in told:
        if name == REMARK:
            terminalreporter.write_line(text)


@pytest.fixture(scope="module")
def running() -> Iterator[MortalModel]:
    """The stand-in model of a file of tests."""
    with MortalModel() as model:
        yield model


@pytest.fixture
def model(running: MortalModel) -> MortalModel:
    """The stand-in model, polite again."""
    running.control()
    return running


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with Journal(tmp_path / "journal.db") as opened:
        yield opened


@pytest.fixture
async def vault(tmp_path: Path, request: pytest.FixtureRequest) -> PersonsVault | buckets.PersonsBucket:
    if request.config.getoption("deployment") == "cluster":
        return await buckets.new_bucket()
    return await new_vault(tmp_path / "vault")


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The folder of the embedding model in the package."""
    return PACKAGED_MODEL
