"""Ann says where she lives, corrects what was made of it, and asks."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.extraction.draft import Draft, Extraction
from recollect.domain.job import Job
from recollect.domain.strategy import cell_job
from recollect.service.remember.consolidate import Remembering
from recollect.service.remember.extract import Extracted, Extractor
from tests.http_client import Home, Json
from tests.processes import recollect_json
from tests.remembering import DAY, MAY_8, entries, remember, said

ENTRIES = "/api/v1/memory/entries"
ANN = {"user_id": "ann"}
JULY = MAY_8 + 60 * DAY
POTSDAM = "Ann lives in Potsdam."


async def hear(home: Home, text: str, day: int) -> None:
    """Ann says this so many days later, in a thread of its own."""
    messages = said([("user", text)], start=MAY_8 + day * DAY, prefix=f"d{day}-")
    await remember(home, f"day-{day}", messages, **ANN)
    await home.drain()


async def live_in(home: Home, place: str, start: int = MAY_8, replaces: Sequence[str] = ()) -> str:
    """Ann says so; returns the id of what is made of it, as by a model that names what it replaces."""
    thread = f"in-{place}"
    messages = said([("user", f"I live in {place}.")], start=start, prefix=place)
    await remember(home, thread, messages, **ANN)
    await write_home(home, place, start, replaces)
    return (await fact(home, place)).entry_id


async def write_home(home: Home, place: str, start: int = MAY_8, replaces: Sequence[str] = ()) -> None:
    """What extraction makes of the one memcell of that thread; the same again when it runs again."""
    app, thread_id = home.app, f"in-{place}"
    ((_, cell),) = await app.cell_texts.cells_of("default", "ann", thread_id)
    text = f"ann lives in {place}."
    told = {"subject": "user", "category": "home"}
    draft = Draft("facts", text, text, start, ("t-1",), told, replaces=tuple(replaces))
    remembering = Remembering(
        cells=app.cell_texts,
        entries=app.entry_store,
        extractor=cast(Extractor, Scripted(draft)),
        people=app.people,
        tuning=app.tuning,
        clock=app.clock,
        locks=app.memory_locks,
        fail_points=app.fail_points,
        facts_like=app.search.recall.facts_like,
    )
    job = cell_job("default", "ann", cell, ["facts"])
    await remembering.handle(Job(0, job.kind, job.lane, "default", "ann", thread_id, job.payload))
    await home.drain()


@dataclass(frozen=True)
class Scripted:
    """In the place of an extractor: a model says this of any memcell."""

    draft: Draft
    model_calls: object = "a model"

    async def memcell(self, *_: object) -> Extracted:
        return Extracted(Extraction((self.draft,)), "stand-in")


async def fact(home: Home, place: str) -> KnownEntry:
    (found,) = [each for each in await entries(home, "facts") if place in each.entry.text]
    return found


async def say(home: Home, entry_id: str, text: str = POTSDAM) -> None:
    """The person writes it over what was extracted."""
    (await home.client.patch(f"{ENTRIES}/{entry_id}", json={**ANN, "text": text})).raise_for_status()
    await home.drain()


async def undo(home: Home, entry_id: str) -> None:
    (await home.client.post(f"{ENTRIES}/{entry_id}/undo", json=ANN)).raise_for_status()
    await home.drain()


async def holding(home: Home) -> list[str]:
    return sorted(each.entry.text for each in await entries(home, "facts") if each.holds)


async def found(home: Home, query: str = "Where does Ann live?", **fields: object) -> list[Json]:
    body = {**ANN, "query": query, "top_k": 5, **fields}
    hits: list[Json] = (
        (await home.client.post("/api/v1/memory/search", json=body)).raise_for_status().json()["hits"]
    )
    return hits


def rebuild_from_vault(home: Path) -> Any:
    """Of a home that is closed: all that is left is its vault, and the rest is made of that, in its folder. Returns the report."""
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (home / name).unlink(missing_ok=True)
    shutil.rmtree(home / "index", ignore_errors=True)
    journal = {"RECOLLECT_DATABASE_URL": f"sqlite:///{home}/journal.db"}
    return recollect_json(home, "rebuild", "--take", settings=journal)
