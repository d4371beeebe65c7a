"""What a failed background call means: whether it is made again, how long its backend rests before, and what people
are told.
"""

from typing import Literal

from recollect.errors import (
    BackendDown,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
    RateLimited,
    StreamBroken,
)

MAX_ANSWER_BYTES = 64 * 1024


class FailsAgain(ModelUnavailable):
    """The same request would fail in the same way."""


class OutOfTime(ModelTooSlow):
    """The time for an answer is up, and none of it came."""


class StillAnswering(ModelTooSlow):
    """The time for an answer is up while it is still streaming."""


class AnswerTooLarge(ModelUnavailable):
    """It is longer than any answer that was asked for."""


class Resting(ModelUnavailable):
    """The backend is left alone for a while."""


Verdict = Literal["final", "later", "unasked", "unusable"]


def verdict_on(error: ModelUnavailable, *, is_sent: bool) -> Verdict:
    """Whether the same request would fail again, may succeed later, or has reached nobody and costs nothing.

    An answer that came and is `unusable` is no failure of the server.
    """
    if not is_sent or isinstance(error, BackendDown):
        return "unasked"
    return "final" if isinstance(error, ModelRefused | ModelTooSlow | AnswerTooLarge) else "later"


_MORE_TIME = "RECOLLECT_MEMORIZE__MODEL_TIMEOUT_SECONDS, with RECOLLECT_JOBS__LEASE_SECONDS twice as long, gives it more"
_WORDS: dict[type[ModelUnavailable], str] = {
    OutOfTime: f"it had not answered yet after {{seconds}}; {_MORE_TIME}",
    StillAnswering: f"it was still answering after {{seconds}}; {_MORE_TIME}",
    AnswerTooLarge: f"its answer exceeds {MAX_ANSWER_BYTES} bytes; another model may come to an end",
    Resting: "its server failed a moment ago, and is left alone for a while",
    BackendDown: "nobody answers at its address",
    RateLimited: "it wants fewer requests",
    ModelTooSlow: (
        "it went silent; RECOLLECT_CHAT__FIRST_TOKEN_SECONDS and RECOLLECT_CHAT__STALL_SECONDS give it more time"
    ),
    StreamBroken: "its answer broke off",
    ModelRefused: "it refused the request",
}


def in_words(error: ModelUnavailable, answer_seconds: float) -> str:
    """What went wrong and, where something helps, what does. Quotes no server, prompt or answer."""
    words = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), "its server failed")
    return words.format(seconds=f"{answer_seconds:g} s") + error.details


PAUSES = (5.0, 60.0, 300.0)
"""Seconds that a backend is left alone after the first failure in a row, the second, and each further one."""
LONGEST_SECONDS = 600.0
"""A server that asks for a longer rest gets this one."""
