"""The loop that tries again, and soon where the trouble is our own disk."""

import pytest

from recollect.errors import StorageUnavailable
from recollect.service import coordination as persistent_loop
from recollect.service.coordination import PersistentLoop
from tests.eventually import eventually


async def test_an_impatient_loop_never_pauses_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many doublings of the first pause would take a quarter of an hour."""
    monkeypatch.setattr(persistent_loop, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(persistent_loop, "_LONGEST_PAUSE", 3600)
    monkeypatch.setattr(persistent_loop, "_LONGEST_IMPATIENT_PAUSE", 0.002)
    tries = 0

    async def meets_a_full_disk() -> None:
        nonlocal tries
        tries += 1
        raise StorageUnavailable("the disk is full")

    loop = PersistentLoop(meets_a_full_disk, delay_seconds=0, patient=False, on_change=lambda: None)
    loop.start("impatient")
    loop.wake()
    await eventually(lambda: tries >= 20)
    await loop.stop()
    assert loop.problem == "the disk is full"
