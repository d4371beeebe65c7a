"""How many tokens a text has, where there is no tokenizer to ask."""

from math import ceil

_ASCII_CHARS_PER_TOKEN = 3.6
_OTHER_BYTES_PER_TOKEN = 3.0


def guess_tokens(text: str) -> int:
    """Rather too many than too few: a prompt that is thought too long is cut, one too long is refused.

    English is about 4.2 characters a token, and code less; in other scripts a token is seldom less than
    3 bytes of UTF-8, one Chinese character.
    """
    encoded = len(text.encode("utf-8", "replace"))
    if encoded == len(text):
        return ceil(encoded / _ASCII_CHARS_PER_TOKEN)
    plain = sum(character.isascii() for character in text)
    return ceil(plain / _ASCII_CHARS_PER_TOKEN + (encoded - plain) / _OTHER_BYTES_PER_TOKEN)
