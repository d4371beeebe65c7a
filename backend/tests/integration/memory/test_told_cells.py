"""What an excellent model says of cells in seven languages is kept; what nobody said is refused, alike in each."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.extraction.ground import (
    NO_PERSON,
    NO_TURN,
    NOT_SAID,
    ONLY_RECALLED,
    UNKNOWN_ID,
    UNKNOWN_TURN,
)
from tests.http_client import Home, Json
from tests.remembering import MAY_8, MINUTE, MortalModel, entries, flush, remember, remembering
from tests.standins.table_answers import OTHERS, answered, table_of, where_said

CELLS: dict[str, list[Json]] = table_of("cells")
KEPT = 0.97
"""Of the true facts and plans of each language, so many at least."""


def test_there_are_forty_cells_in_seven_languages() -> None:
    assert len(CELLS) >= 7
    assert sum(map(len, CELLS.values())) >= 40
    assert all(2 <= len(row["messages"]) <= 8 for row in chain(*CELLS.values()))


def test_a_short_message_is_not_taken_for_the_beginning_of_a_longer_one_in_another_cell() -> None:
    longer, short = "Thanks! I moved to Porto", "Thanks!"
    table = [
        {"messages": [["ann", text]], "facts": [[text, "user", "home", text]]} for text in (longer, short)
    ]
    shown = {
        text: answered(table, f'[1] Friday "ann" user: "{text}"')[0] for text in (longer, short, "Than…")
    }
    told = {text: [fact["text"] for fact in answer["facts"]] for text, answer in shown.items()}
    assert told == {longer: [longer], short: [short], "Than…": [longer, short]}


def owner_of(row: Json) -> str:
    """Who speaks first."""
    return str(row["messages"][0][0])


def messages_of(row: Json) -> list[Json]:
    """For memory/add. An assistant that says nothing calls a tool."""
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    more: dict[str, Json] = {"tool": {"tool_call_id": "c1"}}
    return [
        {
            "message_id": f"{owner_of(row)}-{number}",
            "sender_id": sender,
            "role": sender if sender in OTHERS else "user",
            "timestamp": MAY_8 + number * MINUTE,
            "content": text,
            **more.get(sender, {}),
            **({} if text else {"tool_calls": [call]}),
        }
        for number, (sender, text) in enumerate(row["messages"])
    ]


def statement(text: str, message: int = 1, words: str | None = None, **more: Any) -> Json:
    """A fact as a model answers it; without `words`, without a quote."""
    quotes = [] if words is None else [{"message": message, "words": words}]
    fact = {"text": text, "about": "user", "category": "event", "when": None, "until": None}
    return {**fact, "quotes": quotes, "replaces": [], "ends": [], **more}


def wrong(row: Json, neighbour: Json, foreign_id: str) -> Iterator[tuple[str, Json]]:
    """Statements that must be refused, with the reason."""
    text, _, _, words = row["facts"][0][:4]
    number = where_said(row, words) or 0
    yield NO_TURN, statement(f"1 {text}")
    yield UNKNOWN_TURN, statement(f"2 {text}", 99, words)
    yield NOT_SAID, statement(f"3 {text}", number, "")
    yield NOT_SAID, statement(neighbour["facts"][0][0], number, neighbour["facts"][0][3])
    yield UNKNOWN_ID, statement(f"4 {text}", number, words, replaces=["f99"])
    yield UNKNOWN_ID, statement(f"5 {text}", number, words, ends=[foreign_id])
    for place, (sender, said) in enumerate(row["messages"], 1):
        if sender in OTHERS and said:
            yield NO_PERSON, statement(f"6 {said}", place, said)
    for text, invented in row["wrong"]:
        by_others = where_said(row, invented)
        yield NO_PERSON if by_others else NOT_SAID, statement(text, by_others or number, invented)


@pytest.mark.parametrize("language", CELLS)
async def test_what_is_true_is_kept_and_what_nobody_said_is_refused_and_counted(
    language: str, model: MortalModel, tmp_path: Path
) -> None:
    rows = CELLS[language]
    foreign_id = "f1"  # Nothing is known of the first one's owner: no id is listed.
    async with remembering(tmp_path, model) as home:
        for row, neighbour in zip(rows, [*rows[1:], rows[0]], strict=True):
            false = list(wrong(row, neighbour, foreign_id))
            model.control(table=[{**row, "wrong": [each for _, each in false]}])
            refused = refusals(await remember(home, owner_of(row), messages_of(row), user_id=owner_of(row)))
            assert refused["facts"] == Counter(reason for reason, _ in false), row["messages"][0]
            foreign_id = (await entries(home, "facts", owner=f"default/users/{owner_of(row)}"))[0].entry_id
        found = Counter((each.owner, each.entry.text) for each in await entries(home, "facts", "foresight"))
    expected = {
        (f"default/users/{owner_of(row)}", each[0]) for row in rows for each in (*row["facts"], *row["plans"])
    }
    assert set(found) <= expected, "something wrong was kept"
    assert len(found) >= KEPT * len(expected), expected - set(found)
    assert set(found.values()) == {1}


@pytest.mark.parametrize("language", CELLS)
async def test_what_only_a_recalled_block_says_is_refused(
    language: str, model: MortalModel, tmp_path: Path
) -> None:
    row = CELLS[language][0]
    owner, question, told = owner_of(row), row["asks"], row["facts"][0][0]
    repeated = [
        statement(f"1 {told}", 1, told),
        statement(f"2 {told}", 2, told),
        statement(told, 1, question),
    ]
    chat = {"messages": [[owner, question], ["assistant", told]], "wrong": repeated}
    async with remembering(tmp_path, model, chat={"recall_seconds": 20}) as home:
        model.control(table=[{**row, "wrong": []}, chat], script={question: told})
        await remember(home, owner, messages_of(row), user_id=owner)
        await home.drain()
        before = sorted(each.entry.text for each in await entries(home, "facts"))
        answer = await ask(home, owner, question)
        assert answer["receipt"]["recall"]["memories"], "nothing was recalled"
        assert answer["assistant_turn"]["content"] == told
        refused = refusals(await flush(home, "chat"))
        assert refused["facts"] == Counter([NOT_SAID, NO_PERSON, ONLY_RECALLED])
        assert sorted(each.entry.text for each in await entries(home, "facts")) == before


async def test_what_only_a_source_says_is_refused(model: MortalModel, tmp_path: Path) -> None:
    question, told = "What does the contract say?", "The lighthouse keeper owes Ann four hundred crowns."
    repeated = [statement(f"1 {told}", 1, told), statement(told, 1, question)]
    chat = {"messages": [["ann", question], ["assistant", told]], "wrong": repeated}
    broken = told.replace(" Ann", "\nAnn")
    async with remembering(tmp_path, model) as home:
        model.control(table=[chat], script={question: told})
        answer = await ask(home, "ann", question, context=[{"title": "contract", "text": broken}])
        assert [each["kind"] for each in answer["receipt"]["sources"]] == ["result"]
        refused = refusals(await flush(home, "chat"))
        assert refused["facts"] == Counter([NOT_SAID, ONLY_RECALLED])
        assert await entries(home, "facts") == []


async def test_the_names_of_sources_are_not_taken_for_words_of_the_person(
    model: MortalModel, tmp_path: Path
) -> None:
    said, told = "I like parks. What does it say?", "I live in Oslo."
    read = {"type": "file", "file": {"filename": told, "text": "It rains."}}
    async with remembering(tmp_path, model) as home:
        await ask(home, "ann", said, context=[{"title": told, "text": "It rains."}])
        parts = [{"type": "text", "text": "I have a dog called Rex."}, read, read]
        await ask(home, "ann", None, parts=parts)
        await ask(home, "ann", None, parts=[read])
        await flush(home, "chat")
        found = await entries(home)
    facts = sorted(each.entry.text for each in found if each.kind == "facts")
    assert facts == ["ann has a dog called Rex.", "ann likes parks."]
    assert not any("Oslo" in each.entry.text for each in found)


async def ask(home: Home, owner: str, question: str | None, **fields: Any) -> Json:
    await home.app.search.indexer.settled()
    body = {"user_id": owner, **({} if question is None else {"content": question}), **fields}
    answer: Json = (
        (await home.client.post("/api/v1/threads/chat/messages", json=body)).raise_for_status().json()
    )
    return answer


def refusals(flushed: Json) -> dict[str, Counter[str]]:
    """By strategy, the reasons that the receipts of a flush's memcells count."""
    counted: dict[str, Counter[str]] = {}
    for cell in flushed["memcells"]:
        for each in cell["strategies"]:
            assert each["state"] not in ("failed", "waiting"), each
            counted.setdefault(each["strategy"], Counter()).update(each["detail"].get("refused", {}))
    return counted
