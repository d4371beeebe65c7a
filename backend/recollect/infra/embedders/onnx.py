"""The embedder that runs a local ONNX model."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import numpy as np

from recollect.domain.recall.rows import DIGEST_MARK, Vectors
from recollect.errors import EmbedderUnavailable
from recollect.infra.embedders.onnx_model import (
    TOKENIZER_FILE,
    OnnxModel,
    in_order,
    load_model,
    model_file,
    runs,
)
from recollect.infra.home_lock import return_free_memory
from recollect.infra.model_setup import describe

_WINDOW = 256
"""Texts that are tokenized, and sorted by length, at a time."""
_NICENESS = 10
_LOOKED_AT = 1_000
_SAMPLES, _SAMPLE_BYTES = 64, 4096
_Stamp = tuple[tuple[int, int] | None, ...]


class OnnxEmbedder:
    """Embeds off the event loop. The model is loaded on first use, or as soon after as it is there.

    A single text has its own thread: a query never waits for a bulk of texts. A bulk is embedded in short runs;
    a cancelled one stops after the current run.
    """

    def __init__(self, folder: Path, *, threads: int = 1, batch: int = 16) -> None:
        self._folder = folder
        self._named_at, self._name = _stamp(folder), self._known_name()
        self._threads = threads
        self._batch = batch
        self._loading = Lock()
        self._model: OnnxModel | None = None
        self._failure: tuple[_Stamp, EmbedderUnavailable] | None = None
        self._bulk = ThreadPoolExecutor(1, "embed-bulk", initializer=_lower_priority)
        self._single = ThreadPoolExecutor(1, "embed-single")

    @property
    def name(self) -> str:
        """As the folder's description says, else as the folder itself is called, with a digest of its files.

        It ends in the mark before the digest while there is no model.
        """
        if self._model is None and (stamp := _stamp(self._folder)) != self._named_at:
            self._named_at, self._name = stamp, self._known_name()
        return self._name

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector a text; raises EmbedderUnavailable."""
        if not texts:
            return np.zeros((0, 0), np.float32)
        thread = self._single if len(texts) == 1 else self._bulk
        loop = asyncio.get_running_loop()
        model = self._model
        if model is None:
            model = await loop.run_in_executor(thread, self._load)
        parts = []
        for first in range(0, len(texts), _WINDOW):
            tokens = await loop.run_in_executor(thread, model.tokenize, texts[first : first + _WINDOW])
            found = []
            for numbers in runs(tokens, self._batch):
                vectors = await loop.run_in_executor(thread, model.run, [tokens[n] for n in numbers])
                found.append((numbers, vectors))
            parts.append(in_order(found))
        if thread is self._bulk:
            await loop.run_in_executor(thread, return_free_memory)
        return np.concatenate(parts)

    def problem(self) -> str | None:
        """Why the model could not be loaded when that was last tried."""
        failure = self._failure
        return None if self._model is not None or failure is None else failure[1].message

    def unknown_share(self, text: str) -> float:
        """How much of the beginning of a text the loaded model has no piece for."""
        return 0.0 if self._model is None else self._model.unknown_share(text[:_LOOKED_AT])

    async def aclose(self) -> None:
        """End its threads, once the runs they are in have ended. It cannot be used after that."""
        for thread in (self._bulk, self._single):
            await asyncio.to_thread(thread.shutdown, cancel_futures=True)
        self._model = None

    def _load(self) -> OnnxModel:
        """A folder that failed to load is tried again as soon as it has changed."""
        with self._loading:
            if self._model is None:
                stamp = _stamp(self._folder)
                if self._failure is not None and self._failure[0] == stamp:
                    raise EmbedderUnavailable(self._failure[1].message) from self._failure[1]
                try:
                    self._model = load_model(self._folder, threads=self._threads)
                except EmbedderUnavailable as error:
                    self._failure = (stamp, error)
                    raise
                self._name = self._known_name()
            return self._model

    def _known_name(self) -> str:
        described = describe(self._folder).get("name")
        name = (described if isinstance(described, str) else "") or self._folder.name
        return f"{name}{DIGEST_MARK}{_files_digest(self._folder)}"


def _files_digest(folder: Path) -> str:
    """Tells one model from another that lies in a folder of the same name; empty where there is none.

    Of a large file only samples from all parts of it are read: models that differ do so everywhere.
    """
    model = model_file(folder)
    if model is None:
        return ""
    digest = hashlib.blake2b(digest_size=4)
    try:
        for file in [model, folder / TOKENIZER_FILE, *sorted(folder.glob(f"{model.name}*data"))]:
            _add_samples(digest, file)
    except OSError:
        return ""  # It is being put there, or taken away; loading it tells.
    return digest.hexdigest()


def _add_samples(digest: "hashlib.blake2b", file: Path) -> None:
    size = file.stat().st_size
    digest.update(size.to_bytes(8, "big"))
    with file.open("rb") as opened:
        for number in range(_SAMPLES):
            opened.seek(size * number // _SAMPLES)
            digest.update(opened.read(_SAMPLE_BYTES))


def _stamp(folder: Path) -> _Stamp:
    """Changes when the model or its tokenizer does."""
    return tuple(_file_stamp(file) for file in (model_file(folder), folder / TOKENIZER_FILE))


def _file_stamp(file: Path | None) -> tuple[int, int] | None:
    try:
        state = file.stat() if file is not None else None
    except OSError:
        return None
    return None if state is None else (state.st_ino, state.st_mtime_ns)


def _lower_priority() -> None:
    """Lower the priority of this thread: a bulk of texts must not slow down requests."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
