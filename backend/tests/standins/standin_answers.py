"""What `tests.standins.standin_model` answers to a call, by what it asks for and how it is controlled."""

import json
import random
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from tests.standins import standin_memory
from tests.standins.standin_memory import content_of
from tests.standins.table_answers import answered

MODEL = "stand-in"
BOUNDARY_EVERY = 4

Mode = Literal[
    "answer", "rude", "truncated", "wrong_schema", "error", "refuse_schema", "silent", "die",
    "wrong_dimensions", "not_finite", "no_json", "refuse_text",
    "stall", "early_end", "rubbish", "rate_limit", "tool_call", "reasoning",
    "invent", "thinking",
]  # fmt: skip
Asking = Literal[
    "memory", "skills", "profile", "boundaries", "rewriting", "titles", "summaries", "chat", "embeddings"
]  # fmt: skip
_ASKING: dict[str | None, Asking] = {None: "chat", "memcell": "memory", "case": "memory", "skill": "skills"}

ENTITIES = (
    "Donald Trump", "Ivanka Trump", "Barron Trump", "Melania Trump", "Angela Merkel", "Barack Obama",
    "Michelle Obama", "Marie Curie", "Pierre Curie", "Irène Joliot-Curie", "Albert Einstein", "Isaac Newton",
    "Ada Lovelace", "Lord Byron", "Alan Turing", "Grace Hopper", "Nikola Tesla", "Charles Darwin",
    "Leonardo da Vinci", "Frida Kahlo", "Pablo Picasso", "Wolfgang Amadeus Mozart", "Johann Sebastian Bach",
    "Ludwig van Beethoven", "William Shakespeare", "Jane Austen", "Leo Tolstoy", "Nelson Mandela",
    "Mahatma Gandhi", "Cleopatra", "Marta", "Ann", "Bob", "Porto", "Lisbon", "Paris", "Berlin", "London",
    "Tokyo", "New York", "Rome", "Vienna", "Madrid", "Cairo",
)  # fmt: skip


class Control(BaseModel):
    """How calls are answered; after `times` calls the stand-in is its polite self again."""

    model_config = ConfigDict(extra="forbid")

    mode: Mode = "answer"
    delay_seconds: float = 0
    answer: dict[str, Any] | str | None = None
    times: int | None = None
    chunk_delay_seconds: float = 0
    entities: list[str] = []
    retry_after: str = "7"
    status: int = 500
    only: Asking | None = None
    rate: float = 1
    seed: int = 0
    gullible: bool = False
    parrot: bool = False
    script: dict[str, str] = {}
    caches: bool = False
    table: list[dict[str, Any]] = []

    @property
    def disturbs(self) -> bool:
        return self.mode != "answer" or self.delay_seconds > 0

    def is_about(self, asking: Asking, chance: random.Random) -> bool:
        return self.only in (None, asking) and (self.rate >= 1 or chance.random() < self.rate)

    def polite(self) -> Self:
        """For a call that it is not about."""
        return type(self)(
            gullible=self.gullible,
            parrot=self.parrot,
            entities=self.entities,
            script=self.script,
            caches=self.caches,
            table=self.table,
        )

    def after_one_call(self) -> Self:
        if self.times is None:
            return self
        return self.model_copy(update={"times": self.times - 1}) if self.times > 1 else type(self)()


def deltas_of(body: dict[str, Any], control: Control) -> Iterator[dict[str, Any]]:
    """The answer in pieces."""
    if control.mode == "tool_call":
        function = {"name": "weather", "arguments": '{"city": "Porto"}'}
        yield {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
        return
    if control.mode == "reasoning":
        yield {"reasoning_content": "Let me look at "}
        yield {"reasoning_content": "what was said."}
    if control.mode == "thinking":
        yield {"reasoning_content": "On the other hand, "}
        return
    for piece in re.findall(r"(?s).{1,12}", _text(body, control)):
        yield {"content": piece}


def usage_of(body: dict[str, Any], *pieces: dict[str, Any], cached: int | None = None) -> dict[str, Any]:
    """Words for tokens. Without `cached` nothing is told of a cache."""
    prompt = sum(map(_words, body["messages"]))
    written = len("".join(str(piece.get("content") or "") for piece in pieces).split())
    told = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    return told if cached is None else {**told, "prompt_tokens_details": {"cached_tokens": cached}}


def _words(message: dict[str, Any]) -> int:
    return len(content_of(message).split()) + 1


def cached_words(body: dict[str, Any], earlier: list[dict[str, Any]]) -> int:
    """The words of those messages with which another prompt began, too; of the prompt that shares the most."""
    messages = body["messages"]
    longest = 0
    for other in earlier:
        pairs = zip(messages, other["messages"], strict=False)
        longest = max(
            longest, sum(_words(mine) for mine, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        )
    return longest


def _text(body: dict[str, Any], control: Control) -> str:
    answer = control.answer
    if answer is None:
        answer = _own_answer(body, control)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    if control.mode == "rude":
        return f"Sure! Here {{you}} go:\n```json\n{text}\n```\nAnything else?"
    if control.mode == "truncated":
        return text[: len(text) // 2]
    if control.mode == "wrong_schema":
        return json.dumps({"reasoning": 1, "boundaries": "4", "should_wait": "no"})
    return text


def _own_answer(body: dict[str, Any], control: Control) -> dict[str, Any] | str:
    messages: list[dict[str, Any]] = body["messages"]
    if _asks_for_boundaries(body):
        return _every_fourth(body)
    if control.table and asking_of(body) == "memory":
        return answered(control.table, _prompt(body))[0]
    match standin_memory.asked_for(messages):
        case "memcell":
            return standin_memory.remembered(
                messages, gullible=control.gullible, invents=control.mode == "invent"
            )
        case "case":
            return standin_memory.worked_on(messages)
        case "skill":
            return standin_memory.taught_by(messages, invents=control.mode == "invent")
    if asking_of(body) == "rewriting":
        return _query(body, control.entities)
    for words, answer in control.script.items():
        if words in content_of(messages[-1]):
            return answer
    if control.parrot:
        return standin_memory.repeated(messages)
    return "I see: " + (", ".join(_seen(body, control.entities)) or "nothing")


def asking_of(body: dict[str, Any]) -> Asking:
    if _asks_for_boundaries(body):
        return "boundaries"
    first, last = content_of(body["messages"][0]), content_of(body["messages"][-1])
    for asking, words in _INSTRUCTIONS.items():
        if first.startswith(words) or last.startswith(f"[Task] {words}"):
            return asking
    return _ASKING[standin_memory.asked_for(body["messages"])]


_INSTRUCTIONS: dict[Asking, str] = {
    "rewriting": "You turn the last message of a conversation into",
    "titles": "You give a conversation its title",
    "summaries": "Sum up what was said",
    "profile": "You keep one page about a person",
}


def _query(body: dict[str, Any], entities: list[str]) -> str:
    """The last message of a conversation, and whom that is about."""
    last = json.loads(content_of(body["messages"][-1]).rpartition("Last message: ")[2])
    return " ".join([last, *_seen(body, entities)[:1]])


def _asks_for_boundaries(body: dict[str, Any]) -> bool:
    return re.search(r"(?m)^\[\d+\] \d{4}-\d\d-\d\dT", content_of(body["messages"][-1])) is not None


def _seen(body: dict[str, Any], entities: list[str]) -> list[str]:
    """Whom and what the messages name, in the order of first appearance."""
    text = "\n".join(content_of(message) for message in body["messages"])
    places = {
        entity: found.start()
        for entity in [*ENTITIES, *entities]
        if entity in text and (found := re.search(rf"(?<!\w){re.escape(entity)}(?!\w)", text))
    }
    return sorted(places, key=places.__getitem__)


def _prompt(body: dict[str, Any]) -> str:
    return "\n".join(content_of(message) for message in body["messages"])


def logged(body: dict[str, Any], control: Control) -> dict[str, Any]:
    users = [content_of(message) for message in body["messages"] if message["role"] == "user"]
    asks = asking_of(body)
    return {
        "asks": asks,
        "missing": answered(control.table, _prompt(body))[1] if asks == "memory" else [],
        "boundaries": _asks_for_boundaries(body),
        "last_user": users[-1] if users else None,
        "session_id": body.get("session_id"),
        "entities": _seen(body, control.entities),
        "disturbed": control.disturbs,
    }


def _every_fourth(body: dict[str, Any]) -> dict[str, Any]:
    numbers = [int(n) for n in re.findall(r"(?m)^\[(\d+)\] ", str(body["messages"][-1]["content"]))]
    ends = list(range(BOUNDARY_EVERY, max(numbers, default=0) + 1, BOUNDARY_EVERY))
    return {"reasoning": "every fourth message ends an episode", "boundaries": ends, "should_wait": not ends}


def finish_reason(mode: Mode) -> str:
    return {"truncated": "length", "thinking": "length", "tool_call": "tool_calls"}.get(mode, "stop")


def completion(choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "created": 0, "model": MODEL, "choices": [{"index": 0, **choice}]}


def event(choice: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(completion({'finish_reason': None, **choice}))}\n\n".encode()
