"""Homes and chats; and what tests measured, shown at the end of a run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cache_figures import TABLE_ROW, table
from tests.http_client import Home, opened
from tests.processes import StandInModel
from tests.talking import Talk, talking


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with opened(tmp_path / "home") as home:
        yield home


@pytest.fixture
async def talk(tmp_path: Path, model: StandInModel) -> AsyncIterator[Talk]:
    async with talking(tmp_path, model) as talk:
        yield talk


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
    ]
    rows = [value for report in reports for name, value in report.user_properties if name == TABLE_ROW]
    if rows:
        terminalreporter.section("tokens of prompts on llama.cpp")
        for line in table(rows):
            terminalreporter.write_line(line)
