"""The check of a model's statements, alike in every language.

A fact or a plan quotes messages of its memcell, one of them a person's, and the quoted words stand there; those of a
fact not only in what that person pasted. What it replaces or ends was in the prompt. What a statement means is the
model's business. One guard is more: what only a recalled memory or a summary says is no news, so that a memory that is
recalled, repeated in an answer and extracted again makes no second one. Where anything was recalled, a question
supports a fact only by the words that it holds itself, and a plan unless the model says that it only asks.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from recollect.domain.extraction.answer import MAX_TITLE, cut_at_sentence
from recollect.domain.extraction.draft import CellText, Draft, Extraction, Refused
from recollect.domain.recall.words import GREEK_MARK, is_question, words_in
from recollect.domain.sources import SOURCE_LINE

NO_TURN = "it cites no message"
UNKNOWN_TURN = "it cites a message that is not there"
NO_PERSON = "it cites no message of a person"
NOT_SAID = "its quote is not in the message"
PASTED = "its quote is only in a pasted text"
UNKNOWN_ID = "it names a known fact that is not there"
ONLY_RECALLED = "only what was recalled says it"

_PASSAGE = 3
"""Lines of a document that are looked at together."""
_REPEATED = 0.8
"""The share of a statement's words that a line or a question holds where the statement repeats that."""
_HALF = 0.5
_pasted = re.compile(r"^[^\S\n]*>[^\n]*(?:\n|\Z)|(`{3,}|~{3,}).*?(?:\1|\Z)", re.DOTALL | re.MULTILINE)
_ENDS = ".!?…。！？؟۔।։\u037e\n"  # noqa: RUF001
_sentences = re.compile(
    rf"(?:(?!{GREEK_MARK})[^{_ENDS}]|(?<=\d)\.|[.!?](?=\S))+(?:[{_ENDS}]|{GREEK_MARK})*\s*"
).findall


def ground(extraction: Extraction, cell: CellText, known: Mapping[str, str] | None = None) -> Extraction:
    """What passes the check, and all refusals.

    `known` has the entry id for each short id that the prompt listed; `replaces` and `ends` hold entry ids after it.
    """
    known, recalled = known or {}, Recalled(cell, extraction.asks or ())
    said = {turn.turn_id: folded(turn.content) for turn in cell.turns}
    people = {turn.turn_id: _parted(turn.content) for turn in cell.turns if turn.role == "user"}
    kept: list[Draft] = []
    refused = list(extraction.refused)
    for draft in extraction.drafts:
        reason = flaw(draft, cell) or _misquote(draft, said, people, known)
        checked = None if reason else _news(draft, recalled)
        if checked is not None:
            replaces, ends = (tuple(known[each] for each in ids) for ids in (draft.replaces, draft.ends))
            kept.append(replace(checked, replaces=replaces, ends=ends))
        if checked is None or checked.text != draft.text:
            refused.append(Refused(draft.kind, reason or ONLY_RECALLED))
    return Extraction(tuple(kept), tuple(refused), extraction.asks)


def flaw(draft: Draft, cell: CellText) -> str | None:
    """What is wrong with the messages that a statement cites."""
    if not draft.turn_ids:
        return NO_TURN
    roles = {turn.turn_id: turn.role for turn in cell.turns}
    if not roles.keys() >= set(draft.turn_ids):
        return UNKNOWN_TURN
    needs_person = draft.kind in ("facts", "foresight")
    return NO_PERSON if needs_person and "user" not in map(roles.get, draft.turn_ids) else None


def folded(text: str) -> str:
    """What is left of a text for comparing words: compatible forms, no case, no white space and no punctuation."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(each for each in plain if unicodedata.category(each)[0] not in "PZC")


def _parted(text: str) -> tuple[str, str]:
    """A person's own words, and what they pasted, both folded.

    Pasted are fenced blocks and lines that begin with `>`. A fence that is not closed reaches to the end.
    """
    lines = "\n".join(unicodedata.normalize("NFKC", text).splitlines())
    pasted = "".join(found[0] for found in _pasted.finditer(lines))
    return folded(_pasted.sub("\n", lines)), folded(pasted)


def _misquote(
    draft: Draft, said: Mapping[str, str], people: Mapping[str, tuple[str, str]], known: Mapping[str, str]
) -> str | None:
    """Words that are not in their message, an id that was not in the prompt, or only pasted words of people.

    A plan may stand in a pasted text alone: in an invitation, say.
    """
    quotes = [(quote.turn_id, folded(quote.words)) for quote in draft.quotes]
    if any(not words or words not in said[turn_id] for turn_id, words in quotes):
        return NOT_SAID
    if not known.keys() >= {*draft.replaces, *draft.ends}:
        return UNKNOWN_ID
    by_people = [(words, *people[turn_id]) for turn_id, words in quotes if turn_id in people]
    is_pasted = all(words in pasted and words not in own for words, own, pasted in by_people)
    return PASTED if draft.kind == "facts" and by_people and is_pasted else None


def _news(draft: Draft, recalled: "Recalled") -> Draft | None:
    """The statement where it is more than a repetition. What replaces or ends something is, if people said anything:

    who is back where they lived before need not name the place.
    """
    if draft.kind == "episodes":
        return _told_now(draft, recalled)
    is_plan = draft.kind == "foresight"
    if recalled.is_only_asked(draft.turn_ids) if is_plan else recalled.answers_a_question(draft):
        return None
    is_change = bool(draft.replaces or draft.ends) and recalled.people_state_something(draft.turn_ids)
    return draft if is_change or not recalled.alone_says(draft.text, draft.turn_ids) else None


class Recalled:
    """The memories, sources and summaries that the prompts of a memcell's answers held, line by line."""

    def __init__(self, cell: CellText, asks: Collection[str]) -> None:
        """`asks`: the turns that only ask, as the model says."""
        lines = cell.recalled.splitlines()
        words = {line: frozenset(words_in(line)) for line in sorted(set(lines))}
        # A sentence of a document may go on in the next lines.
        stretches = (lines[place : place + _PASSAGE] for place in range(len(lines)))
        sources = {tuple(line for line in stretch if line.startswith(SOURCE_LINE)) for stretch in stretches}
        passages = [frozenset[str]().union(*map(words.__getitem__, each)) for each in sorted(sources) if each]
        self._lines = list(dict.fromkeys([*words.values(), *passages]))
        self._names = frozenset(words_in(f"{cell.user_id} {cell.user_name}"))
        people = [turn for turn in cell.turns if turn.role == "user" and self._lines]
        self._asking = {turn.turn_id for turn in people if turn.turn_id in asks}
        self._parts = {
            turn.turn_id: ("", turn.content) if turn.turn_id in asks else _stated_and_asked(turn.content)
            for turn in people
        }
        self._stated = {turn_id: frozenset(words_in(stated)) for turn_id, (stated, _) in self._parts.items()}
        self._senders = {turn.turn_id: frozenset(words_in(turn.sender_id)) for turn in cell.turns}

    def people_state_something(self, turn_ids: Iterable[str]) -> bool:
        """Whether people did more in these turns than ask."""
        return not self._lines or any(self._stated.get(turn_id) for turn_id in turn_ids)

    def is_only_asked(self, turn_ids: Iterable[str]) -> bool:
        """Whether people only ask in these turns, as the model says itself."""
        said = self._parts.keys() & turn_ids
        return bool(said) and said <= self._asking

    def answers_a_question(self, draft: Draft) -> bool:
        """Whether people's quoted words only ask, and more than they ask is in the statement."""
        quotes = [
            (quote.turn_id, folded(quote.words)) for quote in draft.quotes if quote.turn_id in self._parts
        ]
        parts = {turn_id: tuple(map(folded, self._parts[turn_id])) for turn_id, _ in quotes}
        if not quotes or any(words in parts[at][0] or words not in parts[at][1] for at, words in quotes):
            return False
        words = frozenset(words_in(draft.text))
        own = self._names.union(
            *(words_in(self._parts[each][1]) for each in parts), *(self._senders[each] for each in parts)
        )
        share = len(words & own) / max(1, len(words))
        is_recalled = any(words & line - own for line in self._lines)
        return share < (_REPEATED if is_recalled else _HALF)

    def alone_says(self, text: str, turn_ids: Iterable[str]) -> bool:
        """One of its lines holds nearly all words of the text, and more of them than people said in these turns."""
        words = frozenset(words_in(text))
        if not words or not self._lines:
            return False
        own = self._names.union(
            *(self._stated[each] | self._senders[each] for each in turn_ids if each in self._stated)
        )
        most = max(len(words & line) for line in self._lines)
        return most >= _REPEATED * len(words) and most > len(words & own)


def _stated_and_asked(text: str) -> tuple[str, str]:
    """A text without its questions, and these: who asks for something does not say it."""
    sentences: list[str] = _sentences(text)
    stated, asked = (
        "".join(each for each in sentences if is_question(each) == asks) for asks in (False, True)
    )
    return stated, asked


def _told_now(draft: Draft, recalled: Recalled) -> Draft | None:
    """An episode without the sentences that only repeat what was recalled."""
    kept = [
        sentence
        for sentence in _sentences(draft.text)
        if sentence.strip() and not recalled.alone_says(sentence, draft.turn_ids)
    ]
    text = "".join(kept).strip()
    if not text:
        return None
    title = draft.title
    if recalled.alone_says(title, draft.turn_ids):
        title = cut_at_sentence(text, MAX_TITLE)
    return replace(draft, title=title, text=text if text != draft.text.strip() else draft.text)
