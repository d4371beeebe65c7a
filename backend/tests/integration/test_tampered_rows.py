"""Rows that somebody changed in the index behind our back are not served."""

from pathlib import Path

import lancedb
import pytest

from recollect.domain.recall.rows import Generation
from recollect.errors import IndexUnavailable
from recollect.infra.index.store import LanceIndex
from tests.unit.made_rows import said

OWNER = "default/users/ann"


async def tampered(folder: Path, column: str, value: str) -> LanceIndex:
    index = LanceIndex(folder)
    await index.create(Generation("g1", 1))
    await index.put("g1", OWNER, [said(1, "My dog is called Rex")], ["dog call rex"])
    await index.close()
    (path,) = folder.rglob("o_*.lance")
    lancedb.connect(path.parent).open_table(path.stem).update(values={column: value})
    return LanceIndex(folder)


@pytest.mark.parametrize(
    ("column", "value"),
    [("text", "My dog is called Max"), ("words", "dog call max"), ("thread_id", "t2"), ("sender", "Bob")],
)
async def test_a_row_that_was_changed_behind_our_back_is_damage(
    tmp_path: Path, column: str, value: str
) -> None:
    index = await tampered(tmp_path, column, value)
    with pytest.raises(IndexUnavailable, match="not what was put there"):
        await index.load("g1", OWNER)
    await index.close()
