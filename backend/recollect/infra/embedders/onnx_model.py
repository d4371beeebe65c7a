"""A folder with an ONNX model and its tokenizer, run by onnxruntime. Blocking; `onnx.py` keeps it off the event loop."""

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from recollect.domain.recall.rows import Vectors
from recollect.errors import EmbedderUnavailable
from recollect.infra.model_setup import describe

if TYPE_CHECKING:
    from tokenizers import Tokenizer


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


MODEL_FILES = (
    "model.onnx",
    "model_quantized.onnx",
    "onnx/model.onnx",
    "onnx/model_quantized.onnx",
    "onnx/model_*.onnx",
)
TOKENIZER_FILE = "tokenizer.json"

MAX_TOKENS = 256
"""Of one text; the rest is left out."""
RUN_TOKENS = 512
"""Most tokens of one run, padding included: larger runs leave the processor's caches and are slower, not faster."""
_CHARS_PER_TOKEN = 32
_CONTINUES = "##"
"""In front of a piece that continues a word."""
_UNSET = "unset RECOLLECT_EMBEDDING__FOLDER to use the one in the package, or install Recollect again."
_KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})

Tokens = list[int]


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model that is loaded. Runs may go on at the same time."""

    session: Any
    tokenizer: "Tokenizer"
    inputs: frozenset[str]
    dimensions: int | None
    """As its description promises, if it does."""
    letters_in_use: frozenset[str]
    """Those of the tokenizer's pieces of several letters: a vocabulary may hold alphabets that it has no words of."""

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text, at most `MAX_TOKENS` and at least one."""
        longest = MAX_TOKENS * _CHARS_PER_TOKEN
        # One by one: a batch would keep all of its offsets in memory, and bring threads of its own.
        return [list(self.tokenizer.encode(valid_text(text, longest)).ids) or [0] for text in texts]

    def unknown_share(self, text: str) -> float:
        """How much of a text it has no piece for, or single letters alone that no longer piece has; by characters."""
        unknown = getattr(self.tokenizer.model, "unk_token", None)
        encoded = self.tokenizer.encode(valid_text(text, len(text)), add_special_tokens=False)
        words: defaultdict[int, list[str]] = defaultdict(list)
        lengths: Counter[int] = Counter()
        for word, piece, (begin, end) in zip(encoded.word_ids, encoded.tokens, encoded.offsets, strict=True):
            if word is not None:
                words[word].append(piece)
                lengths[word] += end - begin
        strange = sum(
            lengths[word]
            for word, pieces in words.items()
            if unknown in pieces
            or (len(pieces) > 1 and self.letters_in_use.isdisjoint(each[-1] for each in pieces))
        )
        return strange / max(1, lengths.total())

    def run(self, rows: Sequence[Tokens]) -> Vectors:
        """A unit vector for each row of tokens, in one run."""
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for number, tokens in enumerate(rows):
            ids[number, : len(tokens)] = tokens
            mask[number, : len(tokens)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            output = self.session.run(None, {name: given[name] for name in self.inputs})[0]
        except Exception as error:
            raise EmbedderUnavailable(
                f"the embedding model failed on {len(rows)} texts: {_brief(error)}"
            ) from error
        vectors = unit_vectors(_sentence_vectors(output, mask))
        if self.dimensions is not None and vectors.shape[1] != self.dimensions:
            raise EmbedderUnavailable(
                f"the embedding model promises {self.dimensions} dimensions and gives {vectors.shape[1]}"
            )
        return vectors


def runs(rows: Sequence[Tokens], batch: int) -> Iterator[list[int]]:
    """Row numbers, grouped for a run each: rows of similar length together, so that little is padding."""
    group: list[int] = []
    for number in sorted(range(len(rows)), key=lambda n: len(rows[n])):
        if group and (len(group) == batch or (len(group) + 1) * len(rows[number]) > RUN_TOKENS):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def in_order(found: Sequence[tuple[list[int], Vectors]]) -> Vectors:
    """The vectors of all runs, by row number."""
    vectors = np.empty((sum(len(numbers) for numbers, _ in found), found[0][1].shape[1]), np.float32)
    for numbers, part in found:
        vectors[numbers] = part
    return vectors


def load_model(folder: Path, *, threads: int) -> OnnxModel:
    """Raises EmbedderUnavailable, and says what to do, where the folder holds no model that works."""
    file = model_file(folder)
    if file is None or not (folder / TOKENIZER_FILE).is_file():
        raise EmbedderUnavailable(
            f"there is no embedding model in {folder}: {_UNSET} Search goes by words until then."
        )
    # Read when it is imported. Without it, onnxruntime gives the machine an id and reports to Microsoft.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    from onnxruntime import InferenceSession, SessionOptions
    from tokenizers import Tokenizer

    options = SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # What goes wrong is raised too.
    # The arena keeps the most that any run ever needed.
    options.enable_cpu_mem_arena = False
    try:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        session = InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EmbedderUnavailable(
            f"the embedding model in {folder} is damaged: {_UNSET} Search goes by words until then. ({_brief(error)})"
        ) from error
    inputs = frozenset(entry.name for entry in session.get_inputs())
    if "input_ids" not in inputs or inputs - _KNOWN_INPUTS:
        raise EmbedderUnavailable(
            f"{file} is no sentence embedding model: it wants {', '.join(sorted(inputs))}"
        )
    dimensions = describe(folder).get("dimensions")
    longer = (piece for piece in tokenizer.get_vocab() if len(piece.removeprefix(_CONTINUES)) > 1)
    return OnnxModel(
        session,
        tokenizer,
        inputs,
        dimensions if isinstance(dimensions, int) else None,
        frozenset(itertools.chain.from_iterable(longer)),
    )


def model_file(folder: Path) -> Path | None:
    """The model in the folder; of several, the one that comes first in `MODEL_FILES`."""
    for pattern in MODEL_FILES:
        for file in sorted(folder.glob(pattern)):
            if file.is_file():
                return file
    return None


def _sentence_vectors(
    output: npt.NDArray[np.floating], mask: npt.NDArray[np.int64]
) -> npt.NDArray[np.floating]:
    """A model gives one vector a text, or one a token: then their mean, padding left out."""
    if output.ndim == 2:
        return output
    weights = mask[:, :, None].astype(np.float32)
    mean: npt.NDArray[np.floating] = (output * weights).sum(axis=1) / weights.sum(axis=1)
    return mean


def _brief(error: Exception) -> str:
    """The first line: onnxruntime adds source files and stack traces."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
