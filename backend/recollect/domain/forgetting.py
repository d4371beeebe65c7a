"""Forgetting: what was removed, and what has yet to follow. Ids and numbers only, never text."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from recollect.domain.entries.entry import Deletion
from recollect.domain.identity import key_within_user, text_digest, turn_number
from recollect.domain.job import PURGE, Job, JobSpec
from recollect.domain.markdown.front_matter import FORMAT_VERSION, render_front_matter, split_front_matter
from recollect.domain.model import JsonObject, ThreadRef
from recollect.domain.paths import owner_folder

Memories = Literal["all", "made", "none"]
"""Which memories go with a thread that is deleted; `made`: those that no person edited."""
SETTLE = "settle"
"""The step that waits for all that still worked on what was forgotten, and forgets what that left."""
OVERWRITE = "overwrite"
"""The last step: the free space of the journal."""
USER = "user"
"""Of a user: everything at once."""
NOTE = "note"
"""Of a note: its file, its rows in the index, and the prompts that quoted it."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a request to forget took away."""

    turns: int = 0
    entries: int = 0
    threads: int = 0
    turn_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Derived:
    """Entries that went because they came from forgotten turns, and what has to be derived again without them."""

    entries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Their ids, by the folder of their owner."""
    paths: tuple[str, ...] = ()
    """The files they stood in."""
    cells: tuple[tuple[ThreadRef, str], ...] = ()
    """Threads and memcells that they, or the turns, came from."""

    def __len__(self) -> int:
        return sum(map(len, self.entries.values()))

    @property
    def ids(self) -> list[str]:
        return [entry_id for ids in self.entries.values() for entry_id in ids]

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(self.entries)

    def and_cells(self, cells: Sequence[tuple[ThreadRef, str]]) -> Self:
        return replace(self, cells=tuple(dict.fromkeys([*self.cells, *cells])))


@dataclass(frozen=True, slots=True)
class Task:
    """What a job of a forgetting is about."""

    space: str
    user_id: str
    thread_id: str
    """Empty where all of a user's threads are meant."""
    turns: tuple[int, ...] | None
    """The numbers of the forgotten turns; None: all of the thread."""
    derived: Derived = Derived()
    at: int = 0
    quoting: tuple[int, ...] = ()
    """Threads whose prompts held it, by their keys in the journal."""
    titled: bool = False
    """The thread was being given a title when the turns went."""

    @property
    def thread(self) -> ThreadRef:
        return ThreadRef(self.space, self.user_id, self.thread_id)

    @property
    def key_within_user(self) -> str:
        """Of its thread."""
        return key_within_user(self.space, self.thread_id)

    def as_payload(self, step: str) -> JsonObject:
        return {
            "step": step,
            "user_id": self.user_id,
            "turns": None if self.turns is None else list(self.turns),
            "entries": {owner: list(ids) for owner, ids in self.derived.entries.items()},
            "paths": list(self.derived.paths),
            "cells": [[thread.user_id, thread.thread_id, cell] for thread, cell in self.derived.cells],
            "at": self.at,
            "quoting": list(self.quoting),
            "titled": self.titled,
        }


def task_of(job: Job) -> Task:
    told: Mapping[str, Any] = job.payload
    turns = told.get("turns")
    derived = Derived(
        {owner: tuple(ids) for owner, ids in told.get("entries", {}).items()},
        tuple(told.get("paths", ())),
        tuple(
            (ThreadRef(job.space, user_id, thread_id), cell)
            for user_id, thread_id, cell in told.get("cells", ())
        ),
    )
    return Task(
        job.space,
        str(told["user_id"]),
        job.thread_id or "",
        None if turns is None else tuple(turns),
        derived,
        int(told.get("at", 0)),
        tuple(told.get("quoting", ())),
        bool(told.get("titled", False)),
    )


def forget_lane(name: str) -> str:
    """The lane of what is still to be forgotten of a thread (by its key) or an owner (by its folder)."""
    return f"forget:{name}"


def purge_job(task: Task, lane: str, payload: JsonObject) -> JobSpec:
    """Each forgetting has its own: none does for another, unless it is about the very same."""
    digest = text_digest(json.dumps(payload, ensure_ascii=False))[:16]
    return JobSpec(PURGE, lane, payload, f"{task.user_id}:{digest}")


def settle_job(task: Task, name: str) -> JobSpec:
    """The job that waits for all that still work with the words, in the lane of that thread or owner."""
    return purge_job(task, forget_lane(name), task.as_payload(SETTLE))


OVERWRITE_LANE = "forget"
"""One lane for the journal's free space: many who forget at once wait for one overwriting."""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One version of one owner's rows in the index, as it is on the disk: the newest, or one before it."""

    generation: str
    owner: str
    """Empty where there are no rows."""
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """The id of each row, and of an entry's the turns it came from."""


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Every tombstone, told apart from what is there: a number of one user's thread may be another user's turn."""

    forgotten: Mapping[tuple[str, str, str], frozenset[int]]
    """By space, user and the key of the thread: the numbers of the turns that are forgotten."""
    threads: Mapping[tuple[str, str], tuple[str, str]]
    """By the folder of its owner and its own: the key of each thread that is there, and its user."""

    _by_owner: dict[str, dict[str, frozenset[int]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for (space, user_id, key), numbers in self.forgotten.items():
            self._by_owner.setdefault(owner_folder(space, user_id), {})[key] = numbers

    def __len__(self) -> int:
        return sum(map(len, self.forgotten.values()))

    def holds(self, space: str, user_id: str, key: str, number: int) -> bool:
        return number in self.forgotten.get((space, user_id, key), ())

    def of_thread(self, space: str, user_id: str, key: str) -> frozenset[int]:
        return self.forgotten.get((space, user_id, key), frozenset())

    def is_gone(self, folder: str, turn_id: str) -> bool:
        """Whether the turn that a link leads to was forgotten, or its whole thread. `folder` is the thread's."""
        owner, _, name = folder.partition("/threads/")
        there = self.threads.get((owner, name))
        if there is None:
            return bool(self.of_owner(owner))
        return (turn_number(turn_id) or 0) in self.of_owner(owner).get(there[0], ())

    def of_owner(self, owner: str) -> Mapping[str, frozenset[int]]:
        """By the keys of an owner's threads."""
        return self._by_owner.get(owner, {})


@dataclass(frozen=True, slots=True)
class Looked:
    """One kind of thing that was looked at."""

    what: str
    number: int
    found: int
    """How many of them should not be there."""


Tombstone = tuple[str, str, str, str, int]
"""Space, user, the key of the thread, the key of the message, and the number of the turn."""


ForgottenNumbers = dict[tuple[str, str, str], set[int]]
"""By space, user and the key of the thread: the numbers of the turns that are forgotten."""


@dataclass(slots=True)
class Remembered:
    """What was deleted or forgotten, and which versions of files were ours. No texts."""

    tombstones: set[Tombstone] = field(default_factory=set)
    deletions: dict[tuple[str, str], tuple[str, Deletion]] = field(default_factory=dict)
    """By space and entry: the owner's folder, and the deletion."""
    versions: dict[tuple[str, str], bool] = field(default_factory=dict)
    """By the key of a file and a digest, the oldest first: whether the file is gone."""
    gone_cases: set[str] = field(default_factory=set)
    """Forgotten cases, whose words may still be in old copies of skills."""
    a_key_existed: bool = False

    def take(self, line: str) -> None:
        """One line of the ledger. One that is damaged, or of a kind that this version does not know, says nothing."""
        try:
            kind, *told = json.loads(line)
            self._take(kind, told)
        except (ValueError, TypeError, IndexError):
            return

    def _take(self, kind: str, told: list[Any]) -> None:
        if kind == "turn":
            space, user_id, thread, message, number = told
            self.tombstones.add((str(space), str(user_id), str(thread), str(message), int(number)))
        elif kind == "entry":
            space, owner, entry_id, entry_kind, cell, turn_ids = told
            deletion = Deletion(str(entry_id), str(entry_kind), str(cell), tuple(map(str, turn_ids)))
            self.deletions[str(space), str(entry_id)] = str(owner), deletion
        elif kind == "entry restored":
            self.deletions.pop((told[0], told[1]), None)
        elif kind == "file":
            self.versions |= {(str(told[0]), str(digest)): True for digest in told[1]}
        elif kind == "file restored":
            self.versions.pop((told[0], told[1]), None)
        elif kind == "case":
            self.gone_cases.add(str(told[0]))
        elif kind == "key":
            self.a_key_existed = True

    def add(self, other: "Remembered") -> None:
        """What `other` says of a version of a file counts, and is newer."""
        self.tombstones |= other.tombstones
        self.deletions |= other.deletions
        mine = {version: gone for version, gone in self.versions.items() if version not in other.versions}
        self.versions = mine | other.versions
        self.gone_cases |= other.gone_cases
        self.a_key_existed |= other.a_key_existed

    def forgotten_numbers(self) -> ForgottenNumbers:
        found: ForgottenNumbers = {}
        for space, user_id, thread, _, number in self.tombstones:
            found.setdefault((space, user_id, thread), set()).add(number)
        return found

    def lines(self) -> list[str]:
        """All that the ledger holds of it."""
        gone: dict[str, list[str]] = {}
        for (file, digest), is_gone in self.versions.items():
            if is_gone:
                gone.setdefault(file, []).append(digest)
        return [
            *map(turn_line, sorted(self.tombstones)),
            *(entry_line(space, owner, deletion) for (space, _), (owner, deletion) in self.deletions.items()),
            *(file_line(file, digests) for file, digests in gone.items()),
            *map(case_line, sorted(self.gone_cases)),
            *([KEY_LINE] if self.a_key_existed else []),
        ]


def turn_line(tombstone: Tombstone) -> str:
    return _ledger_line("turn", *tombstone)


def entry_line(space: str, owner: str, deletion: Deletion) -> str:
    """Without the digest of what it said: nothing is ever removed from the ledger, not even by forgetting a user."""
    return _ledger_line(
        "entry", space, owner, deletion.entry_id, deletion.kind, deletion.cell, list(deletion.turn_ids)
    )


def entry_restored_line(space: str, entry_id: str) -> str:
    return _ledger_line("entry restored", space, entry_id)


def file_line(file: str, digests: Sequence[str]) -> str:
    return _ledger_line("file", file, list(digests))


def file_restored_line(file: str, digest: str) -> str:
    return _ledger_line("file restored", file, digest)


def case_line(entry_id: str) -> str:
    return _ledger_line("case", entry_id)


def _ledger_line(*told: object) -> str:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


KEY_LINE = _ledger_line("key")
"""An API key was made."""

_LINE = re.compile(r"^- t-(\d+) ([0-9a-f]{64})\s*$")


@dataclass(frozen=True, slots=True)
class TombstoneFile:
    """What was forgotten of one thread, which is named by its key."""

    space: str
    user_id: str
    thread_key: str
    messages: tuple[tuple[int, str], ...]
    """(turn number, message key)"""


def render_tombstones(file: TombstoneFile) -> str:
    header = render_front_matter(
        {
            "recollect": FORMAT_VERSION,
            "kind": "forgotten",
            "space": file.space,
            "owner": f"users/{file.user_id}",
            "thread": file.thread_key,
        }
    )
    return header + "\n" + "".join(f"- t-{number} {key}\n" for number, key in file.messages)


def parse_tombstones(text: str) -> tuple[TombstoneFile | None, Sequence[str]]:
    """The file, or None when its front matter is beyond repair; and what could not be read."""
    fields, start, found = split_front_matter(text)
    problems = [problem.message for problem in found]
    if fields is None or not {"space", "owner", "thread"} <= fields.keys():
        return None, [*problems, "the front matter lacks space, owner or thread"]
    messages = []
    for number, line in enumerate(text.split("\n")[start - 1 :], start):
        if match := _LINE.match(line):
            messages.append((int(match[1]), match[2]))
        elif line.strip():
            problems.append(f"line {number} is no tombstone")
    user_id = str(fields["owner"]).removeprefix("users/")
    return TombstoneFile(str(fields["space"]), user_id, str(fields["thread"]), tuple(messages)), problems


KIND = "forgotten-entries"
_NAME = "forgotten.md"
_line = re.compile(
    r"- (\S+) ([a-z]+) (\S+)((?: (?:t-\d+|ca-\S+))*)(?: said (\d{1,15}) as ([0-9a-f]+))?\s*"
).fullmatch


def deletions_path(owner: str) -> str:
    return f"{owner}/{_NAME}"


def is_deletions_path(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 4 and parts[1] in ("users", "agents") and parts[3] == _NAME


def render_deletions(space: str, deletions: Sequence[Deletion]) -> str:
    """The same deletions give the same bytes, in whatever order they come."""
    header = render_front_matter({"recollect": FORMAT_VERSION, "kind": KIND, "space": space})
    lines = [_deletion_line(each) for each in sorted(deletions, key=lambda each: each.entry_id)]
    return header + "\n" + "".join(f"{line}\n" for line in lines)


def _deletion_line(deletion: Deletion) -> str:
    said = ["said", str(deletion.said), "as", deletion.statement] if deletion.statement else []
    return " ".join(["-", deletion.entry_id, deletion.kind, deletion.cell or "-", *deletion.turn_ids, *said])


def parse_deletions(text: str) -> tuple[str | None, list[Deletion]]:
    """The space, None where the front matter can't be read, and every deletion that can be."""
    fields, start, _ = split_front_matter(text)
    deletions = []
    for line in text.split("\n")[start - 1 :]:
        if found := _line(line):
            cell = "" if found[3] == "-" else found[3]
            said = (found[6], int(found[5])) if found[6] else ("", 0)
            deletions.append(Deletion(found[1], found[2], cell, tuple(found[4].split()), *said))
    return (str(fields["space"]) if fields and "space" in fields else None), deletions
