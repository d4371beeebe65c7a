"""Two people of one name are two, and somebody else's name is not the user."""

import pytest

from recollect.domain.entries.consolidate import same_attribute
from recollect.domain.entries.matters import relation_in
from tests.unit.made_entries import known


@pytest.mark.parametrize(
    ("text", "subject", "relation"),
    [
        ("Marta, Ann's sister, lives in Porto.", "Marta", "sister"),
        ("Marta, Ann's little sister, lives in Porto.", "Marta", "sister"),
        ("Ann, Ann's friend, lives in Rome.", "Ann", "friend"),
        ("玛塔（Ann 的妹妹）住在波尔图。", "玛塔", "妹妹"),  # noqa: RUF001
        ("Ann lives in Berlin.", "Ann", ""),
        ("Ann's sister lives in Porto.", "Ann's sister", ""),
        ("Marta lives in Porto.", "", ""),
    ],
)
def test_a_statement_tells_what_its_subject_is_to_the_one_who_tells_it(
    text: str, subject: str, relation: str
) -> None:
    assert relation_in(text, subject) == relation


def test_namesakes_have_attributes_of_their_own() -> None:
    def marta(relation: str) -> dict[str, str]:
        return {"subject": "Marta", "relation": relation, "attribute": "lives_in"}

    sister, friend = (known(each, extra=marta(each)) for each in ("sister", "friend"))
    assert same_attribute([sister, friend], friend) == [friend]
