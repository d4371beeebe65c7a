"""Whom a model means by a name: one that the user goes by is the user, also where they tell it only now."""

import re
from dataclasses import replace

from recollect.domain.entries.matters import relation_in
from recollect.domain.extraction.draft import CellText, Draft, Extraction
from recollect.domain.extraction.prompts import called
from recollect.domain.extraction.rules import own_names


def with_own_names(cell: CellText, extraction: Extraction) -> CellText:
    """The cell with what the user says there that they are called, if a fact is about somebody of another name."""
    known = {called(cell).casefold(), cell.user_id.casefold()}
    if all(draft.subject.casefold() in known for draft in extraction.of("facts")):
        return cell
    return replace(cell, own_names=own_names(cell))


def subject_of(draft: Draft, cell: CellText) -> str:
    """Whom a fact is about: the user, as they are called so far, where it has one of their names.

    Of a name of several words the first one will do, unless they have somebody whom they call so.
    """
    subject = draft.subject.casefold()
    names = [name.casefold() for name in (cell.user_name, *cell.own_names) if name.strip()]
    if subject not in {*names, *(name.split()[0] for name in names)}:
        return draft.subject
    has_namesake = relation_in(draft.text, draft.subject) or any(
        _is_somebody_of(draft.subject, turn.content) for turn in cell.turns if turn.role == "user"
    )
    return draft.subject if has_namesake else called(cell)


def _is_somebody_of(name: str, text: str) -> bool:
    """Whether somebody speaks of their friend, sister or the like of this name."""
    escaped = re.escape(name)
    theirs = (
        rf"\bmy (?!name\b)(?:\w+ ){{1,3}}{escaped}\b|我(?!叫|是|的?名字)的?[\u4e00-\u9fff]{{1,3}}{escaped}"
    )
    return re.search(theirs, text, re.IGNORECASE) is not None
