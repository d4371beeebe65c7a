"""Finds the thread that a client means which resends its history: a few lookups, however many threads there are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from recollect.domain import identity
from recollect.domain.history_matching import (
    FEWEST_IN_THE_MIDDLE,
    Sighting,
    chains_of,
    longer,
    owner_root,
    pair_digest,
    said_digest,
)
from recollect.domain.model import ThreadRef, Turn
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import Database, read_transaction
from recollect.infra.journal.rows import (
    IS_NAMED_THREAD,
    T_TURN_COLUMNS,
    UNLESS_THERE,
    insert_rows,
    thread_pk,
    turn_of,
)

AT_ONCE = 500
"""Turns that one transaction takes in."""
MOST_VERSIONS = 8

FOLLOWED = "h.space, h.user_id, h.chained, h.last_number, h.revision, h.chained_revision"
"""Columns of a thread, besides `thread_pk`, that are needed to write its chains."""

# An answer that was given here has its prompt, or names the model that gave it.
TURNS_TO_CHAIN = f"""
SELECT t.pk AS turn_pk, t.model IS NOT NULL OR p.turn_pk IS NOT NULL AS given, {T_TURN_COLUMNS}
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
INSERT INTO chains (turn_pk, thread_pk, position, before, said, chain, pair, answered, silent)"""


class Link(NamedTuple):
    """What leads to a turn, and the turn, in digests: a row of `chains`, without the keys."""

    position: int
    before: int | None
    said: bytes
    chain: bytes
    pair: bytes | None
    answered: bool
    silent: bool = False


def follow_threads(connection: Connection, threads: Iterable[Row]) -> bool:
    """Write the chains of these threads; False where one transaction has taken in as much as it should."""
    room = AT_ONCE
    for thread in threads:
        if room <= 0:
            break
        count, more = follow_thread(connection, thread, room)
        room = 0 if more else room - count
    return room > 0


def follow_thread(connection: Connection, thread: Row, most: int = AT_ONCE) -> tuple[int, bool]:
    """Write the chains of a thread's next turns, up to one that is still being answered.

    `thread` has the columns of FOLLOWED. Returns how many, and whether more are left.
    """
    thread_pk, last_number, revision = thread["thread_pk"], thread["last_number"], thread["revision"]
    chained = thread["chained"] if thread["chained_revision"] == revision else 0
    found = connection.all(TURNS_TO_CHAIN, (thread_pk, chained, most))
    linked = _LinkedTurns(connection, thread_pk, owner_root(thread["space"], thread["user_id"]), found)
    waits = False
    for each in found:
        turn = turn_of(each)
        waits = turn.role == "assistant" and turn.status in ("queued", "streaming")
        if waits:
            break
        linked.add(each["turn_pk"], turn, given=bool(each["given"]))
        chained = each["position"]
    linked.write()
    if not waits and len(found) < most:
        chained = last_number
    connection.run(
        "UPDATE threads SET chained = ?, chained_revision = ? WHERE pk = ?", (chained, revision, thread_pk)
    )
    return len(found), not waits and chained < last_number


class _LinkedTurns:
    """Turns of a thread one after another, linked in memory and written at once."""

    def __init__(self, connection: Connection, thread_pk: int, root: bytes, turns: Sequence[Row]) -> None:
        self._connection = connection
        self._thread_pk = thread_pk
        self._root = root
        self._links: dict[int, list[Link]] = {}
        self._new: list[tuple[int, Link]] = []
        if turns:
            places = {"pk": thread_pk, "first": turns[0]["position"], "last": turns[-1]["position"]}
            for row in connection.all(LINKS_FROM, places):
                self._links.setdefault(row[0], []).append(Link(*row))

    def add(self, turn_pk: int, turn: Turn, *, given: bool) -> None:
        """Link a turn to what it follows, in every version that either of them had."""
        position = identity.place_of(turn)
        known = self._links.get(position, [])
        parents = self._leading_to(identity.place_before(turn.parent_id, identity.place_of(turn)))
        said = said_digest(turn)
        if said is None:
            # An empty answer stands for the turn before it: whoever goes on from either goes on from the same words.
            links = [parent._replace(position=position, silent=True) for parent in parents]
        else:
            versions = list(dict.fromkeys([said, *(link.said for link in known if not link.silent)]))
            answered = given and turn.role == "assistant"
            links = self._linked(position, parents, versions, answered=answered)
        merged = {link.chain: link for link in [*known, *links]}
        self._links[position] = list(merged.values())[:MOST_VERSIONS]
        self._new += [(turn_pk, link) for link in self._links[position] if link not in known]

    def write(self) -> None:
        rows = [(turn_pk, self._thread_pk, *link) for turn_pk, link in self._new]
        insert_rows(self._connection, INSERT_LINKS, rows, UNLESS_THERE)

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
        found = self._connection.all(LINKS_UP_TO, {"pk": self._thread_pk, "wanted": wanted})
        if found and found[0][0] > near:
            return [Link(*row) for row in found]
        return self._links.get(near, [])


MOST_SIGHTINGS = 32
_AT_ONCE = 200

# A thread whose next turn is an answer under way has nothing to take in yet.
_IS_BEHIND = """
FROM threads h INDEXED BY threads_behind_in_chains
WHERE space = :space AND user_id = :user_id AND (chained < last_number OR chained_revision != revision) AND NOT (
    chained_revision = revision AND EXISTS (
        SELECT 1 FROM turns t WHERE t.thread_pk = h.pk AND t.position = h.chained + 1 AND t.role = 'assistant'
            AND t.status IN ('queued', 'streaming')))"""
BEHIND = f"SELECT h.pk AS thread_pk, {FOLLOWED} {_IS_BEHIND} LIMIT {AT_ONCE}"

# One that is just being asked its next question has nothing for whoever doesn't send what leads to that question.
_MAY_BE_BEHIND = f"""
SELECT 1 {_IS_BEHIND} AND NOT (
    chained_revision = revision AND chained > 0 AND last_number = chained + 2
    AND EXISTS (
        SELECT 1 FROM turns t WHERE t.thread_pk = h.pk AND t.position = h.chained + 1 AND t.role = 'user'
            AND t.parent_id IS NULL)
    AND EXISTS (
        SELECT 1 FROM turns t WHERE t.thread_pk = h.pk AND t.position = h.chained + 2 AND t.role = 'assistant'
            AND t.parent_id IS NULL AND t.status IN ('queued', 'streaming'))
    AND EXISTS (SELECT 1 FROM chains c WHERE c.thread_pk = h.pk AND c.position = h.chained)
    AND NOT EXISTS (
        SELECT 1 FROM chains c WHERE c.thread_pk = h.pk AND c.position = h.chained AND instr(:chains, c.chain) > 0))"""


# One probe of the index for each digest, however many threads have it.
WHICH_EXIST = """
SELECT v.column1 AS digest FROM (VALUES {marks}) v
WHERE EXISTS (SELECT 1 FROM chains c WHERE c.{column} = v.column1 AND (:pk IS NULL OR c.thread_pk = :pk))"""

# A tip is followed by nothing but answers that broke off: it is as unanswered as one whose answer never came.
_SIGHTED = """
SELECT h.thread_id, c.thread_pk, c.position, c.answered, c.{column} AS digest,
    c.silent = 1 OR c.position < (SELECT max(position) FROM chains WHERE thread_pk = c.thread_pk) AS silent,
    NOT EXISTS (
        SELECT 1 FROM chains d JOIN turns t ON t.pk = d.turn_pk
        WHERE d.thread_pk = c.thread_pk AND d.position > c.position
            AND NOT (t.role = 'assistant' AND t.status IN ('failed', 'partial'))) AS is_tip
FROM chains c JOIN threads h ON h.pk = c.thread_pk
WHERE c.{column} = {digest} AND h.space = :space AND h.user_id = :user_id AND ({pk} IS NULL OR c.thread_pk = {pk})
ORDER BY is_tip DESC, c.turn_pk DESC LIMIT :limit"""


# For clients that resend what is known and one message more, all in one statement: in each that runs threads change
# hands. The first row says whether the chains of any thread that these may belong to are still to be written.
LOOK = f"""
WITH meant (pk) AS (SELECT CASE WHEN :thread_id IS NULL THEN NULL ELSE coalesce(
    (SELECT pk FROM threads WHERE {IS_NAMED_THREAD}), 0) END),
longest (digest) AS (
    SELECT v.column1 FROM (VALUES (:whole), (:but_one)) v, meant WHERE EXISTS (
        SELECT 1 FROM chains c WHERE c.chain = v.column1 AND (meant.pk IS NULL OR c.thread_pk = meant.pk))
    LIMIT 1)
SELECT b.is_any_behind, s.* FROM (SELECT EXISTS ({_MAY_BE_BEHIND}) AS is_any_behind) b
LEFT JOIN ({_SIGHTED.format(column="chain", digest="(SELECT digest FROM longest)", pk="(SELECT pk FROM meant)")}) s ON 1 = 1"""

BACKWARDS = """
SELECT position, before, said FROM chains WHERE thread_pk = ? AND position <= ? ORDER BY position DESC LIMIT 500"""


class SqlHistoryMatching:
    """Owners never meet: their digests differ from the first message on."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def from_the_beginning(
        self, space: str, user_id: str, said: Sequence[bytes], thread_id: str | None = None
    ) -> list[Sighting]:
        """Where the longest run of these messages ends that begins a conversation, newest first.

        What was said through other doors, or edited, since the owner's threads were last looked at is taken in first.
        """
        chains = chains_of(owner_root(space, user_id), said)
        owner = {"space": space, "user_id": user_id}

        def follow_and_look(connection: Connection) -> list[Sighting] | None:
            if not follow_threads(connection, connection.all(BEHIND, owner)):
                return None
            return _begun(connection, space, user_id, chains, thread_id)

        # Most clients resend what is known, and one message more: they need not wait for a turn to write.
        found = await self._look(owner, chains, thread_id) if len(chains) <= _AT_ONCE else None
        while found is None:
            found = await self._database.write(follow_and_look)
        return found

    async def _look(
        self, owner: Mapping[str, str], chains: Sequence[bytes], thread_id: str | None
    ) -> list[Sighting] | None:
        """None where that is not enough to know."""
        if not chains:
            return []
        bound = {
            **owner,
            "thread_id": thread_id,
            "chains": b"".join(chains),
            "whole": chains[-1],
            "but_one": chains[-2] if len(chains) > 1 else None,
            "limit": MOST_SIGHTINGS,
        }
        found = await self._database.read(LOOK, bound)
        if found[0]["is_any_behind"]:
            return None
        digest = found[0]["digest"]
        if digest is None:
            return [] if len(chains) == 1 else None
        return _sightings(found, len(chains) - (digest != chains[-1]))

    @read_transaction
    def in_the_middle(
        self,
        connection: Connection,
        space: str,
        user_id: str,
        said: Sequence[bytes],
        longer_than: int = 0,
        thread_id: str | None = None,
    ) -> list[Sighting]:
        """Where the longest run of these messages ends whatever was said before it; two at least, newest first.

        Knows what `from_the_beginning` took in.
        """
        root = owner_root(space, user_id)
        fewest = max(FEWEST_IN_THE_MIDDLE, longer_than + 1)
        ends = range(fewest, len(said) + 1)
        pairs = [pair_digest(root, said[end - 2], said[end - 1]) for end in ends]
        pk = None if thread_id is None else thread_pk(connection, ThreadRef(space, user_id, thread_id))
        for number in _that_exist(connection, "pair", pairs, pk):
            run = said[: ends[number]]
            found = [
                row
                for row in connection.all(*_sighted("pair", space, user_id, pairs[number], pk))
                if _leads_here(connection, row["thread_pk"], row["position"], run)
            ]
            if found:
                return _sightings(found, len(run))
        return []


def _begun(
    connection: Connection, space: str, user_id: str, chains: Sequence[bytes], thread_id: str | None
) -> list[Sighting]:
    pk = None if thread_id is None else thread_pk(connection, ThreadRef(space, user_id, thread_id))
    for number in _that_exist(connection, "chain", chains, pk):
        found = connection.all(*_sighted("chain", space, user_id, chains[number], pk))
        return _sightings(found, number + 1)
    return []


def _sighted(
    column: str, space: str, user_id: str, digest: bytes, pk: int | None
) -> tuple[str, dict[str, Any]]:
    bound = {"space": space, "user_id": user_id, "digest": digest, "pk": pk, "limit": MOST_SIGHTINGS}
    return _SIGHTED.format(column=column, digest=":digest", pk=":pk"), bound


def _that_exist(
    connection: Connection, column: str, digests: Sequence[bytes], pk: int | None
) -> Iterator[int]:
    """Places of the digests that are known, from the last one down."""
    for chunk in _chunks_from_the_end(len(digests)):
        bound = {f"d{number}": digests[number] for number in chunk}
        sql = WHICH_EXIST.format(marks=",".join(f"(:{name})" for name in bound), column=column)
        existing = {digest for (digest,) in connection.all(sql, {**bound, "pk": pk})}
        for number in chunk:
            if digests[number] in existing:
                yield number


def _chunks_from_the_end(count: int) -> Iterator[range]:
    """The last few first: most clients resend all and add one message."""
    high, size = count, 4
    while high > 0:
        low = max(0, high - size)
        yield range(high - 1, low - 1, -1)
        high, size = low, _AT_ONCE


def _sightings(found: Sequence[Row], known: int) -> list[Sighting]:
    """One for each thread: where several of its turns have the same past, the last of them."""
    last: dict[str, Row] = {}
    for row in found:
        if row["position"] > last.get(row["thread_id"], {"position": 0})["position"]:
            last[row["thread_id"]] = row
    return [
        Sighting(
            thread_id=thread_id,
            turn_id=identity.turn_id(row["position"]),
            known=known,
            is_tip=bool(row["is_tip"]),
            answered=bool(row["answered"]),
            silent=bool(row["silent"]),
        )
        for thread_id, row in last.items()
    ]


def _leads_here(connection: Connection, thread_pk: int, position: int, run: Sequence[bytes]) -> bool:
    """Whether just these messages lead to a turn, one right after another."""
    links: dict[int, list[Row]] = {}
    lowest = position + 1
    wanted: int | None = position
    for said in reversed(run):
        if wanted is None:
            return False
        while wanted < lowest:
            page = connection.all(BACKWARDS, (thread_pk, lowest - 1))
            if not page:
                return False
            for row in page:
                links.setdefault(row["position"], []).append(row)
            lowest = page[-1]["position"]
        same = next((row for row in links.get(wanted, ()) if row["said"] == said), None)
        if same is None:
            return False
        wanted = same["before"]
    return True
