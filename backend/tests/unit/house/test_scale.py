"""The arithmetic of `scripts/bench/scale.py`, with figures that can be reckoned in the head."""

import json
import math
from dataclasses import asdict, fields, replace

import pytest
from scale import FIGURES, Assumed, first_full, needs, parsed, rows_of_a_user, told
from scale_cost import Cost

NOTHING = Cost(**{each.name: 0.0 for each in fields(Cost) if each.name != "load_average"})  # type: ignore[arg-type]
GIVEN = Assumed(active=0.5, messages=24, sessions=2, peak=3, years=1, busy=0.5)
USERS = 7_200
"""Half of them send 24 messages a day: one a second, and three in the busiest hour."""


def load(resource: str, cost: Cost, given: Assumed = GIVEN, users: float = USERS) -> float:
    return next(need.load for need in needs(cost, given, users) if need.resource == resource)


def test_the_cores_are_those_of_chats_of_searches_and_of_users_who_come_back() -> None:
    assert load("cores of a process", replace(NOTHING, cpu_ms=100)) == pytest.approx(0.3)
    cost = replace(NOTHING, indexed_rows=2)
    assert rows_of_a_user(cost, GIVEN) == 12 * 365 * 2
    searches = replace(cost, search_ms_per_1000_rows=10)
    assert load("cores of a process", searches) == pytest.approx(1.5 * 8.76 * 0.010)
    starts = replace(cost, load_ms_per_1000_rows=100)
    assert load("cores of a process", starts) == pytest.approx(0.25 * 8.76 * 0.100)


def test_commits_and_the_model_are_loaded_by_the_busiest_hour() -> None:
    assert load("commits a second", replace(NOTHING, commits=4)) == pytest.approx(12)
    given = replace(GIVEN, evaluated=1_000, generated=500, written=100)
    assert load("GPUs", replace(NOTHING, evaluated_tokens=300), given) == pytest.approx(3 * (0.3 + 0.2))


def test_memory_holds_the_rows_of_who_comes_within_that_hour() -> None:
    cost = replace(NOTHING, indexed_rows=1, memory_bytes_per_row=1_000)
    quarter_of_the_day_s_users = 900
    assert load("GB of rows in memory", cost) == pytest.approx(
        quarter_of_the_day_s_users * 4_380 * 1_000 / 1e9
    )
    assert load("GB of rows in memory", cost, replace(GIVEN, sessions=100)) == pytest.approx(
        3_600 * 4_380 * 1_000 / 1e9
    )


def test_disk_and_files_hold_what_was_kept_for_years() -> None:
    cost = replace(
        NOTHING,
        journal_bytes=300,
        vault_bytes=200,
        index_bytes=500,
        vault_files=0.1,
        index_files_per_user=10,
    )
    given = replace(GIVEN, years=2)
    assert load("GB on disk", cost, given) == pytest.approx(USERS * 8_760 * 1_000 / 1e9)
    assert load("GB of the journal", cost, given) == pytest.approx(USERS * 8_760 * 300 / 1e9)
    assert load("files", cost, given) == pytest.approx(USERS * (876 + 10))


def test_what_is_full_first_is_what_needs_most_units_and_only_half_of_one_is_used() -> None:
    cost = replace(NOTHING, cpu_ms=500, commits=1, journal_bytes=1)
    first = first_full(needs(cost, GIVEN, USERS))
    assert (first.resource, first.load, first.one_takes, first.units) == ("cores of a process", 1.5, 0.5, 3)


def test_ten_times_the_users_load_ten_times_as_much() -> None:
    cost = Cost(**json.loads(FIGURES.read_text(encoding="utf-8")))
    for few, many in zip(needs(cost, GIVEN, 1_000), needs(cost, GIVEN, 10_000), strict=True):
        assert many.load == pytest.approx(10 * few.load)


def test_the_measured_figures_are_there_and_none_is_missing_or_nonsense() -> None:
    figures = asdict(Cost(**json.loads(FIGURES.read_text(encoding="utf-8"))))
    assert [name for name, figure in figures.items() if name != "load_average" and not figure > 0] == []
    assert math.isfinite(figures["cpu_ms"])


def test_every_assumption_is_an_option() -> None:
    given = parsed(["simulate", "--users", "5", "--years", "1", "--memory-gb", "8"])
    assert (given.users, given.years, given.memory_gb) == ([5], 1, 8)
    cost = Cost(**json.loads(FIGURES.read_text(encoding="utf-8")))
    assert "First full: " in told(cost, Assumed(), 5)
