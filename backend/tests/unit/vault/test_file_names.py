"""Every id gets one safe path component, and no two ids share one."""

import hashlib
import re
import unicodedata
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.paths import copied_path, file_name
from tests.unit.awkward_text import texts

_AWKWARD = (
    "Ann", "ann", "ANN", "é", "e\u0301", "É", "CON", "con", "con.txt", "Con.txt", "nul", "com1",
    "lpt9.tar.gz", ".index", "..", ".", "", "../../etc/x", "etc/x", "etc-x", "a" * 64, "a" * 65,
    "a" * 300, "A" * 300, "你好", "你" * 100, "👩‍👩‍👧", "👧", "a~b", "ann~2f7d1c", "a.", "a..b", "a.b",
    "a b", " a", "a ", "-a", "_a", "a\n", "a\\b", "a:b", "ß", "ss", "İ", "i\u0307", "ﬁ", "fi", "K",
    "k", "\u0301", "\u0301a", "a" + "\u0301" * 60, "한" * 50, "한" * 51, "สวัสดี", "नमस्ते", "~",
)  # fmt: skip
_devices = st.sampled_from(["con", "PRN", "aux", "Nul", "com0", "LPT1"])
_ids = st.one_of(
    texts, _devices, st.text("aAbB.~-_éÉ/\u0301\u017fs", max_size=6), texts.map(lambda text: text * 30)
)


def _on_disk(name: str) -> set[str]:
    """The name as a disk may see it that ignores case and normalises Unicode one way or the other."""
    return {
        unicodedata.normalize(form, name.casefold()).casefold() for form in ("NFC", "NFD", "NFKC", "NFKD")
    }


@pytest.mark.parametrize(
    "plain", ["ann", "t1", "0001", "a_b-c", "a.b.c", "2026-05-08", "a" * 64, "console", "com10"]
)
def test_a_plain_id_is_its_own_name(plain: str) -> None:
    assert file_name(plain) == plain


@pytest.mark.parametrize(
    ("identifier", "slug"),
    [
        ("Ann Lee", "ann-lee"),
        ("../../etc/x", "etc-x"),
        ("CON", "con"),
        ("con.txt", "con-txt"),
        ("你好\uff0c世界", "你好-世界"),
        ("नमस्ते", "नमस्ते"),
        ("E\u0301cole", "école"),
        ("👧", "id"),
        ("", "id"),
        ("a" * 65, "a" * 40),
        ("한" * 50, "한" * 40),
        ("𐐨" * 50, "𐐨" * 30),
        ("a" * 39 + "b\u0301\u0301", "a" * 39),
    ],
)
def test_any_other_id_is_a_readable_slug_and_its_digest(identifier: str, slug: str) -> None:
    name, _, digest = file_name(identifier).partition("~")
    assert (name, digest) == (slug, hashlib.sha256(identifier.encode()).hexdigest()[:20])


def test_awkward_ids_never_share_a_name() -> None:
    on_disk = {identifier: _on_disk(file_name(identifier)) for identifier in _AWKWARD}
    assert [(one, other) for one, other in combinations(_AWKWARD, 2) if on_disk[one] & on_disk[other]] == []


@given(_ids, _ids)
def test_two_ids_never_share_a_name(one: str, other: str) -> None:
    assert one == other or not _on_disk(file_name(one)) & _on_disk(file_name(other))


@given(_ids)
def test_an_id_in_other_letters_has_another_name(identifier: str) -> None:
    variants = {
        identifier, identifier.upper(), identifier.casefold(),
        *(unicodedata.normalize(form, identifier) for form in ("NFC", "NFD")),
    }  # fmt: skip
    assert len({min(_on_disk(file_name(variant))) for variant in variants}) == len(variants)


@given(_ids)
def test_a_name_is_one_component_that_every_system_takes(identifier: str) -> None:
    name = file_name(identifier)
    assert re.fullmatch(r"\w[^\x00-\x1f\x7f/\\:*?\"<>|\s]*(?<!\.)", name)
    assert not re.fullmatch("con|prn|aux|nul|(com|lpt)[0-9]", name.partition(".")[0].casefold())
    assert len(name.encode()) <= 200


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("0001 (conflicted copy).md", "0001.md"),
        ("0001 (Ann's conflicted copy 2026-05-08) (1).md", "0001.md"),
        ("2026-05-08.sync-conflict-20260508-140300-ABCDEFG.md", "2026-05-08.md"),
        ("2026-05-08 2.md", "2026-05-08.md"),
        ("profile 3.md", "profile.md"),
        ("0001.md", None),
        ("2026-05-08-2.md", None),
        ("0001.conflict-12345678.md", None),
        ("in May 2026.md", None),
    ],
)
def test_a_conflict_copy_of_a_sync_tool_is_told_by_its_name(name: str, copied: str | None) -> None:
    folder = "default/users/ann/facts"
    assert copied_path(f"{folder}/{name}") == (copied and f"{folder}/{copied}")
    notes = "default/users/ann/notes"
    no_person_writes_it = "conflicted copy" in name or "sync-conflict" in name
    assert copied_path(f"{notes}/{name}") == (f"{notes}/{copied}" if no_person_writes_it else None)
