"""The journal: SQLite through SQLAlchemy, one writer thread with group commit, pooled async readers."""
