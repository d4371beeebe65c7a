"""Measure the index in S3 beside the folder: one user's messages are indexed, searched and forgotten in both.

    PYTHONPATH=backend .venv/bin/python scripts/bench/index_places.py [--messages 2000]

S3 is moto's, one Python process on this machine, which answers one request at a time: a real one takes longer for each
request and answers many at once.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.app import App
from recollect.domain.model import ThreadRef
from tests import buckets
from tests.http_client import Home, message, opened

THREADS, SEARCHES, SINGLES = 20, 20, 10
TOPICS = "rent", "cellar", "piano", "garden", "train", "letter", "dentist", "recipe", "tent", "invoice"


class Requests:
    """Counts those to S3 below `.index`, on their way."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, method: str, path: str) -> None:
        self.number += ".index" in path


async def measured(
    folder: Path, messages: int, asked: Requests, **settings: Any
) -> dict[str, tuple[float, int]]:
    """By step, seconds and requests."""
    found: dict[str, tuple[float, int]] = {}
    begun, before = 0.0, 0

    def begin() -> None:
        nonlocal begun, before
        begun, before = time.monotonic(), asked.number

    def done(step: str, times: int = 1) -> None:
        found[step] = (time.monotonic() - begun) / times, (asked.number - before) // times

    given = {
        "embedding": {"kind": "onnx", "query_seconds": 60},
        "memorize": {"quiet_seconds": 86_400},
        **settings,
    }
    async with opened(folder / "one", **given) as home:
        begin()
        await fill(home, messages)
        await words_indexed(home.app, messages)
        done("add all, found by words")
        await home.app.search.indexer.settled()
        done("add all, found by meaning, too")
        begin()
        for number in range(SINGLES):
            await home.add("t0", f"One more about the {TOPICS[number]}, number {number}")
            await home.app.search.indexer.settled()
        done("one message more, found by meaning", SINGLES)
    async with opened(folder / ("two" if settings.get("member_url") else "one"), **given) as home:
        await home.app.search.indexer.settled()
        begin()
        await search(home, "where is the piano")
        done("first search after a start")
        begin()
        times = [await timed(search, home, f"{topic} number {n}") for n in range(2) for topic in TOPICS]
        done("search")
        found["search"] = statistics.median(times), found["search"][1]
        begin()
        await home.add("t1", "The first message to another leader")
        await home.app.search.indexer.settled()
        done("first message after a start")
        begin()
        await home.client.delete("/api/v1/threads/t2")
        await home.drain()
        done("forget a thread of a hundred")
        size = await home.app.index.size()
        sys.stdout.write(f"  {size[0]} files, {size[1] / 1e6:.1f} MB at the end\n")
    return found


async def fill(home: Home, messages: int) -> None:
    for number in range(THREADS):
        texts = [
            f"Message {place} of thread {number} is about the {TOPICS[place % len(TOPICS)]} of number {place * number}"
            for place in range(messages // THREADS)
        ]
        for start in range(0, len(texts), 50):
            body = {
                "session_id": f"t{number}",
                "messages": [message(text) for text in texts[start : start + 50]],
            }
            (await home.client.post("/api/v1/memory/add", json=body)).raise_for_status()


async def words_indexed(app: App, messages: int) -> None:
    while True:
        progress = [
            await app.ledger.progress(app.search.indexer.live.name, ThreadRef("default", "me", f"t{number}"))
            for number in range(THREADS)
        ]
        if sum(each.words_to for each in progress if each is not None) >= messages:
            return
        await asyncio.sleep(0.02)


async def search(home: Home, query: str) -> None:
    body = {"query": query, "user_id": "me"}
    (await home.client.post("/api/v1/memory/search", json=body)).raise_for_status()


async def timed(work: Callable[..., Any], *arguments: Any) -> float:
    begun = time.monotonic()
    await work(*arguments)
    return time.monotonic() - begun


async def main(messages: int) -> None:
    results = []
    for place in ("folder", "S3"):
        asked = Requests()
        with tempfile.TemporaryDirectory() as folder, buckets.FaultyS3(asked):
            shared = {"database_url": f"sqlite:///{folder}/journal.db", "files_url": buckets.new_url()}
            member = {"member_url": "http://127.0.0.1:1"} if place == "S3" else {}
            sys.stdout.write(f"index in {place}\n")
            results.append(await measured(Path(folder), messages, asked, **shared, **member))
    sys.stdout.write(f"\n{messages} messages of one user; S3 is moto, one Python process\n\n")
    sys.stdout.write(f"{'':38}{'folder':>10}{'S3':>10}{'requests':>10}\n")
    for step, (seconds, _) in results[0].items():
        there, requests = results[1][step]
        sys.stdout.write(f"{step:38}{seconds:9.2f}s{there:9.2f}s{requests:10}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=2000)
    try:
        asyncio.run(main(parser.parse_args().messages))
    finally:
        buckets.stop()
