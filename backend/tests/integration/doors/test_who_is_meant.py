"""What is no longer so does not hold, and who the user is."""

from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.remembering import DAY, MAY_8, TALK, MortalModel, entries, remember, remembering, said, texts
from tests.standins.where_ann_lives import found, hear

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("there", "no_more", "query"),
    [
        ("I live in Berlin.", "I no longer live in Berlin.", "Where do I live?"),
        ("我住在柏林。", "我从柏林搬走了。", "我住在哪里"),
        ("I work at Bosch.", "I quit my job at Bosch.", "Where do I work?"),
    ],
)
async def test_what_is_denied_no_longer_holds(there: str, no_more: str, query: str, tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        for day, text in enumerate((there, no_more)):
            await hear(home, text, day)
        old, new = await entries(home, "facts")
        assert (old.holds, old.entry.extra["superseded_by"]) == (False, new.entry_id)
        assert await texts(home, "profile") == [new.entry.text]

        async def is_found_first() -> bool:
            hits = await found(home, query)
            return bool(hits) and hits[0]["text"] in (no_more, new.entry.text)

        await eventually(is_found_first)


@pytest.mark.parametrize("user", ["me", "u-123"])
async def test_who_tells_a_model_their_name_has_a_page_from_the_first_day(tmp_path: Path, user: str) -> None:
    quotes = [{"message": 1, "words": "My name is Ann and I live in Berlin."}]
    fact = {"about": "user", "when": None, "until": None, "quotes": quotes, "replaces": [], "ends": []}
    answer = {
        "episode": None,
        "facts": [
            {**fact, "text": "Ann's name is Ann.", "category": "identity"},
            {**fact, "text": "Ann lives in Berlin.", "category": "home"},
        ],
        "foresight": [],
        "case": None,
    }
    messages = said([("user", "My name is Ann and I live in Berlin.")], user=user)
    with MortalModel() as model:
        model.control(only="memory", answer=answer)
        async with remembering(tmp_path, model) as home:
            await remember(home, "t1", messages, user_id=user)
            assert await texts(home, "profile") == ["Ann lives in Berlin.", "Ann's name is Ann."]
            await remember(home, "t2", said(TALK, start=MAY_8 + DAY, prefix="n", user=user), user_id=user)
        asked = [str(body) for body in model.calls()["bodies"] if "The person is called" in str(body)]
        assert "name is Ann." in asked[-1]
