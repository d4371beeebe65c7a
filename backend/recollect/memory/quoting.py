"""Block quotes: text that nothing inside it can end.

Every line stands behind `> `. A character that a line can't carry is written `\\u{hex}`, and so is the
backslash of a literal `\\u{`; all other text stands as it is.
"""

import re
from collections.abc import Iterable

from recollect.memory.line_values import UNCARRIED

_uncarried = re.compile(f"[{UNCARRIED}]")
_escape = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}")


def quote(text: str) -> str:
    """Text as a block quote, without a newline at its end. Empty text is one empty quoted line."""
    text = text.replace("\\u{", "\\u{5c}u{").replace("\r", "\\u{d}")
    if not text.replace("\n", "").isprintable():
        text = _uncarried.sub(_write_escape, text)
    return "\n".join([f"> {line}" if line else ">" for line in text.split("\n")])


def unquote(lines: Iterable[str]) -> str:
    """The text that `quote` was given.

    Also without the space behind `>`, and with a CR at the end of lines, as editors leave them.
    A line without `>` counts as it is.
    """
    text = "\n".join([_unquote_line(line) for line in lines])
    return _escape.sub(_read_escape, text) if "\\u{" in text else text


def _unquote_line(line: str) -> str:
    if line.endswith("\r"):
        line = line[:-1]
    if line.startswith("> "):
        return line[2:]
    return line[1:] if line.startswith(">") else line


def _write_escape(match: re.Match[str]) -> str:
    return f"\\u{{{ord(match[0]):x}}}"


def _read_escape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return match[0]
    return chr(code)
