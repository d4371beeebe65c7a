"""Which entries a person deleted, as it stands in the vault: ids alone, and not a word of them.

---
recollect: 1
kind: forgotten-entries
space: default
---

- fa-3f9a2c71d0b4 facts c-9a1f04 t-12 t-13

For a skill the ids of its cases stand in the place of turns.
"""

import re
from collections.abc import Sequence

from recollect.memory.front_matter import FORMAT_VERSION, render_front_matter, split_front_matter
from recollect.memory.known_entry import Buried

KIND = "forgotten-entries"
_NAME = "forgotten.md"
_line = re.compile(r"- (\S+) ([a-z]+) (\S+)((?: (?:t-\d+|ca-\S+))*)\s*").fullmatch


def buried_path(owner: str) -> str:
    return f"{owner}/{_NAME}"


def is_buried_path(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 4 and parts[1] in ("users", "agents") and parts[3] == _NAME


def render_buried(space: str, graves: Sequence[Buried]) -> str:
    """The same graves give the same bytes, in whatever order they come."""
    header = render_front_matter({"recollect": FORMAT_VERSION, "kind": KIND, "space": space})
    lines = [
        " ".join(["-", grave.entry_id, grave.kind, grave.cell or "-", *grave.turn_ids])
        for grave in sorted(graves, key=lambda grave: grave.entry_id)
    ]
    return header + "\n" + "".join(f"{line}\n" for line in lines)


def parse_buried(text: str) -> tuple[str | None, list[Buried]]:
    """The space, None where the front matter can't be read, and every grave that can be."""
    fields, start, _ = split_front_matter(text)
    graves = []
    for line in text.split("\n")[start - 1 :]:
        if found := _line(line):
            cell = "" if found[3] == "-" else found[3]
            graves.append(Buried(found[1], found[2], cell, tuple(found[4].split())))
    return (str(fields["space"]) if fields and "space" in fields else None), graves
