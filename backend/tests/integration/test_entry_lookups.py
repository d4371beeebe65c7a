"""No lookup of entries reads more rows than it finds: each goes by an index of its own."""

from pathlib import Path

import pytest

from recollect.infra.sql import entry_store
from recollect.infra.sql.database import Database

BOUND = {"space": "default", "thread_key": "k", "turns": "[1]"}


@pytest.mark.parametrize(
    ("sql", "parameters", "plan"),
    [
        (entry_store.OF_CELL, ["x"] * 4, "entries_of_cell (space=? AND owner=? AND cell=? AND strategy=?)"),
        (
            entry_store.OF_SUBJECT,
            [*["x"] * 5, "5"],
            "entries_of_subject (space=? AND owner=? AND kind=? AND subject_key=? AND attribute_key=?)",
        ),
        (
            entry_store.WITH_TEXT,
            ["x"] * 4,
            "entries_by_text (space=? AND owner=? AND kind=? AND text_key=?)",
        ),
        (entry_store.CITING, BOUND, "e USING INTEGER PRIMARY KEY (rowid=?)"),
        (entry_store.CITING_TURNS, BOUND, "entry_sources_by_turn (thread_key=? AND turn=?)"),
    ],
)
async def test_a_lookup_goes_by_its_index(
    tmp_path: Path, sql: str, parameters: list[str] | dict[str, str], plan: str
) -> None:
    database = Database(tmp_path / "journal.db")
    await database.open()
    steps = [row["detail"] for row in await database.read(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    await database.close()
    assert any(plan in step for step in steps), steps
    assert not any(step.startswith("SCAN e") for step in steps)
