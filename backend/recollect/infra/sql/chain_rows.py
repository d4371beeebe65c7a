"""Chains as rows: written when an answer ends, or when somebody looks for a thread that is behind.

A turn has one row, and one more for every version of what leads to it: where a person edited a transcript, a
client that still sends the old words is known as well as one that sends the new ones.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.infra.sql.rows import TURN_COLUMNS, insert_rows, named_rows, turn_of
from recollect.memory import identity
from recollect.memory.model import Turn
from recollect.memory.resent import longer, owner_root, pair_digest, said_digest

AT_ONCE = 500
"""Turns that one transaction takes in."""
MOST_VERSIONS = 8

_TURN = ", ".join(f"t.{name.strip()}" for name in TURN_COLUMNS.split(","))

FOLLOWED = "h.space, h.user_id, h.chained, h.last_number, h.revision, h.chained_revision"
"""What has to be known of a thread, besides its `thread_pk`, to follow it."""

# An answer that was given here has its prompt, or names the model that gave it.
TURNS_TO_CHAIN = f"""
SELECT t.pk AS turn_pk, t.model IS NOT NULL OR p.turn_pk IS NOT NULL AS given, {_TURN}
FROM turns t LEFT JOIN prompts p ON p.turn_pk = t.pk
WHERE t.thread_pk = ? AND t.position > ? ORDER BY t.position LIMIT ?"""

LINKS_UP_TO = """
SELECT position, before, said, chain, pair, answered, silent FROM chains
WHERE thread_pk = :pk AND position = (
    SELECT max(position) FROM chains WHERE thread_pk = :pk AND position <= :wanted
)"""

# With the one before them, which most conversations go on from.
LINKS_FROM = """
SELECT position, before, said, chain, pair, answered, silent FROM chains
WHERE thread_pk = :pk AND position <= :last AND position >= coalesce(
    (SELECT max(position) FROM chains WHERE thread_pk = :pk AND position < :first), 0)"""

INSERT_LINKS = """
INSERT OR IGNORE INTO chains (turn_pk, thread_pk, position, before, said, chain, pair, answered, silent)"""


@dataclass(frozen=True, slots=True)
class Link:
    """What leads to a turn, and the turn, in digests."""

    position: int
    before: int | None
    said: bytes
    chain: bytes
    pair: bytes | None
    answered: bool
    silent: bool = False


def follow_threads(connection: sqlite3.Connection, threads: Iterable[Mapping[str, Any]]) -> bool:
    """Write the chains of these threads; False where one transaction has taken in as much as it should."""
    room = AT_ONCE
    for thread in threads:
        if room <= 0:
            break
        count, more = follow_thread(connection, thread, room)
        room = 0 if more else room - count
    return room > 0


def follow_thread(
    connection: sqlite3.Connection, thread: Mapping[str, Any], most: int = AT_ONCE
) -> tuple[int, bool]:
    """Write the chains of a thread's next turns, up to one that is still being answered.

    `thread` has the columns of FOLLOWED. Returns how many, and whether more are left.
    """
    thread_pk, last_number, revision = thread["thread_pk"], thread["last_number"], thread["revision"]
    chained = thread["chained"] if thread["chained_revision"] == revision else 0
    found = list(named_rows(connection, TURNS_TO_CHAIN, (thread_pk, chained, most)))
    stretch = _Stretch(connection, thread_pk, owner_root(thread["space"], thread["user_id"]), found)
    waits = False
    for each in found:
        turn = turn_of(each)
        waits = turn.role == "assistant" and turn.status in ("queued", "streaming")
        if waits:
            break
        stretch.add(each["turn_pk"], turn, given=bool(each["given"]))
        chained = each["position"]
    stretch.write()
    if not waits and len(found) < most:
        chained = last_number
    connection.execute(
        "UPDATE threads SET chained = ?, chained_revision = ? WHERE pk = ?", (chained, revision, thread_pk)
    )
    return len(found), not waits and chained < last_number


class _Stretch:
    """Turns of a thread one after another, linked in memory and written at once."""

    def __init__(
        self, connection: sqlite3.Connection, thread_pk: int, root: bytes, turns: Sequence[Mapping[str, Any]]
    ) -> None:
        self._connection = connection
        self._thread_pk = thread_pk
        self._root = root
        self._links: dict[int, list[Link]] = {}
        self._new: list[tuple[int, Link]] = []
        if turns:
            places = {"pk": thread_pk, "first": turns[0]["position"], "last": turns[-1]["position"]}
            for row in connection.execute(LINKS_FROM, places):
                self._links.setdefault(row[0], []).append(_link_of(row))

    def add(self, turn_pk: int, turn: Turn, *, given: bool) -> None:
        """Link a turn to what it follows, in every version that either of them had."""
        position = identity.place_of(turn)
        known = self._links.get(position, [])
        parents = self._leading_to(_place_before(turn))
        said = said_digest(turn)
        if said is None:
            # An empty answer stands for the turn before it: whoever goes on from either goes on from the same words.
            links = [replace(parent, position=position, silent=True) for parent in parents]
        else:
            versions = list(dict.fromkeys([said, *(link.said for link in known if not link.silent)]))
            answered = given and turn.role == "assistant"
            links = self._linked(position, parents, versions, answered=answered)
        merged = {link.chain: link for link in [*known, *links]}
        self._links[position] = list(merged.values())[:MOST_VERSIONS]
        self._new += [(turn_pk, link) for link in self._links[position] if link not in known]

    def write(self) -> None:
        rows = [
            (
                turn_pk, self._thread_pk, link.position, link.before, link.said, link.chain, link.pair,
                int(link.answered), int(link.silent),
            )
            for turn_pk, link in self._new
        ]  # fmt: skip
        insert_rows(self._connection, INSERT_LINKS, rows)

    def _linked(
        self, position: int, parents: Sequence[Link], versions: Sequence[bytes], *, answered: bool
    ) -> list[Link]:
        if not parents:
            return [Link(position, None, said, longer(self._root, said), None, answered) for said in versions]
        return [
            Link(
                position,
                parent.position,
                said,
                longer(parent.chain, said),
                pair_digest(self._root, parent.said, said),
                answered or parent.answered,
            )
            for parent in parents
            for said in versions
        ]

    def _leading_to(self, wanted: int) -> list[Link]:
        """Of the turn there or, where that was forgotten, of the one before it."""
        if wanted in self._links:
            return self._links[wanted]
        near = max((position for position in self._links if position <= wanted), default=0)
        found = self._connection.execute(LINKS_UP_TO, {"pk": self._thread_pk, "wanted": wanted}).fetchall()
        if found and found[0][0] > near:
            return [_link_of(row) for row in found]
        return self._links.get(near, [])


def _link_of(row: Sequence[Any]) -> Link:
    position, before, said, chain, pair, answered, silent = row
    return Link(position, before, said, chain, pair, bool(answered), bool(silent))


def _place_before(turn: Turn) -> int:
    parent = identity.turn_number(turn.parent_id) if turn.parent_id else None
    return identity.place_of(turn) - 1 if parent is None else parent
