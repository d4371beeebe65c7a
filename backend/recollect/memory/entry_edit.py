"""What a person changes in an entry, and what becomes of the rest of it."""

from dataclasses import dataclass, replace

from recollect.memory.entry_links import holding_again
from recollect.memory.known_entry import KnownEntry
from recollect.memory.model import Entry

PINNED, EDITED, VALUE = "pinned", "edited", "value"
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
        """Whether it says what the entry says."""
        return (self.title, self.text) != (None, None)

    @property
    def in_words(self) -> str:
        """What was changed, without a word of the entry's own."""
        named = [name for name in ("title", "text", "when") if getattr(self, name) is not None]
        did = [f"{' and '.join(named)} changed by a person"] if named else []
        if self.pinned is not None:
            did.append("pinned" if self.pinned else "unpinned")
        return ", ".join(did)


def edited(known: KnownEntry, edit: EntryEdit) -> KnownEntry:
    """The entry in the person's words, marked as theirs: nothing that is derived changes it any more. A pin is no edit.

    What they say holds, also where another had taken its place.
    """
    entry = known.entry
    extra = dict(entry.extra)
    if edit.pinned is not None:
        extra.pop(PINNED, None)
        if edit.pinned:
            extra[PINNED] = YES
    if edit.rewords:
        title, text = _said(entry.title, entry.text, edit)
        extra[EDITED] = YES
        if text != entry.text and extra.get(VALUE, "").casefold() not in text.casefold():
            # It named what the fact said before.
            del extra[VALUE]
        entry = replace(entry, title=title, text=text, when=entry.when if edit.when is None else edit.when)
    entry = replace(entry, extra=extra)
    return replace(known, entry=holding_again(entry) if edit.asserts else entry)


def in_step(entry: Entry, before: Entry) -> Entry:
    """As a person wrote it, with title and text alike where they were, and only one of them was changed."""
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
