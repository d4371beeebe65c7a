"""The student: the teacher's layers with pieces for forty languages, taught that a sentence means what its English does."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import minilm
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from corpus import NAMES, Chats, Tatoeba, on_device, read_words
from long_texts import LongTexts
from minilm import DEVICE, MiniLM, Texts
from pairs import Practice
from tokenizers import Tokenizer
from torch import Tensor

TEMPERATURE = 0.05
NEIGHBOURS = 6
"""English pieces that a new piece starts from."""


@dataclass(frozen=True)
class Recipe:
    steps: int = 8_000
    seconds: float = 3600.0
    """It ends after so many, whatever step it is at; the rates fall accordingly."""
    warmup: int = 200
    """Steps until the rates are whole."""
    batch: int = 2048
    rate: float = 4e-4
    vocabulary_rate: float = 2.5e-3
    english_share: float = 0.2
    """The part of each step that the English pieces take: few of their words are in the data, and all must keep."""
    closeness: float = 8.0
    """What 1 - cosine to the teacher counts beside the contrasts."""
    evenness: float = 0.5
    """A language with n pairs is drawn in proportion to n to this power."""
    practice: float = 1.0
    """What the questions without a shared word count beside the lesson of a step."""
    asked_in_english: float = 0.25
    """The part of those questions that are asked in English, whatever the language of the message."""
    long_share: float = 0.2
    """The part of the steps of `practise` in which long English texts keep their vectors."""
    own_share: float = 0.0
    """The part of the steps in which sentences keep the vectors they have themselves, not those of their English."""
    rounds: int = 1
    """Whether `practise` reads with the 8 bits of the export, so that what it learns outlives them."""
    every: int = 0
    """Steps between two lines of figures, none at 0."""
    seed: int = 0


def new_student(teacher: MiniLM, lessons: "Lessons") -> MiniLM:
    """The teacher, with rows for the new pieces: means of the English pieces they stand beside in parallel sentences."""
    old, pieces = lessons.english.get_vocab_size(), lessons.tokenizer.get_vocab_size()
    counts = torch.zeros((pieces - old) * old, device=DEVICE)
    for pairs in lessons.pairs.split(20_000):
        there, _ = lessons.texts.batch(pairs[:, 0], 48)
        here, mask = lessons.english_texts.batch(pairs[:, 1], 48)
        rows, cells = torch.nonzero(there >= old, as_tuple=True)
        places = ((there[rows, cells] - old) * old)[:, None] + here[rows]
        places = places[mask[rows] & (here[rows] > minilm.SEP)]
        counts.index_add_(0, places, torch.ones(len(places), device=DEVICE))
    table = counts.view(pieces - old, old)
    often = table.sum(0).clamp(min=1)
    words = teacher.embeddings["word_embeddings"].weight.detach()
    started = []
    for rows in table.split(1000):
        weights, nearest = (rows / (rows.sum(1, keepdim=True).clamp(min=1) * often).sqrt()).topk(NEIGHBOURS)
        row = (words[nearest] * weights[:, :, None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1e-9)
        started.append(torch.where(weights[:, :1] > 0, row, words.mean(0)))
    student = MiniLM(pieces)
    state = dict(teacher.state_dict())
    state["embeddings.word_embeddings.weight"] = torch.cat([words, *started])
    student.load_state_dict(state)
    return student.to(DEVICE)


def _only_english(data: Tatoeba) -> list[str]:
    return [
        s if language == "eng" else "" for language, s in zip(data.languages, data.sentences, strict=True)
    ]


class Lessons:
    """Rows of text numbers: what the student reads on one side, its English on the other."""

    def __init__(
        self, data: Tatoeba, chats: Chats, english: Tokenizer, tokenizer: Tokenizer, evenness: float
    ) -> None:
        self.english, self.tokenizer = english, tokenizer
        languages = np.unique(np.array(data.languages), return_inverse=True)[1]
        of_pair = languages[data.english[:, 0]]
        order = np.argsort(of_pair, kind="stable")
        self.pairs = on_device(data.english[order])
        counts = np.bincount(of_pair)
        self.first = on_device((np.cumsum(counts) - counts)[of_pair[order]])
        self.count = on_device(counts[of_pair[order]])
        self.spread(evenness)
        self.translations = torch.cat(
            [
                on_device(data.translations),
                on_device(data.paraphrases),
                _same_language(self.pairs, of_pair[order]),
            ]
        )
        self.paraphrases = on_device(data.paraphrases)
        self.utterances = len(data.sentences)
        chat_texts = [*chats.utterances, *(question for question, _ in chats.questions)]
        self.names = self.utterances + len(chat_texts)
        self.speakers = [f"{name}:" for name in (*NAMES, "user", "assistant")]
        words = read_words()
        self.first_word = self.names + len(self.speakers)
        self.words, self.word_languages = len(words[0]), len(words) - 1
        behind = chat_texts + self.speakers
        self.texts = Texts(tokenizer, [*data.sentences, *behind, *(word for line in words for word in line)])
        self.english_texts = (
            self.texts if english is tokenizer else Texts(english, _only_english(data) + behind + words[0])
        )

    def spread(self, evenness: float) -> None:
        """A language with n pairs is drawn in proportion to n to this power."""
        self.chances = torch.cumsum(self.count.double() ** (evenness - 1), 0)

    def _drawn(self, size: int) -> Tensor:
        return torch.searchsorted(
            self.chances, torch.rand(size, device=DEVICE, dtype=torch.double) * self.chances[-1]
        )

    def _named(self, sides: Tensor) -> Tensor:
        """A name in front of both sides, the same one."""
        names = self.names + torch.randint(len(self.speakers), (len(sides), 1, 1), device=DEVICE)
        return torch.cat([names.expand(-1, 2, -1), sides], dim=2)

    def sentences(self, size: int) -> Iterator[Tensor]:
        """Pairs of like length together, every second batch with names."""
        while True:
            rows = self._drawn(8 * size)
            rows = rows[torch.argsort(self.texts.lengths[self.pairs[rows, 0]])]
            for number, chunk in enumerate(torch.randperm(8).tolist()):
                sides = self.pairs[rows[chunk * size : (chunk + 1) * size], :, None]
                yield self._named(sides) if number % 2 else sides

    def two_languages(self, size: int) -> Tensor:
        rows = torch.randint(len(self.translations), (size,), device=DEVICE)
        sides = self.translations[rows][:, :, None]
        sides = torch.where(torch.rand(len(sides), 1, 1, device=DEVICE) < 0.5, sides, sides.flip(1))
        return self._named(sides) if torch.rand(()) < 0.5 else sides

    def passages(self, size: int) -> Tensor:
        """Two to eight sentences of a language in a row."""
        rows = self._drawn(size)[:, None]
        inside = (torch.rand(len(rows), 8, device=DEVICE, dtype=torch.double) * self.count[rows]).long()
        sides = self.pairs[self.first[rows] + inside].transpose(1, 2)
        sides = _cut(sides, torch.randint(2, 9, (len(rows), 1, 1), device=DEVICE))
        return self._named(sides) if torch.rand(()) < 0.5 else sides

    def chats(self, size: int, longest: int) -> Tensor:
        """English, both sides the same: up to `longest` utterances or questions, or sentences of Tatoeba."""
        said = self.utterances + torch.randint(self.names - self.utterances, (size, longest), device=DEVICE)
        plain = self.paraphrases[torch.randint(len(self.paraphrases), said.shape, device=DEVICE), 0]
        said = torch.where(torch.rand(size, 1, device=DEVICE) < 0.3, plain, said)
        length = torch.randint(1, longest + 1, (size, 1), device=DEVICE)
        said = _cut(said, torch.where(torch.rand(size, 1, device=DEVICE) < 0.4, 1, length))
        sides = torch.stack([said, said], 1)
        return self._named(sides) if torch.rand(()) < 0.6 else sides

    def several_words(self, size: int) -> Tensor:
        """One to four words of a language."""
        words = torch.randint(self.words, (size, 4), device=DEVICE)
        language = torch.randint(1, self.word_languages + 1, (size, 1), device=DEVICE)
        sides = self.first_word + torch.stack([language * self.words + words, words], 1)
        sides = _cut(sides, torch.randint(1, 5, (size, 1, 1), device=DEVICE))
        return self._named(sides) if torch.rand(()) < 0.5 else sides


def _cut(texts: Tensor, length: Tensor) -> Tensor:
    return texts.masked_fill(torch.arange(texts.shape[-1], device=DEVICE) >= length, -1)


def _same_language(pairs: Tensor, languages: np.ndarray) -> Tensor:
    """Pairs of one language that share their English."""
    keys = on_device(languages) * (int(pairs.max()) + 1) + pairs[:, 1]
    order = torch.argsort(keys)
    same = keys[order][1:] == keys[order][:-1]
    return torch.stack([pairs[order[:-1][same], 0], pairs[order[1:][same], 0]], 1)


@dataclass(frozen=True)
class LastLessons:
    """What `practise` adds to the lessons of each step."""

    practice: Practice
    long_texts: LongTexts
    figures: Callable[[MiniLM], str]
    """A line about the student as it is, every so many steps."""


def train_student(
    student: MiniLM, teacher: MiniLM, lessons: Lessons, recipe: Recipe, last: LastLessons | None = None
) -> MiniLM:
    torch.manual_seed(recipe.seed)
    sentences = lessons.sentences(recipe.batch)
    english = lessons.english.get_vocab_size()
    vocabulary = student.embeddings["word_embeddings"].weight
    groups = [
        {"params": [vocabulary], "lr": recipe.vocabulary_rate},
        {"params": [p for p in student.parameters() if p is not vocabulary], "lr": recipe.rate},
    ]
    if DEVICE.type == "cuda":
        for layer in student.encoder["layer"]:
            layer.compile(dynamic=True)
    optimizer = torch.optim.AdamW(groups, fused=True)
    rates = [group["lr"] for group in groups]
    began = time.monotonic()
    student.train()
    student.rounds = last is not None and recipe.rounds > 0
    for step in range(recipe.steps):
        progress = max(step / recipe.steps, (time.monotonic() - began) / recipe.seconds)
        if progress >= 1:
            break
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * min(1, (step + 1) / recipe.warmup) * (1 + math.cos(progress * math.pi)) / 2
        kind = step % 10
        if last and torch.rand(()) < recipe.long_share:
            batch = last.long_texts.batch(recipe.batch // 4)
            loss = _of_english(student, teacher, *batch, recipe.closeness)
        else:
            loss = _loss_of(kind, student, teacher, lessons, sentences, recipe)
        if last:
            asked = last.practice.loss(student, recipe.batch // 2, recipe.asked_in_english)
            loss = loss + recipe.practice * asked
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        before = vocabulary[:english].detach().clone()
        optimizer.step()
        with torch.no_grad():
            vocabulary[:english].lerp_(before, 1 - recipe.english_share)
        spent = time.monotonic() - began
        if last and recipe.every and (step + 1) % recipe.every == 0:
            print(f"step {step + 1}, {spent:.0f} s: {last.figures(student)}", flush=True)
        if step % 400 < 10:
            print(f"student: step {step}, kind {kind}, loss {loss.item():.3f}, {spent:.0f} s", flush=True)
    return minilm.copy_of(student).eval()  # Not compiled: it reads texts of many lengths next.


def _loss_of(
    kind: int,
    student: MiniLM,
    teacher: MiniLM,
    lessons: Lessons,
    sentences: Iterator[Tensor],
    recipe: Recipe,
) -> Tensor:
    size = recipe.batch
    if kind == 1:
        return _of_two_languages(student, lessons, lessons.two_languages(size))
    if kind == 3:
        return _of_pair(student, teacher, lessons, lessons.passages(size // 4), recipe)
    if kind == 5:
        return _of_pair(student, teacher, lessons, lessons.chats(size // 2, 4), recipe)
    if kind == 9:
        return _of_pair(student, teacher, lessons, lessons.several_words(size // 4), recipe)
    if kind >= 7:
        sides = lessons.chats(size // 12, 14 if kind == 7 else 2).repeat_interleave(4, 0)
        return _of_english_words(student, teacher, lessons, sides, recipe.closeness)
    return _of_pair(student, teacher, lessons, next(sentences), recipe)


def _of_pair(student: MiniLM, teacher: MiniLM, lessons: Lessons, sides: Tensor, recipe: Recipe) -> Tensor:
    """A sentence before all of the batch is near its English, as the teacher and as the student read it."""
    if torch.rand(()) < recipe.own_share:
        sides = sides[:, [0, 0]]
    with minilm.fast():
        with torch.no_grad():
            meant = teacher(*lessons.english_texts.batch(sides[:, 1], 160)).float()
        foreign, own = (
            student(*lessons.texts.batch(torch.cat([sides[:, 0], sides[:, 1]]), 160))
            .float()
            .split(len(sides))
        )
    far = 2 - (foreign * meant).sum(1) - (own * meant).sum(1)
    contrast = _contrast(foreign, meant, sides[:, 1]) + _contrast(foreign, own, sides[:, 1])
    return contrast + recipe.closeness * far.mean()


def _of_english_words(
    student: MiniLM, teacher: MiniLM, lessons: Lessons, sides: Tensor, closeness: float
) -> Tensor:
    """Texts with any English words among theirs mean to the student what they mean to the teacher."""
    ids, mask = lessons.english_texts.batch(sides[:, 1], minilm.MAX_TOKENS)
    ids = minilm.scrambled(ids, mask, lessons.english.get_vocab_size())
    return _of_english(student, teacher, ids, mask, closeness)


def _of_english(student: MiniLM, teacher: MiniLM, ids: Tensor, mask: Tensor, closeness: float) -> Tensor:
    with minilm.fast():
        with torch.no_grad():
            meant = teacher(ids, mask).float()
        own = student(ids, mask).float()
    each = torch.arange(len(ids), device=DEVICE)[:, None]
    return _contrast(own, meant, each) + 2 * closeness * (1 - (own * meant).sum(1)).mean()


def _of_two_languages(student: MiniLM, lessons: Lessons, sides: Tensor) -> Tensor:
    with minilm.fast():
        left, right = (
            student(*lessons.texts.batch(torch.cat([sides[:, 0], sides[:, 1]]))).float().split(len(sides))
        )
    return _contrast(left, right, sides[:, 1]) + _contrast(right, left, sides[:, 0])


def _contrast(left: Tensor, right: Tensor, texts: Tensor) -> Tensor:
    """Each line's own partner before those of all others, other lines that end in the same text left out."""
    own = torch.arange(len(left), device=DEVICE)
    last = texts.gather(1, (texts >= 0).sum(1, keepdim=True) - 1)[:, 0]
    same = last[:, None] == last[None, :]
    same[own, own] = False
    return F.cross_entropy((left @ right.T / TEMPERATURE).masked_fill(same, -1e4), own)
