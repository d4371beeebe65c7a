"""Long chats through Recollect on a real llama.cpp.

The instructions have about 600 tokens and are the same in every thread; what the user says has 60 to 100. Everything is
made up from a seed, so the same chat can be had again under other conditions.
"""

import random
from collections.abc import Callable, Sequence

import httpx2

from tests.cache_figures import Run
from tests.processes import wait_until
from tests.standins.llama_cpp import Exchange, LlamaCpp

ANSWER_TOKENS = 12
PRESET = "long"
USER = "ann"
NO_BACKGROUND_WORK = {
    "RECOLLECT_MEMORIZE__BOUNDARY_EVERY": "1000",
    "RECOLLECT_MEMORIZE__PAUSE_SECONDS": "86400",
}
"""Nothing is made of what is said before somebody asks for it."""
_VOCABULARY = (
    "river garden window letter market bridge winter summer kitchen doctor teacher village journey station "
    "basket ladder morning evening shoulder paper silver copper mountain harbour sailor painter candle mirror "
    "blanket saddle orchard pepper sugar bread coffee ticket engine signal tunnel valley meadow forest "
    "hammer needle thread button pocket jacket sweater collar ribbon carpet curtain cupboard drawer shelf"
)
_WORDS = _VOCABULARY.split()
_PEOPLE = (
    ("sister Marta", "Porto", "works as a nurse in the children's hospital"),
    ("brother Ivo", "Lund", "repairs violins and cellos in a workshop"),
    ("neighbour Elke", "Graz", "trains guide dogs for the blind"),
    ("cousin Tarek", "Turin", "designs gearboxes for electric buses"),
    ("uncle Bruno", "Bergen", "is the cook on a ferry to the islands"),
    ("aunt Selma", "Krakow", "translates Turkish poetry into Polish"),
    ("friend Noor", "Cork", "teaches physics at a grammar school"),
    ("dentist Quist", "Riga", "opened a practice beside the opera"),
    ("colleague Priya", "Basel", "keeps the books of a chocolate factory"),
    ("landlord Hamid", "Sofia", "grows roses for a maker of perfume"),
    ("niece Lotte", "Leuven", "studies the ice of Greenland"),
    ("grandmother Agnes", "Gent", "plays the organ in the cathedral"),
)
_EARLIER = 1_763_000_000_000
_ASK_A_MODEL = ("flush", "strategy", "title", "summary")


def instructions() -> str:
    """About 600 tokens."""
    return "You are a helpful assistant. " + _sentences(random.Random("instructions"), 42, 12)


def said(thread: str, turn: int) -> str:
    """60 to 100 tokens, its own in every turn of every thread."""
    chance = random.Random(f"{thread} {turn}")
    return _sentences(chance, chance.randint(5, 7), 10)


def told(number: int) -> str:
    """What the user once told in another thread."""
    person, town, doing = _PEOPLE[number % len(_PEOPLE)]
    return f"My {person} has moved to {town} and {doing} there."


def asked(thread: str, turn: int) -> str:
    """As long as what is said, and about what was told: another matter in every turn."""
    person, town, _ = _PEOPLE[turn % len(_PEOPLE)]
    name = person.split()[-1]
    question = (
        f"What did I tell you about my {person}? I travel to {town} soon and look for a present, "
        f"so remind me what {name} does in {town}."
    )
    return f"{question} {_sentences(random.Random(f'{thread} {turn}'), 2, 10)}"


def clock(turn: int) -> str:
    return f"[Context]\nCurrent date and time: Sunday, 2026-11-15 10:{turn:02d} (UTC)"


def _sentences(chance: random.Random, count: int, words: int) -> str:
    return " ".join(
        " ".join(chance.choice(_WORDS) for _ in range(words)).capitalize() + "." for _ in range(count)
    )


class RecollectChat:
    """Chats of a running Recollect, whose backend is a llama.cpp."""

    def __init__(self, client: httpx2.Client, *, memory: bool = False) -> None:
        self.client = client
        self._memory = memory
        preset = {"instructions": instructions(), "temperature": 0, "max_tokens": ANSWER_TOKENS}
        client.put(f"/api/v1/presets/{PRESET}", json=preset).raise_for_status()

    def tell(self, count: int) -> None:
        """Tell so much in other threads, and wait until it can be recalled by its meaning."""
        for number in range(count):
            message = {
                "role": "user",
                "sender_id": USER,
                "content": told(number),
                "timestamp": _EARLIER + number,
            }
            body = {"session_id": f"told-{number}", "user_id": USER, "messages": [message]}
            self.client.post("/api/v1/memory/add", json=body).raise_for_status()
        wait_until(lambda: self._embedded() >= count, "what was told is embedded", seconds=120)

    def _embedded(self) -> int:
        found = self.client.get("/api/v1/coverage", params={"user_id": USER}).raise_for_status().json()
        return int(found["embedded"])

    def open(self, thread: str) -> None:
        """With a title of its own, so that no model is asked for one."""
        body = {"thread_id": thread, "user_id": USER, "title": f"About {thread}", "preset": PRESET}
        self.client.post("/api/v1/threads", json=body).raise_for_status()

    def talk(
        self,
        threads: Sequence[str],
        turns: int,
        *,
        words: Callable[[str, int], str] = said,
        after_each: Callable[[str], object] = lambda thread: None,
    ) -> list[Run]:
        """The threads take turns, one message each."""
        runs = {thread: Run() for thread in threads}
        for thread in threads:
            self.open(thread)
        for turn in range(turns):
            for thread in threads:
                runs[thread].turns.append(self.ask(thread, words(thread, turn)))
                after_each(thread)
        return list(runs.values())

    def ask(self, thread: str, words: str) -> Exchange:
        body = {"user_id": USER, "content": words, "memory": self._memory}
        answer = self.client.post(f"/api/v1/threads/{thread}/messages", json=body)
        if answer.status_code != 200:
            raise RuntimeError(f"{thread}: {answer.status_code} {answer.text}")
        found = answer.json()
        receipt = found["receipt"]
        return Exchange(
            found["assistant_turn"]["content"],
            receipt["cached_tokens"],
            receipt["evaluated_tokens"],
            receipt["completion_tokens"],
            len(receipt["recall"]["memories"]),
        )


class MemoryWork:
    """Has Recollect make memory of a thread, and counts what its calls evaluate on the chat's own llama.cpp."""

    def __init__(self, chat: RecollectChat, model: LlamaCpp) -> None:
        self._client = chat.client
        self._model = model
        self.evaluated: list[int] = []
        """Tokens, one figure for each time it was called."""

    def __call__(self, thread: str) -> None:
        """Close what the thread said since the last time, and wait for a call that follows from it, or for their end.

        A small model may never come to an end, and is asked again and again: the next turn finds it at work.
        """
        before = self._model.evaluated_in_all()
        body = {"session_id": thread, "user_id": USER, "timeout": 0}
        self._client.post("/api/v1/memory/flush", json=body).raise_for_status()
        wait_until(
            lambda: self._model.evaluated_in_all() > before or self._is_idle(),
            "the model was asked in the background",
            seconds=300,
            every=0.2,
        )
        self.evaluated.append(self._model.evaluated_in_all() - before)

    def _is_idle(self) -> bool:
        found = self._client.get("/api/v1/jobs", params={"limit": 1000}).raise_for_status().json()
        return not any(job["kind"] in _ASK_A_MODEL for job in found["jobs"] if job["state"] != "dead")
