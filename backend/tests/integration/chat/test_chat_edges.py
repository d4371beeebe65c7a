"""Chats at their edges: threads that are deleted in mid-answer, branches from long ago, chains of tool calls, retries."""

import asyncio
from pathlib import Path
from typing import Any

from recollect.domain.model import ThreadRef
from tests.http_client import Json
from tests.processes import StandInModel
from tests.talking import Talk, talking


async def delete(talk: Talk, thread: str = "t") -> None:
    (await talk.client.delete(f"/api/v1/threads/{thread}", params={"user_id": "ann"})).raise_for_status()


async def add(talk: Talk, texts: list[str], user_id: str = "ann", thread: str = "t") -> None:
    for text in texts:
        body = {"role": "user", "content": text, "user_id": user_id}
        (await talk.client.post(f"/api/v1/threads/{thread}/turns", json=body)).raise_for_status()


def users(sent: Json) -> list[str]:
    said = [message["content"] for message in sent["messages"] if message["role"] == "user"]
    return [text for text in said if not text.startswith(("[Context]", "[Summary]"))]


async def test_a_deleted_thread_takes_its_answers_with_it_though_its_id_is_used_again(
    talk: Talk, model: StandInModel
) -> None:
    model.control("stall")
    first = asyncio.create_task(post(talk, "ann one"))
    second = asyncio.create_task(post(talk, "ann two"))
    await asyncio.to_thread(model.calls, in_flight=1)
    await delete(talk)
    await add(talk, ["BOBSECRET is mine", "and so is this", "and this", "and that"], "bob")
    model.control()
    answers = [await first, await second]
    joined = await talk.client.get("/api/v1/threads/t/stream", params={"user_id": "bob"})
    seen = model.calls()
    bobs = [
        await talk.client.get(f"/api/v1/threads/t/turns/t-{n}/prompt", params={"user_id": "bob"})
        for n in (1, 2, 3, 4)
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert "BOBSECRET" not in "".join(answer.text for answer in answers)
    assert "BOBSECRET" not in str(seen)
    assert joined.status_code == 404
    assert [each.status_code for each in bobs] == [404] * 4


async def post(talk: Talk, text: str, **fields: Any) -> Any:
    return await talk.client.post(
        "/api/v1/threads/t/messages", json={"user_id": "ann", "content": text, **fields}
    )


async def test_a_branch_from_before_the_window_sees_its_own_past_and_no_other_summary(
    tmp_path: Path, model: StandInModel
) -> None:
    async with talking(tmp_path, model, chat={"max_turns": 8}) as talk:
        for number in range(8):
            await talk.say(f"word{number}")
        sent = await talk.sent(await talk.say("another way", parent_id="t-4"))
    assert users(sent) == ["word0", "word1", "another way"]
    assert "[Summary]" not in str(sent["messages"][1:])


async def test_turns_that_were_only_added_count_in_the_window(tmp_path: Path, model: StandInModel) -> None:
    async with talking(tmp_path, model, llm={"base_url": model.base_url, "context_tokens": 2000}) as talk:
        await talk.say("hello there")
        await add(talk, ["word " * 400] * 4)
        sent = await talk.sent(await talk.say("and now?"))
    assert len(str(sent["messages"])) < 2000 * 5
    assert users(sent)[-1] == "and now?"


async def test_a_message_that_never_fitted_costs_the_thread_nothing(
    tmp_path: Path, model: StandInModel
) -> None:
    async with talking(tmp_path, model, llm={"base_url": model.base_url, "context_tokens": 2000}) as talk:
        await talk.say("my cat is called Tom")
        assert (await post(talk, "word " * 4000)).status_code == 413
        sent = await talk.sent(await talk.say("what is my cat called?"))
    assert users(sent) == ["my cat is called Tom", "what is my cat called?"]
    assert sent["cause"] is None


async def test_an_answer_longer_than_the_context_is_refused_by_its_own_name(
    tmp_path: Path, model: StandInModel
) -> None:
    async with talking(tmp_path, model, llm={"base_url": model.base_url, "context_tokens": 2000}) as talk:
        refused = await post(talk, "hello", max_tokens=2000)
    assert refused.json()["error"]["field"] == "max_tokens"


async def tool_round(talk: Talk, call: Json) -> Json:
    result = {
        "role": "tool",
        "content": "sunny",
        "tool_call_id": call["tool_calls"][0]["id"],
        "user_id": "ann",
    }
    told = (await talk.client.post("/api/v1/threads/t/turns", json=result)).raise_for_status().json()
    body = {"user_id": "ann", "parent_id": told["turn_id"]}
    answer = await talk.client.post("/api/v1/threads/t/messages", json=body)
    found: Json = answer.raise_for_status().json()
    return found


async def test_a_long_chain_of_tool_calls_keeps_the_words_that_set_it_off(
    tmp_path: Path, model: StandInModel
) -> None:
    async with talking(tmp_path, model, chat={"max_turns": 6}) as talk:
        model.control("tool_call")
        answers = [await talk.say("What is the weather in Paris?")]
        for _ in range(7):
            answers.append(await tool_round(talk, answers[-1]["assistant_turn"]))
        sent = [await talk.sent(answer) for answer in answers]
    assert [users(each) for each in sent] == [["What is the weather in Paris?"]] * 8
    assert max(len(each["messages"]) for each in sent) <= 6 + 3
    epochs = [each["epoch"] for each in sent]
    assert len(set(epochs)) <= len(sent) // 2 + 1


async def test_the_work_on_skills_follows_the_end_of_a_long_chain(talk: Talk, model: StandInModel) -> None:
    model.control("tool_call")
    answer = await talk.say("What is the weather in Paris?")
    for _ in range(8):
        answer = await tool_round(talk, answer["assistant_turn"])
    turn = answer["assistant_turn"]["turn_id"]
    told = await talk.app.cells.told_of_turns("default", "skills", [("ann", "t", turn)])
    jobs = await talk.app.jobs.list_jobs(space="default", limit=1000)
    worked_on = [job.payload.get("turns", [""])[-1] for job in jobs if job.kind == "skills"]
    assert told or turn in worked_on


async def test_a_thread_whose_first_answer_calls_a_tool_gets_a_title(talk: Talk, model: StandInModel) -> None:
    model.control("tool_call")
    answer = await talk.say("What is the weather in Paris?")
    model.control()
    await tool_round(talk, answer["assistant_turn"])
    jobs = await talk.app.jobs.list_jobs(space="default", limit=1000)
    thread = (await talk.client.get("/api/v1/threads/t", params={"user_id": "ann"})).json()
    assert "title" in [job.kind for job in jobs] or thread["title"]


async def test_a_memory_may_come_back_as_soon_as_it_left_the_window(
    tmp_path: Path, model: StandInModel
) -> None:
    async with talking(tmp_path, model, chat={"max_turns": 4, "recall_seconds": 30}) as talk:
        await talk.say("My sister Marta is a nurse in Porto.", thread="other")
        await talk.settled()
        asked = "Where does my sister Marta work as a nurse?"
        first, *_, again = await talk.prompts(asked, "volcanoes in Iceland", asked)
    assert "Porto" in str(first["messages"])
    assert again["epoch"] > first["epoch"]
    assert "Porto" in str(again["messages"])
    assert [memory["thread_id"] for memory in again["detail"]["recall"]["memories"]] == ["other"]


async def test_a_message_sent_again_after_a_failure_gets_the_time_and_zone_of_now(
    talk: Talk, model: StandInModel
) -> None:
    model.control("error")
    failed = await post(talk, "What time is it?", time_zone="Asia/Tokyo")
    assert failed.status_code >= 500
    model.control()
    talk.clock.advance(3_600_000)
    sent = await talk.sent(await talk.say("What time is it?", time_zone="Europe/Berlin"))
    clocks = [m["content"] for m in sent["messages"] if str(m["content"]).startswith("[Context]")]
    assert len(clocks) == 1
    assert "Europe/Berlin" in clocks[0]
    assert "Tokyo" not in clocks[0]


async def test_a_message_sent_again_after_a_failure_does_not_join_its_own_query(
    talk: Talk, model: StandInModel
) -> None:
    model.control("error")
    failed = await post(talk, "Where does my sister live?")
    assert failed.status_code >= 500
    model.control()
    sent = await talk.sent(await talk.say("Where does my sister live?"))
    rewriter = sent["detail"]["rewriter"]
    assert (rewriter["query"], rewriter["by"]) == ("Where does my sister live?", "none")


async def test_a_message_sent_again_after_a_failure_gets_its_memories_again(
    talk: Talk, model: StandInModel
) -> None:
    await talk.say("My sister Marta is a nurse in Porto.", thread="other")
    await talk.settled()
    model.control("error")
    failed = await post(talk, "Where does my sister Marta work?")
    assert failed.status_code >= 500
    model.control()
    sent = await talk.sent(await talk.say("Where does my sister Marta work?"))
    assert "Porto" in str(sent["messages"])


async def test_a_regenerated_answer_sends_the_same_prompt(talk: Talk) -> None:
    first = await talk.sent(await talk.say("Who is Donald Trump?"))
    talk.clock.advance(3_600_000)
    body = {"user_id": "ann", "parent_id": "t-1"}
    answer = (await talk.client.post("/api/v1/threads/t/messages", json=body)).raise_for_status().json()
    again = await talk.sent(answer)
    talk.app.chat.live.forget(ThreadRef("default", "ann", "t"))
    stored = await talk.client.get(
        "/api/v1/threads/t/stream",
        params={"user_id": "ann", "turn_id": answer["assistant_turn"]["turn_id"]},
    )
    assert again["messages"] == first["messages"]
    assert answer["user_turn"] is None
    assert '"user_turn":null' in stored.text.replace(" ", "")


async def test_a_summary_speaks_of_the_branch_that_goes_on(tmp_path: Path, model: StandInModel) -> None:
    async with talking(tmp_path, model, chat={"max_turns": 8}) as talk:
        await talk.say("word0")
        await talk.client.post("/api/v1/threads/t/messages", json={"user_id": "ann", "parent_id": "t-1"})
        notes = []
        for number in range(1, 6):
            answer = await talk.say(f"word{number}")
            notes.append((await talk.sent(answer))["detail"].get("window"))
            await idle(talk)
    assert [note["summary"] for note in notes if note] == ["made"]


async def idle(talk: Talk) -> None:
    """Until the summary that is under way is made."""
    for job in await talk.app.jobs.list_jobs(space="default", limit=1000):
        if job.kind == "summary":
            assert await talk.app.jobs.wait_for(job.job_id, 30)


async def test_blocks_stay_within_their_share_of_the_context(tmp_path: Path, model: StandInModel) -> None:
    small = {"base_url": model.base_url, "context_tokens": 2400}
    async with talking(tmp_path, model, llm=small, chat={"recall_seconds": 30}) as talk:
        for number in range(12):
            await talk.say(
                f"Marta the nurse of ward {number} in Porto told me about her patients and her garden, number {number}.",
                thread=f"other{number}",
            )
        await talk.settled()
        answer = await talk.say(
            "What did Marta the nurse in Porto tell me about her patients and her garden?"
        )
        sent = await talk.sent(answer)
        block = next(m["content"] for m in sent["messages"] if str(m["content"]).startswith("[Context]"))
        backend = talk.app.talking.backends.get()
        tokens = await backend.count_tokens(block)
    assert "Marta" in block
    assert tokens <= 0.06 * 2400


async def test_a_rate_limit_tells_the_client_when_to_come_again(talk: Talk, model: StandInModel) -> None:
    model.control("rate_limit", retry_after="7")
    refused = await post(talk, "hello")
    assert (refused.status_code, refused.headers.get("Retry-After")) == (429, "7")
