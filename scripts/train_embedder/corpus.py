"""What the models learn from: Tatoeba's parallel sentences, and questions about what people say in persona chats."""

import gzip
import json
import lzma
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from minilm import DEVICE
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, from_numpy

PIECES = 75_871
"""BERT's 30,522 and those of the other languages."""
SENTENCES_FOR_PIECES = 30_000
"""Of each language: a rare one counts as much as a common one, at most eight times over."""

NAMES = (Path(__file__).parent / "names.txt").read_text().split()


@dataclass
class Tatoeba:
    languages: list[str]
    sentences: list[str]
    english: npt.NDArray[np.uint32]
    """Pairs: a sentence and an English one that says the same."""
    translations: npt.NDArray[np.uint32]
    """Pairs in two other languages."""
    paraphrases: npt.NDArray[np.uint32]
    """Pairs in English."""


def read_tatoeba(folder: Path) -> Tatoeba:
    with lzma.open(folder / "tatoeba-sentences.tsv.xz", "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines]
    pairs = (_pairs(folder / f"tatoeba-{kind}.u32.xz") for kind in ("english", "translations", "paraphrases"))
    return Tatoeba([row[0] for row in rows], [row[1] for row in rows], *pairs)


def _pairs(file: Path) -> npt.NDArray[np.uint32]:
    return np.frombuffer(lzma.decompress(file.read_bytes()), "<u4").reshape(-1, 2)


def train_tokenizer(data: Tatoeba, english: Tokenizer) -> Tokenizer:
    """BERT's pieces, in their places, and after them those of a WordPiece of the other languages."""
    by_language: dict[str, list[str]] = {}
    for language, sentence in zip(data.languages, data.sentences, strict=True):
        if language != "eng":
            by_language.setdefault(language, []).append(sentence)
    rng = random.Random(0)  # noqa: S311
    corpus: list[str] = []
    for sentences in by_language.values():
        times = min(8, -(-SENTENCES_FOR_PIECES // len(sentences)))
        corpus += rng.sample(sentences, min(len(sentences), SENTENCES_FOR_PIECES)) * times
    other = _wordpiece({"[UNK]": 0})
    other.train_from_iterator(
        corpus, trainers.WordPieceTrainer(vocab_size=64_000, limit_alphabet=12_000, show_progress=False)
    )
    pieces = english.get_vocab()
    for piece, _ in sorted(other.get_vocab().items(), key=lambda entry: entry[1]):
        if len(pieces) < PIECES:
            pieces.setdefault(piece, len(pieces))
    return _wordpiece(pieces)


def _wordpiece(pieces: dict[str, int]) -> Tokenizer:
    """Lower case, accents kept, Chinese characters apart."""
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=200))  # noqa: S106
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if "[CLS]" in pieces:
        special = [(name, pieces[name]) for name in ("[CLS]", "[SEP]")]
        tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=special)
    return tokenizer


def read_words() -> list[list[str]]:
    """Words of daily life: a line in English, and one in each other language, word under word."""
    rows = (Path(__file__).parent / "words.tsv").read_text("utf-8").splitlines()[1:]
    return [list(words) for words in zip(*(row.split("\t") for row in rows), strict=True)]


@dataclass
class Chats:
    """Utterances of persona chats, and questions that some of them answer."""

    utterances: list[str] = field(default_factory=list)
    speakers: list[int] = field(default_factory=list)
    """1 or 2."""
    dialogues: list[int] = field(default_factory=list)
    questions: list[tuple[str, int]] = field(default_factory=list)
    """About the other speaker, as asked, and the number of the utterance that follows."""
    personas: list[tuple[str, int, int]] = field(default_factory=list)
    """A line, and the dialogue and the speaker it is about."""


def read_chats(file: Path) -> Chats:
    chats = Chats()
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for number, dialogue in enumerate(map(json.loads, lines)):
            for speaker, persona in enumerate(dialogue["personas"], 1):
                chats.personas += [(line, number, speaker) for line in persona]
            for turn, following in zip(dialogue["turns"], [*dialogue["turns"][1:], None], strict=False):
                chats.utterances.append(turn["text"])
                chats.speakers.append(turn["speaker"])
                chats.dialogues.append(number)
                asked = re.findall(r"[^.!?]+\?", turn["text"])
                if asked and following and following["speaker"] != turn["speaker"]:
                    question = re.sub(
                        r"^\W*(so|and|well|oh|but|wow|cool|nice)\b,? ", "", asked[-1].strip(), flags=re.I
                    )
                    if _asks_for_a_fact(question) and len(following["text"].split()) > 4:
                        chats.questions.append((question, len(chats.utterances)))
    return chats


def _asks_for_a_fact(question: str) -> bool:
    """About the other one alone, and not about what was said just before."""
    words = set(re.findall(r"\w+", question.lower()))
    return (
        len(words) > 3
        and bool(words & {"you", "your"})
        and not words & {"i", "my", "me", "we", "us", "about"}
    )


_THIRD_QUESTION = [
    (r"\b(what|how) about you\b", r"\1 about {name}"),
    (r"\bdo you\b", "does {name}"),
    (r"\bhave you\b", "has {name}"),
    (r"\bare you\b", "is {name}"),
    (r"\bwere you\b", "was {name}"),
    (r"\byou're\b|\byou are\b", "{name} is"),
    (r"\byou've\b|\byou have\b", "{name} has"),
    (r"\byours?\b", "{name}'s"),
    (r"\byourself\b", "{name}"),
    (r"\byou\b", "{name}"),
]
_FIRST_QUESTION = [
    (r"\bare you\b", "am I"),
    (r"\bwere you\b", "was I"),
    (r"\byou're\b|\byou are\b", "I am"),
    (r"\byour\b", "my"),
    (r"\byours\b", "mine"),
    (r"\byourself\b", "myself"),
    (r"\byou\b", "I"),
]


def about(question: str, name: str | None) -> str:
    """ "What do you do?" as "What does Anna do?", or without a name as "What do I do?"."""
    for pattern, words in _FIRST_QUESTION if name is None else _THIRD_QUESTION:
        question = re.sub(pattern, words.format(name=name), question, flags=re.IGNORECASE)
    return question[0].upper() + question[1:]


_WHAT_OF = [
    (
        r"i (?:really |also )?(love|like|enjoy|hate|prefer|want|need|play|collect|drive|eat|drink|teach|study|own|watch|read|make) .+",
        "What does {name} {0}?",
    ),
    (r"i live (?:in|at|on|with) .+", "Where does {name} live?"),
    (r"i(?: am|'m) from .+", "Where is {name} from?"),
    (r"i work (?:in|at|for|as|on) .+", "What does {name} do for a living?"),
    (r"i(?: am|'m) an? .+", "What is {name}?"),
    (
        r"i have (\w+) (dogs?|cats?|kids?|children|sisters?|brothers?|siblings|pets?) ?.*",
        "How many {1} does {name} have?",
    ),
    (r"i have (?:a|an|two|three|four|some|many) .+", "What does {name} have?"),
    (r"my favorite ([\w ]+?) (?:is|are) .+", "What is {name}'s favorite {0}?"),
    (r"my ([\w ]+?) (?:is|are|was|were) .+", "What is {name}'s {0}?"),
    (r"i was born (?:in|on) .+", "Where was {name} born?"),
    (r"i (?:grew up|was raised) .+", "Where did {name} grow up?"),
    (r"i want to (be|become) .+", "What does {name} want to {0}?"),
    (r"i(?: am|'m) (\w+ing) .+", "What is {name} {0}?"),
    (r"i (?:just |recently )?(got|bought|went|moved|started|won|lost|met) .+", "What happened to {name}?"),
]
_THIRD_PERSON = [
    (r"\bi(?: am|'m)\b", "{name} is"),
    (r"\bi(?: have|'ve)\b", "{name} has"),
    (r"\bi (do not|don't|dont)\b", "{name} does not"),
    (r"\bi (was|will|can|could|would|should|never|had|used|just|also|really|always|often|did)\b", r"{name} \1"),
    (r"\bi (\w+[^aeious\W])\b", r"{name} \1s"),
    (r"\bi (\w+[aeiou])\b", r"{name} \1s"),
    (r"\bi\b", "{name}"),
    (r"\bmy\b", "{name}'s"),
    (r"\bmine\b", "{name}'s"),
    (r"\b(me|myself)\b", "{name}"),
]  # fmt: skip


def asked_about(line: str, name: str, rng: random.Random) -> str:
    """A persona line as a question, or said of a person by name."""
    plain = line.strip().rstrip(".!").lower()
    kind = rng.random()
    if kind < 0.45:
        for pattern, question in _WHAT_OF:
            if found := re.fullmatch(pattern, plain):
                return question.format(*found.groups(), name=name)
    said = plain
    for pattern, words in _THIRD_PERSON:
        said = re.sub(pattern, words.format(name=name), said)
    if kind < 0.75 and (found := re.fullmatch(rf"{name} is (.+)", said)):
        return f"Is {name} {found[1]}?"
    if kind < 0.75 and (
        found := re.fullmatch(
            r"i (?:really |also )?(love|like|enjoy|hate|have|want|work|live|play|own) (.+)", plain
        )
    ):
        return f"Does {name} {found[1]} {found[2].replace('my ', 'their ')}?"
    return said[0].upper() + said[1:] + "."


def on_device(pairs: npt.NDArray[np.generic]) -> Tensor:
    return from_numpy(pairs.astype(np.int64)).to(DEVICE)
