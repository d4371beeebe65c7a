"""What a server's error means, in our words. What it says may quote the prompt, and is not repeated."""

import json
import re
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from recollect.domain.model import JsonObject
from recollect.errors import CODES_OF_REFUSALS, ModelRefused, ModelUnavailable, RateLimited
from recollect.infra.backends.address import OWN_ADDRESS
from recollect.infra.backends.dialect import dict_of

EXTRAS_REFUSED = frozenset({400, 422})
_HINTS: dict[int | str, str] = {
    **dict.fromkeys((400, 422), " The prompt may be too long, or hold something that it doesn't know."),
    401: " Check its API key.",
    403: " Check its API key, and what it may be used for.",
    404: " Check its address and the name of the model.",
    413: " The prompt is too large for it.",
    OWN_ADDRESS: " This is Recollect's own address: give that of a model server.",
    503: " It may be loading a model, or be overloaded.",
    "context_length_exceeded": " The prompt is longer than its context.",
    "exceed_context_size_error": " The prompt is longer than its context.",
    "content_filter": " Its content filter refuses the prompt.",
    "content_policy_violation": " Its content filter refuses the prompt.",
    "model_not_found": " It has no model of that name.",
    "insufficient_quota": " Its quota is used up.",
}
"""By status, and by the codes of OpenAI and llama.cpp."""
_TOO_LONG = ("exceed_context_size_error", "request_too_large")
"""How llama.cpp and Anthropic call it."""
_LENGTHS = ("input_tokens", "input_text")
"""What vLLM names, which has no code for it."""


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
    known = (_HINTS[code] for code in [*_codes_in(body), status] if code in _HINTS)
    return next(known, "")


def code_of(body: Any, status: int | None) -> str | None:
    """The code under which a refusal is told: the server's, if it is a known one. None: it says nothing of the request."""
    codes, error = _codes_in(body), dict_of(_error_of(body))
    if any(code in _TOO_LONG for code in codes) or error.get("param") in _LENGTHS or _is_counted_out(error):
        return "context_length_exceeded"
    if (known := next((code for code in codes if code in CODES_OF_REFUSALS), None)) is not None:
        return str(known)
    return {400: "invalid_request", 422: "invalid_request", 413: "context_length_exceeded"}.get(status or 0)


def _is_counted_out(error: JsonObject) -> bool:
    """llama.cpp's count of the prompt beside what fits."""
    match error:
        case {"n_prompt_tokens": int(long), "n_ctx": int(fits)}:
            return long >= fits
    return False


def _error_of(body: Any) -> Any:
    return body.get("error", body) if isinstance(body, dict) else None


def _codes_in(body: Any) -> list[int | str]:
    error = dict_of(_error_of(body))
    return [code for name in ("type", "code") if isinstance(code := error.get(name), int | str)]


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
        code = "insufficient_quota" if "insufficient_quota" in _codes_in(body) else None
        return RateLimited(f"{who} wants fewer requests", details=details, retry_after=wait, code=code)
    details = f" ({status}).{hint(body, status)}"
    if status >= 500:
        return ModelUnavailable(f"{who} failed", details=details, retry_after=wait)
    kind = ModelRefused if status in EXTRAS_REFUSED else RefusedInAnyForm
    return kind(f"{who} refused the request", details=details, field=field, code=code_of(body, status))


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
