"""Statements that are understood by themselves: a name where a model copied "I"."""

import re

from recollect.domain.extraction.clauses_en import clauses_of, told_by
from recollect.domain.extraction.statement import Speaker

_is_first_person = re.compile(r"(?:I|I['\u2019](?:m|ve|ll|d)|My)\s").match
_is_chinese_first_person = re.compile(r"我(?![们們])").match
_i_in_chinese = re.compile(r"我(?![们們])").sub


def told_of(name: str, text: str) -> str:
    """What somebody of this name says of themselves, told of them; as it is where it takes more than that."""
    if _is_chinese_first_person(text):
        told = f"{name} " if name[-1:].isascii() else name
        return _i_in_chinese(lambda _: told, text)
    if not _is_first_person(text):
        return text
    speaker = Speaker(name)
    clauses = list(clauses_of(text.replace("\u2019", "'"), speaker))
    clause = clauses[0][1] if len(clauses) == 1 else None
    told_so = told_by(speaker, clause.predicate) if clause is not None else None
    if clause is None or told_so is None:
        return text
    full = clause.full_subject
    return f"{full}{told_so}." if told_so.startswith("'s ") else f"{full} {told_so}."
