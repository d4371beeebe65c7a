"""Files of skills are among the files of the vault; only their texts are kept beside."""

from alembic import op

from recollect.domain.identity import text_digest
from recollect.domain.paths import file_name, owner_of_path

revision = "0030"
down_revision = "0029"

OLD = "SELECT path, writing, coalesce(seen, text), revision FROM skill_files"
ADD_FILE = "INSERT INTO vault_files VALUES (?, 'skill_files', ?, ?, ?, ?, ?, ?)"


def upgrade() -> None:
    run = op.get_bind().exec_driver_sql
    spaces = {file_name(space): space for (space,) in run("SELECT DISTINCT space FROM threads").all()}
    for path, writing, seen, number in run(OLD).all():
        owner, folder = owner_of_path(path), path.partition("/")[0]
        counted = max(number, 1)
        digest, written = (None, 0) if seen is None else (text_digest(seen), counted)
        announced = None if writing is None else text_digest(writing)
        run(ADD_FILE, (path, spaces.get(folder, folder), owner, counted, written, digest, announced))
    run("UPDATE skill_files SET seen = coalesce(seen, text)")
    run("ALTER TABLE skill_files DROP COLUMN revision")
