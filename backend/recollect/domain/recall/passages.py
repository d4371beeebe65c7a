"""Passages: of a note; the part of a long text that answers a query best; what is relevant enough for a prompt."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recollect.domain.recall.words import BASE_FORM, folded, only_asks, words_in

_sentence_end = re.compile(r"(?<=[.!?…\u061f\u06d4\u0964])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+").finditer
_BEGINNING = 3
"""Letters that a word and its stem have in common."""
_OTHER_FORMS: dict[str, list[str]] = {
    base: [form for form, its_base in BASE_FORM.items() if its_base == base]
    for base in set(BASE_FORM.values())
}
_STRETCH = 20_000
"""Characters of a long text that are looked at closely."""


def best_passage(text: str, words: Sequence[str], longest: int) -> tuple[str, tuple[int, int] | None]:
    """All of a short text; of a longer one whole sentences in a row, at most `longest` characters, and their place.

    Rare words count more: a word weighs the less, the more sentences hold it.
    """
    if len(text) <= longest:
        return text, None
    sentences = list(_sentences(text, *_best_stretch(text, set(words), longest), longest))
    if not sentences:
        return "", (0, 0)
    first, last = _best_run(text, sentences, set(words), longest)
    begin, end = sentences[first][0], _extended(sentences, first, last, longest)
    return text[begin:end].strip(), (begin, end)


def _best_stretch(text: str, asked: set[str], longest: int) -> tuple[int, int]:
    """From where to where a long text holds the most of what is asked for, as far as a quick look tells."""
    if len(text) <= _STRETCH:
        return 0, len(text)
    begins = range(0, len(text), _STRETCH)
    found = [_quickly_found(text[begin : begin + _STRETCH + longest], asked) for begin in begins]
    weight = {word: 1 / (1 + sum(word in each for each in found)) for word in sorted(asked)}
    best = max(begins, key=lambda begin: sum(weight[word] for word in sorted(found[begin // _STRETCH])))
    return max(0, best - longest), min(len(text), best + _STRETCH + longest)


def _quickly_found(stretch: str, asked: set[str]) -> set[str]:
    """Of what is asked for, what may be there: endings, which differ, are not compared."""
    plain = folded(stretch)
    return {
        word
        for word in asked
        if word[: max(_BEGINNING, len(word) - 1)] in plain
        or any(form in plain for form in _OTHER_FORMS.get(word, ()))
    }


def _best_run(
    text: str, sentences: Sequence[tuple[int, int]], asked: set[str], longest: int
) -> tuple[int, int]:
    """The first and the last of the sentences in a row that hold the most of what is asked for."""
    found = _words_found([text[begin:end] for begin, end in sentences], asked)
    weight = {word: 1 / (1 + sum(word in each for each in found)) for word in sorted(asked)}
    held: Counter[str] = Counter()
    best, best_value = (0, 0), 0.0
    first = 0
    for last, words in enumerate(found):
        held.update(words)
        while sentences[last][1] - sentences[first][0] > longest:
            held.subtract(found[first])
            first += 1
        value = sum(weight[word] for word in weight if held[word] > 0) if words else 0.0
        if value > best_value:
            best, best_value = (first, last), value
    return best


def _words_found(sentences: Sequence[str], asked: set[str]) -> list[set[str]]:
    """Of what is asked for, what each sentence holds. Most hold nothing, which the first letters tell at once."""
    beginnings = {word[:_BEGINNING] for word in asked} | {
        form[:_BEGINNING] for form, base in BASE_FORM.items() if base in asked
    }
    may_hold = re.compile("|".join(map(re.escape, sorted(beginnings))) or "(?!)", re.IGNORECASE).search
    return [
        asked.intersection(words_in(sentence)) if not sentence.isascii() or may_hold(sentence) else set()
        for sentence in sentences
    ]


def _extended(sentences: Sequence[tuple[int, int]], first: int, last: int, longest: int) -> int:
    """The end of the last sentence that still fits after the best ones."""
    begin = sentences[first][0]
    fitting = [end for _, end in sentences[last:] if end - begin <= longest]
    return fitting[-1]


def _sentences(text: str, first: int, last: int, longest: int) -> Iterator[tuple[int, int]]:
    """Those between two places that say something, none longer than `longest`."""
    edges = itertools.chain([first], (found.end() for found in _sentence_end(text, first, last)), [last])
    for begin, end in itertools.pairwise(edges):
        for piece in _pieces(text, begin, end, longest):
            if text[slice(*piece)].strip():
                yield piece


def _pieces(text: str, begin: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    """A sentence; one that is too long cut between words, where it has spaces."""
    while end - begin > longest:
        space = text.rfind(" ", begin + 1, begin + longest)
        cut = space + 1 if space > 0 else begin + longest
        yield begin, cut
        begin = cut
    yield begin, end


_LEAST_CHARS = 8
_LEAST_UNSPACED = 3
_unspaced = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
).findall


@dataclass(frozen=True, slots=True)
class Floor:
    """The least evidence that a memory is about what was asked.

    Similarity is the cosine of query and memory. The figures were chosen with all-MiniLM-L6-v2, on two of LoCoMo's and
    six of BEAM's conversations, and fit the model in the package better: of the evidence among the first five hits on
    LoCoMo 99 % stays instead of 96, and of the questions about other conversations 44 % get something instead of 51.
    Standing out among the owner's own rows told far less: something always does.
    """

    alike: float = 0.35
    """Enough by itself."""
    alike_with_words: float = 0.25
    """Enough together with `shared_words`."""
    shared_words: float = 0.3
    """Of the query's telling words, the part that the memory holds too."""
    words_alone: float = 0.34
    """The same, where there is no similarity to go by."""

    def lets_pass(self, similarity: float | None, query: str, words: Sequence[str], text: str) -> bool:
        """`words` are the query's telling words."""
        held = len(set(words).intersection(words_in(text)))
        share = held / max(1, len(words))
        if similarity is None:
            pairs = 2 if _unspaced(query) else len(words)
            return share >= self.words_alone or (held >= pairs > 0)
        return similarity >= self.alike or (
            similarity >= self.alike_with_words and share >= self.shared_words
        )


def tells_nothing(text: str) -> bool:
    """Too short, or a question and nothing else: whoever asked once did not tell."""
    bare = text.strip()
    least = _LEAST_UNSPACED if _unspaced(bare) else _LEAST_CHARS
    return len(bare) < least or only_asks(bare)


NOTE_CHARS = 1_200
"""A note is cut into passages of about this length."""
_MOST_PASSAGES = 200
"""In a note that would have more, neighbouring short ones are joined up to `NOTE_CHARS`."""
_HEADING_CHARS = 200
_heading = re.compile(r"^#{1,6}[ \t]+(.*)", re.MULTILINE)


def note_passages(body: str) -> list[str]:
    """The text of a note in passages, each of them below one heading."""
    passages = list(_below_headings(body))
    return list(_joined(passages)) if len(passages) > _MOST_PASSAGES else passages


def _below_headings(body: str) -> Iterator[str]:
    heading = ""
    for section in _sections(body):
        if found := _heading.match(section):
            heading = found[1].strip()[:_HEADING_CHARS]
        yield from _joined(_short(section.split("\n\n")), heading)


def _joined(paragraphs: Iterable[str], heading: str = "") -> Iterator[str]:
    """Passages of whole paragraphs; all but the first repeat the heading."""
    kept: list[str] = []
    length = 0
    for paragraph in paragraphs:
        if kept and length + len(paragraph) > NOTE_CHARS:
            yield "\n\n".join(kept)
            kept, length = [heading] if heading else [], len(heading)
        kept.append(paragraph)
        length += len(paragraph)
    if kept:
        yield "\n\n".join(kept)


def _sections(body: str) -> list[str]:
    starts = [found.start() for found in _heading.finditer(body)]
    edges = [0, *(start for start in starts if start), len(body)]
    sections = (body[first:last].strip() for first, last in itertools.pairwise(edges))
    return [section for section in sections if section]


def _short(paragraphs: Sequence[str]) -> Iterator[str]:
    """Paragraphs; one that is too long in pieces, cut between lines, else between words, where that is possible."""
    for paragraph in paragraphs:
        rest = paragraph.strip()
        while len(rest) > NOTE_CHARS:
            head = rest[: NOTE_CHARS + 1]
            cut = max(head.rfind("\n"), 0) or max(head.rfind(" "), 0) or NOTE_CHARS
            yield rest[:cut].strip()
            rest = rest[cut:].strip()
        if rest:
            yield rest
