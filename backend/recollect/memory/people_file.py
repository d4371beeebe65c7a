"""The files in which presets and preferences stand, and what is known of them."""

from dataclasses import dataclass

from recollect.memory.file_names import file_name
from recollect.memory.preferences import Preferences, parse_preferences, render_preferences
from recollect.memory.preset import Preset, parse_preset, render_preset

PEOPLE_BYTES = 4_000_000
"""A longer file is no preset."""


@dataclass(frozen=True, slots=True)
class PeopleFile:
    """One such file, as the journal knows it."""

    path: str
    holds: Preset | Preferences | None
    """What is in force; None where it was deleted and the file has yet to go."""
    revision: int
    """Counts the changes of what is in force."""
    written: int = 0
    """The revision that the file holds."""
    digest: str | None = None
    """Of the file as it was last written or taken in."""
    writing: str | None = None
    """Digests of what may have been put in place since."""

    @property
    def is_written(self) -> bool:
        return self.written == self.revision

    @property
    def digests(self) -> frozenset[str]:
        """Of all that we may have put in place, or have taken in."""
        return frozenset([*([self.digest] if self.digest else []), *(self.writing or "").split()])


def render_people_file(holds: Preset | Preferences) -> str:
    return render_preset(holds) if isinstance(holds, Preset) else render_preferences(holds)


def read_people_file(path: str, text: str) -> tuple[Preset | Preferences, tuple[str, ...]]:
    """What a file holds, and what it holds beside. Raises ValueError, in words, where it can't be read.

    A file that a person made need not say whose it is: its place does.
    """
    folder, *_, owner, name = path.split("/")
    holds: Preset | Preferences
    if owner == "presets":
        holds, beside = parse_preset(text, space=folder, name=name.removesuffix(".md"))
    else:
        holds, beside = parse_preferences(text, space=folder, user_id=owner)
        if file_name(holds.user_id) != owner:
            raise ValueError(f"its front matter names another user than the folder {owner}")
    if file_name(holds.space) != folder:
        raise ValueError(f"its front matter names another space than the folder {folder}")
    return holds, beside
