"""Finding the model that a person means among those that a backend has."""

import difflib
import re
from collections.abc import Sequence

MOST_NAMED = 10


def plain_name(name: str) -> str:
    """Without provider, path, `.gguf` and Ollama's `:latest`, in lower case."""
    tail = re.split(r"[/\\]", name.strip())[-1].lower()
    return tail.removesuffix(".gguf").removesuffix(":latest")


def find_model(wanted: str, listed: Sequence[str]) -> str | None:
    """The listed name that is meant; None when there is none, or more than one."""
    if wanted in listed:
        return wanted
    for same in (str.lower, plain_name, _without_provider_variant):
        found = [name for name in listed if same(name) == same(wanted)]
        if len(found) == 1:
            return found[0]
    return None


def is_alias(wanted: str, listed: Sequence[str]) -> bool:
    """Whether a cloud's list shows only the dated or the plain form of this name.

    Anthropic answers to `claude-sonnet-4-5` and lists `claude-sonnet-4-5-20250929`; OpenRouter answers to
    `vendor/model:variant` and lists `vendor/model`.
    """
    plain = wanted.strip().lower()
    stem = plain.removesuffix("-latest")
    return any(
        re.fullmatch(rf"{re.escape(stem)}-\d{{6,8}}", name.lower())
        or plain.rpartition(":")[0] == name.lower()
        for name in listed
    )


def nearest_names(wanted: str, listed: Sequence[str]) -> list[str]:
    """At most ten of the listed names, the most alike first."""
    plain = plain_name(wanted)
    alike = {name: difflib.SequenceMatcher(None, plain, plain_name(name)).ratio() for name in listed}
    return sorted(listed, key=lambda name: -alike[name])[:MOST_NAMED]


def _without_provider_variant(name: str) -> str:
    """`qwen3:8b` and `qwen3-8b` are one model in two servers' spelling."""
    return plain_name(name).replace(":", "-").replace("_", "-")


def shown_name(name: str) -> str:
    """Without the place on the server's disk, which is nobody's business: what stands in turns and lists."""
    is_path = name.startswith(("/", "~", "\\")) or name[1:3] == ":\\"
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2] if is_path else name
