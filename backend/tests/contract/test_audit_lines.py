"""The audit log in a journal."""

from recollect.infra.journal.audit_lines import SqlAuditLines
from tests.contract.journals import Journal


async def test_the_newest_lines_are_kept_in_their_order(journal: Journal) -> None:
    lines = SqlAuditLines(journal.database, kept=3)
    for number in range(10):
        await lines.append(f"line {number}")
        assert len(await lines.all()) == min(number + 1, 3)
    assert await lines.all() == ["line 7", "line 8", "line 9"]
