"""Grounding: a model's statements against the words of the turns that they cite.

What those words don't support is refused and counted, with a reason that never quotes it. A model that is wrong, or
that was talked into something, can leave things out; it can't put anything in.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from recollect.domain.extraction.answer import MAX_TITLE, cut_at_sentence
from recollect.domain.extraction.draft import CellText, Draft, Extraction, Refused
from recollect.domain.extraction.grounding_dates import without_told_dates
from recollect.domain.extraction.grounding_support import SaidInCell, Support, after_command, sentences_in
from recollect.domain.extraction.grounding_words import (
    compared,
    content_terms,
    has_capitals,
    holds_unknown_characters,
    is_known,
    names_in,
    needed_share,
    numbers_in,
    vocabulary,
)
from recollect.domain.extraction.own_names import subject_of, with_own_names
from recollect.domain.extraction.prompts import day_of
from recollect.domain.extraction.verbs_en import is_past
from recollect.domain.model import Turn

QUESTION = "it is a question"
NO_TURN = "it cites no message"
UNKNOWN_TURN = "it cites a message that is not there"
NO_PERSON = "it cites no message of a person"
UNTOLD_TIME = "it names a time that the cited messages don't tell"
UNTOLD_NUMBER = "it names a number that the cited messages don't hold"
UNTOLD_NAME = "it names someone or something that the cited messages don't"
OTHER_WORDS = "too few of its words are in the cited messages"
TURNED_ROUND = "the cited messages deny it or only suppose it"
ONLY_COMMANDED = "only a command to remember or to ignore something supports it"
ONLY_ASSISTANT = "only an assistant says it"
ONLY_RECALLED = "only what was recalled says it"

_clauses = re.compile(r"[,;:\uff0c\uff1b\uff1a\u3001]|\b(?:but|and|while|whereas)\b|但是?|而是?|不过").split
_unreal = re.compile(
    r"\b(?:not|no|never|nor|cannot|without|neither|isn|aren|don|doesn|didn|won|wasn|weren|haven|hasn|can)'?t\b"
    r"|\b(?:not|no|never|nor|cannot|without|neither|if|wish|would|suppose|imagine|pretend|hypothetically|maybe|perhaps|might)\b"
    r"|^\W*(?:(?:and|but|so|well|hey)\W+)?(?:do|did|am|was|should|can|could|will|have|is it true that)\sI\b"
    r"|[不没沒别別]|如果|假如|假设|假設|要是|但愿|要不是|倘若",
    re.IGNORECASE,
).search


_dislikes = re.compile(r"\b(?:hates?d?|dislikes?d?|detests?|loathes?)\b|讨厌|討厭|不喜", re.IGNORECASE).search
_likes = re.compile(
    r"\b(?:love|like|enjoy|adore|prefer)(?:s|d|ed)?\b|喜欢|喜歡|热爱|爱", re.IGNORECASE
).search
_denied_liking = re.compile(
    r"(?:\b(?:not|no longer|never)|n['\u2019]t)\s(?:\w+\s)?(?:love|like|enjoy|adore)|不(?:再|太)?(?:喜|爱|愛)",
    re.IGNORECASE,
).search
_over = re.compile(
    r"(?<!\bam )(?<!\bis )(?<!'m )(?<!\bgot )(?<!\bget )\bused to\b|\bno longer\b|\bany ?more\b|以前|曾经|曾經",
    re.IGNORECASE,
).search
"""What it says was so."""
_several = re.compile(r"[,;:\uff0c\uff1b\uff1a\u3001]|\b(?:but|and|while|whereas)\b").search
_i = re.compile(r"\bI(?:['\u2019](?:m|ve))?\b").sub
_denying = re.compile(r"\b(?:cannot|no longer|not|never|any ?more)\b", re.IGNORECASE).sub
_past = re.compile(r"[了过過曾]|以前").search


def ground(extraction: Extraction, cell: CellText) -> Extraction:
    """What the cited turns' own words support, and all refusals. Cases are left as they are."""
    cell = with_own_names(cell, extraction)
    said = SaidInCell(cell)
    kept: list[Draft] = []
    refused = list(extraction.refused)
    for draft in extraction.drafts:
        if draft.kind == "cases":
            kept.append(draft)
            continue
        grounded, reasons = (
            _narrative(draft, cell, said) if draft.kind == "episodes" else _statement(draft, cell, said)
        )
        kept += [grounded] if grounded is not None else []
        refused += [Refused(draft.kind, reason) for reason in reasons]
    return Extraction(tuple(kept), tuple(refused))


def unsupported(text: str, support: Support, names: frozenset[str], *, starts: bool = True) -> str | None:
    """Why a text is not said by what it is held against; None where it is. `names` are allowed besides.

    Without `starts`, a capital letter at the start of a sentence makes no name.
    """
    rest, has_untold = without_told_dates(compared(text), lambda: support.times)
    if has_untold:
        return UNTOLD_TIME
    known = support.words | names
    if not all(number in support.numbers or number in names for number in numbers_in(rest)):
        return UNTOLD_NUMBER
    if not all(is_known(name, known) for name in names_in(rest, starts=starts)):
        return UNTOLD_NAME
    if holds_unknown_characters(rest, support.text + " ".join(names)):
        return UNTOLD_NAME
    terms = content_terms(rest) - names
    if not terms:
        has_told_date = len(rest.split()) < len(text.split())
        telling = vocabulary(text) & names or vocabulary(text)
        return None if has_told_date or telling & support.words or numbers_in(rest) else OTHER_WORDS
    return None if sum(term in known for term in terms) >= needed_share(rest) * len(terms) else OTHER_WORDS


def _statement(draft: Draft, cell: CellText, said: SaidInCell) -> tuple[Draft | None, list[str]]:
    """A fact or a plan: kept or refused as a whole."""
    if draft.text.rstrip().endswith(("?", "\uff1f")):
        return None, [QUESTION]
    if not draft.turn_ids:
        return None, [NO_TURN]
    cited = [turn for turn in cell.turns if turn.turn_id in draft.turn_ids]
    if len(cited) < len(set(draft.turn_ids)):
        return None, [UNKNOWN_TURN]
    if not any(turn.role == "user" for turn in cited):
        return None, [NO_PERSON]
    names = _names_of([turn for turn in cited if turn.role == "user"], cell)
    support = said.of_people(draft.turn_ids)
    reason = _flaw(draft, cell, support, names)
    if reason is not None:
        return None, [_wider_reason(draft, cell, said, names) or reason]
    if draft.value and unsupported(draft.value, support, names) is not None:
        draft = replace(draft, value="")
    return replace(draft, subject=subject_of(draft, cell)), []


def _flaw(draft: Draft, cell: CellText, support: Support, names: frozenset[str]) -> str | None:
    for text in (draft.text, draft.title if draft.title != draft.text else ""):
        reason = unsupported(text, support, names) if text else None
        if reason is not None:
            return reason
    for text in (draft.subject, draft.value):
        reason = unsupported(text, support, names) if not vocabulary(text) <= names else None
        # What a value is called may be another word; whom and what it names may not. Only capitals tell them apart.
        if reason is not None and (reason != OTHER_WORDS or not has_capitals(text)):
            return reason
    if draft.about is not None and not support.times.reach(*_days(draft.about, cell)):
        return UNTOLD_TIME
    return TURNED_ROUND if _is_turned_round(draft.text, support, names) else None


def _wider_reason(draft: Draft, cell: CellText, said: SaidInCell, names: frozenset[str]) -> str | None:
    """What would have supported it, if that counted."""
    wider = (
        (ONLY_COMMANDED, said.with_commands),
        (ONLY_ASSISTANT, said.of_all),
        (ONLY_RECALLED, said.with_recalled),
    )
    return next(
        (reason for reason, support in wider if _flaw(draft, cell, support(draft.turn_ids), names) is None),
        None,
    )


def _narrative(draft: Draft, cell: CellText, said: SaidInCell) -> tuple[Draft | None, list[str]]:
    """An episode: kept sentence by sentence."""
    if not draft.turn_ids:
        return None, [NO_TURN]
    known_ids = {turn.turn_id for turn in cell.turns}
    if not known_ids.issuperset(draft.turn_ids):
        return None, [UNKNOWN_TURN]
    support = said.of_all(draft.turn_ids)
    names = _names_of([turn for turn in cell.turns if turn.role == "user"], cell)
    kept: list[str] = []
    reasons: list[str] = []
    for sentence in sentences_in(draft.text):
        reason = ONLY_RECALLED if said.is_repeated(sentence) else unsupported(sentence, support, names)
        if reason is None:
            kept.append(sentence.strip())
        elif unsupported(sentence, said.with_recalled(draft.turn_ids), names) is None:
            reasons.append(ONLY_RECALLED)
        else:
            reasons.append(reason)
    if not kept:
        return None, reasons or [OTHER_WORDS]
    text = _joined(kept) if reasons else draft.text
    is_titled = unsupported(draft.title, support, names) is None
    title = draft.title if is_titled else cut_at_sentence(kept[0], MAX_TITLE).rstrip(".。")
    return replace(draft, title=title, text=text), reasons


def _joined(sentences: list[str]) -> str:
    """Sentences of scripts that put no space between them stand without one."""
    pieces = [sentence if sentence[-1] in "。！？；" else f"{sentence} " for sentence in sentences]  # noqa: RUF001
    return "".join(pieces).strip()


def _names_of(people: list[Turn], cell: CellText) -> frozenset[str]:
    """The words of what those who speak are called."""
    senders = {turn.sender_id for turn in people}
    alone = len({turn.sender_id for turn in cell.turns if turn.role == "user"}) <= 1
    own = [cell.user_name, cell.user_id, *cell.own_names]
    called = {*senders, *(own if alone or cell.user_id in senders else [])}
    words = {word for name in called for word in vocabulary(name)}
    return frozenset(words) | {word for name in called for word in numbers_in(name)}


def _days(about: tuple[int, int], cell: CellText) -> tuple[date, date]:
    return day_of(about[0], cell.time_zone), day_of(about[1], cell.time_zone)


def _is_turned_round(text: str, support: Support, names: frozenset[str]) -> bool:
    """Whether all clauses that hold what a statement says deny or suppose it, or tell the opposite liking."""
    terms = content_terms(_denying("", text)) - names
    found = [clause for clause in _all_clauses(support) if terms and terms <= vocabulary(clause)]
    if not found:
        return False
    if _dislikes(text):
        return all(_likes(clause) and not _dislikes(clause) and not _unreal(clause) for clause in found)
    denied = _denied_liking(text) is not None
    if _likes(text) and not denied and all(map(_dislikes, found)):
        return True
    if _unreal(text):
        return not (_several(text) or _is_copied(text, support)) and all(
            _says_only(terms, clause, names) for clause in found
        )
    if not _is_told_as_past(text) and all(map(_over, found)):
        return True
    return all(map(_unreal, found))


def _says_only(terms: set[str], clause: str, names: frozenset[str]) -> bool:
    """Whether a clause states just this, and denies nothing."""
    return not _unreal(clause) and not _dislikes(clause) and content_terms(_i("", clause)) - names <= terms


def _is_copied(text: str, support: Support) -> bool:
    return " ".join(compared(text).split()) in " ".join(support.text.split())


def _is_told_as_past(text: str) -> bool:
    return any(map(is_past, re.findall(r"[a-z]+", text))) or _past(text) is not None


def _all_clauses(support: Support) -> Iterator[str]:
    for _, sentence in support.sentences:
        yield from _clauses(after_command(sentence))
