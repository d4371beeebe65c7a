"""Which event sets off which work, and when."""

from collections.abc import Sequence

import pytest

from recollect.domain.job import JobSpec
from recollect.domain.strategy import STRATEGIES, ClosedCell, Trigger, Tuning, tuning_of

NOON = 1_778_241_600_000
"""2026-05-08T12:00:00Z"""
CELL = ClosedCell("default", "ann", None, "c-1", has_tools=False)


def tuning(**triggers: Trigger | None) -> Tuning:
    return tuning_of(triggers, "both")


def names(jobs: Sequence[JobSpec]) -> list[str]:
    return [name for job in jobs for name in job.payload["strategies"]]


def test_a_closed_memcell_sets_off_one_job_for_all_of_the_users_memory() -> None:
    (job,) = tuning().after_cell(CELL)
    assert job.payload["strategies"] == ["episode", "facts", "foresight"]
    assert (job.lane, job.payload["cell"]) == ("memory:default/users/ann", "c-1")
    assert (job.delay_ms, job.every) == (0, 1)


def test_tools_set_off_the_agents_memory_in_the_same_job() -> None:
    (job,) = tuning().after_cell(ClosedCell("default", "ann", "coder", "c-1", has_tools=True))
    assert job.payload["strategies"] == ["episode", "facts", "foresight", "case"]


@pytest.mark.parametrize(("mode", "made"), [("chat", ["episode", "facts", "foresight"]), ("agent", ["case"])])
def test_the_mode_says_whose_memory_is_made(mode: str, made: list[str]) -> None:
    closed = ClosedCell("default", "ann", None, "c-1", has_tools=True)
    assert names(tuning_of({}, mode).after_cell(closed)) == made  # type: ignore[arg-type]


def test_where_nothing_is_to_be_made_there_is_no_job() -> None:
    assert tuning_of({}, "agent").after_cell(CELL) == []


def test_what_is_switched_off_is_not_set_off() -> None:
    assert names(tuning(facts=None).after_cell(CELL)) == ["episode", "foresight"]


def test_a_profile_waits_until_no_more_facts_come() -> None:
    (job,) = tuning().after("facts changed", "default", "default/users/ann", NOON)
    assert (job.delay_ms, job.restart, job.lane) == (2000, True, "profile:default/users/ann")


def test_a_strategy_can_wait_for_a_time_of_day() -> None:
    (job,) = tuning(profile=Trigger(at="12:30")).after("facts changed", "default", "o", NOON)
    assert job.delay_ms == 30 * 60_000
    (job,) = tuning(profile=Trigger(at="12:00")).after("facts changed", "default", "o", NOON)
    assert job.delay_ms == 24 * 3_600_000


def test_a_strategy_can_run_once_every_n_events() -> None:
    (job,) = tuning(profile=Trigger(every=5)).after("facts changed", "default", "o", NOON)
    assert job.every == 5


def test_strategies_have_names_of_their_own() -> None:
    assert len({strategy.name for strategy in STRATEGIES}) == len(STRATEGIES)
