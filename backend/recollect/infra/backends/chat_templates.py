"""What a model's chat template does to the messages, as far as it can be read."""

import re

from recollect.context.model_names import plain_name

_REFUSES = re.compile(r"raise_exception\([^)]*\balternat", re.IGNORECASE)
_STRIPS = re.compile(r"split\(\s*(['\"])\s*</think>\s*\1")
_ALTERNATING_NAMES = re.compile(r"gemma|mistral|mixtral|ministral|codestral|devstral|magistral")
_THINKING_NAMES = re.compile(r"qwen3|qwq|deepseek-r1|gpt-oss|magistral|r1-distill")


def wants_alternation(template: str | None, model: str | None) -> bool:
    """Whether two messages of one role in a row are refused. Without a template the model's name decides."""
    if template:
        return bool(_REFUSES.search(template))
    return bool(_ALTERNATING_NAMES.search(plain_name(model or "")))


def drops_reasoning(template: str | None, model: str | None) -> bool:
    """Whether the thoughts of earlier turns are left out of the next prompt."""
    if template:
        return bool(_STRIPS.search(template))
    return bool(_THINKING_NAMES.search(plain_name(model or "")))
