"""A skill as the file `skills/<name>/SKILL.md`, in the form that agents read.

---
name: free-disk-space
description: Frees space on a full disk. Use when a job fails because the disk is full.
metadata:
  recollect: 1
  tools: [disk_usage, delete_files]
  cases: [ca-3f9a2c71d0aa, ca-77b1c2d3e4f5]
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
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from recollect.domain.extraction.answer import plain_line
from recollect.domain.extraction.skill import Example, Skill
from recollect.domain.markdown.front_matter import (
    FORMAT_VERSION,
    Problem,
    as_text,
    render_front_matter,
    split_front_matter,
)

WHEN, STEPS, PITFALLS, EXAMPLES = "When to use", "Steps", "Pitfalls", "Examples"
OURS = frozenset(["recollect", "tools", "cases", "edited", "by", "basis", "digest"])
"""What we write into `metadata`; anything else there is a person's."""

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
    header = render_front_matter({"name": skill.name, "description": skill.description})
    header = header.removesuffix("---\n") + render_metadata(skill) + "---\n"
    title = skill.name.replace("-", " ").capitalize()
    return "\n".join([header, f"# {title}\n", *_rendered_sections(skill)])


def render_metadata(skill: Skill, others: Iterable[str] = ()) -> str:
    """The property `metadata`: ours, and the lines that a person wrote there beside."""
    values: dict[str, Any] = {"recollect": FORMAT_VERSION, "tools": skill.tools, "cases": skill.cases}
    told = {"edited": skill.edited, "by": skill.by, "basis": skill.basis, "digest": skill.digest}
    values |= {name: value for name, value in told.items() if value}
    lines = [*render_front_matter(values).split("\n")[1:-2], *others]
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


def _texts(value: Any) -> tuple[str, ...]:
    return (
        tuple(text for each in value if (text := as_text(each)) is not None)
        if isinstance(value, list)
        else ()
    )
