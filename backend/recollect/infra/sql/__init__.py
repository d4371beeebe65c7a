"""The journal: one SQLite file, one writer thread with group commit, and threads that can only read."""
