"""The size of the stress tests, and what they tell of what they did and saw."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cache_figures import REMARK
from tests.stress.utils import STRESS, Figures, Size


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Size:
    """Whatever takes it is larger in the long run."""
    return Size(request.config.getoption("stress"))


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    figures = Figures()
    yield figures
    request.node.user_properties.append((STRESS, figures.row(request.node.name)))


@pytest.fixture
def remark(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """A line below the table."""
    return lambda text: request.node.user_properties.append((REMARK, text))


@pytest.fixture
def artefacts(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where what is made for people to look at goes."""
    given = request.config.getoption("artefacts")
    return Path(given).absolute() if given else tmp_path
