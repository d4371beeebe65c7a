"""The retry loop backs off only briefly when its own disk is the problem."""

import pytest

from recollect.errors import StorageUnavailable
from recollect.service import coordination as retry_loop
from recollect.service.coordination import RetryLoop
from tests.eventually import eventually


async def test_an_impatient_loop_never_pauses_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty doublings of the first pause would take a quarter of an hour."""
    monkeypatch.setattr(retry_loop, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(retry_loop, "_LONGEST_PAUSE", 3600)
    monkeypatch.setattr(retry_loop, "_LONGEST_IMPATIENT_PAUSE", 0.002)
    tries = 0

    async def meets_a_full_disk() -> None:
        nonlocal tries
        tries += 1
        raise StorageUnavailable("the disk is full")

    loop = RetryLoop(meets_a_full_disk, delay_seconds=0, patient=False, on_change=lambda: None)
    loop.start("impatient")
    loop.wake()
    await eventually(lambda: tries >= 20)
    await loop.stop()
    assert loop.problem == "the disk is full"
