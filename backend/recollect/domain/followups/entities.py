"""Entities: who and what a text speaks of, by simple rules and in any script. No knowledge of the world is needed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from recollect.domain.followups import name_hints as hints
from recollect.domain.followups.name_cjk import cjk_entities

# ruff: noqa: RUF001 - punctuation of other scripts is meant


Kind = Literal["person", "place", "group", "thing", "unknown"]
Gender = Literal["male", "female", ""]

CLIPPED_AT = 1_200
"""What a long text is about stands in its beginning."""
_LONGEST_NAME = 6
"""Words."""
_EVIDENCE_CHARS = 250
"""So far after a name "he" or "she" tells its gender."""


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something that was named, and what its surroundings tell of it."""

    name: str
    kind: Kind = "unknown"
    gender: Gender = ""
    plural: bool = False
    start: int = 0
    """Where it stands in the text."""


@dataclass(frozen=True, slots=True)
class Word:
    """A run of letters and its place."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.text.casefold()

    @property
    def capital(self) -> bool:
        return self.text[0].isupper()


_word = re.compile(r"[^\W_]+(?:['\-.&](?=[^\W_])[^\W_]+)*").finditer
_sentence_end = re.compile(r"[.!?…:;。！？\n\"“„«(¿¡\-–—*#]\s*$").search
_title = re.compile(r"(?:mr|mrs|ms|dr|prof|st)\.\s*$", re.IGNORECASE).search
_quoted = re.compile(r'"([^"\n]{2,80})"|“([^”\n]{2,80})”|„([^“\n]{2,80})“|«\s?([^»\n]{2,80}?)\s?»').finditer
_handle = re.compile(r"(?<![\w@.])@\w[\w.\-]{1,38}\w").finditer
_code = re.compile(
    r"`([^`\n]{1,80})`|\b([A-Za-z]\w*_\w+)\b|\b([a-z]+[A-Z]\w*)\b|\b([A-Za-z_]\w*\(\))"
).finditer
_possessive = re.compile(r"'s$").sub
_he = re.compile(r"\b(?:he|him|his|himself)\b", re.IGNORECASE).search
_she = re.compile(r"\b(?:she|her|hers|herself)\b", re.IGNORECASE).search
_who_is = re.compile(
    r"(?:\bwho(?:'s| is| was)|\bwer (?:ist|war)|\bqui (?:est|était)|\bquién (?:es|fue|era))\s+$",
    re.IGNORECASE,
).search
_born = re.compile(r"^\s*(?:,|\()?\s*(?:born|geboren|né|née|nacid[oa])\b", re.IGNORECASE).search
_made_by = re.compile(r"\b(?:written|directed|painted|composed|founded|sung|made|invented) by\s+$").search
_made = re.compile(
    r"\b(?:wrote|directed|painted|composed|read|watched|invented|use|using|installed)\s+$"
).search
_toward = re.compile(
    r"\b(?:in|to|from|near|at|à|en|nach|aus|visit|visited)\s+(?:the\s+)?$", re.IGNORECASE
).search
_predicate = re.compile(
    r"\s*(?:is|are|was|were|has|had|have|said|says|told|lives|lived|works|worked|wrote|won|went|will|can|did|does|and"
    r"|moved|likes|loves|got|started|'s|,|ist|war|hat|est|était|a\s|es|fue|tiene)(?:\b|(?=\W))"
).match
_BY_ENDING: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("place", hints.PLACE_ENDINGS),
    ("group", hints.GROUP_ENDINGS),
    ("thing", hints.THING_ENDINGS),
)
_OPENERS = frozenset(
    (  # noqa: SIM905 - forty lines of one word each say no more
        "a about after all also an and another any are as at be because before but by can could did do does each even "
        "every first for from had has have he her here his how however if in is it its let like many maybe more most my "
        "no not now of on once one or other our out please second she should since so some such tell than thank thanks "
        "that the their them then there these they this those though to too under was we well were what when where "
        "which while who whose why will with would yes yet you your hi hello hey der die das ein eine wer was wie wo "
        "wann warum welche welcher welches ist sind hat und aber er sie es wir in im am le la les un une qui que quoi "
        "quel quelle où quand comment pourquoi et est il elle ils elles el los las una quién qué cómo dónde cuándo y es "
        "él ella that's it's what's who's he's she's there's here's i'm don't both today yesterday tomorrow"
    ).split()
)


def words_of(text: str) -> list[Word]:
    """The words of a text in order; an apostrophe or a hyphen inside belongs to its word."""
    return [Word(found[0], found.start(), found.end()) for found in _word(text)]


def opens_sentence(text: str, word: Word) -> bool:
    before = text[max(0, word.start - 6) : word.start]
    return not before.strip() or (_sentence_end(before) is not None and not _title(before))


def with_plain_apostrophes(text: str) -> str:
    """Of the same length, so that places in it stay where they are."""
    return text.replace("’", "'")


def entities_in(text: str) -> list[Entity]:
    """Those in a text's beginning, each once, in the order in which they are first named."""
    clipped = with_plain_apostrophes(text[:CLIPPED_AT])
    found = sorted(
        [*_marked(clipped), *_names(clipped), *(Entity(*each) for each in cjk_entities(clipped))],
        key=lambda entity: (entity.start, -len(entity.name)),
    )
    return _once(found)


def _once(found: Sequence[Entity]) -> list[Entity]:
    """One for each name; a later "Trump" is the "Donald Trump" before it."""
    kept: list[Entity] = []
    end = 0
    for entity in found:
        inside = entity.start < end
        if inside or any(_is_short_for(entity.name, other.name) for other in kept):
            continue
        kept.append(entity)
        end = entity.start + len(entity.name)
    return kept


def _is_short_for(name: str, other: str) -> bool:
    return name == other or f" {name} " in f" {other} "


def _marked(text: str) -> Iterator[Entity]:
    """What quotes, an @ or its spelling mark as a name."""
    for found in _quoted(text):
        name = next(filter(None, found.groups())).strip()
        if name and len(name.split()) <= 2 * _LONGEST_NAME and name[0].isalnum() and not name.endswith("?"):
            yield Entity(name.rstrip(".,!"), "thing", start=found.start())
    for found in _handle(text):
        yield Entity(found[0], "person", start=found.start())
    for found in _code(text):
        yield Entity(next(filter(None, found.groups())), "thing", start=found.start())


def _names(text: str) -> Iterator[Entity]:
    words = words_of(text)
    articles = _has_capital_nouns(words)
    place = 0
    while place < len(words):
        length = _name_length(text, words, place) if words[place].capital else 0
        if length:
            run = words[place : place + length]
            plain_noun = articles and place and _is_german_noun(words, place, length)
            if not plain_noun and not _is_heading(text, run):
                yield _described(text, words, run, place)
        place += length or 1


def _has_capital_nouns(words: Sequence[Word]) -> bool:
    """German writes every noun with a capital."""
    return sum(word.lower in _GERMAN for word in words) * 6 >= max(6, len(words))


_GERMAN = frozenset(
    "der die das und ist ein eine nicht mit wer wie wo was den dem des von zu auf für im ich sie er es".split()  # noqa: SIM905
)
_GERMAN_ARTICLES = frozenset(
    (  # noqa: SIM905
        "der die das den dem des ein eine einen einem einer eines mein meine meinen meiner dein deine kein keine im am "
        "vom zum zur seine seinen seiner ihre ihren welche welcher welches"
    ).split()
)


def _is_german_noun(words: Sequence[Word], place: int, length: int) -> bool:
    return length == 1 and words[place - 1].lower in _GERMAN_ARTICLES


def _is_heading(text: str, run: Sequence[Word]) -> bool:
    """ "**Next Steps**: …" """
    before, after = text[max(0, run[0].start - 4) : run[0].start], text[run[-1].end : run[-1].end + 3]
    return before.endswith(("**", "# ")) and (after.startswith((":", "**:", "\n")) or "#" in before)


def _name_length(text: str, words: Sequence[Word], place: int) -> int:
    """How many words make the name that begins here; 0 for none."""
    if not _may_begin(text, words, place):
        return 0
    length = 1
    last = place
    for next_place in range(place + 1, min(len(words), place + _LONGEST_NAME)):
        word = words[next_place]
        between = text[words[next_place - 1].end : word.start]
        after_title = words[next_place - 1].lower in hints.TITLES and between.strip() in ("", ".")
        if between.strip(" ") and not after_title:
            break
        if _possessive("", words[next_place - 1].text) != words[next_place - 1].text:
            break
        if _is_name_part(word):
            last = next_place
            length = last - place + 1
        elif word.lower not in hints.PARTICLES or next_place - last > 2:
            break
    return length


def _is_name_part(word: Word) -> bool:
    return (
        word.capital or (word.text.isdigit() and len(word.text) <= 4)
    ) and word.lower not in hints.NOT_NAMES


def _may_begin(text: str, words: Sequence[Word], place: int) -> bool:
    word = words[place]
    stem = word.lower.partition("'")[0]
    if word.lower in hints.NOT_NAMES or stem in hints.NOT_NAMES:
        return False
    if len(word.text) == 1 and text[word.end : word.end + 1] != ".":
        return False
    if not opens_sentence(text, word):
        return True
    bare = _possessive("", word.lower)
    if bare in _OPENERS or stem in _OPENERS:
        return False
    if bare in hints.KNOWN_FIRST or bare in hints.PLACES:
        return True
    follows = words[place + 1] if place + 1 < len(words) else None
    if follows is None:
        return text[word.end :].strip(" ?!.") == "" and len(words) == 1
    if follows.capital and text[word.end : follows.start] == " " and follows.lower not in hints.NOT_NAMES:
        return True
    return _predicate(text[word.end : word.end + 12]) is not None


def _described(text: str, words: Sequence[Word], run: Sequence[Word], place: int) -> Entity:
    start, end = run[0].start, run[-1].end
    name = _possessive("", text[start:end])
    before = text[max(0, start - 30) : start]
    kin = words[place - 1].lower if place else ""
    kind = _kind(run, before, text[end : end + 20], kin)
    gender = _gender(run, kin) if kind in ("person", "unknown") else ""
    if not gender and kind in ("person", "unknown"):
        gender = _gender_told(text[end : end + _EVIDENCE_CHARS])
        kind = "person" if gender and (kind == "person" or len(run) > 1) else kind
    entity = Entity(name, kind, gender, start=start)
    last = run[-1].lower
    return replace(entity, plural=True) if kind == "group" or last in hints.PLURAL_ENDINGS else entity


def _kind(run: Sequence[Word], before: str, after: str, kin: str) -> Kind:
    first, last = _possessive("", run[0].lower), _possessive("", run[-1].lower)
    for kind, endings in _BY_ENDING:
        if last in endings:
            return kind
    named = first in hints.KNOWN_FIRST
    if named or kin in hints.PERSON_NOUNS or _made_by(before) or _born(after):
        return "person"
    if len(run) == 1 and len(first) > 1 and run[0].text.isupper():
        return "group"  # NASA
    if first in hints.PLACES or last in hints.PLACES:
        return "place"
    if _who_is(before):
        return "person"
    if _made(before):
        return "thing"
    return "place" if _toward(before) and len(run) == 1 else "unknown"


def _gender(run: Sequence[Word], kin: str) -> Gender:
    first = _possessive("", run[0].lower)
    if first in hints.MALE_NAMES or first in hints.MALE_TITLES or kin in hints.MALE_KIN:
        return "male"
    if first in hints.FEMALE_NAMES or first in hints.FEMALE_TITLES or kin in hints.FEMALE_KIN:
        return "female"
    return ""


def _gender_told(after: str) -> Gender:
    """By the first "he" or "she" that follows."""
    he, she = _he(after), _she(after)
    if he and (not she or he.start() < she.start()):
        return "male"
    return "female" if she else ""
