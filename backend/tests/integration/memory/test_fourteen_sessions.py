"""Two years of one person's life, as an excellent model understands it: what holds is shown, the rest is history."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.entries.entry import naming
from recollect.service.coordination import now_ms
from tests.eventually import eventually
from tests.http_client import Home, Json
from tests.remembering import DAY, MINUTE, MortalModel, entries, remember, remembering, texts
from tests.standins.table_answers import table_of

SESSIONS: list[Json] = table_of("mira")
ENTRIES = "/api/v1/memory/entries"
MIRA = {"user_id": "mira"}
TRIP = "Myra is hiking on Madeira from 6 to 12 October 2025."
SUCCESSORS = {
    old: fact[0]
    for session in SESSIONS
    for fact in session["facts"]
    if isinstance(fact[-1], dict)
    for old in [*fact[-1].get("replaces", ()), *fact[-1].get("ends", ())]
}
"""By the text of each fact that no longer holds: the one that says so."""
HOLDING = sorted({fact[0] for session in SESSIONS for fact in session["facts"]} - set(SUCCESSORS))
_ABOUT = {fact[0]: fact[1] for session in SESSIONS for fact in session["facts"]}
PAGE = sorted(naming(_ABOUT[text], text) for text in HOLDING)
QUESTIONS = {
    "Where do I live now?": "Myra lives in Berlin, in Neukölln.",
    "What is my job?": "Mira works as a UX designer at Farol.",
    "What is my favourite colour?": "Mira's favourite colour is green.",
    "How is my name spelt?": "Myra's name is spelt Myra Nowak.",
    "Do I drink coffee?": "Mira stopped drinking coffee on 1 January 2025 and drinks peppermint tea.",
    "Am I a vegetarian?": "Myra is a pescatarian, not a vegetarian any more: she has eaten fish since October 2025.",
    "Where is Anna, my friend from school, a vet?": "Anna, Mira's friend from school, is a vet in Salzburg.",
    "Which dog does my friend Anna have?": "Anna, Mira's friend from school, has a dog called Bruno.",
    "How many children does Anna Berger have?": (
        "Anna Berger, whom Myra knows from the ward in Vienna, has three children: Emil, Jakob and Rosa."
    ),
    "Do I like night shifts?": "Mira can't stand night shifts.",
    "What does my mother think I should do?": (
        "Mira's mother thinks that Mira should move back to Graz and become a teacher."
    ),
    "What is my cat called?": "Myra has a cat called Pixel.",
}


class MovedClock:
    """Runs, from whichever day it is set to."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return now_ms() + self.ahead

    def set(self, day: str) -> None:
        self.ahead = moment(day) - now_ms()


def moment(day: str) -> int:
    """Ten o'clock of that day."""
    return int(datetime.fromisoformat(f"{day}T10:00:00+00:00").astimezone(UTC).timestamp() * 1000)


class Life:
    """A home in which Mira talks, with a model that has a table of what she says."""

    def __init__(self, home: Home, model: MortalModel, clock: MovedClock) -> None:
        self.home, self.model, self.clock = home, model, clock
        self._asked_before = len(model.log())

    async def tell(self, session: Json, *, late: bool = False) -> None:
        """Say it and have it remembered, on its own day; `late`, it is brought in later."""
        if not late:
            self.clock.set(session["day"])
        self.model.control(table=[session])
        messages = [
            {
                "message_id": f"{session['day']}-{number}",
                "sender_id": sender,
                "role": "assistant" if sender == "assistant" else "user",
                "timestamp": moment(session["day"]) - DAY + number * MINUTE,
                "content": text,
            }
            for number, (sender, text) in enumerate(session["messages"])
        ]
        await remember(self.home, f"talk-{session['day']}", messages, **MIRA)
        await self.home.drain()
        await self.home.app.search.indexer.settled()

    def missing(self) -> list[str]:
        """Facts that a prompt should have listed, for the model to replace or end them."""
        return [text for call in self.model.log()[self._asked_before :] for text in call.get("missing", ())]

    async def holding(self, category: str | None = None) -> list[str]:
        found = [each for each in await entries(self.home, "facts") if each.holds]
        return sorted(
            each.entry.text for each in found if category in (None, each.entry.extra.get("category"))
        )

    async def one(self, text: str) -> Json:
        """As the API shows it."""
        (found,) = [
            each for each in await entries(self.home, "facts", "foresight") if each.entry.text == text
        ]
        answer = await self.home.client.get(f"{ENTRIES}/{found.entry_id}", params=MIRA)
        shown: Json = answer.raise_for_status().json()
        return shown

    async def search(self, query: str) -> list[Json]:
        body = {**MIRA, "query": query, "top_k": 5}
        answer = await self.home.client.post("/api/v1/memory/search", json=body)
        hits: list[Json] = answer.raise_for_status().json()["hits"]
        return hits


@asynccontextmanager
async def living(home: Path, model: MortalModel, **settings: Any) -> AsyncIterator[Life]:
    clock = MovedClock()
    clock.set("2024-01-01")
    strategies = {"profile": {"idle_seconds": 0}}
    async with remembering(home, model, clock=clock, strategies=strategies, **settings) as opened:
        yield Life(opened, model, clock)


async def test_what_holds_is_on_the_page_and_found_first_and_the_rest_is_history(
    model: MortalModel, model_folder: Path, tmp_path: Path
) -> None:
    embedding = {"kind": "onnx", "folder": str(model_folder), "query_seconds": 30}
    async with living(tmp_path, model, embedding=embedding) as life:
        for session in SESSIONS:
            await life.tell(session)
        assert life.missing() == []
        assert await life.holding() == HOLDING
        assert sorted(await texts(life.home, "profile")) == PAGE

        firsts = {question: (await life.search(question))[0]["text"] for question in QUESTIONS}
        assert firsts == QUESTIONS

        for old, new in SUCCESSORS.items():
            shown, successor = await life.one(old), await life.one(new)
            assert (shown["superseded_by"], bool(shown["until"])) == (successor["id"], True), old
        homes = [hit for hit in await life.search("Where have I lived?") if "lives in" in hit["text"]]
        assert all(hit["until"] and hit["superseded_by"] for hit in homes if hit["text"] in SUCCESSORS)


@pytest.mark.parametrize(
    ("day", "is_told"),
    [("2025-10-05", True), ("2025-10-08", True), ("2025-10-12", True), ("2025-10-13", False)],
)
async def test_a_weeks_trip_is_told_until_its_last_day_is_over(
    day: str, is_told: bool, model: MortalModel, tmp_path: Path
) -> None:
    async with living(tmp_path, model) as life:
        await life.tell(next(each for each in SESSIONS if each.get("plans")))
        life.clock.set(day)
        path = "/api/v1/threads/chat/messages"
        answer = await life.home.client.post(path, json={**MIRA, "content": "Good morning!"})
        turn = answer.raise_for_status().json()["assistant_turn"]["turn_id"]
        sent = await life.home.client.get(f"/api/v1/threads/chat/turns/{turn}/prompt", params=MIRA)
        assert (TRIP in sent.raise_for_status().text) == is_told


PASTIMES = [
    "kayaking",
    "chess",
    "knitting",
    "jazz",
    "opera",
    "tennis",
    "gardening",
    "origami",
    "surfing",
    "poetry",
    "baking",
    "archery",
    "yoga",
    "judo",
]
CITIES = ["Oslo", "Turin", "Cork", "Ghent", "Malaga", "Brno", "Riga"]


def hobbies(month: int) -> Json:
    """A session that says fourteen things about Mira that nothing later is about."""
    told = [
        f"{pastime} in {CITIES[(place + month) % 7]} with cousin {month * 14 + place}"
        for place, pastime in enumerate(PASTIMES)
    ]
    category = ("likes", "habits", "goals", "work", "health")[month % 5]
    return {
        "day": f"2023-{month + 1:02d}-05",
        "messages": [["mira", f"I tried {each} and liked it."] for each in told],
        "facts": [[f"Mira tried {each}.", "user", category, f"I tried {each}"] for each in told],
    }


@pytest.mark.slow
async def test_among_a_hundred_other_facts_a_model_is_shown_those_that_no_longer_hold(
    model: MortalModel, model_folder: Path, tmp_path: Path
) -> None:
    """They are near to what is said in meaning: "I moved to Vienna" shares no rare word with "Mira lives in Graz"."""
    embedding = {"kind": "onnx", "folder": str(model_folder), "query_seconds": 30}
    async with living(tmp_path, model, embedding=embedding) as life:
        for session in (*map(hobbies, range(8)), *SESSIONS):
            await life.tell(session)
        assert life.missing() == []
        found = await life.holding()
        assert len(found) == 8 * len(PASTIMES) + len(HOLDING)
        assert set(HOLDING) <= set(found)


OLD_TALK: Json = {
    "day": "2024-02-01",
    "messages": [["mira", "Nothing new, still in Graz."]],
    "facts": [
        ["Mira is still in Graz.", "user", "home", "still in Graz", {"replaces": ["Mira lives in Leibnitz."]}]
    ],
}
"""Said before the correction, brought in after it."""
MOVE: Json = {
    "day": "2024-04-15",
    "messages": [["mira", "Big news: I moved to Vienna last week."]],
    "facts": [
        [
            "Mira lives in Vienna.",
            "user",
            "home",
            "I moved to Vienna",
            {"replaces": ["Mira lives in Leibnitz."]},
        ]
    ],
}


async def test_an_old_conversation_that_is_brought_in_late_overrules_nothing(
    model: MortalModel, tmp_path: Path
) -> None:
    graz, porto = "Mira lives in Graz.", "Mira lives in Porto."
    move: Json = {"messages": [["mira", "Greetings from Porto, I moved here!"]], "day": "2024-12-09"}
    move["facts"] = [[porto, "user", "home", "Greetings from Porto", {"replaces": [graz]}]]
    late: Json = {**MOVE, "facts": [[*MOVE["facts"][0][:4], {"replaces": [porto]}]]}
    async with living(tmp_path, model) as life:
        for session in (SESSIONS[0], move):
            await life.tell(session)
        await life.tell(late, late=True)
        assert life.missing() == []
        assert await life.holding("home") == [porto]
        assert (await life.one("Mira lives in Vienna."))["superseded_by"] == (await life.one(porto))["id"]


async def test_what_was_said_again_since_is_overruled_by_no_older_conversation(
    model: MortalModel, tmp_path: Path
) -> None:
    graz = "Mira lives in Graz."
    again: Json = {"day": "2024-06-10", "messages": [["mira", "Still in Graz, as ever."]]}
    again["facts"] = [[graz, "user", "home", "Still in Graz"]]
    late: Json = {**MOVE, "facts": [[*MOVE["facts"][0][:4], {"replaces": [graz]}]]}
    async with living(tmp_path, model) as life:
        for session in (SESSIONS[0], again):
            await life.tell(session)
        await life.tell(late, late=True)
        assert life.missing() == []
        assert await life.holding("home") == [graz]
        vienna = await life.one("Mira lives in Vienna.")
        assert (vienna["superseded_by"], vienna["until"]) == (
            (await life.one(graz))["id"],
            moment("2024-06-09"),
        )
        hits = {hit["text"]: hit["until"] for hit in await life.search("Where am I living?")}
        assert not hits.get(graz)
        assert not hits.get("Still in Graz, as ever.")


@pytest.mark.parametrize("kind", ["facts", "profile"])
@pytest.mark.parametrize("way", ["API", "Markdown"])
async def test_a_correction_holds_until_a_later_message_says_otherwise(
    way: str, kind: str, model: MortalModel, tmp_path: Path
) -> None:
    """Of the fact, or of its line on the profile. The web page corrects through the same route as the API."""
    async with living(tmp_path, model) as life:
        await life.tell(SESSIONS[0])
        life.clock.set("2024-03-01")
        await correct(life, tmp_path, way, kind, "Mira lives in Graz.", "Mira lives in Leibnitz.")
        assert await life.holding("home") == ["Mira lives in Leibnitz."]

        await life.tell(OLD_TALK, late=True)
        assert await life.holding("home") == ["Mira lives in Leibnitz."]
        assert "Mira is still in Graz." not in await texts(life.home, "profile")

        await life.tell(MOVE)
        assert life.missing() == []
        assert await life.holding("home") == ["Mira lives in Vienna."]
        page = await texts(life.home, "profile")
        assert "Mira lives in Vienna." in page
        assert "Mira lives in Leibnitz." not in page
        theirs, vienna = await life.one("Mira lives in Leibnitz."), await life.one("Mira lives in Vienna.")
        assert theirs["superseded_by"] == vienna["id"]
        assert theirs["until"] == moment("2024-04-14")
        history = await life.home.client.get(f"{ENTRIES}/{theirs['id']}/history", params=MIRA)
        versions = history.raise_for_status().json()["versions"]
        assert [each["text"] for each in versions[:2]] == ["Mira lives in Graz.", "Mira lives in Leibnitz."]
        assert "person" in [each["actor"] for each in versions]


async def correct(life: Life, folder: Path, way: str, kind: str, old: str, new: str) -> None:
    known = next(each for each in await entries(life.home, kind) if each.entry.text == old)
    if way == "API":
        body = {**MIRA, "text": new}
        (await life.home.client.patch(f"{ENTRIES}/{known.entry_id}", json=body)).raise_for_status()
    else:
        file = folder / "vault" / known.path
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

        async def is_read() -> bool:
            return new in await texts(life.home, "facts")

        await eventually(is_read)
    await life.home.drain()
