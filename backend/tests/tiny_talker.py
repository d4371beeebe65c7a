"""A wheel like that of the small chat model, of a few kilobytes."""

import hashlib
import zipfile
from pathlib import Path

from recollect.infra.model_setup import PublishedModel

GGUF = b"GGUF" + bytes(2000)


def make_tiny_talker(folder: Path) -> PublishedModel:
    """The wheel's file in `folder`, the same bytes every time, and the model that describes it."""
    file, info = folder / "tiny_talker-1.0-py3-none-any.whl", "tiny_talker-1.0.dist-info"
    files = {
        "tiny_talker/tiny.gguf": GGUF,
        f"{info}/LICENSE": b"Apache-2.0",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-talker\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)
    return PublishedModel(
        name="tiny-talker",
        label="a tiny one",
        requirement="tiny-talker==1.0",
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        bytes=file.stat().st_size,
        file="tiny_talker/tiny.gguf",
        file_sha256=hashlib.sha256(GGUF).hexdigest(),
        license=f"{info}/LICENSE",
    )
