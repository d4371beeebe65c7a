"""Other entries that an entry names: ids in the journal, links that an editor follows in its file."""

import re
from collections.abc import Mapping
from types import MappingProxyType

SUPERSEDES = "supersedes"
SUPERSEDED_BY = "superseded_by"
ORIGINS = ("fact", "cases")
"""Under these a line of the profile names its fact, and a skill its cases."""
NAMES_ENTRIES = frozenset([SUPERSEDES, SUPERSEDED_BY, *ORIGINS])

Links = Mapping[str, str]
"""Where entries stand, by their ids: the file within their owner's folder, without its ending."""
NO_LINKS: Links = MappingProxyType({})

_plain_path = re.compile(r"[^\[\]#^|%\"\s]+").fullmatch
_named = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_list = re.compile(rf"{_named.pattern}(?:[\s,]+{_named.pattern})*").fullmatch
_linked = re.compile(r"\[\[[^\[\]]*#\^([A-Za-z0-9][A-Za-z0-9_-]*)\]\]")


def with_links(named: str, links: Links) -> str:
    """The ids in a list, each as a link where its file is known. Whatever else stands there stays as it is."""
    if not _list(named):
        return named
    return _named.sub(lambda each: f"[[{links[each[0]]}#^{each[0]}]]" if each[0] in links else each[0], named)


def without_links(written: str) -> str:
    """The ids alone. Which file a link names is no matter: the entry may stand in another by now."""
    return _linked.sub(r"\1", written)


def linkable(owner: str, path: str) -> str | None:
    """A file of an owner's, as links name it; None where no link can hold its name."""
    name = path.removeprefix(f"{owner}/").removesuffix(".md")
    return name if _plain_path(name) else None
