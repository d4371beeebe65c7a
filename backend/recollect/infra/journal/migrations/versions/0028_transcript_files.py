"""Transcripts are among the files of the vault; a part says which of them is its own."""

from alembic import op

from recollect.domain.paths import owner_folder, transcript_path

revision = "0028"
down_revision = "0027"

PARTS = """
CREATE TABLE placed_parts (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    part INTEGER NOT NULL, path TEXT NOT NULL UNIQUE,
    first_position INTEGER NOT NULL, last_position INTEGER NOT NULL, header_revision INTEGER NOT NULL,
    PRIMARY KEY (thread_pk, part)
)"""
OLD = """
SELECT h.space, h.user_id, h.thread_id, p.thread_pk, p.part, p.first_position, p.last_position, p.header_revision,
    p.digest, p.writing FROM transcript_parts p JOIN threads h ON h.pk = p.thread_pk"""
ADD_FILE = "INSERT INTO vault_files VALUES (?, 'transcripts', ?, ?, 1, ?, ?, ?)"


def upgrade() -> None:
    run = op.get_bind().exec_driver_sql
    run(PARTS)
    for space, user_id, thread_id, pk, part, *places, digest, writing in run(OLD).all():
        path = transcript_path(space, user_id, thread_id, part)
        run("INSERT INTO placed_parts VALUES (?, ?, ?, ?, ?, ?)", (pk, part, path, *places))
        owner, written = owner_folder(space, user_id), int(digest is not None)
        run(ADD_FILE, (path, space, owner, written, digest, writing))
    run("DROP TABLE transcript_parts")
    run("ALTER TABLE placed_parts RENAME TO transcript_parts")
