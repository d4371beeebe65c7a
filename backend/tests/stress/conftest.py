"""The size of the stress tests, and the table of what they did and saw."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stress.utils import HEADINGS, Figures, Size

ROW = "row of the table of stress"
REMARK = "remark below the table of stress"


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Size:
    """Whatever takes it is larger in the long run."""
    return Size(request.config.getoption("stress"))


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    figures = Figures()
    yield figures
    request.node.user_properties.append((ROW, figures.row(request.node.name)))


@pytest.fixture
def remark(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """A line below the table."""
    return lambda text: request.node.user_properties.append((REMARK, text))


@pytest.fixture
def artefacts(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where what is made for people to look at goes."""
    given = request.config.getoption("artefacts")
    return Path(given).absolute() if given else tmp_path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for outcome in ("", "passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "teardown"
    ]
    rows = [value for report in reports for name, value in report.user_properties if name == ROW]
    if not rows:
        return
    terminalreporter.section("stress")
    lines = [list(HEADINGS), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    for line in lines:
        first, *rest = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        terminalreporter.write_line("  ".join([line[0].ljust(len(first)), *rest]))
    for report in reports:
        for name, text in report.user_properties:
            if name == REMARK:
                terminalreporter.write_line(text)
