"""Text that loves to break files: markers, front matter look-alikes, all kinds of line ends, every script."""

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from recollect.domain.model import Entry

FRAGMENTS = (
    "---", "...", "> ", ">", ">>", "## user · ann · 2026-05-08T14:03:00.000Z ^t-1", "## ", "# ",
    "- id: m1", "- ", "%% memcell c-1: t-1 · gap %%", "%%", "^t-1", " ^", "·", " · ", "```", "~~~",
    "\n", "\n\n", "\r\n", "\r", "\t", " ", "  ", '"', "'", "\\", "\\u{", "\\u{d}", "\\u{5c}",
    "\\u000a", "\\n", "\x0b", "\x0c", "\x1c", "\x7f", "\x85", "\xa0", "\u2028", "\u2029", "\ufeff",
    "\ufffe", "\U0001fffe", "\U0010ffff", "\u202e", "\u200d", "שלום", "مرحبا", "สวัสดี", "नमस्ते",
    "你好", "👩‍👩‍👧", "e\u0301", "é", "[[", "]]", "[[threads/t1/0001#^t-1]]", "|", "{", "}", "[", ",",
    ": ", " #", "null", "true", "~", "2026-05-08", "2026-05-08T14:03:00.000Z", "0x10", "1e3",
    "recollect: 2", "<!--",
)  # fmt: skip

_characters = st.characters(codec="utf-8", exclude_characters="\0")
_pieces = st.one_of(st.sampled_from(FRAGMENTS), _characters)

texts = st.one_of(
    st.lists(_pieces, max_size=8).map("".join),
    st.sampled_from(FRAGMENTS),
    st.text(_characters, max_size=20),
)
"""Any text without NUL and lone surrogates."""

words = st.one_of(st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True), texts)
"""Ids: mostly plain, else anything."""


def entries_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Entry]:
    """Entries of any text; half of them are sentences, whose title is their text."""
    entries = st.builds(Entry, title=texts, text=texts, **fields)
    return entries | st.builds(_sentence, entries, st.integers(1, 99))


def _sentence(entry: Entry, number: int) -> Entry:
    return replace(entry, entry_id=f"fa-{number}", title=entry.text)


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For tests whose examples are big: a busy machine is no failure."""
