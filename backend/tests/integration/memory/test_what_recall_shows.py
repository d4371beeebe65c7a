"""What recall shows: questions answer nothing, what ended says so, and a memory is shown once."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.entries.entry import EntryChange
from recollect.service.coordination import now_ms
from tests.http_client import Home, Json
from tests.remembering import DAY, MortalModel, entries, remember, remembering, said

ANN = {"user_id": "ann"}
NOW_ASKED = "So where do I live now?"
GREETING = "Good morning to everybody"
FLAT = "So we live in Porto these days, in a little flat near the Ribeira with a balcony."
MOVED = "Big change: the boxes are in Berlin since Monday!"
HOMES: list[Json] = [
    {"messages": [["ann", FLAT]], "facts": [["Ann lives in Porto.", "user", "home", "we live in Porto"]]},
    {
        "messages": [["ann", MOVED]],
        "facts": [["Ann lives in Berlin.", "user", "home", "Berlin", {"replaces": ["Ann lives in Porto."]}]],
    },
]


@asynccontextmanager
async def moved_home(tmp_path: Path, model: MortalModel) -> AsyncIterator[Home]:
    """Ann told where she lives, and later that she moved."""
    model.control(table=HOMES)
    async with remembering(
        tmp_path, model, chat={"recall_seconds": 20}, memorize={"pause_seconds": 1}
    ) as home:
        for number, (text, days) in enumerate(((FLAT, 100), (MOVED, 10))):
            messages = said([("user", text)], start=now_ms() - days * DAY, prefix=f"home{number}-")
            await remember(home, f"home{number}", messages, **ANN)
        await settled(home)
        yield home


async def settled(home: Home) -> None:
    await home.drain()
    await home.app.search.indexer.settled()


async def search(home: Home, query: str, **fields: Any) -> list[Json]:
    body = {**ANN, "query": query, **fields}
    answer = await home.client.post("/api/v1/memory/search", json=body)
    hits: list[Json] = answer.raise_for_status().json()["hits"]
    return hits


async def test_a_memory_from_several_chats_names_them_the_latest_first(
    tmp_path: Path, model: MortalModel
) -> None:
    facts = HOMES[0]["facts"]
    model.control(table=[HOMES[0], {"messages": [["ann", MOVED]], "facts": [[*facts[0][:3], "boxes"]]}])
    async with remembering(tmp_path, model) as home:
        for number, text in enumerate((FLAT, MOVED)):
            messages = said([("user", text)], start=now_ms() - (10 - number) * DAY, prefix=f"m{number}-")
            await remember(home, f"home{number}", messages, **ANN)
        await settled(home)
        (hit,) = await search(home, "Where does Ann live?", types=["facts"])
    assert (hit["thread_id"], hit["thread_ids"]) == (None, ["home1", "home0"])


async def ask(home: Home, thread: str, content: str, user: Json = ANN) -> tuple[list[str], Json]:
    """The lines of memory in the block of a chat turn, without their dates, and the receipt of recall."""
    answer = await home.client.post(f"/api/v1/threads/{thread}/messages", json={**user, "content": content})
    turn = answer.raise_for_status().json()["assistant_turn"]["turn_id"]
    prompt = await home.client.get(f"/api/v1/threads/{thread}/turns/{turn}/prompt", params=user)
    sent: Json = prompt.raise_for_status().json()
    block = str(sent["request"]["messages"][-2]["content"])
    lines = [line.removeprefix("- ") for line in block.splitlines() if line.startswith("- ")]
    return lines, sent


def quoted(lines: Sequence[str]) -> list[str]:
    return [line.partition(': "')[2].removesuffix('"') for line in lines]


async def test_what_holds_comes_first_before_the_index_has_it(tmp_path: Path, model: MortalModel) -> None:
    rome = {
        "messages": [["ann", "We moved to Rome."]],
        "facts": [["Ann lives in Rome.", "user", "home", "to Rome", {"replaces": ["Ann lives in Berlin."]}]],
    }
    question = "Where does Ann live now?"
    async with moved_home(tmp_path, model) as home, home.app.search.indexer.held():
        assert (await search(home, question))[0]["text"] == "Ann lives in Berlin."
        model.control(table=[*HOMES, rome])
        await remember(home, "rome", said([("user", "We moved to Rome.")], start=now_ms() - DAY), **ANN)
        hits = await search(home, question)
        lines, _ = await ask(home, "chat", question)
        fact = f"/api/v1/memory/entries/{hits[0]['id']}"
        (await home.client.patch(fact, json={**ANN, "text": "Ann lives in Ostia."})).raise_for_status()
        corrected = await search(home, question)
        (await home.client.delete(fact, params=ANN)).raise_for_status()
        after = await search(home, question)
    ends = {hit["text"]: hit["until"] for hit in hits if hit["type"] == "facts"}
    assert hits[0]["text"] == quoted(lines)[0] == "Ann lives in Rome."
    assert ends["Ann lives in Rome."] is None
    assert ends["Ann lives in Berlin."]
    assert corrected[0]["text"] == "Ann lives in Ostia."
    assert not {"Ann lives in Rome.", "Ann lives in Ostia."}.intersection(hit["text"] for hit in after)


async def test_a_memory_is_found_within_a_second_though_its_file_can_not_be_written_nor_the_vault_watched(
    tmp_path: Path, model: MortalModel
) -> None:
    """It reaches the index from the journal. A busy machine may take longer for one, not for each of three."""
    in_the_way = tmp_path / "vault/default/users/ann/facts"
    model.control(table=HOMES)
    seconds = []
    async with remembering(tmp_path, model, vault={"sweep_seconds": 3600}) as home:
        home.app.watcher.stop()
        in_the_way.parent.mkdir(parents=True)
        in_the_way.write_text("No folder can be made here.")
        for number in range(3):
            flushed = await remember(
                home, f"home{number}", said([("user", FLAT)], prefix=f"m{number}-"), **ANN
            )
            assert flushed["status"] == "done"
            extracted = time.perf_counter()
            async with asyncio.timeout(30):
                await home.app.search.indexer.settled()
            home.app.search.corpus_cache.clear()
            (hit,) = await search(home, "Where does Ann live?", types=["facts"])
            seconds.append(time.perf_counter() - extracted)
            (fact,) = await entries(home, "facts")
            file = await home.app.entry_file_store.file(fact.path)
            noted = await home.app.ledger.notes(home.app.search.indexer.live.name, fact.owner)
            assert (hit["text"], file is not None and file.is_written) == ("Ann lives in Porto.", False)
            assert noted[fact.path][0] == str(file and file.revision)
            change = EntryChange("default", fact.owner, "extraction", "again", remove=(fact.entry_id,))
            await home.app.entry_store.apply(change)
    assert min(seconds) < 1, seconds


async def test_questions_of_earlier_threads_are_no_evidence(tmp_path: Path, model: MortalModel) -> None:
    asked = (
        "Hi! Where do I live now?",
        "Where do I live now? Thanks!",
        "Hello. Could you say where I live now?",
    )
    async with moved_home(tmp_path, model) as home:
        for number, question in enumerate((*asked, "so where do I live now")):
            await ask(home, f"asked{number}", question)
        await settled(home)
        lines, _ = await ask(home, "asked9", NOW_ASKED)
        hits = [hit["text"] for hit in await search(home, "Where do I live now?")]
    assert quoted(lines)[0] == "Ann lives in Berlin."
    assert not {*asked, "so where do I live now"}.intersection(quoted(lines))
    assert hits[0] == "Ann lives in Berlin."
    assert hits.index("Ann lives in Porto.") < min(hits.index(question) for question in asked)


async def test_what_a_model_calls_a_question_is_no_evidence_without_a_mark_too(
    tmp_path: Path, model: MortalModel
) -> None:
    asked = ("remind me where I live now, please", "hey. tell me, I live where now", "I live now in")
    async with moved_home(tmp_path, model) as home:
        asking = [{"messages": [["ann", text]], "only_asks": [1], "episode": None} for text in asked]
        model.control(table=[*HOMES, *asking])
        for number, text in enumerate(asked):
            messages = said([("user", text)], start=now_ms() - DAY, prefix=f"asked{number}-")
            await remember(home, f"asked{number}", messages, **ANN)
        for thread in ("kept-up", "read-again"):
            hits = [hit["text"] for hit in await search(home, "Where do I live now?", types=["turn"])]
            lines, _ = await ask(home, thread, "Where do I live now?")
            assert hits.index(FLAT) < min(map(hits.index, asked))
            assert not set(asked).intersection(quoted(lines))
            assert quoted(lines)[0] == "Ann lives in Berlin."
            await settled(home)
            home.app.search.corpus_cache.clear()


async def test_what_a_question_tells_is_found_after_statements(tmp_path: Path, model: MortalModel) -> None:
    told = "Did I tell you my sister Marta is a nurse in Porto?"
    async with remembering(tmp_path, model) as home:
        model.control(table=[])
        talk = said([("user", told), ("assistant", "Yes."), ("user", "Marta is a nurse and likes it.")])
        await remember(home, "t1", talk, **ANN)
        await settled(home)
        hits = [hit["text"] for hit in await search(home, "Is Marta a nurse?", types=["turn"])]
    assert hits == ["Marta is a nurse and likes it.", told]


async def test_a_message_of_which_nothing_holds_says_when_it_ended(
    tmp_path: Path, model: MortalModel
) -> None:
    async with moved_home(tmp_path, model) as home:
        question = "Do we live in a flat near the river with a balcony?"
        (porto,) = [each for each in await entries(home, "facts") if "Porto" in each.entry.text]
        hits = await search(home, question)
        lines, _ = await ask(home, "chat", question)
    of_flat = [hit for hit in hits if "home0-0" in hit["message_ids"]]
    (hit,) = [hit for hit in of_flat if hit["type"] != "episodes"]
    assert (hit["text"], hit["said"], hit["until"]) == ("Ann lives in Porto.", [FLAT], porto.ends)
    (line,) = [line for line in lines if FLAT in line]
    assert ", until " in line


TOLD_OTHERWISE = {
    "en": ("No meat for me any more.", "Ann is vegetarian.", "Do I eat meat?"),
    "de": ("Fleisch kommt mir nicht mehr auf den Teller.", "Ann ist Vegetarierin.", "Esse ich Fleisch?"),
    "ja": ("もう肉は食べません。", "アンは菜食主義者です。", "私は肉を食べますか？"),  # noqa: RUF001
    "ar": ("لم أعد آكل اللحم.", "آن نباتية.", "هل آكل اللحم؟"),
}
"""What is said, what is known by it, and a question that shares words with the first alone."""


async def test_a_fact_in_other_words_than_the_questions_leads_its_message_in_one_line(
    tmp_path: Path, model: MortalModel, model_folder: Path
) -> None:
    embedding = {"kind": "onnx", "folder": str(model_folder), "query_seconds": 30}
    model.control(
        table=[
            {"messages": [["ann", text]], "facts": [[fact, "user", "likes", text]]}
            for text, fact, _ in TOLD_OTHERWISE.values()
        ]
    )
    async with remembering(
        tmp_path, model, embedding=embedding, chat={"recall_seconds": 20}, memorize={"pause_seconds": 1}
    ) as home:
        for name, (text, _, _) in TOLD_OTHERWISE.items():
            told = [("user", "The bus was late again."), ("user", text), ("user", "I painted the fence.")]
            messages = said(told, prefix=f"{name}-", start=now_ms() - DAY)
            await remember(home, name, messages, user_id=name)
        await settled(home)
        for name, (text, fact, question) in TOLD_OTHERWISE.items():
            hits = await search(home, question, user_id=name)
            lines, _ = await ask(home, f"asked-{name}", question, {"user_id": name})
            (hit,) = [
                each for each in hits if f"{name}-1" in each["message_ids"] and each["type"] != "episodes"
            ]
            assert hits[0]["text"] == hit["text"] == fact
            assert hit["said"] in ([], [text])
            assert [fact in line for line in lines if fact in line or text in line] == [True], "one line"


async def test_what_an_assistant_answered_comes_behind_the_fact_that_holds_since(
    tmp_path: Path, model: MortalModel
) -> None:
    stale = {"Where do I live?": "Well, you live in Porto.", "Where is my home?": "Your home is in Porto."}
    model.control(table=HOMES, script=stale)
    async with remembering(
        tmp_path, model, chat={"recall_seconds": 20}, memorize={"pause_seconds": 1}
    ) as home:
        await remember(home, "home0", said([("user", FLAT)], start=now_ms() - 100 * DAY, prefix="h-"), **ANN)
        await settled(home)
        for number, question in enumerate(stale):
            await ask(home, f"asked{number}", question)
        await settled(home)
        await remember(home, "home1", said([("user", MOVED)], start=now_ms(), prefix="m-"), **ANN)
        await settled(home)
        for number, (question, answer) in enumerate(stale.items()):
            found = [hit["text"] for hit in await search(home, question)]
            assert found.index("Ann lives in Berlin.") == 0 < found.index(answer)
            lines, _ = await ask(home, f"chat{number}", f"So {question.lower().replace('?', ' now?')}")
            (known,), (at,) = (
                [n for n, line in enumerate(lines) if text in line] for text in ("lives in Berlin", answer)
            )
            assert known < at


async def test_what_a_person_wrote_comes_before_the_message_that_says_otherwise(
    tmp_path: Path, model: MortalModel
) -> None:
    model.control(table=HOMES)
    async with remembering(
        tmp_path, model, chat={"recall_seconds": 20}, memorize={"pause_seconds": 1}
    ) as home:
        await remember(home, "home0", said([("user", FLAT)], start=now_ms() - 100 * DAY, prefix="h-"), **ANN)
        (porto,) = await entries(home, "facts")
        change = {**ANN, "text": "Ann lives in Braga."}
        path = f"/api/v1/memory/entries/{porto.entry_id}"
        (await home.client.patch(path, json=change)).raise_for_status()
        await settled(home)
        (braga,) = await entries(home, "facts")
        question = "Do we live in a little flat near the Ribeira with a balcony?"
        hits = await search(home, question)
        lines, _ = await ask(home, "chat", question)
    found = [(hit["text"], hit["until"]) for hit in hits if hit["type"] in ("facts", "turn")]
    assert found == [("Ann lives in Braga.", None), (FLAT, braga.said)]
    (fact,) = [line for line in lines if "Braga" in line]
    (message,) = [line for line in lines if FLAT in line]
    assert ", corrected " in fact
    assert ", until " in message


async def test_a_fact_and_its_line_of_the_profile_are_one_hit(tmp_path: Path, model: MortalModel) -> None:
    async with moved_home(tmp_path, model) as home:
        assert [each.entry.text for each in await entries(home, "profile")] == ["Ann lives in Berlin."]
        hits = await search(home, "Where does Ann live?")
        lines_only = await search(home, "Where does Ann live?", types=["profile"])
    assert [hit["type"] for hit in hits if hit["text"] == "Ann lives in Berlin."] == ["facts"]
    assert [hit["type"] for hit in lines_only] == ["profile"]


@pytest.mark.parametrize("messages", [(NOW_ASKED, GREETING), (GREETING, NOW_ASKED)])
async def test_a_fact_and_its_line_of_the_profile_are_injected_once_an_epoch_and_corrected(
    messages: tuple[str, str], tmp_path: Path, model: MortalModel
) -> None:
    """The fact answers the question; the line comes with a first message, whatever that is about."""
    async with moved_home(tmp_path, model) as home:
        first, _ = await ask(home, "chat", messages[0])
        later, _ = await ask(home, "chat", messages[1])
        model.control(table=[*HOMES, MOVED_ON])
        await remember(home, "home9", said([("user", "Graz it is")], start=now_ms(), prefix="home9-"), **ANN)
        await settled(home)
        corrected, _ = await ask(home, "chat", "And what shall I cook?")
    assert quoted(first)[0] == "Ann lives in Berlin."
    assert "Ann lives in Berlin." not in quoted(later)
    assert [line for line in corrected if "Graz" in line and "corrected" in line]


MOVED_ON: Json = {
    "messages": [["ann", "Graz it is"]],
    "facts": [["Ann lives in Graz.", "user", "home", "Graz it is", {"replaces": ["Ann lives in Berlin."]}]],
}
