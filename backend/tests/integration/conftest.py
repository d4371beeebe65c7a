"""Homes and chats."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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
