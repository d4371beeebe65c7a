"""What is recalled is never remembered again: chats that repeat all they were reminded of make no new memory of it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.model import ThreadRef
from tests.http_client import Home, Json
from tests.remembering import MortalModel, entries, remember, remembering, said

pytestmark = pytest.mark.slow

TURNS = 200
THREADS = 5
QUESTIONS = (
    "Where do I live?",
    "What is my work?",
    "What is my dog called?",
    "Where am I flying to?",
    "What is my name?",
)
RECALLED = ("Berlin", "nurse", "Rex", "Lisbon", "name is Ann")


async def ask(home: Home, thread: str, question: str) -> str:
    asked: Json = {"user_id": "ann", "content": question}
    answer: Any = await home.client.post(f"/api/v1/threads/{thread}/messages", json=asked)
    said_back: str = answer.raise_for_status().json()["assistant_turn"]["content"]
    return said_back


async def flush_all(home: Home) -> Counter[str]:
    """Closes all that was said; returns why statements were refused, and how often."""
    refused: Counter[str] = Counter()
    for number in range(THREADS):
        body = {"session_id": f"chat{number}", "timeout": 120}
        (await home.client.post("/api/v1/memory/flush", json=body)).raise_for_status()
    await home.drain()
    for number in range(THREADS):
        cells = [
            cell.memcell_id
            for cell, _ in await home.app.cells.list_cells(ThreadRef("default", "ann", f"chat{number}"))
        ]
        for stages in (
            await home.app.cells.receipts(ThreadRef("default", "ann", f"chat{number}"), cells)
        ).values():
            for detail in stages.values():
                refused.update(detail.get("refused", {}))
    return refused


@pytest.mark.timeout(600)
async def test_two_hundred_turns_that_repeat_what_is_recalled_make_no_new_memory_of_it(
    model: MortalModel, tmp_path: Path
) -> None:
    """The model chats by repeating what it is reminded of, and takes for a fact whatever an assistant says."""
    model.control(parrot=True, gullible=True)
    async with remembering(tmp_path, model, chat={"recall_seconds": 20}) as home:
        await remember(home, "t1", said(), user_id="ann")
        await home.drain()
        before = await entries(home)
        answers = [
            await ask(home, f"chat{number % THREADS}", QUESTIONS[number // THREADS % len(QUESTIONS)])
            for number in range(TURNS)
        ]
        refused = await flush_all(home)
        after = await entries(home)

    repeating = sum(any(word in answer for word in RECALLED) for answer in answers)
    assert repeating > TURNS * 0.9, "the chats were not reminded of anything"
    new = [entry for entry in after if entry.entry_id not in {each.entry_id for each in before}]
    kinds = Counter(entry.kind for entry in new)
    print(f"\n{len(before)} entries before, {len(after)} after: {dict(kinds)} new; refused: {dict(refused)}")  # noqa: T201
    assert refused.total() > 0, "the model took nothing from what was repeated"
    assert set(kinds) <= {"episodes"}, [entry.entry.text for entry in new if entry.kind != "episodes"]
    retold = [entry.entry.text for entry in new if any(word in entry.entry.text for word in RECALLED)]
    assert retold == []
