"""Texts, queries and vectors that are made, not collected: the same ones every time.

Words come as often as in a language (Zipf), so that posting lists are as long as in real life.
"""

import zlib
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

DIMENSIONS = 384
_SYLLABLES = [start + vowel for start in "bdfgklmnprstvz" for vowel in "aeiou"]
_VOCABULARY = 20_000
_EXPONENT = 1.05
_FUNCTION_WORDS = 50
"""The most frequent words: nobody searches for them."""
_DIRECTIONS = 4096


@cache
def vocabulary() -> list[str]:
    """Words by rank, the most frequent and shortest first."""
    return [_spelled(rank) for rank in range(_VOCABULARY)]


def _spelled(rank: int) -> str:
    word = ""
    while True:
        word += _SYLLABLES[rank % len(_SYLLABLES)]
        rank = rank // len(_SYLLABLES) - 1
        if rank < 0:
            return word


def texts(count: int, seed: int) -> list[str]:
    """`count` texts of 10 to 60 words."""
    random = np.random.default_rng(seed)
    lengths = random.integers(10, 61, count)
    ranks = _ranks(random, int(lengths.sum()))
    ends = np.cumsum(lengths)
    words = vocabulary()
    return [
        " ".join(words[rank] for rank in ranks[end - length : end])
        for end, length in zip(ends, lengths, strict=True)
    ]


def queries(count: int, seed: int) -> list[str]:
    """`count` queries of 4 to 8 words, none of them among the most frequent."""
    random = np.random.default_rng(seed)
    words = vocabulary()
    return [
        " ".join(words[rank] for rank in _ranks(random, int(length), _FUNCTION_WORDS))
        for length in random.integers(4, 9, count)
    ]


def _ranks(random: np.random.Generator, count: int, skipped: int = 0) -> npt.NDArray[np.int64]:
    frequencies = np.arange(1 + skipped, _VOCABULARY + 1, dtype=np.float64) ** -_EXPONENT
    cumulated = np.cumsum(frequencies / frequencies.sum())
    drawn = np.searchsorted(cumulated, random.random(count)) + skipped
    return np.minimum(drawn, _VOCABULARY - 1)


@cache
def _directions() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((_DIRECTIONS, DIMENSIONS), np.float32)


@cache
def _direction_of(word: str) -> int:
    return zlib.crc32(word.encode()) % _DIRECTIONS


def vectors(some: Sequence[str]) -> npt.NDArray[np.float32]:
    """A unit vector a text: texts that share words point the same way."""
    directions = _directions()
    found = np.zeros((len(some), DIMENSIONS), np.float32)
    for number, text in enumerate(some):
        found[number] = directions[[_direction_of(word) for word in text.split() or [""]]].sum(axis=0)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found
