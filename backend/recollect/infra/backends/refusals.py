"""What a server's error means, in our words. What it says may quote the prompt, and is not repeated."""

import json
import re
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from recollect.domain.model import JsonObject
from recollect.errors import ModelRefused, ModelUnavailable, RateLimited
from recollect.infra.backends.dialect import dict_of

EXTRAS_REFUSED = frozenset({400, 422})
_HINTS: dict[int | str, str] = {
    **dict.fromkeys((400, 422), " The prompt may be too long, or hold something that it doesn't know."),
    401: " Check its API key.",
    403: " Check its API key, and what it may be used for.",
    404: " Check its address and the name of the model.",
    413: " The prompt is too large for it.",
    503: " It may be loading a model, or be overloaded.",
    "context_length_exceeded": " The prompt is longer than its context.",
    "exceed_context_size_error": " The prompt is longer than its context.",
    "insufficient_quota": " Its quota is used up.",
}
"""By status, and by the codes of OpenAI and llama.cpp."""


class RefusedInAnyForm(ModelRefused):
    """Refused for its key, address or size: leaving out fields would not help."""


def error_in(body: bytes) -> Any:
    """An error's body: JSON, or else text."""
    text = body.decode("utf-8", "replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def hint(body: Any, status: int | None = None) -> str:
    """What may be wrong, in our words: by the code in an error's body, else by its status. Empty where none is known."""
    error = body.get("error", body) if isinstance(body, dict) else None
    codes = [error.get(name) for name in ("type", "code")] if isinstance(error, dict) else []
    known = (_HINTS[code] for code in [*codes, status] if isinstance(code, int | str) and code in _HINTS)
    return next(known, "")


def field_named(request: JsonObject | None, body: Any) -> str | None:
    """The field of the request, beside the prompt, that an error names: OpenAI's `param`, or the first in its words."""
    error = dict_of(body).get("error", body)
    said = str(dict_of(error).get("param") or error)
    names = set(request or ()) - {"model", "messages", "stream"}
    return next((name for name in re.findall(r"\w+", said) if name in names), None)


def refusal(who: str, status: int, body: Any, wait: float | None, field: str | None) -> ModelUnavailable:
    """The exception for a status that is not 200. Nothing of the body is quoted."""
    if status in (429, 529):  # Too many requests; overloaded, in Anthropic's words.
        told = f" It asks to wait {wait:g} s." if wait is not None else ""
        details = f" ({status}).{hint(body)}{told}"
        return RateLimited(f"{who} wants fewer requests", details=details, retry_after=wait)
    details = f" ({status}).{hint(body, status)}"
    if status >= 500:
        return ModelUnavailable(f"{who} failed", details=details, retry_after=wait)
    kind = ModelRefused if status in EXTRAS_REFUSED else RefusedInAnyForm
    return kind(f"{who} refused the request", details=details, field=field)


def seconds_to_wait(retry_after: str | None, now: datetime) -> float | None:
    """`Retry-After`, given as seconds or as a date; None when it is missing or neither."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(retry_after) - now).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if seconds == seconds and seconds != float("inf") else None
