"""The whole schema of the journal."""

from alembic import op

revision = "0026"
down_revision = None

DDL = """
CREATE TABLE threads (
    pk INTEGER PRIMARY KEY, space TEXT NOT NULL, thread_id TEXT NOT NULL, user_id TEXT NOT NULL,
    agent_id TEXT, title TEXT, tags_json TEXT NOT NULL DEFAULT '[]', preset TEXT, backend TEXT,
    incognito INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL, updated INTEGER NOT NULL,
    last_number INTEGER NOT NULL DEFAULT 0, turn_count INTEGER NOT NULL DEFAULT 0,
    unasked INTEGER NOT NULL DEFAULT 0, forgotten INTEGER NOT NULL DEFAULT 0,
    lookalikes INTEGER NOT NULL DEFAULT 0, header_revision INTEGER NOT NULL DEFAULT 1,
    revision INTEGER NOT NULL DEFAULT 0, chained INTEGER NOT NULL DEFAULT 0,
    chained_revision INTEGER NOT NULL DEFAULT 0, pinned INTEGER NOT NULL DEFAULT 0,
    closes_at INTEGER, archived INTEGER NOT NULL DEFAULT 0, one_shot INTEGER NOT NULL DEFAULT 0,
    UNIQUE (space, thread_id, user_id)
);
CREATE INDEX threads_by_user ON threads (space, user_id, created, pk);
CREATE INDEX threads_behind_in_chains ON threads (space, user_id)
    WHERE chained < last_number OR chained_revision != revision;
CREATE INDEX threads_by_use ON threads (space, user_id, pinned DESC, updated DESC, thread_id DESC);
CREATE INDEX threads_to_close ON threads (closes_at) WHERE closes_at IS NOT NULL;
CREATE INDEX threads_waiting ON threads (space, user_id, closes_at) WHERE closes_at IS NOT NULL;
CREATE INDEX threads_listed ON threads (space, user_id, pinned DESC, updated DESC, thread_id DESC)
    WHERE NOT one_shot;
CREATE TABLE turns (
    pk INTEGER PRIMARY KEY, thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    position INTEGER NOT NULL, message_id TEXT NOT NULL, role TEXT NOT NULL,
    sender_id TEXT NOT NULL, content TEXT NOT NULL, parts_json TEXT, tool_calls_json TEXT,
    tool_call_id TEXT, reasoning TEXT, parent_id TEXT, model TEXT, timestamp INTEGER NOT NULL,
    status TEXT NOT NULL, skip_reason TEXT, accepted INTEGER NOT NULL, digest BLOB NOT NULL,
    edited INTEGER NOT NULL DEFAULT 0, asks INTEGER NOT NULL DEFAULT 0,
    UNIQUE (thread_pk, position),
    UNIQUE (thread_pk, message_id)
);
CREATE INDEX turns_open ON turns (thread_pk, position) WHERE status IN ('queued', 'streaming');
CREATE INDEX turns_of_system ON turns (thread_pk, position) WHERE role = 'system';
CREATE INDEX turns_asking ON turns (thread_pk, position) WHERE asks;
CREATE TABLE memcell (
    pk INTEGER PRIMARY KEY, memcell_id TEXT NOT NULL,
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE, space TEXT NOT NULL,
    session_id TEXT NOT NULL, message_ids_json TEXT NOT NULL, turn_ids_json TEXT NOT NULL,
    last_position INTEGER NOT NULL, reason TEXT NOT NULL, created INTEGER NOT NULL,
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
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE, part INTEGER NOT NULL,
    first_position INTEGER NOT NULL, last_position INTEGER NOT NULL,
    header_revision INTEGER NOT NULL, digest TEXT, writing TEXT,
    PRIMARY KEY (thread_pk, part)
) WITHOUT ROWID;
CREATE TABLE jobs (
    pk INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, lane TEXT NOT NULL,
    dedupe TEXT NOT NULL DEFAULT '', space TEXT NOT NULL, thread_id TEXT,
    payload_json TEXT NOT NULL DEFAULT '{}', state TEXT NOT NULL DEFAULT 'queued',
    attempts INTEGER NOT NULL DEFAULT 0, interruptions INTEGER NOT NULL DEFAULT 0,
    claims INTEGER NOT NULL DEFAULT 0, run_at INTEGER NOT NULL, leased_until INTEGER,
    created INTEGER NOT NULL, error TEXT, user_id TEXT, owner TEXT
);
CREATE UNIQUE INDEX jobs_queued_once ON jobs (lane, kind, dedupe) WHERE state = 'queued';
CREATE INDEX jobs_due ON jobs (kind, run_at) WHERE state = 'queued';
CREATE INDEX jobs_in_lane ON jobs (lane, pk) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_by_state ON jobs (state, pk);
CREATE INDEX jobs_in_trouble ON jobs (pk) WHERE error IS NOT NULL;
CREATE TABLE tombstones (
    space TEXT NOT NULL, user_id TEXT NOT NULL, thread_key TEXT NOT NULL, message_key TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (space, user_id, thread_key, message_key)
) WITHOUT ROWID;
CREATE TABLE api_keys (
    key_id TEXT PRIMARY KEY, space TEXT NOT NULL, user_id TEXT, name TEXT,
    hash TEXT NOT NULL UNIQUE, created INTEGER NOT NULL, revoked INTEGER, expires INTEGER,
    scopes TEXT NOT NULL DEFAULT 'read write delete', last_used INTEGER, replaced_by TEXT
);
CREATE TABLE index_generations (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE index_progress (
    generation TEXT NOT NULL, thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    words_to INTEGER NOT NULL DEFAULT 0, vectors_to INTEGER NOT NULL DEFAULT 0,
    header_revision INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, thread_pk)
) WITHOUT ROWID;
CREATE TABLE notes (
    path TEXT PRIMARY KEY, owner TEXT NOT NULL, digest TEXT NOT NULL, modified INTEGER NOT NULL,
    text TEXT
) WITHOUT ROWID;
CREATE INDEX notes_by_owner ON notes (owner, path);
CREATE TABLE indexed_notes (
    generation TEXT NOT NULL, path TEXT NOT NULL, owner TEXT NOT NULL, digest TEXT NOT NULL,
    embedded INTEGER NOT NULL DEFAULT 0, rows INTEGER NOT NULL DEFAULT 0,
    vectors INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, path)
) WITHOUT ROWID;
CREATE INDEX indexed_notes_of_owner ON indexed_notes (generation, owner, embedded);
CREATE TABLE people (
    space TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, value_json TEXT,
    revision INTEGER NOT NULL DEFAULT 1, path TEXT NOT NULL UNIQUE,
    written INTEGER NOT NULL DEFAULT 0, digest TEXT, writing TEXT,
    PRIMARY KEY (space, kind, key)
) WITHOUT ROWID;
CREATE TABLE epochs (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE, number INTEGER NOT NULL,
    first_position INTEGER NOT NULL, reason TEXT NOT NULL, system_digest TEXT NOT NULL,
    backend TEXT NOT NULL, revision INTEGER NOT NULL, summary TEXT, opened INTEGER NOT NULL,
    blocks_from INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (thread_pk, number)
) WITHOUT ROWID;
CREATE TABLE summaries (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE, epoch INTEGER NOT NULL,
    cut INTEGER NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (thread_pk, epoch)
) WITHOUT ROWID;
CREATE TABLE context_blocks (
    turn_pk INTEGER PRIMARY KEY REFERENCES turns (pk) ON DELETE CASCADE, text TEXT NOT NULL,
    memories_json TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE prompts (
    turn_pk INTEGER PRIMARY KEY REFERENCES turns (pk) ON DELETE CASCADE,
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE, position INTEGER NOT NULL,
    epoch INTEGER NOT NULL, base INTEGER, shared INTEGER NOT NULL, rest BLOB NOT NULL,
    new_from INTEGER NOT NULL, payload_json TEXT, detail_json TEXT NOT NULL, at INTEGER NOT NULL
);
CREATE INDEX prompts_of_thread ON prompts (thread_pk, position);
CREATE TABLE chat_requests (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    idempotency_key TEXT NOT NULL, digest BLOB NOT NULL,
    answer_pk INTEGER NOT NULL DEFAULT 0 REFERENCES turns (pk) ON DELETE CASCADE,
    PRIMARY KEY (thread_pk, idempotency_key)
) WITHOUT ROWID;
CREATE INDEX chat_requests_by_answer ON chat_requests (answer_pk);
CREATE TABLE chains (
    turn_pk INTEGER NOT NULL REFERENCES turns (pk) ON DELETE CASCADE, thread_pk INTEGER NOT NULL,
    position INTEGER NOT NULL, before INTEGER, said BLOB NOT NULL, chain BLOB NOT NULL, pair BLOB,
    answered INTEGER NOT NULL, silent INTEGER NOT NULL,
    PRIMARY KEY (turn_pk, chain)
) WITHOUT ROWID;
CREATE INDEX chains_by_place ON chains (thread_pk, position);
CREATE INDEX chains_by_chain ON chains (chain);
CREATE INDEX chains_by_pair ON chains (pair) WHERE pair IS NOT NULL;
CREATE TABLE entries (
    pk INTEGER PRIMARY KEY, space TEXT NOT NULL, owner TEXT NOT NULL, entry_id TEXT NOT NULL,
    kind TEXT NOT NULL, when_ms INTEGER NOT NULL, path TEXT NOT NULL, title TEXT NOT NULL,
    text TEXT NOT NULL, links_json TEXT NOT NULL, by TEXT NOT NULL, extra_json TEXT NOT NULL,
    text_key TEXT NOT NULL, cell TEXT NOT NULL, strategy TEXT NOT NULL, holds INTEGER NOT NULL,
    pinned INTEGER NOT NULL, edited INTEGER NOT NULL, revision INTEGER NOT NULL DEFAULT 1,
    updated INTEGER NOT NULL, size INTEGER NOT NULL, filed TEXT, filing TEXT,
    category TEXT NOT NULL DEFAULT '',
    UNIQUE (space, entry_id)
);
CREATE INDEX entries_of_space ON entries (space, when_ms DESC, entry_id);
CREATE INDEX entries_of_owner ON entries (space, owner, when_ms DESC, entry_id);
CREATE INDEX entries_of_kind ON entries (space, owner, kind, when_ms DESC, entry_id);
CREATE INDEX entries_in_file ON entries (path, size);
CREATE INDEX entries_of_cell ON entries (space, owner, cell, strategy) WHERE cell != '';
CREATE INDEX entries_by_text ON entries (space, owner, kind, text_key);
CREATE INDEX entries_of_person ON entries (space, owner, kind) WHERE pinned OR edited;
CREATE INDEX entries_of_category ON entries (space, owner, kind, category, when_ms) WHERE holds;
CREATE TABLE entry_sources (
    entry_pk INTEGER NOT NULL REFERENCES entries (pk) ON DELETE CASCADE, place INTEGER NOT NULL,
    thread_key TEXT NOT NULL, thread_id TEXT NOT NULL, turn INTEGER NOT NULL,
    user_id TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (entry_pk, place)
) WITHOUT ROWID;
CREATE INDEX entry_sources_by_turn ON entry_sources (thread_key, turn);
CREATE TABLE entry_history (
    pk INTEGER PRIMARY KEY, entry_pk INTEGER NOT NULL REFERENCES entries (pk) ON DELETE CASCADE,
    revision INTEGER NOT NULL, entry_json TEXT, actor TEXT NOT NULL, cause TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX entry_history_of_entry ON entry_history (entry_pk, pk);
CREATE TABLE entry_files (
    path TEXT PRIMARY KEY, space TEXT NOT NULL, owner TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1, written INTEGER NOT NULL DEFAULT 0, digest TEXT,
    writing TEXT
) WITHOUT ROWID;
CREATE INDEX entry_files_of_owner ON entry_files (owner);
CREATE TABLE leaving_entries (
    path TEXT NOT NULL, entry_id TEXT NOT NULL,
    PRIMARY KEY (path, entry_id)
) WITHOUT ROWID;
CREATE TABLE buried_entries (
    space TEXT NOT NULL, entry_id TEXT NOT NULL, owner TEXT NOT NULL, kind TEXT NOT NULL,
    cell TEXT NOT NULL, turn_ids_json TEXT NOT NULL, statement TEXT NOT NULL DEFAULT '',
    said INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (space, entry_id)
) WITHOUT ROWID;
CREATE INDEX buried_entries_of_cell ON buried_entries (space, owner, cell);
CREATE INDEX buried_entries_by_statement ON buried_entries (space, owner, statement) WHERE statement != '';
CREATE TABLE model_answers (
    space TEXT NOT NULL, cell TEXT NOT NULL, name TEXT NOT NULL, prompt_digest TEXT NOT NULL,
    answer TEXT NOT NULL, model TEXT NOT NULL, usage_json TEXT NOT NULL, at INTEGER NOT NULL,
    known_json TEXT NOT NULL DEFAULT '{}', failed_calls INTEGER NOT NULL DEFAULT 0,
    thread_pk INTEGER NOT NULL DEFAULT 0 REFERENCES threads (pk) ON DELETE CASCADE,
    PRIMARY KEY (space, cell, name, prompt_digest)
);
CREATE INDEX model_answers_of_thread ON model_answers (thread_pk);
CREATE TABLE strategy_counts (
    owner TEXT NOT NULL, strategy TEXT NOT NULL, events INTEGER NOT NULL,
    PRIMARY KEY (owner, strategy)
) WITHOUT ROWID;
CREATE TABLE skill_files (
    path TEXT PRIMARY KEY, text TEXT, writing TEXT, seen TEXT, revision INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE skill_versions (
    path TEXT NOT NULL, revision INTEGER NOT NULL, text TEXT NOT NULL, cases_json TEXT NOT NULL,
    actor TEXT NOT NULL, cause TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (path, revision)
) WITHOUT ROWID;
CREATE TABLE gone_cases (entry_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE marks (name TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE written_files (
    file TEXT NOT NULL, digest TEXT NOT NULL, number INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (file, digest)
) WITHOUT ROWID;
CREATE INDEX written_files_by_digest ON written_files (digest);
CREATE TABLE ledger_outbox (number INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TABLE removed_notes (
    path TEXT PRIMARY KEY, owner TEXT NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL,
    removed_at INTEGER NOT NULL
);
CREATE TABLE webhooks (
    webhook_id TEXT PRIMARY KEY, space TEXT NOT NULL, user_id TEXT, url TEXT NOT NULL,
    secret TEXT NOT NULL, events TEXT NOT NULL, created INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE webhook_deliveries (
    pk INTEGER PRIMARY KEY,
    webhook_id TEXT NOT NULL REFERENCES webhooks (webhook_id) ON DELETE CASCADE,
    delivery_id TEXT NOT NULL UNIQUE, event TEXT NOT NULL, tries INTEGER NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX webhook_deliveries_of ON webhook_deliveries (webhook_id, pk);
CREATE TABLE unprocessed_buffer (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    turn_pk INTEGER PRIMARY KEY REFERENCES turns (pk) ON DELETE CASCADE, space TEXT NOT NULL,
    session_id TEXT NOT NULL, message_id TEXT NOT NULL
);
CREATE INDEX unprocessed_buffer_of_thread ON unprocessed_buffer (thread_pk);
CREATE TABLE receipts (
    pk INTEGER PRIMARY KEY, thread_pk INTEGER REFERENCES threads (pk) ON DELETE CASCADE,
    turn_pk INTEGER REFERENCES turns (pk) ON DELETE CASCADE,
    memcell_pk INTEGER REFERENCES memcell (pk) ON DELETE CASCADE, stage TEXT NOT NULL,
    detail_json TEXT NOT NULL DEFAULT '{}', at INTEGER NOT NULL,
    CHECK ((thread_pk IS NOT NULL) + (turn_pk IS NOT NULL) + (memcell_pk IS NOT NULL) = 1)
);
CREATE UNIQUE INDEX receipts_of_thread ON receipts (thread_pk, stage) WHERE thread_pk IS NOT NULL;
CREATE UNIQUE INDEX receipts_of_turn ON receipts (turn_pk, stage) WHERE turn_pk IS NOT NULL;
CREATE UNIQUE INDEX receipts_of_memcell ON receipts (memcell_pk, stage) WHERE memcell_pk IS NOT NULL;
CREATE TABLE version_sources (
    version_pk INTEGER NOT NULL REFERENCES entry_history (pk) ON DELETE CASCADE,
    source TEXT NOT NULL, turn INTEGER NOT NULL,
    PRIMARY KEY (version_pk, source, turn)
) WITHOUT ROWID;
CREATE INDEX version_sources_by_source ON version_sources (source, turn);
"""


def upgrade() -> None:
    for statement in DDL.strip().split(";\n"):
        op.execute(statement.removesuffix(";"))
