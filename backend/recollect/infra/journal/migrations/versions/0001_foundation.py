"""Threads, turns, buffer, memcells, transcripts, jobs, receipts, tombstones, API keys."""

from alembic import op

revision = "0001"
down_revision = None

DDL = """
CREATE TABLE threads (
    pk INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    agent_id TEXT,
    title TEXT,
    tags_json TEXT NOT NULL DEFAULT '[]',
    preset TEXT,
    backend TEXT,
    incognito INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    last_number INTEGER NOT NULL DEFAULT 0,
    turn_count INTEGER NOT NULL DEFAULT 0,
    unasked INTEGER NOT NULL DEFAULT 0,
    forgotten INTEGER NOT NULL DEFAULT 0,
    lookalikes INTEGER NOT NULL DEFAULT 0,
    header_revision INTEGER NOT NULL DEFAULT 1,
    UNIQUE (space, thread_id)
);
CREATE INDEX threads_by_user ON threads (space, user_id, created, pk);
CREATE TABLE turns (
    pk INTEGER PRIMARY KEY,
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    role TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    content TEXT NOT NULL,
    parts_json TEXT,
    tool_calls_json TEXT,
    tool_call_id TEXT,
    reasoning TEXT,
    parent_id TEXT,
    model TEXT,
    timestamp INTEGER NOT NULL,
    status TEXT NOT NULL,
    skip_reason TEXT,
    accepted INTEGER NOT NULL,
    digest BLOB NOT NULL,
    UNIQUE (thread_pk, position),
    UNIQUE (thread_pk, message_id)
);
CREATE TABLE unprocessed_buffer (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    turn_pk INTEGER NOT NULL,
    space TEXT NOT NULL,
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    PRIMARY KEY (thread_pk, turn_pk)
) WITHOUT ROWID;
CREATE TABLE memcell (
    pk INTEGER PRIMARY KEY,
    memcell_id TEXT NOT NULL,
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    space TEXT NOT NULL,
    session_id TEXT NOT NULL,
    message_ids_json TEXT NOT NULL,
    turn_ids_json TEXT NOT NULL,
    last_position INTEGER NOT NULL,
    reason TEXT NOT NULL,
    created INTEGER NOT NULL,
    transcribed INTEGER NOT NULL DEFAULT 0,
    UNIQUE (thread_pk, memcell_id)
);
CREATE INDEX memcell_by_position ON memcell (thread_pk, last_position);
CREATE INDEX memcell_untranscribed ON memcell (thread_pk) WHERE transcribed = 0;
CREATE TABLE memcell_turns (
    turn_pk INTEGER PRIMARY KEY REFERENCES turns (pk) ON DELETE CASCADE,
    memcell_pk INTEGER NOT NULL REFERENCES memcell (pk) ON DELETE CASCADE
);
CREATE INDEX memcell_turns_by_cell ON memcell_turns (memcell_pk);
CREATE TABLE transcript_parts (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    part INTEGER NOT NULL,
    first_position INTEGER NOT NULL,
    last_position INTEGER NOT NULL,
    header_revision INTEGER NOT NULL,
    digest TEXT,
    writing TEXT,
    PRIMARY KEY (thread_pk, part)
) WITHOUT ROWID;
CREATE TABLE jobs (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    lane TEXT NOT NULL,
    dedupe TEXT NOT NULL DEFAULT '',
    space TEXT NOT NULL,
    thread_id TEXT,
    payload_json TEXT NOT NULL DEFAULT '{}',
    state TEXT NOT NULL DEFAULT 'queued',
    attempts INTEGER NOT NULL DEFAULT 0,
    interruptions INTEGER NOT NULL DEFAULT 0,
    claims INTEGER NOT NULL DEFAULT 0,
    run_at INTEGER NOT NULL,
    leased_until INTEGER,
    created INTEGER NOT NULL,
    error TEXT
);
CREATE UNIQUE INDEX jobs_queued_once ON jobs (lane, kind, dedupe) WHERE state = 'queued';
CREATE INDEX jobs_due ON jobs (kind, run_at) WHERE state = 'queued';
CREATE INDEX jobs_in_lane ON jobs (lane, pk) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_by_state ON jobs (state, pk);
CREATE INDEX jobs_in_trouble ON jobs (pk) WHERE error IS NOT NULL;
CREATE TABLE receipts (
    pk INTEGER PRIMARY KEY,
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    subject TEXT NOT NULL,
    stage TEXT NOT NULL,
    detail_json TEXT NOT NULL DEFAULT '{}',
    at INTEGER NOT NULL
);
CREATE INDEX receipts_by_subject ON receipts (thread_pk, subject);
CREATE TABLE tombstones (
    space TEXT NOT NULL,
    user_id TEXT NOT NULL,
    thread_key TEXT NOT NULL,
    message_key TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (space, user_id, thread_key, message_key)
) WITHOUT ROWID;
CREATE TABLE api_keys (
    key_id TEXT PRIMARY KEY,
    space TEXT NOT NULL,
    user_id TEXT,
    name TEXT,
    hash TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    revoked INTEGER
);
"""


def upgrade() -> None:
    for statement in DDL.split(";\n"):
        if statement.strip():
            op.execute(statement)
