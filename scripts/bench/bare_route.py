"""The limit that `memory/add` is measured against: a bare route that inserts the same row with the same pragmas."""

import os
import sqlite3
import uuid

from fastapi import FastAPI
from pydantic import BaseModel

PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "busy_timeout = 5000",
    "foreign_keys = ON",
    "secure_delete = ON",
    f"journal_size_limit = {64 * 1024 * 1024}",
    "wal_autocheckpoint = 4000",
    "cache_size = -16000",
)


class Message(BaseModel):
    sender_id: str
    role: str
    timestamp: int
    content: str


class Add(BaseModel):
    session_id: str
    messages: list[Message]


database = sqlite3.connect(os.environ["BARE_DB"], check_same_thread=False, isolation_level=None)
for pragma in PRAGMAS:
    database.execute(f"PRAGMA {pragma}")
database.execute("CREATE TABLE IF NOT EXISTS m (id TEXT PRIMARY KEY, s TEXT, r TEXT, t INT, c TEXT)")
app = FastAPI()


@app.post("/add", status_code=202)
async def add(body: Add) -> dict[str, int]:
    database.execute("BEGIN")
    for message in body.messages:
        database.execute(
            "INSERT INTO m VALUES (?, ?, ?, ?, ?)",
            (uuid.uuid4().hex, body.session_id, message.role, message.timestamp, message.content),
        )
    database.execute("COMMIT")
    return {"ok": len(body.messages)}
