"""What fails again and again is left alone for a while."""

import pytest

from recollect.domain.breaker import Breaker
from tests.fakes import FakeClock

PAUSES = (0, 0, 30)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(100)


@pytest.fixture
def breaker(clock: FakeClock) -> Breaker:
    return Breaker(clock, PAUSES)


def fail(breaker: Breaker, *causes: str) -> None:
    for cause in causes:
        breaker.failed(cause)


def test_it_lets_calls_through_until_three_fail_in_a_row(breaker: Breaker) -> None:
    fail(breaker, "one", "two")
    breaker.succeeded()
    fail(breaker, "one", "two")
    assert breaker.refuses() is None
    fail(breaker, "three")
    assert "3 times in a row" in (breaker.refuses() or "")
    assert "three" in (breaker.refuses() or "")


def test_calls_that_fail_at_once_are_one_failure(breaker: Breaker, clock: FakeClock) -> None:
    for began in (100, 100, 101, 102):
        clock.now = began + 10
        breaker.failed("slow", began)
    assert breaker.refuses() is None
    for began in (113, 124):
        clock.now = began + 10
        breaker.failed("slow", began)
    assert "3 times in a row" in (breaker.refuses() or "")


def test_after_the_pause_a_single_trial_decides(breaker: Breaker, clock: FakeClock) -> None:
    fail(breaker, "one", "two", "three")
    clock.now += 29
    assert breaker.refuses() is not None
    clock.now += 1
    assert [breaker.refuses() is None for _ in range(3)] == [True, False, False]
    fail(breaker, "still no answer")
    clock.now += 29
    assert "still no answer" in (breaker.refuses() or "")
    clock.now += 1
    assert breaker.refuses() is None
    breaker.succeeded()
    assert (breaker.cause, breaker.refuses()) == ("", None)


def test_a_trial_that_nobody_reports_on_is_made_again_later(breaker: Breaker, clock: FakeClock) -> None:
    fail(breaker, "one", "two", "three")
    for _ in range(2):
        clock.now += 30
        assert breaker.refuses() is None


def test_pauses_grow_and_are_as_long_as_the_server_asks_for(clock: FakeClock) -> None:
    breaker = Breaker(clock, (5, 60))
    for pause in (5, 60, 60):
        assert breaker.failed("no answer") == pause
        clock.now += pause - 1
        assert breaker.seconds_left() == 1
        clock.now += 1
        assert [breaker.seconds_left() for _ in range(2)] == [0, 5]
    assert breaker.failed("fewer requests", least=120) == 120
    clock.now -= 3_600  # The clock was set back.
    assert breaker.seconds_left() == 0
