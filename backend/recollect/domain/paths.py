"""Where things lie in the vault. Ids from outside become path parts here and nowhere else."""

import hashlib
import re
import unicodedata

from recollect.domain.entries.entry import CASES, EPISODES, FACTS, FORESIGHT, PROFILE
from recollect.domain.identity import turn_number
from recollect.domain.markdown.front_matter import write_time

_plain = re.compile(r"[a-z0-9](?:[a-z0-9_-]|\.(?=[a-z0-9_-])){0,63}").fullmatch
DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))]
)
"""Names that no file may have on Windows."""
_MAX_CHARACTERS = 40
_MAX_BYTES = 120


def file_name(identifier: str) -> str:
    """The id itself where it is plain on every system, else a readable slug, `~` and 20 hex of its digest.

    Two ids never share a name, not even where a disk ignores case or normalises Unicode: a plain name has
    no `~`, and digests differ.
    """
    if _plain(identifier) and identifier.partition(".")[0] not in DEVICES:
        return identifier
    digest = hashlib.sha256(identifier.encode()).hexdigest()[:20]
    return f"{_slug(identifier) or 'id'}~{digest}"


_not_portable = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]|^[. ]|[. ]$').search


def kept_name(name: str) -> str:
    """The name that a person gave a file, where every system can have it: links name it. Else as `file_name` has it."""
    stem, dot, ending = name.rpartition(".")
    is_short = len(name.encode("utf-8", "replace")) <= _MAX_BYTES + _MAX_CHARACTERS
    if is_short and not _not_portable(name) and (stem or ending).lower() not in DEVICES:
        return unicodedata.normalize("NFC", name)
    return f"{file_name(stem)}.{ending}" if dot and is_markdown(name) else file_name(name)


def _slug(identifier: str) -> str:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", identifier).casefold())
    kept = "".join(char if char in "-_" or unicodedata.category(char)[0] in "LMN" else " " for char in folded)
    slug = re.sub(r"[ -]+", "-", kept)
    begin = 0
    while begin < len(slug) and (slug[begin] == "-" or _is_mark(slug[begin])):
        begin += 1
    return _cut(slug[begin:]).rstrip("-")


def _cut(slug: str) -> str:
    """Within the limits of characters and bytes, and no base character apart from its marks."""
    end = min(len(slug), _MAX_CHARACTERS)
    while len(slug[:end].encode()) > _MAX_BYTES:
        end -= 1
    while 0 < end < len(slug) and _is_mark(slug[end]):
        end -= 1
    return slug[:end]


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] == "M"


AGENT = "agent"
"""The agent of threads that name none."""
MARKDOWN_ENDINGS = (".md", ".markdown")
_INDEX = "index.md"


def owner_folder(space: str, user_id: str) -> str:
    """A user's folder. It names the user everywhere an owner has to be named: different users, different folders."""
    return f"{file_name(space)}/users/{file_name(user_id)}"


def agent_folder(space: str, agent_id: str | None) -> str:
    """An agent's folder; all that have no id share one."""
    return f"{file_name(space)}/agents/{file_name(agent_id or AGENT)}"


def owner_of_path(path: str) -> str | None:
    """The owner's folder that a path lies in; None for what is nobody's."""
    parts = path.split("/")
    return "/".join(parts[:3]) if len(parts) > 3 and parts[1] in ("users", "agents") else None


def is_markdown(path: str) -> bool:
    """By its name, however people and their editors write the ending."""
    return path.lower().endswith(MARKDOWN_ENDINGS)


def is_note(path: str) -> bool:
    """Whatever Markdown a person puts into `notes/`."""
    parts = path.split("/")
    in_notes = len(parts) > 4 and parts[1] in ("users", "agents") and parts[3] == "notes"
    return in_notes and is_markdown(path)


def notes_folder(path: str) -> str | None:
    """The folder of all notes of its owner; None for a file that is no note."""
    return f"{owner_of_path(path)}/notes" if is_note(path) else None


def thread_folder(space: str, user_id: str, thread_id: str) -> str:
    return f"{owner_folder(space, user_id)}/threads/{file_name(thread_id)}"


def transcript_path(space: str, user_id: str, thread_id: str, part: int) -> str:
    return f"{thread_folder(space, user_id, thread_id)}/{part:04d}.md"


def forgotten_path(space: str, user_id: str, thread_key: str) -> str:
    """The tombstones of one thread: they name it by its key, never by its id."""
    return f"{owner_folder(space, user_id)}/forgotten/{thread_key}.md"


def preset_path(space: str, key: str) -> str:
    """Where a new preset is written; one that a person made may lie beside it under any name."""
    return f"{file_name(space)}/presets/{file_name(key)}.md"


def preferences_path(space: str, user_id: str) -> str:
    return f"{owner_folder(space, user_id)}/preferences.md"


def index_path(owner: str) -> str:
    """The note with links to a user's other files."""
    return f"{owner}/{_INDEX}"


def is_index_path(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 4 and parts[1] == "users" and parts[3] == _INDEX


def is_people_file(path: str) -> bool:
    """A preset (`<space>/presets/<name>.md`) or a user's preferences. Conflict files and hidden ones are neither."""
    parts = path.split("/")
    name = parts[-1]
    if ".conflict-" in name or name.startswith(".") or not name.endswith(".md"):
        return False
    if len(parts) == 3:
        return parts[1] == "presets"
    return len(parts) == 4 and parts[1] == "users" and name == "preferences.md"


_copy_name = re.compile(r"(.+?)(?: \(.+\)| [0-9]{1,3}|[._]sync-conflict-.+|_conflict-.+)").fullmatch
"""As sync tools name a second version: `x (conflicted copy).md`, `x.sync-conflict-….md`, `x 2.md`."""


_note_copy_name = re.compile(
    r"(.+?)(?: \((?:.+ )?conflicted copy(?: .+)?\)|\.sync-conflict-[0-9]{8}-[0-9]{6}-.+)"
).fullmatch
"""Of a note, which may be called `x (draft)` or `x 2`, only what no person writes."""


def copied_path(path: str) -> str | None:
    """The file that a sync tool's conflict copy was made of, by its name; None for any other name.

    Whether it is one depends on whose that file is, or whether it is there.
    """
    folder, _, name = path.rpartition("/")
    match = _note_copy_name if is_note(path) else _copy_name
    found = match(name.removesuffix(".md")) if name.endswith(".md") else None
    return f"{folder}/{found[1]}.md" if found else None


def copies_last(path: str) -> tuple[bool, str, int, str]:
    """Sorts paths so that a file comes before its copies, whose names are longer."""
    return copied_path(path) is not None, path.rpartition("/")[0], len(path), path


PART_BYTES = 64 * 1024
"""A day's file of this size is continued in another."""
ENTRY_FILE_BYTES = 8_000_000
"""We never write a longer file."""

_FOLDERS = {"users": (EPISODES, FACTS, FORESIGHT), "agents": (CASES,)}
_day_file = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:-[1-9][0-9]*)?\.md").fullmatch


def entry_kind_of(path: str) -> str | None:
    """The kind of entries in a file, by its path; None for any other file.

    Conflict files, hidden files and skills, which have a form of their own, are no files of entries.
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


def is_own_name(path: str) -> bool:
    """Whether a file has a name that we give to transcripts, entries or preferences."""
    is_page = path.endswith((f"/{PROFILE}.md", "/preferences.md"))
    return is_page or "/threads/" in path or day_of_path(path) is not None


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


def skill_path(owner: str, name: str) -> str:
    return f"{owner}/skills/{name}/SKILL.md"


def is_skill_path(path: str) -> bool:
    """Whatever folder of an agent's skills a person put it in."""
    parts = path.split("/")
    return len(parts) >= 6 and (parts[1], parts[3], parts[-1]) == ("agents", "skills", "SKILL.md")


def skill_folder(path: str) -> str:
    """The folder of a file below the agent's skills: the skill's name, unless a person chose another."""
    return "/".join(path.split("/")[4:-1])
