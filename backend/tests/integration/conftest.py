"""What tests measured is shown at the end of a run, whichever process ran them."""

import pytest

from tests.cache_figures import TABLE_ROW, table


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
