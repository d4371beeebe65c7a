"""MiniLM in PyTorch, with the names its weights have on disk, and the token ids it reads, kept on the device."""

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

import numpy as np
import rounding
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

WIDTH, HEADS, LAYERS, INNER, POSITIONS = 384, 12, 6, 1536, 512
CLS, SEP = 101, 102
MAX_TOKENS = 256

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        heads = {name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value")}
        self.attention = nn.ModuleDict({"self": nn.ModuleDict(heads), "output": _dense(WIDTH)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(WIDTH, INNER)})
        self.output = _dense(INNER)

    def forward(self, tokens: Tensor, mask: Tensor, rounds: bool) -> Tensor:
        batch, length, _ = tokens.shape
        small, dense = tokens, nn.Linear.forward
        if rounds:
            small, dense = rounding.around_0(tokens), rounding.dense
        query, key, value = (
            dense(part, small).view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.attention["self"].values()
        )
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        seen = seen.transpose(1, 2).reshape(batch, length, WIDTH)
        output = self.attention["output"]
        seen = rounding.around_0(seen) if rounds else seen
        tokens = output["LayerNorm"](tokens + dense(output["dense"], seen))
        small = rounding.around_0(tokens) if rounds else tokens
        inner = F.gelu(dense(self.intermediate["dense"], small))
        inner = rounding.from_minimum(inner) if rounds else inner
        return self.output["LayerNorm"](tokens + dense(self.output["dense"], inner))


def _dense(width: int) -> nn.ModuleDict:
    return nn.ModuleDict({"dense": nn.Linear(width, WIDTH), "LayerNorm": nn.LayerNorm(WIDTH, eps=1e-12)})


class MiniLM(nn.Module):
    """Token ids and their mask to unit vectors: the mean over the tokens."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.rounds = False
        """Whether it reads with the 8 bits that it has once it is exported."""
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(pieces, WIDTH),
                "position_embeddings": nn.Embedding(POSITIONS, WIDTH),
                "token_type_embeddings": nn.Embedding(2, WIDTH),
                "LayerNorm": nn.LayerNorm(WIDTH, eps=1e-12),
            }
        )
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer() for _ in range(LAYERS))})

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        words, positions, segments, norm = self.embeddings.values()
        rows = rounding.words(words(ids)) if self.rounds else words(ids)
        tokens = norm(rows + positions.weight[: ids.shape[1]] + segments.weight[0])
        for layer in self.encoder["layer"]:
            tokens = layer(tokens, mask, self.rounds)
        kept = tokens.float() * mask[:, :, None]
        return F.normalize(kept.sum(1) / mask.sum(1, keepdim=True), dim=-1)


def load(folder: Path) -> tuple[MiniLM, Tokenizer]:
    weights = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
    model = MiniLM(len(weights["embeddings.word_embeddings.weight"]))
    model.load_state_dict(weights, strict=False)  # The pooler and the position numbers have no use here.
    return model.to(DEVICE), load_tokenizer(folder)


def load_tokenizer(folder: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def save(model: MiniLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Weights as 16-bit floats."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.half().cpu().contiguous() for name, value in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"hidden_size": WIDTH, "num_attention_heads": HEADS}))


def copy_of(model: MiniLM) -> MiniLM:
    twin = MiniLM(model.embeddings["word_embeddings"].num_embeddings).to(DEVICE)
    twin.load_state_dict(model.state_dict())
    return twin


def fast() -> torch.autocast:
    """Products in 16 bits, where that is faster."""
    return torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda")


def scrambled(ids: Tensor, mask: Tensor, pieces: int) -> Tensor:
    """Up to three in five tokens of each line become any other of the first `pieces`: all words are seen."""
    share = 0.6 * torch.rand(len(ids), 1, device=DEVICE)
    other = torch.randint(1000, pieces, ids.shape, device=DEVICE)
    free = mask & (ids != CLS) & (ids != SEP) & (torch.rand(ids.shape, device=DEVICE) < share)
    return torch.where(free, other, ids)


class Texts:
    """The token ids of many texts, end to end on the device; `batch` puts some together."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
        parts, counts = [np.zeros(0, np.int32)], []
        for first in range(0, len(texts), 100_000):
            some = list(texts[first : first + 100_000])
            found = [encoded.ids for encoded in tokenizer.encode_batch_fast(some, add_special_tokens=False)]
            counts += [len(ids) for ids in found]
            parts.append(np.fromiter(chain.from_iterable(found), np.int32))
        lengths = torch.tensor(counts, dtype=torch.long)
        self.lengths = lengths.to(DEVICE)
        self.starts = (torch.cumsum(lengths, 0) - lengths).to(DEVICE)
        self.ids = torch.from_numpy(np.concatenate(parts)).to(DEVICE)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, parts: Tensor, longest: int = 128) -> tuple[Tensor, Tensor]:
        """Ids and mask, a row for each row of text numbers; -1 is no text. Cut at `longest` tokens."""
        if parts.dim() == 1:
            parts = parts[:, None]
        lengths = torch.where(parts < 0, 0, self.lengths[parts.clamp(min=0)])
        before = torch.cumsum(lengths, 1) - lengths
        totals = lengths.sum(1).clamp(max=longest - 2)
        width = -(-(int(totals.max()) + 2) // 8) * 8
        ids = torch.zeros(len(parts), width, dtype=torch.long, device=DEVICE)
        flat = lengths.flatten()
        segment = torch.repeat_interleave(torch.arange(len(flat), device=DEVICE), flat)
        inside = torch.arange(len(segment), device=DEVICE) - (torch.cumsum(flat, 0) - flat)[segment]
        column = before.flatten()[segment] + inside
        kept = column < longest - 2
        row = segment // parts.shape[1]
        source = self.starts[parts.clamp(min=0).flatten()][segment] + inside
        ids[row[kept], column[kept] + 1] = self.ids[source[kept]].long()
        ids[:, 0] = CLS
        ids.scatter_(1, (totals + 1)[:, None], SEP)
        return ids, torch.arange(width, device=DEVICE) < (totals + 2)[:, None]


@torch.no_grad()
def embed(
    model: MiniLM, texts: Texts, parts: Tensor | None = None, *, exact: bool = False, tokens: int = 60_000
) -> Tensor:
    """A unit vector for each text, in their order; `exact` without products in 16 bits."""
    parts = torch.arange(len(texts), device=DEVICE) if parts is None else parts
    order = torch.argsort(texts.lengths[parts])
    vectors = torch.empty(len(parts), WIDTH, device=DEVICE)
    for rows in _runs(order, texts.lengths[parts][order].clamp(max=MAX_TOKENS - 2), tokens):
        with nullcontext() if exact else fast():
            vectors[rows] = model(*texts.batch(parts[rows], MAX_TOKENS)).float()
    return vectors


def _runs(order: Tensor, lengths: Tensor, tokens: int) -> Iterator[Tensor]:
    first, sizes = 0, lengths.tolist()
    for last in range(1, len(sizes) + 1):
        if last == len(sizes) or (last + 1 - first) * (sizes[last] + 2) > tokens:
            yield order[first:last]
            first = last
