"""The index note of a user: links to the profile, days, skills and notes, for a reader who opens the vault.

It follows from which files there are, so the same files give the same bytes. A digest in its front matter tells
whether a person changed it.
"""

import re
from collections.abc import Iterable

from recollect.domain.entries.entry import EPISODES, PROFILE, owner_words
from recollect.domain.identity import text_digest
from recollect.domain.markdown.front_matter import FORMAT_VERSION, render_front_matter
from recollect.domain.paths import day_of_path, is_note, skill_folder
from recollect.domain.vault_file import lf_form

MOST_DAYS = 366
MOST_LINKS = 500
"""Of skills, and of notes."""
_DIGITS = 32
_unlinkable = re.compile(r"[\[\]#^|\\]|%%").search
_sealed = re.compile(r'(---\n(?:[a-z]+: .*\n)+)digest: "([0-9a-f]+)"\n(---\n.*)', re.DOTALL).fullmatch


def render_index(owner: str, name: str, files: Iterable[str], skills: Iterable[str] = ()) -> str | None:
    """The note of an owner who has these files, and may see these files of skills; None where it links to nothing.

    `name` is its title. A file whose name no link can hold is left out.
    """
    held = {
        path.removeprefix(f"{owner}/").removesuffix(".md"): path for path in files if path.endswith(".md")
    }
    days = sorted((name for name, path in held.items() if _is_day(name, path)), reverse=True)
    learned = {path.split("/", 1)[1].removesuffix(".md"): skill_folder(path) for path in skills}
    sections = [
        *([f"[[{PROFILE}]]\n"] if PROFILE in held else []),
        *_section("Days", [f"[[{name}|{name.partition('/')[2]}]]" for name in days], MOST_DAYS),
        *_section("Skills", [f"[[{name}|{learned[name]}]]" for name in _linkable(learned)], MOST_LINKS),
        *_section("Notes", [f"[[{name}]]" for name in _linkable(held) if is_note(held[name])], MOST_LINKS),
    ]
    if not sections:
        return None
    head = render_front_matter(
        {"recollect": FORMAT_VERSION, "kind": "index", "owner": owner_words(owner)}
    ).removesuffix("---\n")
    body = "\n".join(["", f"# {' '.join(name.split())}\n", *sections])
    return _sealed_text(head, f"---\n{body}")


def is_own_index(text: str) -> bool:
    """Whether we wrote the note, and nobody changed it since. Other line ends make no difference."""
    found = _sealed(lf_form(text))
    return found is not None and text_digest(found[1] + found[3])[:_DIGITS] == found[2]


def _sealed_text(head: str, rest: str) -> str:
    return f'{head}digest: "{text_digest(head + rest)[:_DIGITS]}"\n{rest}'


def _is_day(name: str, path: str) -> bool:
    return name.startswith(f"{EPISODES}/") and day_of_path(path) is not None


def _linkable(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.isprintable() and not _unlinkable(name))


def _section(title: str, links: list[str], most: int) -> list[str]:
    lines = [f"- {link}\n" for link in links[:most]]
    more = [f"- and {len(links) - most} more\n"] if len(links) > most else []
    return [f"## {title}\n", "".join([*lines, *more])] if links else []
