"""Messages, and questions without a word of theirs: what the student learns last. Written by hand."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import minilm
import torch
import torch.nn.functional as F  # noqa: N812
from corpus import NAMES
from minilm import DEVICE, MiniLM, Texts
from tokenizers import Tokenizer
from torch import Tensor

FILE = Path(__file__).parent / "pairs.tsv"
TEMPERATURE = 0.05
LENGTHS = 8 if DEVICE.type == "cuda" else 32
"""So many groups of like length are read one after another: few are fast on a GPU, on a processor each token costs."""
NEAREST, NEAR = 48, 0.6
"""So many wrong messages of a question are kept, but none that is as near as this to the right one."""
TOO_NEAR = 0.7
"""A pair as near as this to one that is measured with is left out."""


@dataclass(frozen=True)
class Pair:
    number: str
    """The same for a message in other languages, and for other questions about it."""
    language: str
    message: str
    question: str

    @property
    def held_out(self) -> bool:
        """For choosing between recipes, not for training: each tenth number."""
        return self.number.endswith("0")


def read_pairs(file: Path) -> list[Pair]:
    rows = (line.split("\t") for line in file.read_text("utf-8").splitlines())
    return [Pair(*(_unescaped(part) for part in row)) for row in rows if len(row) == 4 and all(row)]


def write_pairs(pairs: Iterable[Pair], file: Path) -> None:
    """A line a pair; line breaks in a message are written as two characters."""
    lines = ("\t".join(part.replace("\n", "\\n") for part in astuple(pair)) for pair in pairs)
    file.write_text("".join(line + "\n" for line in lines), "utf-8")


def _unescaped(part: str) -> str:
    return part.strip().replace("\\n", "\n")


def merge(files: Iterable[Path], measured: Path, embed: Callable[[Sequence[str]], Tensor]) -> list[Pair]:
    """The pairs of all files, each once, without those that come near to the ones measured with, in any language."""
    pairs = list(dict.fromkeys(pair for file in files for pair in read_pairs(file)))
    rows = [line.split("\t")[1:] for line in measured.read_text("utf-8").splitlines() if line[0] != "#"]
    barred = set()
    for side in (0, 1):
        # The messages with a question are those written for measuring; the others are of Tatoeba.
        theirs = [row[side] for row in rows if len(row) > 1 and row[1]]
        texts = [pair.question if side else pair.message for pair in pairs]
        nearness = (embed(texts) @ embed(theirs).T).amax(1).tolist()
        words = [_words(text) for text in theirs]
        for pair, text, near in zip(pairs, texts, nearness, strict=True):
            own = _words(text)
            alike = max((len(own & other) / len(own | other) for other in words), default=0)
            if near >= TOO_NEAR or alike >= 0.5:
                barred.add(pair.number)
    return [pair for pair in pairs if pair.number not in barred]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def held_out(pairs: Sequence[Pair], others: int = 300) -> dict[str, list[list[str]]]:
    """As `measure.no_shared_words` takes them: each language's pairs that are not trained on, and other messages."""
    english = {pair.number: pair.question for pair in pairs if pair.language == "en"}
    rows: dict[str, list[list[str]]] = {}
    for pair in sorted(pairs, key=lambda pair: not pair.held_out):
        found = rows.setdefault(pair.language, [])
        if pair.held_out:
            asked = "" if pair.language == "en" else english.get(pair.number, "")
            found.append([pair.message, pair.question, asked])
        elif sum(not row[1] for row in found) < others:
            found.append([pair.message, "", ""])
    return {language: found for language, found in rows.items() if found[0][1]}


class Practice:
    """A question before its message, that of another language too, and many messages that are not meant."""

    def __init__(
        self, pairs: Sequence[Pair], plain: list[str], frozen: MiniLM, tokenizer: Tokenizer, evenness: float
    ) -> None:
        """`plain`: sentences that are no answers. `frozen`: the model that says which of them are mistaken for one."""
        taught = [pair for pair in pairs if not pair.held_out]
        taught.sort(key=lambda pair: (pair.number, pair.language != "en"))
        versions, rows = Counter(p.number for p in taught), Counter(p.language for p in taught)
        first = {pair.number: row for row, pair in reversed(list(enumerate(taught)))}
        self.size = len(taught)
        self.first = torch.tensor([first[p.number] for p in taught], device=DEVICE)
        """The first row of the same number, in English if there is one."""
        self.count = torch.tensor([versions[p.number] for p in taught], device=DEVICE)
        self.often = torch.tensor([float(rows[p.language]) for p in taught], device=DEVICE)
        self.spread(evenness)
        messages, questions = [p.message for p in taught], [p.question for p in taught]
        names = [f"{name}:" for name in ("user", "assistant", *NAMES)]
        self.texts = Texts(tokenizer, [*messages, *plain, *questions, *names])
        self.questions = len(messages) + len(plain)
        self.names = self.questions + len(questions)
        self.mistaken = self._nearest(frozen)

    def _nearest(self, frozen: MiniLM) -> Tensor:
        vectors = minilm.embed(frozen, self.texts)
        messages, asked = vectors[: self.questions], vectors[self.questions : self.names]
        found = []
        for rows in torch.arange(self.size, device=DEVICE).split(500):
            nearness = asked[rows] @ messages.T
            nearness[messages[rows] @ messages.T > NEAR] = -1
            nearness[:, : self.size][self.first[rows][:, None] == self.first] = -1
            found.append(nearness.topk(NEAREST).indices)
        return torch.cat(found)

    def spread(self, evenness: float) -> None:
        """A language with n pairs is drawn in proportion to n to this power."""
        self.chances = self.often ** (evenness - 1)

    def loss(self, student: MiniLM, size: int, asked_in_english: float) -> Tensor:
        """That part of the questions in English, a quarter of the messages in any language they are there in."""
        rows = torch.multinomial(self.chances, size, replacement=True)
        kind = torch.rand(size, device=DEVICE)
        version = self.first[rows] + (torch.rand(size, device=DEVICE) * self.count[rows]).long()
        asked = torch.where(kind < asked_in_english, self.first[rows], rows)
        right = torch.where(kind > 0.75, version, rows)
        mistaken = self.mistaken[asked].gather(1, torch.randint(NEAREST, (size, 2), device=DEVICE))
        others = torch.randint(self.questions, (size,), device=DEVICE)
        messages = torch.cat([right, mistaken.flatten(), others])
        kind = torch.rand(messages.shape, device=DEVICE)
        name = 2 + torch.randint(len(NAMES), messages.shape, device=DEVICE)
        name = torch.where(kind < 0.35, 0, torch.where(kind < 0.5, 1, name))
        with minilm.fast():
            questions = student(*self.texts.batch(self.questions + asked)).float()
            said = self._read(student, torch.stack([self.names + name, messages], 1))
        number = torch.where(messages < self.size, self.first[messages.clamp(max=self.size - 1)], -1)
        same = number == self.first[rows][:, None]
        own = torch.arange(size, device=DEVICE)
        same[own, own] = False
        scores = (questions @ said.T / TEMPERATURE).masked_fill(same, -1e4)
        return F.cross_entropy(scores, own) + F.cross_entropy(scores[:, :size].T, own)

    def _read(self, student: MiniLM, said: Tensor) -> Tensor:
        """Those of like length together: all others would have to be as wide as the longest."""
        order = torch.argsort(self.texts.lengths[said[:, 1]])
        runs = (self.texts.batch(said[rows], minilm.MAX_TOKENS) for rows in order.tensor_split(LENGTHS))
        return torch.cat([student(*run) for run in runs]).float()[torch.argsort(order)]
