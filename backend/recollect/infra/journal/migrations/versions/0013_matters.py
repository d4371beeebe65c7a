"""What an entry is about, and what a person wrote or pinned, are found without reading all the others."""

import json
from typing import Any

from alembic import op

from recollect.domain.entries.entry import FACTS, PROFILE, KnownEntry
from recollect.domain.entries.matters import matter_key
from recollect.domain.model import Entry

revision = "0013"
down_revision = "0012"

DDL = """
ALTER TABLE entries ADD COLUMN matter_key TEXT NOT NULL DEFAULT '';
CREATE INDEX entries_of_matter ON entries (space, owner, matter_key, when_ms) WHERE matter_key != '';
CREATE INDEX entries_of_person ON entries (space, owner, kind) WHERE pinned OR edited;
"""


def upgrade() -> None:
    for statement in DDL.strip().split(";\n"):
        op.execute(statement)
    connection = op.get_bind()
    found = connection.exec_driver_sql(
        "SELECT pk, kind, text, extra_json FROM entries WHERE kind IN (?, ?)", (FACTS, PROFILE)
    )
    keys = [(_key(kind, text, json.loads(extra)), pk) for pk, kind, text, extra in found]
    for key, pk in keys:
        if key:
            connection.exec_driver_sql("UPDATE entries SET matter_key = ? WHERE pk = ?", (key, pk))


def _key(kind: str, text: str, extra: Any) -> str:
    try:
        return matter_key(KnownEntry("", "", kind, Entry("", "", text, 0, (), "", extra), ()))
    except (AttributeError, TypeError, ValueError):
        return ""  # We never wrote that: somebody changed the journal. It is no reason not to start.
