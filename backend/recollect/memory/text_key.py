"""When two statements say the same in the same words."""

import hashlib
import unicodedata


def text_key(text: str) -> str:
    """Equal for texts that differ in case, spaces and punctuation alone."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in folded)
    return hashlib.sha256(" ".join(kept.split()).encode()).hexdigest()[:24]


def digest_of_text(text: str) -> str:
    """Of what a memory says: another one means that it was changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
