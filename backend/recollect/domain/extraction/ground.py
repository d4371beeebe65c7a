"""The check of a model's statements, alike in every language.

A statement cites messages of its memcell, and a fact or a plan cites one of a person. What a statement means is the
model's business. One guard is more: what only a recalled memory or a summary says is no news, so that a memory that
is recalled, repeated in an answer and extracted again makes no second one.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from recollect.domain.extraction.answer import MAX_TITLE, cut_at_sentence
from recollect.domain.extraction.draft import CellText, Draft, Extraction, Refused
from recollect.domain.recall.words import words_in

NO_TURN = "it cites no message"
UNKNOWN_TURN = "it cites a message that is not there"
NO_PERSON = "it cites no message of a person"
ONLY_RECALLED = "only what was recalled says it"

QUESTION_MARKS = ("?", "？", "؟")  # noqa: RUF001 - full-width and Arabic
_REPEATED = 0.8
"""The share of a statement's words that one recalled line holds where the statement repeats that line."""
_sentences = re.compile(r"(?:[^.!?…。！？\n]|(?<=\d)\.|[.!?](?=\S))+[.!?…。！？\n]*\s*").findall  # noqa: RUF001


def ground(extraction: Extraction, cell: CellText) -> Extraction:
    """What passes the check, and all refusals."""
    recalled = Recalled(cell)
    kept: list[Draft] = []
    refused = list(extraction.refused)
    for draft in extraction.drafts:
        reason = flaw(draft, cell)
        if reason is None and draft.kind == "episodes":
            checked = _told_now(draft, recalled)
        else:
            checked = None if reason or recalled.alone_says(draft.text, draft.turn_ids) else draft
        if checked is not None:
            kept.append(checked)
        if checked is None or checked.text != draft.text:
            refused.append(Refused(draft.kind, reason or ONLY_RECALLED))
    return Extraction(tuple(kept), tuple(refused))


def flaw(draft: Draft, cell: CellText) -> str | None:
    """What is wrong with the messages that a statement cites."""
    if not draft.turn_ids:
        return NO_TURN
    roles = {turn.turn_id: turn.role for turn in cell.turns}
    if not roles.keys() >= set(draft.turn_ids):
        return UNKNOWN_TURN
    needs_person = draft.kind in ("facts", "foresight")
    return NO_PERSON if needs_person and "user" not in map(roles.get, draft.turn_ids) else None


class Recalled:
    """The memories and summaries that the prompts of a memcell's answers held, line by line."""

    def __init__(self, cell: CellText) -> None:
        self._lines = [frozenset(words_in(line)) for line in sorted(set(cell.recalled.splitlines()))]
        self._names = frozenset(words_in(f"{cell.user_id} {cell.user_name}"))
        self._said = {
            turn.turn_id: frozenset(words_in(f"{turn.sender_id} {_stated(turn.content)}"))
            for turn in cell.turns
            if turn.role == "user" and self._lines
        }

    def alone_says(self, text: str, turn_ids: Iterable[str]) -> bool:
        """One of its lines holds nearly all words of the text, and more of them than people said in these turns."""
        words = frozenset(words_in(text))
        if not words or not self._lines:
            return False
        own = self._names.union(*(self._said.get(turn_id, frozenset()) for turn_id in turn_ids))
        most = max(len(words & line) for line in self._lines)
        return most >= _REPEATED * len(words) and most > len(words & own)


def _stated(text: str) -> str:
    """A text without its questions: who asks for something does not say it."""
    return "".join(each for each in _sentences(text) if not each.rstrip().endswith(QUESTION_MARKS))


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
