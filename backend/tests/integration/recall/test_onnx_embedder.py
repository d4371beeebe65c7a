"""The local embedder on folders that are missing, damaged, of other kinds, and on the real model."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from recollect.errors import EmbedderUnavailable
from recollect.infra.embedders.onnx import OnnxEmbedder
from tests.forking import BACKEND

Opener = Callable[..., OnnxEmbedder]
TABLE = np.array([[0, 0, 9], [3, 0, 0], [0, 4, 0]], np.float32)
"""The vectors of padding, of red and of blue."""


@pytest.fixture
async def open_embedder() -> AsyncIterator[Opener]:
    async with AsyncExitStack() as stack:

        def open_one(folder: Path, **options: Any) -> OnnxEmbedder:
            embedder = OnnxEmbedder(folder, **options)
            stack.push_async_callback(embedder.aclose)
            return embedder

        yield open_one


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


def write_token_model(folder: Path, file: str = "model.onnx") -> None:
    """A model with one vector a token out, and all three inputs, as exporters write them."""
    names = ("input_ids", "attention_mask", "token_type_ids")
    kind, types = onnx.helper.make_tensor_value_info, onnx.TensorProto
    nodes = [
        onnx.helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
        onnx.helper.make_node("Cast", ["token_type_ids"], ["segments"], to=types.FLOAT),
        onnx.helper.make_node("Unsqueeze", ["segments", "last"], ["wide"]),
        onnx.helper.make_node("Add", ["vectors", "wide"], ["last_hidden_state"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "tokens",
        [kind(name, types.INT64, ["batch", "tokens"]) for name in names],
        [kind("last_hidden_state", types.FLOAT, ["batch", "tokens", 3])],
        [
            onnx.numpy_helper.from_array(TABLE, "table"),
            onnx.numpy_helper.from_array(np.array([2]), "last"),
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(model.SerializeToString())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(["[UNK]", "red", "blue"])))


@pytest.mark.parametrize(
    "file", ["model.onnx", "model_quantized.onnx", "onnx/model.onnx", "onnx/model_qint8.onnx"]
)
async def test_vectors_of_tokens_become_their_mean_without_the_padding(
    tmp_path: Path, open_embedder: Opener, file: str
) -> None:
    write_token_model(tmp_path, file)
    vectors = await open_embedder(tmp_path).embed(["red blue", "red", "blue red blue red red red"])
    expected = np.array([[0.6, 0.8, 0], [1, 0, 0], [3 / 13**0.5, 2 / 13**0.5, 0]])
    assert vectors == pytest.approx(expected, abs=1e-6)


async def test_a_model_is_called_as_described_or_as_its_folder_with_a_digest_of_its_files(
    tmp_path: Path, open_embedder: Opener
) -> None:
    folder = tmp_path / "colours"
    embedder = open_embedder(folder)
    assert embedder.name == "colours#"
    write_token_model(folder)
    (folder / "recollect.json").write_text('{"name": "colours-2", "dimensions": 3}')
    await embedder.embed(["red"])
    assert re.fullmatch("colours-2#[0-9a-f]{8}", embedder.name)
    assert open_embedder(folder).name == embedder.name


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
async def test_another_model_in_a_folder_of_the_same_name_has_another_name(
    tmp_path: Path, open_embedder: Opener, file: str
) -> None:
    write_token_model(tmp_path)
    embedder = open_embedder(tmp_path)
    before = embedder.name
    content = bytearray((tmp_path / file).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "other").write_bytes(content)
    (tmp_path / "other").replace(tmp_path / file)
    assert embedder.name != before
    assert embedder.name.rpartition("#")[0] == before.rpartition("#")[0]


async def test_other_dimensions_than_described_are_a_lie_that_names_both(
    tmp_path: Path, open_embedder: Opener
) -> None:
    write_token_model(tmp_path)
    (tmp_path / "recollect.json").write_text('{"name": "colours", "dimensions": 384}')
    with pytest.raises(EmbedderUnavailable, match="promises 384 dimensions and gives 3"):
        await open_embedder(tmp_path).embed(["red"])


async def test_a_missing_model_says_what_to_do_and_is_used_as_soon_as_it_is_there(
    tmp_path: Path, open_embedder: Opener
) -> None:
    embedder = open_embedder(tmp_path / "later")
    assert embedder.problem() is None
    for _ in range(2):
        with pytest.raises(EmbedderUnavailable, match="RECOLLECT_EMBEDDING__FOLDER"):
            await embedder.embed(["red"])
        assert "RECOLLECT_EMBEDDING__FOLDER" in str(embedder.problem())
    write_token_model(tmp_path / "made")
    (tmp_path / "made").rename(tmp_path / "later")
    assert len(await embedder.embed(["red"])) == 1
    assert embedder.problem() is None


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"\x00damaged" * 100])
async def test_a_damaged_model_says_so_and_works_again_once_it_is_whole(
    tmp_path: Path, open_embedder: Opener, file: str, content: bytes
) -> None:
    write_token_model(tmp_path)
    whole = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content)
    embedder = open_embedder(tmp_path)
    with pytest.raises(EmbedderUnavailable, match=r"damaged.*RECOLLECT_EMBEDDING__FOLDER"):
        await embedder.embed(["red"])
    (tmp_path / "whole").write_bytes(whole)
    (tmp_path / "whole").replace(tmp_path / file)
    assert len(await embedder.embed(["red"])) == 1


async def test_the_real_model_knows_what_means_the_same(model_folder: Path, open_embedder: Opener) -> None:
    embedder = open_embedder(model_folder)
    query, answer, other = await embedder.embed(
        ["Where does my sibling relocate to?", "Marta, my sister, moves to Porto.", "The printer is jammed."]
    )
    assert embedder.name.startswith(f"{model_folder.name}#")
    assert query.shape == (384,)
    assert query @ answer > query @ other + 0.2
    asked = ("Where does Marta live?", "xqzwv", "ሰላም ნანა", "Where is the ሰላም?", "តើនាងនៅឯណា?")
    assert [round(embedder.unknown_share(each), 1) for each in asked] == [0, 0, 1, 0.2, 0.9]


async def test_a_query_does_not_wait_for_the_thread_of_bulks(tmp_path: Path, open_embedder: Opener) -> None:
    write_token_model(tmp_path)
    embedder = open_embedder(tmp_path)
    go_on = threading.Event()
    try:
        embedder._bulk.submit(go_on.wait)
        async with asyncio.timeout(20):
            assert len(await embedder.embed(["red"])) == 1
    finally:
        go_on.set()


async def test_a_bulk_lets_others_in_between_and_ends_when_it_is_cancelled(
    model_folder: Path, open_embedder: Opener
) -> None:
    embedder = open_embedder(model_folder)
    bulk = asyncio.create_task(embedder.embed([f"text {n} of very many " * 10 for n in range(20_000)]))
    await embedder.embed(["two texts", "have their place between the runs of a bulk"])
    assert not bulk.done()
    bulk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bulk
    async with asyncio.timeout(10):
        await embedder.aclose()


def test_nothing_heavy_is_imported_before_the_first_use() -> None:
    code = (
        "import sys; from pathlib import Path; from recollect.infra.embedders.onnx import OnnxEmbedder; "
        "import recollect.infra.embedders.openai; OnnxEmbedder(Path('none')); "
        "print(sorted({'onnx', 'onnxruntime', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BACKEND, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_model_that_runs_reports_to_nobody(tmp_path: Path, model_folder: Path) -> None:
    """onnxruntime keeps an id of the machine, and what it is going to send, in the user's cache."""
    script = (
        "import sys; from pathlib import Path; from recollect.infra.embedders.onnx_model import load_model\n"
        "load_model(Path(sys.argv[1]), threads=1)"
    )
    env = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(BACKEND)}
    subprocess.run([sys.executable, "-c", script, str(model_folder)], env=env, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []
