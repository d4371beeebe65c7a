"""Long English texts that must keep the vectors they have: pieces in a row, as many as make 50 to 250 tokens."""

import random
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import torch
from corpus import NAMES, Chats, Tatoeba
from minilm import DEVICE, MAX_TOKENS, Texts
from pairs import Pair
from tokenizers import Tokenizer
from torch import Tensor

ROOT = Path(__file__).parents[2]
SHORTEST, LONGEST = 50, 250
PIECES = 48
"""At most so many in a text."""
SENTENCES, IN_A_ROW = 20_000, 40

Runs = list[list[str]]
"""Pieces that are read one after another: the utterances of a dialogue, the lines of a document."""


def read_runs(data: Tatoeba, chats: Chats, pairs: Sequence[Pair]) -> list[Runs]:
    """Four kinds: dialogues, sentences in any order, long messages of the pairs, and the project's documentation."""
    said = zip(chats.dialogues, chats.utterances, strict=True)
    dialogues = [[text for _, text in run] for _, run in groupby(said, key=lambda entry: entry[0])]
    english = [
        text for language, text in zip(data.languages, data.sentences, strict=True) if language == "eng"
    ]
    english = random.Random(0).sample(english, min(SENTENCES, len(english)))  # noqa: S311
    rows = [english[first : first + IN_A_ROW] for first in range(0, len(english), IN_A_ROW)]
    taught = dict.fromkeys(pair.message for pair in pairs if pair.language == "en" and not pair.held_out)
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    documents = (file.read_text("utf-8") for file in files)
    return [dialogues, rows, _in_lines(text for text in taught if "\n" in text), _in_lines(documents)]


def _in_lines(texts: Iterable[str]) -> Runs:
    return [[line for line in text.splitlines() if line.strip()] for text in texts]


class LongTexts:
    """Each kind is drawn as often as the others."""

    def __init__(self, kinds: Sequence[Runs], tokenizer: Tokenizer) -> None:
        runs = [(kind, run) for kind, some in enumerate(kinds) for run in some]
        self.texts = Texts(
            tokenizer,
            [*(piece for _, run in runs for piece in run), *(f"{n}:" for n in ("assistant", "user", *NAMES))],
        )
        self.pieces = len(self.texts) - len(NAMES) - 2
        tokens = self.texts.lengths[: self.pieces]
        self.before = torch.cumsum(tokens, 0) - tokens
        counts = torch.tensor([len(run) for _, run in runs], device=DEVICE)
        self.last = torch.repeat_interleave(torch.cumsum(counts, 0) - 1, counts)
        """The last piece of a piece's run."""
        kind = torch.repeat_interleave(torch.tensor([kind for kind, _ in runs], device=DEVICE), counts)
        begins = self.before[self.last] + tokens[self.last] - self.before >= SHORTEST
        often = torch.zeros(len(kinds), device=DEVICE).index_add_(0, kind, begins.float())
        self.chances = torch.cumsum((begins / often[kind].clamp(min=1)).double(), 0)

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Ids and mask of so many, half of them the assistant's, a quarter the user's, the others said by a name."""
        drawn = torch.rand(size, 1, device=DEVICE, dtype=torch.double) * self.chances[-1]
        first = torch.searchsorted(self.chances, drawn)
        rows = first + torch.arange(PIECES, device=DEVICE)
        inside = rows <= self.last[first]
        rows = rows.clamp(max=self.pieces - 1)
        enough = torch.randint(SHORTEST, LONGEST + 1, (size, 1), device=DEVICE)
        rows = rows.masked_fill(~inside | (self.before[rows] - self.before[first] >= enough), -1)
        names = 2 + torch.randint(len(NAMES), (size, 1), device=DEVICE)
        kind = torch.rand(size, 1, device=DEVICE)
        speaker = torch.where(kind < 0.5, 0, torch.where(kind < 0.75, 1, names))
        return self.texts.batch(torch.cat([self.pieces + speaker, rows], 1), MAX_TOKENS)
