"""What fails again and again is left alone for a while."""

from recollect.domain.breaker import Breaker


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def broken(clock: Seconds) -> Breaker:
    breaker = Breaker(clock, failures=3, seconds=30)
    for _ in range(3):
        breaker.failed("no answer")
    return breaker


def test_it_lets_calls_through_until_three_fail_in_a_row() -> None:
    breaker = Breaker(Seconds())
    breaker.failed("one")
    breaker.failed("two")
    states = [breaker.state]
    assert breaker.refuses() is None
    breaker.failed("three")
    states.append(breaker.state)
    assert states == ["closed", "open"]
    assert "3 times in a row" in (breaker.refuses() or "")
    assert "three" in (breaker.refuses() or "")


def test_calls_that_fail_at_once_are_one_failure() -> None:
    clock = Seconds()
    breaker = Breaker(clock)
    for began in (100.0, 100.1, 100.2, 100.9):
        clock.now = began + 1
        breaker.failed("slow", began)
    states = [breaker.state]
    for began in (102.0, 104.0):
        clock.now = began + 1
        breaker.failed("slow", began)
    assert [*states, breaker.state] == ["closed", "open"]
    assert "3 times in a row" in (breaker.refuses() or "")


def test_a_success_between_failures_starts_the_count_again() -> None:
    breaker = Breaker(Seconds())
    breaker.failed("one")
    breaker.failed("two")
    breaker.succeeded()
    breaker.failed("three")
    assert breaker.state == "closed"
    assert breaker.refuses() is None


def test_after_the_rest_a_single_trial_is_made() -> None:
    clock = Seconds()
    breaker = broken(clock)
    clock.now += 29.9
    assert breaker.refuses() is not None
    clock.now += 0.1
    assert breaker.refuses() is None
    assert breaker.state == "trial"
    assert breaker.refuses() is not None


def test_a_trial_that_succeeds_closes_it_and_one_that_fails_opens_it_for_as_long_again() -> None:
    clock = Seconds()
    breaker = broken(clock)
    clock.now += 30
    assert breaker.refuses() is None
    breaker.failed("still no answer")
    clock.now += 29.9
    assert breaker.state == "open"
    assert "still no answer" in (breaker.refuses() or "")
    clock.now += 0.1
    assert breaker.refuses() is None
    breaker.succeeded()
    assert (breaker.state, breaker.cause, breaker.refuses()) == ("closed", "", None)


def test_a_trial_that_nobody_reports_on_is_made_again_later() -> None:
    clock = Seconds()
    breaker = broken(clock)
    clock.now += 30
    assert breaker.refuses() is None
    clock.now += 30
    assert breaker.refuses() is None
