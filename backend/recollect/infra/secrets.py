"""Masks what looks like a secret: API keys, tokens, card numbers, private keys. The patterns are detect-secrets' own.

It has none for private keys as a whole, for cards and for the keys of some model providers: those are added.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from recollect.domain.model import Turn

MASK = "[secret]"

_DETECTORS = {
    "aws": "AWSKeyDetector", "azure_storage_key": "AzureStorageKeyDetector", "basic_auth": "BasicAuthDetector",
    "discord": "DiscordBotTokenDetector", "github_token": "GitHubTokenDetector", "gitlab_token": "GitLabTokenDetector",
    "jwt": "JwtTokenDetector", "mailchimp": "MailchimpDetector", "openai": "OpenAIDetector",
    "pypi_token": "PypiTokenDetector", "sendgrid": "SendGridDetector", "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector", "stripe": "StripeDetector", "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}  # fmt: skip
"""Those that know a kind of secret by its form. Others go by entropy or by a word such as "password" nearby."""
_data_url = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=\s]*")
_KEYS = re.compile(
    r"\b(?:sk-[\w-]{20}|rk_[\w-]{43}|AIza[\w-]{35}|ya29\.[\w-]{20}|npm_[^\W_]{36}|github_pat_\w{22}|hf_[^\W_]{30}"
    r"|gsk_[^\W_]{20}|xai-[\w-]{20})",
    re.ASCII,
)
"""Of OpenAI, Anthropic and those who copy them; of Recollect, Google, npm, GitHub, Hugging Face, Groq and xAI."""
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,60}-----")
_CARDS = tuple(
    re.compile(rf"(?<![\d.,]){digits}(?!\d)".replace("_", r"[ \u00a0-]?"), re.ASCII)
    for digits in (
        r"[2-6]\d{3}_\d{4}_\d{4}_\d{4}",
        r"[2-6]\d{3}_\d{4}_\d{4}_\d{4}_\d{3}",
        r"3\d{3}_\d{6}_\d{5}",
    )
)
"""In the groups that are printed on cards, or in one."""
_REST_OF_TOKEN = re.compile(r"[\w+/=-]*(?:\.[\w+/=-]+)*")
_PIECE, _OVERLAP = 1000, 250
"""Some patterns take quadratic time on hostile text: a piece of this length bounds it to a few milliseconds."""


_AT_ONCE, _LONGEST = 100_000, 128
"""Characters searched per call, which holds the GIL; and the longest match: more than a card or a line of a key."""


def mask_secrets(text: str) -> tuple[str, int]:
    """The text with every secret replaced by MASK, and how many there were."""
    masked, end, count = [], 0, 0
    for first, last in sorted(_spans(text)):
        if last <= end:
            continue
        if first >= end:
            masked += [text[end:first], MASK]
            count += 1
        end = last
    return ("".join([*masked, text[end:]]), count) if count else (text, 0)


def mask_json(value: Any) -> tuple[Any, int]:
    """The same for every string in a JSON value, names included, images as data URLs excepted."""
    if isinstance(value, str):
        return (value, 0) if _data_url.fullmatch(value) else mask_secrets(value)
    if isinstance(value, dict):
        masked: dict[str, Any] = {}
        total = 0
        for name, item in value.items():
            shown, named = mask_secrets(name)
            shown = f"{shown} {len(masked)}" if shown in masked else shown
            masked[shown], held = mask_json(item)
            total += named + held
        return masked, total
    if isinstance(value, list | tuple):
        listed = [mask_json(item) for item in value]
        return [item for item, _ in listed], sum(count for _, count in listed)
    return value, 0


def mask_turns(turns: tuple[Turn, ...]) -> tuple[tuple[Turn, ...], int]:
    """The same for what was said in turns, by whom, and with which arguments tools were called."""
    masked, total = [], 0
    for turn in turns:
        content, said = mask_secrets(turn.content)
        sender_id, sent = mask_secrets(turn.sender_id)
        calls, called = mask_json(turn.tool_calls)
        count = said + sent + called
        told = replace(turn, content=content, sender_id=sender_id, tool_calls=calls) if count else turn
        masked.append(told)
        total += count
    return tuple(masked), total


def _spans(text: str) -> Iterator[tuple[int, int]]:
    yield from _private_keys(text)
    for card in _CARDS:
        for found in _matches(card, text):
            if _is_card(found[0]):
                yield found.span()
    token = (0, 0)
    for begin in range(0, max(1, len(text) - _OVERLAP), _PIECE - _OVERLAP):
        if token[0] <= begin and begin + _PIECE <= token[1]:
            continue
        piece = text[begin : begin + _PIECE]
        for pattern in _patterns():
            for found in pattern.finditer(piece):
                # A group inside a match is the secret, such as a password in an address; a match may end too early.
                inner = 1 if pattern.groups and found.start(1) > found.start() else 0
                first, last = begin + found.start(inner), begin + found.end(inner)
                # A token is followed to its end once, however many matches there are in it.
                if not token[0] <= last <= token[1]:
                    rest = _REST_OF_TOKEN.match(text, last)
                    token = (first, rest.end() if rest else last)
                yield first, token[1]


def _matches(pattern: re.Pattern[str], text: str, at: int = 0) -> Iterator[re.Match[str]]:
    """What `pattern.finditer(text, at)` gives, a piece at a time. For patterns that match no more than `_LONGEST`."""
    while at < len(text):
        stop = at + _AT_ONCE
        for found in pattern.finditer(text, at, stop + _LONGEST):
            if found.start() >= stop:
                break
            yield found
            at = found.end()
        at = max(at, stop)


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Each from its first line to its last, or to the end of the text."""
    end = 0
    while (begin := next(_matches(_KEY_BEGIN, text, end), None)) is not None:
        last = next(_matches(_KEY_END, text, begin.end()), None)
        end = len(text) if last is None else last.end()
        yield begin.start(), end


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    plugins = (
        getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        for module, name in _DETECTORS.items()
    )
    return (_KEYS, *(pattern for plugin in plugins for pattern in plugin.denylist))


def _is_card(text: str) -> bool:
    """By its check digit (Luhn)."""
    digits = [int(digit) for digit in reversed(text) if digit.isdecimal()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
