"""Searching a server in tests, and waiting for its index."""

from pathlib import Path
from typing import Any

import httpx2

from tests.http_client import QUICK, Json, coverage
from tests.processes import wait_until

PATIENT = {"RECOLLECT_EMBEDDING__QUERY_SECONDS": "30"}
"""For queries, however busy the machine is: what is not embedded in time is searched for by words alone."""


def with_model(folder: Path) -> dict[str, str]:
    """Settings of a quick server that embeds with the real model."""
    return {**QUICK, **PATIENT, "RECOLLECT_EMBEDDING__FOLDER": str(folder)}


def with_server(base_url: str, **embedding: str) -> dict[str, str]:
    """Settings of a quick server that asks another for its embeddings."""
    given = {"KIND": "openai", "BASE_URL": base_url, "MODEL": "stand-in", **embedding}
    return {**QUICK, **PATIENT, **{f"RECOLLECT_EMBEDDING__{name}": value for name, value in given.items()}}


def search(client: httpx2.Client, query: str, **fields: Any) -> Json:
    body = {"query": query, **fields}
    answer: Json = client.post("/api/v1/memory/search", json=body).raise_for_status().json()
    return answer


def texts(client: httpx2.Client, query: str, **fields: Any) -> list[str]:
    """The texts of the hits, the best first."""
    return [hit["text"] for hit in search(client, query, **fields)["hits"]]


def indexed(client: httpx2.Client, *, embedded: bool = False, seconds: float = 60, **query: str) -> Json:
    """Wait until everything that memory works on is in the index, with `embedded` by its meaning too."""

    def complete() -> Json | None:
        counted = coverage(client, **query)
        wanted = counted["messages"] - counted["skipped"] - counted["forgotten"]
        reached = counted["embedded" if embedded else "indexed"]
        return counted if reached == wanted else None

    return wait_until(complete, "all is indexed", seconds=seconds) or {}


def health(client: httpx2.Client) -> str:
    """What is degraded, as one text."""
    return "; ".join(client.get("/health").json()["degraded"])
