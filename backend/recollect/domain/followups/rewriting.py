"""Follow-ups, made to stand alone for recall: by rules, without a model. The user's own words are never replaced."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recollect.domain.followups import follow_up_words as follow_up
from recollect.domain.followups import name_hints as hints
from recollect.domain.followups.dialogue import Dialogue, fit
from recollect.domain.followups.entities import (
    Entity,
    Word,
    entities_in,
    opens_sentence,
    with_plain_apostrophes,
    words_of,
)
from recollect.domain.followups.follow_up_words import Language, Pronoun, Wanted
from recollect.domain.model import Turn
from recollect.domain.prompt import CONTEXT_MARK, SUMMARY_MARK

_RECENT = 12
"""Turns that a follow-up may lean on."""
_LONGEST_FOLLOW_UP = 300
"""Characters. A longer message says itself what it is about."""
_CLIPPED_AT = 2_000
_MOST_WORDS_INSTEAD = 8
_EDGES = " \t?!.…¿¡。？！"  # noqa: RUF001
_her_object = frozenset("in to for and or but with at on about from by too now then again when if is was because".split())  # fmt: skip  # noqa: SIM905
_OBJECTS = frozenset("him them it her himself herself themselves itself".split())  # noqa: SIM905
_new_clause = re.compile(
    r"[,;.:!?]|\b(?:and|but|or|if|when|because|so|that|which|after|before|while|then|to|who|where|until|although)\b",
    re.IGNORECASE,
).search
_noun_phrase = re.compile(
    r"\b(?:a|an|the|my|your|our|some|any|every|each|another|no|this|that|i)\s+(?P<noun>[^\W\d_]{3,})",
    re.IGNORECASE,
).finditer
_owned = re.compile(
    r"(?:'s(?: (?:older|elder|younger|big|little|first|second|last|new|old|best|favou?rite|current|former|ex))?"
    r" [^\W\d_]+)+"
).match
_plural_noun = re.compile(
    r"\b(?!(?:this|his|was|does|has|its|yes|always|perhaps|us)\b)[^\W\d_]{3,}s\b"
).search


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What to search for, and why it is that."""

    query: str
    changed: bool = False
    why: str = "it stands alone"


def rewrite_by_rules(message: str, recent: Sequence[Turn]) -> Rewrite:
    """A query that stands alone. `recent` are the turns before the message, the oldest first.

    A complete message comes back as it is. Takes time in proportion to the length of the texts, up to a limit.
    """
    dialogue = Dialogue()
    for turn in recent[-_RECENT:]:
        text = turn.content[:_CLIPPED_AT]
        if not text.strip() or text.startswith((CONTEXT_MARK, SUMMARY_MARK)):
            continue
        if turn.role == "user":
            dialogue.said(_resolved(text, dialogue).query)
        elif turn.role == "assistant":
            dialogue.answered(text)
    return _resolved(message, dialogue)


def _resolved(message: str, dialogue: Dialogue) -> Rewrite:
    if dialogue.is_empty:
        return Rewrite(message, why="nothing was said before it")
    if len(message) > _LONGEST_FOLLOW_UP:
        return Rewrite(message)
    text = " ".join(with_plain_apostrophes(message).split())
    for rule in (_about_the_answer, _one_of_several, _instead, _with_names, _pointing):
        if (found := rule(text, dialogue)) is not None:
            return found
    return Rewrite(message)


def _about_the_answer(text: str, dialogue: Dialogue) -> Rewrite | None:
    bare = text.strip(_EDGES)
    if bare and follow_up.ABOUT_THE_ANSWER.fullmatch(bare) and (topic := dialogue.topic()):
        return Rewrite(topic, changed=True, why="about the last answer")
    if bare and follow_up.CONTINUES.fullmatch(bare):
        return _joined(text, dialogue, "goes on from the last exchange")
    return None


def _one_of_several(text: str, dialogue: Dialogue) -> Rewrite | None:
    found = follow_up.NTH.search(text)
    if found is None or len(text.split()) > _MOST_WORDS_INSTEAD:
        return None
    number = follow_up.CHINESE_NUMBERS.get(found["zh"] or "") or follow_up.ORDINALS.get(
        (found["nth"] or "").lower(), 0
    )
    item = dialogue.nth(number)
    if item is None:
        return _joined(text, dialogue, f"'{found[0]}' of the last exchange")
    return Rewrite(f"{text} ({item})", changed=True, why=f"'{found[0]}' is {item}")


def _instead(text: str, dialogue: Dialogue) -> Rewrite | None:
    """ "And in Paris?": the last question with something else in the place of what it named."""
    rest, sure = _what_instead(text)
    if rest is None or not dialogue.last_said:
        return None
    named = _with_names(rest, dialogue)
    rest = named.query if named is not None and "(" not in named.query else rest
    query = _put_into(dialogue.last_said, rest)
    if query is None and not sure:
        return None
    return Rewrite(
        query or f"{dialogue.last_said} {rest}",
        changed=True,
        why="the last question, asked of something else",
    )


def _what_instead(text: str) -> tuple[str | None, bool]:
    """What takes the place of something in the last question, and whether the words leave no doubt of that."""
    if cjk := follow_up.INSTEAD_CJK.match(text):
        rest = cjk["zh"] or cjk["ja"]
        pronoun = follow_up.CJK_PRONOUN.search(rest)
        return (rest, True) if pronoun is None or pronoun[0] == rest else (None, False)
    asks = text.endswith("?")
    found = follow_up.INSTEAD.match(text)
    rest = found["rest"] if found else text.strip(_EDGES)
    words = rest.split()
    if len(words) > _MOST_WORDS_INSTEAD or any(word.lower().strip(",") in follow_up.ASKING for word in words):
        return None, False
    if found:
        lead = text[: found.start("rest")].lower()
        return (rest, True) if asks or " about" in lead else (None, False)
    is_name = (
        len(words) <= 3
        and bool(entities_in(rest))
        and (words[0][0].isupper() or words[0].lower() in follow_up.PREPOSITIONS)
    )
    return (rest, False) if asks and is_name else (None, False)


def _put_into(question: str, rest: str) -> str | None:
    named = entities_in(question)
    head, _, tail = rest.partition(" ")
    preposition = head.lower() if tail and head.lower() in follow_up.PREPOSITIONS else ""
    for entity in reversed(named):
        before = question[: entity.start].rstrip().rsplit(" ", 1)[-1].lower() if entity.start else ""
        if preposition and before == preposition:
            return _replaced(question, entity, tail)
    wanted = _kind_of(tail if preposition else rest)
    for entity in reversed(named):
        if wanted == entity.kind or (wanted is not None and "unknown" in (wanted, entity.kind)):
            return _replaced(question, entity, tail if preposition else rest)
    return None


def _kind_of(text: str) -> str | None:
    if any(word.lower in hints.PERSON_NOUNS for word in words_of(text)):
        return "person"
    found = entities_in(text)
    return found[0].kind if found else None


def _replaced(question: str, entity: Entity, name: str) -> str:
    """ "And her brother?" after "Where is Ann's sister?" is about another of Ann's, not about one of her sister's."""
    end = entity.start + len(entity.name)
    if question.startswith("'s", end):
        name = name.removesuffix("'s")
    if name.startswith(f"{entity.name}'s ") and (owned := _owned(question, end)):
        end = owned.end()
    return question[: entity.start] + name + question[end:]


def _with_names(text: str, dialogue: Dialogue) -> Rewrite | None:
    """Pronouns that mean nobody in the message itself, replaced by the names they stand for."""
    found = [*_pronouns(text), *_cjk_pronouns(text)]
    pieces: list[str] = []
    names: list[str] = []
    told: list[str] = []
    meant: dict[Wanted, str] = {}
    end = 0
    unknown = False
    for start, stop, pronoun, in_place in found:
        others = [known for wanted, known in meant.items() if wanted != pronoun.wanted]
        name = dialogue.meant_by(pronoun.wanted, others)
        if name is None:
            unknown = True
            continue
        meant[pronoun.wanted] = name
        told.append(f"'{text[start:stop]}' is {name}")
        if in_place:
            pieces += [text[end:start], _inflected(name, text[start:stop], pronoun)]
            end = stop
        elif name not in names:
            names.append(name)
    if not told:
        return _joined(text, dialogue, "leans on the last exchange") if unknown else None
    query = "".join([*pieces, text[end:]]) + (f" ({', '.join(names)})" if names else "")
    return Rewrite(query, changed=True, why="; ".join(told))


def _inflected(name: str, pronoun: str, meaning: Pronoun) -> str:
    if meaning.possessive and pronoun.isascii():
        return f"{name}'s"
    if pronoun.lower() == "there":
        return f"in {name}"
    _, apostrophe, ending = pronoun.partition("'")
    return f"{name}{apostrophe}{ending}"


_Found = tuple[int, int, Pronoun, bool]
"""From where to where, what it means, and whether a name can take its place as it is."""


def _pronouns(text: str) -> Iterator[_Found]:
    words = words_of(text)
    language = _language(words)
    table = follow_up.PRONOUNS[language]
    empty = [found.span() for found in follow_up.EXPLETIVE.finditer(text)]
    for place, word in enumerate(words):
        key = word.lower.rpartition("-")[2] if language == "fr" and word.lower not in table else word.lower
        pronoun = table.get(key)
        if pronoun is None or any(first <= word.start < last for first, last in empty):
            continue
        if language == "de" and word.capital and not opens_sentence(text, word):
            continue  # "Sie" is "you".
        if key == "her" and (place + 1 == len(words) or words[place + 1].lower in _her_object):
            pronoun = Pronoun("female")
        is_object = key in _OBJECTS and not pronoun.possessive
        if not _is_bound(text, word.start, pronoun, language, is_object=is_object):
            yield word.start, word.end, pronoun, language == "en"


def _cjk_pronouns(text: str) -> Iterator[_Found]:
    if text.isascii():
        return
    for found in follow_up.CJK_PRONOUN.finditer(text):
        wanted: Wanted = found.lastgroup  # type: ignore[assignment]
        if not any(fit(entity, wanted) for entity in entities_in(text[: found.start()])):
            yield found.start(), found.end(), Pronoun(wanted), True


def _is_bound(text: str, place: int, pronoun: Pronoun, language: Language, *, is_object: bool) -> bool:
    """Whether the message itself says what a pronoun in it stands for."""
    before = text[:place]
    # "Did Zelensky meet him?" speaks of two people; where more is said, one of them may be meant. No new
    # clause begins with the first word, nor with the one before the pronoun ("Who came before him?").
    said = before.rstrip().rpartition(" ")[0]
    may_mean_another = is_object and not _new_clause(said, 1) and "'s " not in said and len(text.split()) <= 6
    named = entities_in(text if pronoun.wanted in ("male", "female") else before)
    if any(fit(entity, pronoun.wanted) > (entity.start > place) for entity in named) and not may_mean_another:
        return True
    if pronoun.wanted in ("male", "female", "someone"):
        return not may_mean_another and any(_may_mean(noun, pronoun) for noun in _people(before, language))
    if pronoun.wanted == "many":
        return _plural_noun(before) is not None
    return any(
        found["noun"].lower() not in hints.PERSON_NOUNS and _new_clause(before, found.end())
        for found in _noun_phrase(before)
    )


def _people(text: str, language: Language) -> list[str]:
    """Nouns for people, without names."""
    nouns = [word.lower.removesuffix("'s") for word in words_of(text)]
    other = frozenset() if language == "en" else {"son"}  # In French it is "his", in Spanish "are".
    return [noun for noun in nouns if noun in hints.PERSON_NOUNS and noun not in other]


def _may_mean(noun: str, pronoun: Pronoun) -> bool:
    others = {"male": hints.FEMALE_KIN, "female": hints.MALE_KIN}
    return noun not in others.get(pronoun.wanted, frozenset())


def _language(words: Sequence[Word]) -> Language:
    said = [word.lower for word in words]
    counts = {
        language: sum(word in telling or word in follow_up.PRONOUNS[language] for word in said)
        for language, telling in follow_up.LANGUAGE_WORDS.items()
    }
    return max(counts, key=lambda language: counts[language])


def _pointing(text: str, dialogue: Dialogue) -> Rewrite | None:
    """ "What do you think of that?" """
    lead = follow_up.INSTEAD.match(text)
    asks_about = lead is not None and " about" in text[: lead.start("rest")].lower()
    if asks_about or follow_up.POINTING.search(text) or follow_up.CJK_POINTING.search(text):
        return _joined(text, dialogue, "leans on the last exchange")
    return None


def _joined(text: str, dialogue: Dialogue, why: str) -> Rewrite | None:
    topic = dialogue.topic()
    return Rewrite(f"{text} ({topic})", changed=True, why=why) if topic else None
