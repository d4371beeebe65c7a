"""Tombstones in the vault: which messages were forgotten, and not a word of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.memory.front_matter import FORMAT_VERSION, render_front_matter, split_front_matter

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
