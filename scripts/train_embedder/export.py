"""A MiniLM sentence encoder as an int8 ONNX graph, built from its weights without a machine-learning framework.

Matrices are int8 with a scale for each column, the vocabulary is int8 with a scale for each word. What flows
through is brought to 8 bits with a scale for each token, so a text has the same vector whatever else is in its
run. The usual dynamic quantisation takes one scale for a whole run, and its vectors lie four times as far from
those of the original.
"""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from safetensors.numpy import load_file, save_file

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]

_OPSET, _IR_VERSION = 18, 9

WHOLE_RANGE = 127
SAFE_RANGE = 80
"""For matrices that meet values around 128: processors without VNNI add two products in 16 bits, and saturate."""
GELU_MINIMUM = 0.17
"""GELU never falls below its negative."""


def export_model(weights: Path, out: Path) -> None:
    """A folder of weights and tokenizer as one that Recollect runs."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.onnx").write_bytes(minilm_model(load_file(weights / "model.safetensors")))
    tokenizer = json.loads((weights / "tokenizer.json").read_text("utf-8"))
    compact = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    (out / "tokenizer.json").write_text(compact + "\n", "utf-8")


def restore_model(shipped: Path, out: Path) -> None:
    """The weights of an exported folder, as far as its 8 bits hold them. Exported again they give the same matrices."""
    file = onnx.load(shipped / "model.onnx")
    kept = {entry.name: onnx.numpy_helper.to_array(entry) for entry in file.graph.initializer}
    weights = {name: kept[name] for name in kept if name.startswith("e") and not name.endswith(".scales")}
    weights["embeddings.word_embeddings.weight"] = kept["words"] * kept["words.scales"]
    weights["embeddings.token_type_embeddings.weight"] = np.stack([kept["segment"]] * 2)
    for name in [name for name, value in weights.items() if value.dtype == np.int8]:
        matrix = weights.pop(name).T * kept[name + ".scales"][:, None]
        weights[name + ".weight"] = np.ascontiguousarray(matrix)
        if matrix.shape[1] > matrix.shape[0]:  # The one whose input is shifted.
            weights[name + ".bias"] = weights[name + ".bias"] + GELU_MINIMUM * matrix.sum(axis=1)
    out.mkdir(parents=True, exist_ok=True)
    save_file(weights, out / "model.safetensors")
    shutil.copy(shipped / "tokenizer.json", out)


def minilm_model(weights: Weights, *, heads: int = 12) -> bytes:
    """An ONNX file with the inputs `input_ids` and `attention_mask`, and one unit vector a text as its output."""
    graph = _Graph(weights)
    mask = graph.add("Cast", "attention_mask", to=onnx.TensorProto.FLOAT)
    tokens = _encoder(graph, _embeddings(graph), mask, heads)
    graph.add_output("embedding", "LpNormalization", _mean(graph, tokens, mask), axis=-1, p=2)
    return graph.serialized(width=weights["embeddings.LayerNorm.weight"].shape[0])


def _embeddings(graph: "_Graph") -> str:
    length = graph.add("Shape", "input_ids", start=1, end=2)
    # By Slice: onnxruntime fuses the usual Range and Gather into something else.
    positions = graph.add(
        "Slice", graph.weight("embeddings.position_embeddings.weight"), graph.integers(0), length, graph.integers(0)
    )  # fmt: skip
    segment = graph.constant(
        "segment", graph.weights["embeddings.token_type_embeddings.weight"][0].astype(np.float32)
    )
    words = graph.add("Add", graph.add("Add", _word_embeddings(graph), positions), segment)
    return graph.layer_norm(words, "embeddings.LayerNorm")


def _word_embeddings(graph: "_Graph") -> str:
    words, scales = _quantised(graph.weights["embeddings.word_embeddings.weight"], WHOLE_RANGE)
    small = graph.add("Gather", graph.constant("words", words), "input_ids")
    scale = graph.add("Gather", graph.constant("words.scales", scales), "input_ids")
    return graph.add("Mul", graph.add("Cast", small, to=onnx.TensorProto.FLOAT), scale)


def _encoder(graph: "_Graph", tokens: str, mask: str, heads: int) -> str:
    padding = graph.add("Sub", graph.number(1.0), graph.add("Unsqueeze", mask, graph.integers(1, 2)))
    out_of_sight = graph.add("Mul", padding, graph.number(-1e4))
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in graph.weights:
        prefix = f"encoder.layer.{layer}."
        seen = _attention(graph, tokens, out_of_sight, prefix + "attention.", heads)
        tokens = graph.layer_norm(graph.add("Add", tokens, seen), prefix + "attention.output.LayerNorm")
        thought = _feed_forward(graph, tokens, prefix)
        tokens = graph.layer_norm(graph.add("Add", tokens, thought), prefix + "output.LayerNorm")
        layer += 1
    return tokens


def _attention(graph: "_Graph", tokens: str, out_of_sight: str, prefix: str, heads: int) -> str:
    width = graph.weights[prefix + "self.query.weight"].shape[0]
    small, scale = graph.around_128(tokens)
    query, key, value = (
        graph.add("Reshape", graph.linear(small, scale, prefix + "self." + part), graph.integers(0, 0, heads, width // heads))
        for part in ("query", "key", "value")
    )  # fmt: skip
    scores = graph.add(
        "MatMul",
        graph.add("Transpose", query, perm=[0, 2, 1, 3]),
        graph.add("Transpose", key, perm=[0, 2, 3, 1]),
    )
    scores = graph.add("Mul", scores, graph.number(1 / math.sqrt(width / heads)))
    shares = graph.add("Softmax", graph.add("Add", scores, out_of_sight), axis=-1)
    seen = graph.add("MatMul", shares, graph.add("Transpose", value, perm=[0, 2, 1, 3]))
    seen = graph.add("Reshape", graph.add("Transpose", seen, perm=[0, 2, 1, 3]), graph.integers(0, 0, width))
    return graph.linear(*graph.around_128(seen), prefix + "output.dense")


def _feed_forward(graph: "_Graph", tokens: str, prefix: str) -> str:
    inner = graph.gelu(graph.linear(*graph.around_128(tokens), prefix + "intermediate.dense"))
    return graph.linear(*graph.from_0(inner, GELU_MINIMUM), prefix + "output.dense", shift=GELU_MINIMUM)


def _mean(graph: "_Graph", tokens: str, mask: str) -> str:
    weights = graph.add("Unsqueeze", mask, graph.integers(2))
    total = graph.add("ReduceSum", graph.add("Mul", tokens, weights), graph.integers(1), keepdims=0)
    return graph.add("Div", total, graph.add("ReduceSum", weights, graph.integers(1), keepdims=0))


def _quantised(matrix: Array, levels: int) -> tuple[Array, Array]:
    """Each line in steps of its own scale, at most `levels` of them either way."""
    matrix = matrix.astype(np.float32)
    scales = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-9).astype(np.float32) / levels
    return np.round(matrix / scales).astype(np.int8), scales


class _Graph:
    """Nodes and constants, added one by one; every method returns the name of what it added."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self.add_output(f"{kind}_{len(self._nodes)}", kind, *inputs, domain=domain, **attributes)

    def add_output(self, name: str, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        self._nodes.append(onnx.helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, name: str, value: Array) -> str:
        if name not in self._constants:
            self._constants[name] = onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def number(self, value: float) -> str:
        return self.constant(f"number {value}", np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(f"integers {values}", np.array(values, np.int64))

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name].astype(np.float32))

    def layer_norm(self, value: str, name: str) -> str:
        gain, bias = self.weight(name + ".weight"), self.weight(name + ".bias")
        return self.add("LayerNormalization", value, gain, bias, axis=-1, epsilon=1e-12)

    def gelu(self, value: str) -> str:
        error = self.add("Erf", self.add("Div", value, self.number(math.sqrt(2))))
        return self.add(
            "Mul", self.add("Mul", value, self.number(0.5)), self.add("Add", error, self.number(1.0))
        )

    def around_128(self, value: str) -> tuple[str, str]:
        """In 8 bits, zero at 128, and the scale of each token."""
        largest = self.add("ReduceMax", self.add("Abs", value), self.integers(-1), keepdims=1)
        scale = self.add("Mul", self.add("Max", largest, self.number(1e-9)), self.number(1 / 127))
        return self._small(value, scale, 128.0), scale

    def from_0(self, value: str, shift: float) -> tuple[str, str]:
        """In 8 bits, `-shift` at 0, and the scale of each token. Nothing in it may be below `-shift`."""
        shifted = self.add("Add", value, self.number(shift))
        largest = self.add("ReduceMax", shifted, self.integers(-1), keepdims=1)
        scale = self.add("Mul", self.add("Max", largest, self.number(1e-9)), self.number(1 / 255))
        return self._small(shifted, scale, 0.0), scale

    def _small(self, value: str, scale: str, zero: float) -> str:
        steps = self.add("Mul", value, self.add("Reciprocal", scale))
        # The cast cuts off what is behind the point: with a half more it rounds.
        return self.add("Cast", self.add("Add", steps, self.number(zero + 0.5)), to=onnx.TensorProto.UINT8)

    def linear(self, small: str, scale: str, name: str, *, shift: float | None = None) -> str:
        """A dense layer on what `around_128`, or with a `shift` `from_0`, has made; its matrix becomes int8."""
        levels = SAFE_RANGE if shift is None else WHOLE_RANGE
        matrix, scales = _quantised(self.weights[name + ".weight"], levels)
        bias = self.weights[name + ".bias"] - (shift or 0.0) * (matrix * scales).sum(axis=1)
        zero = self.constant(f"zero {shift is None}", np.array(128 if shift is None else 0, np.uint8))
        product = self.add(
            "MatMulIntegerToFloat",
            small,
            self.constant(name, matrix.T),
            self.number(1.0),
            self.constant(name + ".scales", scales[:, 0]),
            zero,
            domain="com.microsoft",
        )
        scaled = self.add("Mul", product, scale)
        return self.add("Add", scaled, self.constant(name + ".bias", bias.astype(np.float32)))

    def serialized(self, width: int) -> bytes:
        helper, types = onnx.helper, onnx.TensorProto
        inputs = [
            helper.make_tensor_value_info(name, types.INT64, ["batch", "length"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info("embedding", types.FLOAT, ["batch", width])
        graph = helper.make_graph(self._nodes, "minilm", inputs, [output], list(self._constants.values()))
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        raw: bytes = model.SerializeToString()
        return raw
