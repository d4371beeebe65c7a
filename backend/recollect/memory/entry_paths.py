"""Where entries stand in the vault, and where the links in them lead."""

import re

from recollect.memory.identity import turn_number
from recollect.memory.known_entry import CASES, EPISODES, FACTS, FORESIGHT, PROFILE
from recollect.memory.line_values import write_time
from recollect.memory.vault_paths import owner_of_path

PART_BYTES = 64 * 1024
"""A day's file that holds so much is continued in another."""
ENTRY_FILE_BYTES = 8_000_000
"""A longer file is none that we wrote."""

_FOLDERS = {"users": (EPISODES, FACTS, FORESIGHT), "agents": (CASES,)}
_day_file = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:-[1-9][0-9]*)?\.md").fullmatch


def entry_kind_of(path: str) -> str | None:
    """The kind of entries that a file holds, by its place; None for what is no file of entries.

    Conflict files and hidden ones are none; nor are skills, which have a form of their own.
    """
    parts = path.split("/")
    name = parts[-1]
    if ".conflict-" in name or name.startswith(".") or not name.endswith(".md"):
        return None
    if len(parts) == 4 and parts[1] == "users" and name == f"{PROFILE}.md":
        return PROFILE
    is_entry_folder = len(parts) == 5 and parts[3] in _FOLDERS.get(parts[1], ())
    return parts[3] if is_entry_folder else None


def is_entry_path(path: str) -> bool:
    return entry_kind_of(path) is not None


def entry_owner(path: str) -> str:
    """The owner's folder of a file of entries."""
    owner = owner_of_path(path)
    assert owner is not None
    return owner


def entry_day(when: int) -> str:
    """The UTC day of a time."""
    return write_time(when)[:10]


def entry_path(owner: str, kind: str, when: int, part: int = 1) -> str:
    """Where a new entry is written: the file of the day it happened, or the owner's one page."""
    if kind == PROFILE:
        return f"{owner}/{PROFILE}.md"
    suffix = "" if part == 1 else f"-{part}"
    return f"{owner}/{kind}/{entry_day(when)}{suffix}.md"


def day_of_path(path: str) -> str | None:
    """The day whose entries a file holds; None where its name is no day."""
    found = _day_file(path.rpartition("/")[2])
    return found[1] if found else None


def source_link(owner: str, thread_folder: str, part: int, turn_id: str) -> str:
    """A link to a turn: within the owner's folder, or for an agent's entry within the space."""
    space, _, _ = owner.partition("/")
    near = f"{owner}/" if thread_folder.startswith(f"{owner}/") else f"{space}/"
    return f"{thread_folder.removeprefix(near)}/{part:04d}#^{turn_id}"


def linked_turn(owner: str, link: str) -> tuple[str, str] | None:
    """The thread's folder and the turn that a link leads to; None for one that leads elsewhere."""
    target, found, turn_id = link.rpartition("#^")
    folders = target.split("/")[:-1]
    if not found or turn_number(turn_id) is None:
        return None
    if len(folders) == 2 and folders[0] == "threads":
        return f"{owner}/threads/{folders[1]}", turn_id
    if len(folders) == 4 and folders[0] == "users" and folders[2] == "threads":
        return f"{owner.partition('/')[0]}/{'/'.join(folders)}", turn_id
    return None
