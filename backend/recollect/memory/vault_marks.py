"""What stands in the vault and is not read: marks in the place of stamps, and a listing that knows them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recollect.memory.vault_file import FileStamp

UNREADABLE = FileStamp(-1, -1)
"""Of a file or folder that is there and cannot be looked at: what it holds, and whether it changed, nobody can say."""
NOT_FOLLOWED = FileStamp(-1, -2)
"""Of a link that leads out of its owner's folder, or in a circle."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The Markdown files of the vault that can be looked at, and what is not."""

    stamps: dict[str, FileStamp]
    unreadable: frozenset[str] = frozenset()
    not_followed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, marked: Mapping[str, FileStamp]) -> "Listing":
        return cls(
            {path: stamp for path, stamp in marked.items() if stamp not in (UNREADABLE, NOT_FOLLOWED)},
            frozenset(path for path, stamp in marked.items() if stamp == UNREADABLE),
            frozenset(path for path, stamp in marked.items() if stamp == NOT_FOLLOWED),
        )

    def may_hold(self, path: str) -> bool:
        """Whether a file is there, or lies where nobody can look: only what may not be there is gone."""
        if path in self.stamps:
            return True
        return bool(self.unreadable) and any(place in self.unreadable for place in _places_of(path))


def _places_of(path: str) -> Iterator[str]:
    """The path itself, and every folder that it lies in."""
    parts = path.split("/")
    return ("/".join(parts[:number]) for number in range(len(parts), 0, -1))
