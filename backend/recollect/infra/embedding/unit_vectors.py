"""What every embedder does to text before, and to vectors after, its model."""

import numpy as np
import numpy.typing as npt

from recollect.errors import EmbedderUnavailable
from recollect.memory.index_row import Vectors


def valid_text(text: str, max_chars: int) -> str:
    """The beginning of a text, as valid Unicode: a lone surrogate becomes a question mark."""
    return text[:max_chars].encode("utf-8", "replace").decode("utf-8")


def unit_vectors(vectors: npt.NDArray[np.floating]) -> Vectors:
    """Each line with length 1, as float32. Raises EmbedderUnavailable where a number is not finite or all are zero."""
    if not np.isfinite(vectors).all():
        raise EmbedderUnavailable("the embedding model answered with numbers that are not finite")
    wide = vectors.astype(np.float64)
    if not wide.any(axis=1).all():
        raise EmbedderUnavailable("the embedding model answered with a vector of zeros, which means nothing")
    wide /= np.abs(wide).max(axis=1, keepdims=True)  # So that squaring neither overflows nor vanishes.
    unit: Vectors = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    return unit
