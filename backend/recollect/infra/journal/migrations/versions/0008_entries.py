"""Entries, their sources and histories, the files in which they stand, and the answers of models."""

from alembic import op

revision = "0008"
down_revision = "0007"

DDL = """
CREATE TABLE entries (
    pk INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    owner TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    when_ms INTEGER NOT NULL,
    path TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    links_json TEXT NOT NULL,
    by TEXT NOT NULL,
    extra_json TEXT NOT NULL,
    subject_key TEXT NOT NULL,
    attribute_key TEXT NOT NULL,
    text_key TEXT NOT NULL,
    cell TEXT NOT NULL,
    strategy TEXT NOT NULL,
    holds INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    edited INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    updated INTEGER NOT NULL,
    size INTEGER NOT NULL,
    filed TEXT,
    filing TEXT,
    UNIQUE (space, entry_id)
);
CREATE INDEX entries_of_space ON entries (space, when_ms DESC, entry_id);
CREATE INDEX entries_of_owner ON entries (space, owner, when_ms DESC, entry_id);
CREATE INDEX entries_of_kind ON entries (space, owner, kind, when_ms DESC, entry_id);
CREATE INDEX entries_in_file ON entries (path, size);
CREATE INDEX entries_of_cell ON entries (space, owner, cell, strategy) WHERE cell != '';
CREATE INDEX entries_of_subject ON entries (space, owner, kind, subject_key, attribute_key, when_ms);
CREATE INDEX entries_by_text ON entries (space, owner, kind, text_key);
CREATE TABLE entry_sources (
    entry_pk INTEGER NOT NULL REFERENCES entries (pk) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    thread_key TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    PRIMARY KEY (entry_pk, place)
) WITHOUT ROWID;
CREATE INDEX entry_sources_by_turn ON entry_sources (thread_key, turn);
CREATE TABLE entry_history (
    pk INTEGER PRIMARY KEY,
    entry_pk INTEGER NOT NULL REFERENCES entries (pk) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    entry_json TEXT,
    actor TEXT NOT NULL,
    cause TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX entry_history_of_entry ON entry_history (entry_pk, pk);
CREATE TABLE entry_files (
    path TEXT PRIMARY KEY,
    space TEXT NOT NULL,
    owner TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    written INTEGER NOT NULL DEFAULT 0,
    digest TEXT,
    writing TEXT
) WITHOUT ROWID;
CREATE INDEX entry_files_of_owner ON entry_files (owner);
CREATE TABLE leaving_entries (
    path TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    PRIMARY KEY (path, entry_id)
) WITHOUT ROWID;
CREATE TABLE buried_entries (
    space TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    cell TEXT NOT NULL,
    turn_ids_json TEXT NOT NULL,
    PRIMARY KEY (space, entry_id)
) WITHOUT ROWID;
CREATE INDEX buried_entries_of_cell ON buried_entries (space, owner, cell);
CREATE TABLE model_answers (
    space TEXT NOT NULL,
    cell TEXT NOT NULL,
    name TEXT NOT NULL,
    prompt_digest TEXT NOT NULL,
    thread_key TEXT NOT NULL,
    answer TEXT NOT NULL,
    model TEXT NOT NULL,
    usage_json TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (space, cell, name, prompt_digest)
);
CREATE INDEX model_answers_of_thread ON model_answers (thread_key);
CREATE TABLE strategy_counts (
    lane TEXT NOT NULL,
    strategy TEXT NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (lane, strategy)
) WITHOUT ROWID;
"""


def upgrade() -> None:
    for statement in DDL.split(";\n"):
        if statement.strip():
            op.execute(statement)
