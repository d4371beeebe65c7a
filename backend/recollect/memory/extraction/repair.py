"""The one second chance that a model gets when its answer can't be read."""

from collections.abc import Sequence

from recollect.memory.model import JsonObject

_ANSWER_CHARS = 4_000
"""As much of the first answer is shown again: what is wrong with a long one is its length."""


def repair_messages(messages: Sequence[JsonObject], answer: str, error: str) -> list[JsonObject]:
    """The same prompt, the answer to it, and what is wrong with that, in words."""
    shown = answer.encode("utf-8", "replace").decode().strip()
    if len(shown) > _ANSWER_CHARS:
        shown = shown[:_ANSWER_CHARS] + "…"
    request = (
        f"This answer can't be used: {error}. Answer again: the one JSON object that was asked for, complete and "
        "short, without any text or code fence around it."
    )
    return [
        *messages,
        {"role": "assistant", "content": shown or "…"},
        {"role": "user", "content": request},
    ]
