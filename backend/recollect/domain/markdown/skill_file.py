"""A skill as the file `skills/<name>/SKILL.md`, in the form of the Agent Skills specification.

---
name: free-disk-space
description: Frees space on a full disk. Use when a job fails because the disk is full.
metadata:
  recollect: "1"
  tools: "disk_usage, delete_files"
  cases: "ca-3f9a2c71d0aa, ca-77b1c2d3e4f5"
  by: qwen3-8b
  basis: 0c3d5ae9b1f2
  digest: a17d90c2be54
---

# Free disk space

## When to use
- A log says that the disk is full.

## Steps
1. Look at the free space with `disk_usage`.

## Pitfalls
- Do not delete archives before checking that newer ones exist.

## Examples
- [[cases/2026-05-08#^ca-3f9a2c71d0aa]] worked: Find out why the nightly backup failed

The specification wants texts below `metadata`, and its validator reads no lists in brackets. Files that have them
are read, and written with texts when they are next written.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.domain.extraction.answer import plain_line
from recollect.domain.extraction.skill import MAX_DESCRIPTION, Example, Skill
from recollect.domain.markdown.front_matter import (
    FORMAT_VERSION,
    Problem,
    as_text,
    read_json,
    render_front_matter,
    split_front_matter,
    write_json,
)

WHEN, STEPS, PITFALLS, EXAMPLES = "When to use", "Steps", "Pitfalls", "Examples"
OURS = frozenset(["recollect", "tools", "cases", "edited", "by", "basis", "digest"])
"""What we write into `metadata`; anything else there is a person's."""

_OPTIONAL = {"license": None, "compatibility": 500, "allowed-tools": None}
"""Properties that the specification allows a person to add, with the most characters that each may have."""

TOP = "(top)"
"""The text above the first section."""

_heading = re.compile(r"##\s+(.*?)\s*#*").fullmatch
_fence = re.compile(r"\s{0,3}(`{3,}|~{3,})").match
_item = re.compile(r"\s{0,3}(?:[-*+]|\d{1,3}[.)])\s+(.*)").fullmatch
_example = re.compile(r"\[\[([^\[\]]+)\]\]\s*(?:(\w+):)?\s*(.*)").fullmatch


@dataclass(frozen=True, slots=True)
class ParsedSkill:
    """What a file says; no skill where its front matter is damaged."""

    skill: Skill | None
    problems: tuple[Problem, ...] = ()


def render_skill(skill: Skill) -> str:
    """The whole file. The same skill gives the same bytes."""
    title = skill.name.replace("-", " ").capitalize()
    return "\n".join([_rendered_header(skill), f"# {title}\n", *_rendered_sections(skill)])


def for_agents(text: str, name: str) -> str:
    """A skill's file under a name that the specification allows, in the form that its validator accepts.

    What a person added to the front matter beyond the specification is text below `metadata`. Raises ValueError for
    a file that is no skill.
    """
    skill = parse_skill(text).skill
    mapping, body_line, _ = split_front_matter(text)
    if skill is None or mapping is None:
        raise ValueError("the front matter can't be read")
    description = (skill.description or skill.name)[:MAX_DESCRIPTION]
    metadata = mapping.get("metadata")
    others = {**mapping, **(metadata if isinstance(metadata, dict) else {})}
    optional = {
        key: plain[:most] for key, most in _OPTIONAL.items() if (plain := _plain_value(mapping.get(key), " "))
    }
    ours = {"name", "description", "metadata", *OURS, *_OPTIONAL}
    theirs = {str(key).replace("--", "-"): each for key, each in others.items() if key not in ours}
    lines = [property_line(key, _plain_value(each)) for key, each in theirs.items()]
    body = text.removeprefix("\ufeff").split("\n")[body_line - 1 :]
    return _rendered_header(replace(skill, name=name, description=description), optional, lines) + "\n".join(
        body
    )


def refused_by_agents(text: str) -> str | None:
    """What of a person's front matter the specification doesn't allow; None where it allows all of it."""
    found, body_line, _ = split_front_matter(text)
    mapping = found or {}
    metadata = mapping.get("metadata", {})
    if any("---" in line for line in text.split("\n")[1 : body_line - 2]):
        return "three hyphens end the front matter for some agents"
    if len(as_text(mapping.get("description")) or "") > MAX_DESCRIPTION:
        return f"the description must have {MAX_DESCRIPTION} characters at most"
    for key in mapping:
        if key not in ("name", "description", "metadata", *_OPTIONAL):
            return f"{key}: a property of your own goes below metadata"
    for key, most in _OPTIONAL.items():
        if key in mapping and (as_text(mapping[key]) is None or len(str(mapping[key])) > (most or len(text))):
            return f"{key}: must be a text" + (f" of {most} characters at most" if most else "")
    if not isinstance(metadata, dict):
        return "metadata: must hold properties"
    theirs = {key: each for key, each in metadata.items() if key not in OURS}
    return next(
        (f"metadata: {key} must be a text" for key, each in theirs.items() if as_text(each) is None), None
    )


def _plain_value(value: Any, between: str = ", ") -> str:
    """What YAML holds, as one text."""
    if isinstance(value, list) and all(as_text(each) is not None for each in value):
        return between.join(str(as_text(each)) for each in value)
    text = as_text(value)
    return plain_line("" if value is None else write_json(value) if text is None else text)


def _rendered_header(
    skill: Skill, optional: Mapping[str, str] | None = None, others: Iterable[str] = ()
) -> str:
    values = {"name": skill.name, "description": skill.description, **(optional or {})}
    lines = [property_line(key, value) for key, value in values.items()]
    return "\n".join(["---", *lines, f"{render_metadata(skill, others)}---\n"])


def property_line(name: str, value: str) -> str:
    """One property. Without `---`, at which the validator ends the front matter, wherever it stands."""
    line = render_front_matter({name: value}).split("\n")[1]
    if "---" not in line:
        return line
    written = line.removeprefix(f"{name}: ")
    quoted = written if written.startswith('"') else f'"{written}"'
    return f"{name}: " + quoted.replace("--", "-\\u002d")


def render_metadata(skill: Skill, others: Iterable[str] = ()) -> str:
    """The property `metadata`: ours, and the lines that a person wrote there beside."""
    lists = {"tools": skill.tools, "cases": skill.cases, "edited": skill.edited}
    told = {"by": skill.by, "basis": skill.basis, "digest": skill.digest}
    values = {
        "recollect": str(FORMAT_VERSION),
        **{key: _one_text(each) for key, each in lists.items()},
        **told,
    }
    lines = [*(property_line(key, value) for key, value in values.items() if value), *others]
    return "metadata:\n" + "".join(f"  {line}\n" for line in lines)


def parse_skill(text: str) -> ParsedSkill:
    """The skill in a file that people may have changed, and what is wrong with it. Never raises."""
    mapping, body_line, problems = split_front_matter(text)
    if mapping is None:
        return ParsedSkill(None, problems)
    name, description = as_text(mapping.get("name")), as_text(mapping.get("description"))
    if name is None:
        return ParsedSkill(None, (*problems, Problem(1, "the front matter has no name")))
    metadata = mapping.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    sections = dict(sections_of(text, body_line))
    return ParsedSkill(
        Skill(
            name=name,
            description=plain_line(description or ""),
            when=_items(sections.get(WHEN.casefold(), "")),
            steps=_items(sections.get(STEPS.casefold(), "")),
            pitfalls=_items(sections.get(PITFALLS.casefold(), "")),
            examples=tuple(_examples(sections.get(EXAMPLES.casefold(), ""))),
            tools=_texts(metadata.get("tools")),
            cases=_texts(metadata.get("cases")),
            edited=_texts(metadata.get("edited")),
            by=as_text(metadata.get("by")) or "",
            basis=as_text(metadata.get("basis")) or "",
            digest=as_text(metadata.get("digest")) or "",
        ),
        problems,
    )


def sections_of(text: str, body_line: int) -> list[tuple[str, str]]:
    """The body in pieces: the text above the first section (TOP), then each section with its heading.

    Titles are without case. Joined, the pieces are the body. A heading in a code fence is text; of two sections with
    one title the second belongs to the first.
    """
    pieces: list[tuple[str, list[str]]] = [(TOP, [])]
    fence: str | None = None
    for line in text.removeprefix("\ufeff").split("\n")[body_line - 1 :]:
        opened = _fence(line)
        if opened and (fence is None or opened[1].startswith(fence)):
            fence = opened[1] if fence is None else None
        found = _heading(line.rstrip()) if fence is None else None
        title = found[1].casefold() if found else ""
        if found and title and title not in [known for known, _ in pieces]:
            pieces.append((title, []))
        pieces[-1][1].append(line)
    return [(title, "\n".join(lines)) for title, lines in pieces]


def item_of(line: str) -> str | None:
    """The text of an item of a list; None for any other line."""
    found = _item(line)
    return plain_line(found[1]) if found else None


def _rendered_sections(skill: Skill) -> Iterator[str]:
    """Those that have something in them."""
    lists = {
        WHEN: [f"- {line}" for line in skill.when],
        STEPS: [f"{number}. {line}" for number, line in enumerate(skill.steps, 1)],
        PITFALLS: [f"- {line}" for line in skill.pitfalls],
        EXAMPLES: [f"- [[{each.link}]] {each.outcome}: {each.task}".rstrip() for each in skill.examples],
    }
    return ("\n".join([f"## {title}", *lines, ""]) for title, lines in lists.items() if lines)


def _items(section: str) -> tuple[str, ...]:
    """The items of a list or the paragraphs of a section; an item's further lines belong to it."""
    items: list[str] = []
    is_open = False
    for line in section.split("\n")[1:]:
        found = _item(line)
        if found or (line.strip() and not is_open):
            items.append(found[1] if found else line)
        elif line.strip():
            items[-1] += f" {line}"
        is_open = bool(line.strip())
    return tuple(plain for item in items if (plain := plain_line(item)))


def _examples(section: str) -> Iterator[Example]:
    for item in _items(section):
        if found := _example(item):
            yield Example(found[1], found[2] or "unclear", found[3])


def _one_text(values: Sequence[str]) -> str:
    """A list as one text: with commas, or as JSON where a comma or blanks around a value would be lost."""
    is_plain = all(value and value == value.strip() and "," not in value for value in values)
    return (
        ", ".join(values)
        if is_plain and not "".join(values[:1]).startswith("[")
        else write_json(list(values))
    )


def _texts(value: Any) -> tuple[str, ...]:
    """A list as `_one_text` writes it, or in YAML."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = read_json(value)
        except ValueError:
            return ()
    if isinstance(value, str | int):
        return tuple(part for each in str(value).split(",") if (part := each.strip()))
    return (
        tuple(text for each in value if (text := as_text(each)) is not None)
        if isinstance(value, list)
        else ()
    )
