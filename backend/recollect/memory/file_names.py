"""File names for ids from outside: one safe path component each, no two alike on any disk."""

import hashlib
import re
import unicodedata

_plain = re.compile(r"[a-z0-9](?:[a-z0-9_-]|\.(?=[a-z0-9_-])){0,63}").fullmatch
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))]
)
_MAX_CHARACTERS = 40
_MAX_BYTES = 120


def file_name(identifier: str) -> str:
    """The id itself where it is plain on every system, else a readable slug, `~` and 20 hex of its digest.

    Two ids never share a name, not even where a disk ignores case or normalises Unicode: a plain name has
    no `~`, and digests differ.
    """
    if _plain(identifier) and identifier.partition(".")[0] not in _DEVICES:
        return identifier
    digest = hashlib.sha256(identifier.encode()).hexdigest()[:20]
    return f"{_slug(identifier) or 'id'}~{digest}"


def _slug(identifier: str) -> str:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", identifier).casefold())
    kept = "".join(char if char in "-_" or unicodedata.category(char)[0] in "LMN" else " " for char in folded)
    slug = re.sub(r"[ -]+", "-", kept)
    begin = 0
    while begin < len(slug) and (slug[begin] == "-" or _is_mark(slug[begin])):
        begin += 1
    return _cut(slug[begin:]).rstrip("-")


def _cut(slug: str) -> str:
    """At most so many characters and bytes, and no base character apart from its marks."""
    end = min(len(slug), _MAX_CHARACTERS)
    while len(slug[:end].encode()) > _MAX_BYTES:
        end -= 1
    while 0 < end < len(slug) and _is_mark(slug[end]):
        end -= 1
    return slug[:end]


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] == "M"
