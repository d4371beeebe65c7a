"""The English teacher: all-MiniLM-L6-v2 that learns who says what in conversations."""

import math
import random
from dataclasses import dataclass

import minilm
import torch
import torch.nn.functional as F  # noqa: N812
from corpus import NAMES, Chats, about, asked_about
from minilm import DEVICE, MiniLM, Texts
from tokenizers import Tokenizer
from torch import Tensor

NEGATIVES = 7
TEMPERATURE = 0.05
SURE = 0.5
"""How near an utterance must be to a persona line, by the model as it comes, to be what says it."""


@dataclass(frozen=True)
class Recipe:
    steps: int = 440
    batch: int = 64
    rate: float = 6e-5
    faithful: float = 8.0
    """How much a change of plain sentences, away from the model as it comes, counts."""
    scrambled: bool = True
    """Whether every second batch of those sentences has any words among its own."""
    persona_lines: float = 0.8
    """The share of queries that are made of persona lines; the others are questions of the dialogues."""
    seed: int = 0


def train_teacher(
    stock: MiniLM, tokenizer: Tokenizer, chats: Chats, english: list[str], recipe: Recipe
) -> MiniLM:
    torch.manual_seed(recipe.seed)
    rng = random.Random(recipe.seed)  # noqa: S311
    prefixes = [f"{name}:" for name in (*NAMES, "user")]
    texts = Texts(tokenizer, chats.utterances + prefixes)
    plain = Texts(tokenizer, english + chats.utterances)
    lines = _lines_with_utterance(stock, tokenizer, chats, texts)
    questions = [entry for entry in chats.questions if chats.utterances[entry[1]].strip()]
    in_dialogue: dict[int, list[int]] = {}
    for number, dialogue in enumerate(chats.dialogues):
        in_dialogue.setdefault(dialogue, []).append(number)

    def example() -> tuple[str, list[tuple[int, int]]]:
        """A query, and the utterance that answers it before others of its dialogue, each with who says it."""
        if rng.random() < recipe.persona_lines:
            said, right = rng.choice(lines)
        else:
            said, right = rng.choice(questions)
        own = rng.randrange(len(NAMES))
        names = {chats.speakers[right]: own, 3 - chats.speakers[right]: rng.randrange(len(NAMES))}
        if said.endswith("?"):
            named = rng.random() < 0.75
            query = about(said, NAMES[own] if named else None)
            if not named:
                names[chats.speakers[right]] = rng.choice((len(NAMES), -1))
        else:
            query = asked_about(said, NAMES[own], rng)
        others = [number for number in in_dialogue[chats.dialogues[right]] if number != right]
        wrong = rng.choices(others or [right], k=NEGATIVES)
        return query, [(names[chats.speakers[n]], n) for n in (right, *wrong)]

    model = minilm.copy_of(stock).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, fused=True)
    for step in range(recipe.steps):
        progress = step / recipe.steps
        optimizer.param_groups[0]["lr"] = (
            recipe.rate * min(1, 10 * progress + 0.01) * math.cos(progress * math.pi / 2)
        )
        examples = [example() for _ in range(recipe.batch)]
        queries = Texts(tokenizer, [query for query, _ in examples])
        rows = [
            (len(chats.utterances) + name if name >= 0 else -1, number)
            for column in range(NEGATIVES + 1)
            for _, said in examples
            for name, number in said[column : column + 1]
        ]
        some = torch.randint(len(plain), (4 * recipe.batch,), device=DEVICE)
        with minilm.fast():
            asked = model(*queries.batch(torch.arange(recipe.batch, device=DEVICE)))
            answers = model(*texts.batch(torch.tensor(rows, device=DEVICE)))
            loss = _contrast(asked, answers, rows)
            if recipe.faithful:
                ids, mask = plain.batch(some, 64)
                if recipe.scrambled and step % 2:
                    ids = minilm.scrambled(ids, mask, tokenizer.get_vocab_size())
                with torch.no_grad():
                    before = stock(ids, mask)
                loss = loss + recipe.faithful * (1 - (model(ids, mask) * before).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"teacher: step {step} of {recipe.steps}, loss {loss.item():.3f}", flush=True)
    return model.eval()


def _contrast(asked: Tensor, answers: Tensor, rows: list[tuple[int, int]]) -> Tensor:
    """Each query's own answer, first of its column, before all other answers of the batch."""
    scores = (asked.float() @ answers.float().T) / TEMPERATURE
    right = torch.arange(len(asked), device=DEVICE)
    number = torch.tensor([row[1] for row in rows], device=DEVICE)
    same = number[None, :] == number[: len(asked), None]
    same[right, right] = False
    return F.cross_entropy(scores.masked_fill(same, -1e4), right)


def _lines_with_utterance(
    stock: MiniLM, tokenizer: Tokenizer, chats: Chats, texts: Texts
) -> list[tuple[str, int]]:
    """Each persona line beside the utterance of its speaker that is nearest, if that is near."""
    said = minilm.embed(stock, texts, torch.arange(len(chats.utterances), device=DEVICE)).cpu()
    lines = minilm.embed(stock, Texts(tokenizer, [line for line, _, _ in chats.personas])).cpu()
    own: dict[tuple[int, int], list[int]] = {}
    for number, key in enumerate(zip(chats.dialogues, chats.speakers, strict=True)):
        own.setdefault(key, []).append(number)
    found = []
    for (line, *key), vector in zip(chats.personas, lines, strict=True):
        numbers = own.get((key[0], key[1]), [])
        if numbers:
            nearness, place = (said[numbers] @ vector).max(0)
            if nearness >= SURE:
                found.append((line, numbers[int(place)]))
    return found


def average(models: list[MiniLM], shares: list[float] | None = None) -> MiniLM:
    """The mean of the weights of models that began as the same one."""
    mean = minilm.copy_of(models[0])
    states = [model.state_dict() for model in models]
    shares = shares or [1 / len(models)] * len(models)
    parts = {
        name: [share * state[name] for share, state in zip(shares, states, strict=True)] for name in states[0]
    }
    mean.load_state_dict({name: torch.stack(values).sum(0) for name, values in parts.items()})
    return mean.eval()
