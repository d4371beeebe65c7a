"""What a person changes in an entry, its versions, and what undo restores."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from recollect.domain.entries.entry import CORRECTED, SAID, Actor, EntryVersion, KnownEntry, Source, said_at
from recollect.domain.entries.links import holding_again, origin_ids
from recollect.domain.entries.profile import NO, ON_PAGE, is_off_page
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Entry
from recollect.domain.paths import file_name, linked_turn
from recollect.errors import Conflict, InvalidInput

PINNED, EDITED = "pinned", "edited"
YES = "yes"
_LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class EntryEdit:
    """What a person wants changed; None stays as it is. With a `revision`, only if the entry still has that one."""

    title: str | None = None
    text: str | None = None
    when: int | None = None
    pinned: bool | None = None
    revision: int | None = None

    @property
    def rewords(self) -> bool:
        """Whether it changes more than a pin."""
        return (self.title, self.text, self.when) != (None, None, None)

    @property
    def asserts(self) -> bool:
        """Whether it changes what the entry says."""
        return (self.title, self.text) != (None, None)

    @property
    def in_words(self) -> str:
        """What was changed, without a word of the entry's own."""
        named = [name for name in ("title", "text", "when") if getattr(self, name) is not None]
        did = [f"{' and '.join(named)} changed by a person"] if named else []
        if self.pinned is not None:
            did.append("pinned" if self.pinned else "unpinned")
        return ", ".join(did)


def edited(known: KnownEntry, edit: EntryEdit, now: int) -> KnownEntry:
    """The entry in the person's words, marked as theirs, said now. A pin is no edit.

    No extraction changes these words; what is said later may supersede them. An entry whose title or text they change
    holds again, even if another superseded it.
    """
    entry = known.entry
    extra = dict(entry.extra)
    if edit.pinned is not None:
        extra.pop(PINNED, None)
        if edit.pinned:
            extra[PINNED] = YES
    if edit.rewords:
        title, text = _said(entry.title, entry.text, edit)
        extra |= theirs(now) if edit.asserts else dated(entry)
        entry = replace(entry, title=title, text=text, when=entry.when if edit.when is None else edit.when)
    entry = replace(entry, extra=extra)
    return replace(known, entry=holding_again(entry) if edit.asserts else entry)


def theirs(at: int) -> dict[str, str]:
    """The marks of words that a person wrote, and when."""
    return {EDITED: YES, CORRECTED: write_time(at)}


def dated(entry: Entry) -> dict[str, str]:
    """The marks of an entry of which a person changes `when` alone: it was said when it was."""
    return {EDITED: YES} if CORRECTED in entry.extra else {EDITED: YES, SAID: write_time(said_at(entry))}


def in_step(entry: Entry, before: Entry) -> Entry:
    """The entry as a person wrote it. If title and text were equal and only one was changed, the other follows."""
    changed = EntryEdit(
        title=None if entry.title == before.title else entry.title,
        text=None if entry.text == before.text else entry.text,
    )
    title, text = _said(before.title, before.text, changed)
    return replace(entry, title=title, text=text)


def _said(title: str, text: str, edit: EntryEdit) -> tuple[str, str]:
    """Where the title is the text, as a fact's is, one that is changed changes the other."""
    new_title = title if edit.title is None else edit.title
    new_text = text if edit.text is None else edit.text
    if title != text or (edit.title is not None and edit.text is not None):
        return new_title, new_text
    if edit.title is not None:
        return new_title, new_title
    first_line = new_text.strip().partition("\n")[0].strip()
    return (first_line[:_LONGEST_TITLE] or new_title), new_text


@dataclass(frozen=True, slots=True)
class Version:
    """An entry as it was, or is, and the change that made it so. The first was made by no change: all three are None."""

    revision: int
    entry: Entry
    actor: Actor | None = None
    cause: str | None = None
    at: int | None = None


def versions(known: KnownEntry, history: Sequence[EntryVersion]) -> list[Version]:
    """Oldest first, the one in force last."""
    stages: list[EntryVersion | KnownEntry] = [*history, known]
    changes: list[EntryVersion | None] = [None, *history]
    return [
        Version(each.revision, each.entry, *((made_by.actor, made_by.cause, made_by.at) if made_by else ()))
        for each, made_by in zip(stages, changes, strict=True)
        if each.entry is not None
    ]


def restored(
    known: KnownEntry, history: Sequence[EntryVersion], revision: int | None, now: int
) -> list[KnownEntry]:
    """The versions that undo may restore, the latest first; with a `revision`, only that one.

    Undoing a change of extraction's marks the entry as a person's edit of now, so that extraction does not repeat it.
    What a person did themself is undone with its marks. It keeps citing the turns it cites now: they are in its history. A
    fact whose line was deleted stays off the page: a deletion can't be undone.

    Raises Conflict where it never changed, InvalidInput where it has no such revision.
    """
    return [
        _restored(known, history, past.revision, past.entry, now)
        for past in _targets(known, history, revision)
        if past.entry is not None
    ]


def _restored(
    known: KnownEntry, history: Sequence[EntryVersion], revision: int, target: Entry, now: int
) -> KnownEntry:
    undone = [past for past in history if past.revision >= revision]
    extra = dict(target.extra)
    if any(past.actor in ("extraction", "consolidation") for past in undone):
        extra |= theirs(now)
    if is_off_page(known):
        extra[ON_PAGE] = NO
    links = tuple(dict.fromkeys([*target.sources, *known.entry.sources]))
    entry = replace(target, extra=extra, sources=links)
    return replace(known, entry=entry, sources=_sources(links, known))


def _targets(known: KnownEntry, history: Sequence[EntryVersion], revision: int | None) -> list[EntryVersion]:
    kept = [past for past in history if past.entry is not None]
    if not kept and history:
        raise Conflict("what this entry said before was deleted: there is nothing to undo")
    if not kept:
        raise Conflict("this entry never changed: there is nothing to undo")
    if revision is None:
        return kept[::-1]
    for past in reversed(kept):
        if past.revision == revision:
            return [past]
    if revision == known.revision:
        raise InvalidInput(f"revision: {revision} is the one that is in force", field="revision")
    there = ", ".join(str(past.revision) for past in kept)
    raise InvalidInput(f"revision: there is no revision {revision}; there are {there}", field="revision")


def is_made_of(past: EntryVersion, origins: Collection[str]) -> bool:
    """Whether it was made of those entries, and not written by a person."""
    if past.entry is None or past.entry.extra.get(EDITED) == YES:
        return False
    return not set(origins).isdisjoint(origin_ids(past.entry))


def _sources(links: Sequence[str], known: KnownEntry) -> tuple[Source, ...]:
    """The turns behind the links. A link names user and thread by their folders: those of one it cites, or the ids."""
    ids = {file_name(name): name for source in known.sources for name in (source.user_id, source.thread_id)}
    found = dict.fromkeys(known.sources)
    for link in links:
        if (linked := linked_turn(known.owner, link)) is None:
            continue
        _, owners, user, _, thread = linked[0].split("/")
        user_id, thread_id = (
            ids.get(name, name if file_name(name) == name else None) for name in (user, thread)
        )
        if owners == "users" and user_id is not None and thread_id is not None:
            found.setdefault(Source(user_id, thread_id, linked[1]))
    return tuple(found)
