"""How large the tests are: `--stress=quick` by default, `--stress=long` for hours when a machine has nothing to do."""

import os
import signal

import pytest

from tests.stress.utils import Size

LONG = "long"

# Hundreds of servers and commands are started: each would compile all of the code for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A shell's background jobs ignore Ctrl-C, and so would the commands at which the tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stress", "how large the tests are")
    group.addoption(
        "--stress",
        choices=[size.value for size in Size],
        default=Size.QUICK.value,
        help="quick: every test, in small sizes; long: only those that are larger then, or marked long",
    )
    group.addoption(
        "--artefacts",
        metavar="FOLDER",
        help="where the plot of the soak goes; else into its temporary folder",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    size = Size(config.getoption("stress"))
    chosen = [item for item in items if _is_of(size, item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def _is_of(size: Size, item: pytest.Item) -> bool:
    is_long = item.get_closest_marker(LONG) is not None
    if size is Size.QUICK:
        return not is_long
    return is_long or "size" in getattr(item, "fixturenames", ())
