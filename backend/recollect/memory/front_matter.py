"""Front matter: the YAML between two `---` lines at the head of a vault file.

Only what looks the same when written back counts as something other than text: `null`, `true`, `false` and
plain whole numbers. A date or `yes` or `1e3` without quotes is the text it looks like.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

from recollect.memory.line_values import write_yaml_string
from recollect.memory.problem import Problem

Scalar = str | int | bool | None
FORMAT_VERSION = 1

_plain = re.compile(r"[^\W\d_](?:[\w./@ -]*\w)?").fullmatch
_whole_number = re.compile(r"0|-?[1-9][0-9]{0,17}").fullmatch
_body_begins = re.compile(r"## |>|%%").match
_WORDS_WITH_MEANING = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null"])


def render_front_matter(mapping: Mapping[str, Scalar | Sequence[str]]) -> str:
    """The front matter with both `---` lines, ending in a newline."""
    lines = [f"{_write_text(key)}: {_write_value(value)}\n" for key, value in mapping.items()]
    return f"---\n{''.join(lines)}---\n"


def split_front_matter(text: str) -> tuple[dict[str, Any] | None, int, tuple[Problem, ...]]:
    """The properties, the line (from 1) at which the body begins, and what is wrong.

    The properties are None where they can't be read as a whole. The body begins at its first heading, quote
    or comment where the closing `---` is gone.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != "---":
        return None, 1, (Problem(1, "the file does not begin with front matter (a line ---)"),)
    end = 1
    while end < len(lines) and lines[end].rstrip() != "---":
        if _body_begins(lines[end]):
            break
        end += 1
    if end == len(lines) or lines[end].rstrip() != "---":
        return None, end + 1, (Problem(1, "the front matter is not closed by a line ---"),)
    mapping, problem = _read_yaml("\n".join(line.rstrip("\r") for line in lines[1:end]))
    return mapping, end + 2, (problem,) if problem else ()


def read_header(mapping: Mapping[str, Any]) -> str:
    """The file's kind. Raises ValueError where the file is not of the version that this code reads."""
    version = as_text(mapping.get("recollect"))
    if version != str(FORMAT_VERSION):
        found = "has no format version" if version is None else f"has format version {version}"
        raise ValueError(f"the file {found} (recollect); this code reads version {FORMAT_VERSION}")
    return read_property(mapping, "kind")


def read_property(mapping: Mapping[str, Any], key: str) -> str:
    """A property as text, also where a person left out the quotes. Raises ValueError where it is none."""
    value = as_text(mapping.get(key))
    if value is None:
        raise ValueError(f"the front matter has no {key}" if key not in mapping else f"{key} is not text")
    return value


def as_text(value: Any) -> str | None:
    """The text of a scalar; None for null and for what is no scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


def _write_value(value: Scalar | Sequence[str]) -> str:
    if isinstance(value, str):
        return _write_text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return f"[{', '.join(map(_write_text, value))}]"


def _write_text(text: str) -> str:
    if _plain(text) and text.casefold() not in _WORDS_WITH_MEANING:
        return text
    return write_yaml_string(text)


class _Yaml(YAML):
    def official_plug_ins(self) -> Any:
        """None is needed; the parser would look for them on the disk for every text."""
        return []


def _read_yaml(text: str) -> tuple[dict[str, Any] | None, Problem | None]:
    yaml = _Yaml(typ="safe", pure=True)
    yaml.Resolver = _TextUnlessCertain
    try:
        mapping = yaml.load(text)
    except MarkedYAMLError as error:
        # The mark counts from 0, and the line --- stands above.
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        return None, Problem(line, f"the front matter is not YAML: {error.problem}")
    except Exception as error:  # noqa: BLE001
        # Damaged YAML makes the parser raise nearly anything (a ValueError for `!!int x`, a RecursionError).
        return None, Problem(1, f"the front matter is not YAML: {type(error).__name__} {error}")
    if not isinstance(mapping, dict):
        return None, Problem(1, "the front matter is not a list of properties")
    return {str(key): value for key, value in mapping.items()}, None


class _TextUnlessCertain(VersionedResolver):
    """Finds a type for an unquoted scalar only where the value, written again, is the same text."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is not ScalarNode or not implicit[0]:
            return super().resolve(kind, value, (False, False))
        if value in ("", "~", "null"):
            return Tag(suffix="tag:yaml.org,2002:null")
        if value in ("true", "false"):
            return Tag(suffix="tag:yaml.org,2002:bool")
        if _whole_number(value):
            return Tag(suffix="tag:yaml.org,2002:int")
        return self.DEFAULT_SCALAR_TAG
