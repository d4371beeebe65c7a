"""LangGraph's long-term store in Recollect's notes: `graph.compile(store=RecollectStore())`.

Each item is a note that you can read and edit. Listing reads every item: for thousands, not for millions.
"""

import asyncio
import hashlib
import json
import operator
import os
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
from langgraph.store import base

OPERATORS = {f"${name}": getattr(operator, name) for name in ("eq", "ne", "gt", "lt")}
OPERATORS |= {"$gte": operator.ge, "$lte": operator.le}


class RecollectStore(base.BaseStore):
    """Items as notes: the namespace, the key and the times as properties, the value as JSON."""

    def __init__(self, *, user_id: str | None = None) -> None:
        self._client = connect(user_id)

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Reads come before writes, and the last write of an item wins, as in LangGraph's own stores."""
        asked = list(ops)
        for op in asked:
            if isinstance(op, base.PutOp) and (op.index is not None or op.ttl is not None):
                raise NotImplementedError(
                    "Recollect indexes a whole note, and no note expires: no index, no ttl"
                )
        results = [None if isinstance(op, base.PutOp) else self._read(op) for op in asked]
        for op in {(op.namespace, op.key): op for op in asked if isinstance(op, base.PutOp)}.values():
            self._write(op)
        return results

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: base.GetOp | base.SearchOp | base.ListNamespacesOp) -> base.Result:
        if isinstance(op, base.GetOp):
            return self._item(_name(op.namespace, op.key))
        if isinstance(op, base.SearchOp):
            found = self._found(op.query) if op.query else ((item, None) for item in self._items())
            kept = [
                base.SearchItem(**item.dict(), score=score)
                for item, score in found
                if item.namespace[: len(op.namespace_prefix)] == op.namespace_prefix
                and _matches(item.value, op.filter or {})
            ]
            return kept[op.offset : op.offset + op.limit]
        wanted = op.match_conditions or ()
        spaces = [item.namespace for item in self._items()]
        listed = {space[: op.max_depth] for space in spaces if all(_is_under(space, each) for each in wanted)}
        return sorted(listed)[op.offset : op.offset + op.limit]

    def _write(self, op: base.PutOp) -> None:
        name = _name(op.namespace, op.key)
        before = self._item(name)
        if op.value is not None:
            now = datetime.now(UTC)
            times = {
                "created": (before.created_at if before else now).isoformat(),
                "updated": now.isoformat(),
            }
            properties = {"namespace": op.namespace, "key": op.key, **times}
            lines = [f"{name}: {json.dumps(each, ensure_ascii=False)}" for name, each in properties.items()]
            text = "\n".join(["---", *lines, "---", json.dumps(op.value, ensure_ascii=False, indent=2)])
            body = {"name": name, "text": text, "replace": True}
            self._client.post("/memory/notes", json=body).raise_for_status()
        elif before:
            self._client.delete(f"/memory/notes/{name}").raise_for_status()

    def _item(self, name: str) -> base.Item | None:
        answer = self._client.get(f"/memory/notes/{name}")
        if answer.status_code == 404:
            return None
        _, matter, value = answer.raise_for_status().json()["text"].split("---\n", 2)
        known = {line.partition(": ")[0]: json.loads(line.partition(": ")[2]) for line in matter.splitlines()}
        times = {f"{name}_at": datetime.fromisoformat(known[name]) for name in ("created", "updated")}
        return base.Item(
            value=json.loads(value), key=known["key"], namespace=tuple(known["namespace"]), **times
        )

    def _items(self) -> list[base.Item]:
        """The newest first."""
        notes = self._client.get("/memory/notes").raise_for_status().json()["notes"]
        names = [note["name"] for note in notes if note["name"].startswith("langgraph-")]
        return sorted(filter(None, map(self._item, names)), key=lambda item: item.updated_at, reverse=True)

    def _found(self, query: str) -> Iterator[tuple[base.Item, float]]:
        """The best first."""
        body = {"query": query, "types": ["note"], "top_k": 1000}
        hits = self._client.post("/memory/search", json=body).raise_for_status().json()["hits"]
        scores = {hit["path"].rpartition("/notes/")[2]: hit["score"] for hit in reversed(hits)}
        for name in reversed(scores):
            if name.startswith("langgraph-") and (item := self._item(name)):
                yield item, scores[name]


def _name(namespace: tuple[str, ...], key: str) -> str:
    """A note's name for any namespace and key."""
    return f"langgraph-{hashlib.sha256(json.dumps([namespace, key]).encode()).hexdigest()[:32]}.md"


def _matches(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    if any(name.startswith("$") for name in wanted):
        return all(value is not None and OPERATORS[name](value, each) for name, each in wanted.items())
    return isinstance(value, dict) and all(_matches(value.get(name), each) for name, each in wanted.items())


def _is_under(namespace: tuple[str, ...], condition: base.MatchCondition) -> bool:
    path = condition.path
    end = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return len(end) == len(path) and all(part in ("*", own) for part, own in zip(path, end, strict=True))


def connect(user_id: str | None = None) -> httpx2.Client:
    """The server at RECOLLECT_URL. A key in RECOLLECT_API_KEY may name the user; without one it is `me`."""
    key = os.environ.get("RECOLLECT_API_KEY")
    user = user_id or (None if key else "me")
    return httpx2.Client(
        base_url=os.environ.get("RECOLLECT_URL", "http://127.0.0.1:8600") + "/api/v1",
        headers={"Authorization": f"Bearer {key}"} if key else {},
        params={"user_id": user} if user else {},
        timeout=60,
    )


if __name__ == "__main__":
    store = RecollectStore()
    store.put(("demo", "people"), "marta", {"name": "Marta", "lives in": "Porto"})
    print(store.get(("demo", "people"), "marta"))
    print("namespaces:", store.list_namespaces(prefix=("demo",)))
    time.sleep(2)  # Search finds it after a moment.
    for found in store.search(("demo",), query="Where does Marta live?", filter={"name": "Marta"}):
        print("found:", found.value, found.score)
