"""Quotas are token buckets: bounded in number, and truthful about how long to wait."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import OverQuota
from recollect.infra.metrics import Metrics
from recollect.infra.vault_folder import FolderVault
from recollect.service.access import quotas as module
from recollect.service.access.quotas import MOST_NAMES, Buckets, DiskUse, Quotas
from recollect.setting_groups import DEFAULTS, QuotaSettings
from tests.eventually import eventually


class Seconds:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


def made(clock: Seconds, *, on_loopback: bool = True, **limits: int) -> Quotas:
    return Quotas(QuotaSettings(**limits), Metrics(), on_loopback=on_loopback, clock=clock)


def refusal(quotas: Quotas, whose: module.Whose, name: str, size: int = 0) -> OverQuota:
    with pytest.raises(OverQuota) as caught:
        quotas.count(whose, name, size)
    return caught.value


@pytest.mark.parametrize("name", DEFAULTS)
def test_unset_a_quota_is_off_on_loopback_and_a_real_number_elsewhere(name: str) -> None:
    unset = QuotaSettings()
    assert unset.in_force(name, on_loopback=True) == 0
    assert unset.in_force(name, on_loopback=False) == DEFAULTS[name] > 0


@given(
    limit=st.integers(1, 10_000),
    sizes=st.lists(st.tuples(st.integers(1, 20_000), st.floats(0, 90)), min_size=1, max_size=30),
)
def test_whoever_waits_as_long_as_they_are_told_is_let_in(limit: int, sizes: list[tuple[int, float]]) -> None:
    clock = Seconds()
    quotas = made(clock, user_bytes=limit)
    for size, pause in sizes:
        clock.now += pause
        try:
            quotas.count("user", "ann", size)
        except OverQuota as refused:
            clock.now += refused.retry_after - 0.01
            earlier = refusal(quotas, "user", "ann", size) if refused.retry_after > 0.02 else None
            assert earlier is None or earlier.retry_after < 0.02
            clock.now += 0.01
            quotas.count("user", "ann", size)


@given(pauses=st.lists(st.floats(0, 5), min_size=1, max_size=200))
def test_no_more_requests_than_the_bucket_holds_and_what_flows_into_it(pauses: list[float]) -> None:
    clock, admitted = Seconds(), 0
    quotas = made(clock, key_requests=30)
    for pause in pauses:
        clock.now += pause
        try:
            quotas.count("key", "k", 0)
            admitted += 1
        except OverQuota:
            continue
    assert admitted <= 30 + sum(pauses) / 2 + 0.01


def test_of_100_000_made_up_users_a_bounded_number_is_remembered() -> None:
    buckets = Buckets(10, 60)
    for number in range(100_000):
        buckets.take(("default", f"user {number}"), 1, 0.0)
    assert len(buckets) <= MOST_NAMES
    assert buckets.wait(("default", "user 99999"), 10, 0.0) > 0


def test_made_up_users_push_out_those_who_were_quiet_for_longest() -> None:
    buckets = Buckets(10, 60)
    for number in range(10 * MOST_NAMES):
        if number % 1_000 == 0:
            buckets.take("the busy one", 1, 0.0)
        buckets.take(number, 1, 0.0)
    assert buckets.wait("the busy one", 1, 0.0) > 0


def test_counting_costs_less_than_10_microseconds() -> None:
    quotas = Quotas(QuotaSettings(), Metrics(), on_loopback=False)
    for number in range(2 * MOST_NAMES):
        quotas.count("user", ("default", str(number)), 100)

    def timed() -> float:
        began = time.thread_time()
        for number in range(2_000):
            quotas.count("user", ("default", str(number)), 100)
        return (time.thread_time() - began) / 2_000

    assert min(timed() for _ in range(5)) < 10e-6


async def test_files_are_measured_only_where_what_was_sent_may_have_filled_the_space(
    clock: Seconds, tmp_path: Path
) -> None:
    quotas = made(clock, user_disk_mb=1)
    quotas.count_disk("default", "ann", 10)
    assert quotas.unmeasured == {("default", "ann")}
    await quotas.measure(FolderVault(tmp_path))
    for _ in range(100):
        quotas.count_disk("default", "ann", 2_000)
    assert quotas.unmeasured == set()
    quotas.count_disk("default", "ann", 100_000)
    assert quotas.unmeasured == {("default", "ann")}


async def test_what_users_store_is_measured_while_the_server_runs(
    clock: Seconds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEASURE_SECONDS", 0.01)
    quotas = made(clock, user_disk_mb=1)
    file = tmp_path / "default/users/ann/notes/long.md"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x" * 1_100_000)
    measuring = DiskUse(quotas, FolderVault(tmp_path))
    measuring.start("measuring")
    quotas.count_disk("default", "ann", 1_000)
    await eventually(lambda: ("default", "ann") in quotas.full)
    file.unlink()
    await eventually(lambda: not quotas.full)
    await measuring.stop()
