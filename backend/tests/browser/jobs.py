"""Jobs that have failed for good."""

import sqlite3
from contextlib import closing

from recollect.domain.identity import thread_key
from recollect.domain.job import vault_lane
from tests.browser.site import Site


def bury_a_job(site: Site, thread: str, error: str = "OSError: told to fail") -> None:
    """As if writing the thread's transcript had failed for good."""
    with closing(sqlite3.connect(site.home / "journal.db", timeout=10)) as journal, journal:
        journal.execute(
            "INSERT INTO jobs (kind, lane, space, thread_id, state, attempts, run_at, created, error)"
            " VALUES ('transcribe', ?, 'default', ?, 'dead', 8, 0, 0, ?)",
            (vault_lane(thread_key("default", thread)), thread, error),
        )
