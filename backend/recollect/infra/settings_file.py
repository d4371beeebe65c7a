"""Writes into `recollect.toml`. What people wrote there stays."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from recollect.errors import Conflict
from recollect.infra.vault_read import in_thread, make_folder, name_while_written, sync

_VALUE = re.compile(r"""(\s*[^=]+?\s*=\s*)(?:"(?:[^"\\]|\\.)*"|'[^']*')(\s*(?:#.*)?)""")
"""A line that sets a text: what precedes the text, and what follows it."""


@in_thread("written", "the settings file")
def write_settings(path: Path, table: str, values: Mapping[str, str | None]) -> None:
    """Set these texts in a table of the file, and take out those that are None. Readable by its owner alone.

    Raises Conflict where the file is written in a way that can't be changed safely.
    """
    target = path.resolve()  # A link stays a link.
    text = target.read_bytes().decode("utf-8", "surrogateescape") if target.is_file() else ""
    _replace(target, with_values(text, table, values).encode("utf-8", "surrogateescape"))


def with_values(text: str, table: str, values: Mapping[str, str | None]) -> str:
    """The file's text with other values; every other line as it was. Raises Conflict as above."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Conflict(f"recollect.toml is not valid TOML: {error}") from error
    old = before.get(table, {})
    wanted = {name: value for name, value in {**old, **values}.items() if value is not None}
    changed = _changed(text, table, values)
    try:
        is_right = tomllib.loads(changed) == {**before, table: wanted}
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        lines = ", ".join(f"{table}.{name}" for name in values)
        raise Conflict(f"recollect.toml can't be changed safely as it is written: set {lines} there by hand")
    return changed


@in_thread("written", "the settings file")
def write_first_setting(path: Path, name: str, value: str | None) -> None:
    """Set a text outside all tables, or take it out. Raises Conflict as above."""
    target = path.resolve()
    text = target.read_bytes().decode("utf-8", "surrogateescape") if target.is_file() else ""
    before = tomllib.loads(text)
    lines = text.split("\n")
    first_table = next((at for at, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    kept = [line for at, line in enumerate(lines) if at >= first_table or line.split("=")[0].strip() != name]
    changed = "\n".join(kept if value is None else [f"{name} = {_quoted(value)}", *kept])
    wanted = {key: old for key, old in before.items() if key != name} | (
        {} if value is None else {name: value}
    )
    try:
        is_right = tomllib.loads(changed) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise Conflict(
            f"recollect.toml can't be changed safely as it is written: change {name} there by hand"
        )
    _replace(target, changed.encode("utf-8", "surrogateescape"))


def _changed(text: str, table: str, values: Mapping[str, str | None]) -> str:
    lines = text.split("\n")
    header = next((at for at, line in enumerate(lines) if line.split("#")[0].strip() == f"[{table}]"), None)
    if header is None:
        added = [f"{name} = {_quoted(value)}" for name, value in values.items() if value is not None]
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}" + "\n".join([f"[{table}]", *added, ""])
    end = next((at for at in range(header + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    body, missing = [], dict(values)
    for line in lines[header + 1 : end]:
        name = line.split("=")[0].strip()
        if name not in missing:
            body.append(line)
        elif (value := missing.pop(name)) is not None:
            found = _VALUE.fullmatch(line)
            body.append(f"{found[1]}{_quoted(value)}{found[2]}" if found else f"{name} = {_quoted(value)}")
    added = [f"{name} = {_quoted(value)}" for name, value in missing.items() if value is not None]
    return "\n".join([*lines[: header + 1], *added, *body, *lines[end:]])


def _quoted(value: str) -> str:
    """JSON's escapes are TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _replace(target: Path, content: bytes) -> None:
    make_folder(target.parent)
    beside = name_while_written(target)
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    sync(target.parent)
