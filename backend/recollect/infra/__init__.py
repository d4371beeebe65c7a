"""One technology per file or folder."""
