"""Reading what servers tell of themselves, whose shapes are not ours to trust."""

from typing import Any

_MOST = 2**53
"""Beyond that JSON's numbers are no longer exact; nothing real is counted so high."""


def positive_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def count_of(value: Any) -> int | None:
    """A count of tokens; None, as if it was not told, for what is none (text, NaN, less than nothing)."""
    counts = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    return value if counts else None


def dict_of(value: Any) -> dict[str, Any]:
    """Empty for what is no object."""
    return value if isinstance(value, dict) else {}


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def dicts_in(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def listed_models(listing: Any) -> list[dict[str, Any]]:
    """The entries of `/v1/models`."""
    entries = dicts_in(listing.get("data")) if isinstance(listing, dict) else []
    return [entry for entry in entries if text_or_none(entry.get("id"))]


def model_ids(listing: Any) -> tuple[str, ...]:
    return tuple(entry["id"] for entry in listed_models(listing))


def owner_of(listing: Any) -> str:
    """Who the server says its first model belongs to; engines put their own name there."""
    entries = listed_models(listing)
    return str(entries[0].get("owned_by") or "").lower() if entries else ""
