"""One table says what each file of the vault should hold and holds, whatever its kind."""

from alembic import op

revision = "0027"
down_revision = "0026"

DDL = (
    """
    CREATE TABLE vault_files (
        path TEXT PRIMARY KEY, kind TEXT NOT NULL, space TEXT NOT NULL, owner TEXT NOT NULL,
        revision BIGINT NOT NULL DEFAULT 1, written BIGINT NOT NULL DEFAULT 0, digest TEXT, announced TEXT
    )""",
    "CREATE INDEX vault_files_of_owner ON vault_files (owner, kind)",
    """
    INSERT INTO vault_files SELECT path, 'entries', space, owner, revision, written, digest, writing
    FROM entry_files""",
    "DROP TABLE entry_files",
)
ADD = "INSERT INTO vault_files VALUES (?, 'people', ?, ?, ?, ?, ?, ?)"
PEOPLE = "SELECT path, space, revision, written, digest, writing FROM people"
MOVED = ("revision", "written", "digest", "writing")


def upgrade() -> None:
    run = op.get_bind().exec_driver_sql
    for statement in DDL:
        run(statement)
    for path, space, *held in run(PEOPLE).all():
        run(ADD, (path, space, path.rpartition("/")[0], *held))
    for column in MOVED:
        run(f"ALTER TABLE people DROP COLUMN {column}")
