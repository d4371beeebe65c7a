"""Answers of models, kept before they are used, so that no retry asks again."""

import json
from collections.abc import Callable, Iterable

from recollect.infra.sql.database import Database
from recollect.infra.sql.rows import dumped
from recollect.memory.identity import thread_key
from recollect.memory.kept_answer import KeptAnswer

ANSWER = """
SELECT answer, model, usage_json FROM model_answers WHERE space = ? AND cell = ? AND name = ? AND prompt_digest = ?"""

KEEP = """
INSERT OR IGNORE INTO model_answers (space, cell, name, prompt_digest, thread_key, answer, model, usage_json, at)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM threads WHERE space = ? AND thread_id = ?)"""


class SqlModelAnswers:
    """By memcell, name of the prompt, and digest of all that was asked."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    async def answer(self, space: str, cell: str, name: str, digest: str) -> KeptAnswer | None:
        found = await self._database.read(ANSWER, (space, cell, name, digest))
        if not found:
            return None
        return KeptAnswer(found[0]["answer"], found[0]["model"], json.loads(found[0]["usage_json"]))

    async def keep(
        self, space: str, thread_id: str, cell: str, name: str, digest: str, answer: KeptAnswer
    ) -> None:
        """The first answer to a prompt stays. Nothing is kept of a thread that is gone."""
        key = thread_key(space, thread_id)
        told = (
            space,
            cell,
            name,
            digest,
            key,
            answer.text,
            answer.model,
            dumped(answer.usage),
            self._clock(),
        )
        await self._database.write(
            lambda connection: connection.execute(KEEP, (*told, space, thread_id)).rowcount
        )

    async def forget_cells(self, space: str, cells: Iterable[str]) -> None:
        rows = [(space, cell) for cell in cells]
        await self._database.write(
            lambda connection: (
                connection.executemany(
                    "DELETE FROM model_answers WHERE space = ? AND cell = ?", rows
                ).rowcount
            )
        )

    async def forget_thread(self, space: str, thread_id: str) -> None:
        key = thread_key(space, thread_id)
        await self._database.write(
            lambda connection: (
                connection.execute("DELETE FROM model_answers WHERE thread_key = ?", (key,)).rowcount
            )
        )
