"""Merges a new version of a skill into a file that a person may have changed, section by section."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.domain.extraction.answer import plain_line
from recollect.domain.extraction.skill import Skill
from recollect.domain.markdown.front_matter import split_front_matter
from recollect.domain.markdown.skill_file import (
    OURS,
    item_of,
    parse_skill,
    property_line,
    render_metadata,
    render_skill,
    sections_of,
)

DESCRIPTION = "description"
_key = re.compile(r"([^\s#:'\"-][^:]*?)\s*:(?:\s|$)").match
_Sections = dict[str, str]


@dataclass(frozen=True, slots=True)
class MergedSkill:
    """The file as it is to be written."""

    text: str
    kept: tuple[str, ...] = ()
    """What is a person's, from now on: titles of sections, `description`."""
    conflicts: tuple[str, ...] = ()
    """Of these, what the improvement would have changed for the first time; the person's version is kept."""


def merge_skill(
    last_written: str | None, current: str | None, improved: Skill, *, renamed: bool = False
) -> MergedSkill:
    """The improved skill over the current file, with everything that a person changed since we last wrote it.

    Without `last_written` (the journal is new), a file that has the digest it was written with counts as that; in any
    other, whatever differs is taken for a person's. A file whose front matter can't be read stays as it is, and is
    reported. Its name stays as it is in the file, unless `renamed`.
    """
    if current is None:
        return MergedSkill(render_skill(improved), improved.edited)
    parsed = parse_skill(current)
    if parsed.skill is None:
        return MergedSkill(current, conflicts=("front matter",))
    if last_written is None and is_as_written(current):
        last_written = current
    before, now, new = _sections(last_written), _sections(current), _sections(render_skill(improved))
    base = parse_skill(last_written).skill if last_written is not None else None
    marked = parsed.skill if parsed.skill.cases or base is None else base
    owned_before = set(marked.edited)
    owned = _owned(before if last_written is not None else None, now, new, owned_before)
    conflicts = [title for title in sorted(owned - owned_before) if _differs(new, now, title)]
    description = parsed.skill.description
    if DESCRIPTION in owned_before or (base or improved).description != description:
        if DESCRIPTION not in owned_before and description != improved.description:
            conflicts.append(DESCRIPTION)
        owned.add(DESCRIPTION)
    improved = replace(
        improved,
        name=improved.name if renamed else parsed.skill.name,
        description=description if DESCRIPTION in owned else improved.description,
        edited=tuple(sorted(owned)),
    )
    stale = {title for title in before if title not in new and not _differs(before, now, title)}
    body = _body({title: text for title, text in now.items() if title not in stale}, new, owned)
    return MergedSkill(_header(current, improved) + body, improved.edited, tuple(conflicts))


def in_persons_words(before: str, known: Skill, text: str, *, undo: bool = False) -> str:
    """A person's text as it is to be written: with the properties that are ours, and what is theirs marked as such.

    `before` is what we last wrote. With `undo`, only the marks that the text itself has are kept.
    """
    parsed = parse_skill(text).skill
    assert parsed is not None
    old, now = _sections(before), _sections(text)
    theirs = {*parsed.edited, *(() if undo else known.edited)}
    theirs |= {title for title in {**old, **now} if _differs(old, now, title)}
    base = parse_skill(before).skill
    if base is not None and base.description != parsed.description:
        theirs.add(DESCRIPTION)
    ours = replace(known, description=parsed.description, edited=tuple(sorted(theirs)))
    return _header(text, ours) + "\n" + "\n".join(now.values()).strip("\n") + "\n"


def sealed(text: str) -> str:
    """The file with the digest of what it says; one whose front matter can't be read as it is."""
    skill = parse_skill(text).skill
    if skill is None:
        return text
    lines = text.removeprefix("\ufeff").split("\n")
    body = lines[split_front_matter(text)[1] - 1 :]
    return _header(text, replace(skill, digest=_digest(text, skill))) + "\n".join(body)


def is_as_written(text: str) -> bool:
    """Whether nobody changed a file since it was sealed."""
    skill = parse_skill(text).skill
    return skill is not None and skill.digest == _digest(text, skill)


def _digest(text: str, skill: Skill) -> str:
    told = [skill.description, [[title, _trimmed(section)] for title, section in _sections(text).items()]]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]


def _sections(text: str | None) -> _Sections:
    return dict(sections_of(text, split_front_matter(text)[1])) if text is not None else {}


def _owned(before: _Sections | None, now: _Sections, new: _Sections, known: set[str]) -> set[str]:
    """The titles of our sections that are a person's: changed, removed or added by them, now or earlier."""
    ours = new if before is None else before
    changed = {title for title in new if _differs(ours, now, title)}
    return {title for title in changed | known if title != DESCRIPTION}


def _differs(one: _Sections, other: _Sections, title: str) -> bool:
    """Blank space at the end of lines is no change."""
    return _trimmed(one.get(title)) != _trimmed(other.get(title))


def _trimmed(section: str | None) -> list[str] | None:
    return None if section is None else [line.rstrip() for line in section.strip().split("\n")]


def _body(now: _Sections, new: _Sections, owned: set[str]) -> str:
    """The current sections in their order, ours renewed; new ones behind the one that they follow with us."""
    pieces = [(title, text if title in owned else new.get(title, text)) for title, text in now.items()]
    titles = list(new)
    for place, title in enumerate(titles):
        if title in now or title in owned:
            continue
        present = [known_title for known_title, _ in pieces]
        before = next((each for each in reversed(titles[:place]) if each in present), None)
        pieces.insert(present.index(before) + 1 if before is not None else len(pieces), (title, new[title]))
    texts = [text.strip("\n") for _, text in pieces]
    return "\n" + "\n\n".join(text for text in texts if text) + "\n"


def _header(current: str, skill: Skill) -> str:
    """The front matter with our properties renewed, a person's own as they wrote them."""
    body_line = split_front_matter(current)[1]
    lines = [line.rstrip("\r") for line in current.removeprefix("\ufeff").split("\n")[1 : body_line - 2]]
    blocks = _blocks(lines)
    metadata = next((block for key, block in blocks if key == "metadata"), [])
    ours = {
        "name": property_line("name", skill.name),
        "description": property_line("description", skill.description),
        "metadata": render_metadata(skill, _others(metadata)).rstrip("\n"),
    }
    present = [key for key, _ in blocks]
    if DESCRIPTION in skill.edited and DESCRIPTION in present:
        del ours[DESCRIPTION]
    blocks += [(key, []) for key in ours if key not in present]
    written = [ours.get(key, "\n".join(block)) for key, block in blocks]
    return "---\n" + "".join(f"{each}\n" for each in written) + "---\n"


def _blocks(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Properties with the lines that belong to them; lines above the first have no name."""
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        found = _key(line)
        if found or not blocks:
            blocks.append((found[1] if found else "", []))
        blocks[-1][1].append(line)
    return blocks


def _others(block: Sequence[str]) -> list[str]:
    """The lines below `metadata` that are none of ours, without their indentation."""
    inner = [line for line in block[1:] if line.strip()]
    depth = min((len(line) - len(line.lstrip()) for line in inner), default=0)
    properties = _blocks([line[depth:] for line in inner]) if depth else []
    return [line for key, lines in properties if key not in OURS for line in lines]


_TELLING_BYTES = 12
"""A shorter task may occur by chance in a line that somebody wrote themself."""


def without_forgotten(text: str, made: Skill, lost: Collection[str], before: Iterable[str]) -> str:
    """The file without lines that name a lost case or repeat its task, and items that we wrote and would not again.

    `made` is the skill as the cases that are left make it; `before` are versions of the file, this one among them.
    A person's other lines stay.
    """
    versions = list(dict.fromkeys([*before, text]))
    tasks = {task for each in versions for task in _tasks_of(each, lost)}
    said_still = {*_items(render_skill(made)), *(example.task for example in made.examples)}
    gone = {*tasks, *(item for each in versions for item in _our_items(each))} - said_still
    telling = [*lost, *(task for task in tasks - said_still if len(task.encode()) >= _TELLING_BYTES)]
    body = split_front_matter(text)[1] - 1
    lines = text.split("\n")
    kept = [
        line
        for line in lines[body:]
        if item_of(line) not in gone and not any(words in plain_line(line) for words in telling)
    ]
    return "\n".join([*lines[:body], *kept])


def _tasks_of(text: str, lost: Collection[str]) -> set[str]:
    skill = parse_skill(text).skill
    examples = skill.examples if skill is not None else ()
    return {example.task for example in examples if example.link.rpartition("^")[2] in lost and example.task}


def _our_items(text: str) -> Iterable[str]:
    """Of a file that is as we wrote it, the sections that are no person's."""
    skill = parse_skill(text).skill
    if skill is None or not is_as_written(text):
        return
    for title, section in sections_of(text, split_front_matter(text)[1]):
        if title not in skill.edited:
            yield from _items(section)


def _items(text: str) -> list[str]:
    return [item for line in text.split("\n") if (item := item_of(line)) is not None]
