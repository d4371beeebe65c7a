"""A model writes the page: what it is asked, and which of its lines are kept."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.entries.entry import LAPSES, PROFILE, EntryChange, KnownEntry
from recollect.domain.entries.profile import line_of
from recollect.domain.extraction.draft import CATEGORIES
from recollect.domain.job import Job
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import JsonObject, ThreadRef
from recollect.domain.strategy import Cause, strategies_of
from recollect.errors import ModelUnavailable
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.vault_folder import FolderVault
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.models.background import Answer
from recollect.service.remember.extract import PromptTexts, shipped_prompt
from recollect.service.remember.profile import (
    ENOUGH,
    Profiles,
    kept_lines,
    numbered,
    parse_profile_answer,
    profile_messages,
)
from tests.contract.journals import Journal
from tests.unit.made_entries import ANN, DAY, WHEN, known

REF = ThreadRef("default", "ann", "t1")


def fact(number: int, category: str = "home", **extra: str) -> KnownEntry:
    about = {"subject": "user", "category": category, **extra}
    return known(f"fa-{number}", f"Ann says {number}.", when=WHEN + number, extra=about)


FACTS = numbered([fact(1), fact(2), fact(3, "likes")])


def answered(*lines: tuple[str, str, list[str]]) -> list[tuple[str, str]]:
    """Text and facts of each line of the page that is made of such an answer."""
    told = [dict(zip(("category", "text", "facts"), line, strict=True)) for line in lines]
    made = parse_profile_answer(json.dumps({"lines": told}), FACTS, "qwen")
    return [(line.entry.text, line.entry.extra["fact"]) for line in made]


def test_a_line_may_join_facts_and_the_others_keep_their_own() -> None:
    assert answered(("home", "Ann says both.", ["f1", "f2"])) == [
        ("Ann says both.", "fa-1 fa-2"),
        ("Ann says 3.", "fa-3"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        ("home", "Of nothing.", []),
        ("home", "Of a fact that was not there.", ["f1", "f9"]),
        ("home", "Of two headings.", ["f1", "f3"]),
        ("work", "Under another heading.", ["f1"]),
        ("home", "", ["f1"]),
        ("home", "x" * 400, ["f1"]),
    ],
)
def test_a_line_that_its_facts_do_not_support_is_dropped(line: tuple[str, str, list[str]]) -> None:
    assert answered(line) == [(f"Ann says {number}.", f"fa-{number}") for number in (1, 2, 3)]


def test_a_fact_is_on_the_page_once() -> None:
    assert answered(("home", "One.", ["f1"]), ("home", "Two.", ["f1", "f2"])) == [
        ("One.", "fa-1"),
        ("Ann says 2.", "fa-2"),
        ("Ann says 3.", "fa-3"),
    ]


def test_the_prompt_holds_the_page_and_what_is_new_each_once() -> None:
    line = line_of(FACTS["f1"], FACTS["f2"], text="Ann says both.", by="qwen")
    messages = profile_messages(shipped_prompt("profile"), FACTS, [line])
    asked = messages[1]["content"]
    assert '[line, home, f1 f2] "Ann says both."' in asked
    assert '[f3, likes] "Ann says 3."' in asked
    assert "Ann says 1." not in asked


def test_a_models_line_is_kept_while_its_facts_say_the_same() -> None:
    line = line_of(FACTS["f1"], FACTS["f2"], text="Ann says both.", by="qwen")
    assert kept_lines([line], FACTS.values()) == [line]
    alone = [line_of(FACTS["f1"], by="qwen")]
    assert kept_lines([line], [FACTS["f1"]]) == alone
    changed = known("fa-2", "Ann says 7.", extra=fact(2).entry.extra)
    assert kept_lines([line], [FACTS["f1"], changed]) == alone
    assert kept_lines([line_of(FACTS["f1"])], FACTS.values()) == []


class StandIn:
    """Answers what it is told to, and counts."""

    def __init__(self, answer: str | Answer | Exception) -> None:
        self.answer, self.calls = answer, 0

    async def ask(self, messages: list[Any], **_: Any) -> Answer:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return Answer(self.answer, model="qwen") if isinstance(self.answer, str) else self.answer


class Store(SqlEntryStore):
    """Remembers what receipts say."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        super().__init__(journal.database, clock=clock)
        self.told: list[JsonObject] = []

    async def due(self) -> list[JsonObject]:
        """Takes what waits for a fact to lapse."""
        found = await self._database.read(
            "SELECT run_at, payload_json FROM jobs WHERE lane = ?", (f"lapses:{ANN}",)
        )
        await self._database.execute("DELETE FROM jobs", ())
        return [{"run_at": row["run_at"], "payload": json.loads(row["payload_json"])} for row in found]

    async def apply(self, change: EntryChange) -> None:
        self.told += [receipt.detail for receipt in change.receipts]
        await super().apply(change)


class Page:
    """The profile of Ann, by a model."""

    def __init__(self, journal: Journal, home: Path, answer: str | Answer | Exception) -> None:
        self.model = StandIn(answer)
        self.now = WHEN + DAY
        self.store = Store(journal, lambda: self.now)
        self.profiles = Profiles(
            self.store,
            OwnerLocks(),
            lambda: self.now,
            PromptTexts(FolderVault(home / "vault")),
            self.model,  # type: ignore[arg-type]
        )

    async def after(self, *facts: KnownEntry) -> list[str]:
        """The page once these are known too."""
        await self.store.apply(EntryChange("default", ANN, "extraction", "facts", facts))
        cause = Cause(REF, "c-1", tuple(each.entry_id for each in facts))
        return await self.made({"strategy": "profile", "owner": ANN, "causes": [cause.as_json()]})

    async def made(self, payload: JsonObject) -> list[str]:
        await self.profiles.handle(Job(1, "strategy", "profile:ann", "default", None, None, payload))
        lines = await self.store.list_entries("default", ANN, kinds=(PROFILE,))
        return sorted(line.entry.text for line in lines)


NEW = [fact(number) for number in range(1, ENOUGH + 1)]
JOINED = json.dumps({"lines": [{"category": "home", "text": "Ann says both.", "facts": ["f1", "f2"]}]})


async def test_it_is_asked_once_when_enough_changed(journal: Journal, tmp_path: Path) -> None:
    page = Page(journal, tmp_path, JOINED)
    assert await page.after(*NEW[:-1]) == [each.entry.text for each in NEW[:-1]]
    assert page.model.calls == 0
    by_model = await page.after(NEW[-1])
    assert (by_model[-1], len(by_model), page.model.calls) == ("Ann says both.", ENOUGH - 1, 1)
    again = await page.after(fact(20))
    assert (sorted({*by_model, "Ann says 20."}), page.model.calls) == (again, 1)


async def test_where_one_fact_of_a_joined_line_ends_the_others_are_no_news(
    journal: Journal, tmp_path: Path
) -> None:
    names = [f"f{number}" for number in range(1, ENOUGH + 2)]
    all_in_one = {"lines": [{"category": "home", "text": "Ann says all.", "facts": names}]}
    page = Page(journal, tmp_path, json.dumps(all_in_one))
    facts = [fact(number) for number in range(1, ENOUGH + 2)]
    assert await page.after(*facts) == ["Ann says all."]
    (last,) = await page.store.some("default", ANN, [facts[-1].entry_id])
    over = {**last.entry.extra, "superseded_by": "fa-x", "until": "2026-05-09T00:00:00.000Z"}
    ended = replace(last, entry=replace(last.entry, extra=over))
    assert await page.after(ended) == sorted(each.entry.text for each in facts[:-1])
    assert page.model.calls == 1


async def test_a_long_page_is_written_again_when_most_of_it_changed(journal: Journal, tmp_path: Path) -> None:
    categories = [each for each in CATEGORIES if each != "event"]
    facts = [fact(number, categories[number % len(categories)]) for number in range(1, 8 * ENOUGH + 1)]
    page = Page(journal, tmp_path, "I would rather not.")
    for begun in range(0, len(facts), ENOUGH):
        await page.after(*facts[begun : begun + ENOUGH])
    assert page.model.calls == 2


async def test_a_fact_leaves_the_page_when_its_own_time_is_over(journal: Journal, tmp_path: Path) -> None:
    page = Page(journal, tmp_path, JOINED)
    ends = [WHEN + 3 * DAY, WHEN + 2 * DAY]
    rents, learns = (
        known(f"fa-{end}", f"Ann rents until {end}.", extra={**fact(1).entry.extra, LAPSES: write_time(end)})
        for end in ends
    )
    await page.after(rents)
    assert len(await page.after(learns, fact(3))) == 3
    for end, left in ((ends[1], [rents.entry.text, "Ann says 3."]), (ends[0], ["Ann says 3."])):
        (job,) = await page.store.due()
        assert (job["run_at"], strategies_of(Job(1, "", "", "", None, None, job["payload"]))) == (
            end,
            ["profile"],
        )
        page.now = end
        assert sorted(await page.made(job["payload"])) == sorted(left)
    assert page.model.calls == 0


@pytest.mark.parametrize("answer", ["I would rather not.", ModelUnavailable("it is down")])
async def test_if_it_fails_the_page_of_single_facts_stays(
    journal: Journal, tmp_path: Path, answer: str | Exception
) -> None:
    page = Page(journal, tmp_path, answer)
    assert await page.after(*NEW) == sorted(each.entry.text for each in NEW)
    await page.after(fact(20))
    assert page.model.calls == (1 if isinstance(answer, str) else 2)


@pytest.mark.parametrize(
    ("answer", "by", "why"),
    [
        (JOINED, "qwen", None),
        (
            "hi",
            "rules",
            "the model's answer can't be used: the answer holds no JSON object that was asked for",
        ),
        (Answer("", model="qwen", cut_short=True, thought=True), "rules", "used up its room for thinking"),
        (ModelUnavailable("the model failed: its server failed"), "rules", "its server failed"),
    ],
)
async def test_the_receipt_says_who_wrote_the_page_and_why_the_model_did_not(
    journal: Journal, tmp_path: Path, answer: str | Answer | Exception, by: str, why: str | None
) -> None:
    page = Page(journal, tmp_path, answer)
    await page.after(*NEW)
    told = page.store.told[-1]
    assert (told["state"], told["by"]) == ("extracted", by)
    assert (why or "") in told.get("why", "")
    assert ("why" in told) == (why is not None)


async def test_a_line_that_a_person_wrote_or_deleted_is_not_written_over(
    journal: Journal, tmp_path: Path
) -> None:
    page = Page(journal, tmp_path, JOINED)
    for number, how in ((1, "wrote"), (2, "deleted")):
        line = line_of(fact(number))
        if how == "wrote":
            line = replace(line, entry=replace(line.entry, text="Mine.", extra={"edited": "yes"}))
        await page.store.apply(EntryChange("default", ANN, "person", how, (line,)))
        if how == "deleted":
            gone = EntryChange("default", ANN, "person", how, (), (line.entry_id,), keep_deleted=True)
            await page.store.apply(gone)
    assert await page.after(fact(1), fact(2), fact(3)) == ["Ann says 3.", "Mine."]


async def test_a_line_of_ones_own_that_was_replaced_hides_no_fact(journal: Journal, tmp_path: Path) -> None:
    page = Page(journal, tmp_path, JOINED)
    over = {"edited": "yes", "superseded_by": "fa-3", "until": "2026-05-09T00:00:00.000Z"}
    own = known("pr-9", "Ann says 1.", kind=PROFILE, extra=over)
    await page.store.apply(EntryChange("default", ANN, "person", "wrote", (own,)))
    assert await page.after(fact(1)) == ["Ann says 1.", "Ann says 1."]
