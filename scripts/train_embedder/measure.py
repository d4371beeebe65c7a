"""Vectors alone, measured: recall of evidence, nearest English sentence, question to paragraph, sameness of meaning."""

import gzip
import json
import lzma
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import minilm
import numpy as np
import onnxruntime
import pairs
import torch
from minilm import MiniLM, Texts
from tokenizers import Tokenizer

NO_SHARED_WORDS = Path(__file__).parents[1] / "bench/data/no_shared_words.tsv"

CHOOSING = ("en", "de", "es", "ru", "ja", "tr")
"""The languages of that file by which recipes and weights are chosen; the others check the choice."""

RECALL = ("locomo-dev", "beam-100k")

Embed = Callable[[Sequence[str]], torch.Tensor]
Figures = dict[str, float]
"""In percent, a mean before what it is the mean of."""


def embedder(model: MiniLM, tokenizer: Tokenizer) -> Embed:
    """With 32 bits. Texts that come again, as the model changes, are not split into tokens again."""
    model.eval()
    known: dict[tuple[str, ...], Texts] = {}

    def embed(texts: Sequence[str]) -> torch.Tensor:
        key = tuple(texts)
        if key not in known:
            known[key] = Texts(tokenizer, texts)
        return minilm.embed(model, known[key], exact=True)

    return embed


def open_model(folder: Path, threads: int = os.cpu_count() or 1) -> Embed:
    """What a folder holds: an exported model, run on the processor as the product does, or weights."""
    if not (folder / "model.onnx").is_file():
        return embedder(*minilm.load(folder))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
    tokenizer = minilm.load_tokenizer(folder)
    tokenizer.enable_truncation(minilm.MAX_TOKENS)

    def embed(texts: Sequence[str]) -> torch.Tensor:
        rows = [encoded.ids for encoded in tokenizer.encode_batch_fast(list(texts))]
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        groups = [order[first : first + 16] for first in range(0, len(order), 16)]

        def run(numbers: list[int]) -> np.ndarray:
            ids = np.zeros((len(numbers), len(rows[numbers[-1]])), np.int64)
            mask = np.zeros_like(ids)
            for line, number in enumerate(numbers):
                ids[line, : len(rows[number])] = rows[number]
                mask[line, : len(rows[number])] = 1
            return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]

        with ThreadPoolExecutor(threads) as pool:
            vectors = np.concatenate(list(pool.map(run, groups)))
        return torch.from_numpy(vectors[np.argsort(order)])

    return embed


def evidence_recall(embed: Embed, file: Path, k: int = 10) -> float:
    """The share of a question's evidence among the nearest `k` messages, in percent, mean over questions."""
    found = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for chat in map(json.loads, lines):
            messages = chat["messages"]
            vectors = embed([f"{m['sender_id']}: {m['content'][:6000]}" for m in messages])
            asked = embed([question["question"] for question in chat["questions"]])
            nearest = (asked @ vectors.T).topk(k).indices.tolist()
            for question, places in zip(chat["questions"], nearest, strict=True):
                if evidence := set(question["evidence"]):
                    hits = {messages[place]["message_id"] for place in places}
                    found.append(len(evidence & hits) / len(evidence))
    return 100 * float(np.mean(found))


def nearest_english(embed: Embed, file: Path) -> dict[str, float]:
    """How often a sentence's English is the nearest of its language's thousand, in percent."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            language, sentence, english = line.rstrip("\n").split("\t")
            pairs.setdefault(language, []).append((sentence, english))
    result = {}
    for language, entries in sorted(pairs.items()):
        sentences, english = (embed([entry[side] for entry in entries]) for side in (0, 1))
        nearest = (sentences @ english.T).argmax(1).tolist()
        right = [entries[place][1] == entry[1] for entry, place in zip(entries, nearest, strict=True)]
        result[language] = 100 * float(np.mean(right))
    return result


def paragraph_of_question(embed: Embed, folder: Path) -> dict[str, tuple[float, float]]:
    """XQuAD: how often a question's paragraph is nearest of 240; asked in its own language, and of the English ones."""
    result: dict[str, tuple[float, float]] = {}
    english: torch.Tensor | None = None
    for file in sorted(folder.glob("xquad.*.json"), key=lambda file: (".en." not in file.name, file.name)):
        paragraphs = [p for a in json.loads(file.read_text("utf-8"))["data"] for p in a["paragraphs"]]
        vectors = embed([paragraph["context"] for paragraph in paragraphs])
        english = vectors if english is None else english
        asked = embed([qa["question"] for paragraph in paragraphs for qa in paragraph["qas"]])
        own = torch.tensor([n for n, p in enumerate(paragraphs) for _ in p["qas"]], device=vectors.device)
        shares = [100 * float(((asked @ to.T).argmax(1) == own).float().mean()) for to in (vectors, english)]
        result[file.suffixes[0][1:]] = (shares[0], shares[1])
    return result


def read_no_shared_words(file: Path) -> dict[str, list[list[str]]]:
    """Each language's messages, with a question in it and one in English, or two empty texts."""
    rows: dict[str, list[list[str]]] = {}
    for line in file.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            language, *columns = line.split("\t")
            rows.setdefault(language, []).append([*columns, "", ""][:3])
    return rows


def no_shared_words(embed: Embed, rows: dict[str, list[list[str]]]) -> dict[str, dict[str, float]]:
    """How often the right message of a language's is first, and among five, though no word of the question is in it."""
    result: dict[str, dict[str, float]] = {}
    for language, entries in rows.items():
        vectors = embed([f"user: {message}" for message, _, _ in entries])
        for column, kind in ((1, "asked in its language"), (2, "asked in English")):
            asked = [number for number, entry in enumerate(entries) if entry[column]]
            if not asked:
                continue
            own = torch.tensor(asked, device=vectors.device)[:, None]
            scores = embed([entries[number][column] for number in asked]) @ vectors.T
            place = (scores > scores.gather(1, own)).sum(1)
            for most in (1, 5):
                share = 100 * float((place < most).float().mean())
                result.setdefault(f"{kind}, first {most}", {})[language] = share
    return result


def general_english(embed: Embed, folder: Path) -> dict[str, float]:
    """Rank correlation of cosine and people's judgement on the SemEval sets of 2015 and 2016, times 100."""
    result = {}
    for file in sorted(folder.glob("201[56]/*.tsv")):
        rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
        rated = [(float(row[0]), row[1], row[2]) for row in rows if len(row) >= 3 and row[0].strip()]
        left, right = (embed([row[side] for row in rated]) for side in (1, 2))
        cosines = (left * right).sum(1).cpu().numpy()
        name = f"{file.parent.name} {file.name.removesuffix('.test.tsv')}"
        result[name] = 100 * _rank_correlation(cosines, np.array([row[0] for row in rated]))
    return result


def _rank_correlation(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def watched(embed: Embed, data: Path) -> Figures:
    """What may rise or fall within a few hundred steps, of the sets that are in `data`."""
    figures: Figures = {}
    own, other = (f"asked in {language}, first 5" for language in ("its language", "English"))
    held = no_shared_words(embed, pairs.held_out(pairs.read_pairs(pairs.FILE)))
    shared = no_shared_words(embed, read_no_shared_words(NO_SHARED_WORDS))
    for name, shares, among in (
        ("held out", held, list(held[own])),
        ("choosing", shared, CHOOSING),
        ("checking", shared, [language for language in shared[own] if language not in CHOOSING]),
    ):
        if "en" in among:
            figures[f"{name}, English"] = shares[own]["en"]
        figures[f"{name}, own language"] = _mean(shares[own], [code for code in among if code != "en"])
        figures[f"{name}, asked in English"] = _mean(shares[other], among)
    for kind in RECALL:
        if (file := data / f"{kind}.jsonl.gz").exists():
            figures[kind] = evidence_recall(embed, file)
    if english := general_english(embed, data / "semeval-sts"):
        figures["general English"] = _mean(english, english)
        figures["duplicate questions"] = english["2016 question-question"]
    return figures


def _mean(shares: Figures, among: Iterable[str]) -> float:
    return float(np.mean([shares[language] for language in among if language in shares]))


def measure_meaning(embed: Embed, data: Path) -> Figures:
    """All sets that are in `data`, and those of this repository."""
    files = {kind: data / f"{kind}.jsonl.gz" for kind in RECALL}
    recall = {kind: evidence_recall(embed, file) for kind, file in files.items() if file.exists()}
    kinds = {"general English": general_english(embed, data / "semeval-sts")}
    if (file := data / "tatoeba-test.tsv.xz").exists():
        kinds["Tatoeba"] = nearest_english(embed, file)
    xquad = paragraph_of_question(embed, data / "xquad")
    for side, kind in enumerate(("same language", "English paragraphs")):
        kinds[f"XQuAD, {kind}"] = {language: shares[side] for language, shares in xquad.items()}
    for kind, shares in no_shared_words(embed, pairs.held_out(pairs.read_pairs(pairs.FILE))).items():
        kinds[f"pairs held out, {kind}"] = shares
    for kind, shares in no_shared_words(embed, read_no_shared_words(NO_SHARED_WORDS)).items():
        chosen = {language: share for language, share in shares.items() if language in CHOOSING}
        kinds[f"no shared words, {kind}, to choose by"] = chosen
        kinds[f"no shared words, {kind}, to check"] = {k: v for k, v in shares.items() if k not in CHOOSING}
    figures = {f"R@10, {kind}": share for kind, share in recall.items()}
    for kind, shares in kinds.items():
        if shares:
            figures[f"{kind}: mean"] = float(np.mean(list(shares.values())))
            figures |= {f"{kind}: {name}": share for name, share in shares.items()}
    return figures


def table(models: dict[str, Figures]) -> str:
    """As Markdown: a line a figure, a column a model."""
    kinds = next(iter(models.values()))
    rows = [[kind, *(f"{figures[kind]:.1f}" for figures in models.values())] for kind in kinds]
    lines = [["", *models], ["---"] * (len(models) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measure_cost(name: str, folder: Path, data: Path) -> None:
    """On one thread: a query, a bulk of messages, and the memory that the model takes."""
    with gzip.open(data / "locomo-dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        chat = json.loads(lines.readline())
    messages = [f"{m['sender_id']}: {m['content']}" for m in chat["messages"]]
    before = _resident()
    embed = open_model(folder, threads=1)
    embed(messages[:64])
    took = _resident() - before
    queries = []
    for question in chat["questions"][:100]:
        began = time.perf_counter()
        embed([question["question"]])
        queries.append(time.perf_counter() - began)
    began = time.perf_counter()
    embed(messages)
    speed = len(messages) / (time.perf_counter() - began)
    print(f"{name}: query {1000 * np.median(queries):.1f} ms, {speed:.0f} messages/s, {took / 2**20:.0f} MiB")


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
