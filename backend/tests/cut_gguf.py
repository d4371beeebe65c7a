"""Cutting a llama model to a few of its layers: it talks nonsense, and evaluates prompts many times faster.

Tokens, template and protocol stay those of the whole model, so it shows truthfully what a cache does.
"""

import os
import re
from pathlib import Path

import gguf

_BLOCKS = "llama.block_count"


def cut_gguf(whole: Path, cut: Path, layers: int) -> None:
    """Write `cut`, complete or not at all: the first layers of `whole`, and its last one."""
    beside = cut.with_name(f".{cut.name}-{os.getpid()}")
    reader = gguf.GGUFReader(whole)
    writer = gguf.GGUFWriter(beside, "llama")
    _copy_fields(reader, writer, layers)
    _copy_tensors(reader, writer, layers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    beside.rename(cut)


def _copy_fields(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, layers: int) -> None:
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue  # The writer makes its own.
        value = layers if field.name == _BLOCKS else field.contents()
        kind = field.types[0]
        item = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, kind, sub_type=item)


def _copy_tensors(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, layers: int) -> None:
    last = int(reader.fields[_BLOCKS].contents()) - 1
    for tensor in reader.tensors:
        name: str | None = tensor.name
        if found := re.match(r"blk\.(\d+)\.(.*)", tensor.name):
            name = _new_name(int(found[1]), found[2], layers, last)
        if name is not None:
            writer.add_tensor(name, tensor.data, raw_shape=tensor.data.shape, raw_dtype=tensor.tensor_type)


def _new_name(layer: int, part: str, layers: int, last: int) -> str | None:
    if layer == last:
        return f"blk.{layers - 1}.{part}"
    return f"blk.{layer}.{part}" if layer < layers - 1 else None
