"""What went wrong with a model's server, in words a user understands, and never with a key in them."""

import json
import re
from collections.abc import Iterable
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from recollect.errors import ModelRefused, ModelUnavailable, RateLimited

MAX_QUOTE = 300
EXTRAS_REFUSED = frozenset({400, 422})
_OVERLOADED = 529
_HINTS = {
    401: " Check its API key.",
    403: " Check its API key, and what it may be used for.",
    404: " Check its address and the name of the model.",
}


class Quoter:
    """Quotes servers briefly; what is secret is blotted out."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted((secret for secret in secrets if len(secret) >= 4), key=len, reverse=True)

    def quote(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        text = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
        return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"


def told_error(body: Any) -> str:
    """The server's own message, in whichever place it put it."""
    if isinstance(body, dict):
        for name in ("error", "message", "detail", "msg"):
            if body.get(name):
                return told_error(body[name])
        return json.dumps(body, ensure_ascii=False)
    if isinstance(body, list):
        return "; ".join(told_error(item) for item in body[:3])
    return str(body)


def body_error(body: bytes) -> str:
    """What an error's body says; a page of HTML says nothing."""
    text = body.decode("utf-8", "replace").strip()
    try:
        return told_error(json.loads(text))
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else text


def refusal(who: str, status: int, quoted: str, retry_after: float | None) -> ModelUnavailable:
    """The exception for a status that is not 200."""
    said = f": {quoted}" if quoted else ""
    if status in (429, _OVERLOADED):
        wait = f" It asks to wait {retry_after:g} s." if retry_after is not None else ""
        return RateLimited(f"{who} wants fewer requests ({status}){said}.{wait}", retry_after=retry_after)
    if status >= 500:
        return ModelUnavailable(f"{who} failed ({status}){said}.")
    return ModelRefused(f"{who} refused the request ({status}){said}.{_HINTS.get(status, '')}")


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
