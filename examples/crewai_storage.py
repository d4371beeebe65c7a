"""CrewAI's memory in Recollect's notes:

    storage = RecollectStorage()
    memory = Memory(storage=storage, embedder=storage.embed)

Each record is a note that you can read and edit. Lists and counts read every record: for thousands, not for millions.
"""

import asyncio
import hashlib
import os
import time
from collections import Counter
from datetime import datetime
from typing import Any

import httpx2
from crewai.memory.types import MemoryRecord, ScopeInfo


class RecollectStorage:
    """CrewAI's `StorageBackend`. Recollect searches by text: `embed` keeps the texts that vectors stand for."""

    def __init__(self, *, user_id: str | None = None) -> None:
        self._client = connect(user_id)
        self._texts: dict[tuple[float, ...], str] = {}

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Vectors of Recollect's own embedder, which needs no model key. Raises RuntimeError where there is none."""
        answer = self._client.post("/v1/embeddings", json={"model": "recollect", "input": texts})
        if answer.is_error:
            raise RuntimeError(answer.json()["error"]["message"])
        data = answer.raise_for_status().json()["data"]
        vectors = [[float(number) for number in each["embedding"]] for each in data]
        self._texts |= dict(zip(map(tuple, vectors), texts, strict=True))
        while len(self._texts) > 1000:
            del self._texts[next(iter(self._texts))]
        return vectors

    def save(self, records: list[MemoryRecord]) -> None:
        for record in records:
            text = f"---\nrecord: {record.model_dump_json(exclude={'content'})}\n---\n{record.content}"
            body = {"name": _name(record.id), "text": text, "replace": True}
            self._client.post("/api/v1/memory/notes", json=body).raise_for_status()

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Recollect finds them; the scores are the likeness of the vectors, as CrewAI expects."""
        if (query := self._texts.get(tuple(query_embedding))) is None:
            raise NotImplementedError("Recollect searches by text: give the memory embedder=storage.embed")
        body = {"query": query, "types": ["note"], "top_k": 1000}
        hits = self._client.post("/api/v1/memory/search", json=body).raise_for_status().json()["hits"]
        names = dict.fromkeys(hit["path"].rpartition("/notes/")[2] for hit in hits)
        records = [record for name in names if (record := self._read(name))]
        kept = _chosen(records, scope_prefix, categories, metadata_filter)[: 2 * limit]
        vectors = self.embed([record.content for record in kept]) if kept else []
        scores = [sum(a * b for a, b in zip(query_embedding, each, strict=True)) for each in vectors]
        scored = sorted(zip(kept, scores, strict=True), key=lambda each: -each[1])
        return [(record, score) for record, score in scored if score >= min_score][:limit]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forgets them, for good."""
        records = self._records() if record_ids is None else filter(None, map(self.get_record, record_ids))
        gone = [
            record
            for record in _chosen(list(records), scope_prefix, categories, metadata_filter)
            if older_than is None or record.created_at < older_than
        ]
        for record in gone:
            self._client.delete(f"/api/v1/memory/notes/{_name(record.id)}").raise_for_status()
        return len(gone)

    def update(self, record: MemoryRecord) -> None:
        self.save([record])

    def get_record(self, record_id: str) -> MemoryRecord | None:
        return self._read(_name(record_id))

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        newest_first = sorted(self._records(scope_prefix), key=lambda record: record.created_at, reverse=True)
        return newest_first[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        records = self._records(scope)
        times = sorted(record.created_at for record in records)
        return ScopeInfo(
            path=scope,
            record_count=len(records),
            categories=sorted(self.list_categories(scope)),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        start = parent.rstrip("/") + "/"
        below = [
            record.scope.removeprefix(start) for record in self._records() if record.scope.startswith(start)
        ]
        return sorted({start + rest.partition("/")[0] for rest in below if rest})

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        return dict(Counter(each for record in self._records(scope_prefix) for each in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        return len(self._records(scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        self.delete(scope_prefix)

    async def asave(self, records: list[MemoryRecord]) -> None:
        await asyncio.to_thread(self.save, records)

    async def asearch(self, *arguments: Any, **named: Any) -> list[tuple[MemoryRecord, float]]:
        return await asyncio.to_thread(self.search, *arguments, **named)

    async def adelete(self, *arguments: Any, **named: Any) -> int:
        return await asyncio.to_thread(self.delete, *arguments, **named)

    def _records(self, scope_prefix: str | None = None) -> list[MemoryRecord]:
        notes = self._client.get("/api/v1/memory/notes").raise_for_status().json()["notes"]
        return _chosen([record for note in notes if (record := self._read(note["name"]))], scope_prefix)

    def _read(self, name: str) -> MemoryRecord | None:
        """None if there is none, or it is another note."""
        if not name.startswith("crewai-"):
            return None
        answer = self._client.get(f"/api/v1/memory/notes/{name}")
        if answer.status_code == 404:
            return None
        _, matter, content = answer.raise_for_status().json()["text"].split("---\n", 2)
        known = MemoryRecord.model_validate_json(
            '{"content": "", ' + matter.strip().removeprefix("record: {")
        )
        return known.model_copy(update={"content": content})


def _name(record_id: str) -> str:
    return f"crewai-{hashlib.sha256(record_id.encode()).hexdigest()[:32]}.md"


def _chosen(
    records: list[MemoryRecord],
    scope_prefix: str | None = None,
    categories: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> list[MemoryRecord]:
    start = (scope_prefix or "").rstrip("/") + "/"
    return [
        record
        for record in records
        if (record.scope.rstrip("/") + "/").startswith(start)
        and (not categories or set(categories) & set(record.categories))
        and (metadata or {}).items() <= record.metadata.items()
    ]


def connect(user_id: str | None = None) -> httpx2.Client:
    """The server at RECOLLECT_URL. A key in RECOLLECT_API_KEY may name the user; without one it is `me`."""
    key = os.environ.get("RECOLLECT_API_KEY")
    user = user_id or (None if key else "me")
    return httpx2.Client(
        base_url=os.environ.get("RECOLLECT_URL", "http://127.0.0.1:8600"),
        headers={"Authorization": f"Bearer {key}"} if key else {},
        params={"user_id": user} if user else {},
        timeout=60,
    )


if __name__ == "__main__":
    storage = RecollectStorage()
    storage.save([MemoryRecord(id="demo", content="Marta has moved to Porto.", scope="/demo/people")])
    print(storage.get_record("demo"))
    print("scopes:", storage.list_scopes("/demo"))
    time.sleep(2)  # Search finds it after a moment.
    try:
        question = storage.embed(["Where does Marta live?"])[0]
    except RuntimeError as error:
        raise SystemExit(f"CrewAI's memory needs an embedding model: {error}") from None
    for found, score in storage.search(question, "/demo"):
        print("found:", found.content, round(score, 2))
