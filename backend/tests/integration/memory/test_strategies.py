"""Strategies: what the settings, people and conversations have them do, and what they tell of it."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recollect.domain.access import Caller
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.extraction.draft import StoredCell
from recollect.domain.model import ThreadRef
from recollect.domain.strategy import HELD, STRATEGY, strategies_of
from recollect.service.models.background import ChatPrefix
from recollect.service.models.cached_model_calls import CachedModelCalls
from recollect.service.remember.extract import Extractor, PromptTexts
from tests.eventually import eventually
from tests.http_client import Home, Json
from tests.remembering import (
    DAY,
    MAY_8,
    MortalModel,
    entries,
    flush,
    remember,
    remembering,
    said,
    states,
    tell,
    texts,
)
from tests.standins.background import answering, model_on, saying
from tests.standins.tool_tasks import tool_task

NOBODY = Caller("default", None)
BERLIN = [("user", "My name is Ann. I live in Berlin.")]
LISBON = [("user", "I live in Lisbon.")]
IN_TWO_MONTHS = MAY_8 + 60 * DAY


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with remembering(tmp_path) as home:
        yield home


async def set_up(home: Home, text: str) -> None:
    """Write the settings file, and wait until it is in force or refused."""
    before = home.app.tuning(), home.app.tuning.problem
    (home.app.settings.home / "recollect.toml").write_text(text, encoding="utf-8")
    await eventually(lambda: (home.app.tuning(), home.app.tuning.problem) != before)


async def prefer(home: Home, **choices: bool) -> None:
    (await home.client.patch("/api/v1/users/ann/preferences", json=choices)).raise_for_status()


async def jobs_of(home: Home, strategy: str) -> list[int]:
    """When the waiting jobs of a strategy are due."""
    waiting = await home.app.jobs.list_jobs(space=None, limit=1000)
    return [job.run_at for job in waiting if job.kind == STRATEGY and strategy in strategies_of(job)]


async def close(home: Home, thread: str, messages: Sequence[Json]) -> None:
    """Ann's messages become memcells, as they do by themselves some time; nobody waits for what follows."""
    await tell(home, thread, messages, user_id="ann")
    assert await home.app.jobs.wait_for(
        await home.app.cells.request_flush(ThreadRef("default", "ann", thread)), 20
    )


async def fact(home: Home, text: str) -> KnownEntry:
    (found,) = [entry for entry in await entries(home, "facts") if entry.entry.text == text]
    return found


async def told_of(home: Home, thread: str, strategy: str) -> Json:
    """The receipt that a strategy left with the only memcell of a thread."""
    ((cell, _),) = await home.app.cells.list_cells(ThreadRef("default", "ann", thread))
    receipts = await home.app.cells.receipts(ThreadRef("default", "ann", thread), [cell.memcell_id])
    return receipts[cell.memcell_id][strategy]


async def run_again(home: Home, *, ask_again: bool = False) -> None:
    """All that was made of memcells is made again."""
    await home.app.reprocessor.reprocess(NOBODY, ask_again=ask_again)
    await home.drain()


# What the settings say.


async def test_a_strategy_is_switched_off_and_on_while_the_server_runs(home: Home) -> None:
    await set_up(home, "[strategies.facts]\nenabled = false\n")
    off = await remember(home, "t1", said(BERLIN), user_id="ann")
    assert (sorted(states(off)), await texts(home, "facts")) == (["episode", "foresight"], [])
    await set_up(home, "[strategies.facts]\nenabled = true\n")
    on = await remember(home, "t2", said(BERLIN, prefix="n"), user_id="ann")
    assert states(on)["facts"]["state"] == "extracted"


async def test_a_strategy_that_is_switched_off_before_its_turn_says_so(home: Home) -> None:
    async with home.app.jobs.paused([STRATEGY]):
        await close(home, "t1", said(BERLIN))
        await set_up(home, "[strategies.episode]\nenabled = false\n")
    await flush(home, "t1")
    assert await told_of(home, "t1", "episode") == {"state": "off", "why": "the strategy is switched off"}
    assert (await told_of(home, "t1", "facts"))["state"] == "extracted"
    assert await entries(home, "episodes") == []


async def test_all_strategies_of_a_memcell_are_one_job(home: Home) -> None:
    async with home.app.jobs.paused([STRATEGY]):
        await close(home, "t1", tool_task("a", MAY_8))
        waiting = await home.app.jobs.list_jobs(space=None, limit=1000)
        (job,) = [job for job in waiting if job.kind == STRATEGY]
        assert strategies_of(job) == ["episode", "facts", "foresight", "case"]
    await home.drain()
    assert {entry.kind for entry in await entries(home)} == {"cases"}


async def test_what_is_switched_off_is_made_again_only_where_it_is_named(home: Home) -> None:
    await set_up(home, "[strategies.facts]\nenabled = false\n")
    await remember(home, "t1", said(BERLIN), user_id="ann")
    await run_again(home)
    assert await texts(home, "facts") == []
    await home.app.reprocessor.reprocess(NOBODY, strategies=["facts"])
    await home.drain()
    assert "ann lives in Berlin." in await texts(home, "facts")


async def test_settings_that_cannot_be_read_change_nothing_and_are_shown(home: Home) -> None:
    await set_up(home, "[strategies.facts]\nevery = 'often'\n")
    flushed = await remember(home, "t1", said(BERLIN), user_id="ann")
    assert states(flushed)["facts"]["state"] == "extracted"
    assert "not in force" in (home.app.tuning.problem or "")


async def test_settings_that_cannot_be_read_show_before_anything_is_made(home: Home, tmp_path: Path) -> None:
    (tmp_path / "recollect.toml").write_text("[strategies.facts\n", encoding="utf-8")

    async def told() -> bool:
        health = (await home.client.get("/health")).json()
        return any("not in force" in problem for problem in health["degraded"])

    await eventually(told)


async def test_a_profile_after_every_second_change_then_tells_of_both(tmp_path: Path) -> None:
    async with remembering(tmp_path, strategies={"profile": {"every": 2}}) as home:
        await close(home, "t1", said(BERLIN))
        await eventually(lambda: jobs_of(home, "profile"))
        assert await jobs_of(home, "profile") == [HELD]
        await close(home, "t2", said(LISBON, prefix="n", start=IN_TWO_MONTHS))
        await eventually(lambda: jobs_end(home, "profile"))
        assert (await told_of(home, "t1", "profile"))["state"] != "off"
        assert (await told_of(home, "t2", "profile"))["state"] != "off"


async def jobs_end(home: Home, strategy: str) -> bool:
    return not await jobs_of(home, strategy)


async def test_what_waits_for_more_changes_comes_when_it_no_longer_has_to(home: Home) -> None:
    await set_up(home, "[strategies.profile]\nevery = 100\n")
    await close(home, "t1", said(BERLIN))
    await eventually(lambda: jobs_of(home, "profile"))
    await set_up(home, "[strategies.profile]\nidle_seconds = 0\n")
    await close(home, "t2", said(LISBON, prefix="n", start=IN_TWO_MONTHS))
    await eventually(lambda: jobs_end(home, "profile"))
    assert (await told_of(home, "t1", "profile"))["state"] != "off"


async def test_a_profile_that_waits_for_a_pause_waits_again_after_each_change(tmp_path: Path) -> None:
    async with remembering(tmp_path, strategies={"profile": {"idle_seconds": 600}}) as home:
        await close(home, "t1", said(BERLIN))
        await eventually(lambda: jobs_of(home, "profile"))
        (alone,) = await jobs_of(home, "profile")
        await close(home, "t2", said(LISBON, prefix="n"))

        async def waits_longer() -> bool:
            (due,) = await jobs_of(home, "profile")
            return alone < due

        await eventually(waits_longer)


async def test_a_profile_can_wait_for_a_time_of_day(tmp_path: Path) -> None:
    async with remembering(tmp_path, strategies={"profile": {"at": "03:30"}}) as home:
        await close(home, "t1", said(BERLIN))
        await eventually(lambda: jobs_of(home, "profile"))
        (due,) = await jobs_of(home, "profile")
        at = datetime.fromtimestamp(due / 1000, UTC)
        assert (at.hour, at.minute) == (3, 30)


@pytest.mark.parametrize("trigger", [{"at": "03:30"}, {"every": 100}, {"idle_seconds": 600}])
async def test_a_flush_has_everything_made_at_once_whatever_it_would_wait_for(
    trigger: Json, tmp_path: Path
) -> None:
    async with remembering(tmp_path, strategies={"profile": trigger}) as home:
        await close(home, "t1", said(BERLIN))
        flushed = await remember(home, "t2", said(LISBON, prefix="n", start=IN_TWO_MONTHS), user_id="ann")
        assert flushed["status"] == "done"
        assert len(await entries(home, "episodes")) == 2
        assert "ann lives in Lisbon." in await texts(home, "facts")
        assert [line for line in await texts(home, "profile") if "Lisbon" in line]
        assert await jobs_of(home, "profile") == []


@pytest.mark.parametrize(
    ("mode", "made"),
    [
        ("chat", ["episode", "facts", "foresight"]),
        ("agent", ["case", "skill"]),
        ("both", ["case", "episode", "facts", "foresight", "skill"]),
    ],
)
async def test_the_mode_says_whose_memory_is_made(mode: str, made: list[str], tmp_path: Path) -> None:
    async with remembering(tmp_path, memorize={"mode": mode}) as home:
        flushed = await remember(home, "t1", tool_task("a", MAY_8), user_id="ann")
        assert sorted(states(flushed)) == made


# What the profile tells.


@pytest.mark.parametrize("most", [100, 1], ids=["one job for all", "a job for each"])
async def test_the_profile_leaves_a_receipt_with_every_memcell_that_set_it_off(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.infra.journal.entry_rows._MOST_CAUSES", most)
    async with remembering(tmp_path, strategies={"profile": {"idle_seconds": 600}}) as home:
        await close(home, "t1", said(BERLIN))
        await eventually(lambda: jobs_of(home, "profile"))
        flushed = await remember(home, "t2", said(LISBON, prefix="n", start=IN_TWO_MONTHS), user_id="ann")
        lines = {line.entry_id: line.entry.text for line in await entries(home, "profile")}
        assert states(flushed)["profile"]["state"] == "extracted"
        wrote = [lines[name] for name in states(flushed)["profile"]["detail"]["wrote"]]
        assert any("Lisbon" in line for line in wrote)
        told = await told_of(home, "t1", "profile")
        assert "ann's name is Ann." in [lines.get(name) for name in told["wrote"]]


async def test_a_profile_that_takes_up_nothing_says_so(model: MortalModel, tmp_path: Path) -> None:
    quotes = [{"message": 1, "words": "I saw Berlin"}]
    fact = {"text": "Ann saw Berlin.", "about": "user", "category": "event", "quotes": quotes}
    answer = {"episode": {"title": "Berlin", "text": "Ann saw Berlin."}, "facts": [fact], "foresight": []}
    model.control(answer=answer, only="memory")
    async with remembering(tmp_path, model) as home:
        flushed = await remember(home, "t1", said([("user", "I saw Berlin.")]), user_id="ann")
        assert states(flushed)["profile"] == {
            "strategy": "profile",
            "state": "nothing worth keeping",
            "detail": {"why": "nothing of it belongs on the page"},
        }


async def test_a_flush_does_not_take_a_profile_that_failed_for_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[KnownEntry]:
        raise ValueError("the page is torn")

    monkeypatch.setattr("recollect.service.remember.profile.facts_on_page", broken)
    async with remembering(tmp_path, jobs={"max_attempts": 1}) as home:
        flushed = await remember(home, "t1", said(BERLIN), user_id="ann")
        assert flushed["status"] != "done"
        assert states(flushed)["profile"]["state"] == "failed"
        assert "the page is torn" in states(flushed)["profile"]["detail"]["error"]


# What a person says.


async def test_without_auto_memory_nothing_is_made_and_the_receipt_says_why(home: Home) -> None:
    await prefer(home, auto_memory=False)
    flushed = await remember(home, "t1", said(BERLIN), user_id="ann")
    assert {each["state"] for each in states(flushed).values()} == {"off"}
    assert states(flushed)["facts"]["detail"] == {"why": "auto_memory is off"}
    assert await entries(home) == []


async def test_without_auto_skills_no_case_is_made_and_the_receipt_says_why(home: Home) -> None:
    await prefer(home, auto_skills=False)
    flushed = await remember(home, "t1", tool_task("a", MAY_8), user_id="ann")
    assert states(flushed)["case"] == {
        "strategy": "case", "state": "off", "detail": {"why": "auto_skills is off"}
    }  # fmt: skip
    assert await entries(home, "cases") == []


async def test_a_message_that_is_not_to_be_remembered_is_not(model: MortalModel, tmp_path: Path) -> None:
    async with remembering(tmp_path, model) as home:
        asked: Json = {"user_id": "ann", "content": "I live in Atlantis.", "memory": False}
        (await home.client.post("/api/v1/threads/t1/messages", json=asked)).raise_for_status()
        await flush(home, "t1")
        await home.drain()
        assert await entries(home) == []
        assert (await home.coverage())["skipped"] == 2


async def test_of_an_incognito_thread_nothing_is_made(model: MortalModel, tmp_path: Path) -> None:
    async with remembering(tmp_path, model) as home:
        hidden: Json = {"thread_id": "t1", "user_id": "ann", "incognito": True}
        (await home.client.post("/api/v1/threads", json=hidden)).raise_for_status()
        flushed = await remember(home, "t1", said(BERLIN))
        assert (flushed["memcells"], await entries(home)) == ([], [])
        assert (await home.coverage())["skipped"] == 1


# What holds, and what no longer does.


async def test_what_no_longer_holds_is_kept_and_linked_and_the_profile_shows_what_does(home: Home) -> None:
    await remember(home, "t1", said(BERLIN), user_id="ann")
    await remember(home, "t2", said(LISBON, prefix="n", start=IN_TWO_MONTHS), user_id="ann")
    await home.drain()
    berlin, lisbon = await fact(home, "ann lives in Berlin."), await fact(home, "ann lives in Lisbon.")
    assert (berlin.holds, lisbon.holds) == (False, True)
    assert berlin.entry.extra["superseded_by"] == lisbon.entry_id
    assert lisbon.entry.extra["supersedes"] == berlin.entry_id
    assert berlin.entry.extra["until"] == "2026-07-07T14:03:00.000Z"
    page = "\n".join(await texts(home, "profile"))
    assert ("Lisbon" in page, "Berlin" in page) == (True, False)


async def test_what_was_said_earlier_and_told_later_does_not_hold(home: Home) -> None:
    await remember(home, "t2", said(LISBON, prefix="n", start=IN_TWO_MONTHS), user_id="ann")
    await remember(home, "t1", said([("user", "I live in Berlin.")]), user_id="ann")
    held = [entry.entry.text for entry in await entries(home, "facts") if entry.holds]
    assert held == ["ann lives in Lisbon."]


async def test_the_same_fact_from_another_thread_lends_its_source(home: Home) -> None:
    await remember(home, "t1", said([("user", "I live in Berlin.")]), user_id="ann")
    again = await remember(
        home, "t2", said([("user", "I live in Berlin.")], prefix="n", start=MAY_8 + DAY), user_id="ann"
    )
    known = await fact(home, "ann lives in Berlin.")
    assert [(source.thread_id, source.turn_id) for source in known.sources] == [
        ("t1", "t-1"),
        ("t2", "t-1"),
    ]
    assert states(again)["facts"]["detail"]["merged"] == [known.entry_id]


async def test_two_users_who_say_the_same_share_nothing(home: Home) -> None:
    for user in ("ann", "bob"):
        await remember(
            home, user, said([("user", "I live in Berlin.")], prefix=user, user=user), user_id=user
        )
    found = await entries(home, "facts")
    assert sorted((entry.owner, len(entry.sources)) for entry in found) == [
        ("default/users/ann", 1),
        ("default/users/bob", 1),
    ]


# The person rules.


async def test_a_second_run_changes_nothing(model: MortalModel, tmp_path: Path) -> None:
    async with remembering(tmp_path, model) as home:
        await remember(home, "t1", said(), user_id="ann")
        await remember(home, "t2", said(LISBON, prefix="n", start=IN_TWO_MONTHS), user_id="ann")
        await home.drain()
        before, asked = await entries(home), model.asked()
        await run_again(home)
        assert await entries(home) == before
        assert model.asked() == asked


async def test_what_a_person_changed_stays_when_its_memcell_is_run_again(home: Home) -> None:
    await remember(home, "t1", said(), user_id="ann")
    berlin = await fact(home, "ann lives in Berlin.")
    change = {"user_id": "ann", "text": "Ann lives in Potsdam, near Berlin."}
    (await home.client.patch(f"/api/v1/memory/entries/{berlin.entry_id}", json=change)).raise_for_status()
    await home.drain()
    before = await entries(home)
    await run_again(home, ask_again=True)
    assert await entries(home) == before


async def test_what_a_person_deleted_does_not_come_back_and_takes_nothing_along(home: Home) -> None:
    await remember(home, "t1", said(), user_id="ann")
    await home.drain()
    berlin = await fact(home, "ann lives in Berlin.")
    (
        await home.client.delete(f"/api/v1/memory/entries/{berlin.entry_id}", params={"user_id": "ann"})
    ).raise_for_status()
    await home.drain()
    before = await texts(home)
    assert not [text for text in before if text == "ann lives in Berlin."]
    await run_again(home, ask_again=True)
    assert await texts(home) == before


async def test_a_fact_that_a_person_corrects_in_its_file_says_it_once_and_on_the_page_of_the_profile(
    home: Home,
    tmp_path: Path,
) -> None:
    await remember(home, "t1", said(), user_id="ann")
    nurse = await fact(home, "ann works as a nurse.")
    file = tmp_path / "vault" / nurse.path
    text = file.read_text().replace("## ann works as a nurse.", "## ann works as a midwife.")
    file.write_text(text, encoding="utf-8")
    await eventually(lambda: shows(home, "midwife"))
    known = await fact(home, "ann works as a midwife.")
    assert (known.entry_id, known.entry.title, known.is_edited) == (
        nurse.entry_id, "ann works as a midwife.", True
    )  # fmt: skip
    assert not await shows(home, "nurse")
    await home.drain()
    assert "nurse" not in file.read_text()


@pytest.mark.parametrize("how", ["section", "file"])
async def test_what_was_superseded_by_what_a_person_removes_in_a_file_holds_again(
    how: str, home: Home, tmp_path: Path
) -> None:
    await remember(home, "t1", said(BERLIN), user_id="ann")
    await remember(home, "t2", said(LISBON, prefix="n", start=IN_TWO_MONTHS), user_id="ann")
    await home.drain()
    file = tmp_path / "vault" / (await fact(home, "ann lives in Lisbon.")).path
    if how == "file":
        file.unlink()
    else:
        file.write_text(file.read_text().partition("## ")[0] + "A word of mine.\n", encoding="utf-8")
    await eventually(lambda: holds(home, "ann lives in Berlin."))
    await eventually(lambda: shows(home, "Berlin"))
    assert "ann lives in Lisbon." not in await texts(home, "facts")


async def holds(home: Home, text: str) -> bool:
    return (await fact(home, text)).holds


async def shows(home: Home, word: str) -> bool:
    """Whether it is on the page of the profile."""
    return any(word in line for line in await texts(home, "profile"))


async def test_what_two_threads_said_and_a_person_deleted_comes_back_from_neither(home: Home) -> None:
    await remember(home, "t1", said(), user_id="ann")
    await remember(home, "t2", said(start=MAY_8 + DAY, prefix="n"), user_id="ann")
    await home.drain()
    nurse = await fact(home, "ann works as a nurse.")
    assert {source.thread_id for source in nurse.sources} == {"t1", "t2"}
    gone = await home.client.delete(f"/api/v1/memory/entries/{nurse.entry_id}", params={"user_id": "ann"})
    gone.raise_for_status()
    await run_again(home, ask_again=True)
    assert "ann works as a nurse." not in await texts(home)


@pytest.mark.parametrize("ask_again", [False, True])
async def test_what_two_threads_said_and_a_person_corrected_comes_back_from_neither(
    ask_again: bool, home: Home
) -> None:
    await remember(home, "t1", said(), user_id="ann")
    await remember(home, "t2", said(start=MAY_8 + DAY, prefix="n"), user_id="ann")
    await home.drain()
    nurse = await fact(home, "ann works as a nurse.")
    assert {source.thread_id for source in nurse.sources} == {"t1", "t2"}
    change = {"user_id": "ann", "text": "Ann works as a midwife."}
    (await home.client.patch(f"/api/v1/memory/entries/{nurse.entry_id}", json=change)).raise_for_status()
    await home.drain()
    before = await texts(home)
    await run_again(home, ask_again=ask_again)
    assert await texts(home) == before
    assert "ann works as a nurse." not in before


async def test_a_model_that_comes_later_takes_the_place_of_rules_and_leaves_a_persons_word(
    model: MortalModel, tmp_path: Path
) -> None:
    async with remembering(tmp_path) as home:
        await remember(home, "t1", said(), user_id="ann")
        berlin, nurse = await fact(home, "ann lives in Berlin."), await fact(home, "ann works as a nurse.")
        change = {"user_id": "ann", "text": "Ann works as a midwife."}
        (await home.client.patch(f"/api/v1/memory/entries/{nurse.entry_id}", json=change)).raise_for_status()
        (
            await home.client.delete(f"/api/v1/memory/entries/{berlin.entry_id}", params={"user_id": "ann"})
        ).raise_for_status()
        await home.drain()
    async with remembering(tmp_path, model) as home:
        await run_again(home)
        found = await entries(home, "facts")
        assert sorted(entry.entry.text for entry in found) == [
            "Ann works as a midwife.",
            "ann has a dog called Rex.",
            "ann's name is Ann.",
        ]
        assert len({entry.entry_id for entry in found}) == 3
        episodes = await entries(home, "episodes")
        assert [entry.entry.by for entry in episodes] == ["episode, stand-in"]


async def test_without_a_model_what_one_made_stays(tmp_path: Path, model: MortalModel) -> None:
    messages = said([*BERLIN, ("assistant", "How nice.")])
    async with remembering(tmp_path, model) as home:
        await remember(home, "t1", messages, user_id="ann")
        await home.drain()
        before = await entries(home, "facts", "profile", "episodes")
        assert {entry.kind for entry in before} == {"facts", "profile", "episodes"}
    async with remembering(tmp_path, alone=True) as home:
        await home.app.reprocessor.reprocess(NOBODY)
        await home.drain()
        assert await entries(home, "facts", "profile", "episodes") == before
        assert (await told_of(home, "t1", "facts"))["why"] == "no model is configured"
        (
            await home.client.delete("/api/v1/threads/t1/turns/t-2", params={"user_id": "ann"})
        ).raise_for_status()
        await home.drain()
        kept = await texts(home, "facts", "profile")
        assert sorted(kept) == sorted(entry.entry.text for entry in before if entry.kind != "episodes")


async def test_a_receipt_counts_the_messages_that_the_prompt_could_not_show_in_full(home: Home) -> None:
    pasted = ("user", "a line of a log that somebody pasted, " * 1_000)
    flushed = [await remember(home, "t1", said(BERLIN), user_id="ann")]
    flushed.append(await remember(home, "t2", said([*BERLIN, pasted], prefix="n"), user_id="ann"))
    assert [states(each)["facts"]["detail"].get("messages_cut") for each in flushed] == [None, 1]


@pytest.mark.parametrize(
    ("prefix", "cut"), [(None, 1), (ChatPrefix([{"role": "user", "content": "all of it"}]), 0)]
)
async def test_after_a_chats_own_prompt_no_message_is_cut(
    home: Home, prefix: ChatPrefix | None, cut: int
) -> None:
    """Also by an answer that was kept, and is read again after a crash."""
    await remember(home, "t1", said([("user", "a line that somebody pasted, " * 1_000)]), user_id="ann")
    thread = ThreadRef("default", "ann", "t1")
    ((_, cell),) = await home.app.cell_texts.cells_of(*thread)
    stored = await home.app.cell_texts.cell(thread, cell)
    assert stored is not None
    await home.app.model_answers.forget_cells("default", [cell])

    async def live_prefix(_: StoredCell) -> ChatPrefix | None:
        return prefix

    answer = {"episode": {"title": "A line", "text": "Ann pasted a line."}, "facts": [], "foresight": []}
    backend = answering(saying(json.dumps(answer)))
    calls = CachedModelCalls(model_on(backend), home.app.model_answers, home.app.fail_points)
    extractor = Extractor(calls, PromptTexts(home.app.vault), live_prefix)
    made = [await extractor.memcell(stored, stored.text("Ann", "UTC")) for _ in range(2)]
    assert ([each.messages_cut for each in made], len(backend.calls)) == ([cut, cut], 1)
