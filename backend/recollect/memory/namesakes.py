"""Namesakes: Marta who is a sister and Marta who is a friend are two, and Ann's friend Ann is not Ann."""
# ruff: noqa: RUF001 - Chinese brackets are meant

import re


def relation_in(text: str, subject: str) -> str:
    """What the subject of a statement is to whoever tells it, as rules write it; else empty.

    "Marta, Ann's little sister, lives in Porto." is about a sister.
    """
    name = re.escape(subject)
    found = re.match(rf"{name}, .+?'s ([\w -]+), |{name}（.+?的(\w+)）", text) if subject else None
    if found is None:
        return ""
    relation: str = found[1] or found[2]
    return relation.rpartition(" ")[2]
