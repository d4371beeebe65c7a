"""Rows name what they are about by its key, and go with it: receipts, requests, the buffer, answers of models.

What old versions of memories came from is listed; jobs name whose memories they are about. Whatever names something
that is gone is dropped.
"""

import json

from alembic import op

from recollect.domain.entries.links import origins_of
from recollect.domain.identity import thread_key
from recollect.domain.model import Entry, ThreadRef
from recollect.domain.paths import owner_of_path

revision = "0026"
down_revision = "0025"

BUFFER = (
    """
    CREATE TABLE keyed_buffer (
        thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
        turn_pk INTEGER PRIMARY KEY REFERENCES turns (pk) ON DELETE CASCADE,
        space TEXT NOT NULL, session_id TEXT NOT NULL, message_id TEXT NOT NULL
    )""",
    """
    INSERT INTO keyed_buffer SELECT b.* FROM unprocessed_buffer b
    JOIN turns t ON t.pk = b.turn_pk AND t.thread_pk = b.thread_pk""",
    "DROP TABLE unprocessed_buffer",
    "ALTER TABLE keyed_buffer RENAME TO unprocessed_buffer",
    "CREATE INDEX unprocessed_buffer_of_thread ON unprocessed_buffer (thread_pk)",
)

# A receipt has one subject; of each stage of it the newest receipt stays.
RECEIPTS = (
    """
    CREATE TABLE keyed_receipts (
        pk INTEGER PRIMARY KEY,
        thread_pk INTEGER REFERENCES threads (pk) ON DELETE CASCADE,
        turn_pk INTEGER REFERENCES turns (pk) ON DELETE CASCADE,
        memcell_pk INTEGER REFERENCES memcell (pk) ON DELETE CASCADE,
        stage TEXT NOT NULL, detail_json TEXT NOT NULL DEFAULT '{}', at INTEGER NOT NULL,
        CHECK ((thread_pk IS NOT NULL) + (turn_pk IS NOT NULL) + (memcell_pk IS NOT NULL) = 1)
    )""",
    *(
        f"CREATE UNIQUE INDEX receipts_of_{name} ON keyed_receipts ({name}_pk, stage) WHERE {name}_pk IS NOT NULL"
        for name in ("thread", "turn", "memcell")
    ),
    """
    INSERT OR REPLACE INTO keyed_receipts
    SELECT r.pk, iif(r.subject = 'conversation', r.thread_pk, NULL), t.pk, c.pk, r.stage, r.detail_json, r.at
    FROM receipts r LEFT JOIN memcell c ON c.thread_pk = r.thread_pk AND c.memcell_id = r.subject
    LEFT JOIN turns t ON t.thread_pk = r.thread_pk AND t.position = CAST(substr(r.subject, 3) AS INTEGER)
        AND r.subject = 't-' || t.position
    WHERE r.subject = 'conversation' OR t.pk IS NOT NULL OR c.pk IS NOT NULL ORDER BY r.pk""",
    "DROP TABLE receipts",
    "ALTER TABLE keyed_receipts RENAME TO receipts",
)

# Foreign keys are off here: no row is in the way of a column that must have one. 0 is the key of nothing.
REQUESTS = (
    "ALTER TABLE chat_requests ADD COLUMN answer_pk INTEGER NOT NULL DEFAULT 0 REFERENCES turns (pk) ON DELETE CASCADE",
    """
    UPDATE chat_requests SET answer_pk = t.pk FROM turns t
    WHERE t.thread_pk = chat_requests.thread_pk AND t.position = chat_requests.answer""",
    "DELETE FROM chat_requests WHERE answer_pk = 0",
    "ALTER TABLE chat_requests DROP COLUMN answer",
    "CREATE INDEX chat_requests_by_answer ON chat_requests (answer_pk)",
)
ANSWERS = "ALTER TABLE model_answers ADD COLUMN thread_pk INTEGER NOT NULL DEFAULT 0 REFERENCES threads (pk) ON DELETE CASCADE"
ANSWERS_KEYED = (
    "DELETE FROM model_answers WHERE thread_pk = 0",
    "DROP INDEX model_answers_of_thread",
    "ALTER TABLE model_answers DROP COLUMN thread_key",
    "CREATE INDEX model_answers_of_thread ON model_answers (thread_pk)",
)

VERSION_SOURCES = (
    """
    CREATE TABLE version_sources (
        version_pk INTEGER NOT NULL REFERENCES entry_history (pk) ON DELETE CASCADE,
        source TEXT NOT NULL, turn INTEGER NOT NULL,
        PRIMARY KEY (version_pk, source, turn)
    ) WITHOUT ROWID""",
    "CREATE INDEX version_sources_by_source ON version_sources (source, turn)",
)
VERSIONS = """
SELECT h.pk, e.owner, h.entry_json FROM entry_history h JOIN entries e ON e.pk = h.entry_pk
WHERE h.entry_json IS NOT NULL"""

OWNERS = (
    "ALTER TABLE jobs ADD COLUMN owner TEXT",
    "ALTER TABLE strategy_counts RENAME COLUMN lane TO owner",
    "UPDATE strategy_counts SET owner = substr(owner, length(strategy) + 2)",
)
OF_MEMORIES = "SELECT pk, payload_json FROM jobs WHERE kind IN ('strategy', 'entries', 'deletions')"


def upgrade() -> None:
    run = op.get_bind().exec_driver_sql
    for statement in (*BUFFER, *RECEIPTS, *REQUESTS, ANSWERS):
        run(statement)
    for pk, *thread in run("SELECT pk, space, user_id, thread_id FROM threads").all():
        key = thread_key(ThreadRef(*thread))
        run("UPDATE model_answers SET thread_pk = ? WHERE thread_key = ?", (pk, key))
    for statement in (*ANSWERS_KEYED, *VERSION_SOURCES, *OWNERS):
        run(statement)
    for pk, owner, told in run(VERSIONS).all():
        name, title, text, when, links, by, extra = json.loads(told)
        for source, turn in origins_of(owner, Entry(name, title, text, when, tuple(links), by, extra)):
            run("INSERT INTO version_sources VALUES (?, ?, ?)", (pk, source, turn))
    for pk, payload_json in run(OF_MEMORIES).all():
        payload = json.loads(payload_json)
        owner = payload.get("owner") or owner_of_path(payload.get("path", ""))
        run("UPDATE jobs SET owner = ? WHERE pk = ?", (owner, pk))
