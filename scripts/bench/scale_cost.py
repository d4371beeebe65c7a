"""What a message costs: a live chat with recall, whose memories, transcript and index are made, on a real server."""

import os
import re
import sqlite3
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import servers
from driving import BATCH, Server
from reporting import progress

OWNERS = 5
EXCHANGES = 10
"""Of a conversation: as many messages of a person, each answered."""
MESSAGE_WORDS, ANSWER_WORDS = 30, 120
_STRIDE = 37
SEARCHES = 50
_CHARACTERS_PER_TOKEN = 4
_IDLE_SECONDS = 5
_BETWEEN_QUESTIONS = 2


@dataclass(frozen=True)
class Cost:
    """Per message, answers being messages too, except where a name says otherwise; times are of the CPU."""

    messages: int
    """Of which all this is the mean."""
    characters: float
    cpu_ms: float
    """Of all that the server does for it in a live chat with little to recall from."""
    search_ms_per_1000_rows: float
    """What a search takes more for every thousand rows of its owner."""
    load_ms_per_1000_rows: float
    """What the first search after a start takes more."""
    memory_bytes_per_row: float
    resident_mb: float
    """Of a process that holds no rows."""
    commits: float
    """With one message at a time: none share one."""
    jobs: float
    rows: float
    indexed_rows: float
    """The message, and the memories made of it."""
    journal_bytes: float
    vault_bytes: float
    index_bytes: float
    vault_files: float
    index_files_per_user: float
    index_writes: float
    """New versions of a table: a few objects each."""
    model_calls: float
    evaluated_tokens: float
    """Of prompts, where the model keeps the prefix of every thread in its cache."""
    bare_commits_a_second: float
    """Of SQLite with a row of 1 KB each, as durable as the journal, on the same disk."""
    load_average: list[float] = field(default_factory=list)
    """Of the machine before and after; with its number of cores."""


def measure_cost(folder: Path, *, quick: bool = False) -> Cost:
    threads, rows = (1, 1_000) if quick else (4, 10_000)
    loads = [os.cpu_count() or 1, os.getloadavg()[0]]
    found = {**_chatting(folder / "chat", threads), **_searching(folder / "search", rows)}
    bare = _bare_commits(folder / "bare.db")
    return Cost(**found, bare_commits_a_second=bare, load_average=[*loads, os.getloadavg()[0]])


def _chatting(home: Path, threads: int) -> dict[str, Any]:
    """Conversations of several owners, one message at a time; those of before are remembered as the next begins."""
    messages = OWNERS * threads * EXCHANGES * 2
    with servers.standin_model() as asking:
        model = Server(int(asking["RECOLLECT_LLM__BASE_URL"].rpartition(":")[2]))
        with servers.recollect(home, {**servers.real_embedder(), **asking}) as (port, pid, _ready):
            server = Server(port)
            server.search("nobody", "loads the embedding model")
            empty = _state(home)
            before, started = servers.cpu_seconds(pid), time.perf_counter()
            commits, jobs = (
                _metric(port, "recollect_journal_commits"),
                _metric(port, "recollect_jobs_finished"),
            )
            sent = 0
            for number in range(OWNERS * threads):
                owner, thread = f"owner{number % OWNERS}", f"t{number}"
                for place in range(number * EXCHANGES, (number + 1) * EXCHANGES):
                    text, answer = said(place, MESSAGE_WORDS), said(place + 7, ANSWER_WORDS)
                    model.call("POST", "/control", {"only": "chat", "answer": answer, "caches": True})
                    content = f"I like {text}."
                    sent += len(content) + len(answer)
                    body = {"user_id": owner, "content": content}
                    server.call("POST", f"/api/v1/threads/{thread}/messages", body)
                server.call(
                    "POST", "/api/v1/memory/flush", {"session_id": thread, "user_id": owner, "timeout": 60}
                )
                progress("chatting", number, OWNERS * threads)
            _settle(server)
            cpu, wall = servers.cpu_seconds(pid) - before, time.perf_counter() - started
            cpu -= _idle_share(pid) * wall
            commits = _metric(port, "recollect_journal_commits") - commits
            jobs = _metric(port, "recollect_jobs_finished") - jobs
            cached = _metric(port, "recollect_prompt_tokens_total", 'kind="cached"')
            evaluated = _metric(port, "recollect_prompt_tokens_total", 'kind="evaluated"')
        told = model.call("GET", "/control/calls")
    full = _state(home)
    prompts = sum(
        len(str(message.get("content") or "")) for body in told["bodies"] for message in body["messages"]
    )
    grown = {name: (full[name] - empty[name]) / messages for name in empty}
    return {
        "messages": messages,
        "characters": sent / messages,
        "cpu_ms": cpu * 1000 / messages,
        "commits": commits / messages,
        "jobs": jobs / messages,
        **grown,
        "index_files_per_user": servers.files_and_bytes(home / "index")[0] / OWNERS,
        "index_writes": sum(_versions(home / "index")) / messages,
        "model_calls": len(told["bodies"]) / messages,
        "evaluated_tokens": prompts / _CHARACTERS_PER_TOKEN / messages * evaluated / (cached + evaluated),
    }


def _searching(home: Path, rows: int) -> dict[str, float]:
    """An owner with so many messages beside one with a tenth: what searches take, warm and after a start.

    Their vectors are a stand-in's: embedding takes the same for both.
    """
    owners = {"small": rows // 10, "large": rows}
    more = (rows - rows // 10) / 1000
    with servers.standin_embedder() as embedding:
        with servers.recollect(home, embedding) as (port, _pid, _ready):
            server = Server(port)
            for owner, number in owners.items():
                some = [said(place, MESSAGE_WORDS) for place in range(number)]
                for first in range(0, number, BATCH):
                    server.add(owner, some[first : first + BATCH], first)
            _settle(server)
        with servers.recollect(home, embedding) as (port, pid, _ready):
            server = Server(port)
            resident = servers.resident_megabytes(pid)
            _settle(server)
            server.search("nobody", "whatever a first search needs is there")
            held = _metric(port, "recollect_index_memory_bytes")
            cold = {owner: _searches(server, pid, owner, 1) for owner in owners}
            held = _metric(port, "recollect_index_memory_bytes") - held
            warm = {owner: _searches(server, pid, owner, SEARCHES) for owner in owners}
    search = (warm["large"] - warm["small"]) / more
    return {
        "search_ms_per_1000_rows": search,
        "load_ms_per_1000_rows": (cold["large"] - cold["small"]) / more - search,
        "memory_bytes_per_row": held / sum(owners.values()),
        "resident_mb": resident,
    }


def _searches(server: Server, pid: int, owner: str, number: int) -> float:
    """Milliseconds of CPU for each."""
    before = servers.precise_cpu_seconds(pid)
    for query in (said(place, 6) for place in range(number)):
        if (found := server.search(owner, query))["degraded"]:
            raise RuntimeError(f"not the whole search was measured: {found['degraded']}")
    return (servers.precise_cpu_seconds(pid) - before) * 1000 / number


def said(number: int, length: int) -> str:
    """So many words of the documentation, others for each number: those of a language cost the embedder what they do."""
    start = number * _STRIDE % (len(_prose()) - length)
    return " ".join(_prose()[start : start + length])


@cache
def _prose() -> list[str]:
    pages = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    return re.findall(r"[A-Za-z',;]{1,20}", " ".join(page.read_text(encoding="utf-8") for page in pages))


def _settle(server: Server) -> None:
    """Until no job is due and all is found by words and by meaning. Asked rarely: asking costs, too."""
    while True:
        server.wait_for_jobs()
        if not _metric(server.port, "recollect_index_waiting"):
            covered = server.coverage()
            if covered["indexed"] == covered["embedded"] == covered["messages"]:
                return
        time.sleep(_BETWEEN_QUESTIONS)


def _idle_share(pid: int) -> float:
    """Seconds of CPU that the server takes a second when nobody asks anything."""
    before = servers.cpu_seconds(pid)
    time.sleep(_IDLE_SECONDS)
    return (servers.cpu_seconds(pid) - before) / _IDLE_SECONDS


def _state(home: Path) -> dict[str, float]:
    """What there is in the home, by the names of the figures that it makes."""
    tables = _rows(home / "journal.db")
    vault_files, vault_bytes = servers.files_and_bytes(home / "vault")
    return {
        "rows": sum(tables.values()),
        "indexed_rows": tables["turns"] + tables["entries"],
        "journal_bytes": sum(path.stat().st_size for path in home.glob("journal.db*")),
        "vault_bytes": vault_bytes,
        "vault_files": vault_files,
        "index_bytes": servers.files_and_bytes(home / "index")[1],
    }


def _rows(journal: Path) -> dict[str, int]:
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        counts = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}  # noqa: S608
    connection.close()
    return counts


def _versions(index: Path) -> Iterator[int]:
    """How often each table of the index was written: LanceDB names versions so that the newest sorts first."""
    for folder in index.rglob("_versions"):
        numbers = [int(path.stem) for path in folder.glob("*.manifest")]
        yield max(2**64 - 1 - number if number > 2**63 else number for number in numbers)


def _metric(port: int, name: str, label: str = "") -> float:
    """The sum over all label values, or over those with this one."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    lines = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
    return sum(float(value) for labels, value in lines if label in labels)


def _bare_commits(path: Path, number: int = 2_000) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, content TEXT)")
    started = time.perf_counter()
    for _ in range(number):
        connection.execute("INSERT INTO message (content) VALUES (?)", ("x" * 1_000,))
    seconds = time.perf_counter() - started
    connection.close()
    return number / seconds
