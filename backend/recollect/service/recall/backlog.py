"""Who has added so much that search can't find yet that no more is taken from them for now."""

from collections import Counter
from collections.abc import Collection

from recollect.domain.recall.passages import NOTE_CHARS
from recollect.infra.journal.index import SqlIndexLedger
from recollect.service.recall.words import User


class Backlog:
    """Counted in messages of a user, and in passages of an owner's notes."""

    def __init__(self, ledger: SqlIndexLedger, most_behind: int) -> None:
        self._ledger = ledger
        self._most_behind = most_behind
        self._newest_turn = 0
        self._passages: Counter[str] = Counter()
        """About how many passages of notes that came through the API wait to be indexed, by owner."""
        self.overtaken: set[User] = set()
        """Users with at least `most_behind` messages that search can't find yet."""

    async def begin(self) -> None:
        """What came before a generation is opened is not held against those who add."""
        self._newest_turn = await self._ledger.newest_turn()

    async def count(self, generation: str, users: Collection[User], *, by_meaning: bool) -> None:
        """Look at these users again, and at those who were overtaken before."""
        self.overtaken = await self._ledger.users_behind(
            generation,
            self.overtaken.union(users),
            self._newest_turn,
            self._most_behind,
            by_meaning=by_meaning,
        )

    def note_came(self, owner: str, text: str) -> None:
        self._passages[owner] += 1 + len(text) // NOTE_CHARS

    def passages(self, owner: str) -> int:
        return self._passages[owner]

    def has_too_many(self, owner: str) -> bool:
        return self._passages[owner] >= self._most_behind

    def indexed(self, owner: str, passages: int) -> None:
        self._passages -= Counter({owner: passages})
