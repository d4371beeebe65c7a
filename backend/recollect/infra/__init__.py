"""One technology per file, each behind a port of `service/ports.py`."""
