"""Which event sets off which work, and when."""

import pytest

from recollect.domain.strategy import STRATEGIES, ClosedCell, Trigger, Tuning, tuning_of

NOON = 1_778_241_600_000
"""2026-05-08T12:00:00Z"""
CELL = ClosedCell("default", "ann", None, "c-1", has_tools=False)


def tuning(**triggers: Trigger | None) -> Tuning:
    return tuning_of(triggers, "both")


def names(jobs: object) -> list[str]:
    return [job.payload["strategy"] for job in jobs]  # type: ignore[attr-defined]


def test_a_closed_memcell_sets_off_the_users_memory_in_one_lane() -> None:
    jobs = tuning().after_cell(CELL, NOON)
    assert names(jobs) == ["episode", "facts", "foresight"]
    assert {job.lane for job in jobs} == {"memory:default/users/ann"}
    assert {job.payload["cell"] for job in jobs} == {"c-1"}
    assert len({job.dedupe for job in jobs}) == 3


def test_tools_set_off_the_agents_memory_too() -> None:
    jobs = tuning().after_cell(ClosedCell("default", "ann", "coder", "c-1", has_tools=True), NOON)
    assert names(jobs) == ["episode", "facts", "foresight", "case"]
    assert jobs[-1].lane == "memory:default/agents/coder"


@pytest.mark.parametrize(("mode", "made"), [("chat", ["episode", "facts", "foresight"]), ("agent", ["case"])])
def test_the_mode_says_whose_memory_is_made(mode: str, made: list[str]) -> None:
    closed = ClosedCell("default", "ann", None, "c-1", has_tools=True)
    assert names(tuning_of({}, mode).after_cell(closed, NOON)) == made  # type: ignore[arg-type]


def test_what_is_switched_off_is_not_set_off() -> None:
    assert names(tuning(facts=None).after_cell(CELL, NOON)) == ["episode", "foresight"]


def test_a_profile_waits_until_no_more_facts_come() -> None:
    (job,) = tuning().after("facts changed", "default", "default/users/ann", NOON)
    assert (job.delay_ms, job.restart, job.lane) == (2000, True, "profile:default/users/ann")


def test_a_strategy_can_wait_for_a_time_of_day() -> None:
    (job,) = tuning(profile=Trigger(at="12:30")).after("facts changed", "default", "o", NOON)
    assert job.delay_ms == 30 * 60_000
    (job,) = tuning(profile=Trigger(at="12:00")).after("facts changed", "default", "o", NOON)
    assert job.delay_ms == 24 * 3_600_000


def test_a_strategy_can_run_once_every_n_events() -> None:
    jobs = tuning(episode=Trigger(every=5)).after_cell(CELL, NOON)
    assert {job.payload["strategy"]: job.every for job in jobs} == {"episode": 5, "facts": 1, "foresight": 1}


def test_what_waits_keeps_nothing_else_waiting() -> None:
    jobs = tuning(episode=Trigger(idle_seconds=60)).after_cell(CELL, NOON)
    assert [job.lane.partition(":")[0] for job in jobs] == ["episode", "memory", "memory"]


def test_strategies_have_names_of_their_own() -> None:
    assert len({strategy.name for strategy in STRATEGIES}) == len(STRATEGIES)
