"""Whether a sentence says of a value that it is not so, or no longer."""

import re

_denied_before = re.compile(
    r"(?:\b(?:no longer|not(?! only\b| just\b)|never|cannot|(?<!is )(?<!was )used to|stopped|gave up|given up)\b|n['\u2019]t\b)[^,.;:]*$"
    r"|(?:[不没沒戒]|以前|曾经|曾經)[^\uff0c\u3002]*$",
    re.IGNORECASE,
).search
_denied_behind = re.compile(
    r"(?:已经|已經)?不再?(?:过敏|過敏)|\s(?:has\s)?(?:died|passed\saway)\b|(?:已经|已經)?(?:去世|死)了"
).match


def is_negated(text: str, value: str) -> bool:
    """Whether the clause denies the value where it names it; without a value, whether its end is denied."""
    before, found, behind = text.casefold().rpartition(value.casefold()) if value else (text, "", "")
    return _denied_before(before if found else text) is not None or _denied_behind(behind) is not None
