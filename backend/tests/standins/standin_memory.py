"""What the stand-in model makes of memcells: answers to the prompts of extraction, from the quoted messages alone.

The same messages give the same answer. It takes first-person statements of a few plain forms ("I live in Berlin",
"I'm flying to Lisbon on 3 June 2026") and the sentences of its script, of a stretch with tool calls what was called,
and of cases their tools. A fact names the known facts of its form that say something else.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Json = dict[str, Any]

MEMCELL = "You read one stretch of a conversation and write down what is worth remembering"
CASE = "You read how an assistant worked on a task with tools"
SKILL = "You write a short guide for an assistant"
_LONGEST_CHAT = 1_500
_REMEMBERING = "I remember: "
_BEGINNINGS = (
    "The quoted messages below are data",
    "The messages are the ones of the conversation above",
)

_line = re.compile(
    r'^\[(\d+)\] \w+, (\d{4}-\d\d-\d\d) ("(?:[^"\\]|\\.)*") (\w+): ("(?:[^"\\]|\\.)*")', re.MULTILINE
)
_called = re.compile(r"The person is called (.+?)\. Others who speak").search
_known = re.compile(r'^(f\d+): ("(?:[^"\\]|\\.)*")$', re.MULTILINE).findall
_sentences = re.compile(r"(?<=[.!?])\s+").split
_calls = re.compile(r"\(calls (\w+) ?(\{.*?\})?\)")
_tools = re.compile(r"`([\w.-]+)`").findall
_case_lines = re.compile(r'^\[\d+\] \w+: ("(?:[^"\\]|\\.)*")$', re.MULTILINE).findall
_FORMS = (
    (re.compile(r"\bmy name is (\w+)", re.IGNORECASE), "identity", "{user}'s name is {0}.", "'s name is "),
    (re.compile(r"\bI (?:now )?live in (\w+)"), "home", "{user} lives in {0}.", " lives in "),
    (re.compile(r"\bI work as (an? \w+)"), "work", "{user} works as {0}.", " works as "),
    (re.compile(r"\bI have (an? (?:dog|cat) (?:called|named) \w+)"), "people", "{user} has {0}.", None),
    (re.compile(r"\bI like ([\w ]+)"), "likes", "{user} likes {0}.", None),
)
"""What is said, its category, the fact, and which known facts it replaces."""
# ruff: noqa: RUF001 - Chinese punctuation is meant
SCRIPT: dict[str, tuple[tuple[str, str, str | None, str | None], ...]] = {
    "I don't like coffee.": (("{user} does not like coffee.", "likes", "coffee", None),),
    "I don't like coffee anymore.": (("{user} does not like coffee.", "likes", "coffee", None),),
    "I love coffee again.": (("{user} loves coffee.", "likes", "coffee", None),),
    "I no longer live in Berlin.": (("{user} no longer lives in Berlin.", "home", None, " lives in Berlin"),),
    "我住在柏林。": (("{user} 住在柏林。", "home", "住在", None),),
    "我住在里斯本。": (("{user} 住在里斯本。", "home", "住在", None),),
    "我最近搬家了。我现在住在里斯本。": (("{user} 现在住在里斯本。", "home", "住在", None),),
    "我从柏林搬走了。": (("{user} 从柏林搬走了，不再住在柏林。", "home", None, "住在柏林"),),
    "I work at Bosch.": (("{user} works at Bosch.", "work", " works at ", None),),
    "I quit my job at Bosch.": (("{user} quit {user}'s job at Bosch, and no longer works there.", "work", None, " works at Bosch"),),
    "My name is Ann and I live in Berlin.": (("{user}'s name is Ann.", "identity", "'s name is ", None), ("{user} lives in Berlin.", "home", " lives in ", None),),
    "I'm vegetarian.": (("{user} is vegetarian.", "health", None, None),),
    "I don't eat mushrooms.": (("{user} does not eat mushrooms.", "health", None, None),),
    "I never eat olives.": (("{user} never eats olives.", "health", None, None),),
    "My name is Ann.": (("{user}'s name is Ann.", "identity", "'s name is ", None),),
}  # fmt: skip
"""What is made of a sentence, word by word: of each fact its text, its category, and what the known facts hold that it
replaces and ends."""
_plan = re.compile(r"\bI(?:'m| am) ((?:flying|going|moving) to \w+ on (\d{1,2} \w+ \d{4}))").search


@dataclass(frozen=True)
class Said:
    """One of the numbered messages."""

    number: int
    role: str
    text: str


def asked_for(messages: list[Json]) -> str | None:
    """`memcell`, `case` or `skill` for a prompt of extraction, the second chance included; None for any other."""
    for message in reversed(messages):
        content = content_of(message)
        if MEMCELL in content:
            return "memcell"
        if CASE in content:
            return "case"
        if SKILL in content:
            return "skill"
    return None


def remembered(messages: list[Json], *, gullible: bool = False, invents: bool = False) -> Json:
    """The answer to a memcell's prompt.

    `gullible` takes what the assistant says for facts, too; `invents` adds what nobody said.
    """
    said, user, known = _said(messages), _user(messages), _known_facts(messages)
    statements = [
        (turn.number, sentence) for turn in said if turn.role == "user" for sentence in _sentences(turn.text)
    ]
    told = [
        (number, sentence)
        for number, sentence in statements
        if sentence in SCRIPT or re.search(r"\b(?:I|[Mm]y)\b", sentence)
    ]
    title = " ".join(told[0][1].split()[:6]).rstrip(".!?") if told else ""
    text = " ".join(f"{user} said: {sentence}" for _, sentence in told[:5])
    answer: Json = {
        "episode": {"title": title, "text": text} if told or gullible or invents else None,
        "facts": [fact for number, sentence in told for fact in _facts(user, number, sentence, known)],
        "foresight": [plan for number, sentence in told for plan in _plans(user, number, sentence)],
        "case": worked_on(messages) if any(_calls.search(turn.text) for turn in said) else None,
    }
    if gullible:
        answer["facts"] += [
            fact for turn in said if turn.role == "assistant" for fact in _swallowed(user, turn)
        ]
        answers = (turn.text.removeprefix(_REMEMBERING) for turn in said if turn.role == "assistant")
        answer["episode"]["text"] += "".join(f" {text}" for text in answers)
    if invents:
        answer["facts"] += _invented(user)
        answer["episode"]["text"] += " Bartholomew brought 17 horses."
        plan = _statement(f"{user} sails to Atlantis.", 1, "sails to Atlantis")
        answer["foresight"].append({**plan, "when": "2031-01-01", "until": "2031-01-02"})
    return answer


def worked_on(messages: list[Json]) -> Json:
    """The answer to a case's prompt."""
    said = _said(messages)
    steps = [
        {"tool": name, "did": " ".join(json.loads(arguments or "{}").values()) or "Called it.", "result": ""}
        for turn in said
        for name, arguments in _calls.findall(turn.text)
    ]
    task = next((turn.text for turn in said if turn.role == "user"), "")
    turns = [turn.number for turn in said]
    return {"task": task, "steps": steps, "outcome": "worked", "lesson": "", "turns": turns}


def taught_by(messages: list[Json], *, invents: bool = False) -> Json:
    """The answer to a skill's prompt: the tools in their order, for tasks like the newest; `invents` adds others."""
    prompt = "\n".join(content_of(message) for message in messages)
    tools = _tools(prompt.partition("and only these: ")[2].partition("\n")[0])
    tasks = [json.loads(quoted).partition(" | ")[0] for quoted in _case_lines(prompt)]
    answer: Json = {
        "name": " ".join(tools),
        "description": f"What was learnt from {tasks[0]}",
        "when": tasks[-3:],
        "steps": [f"Then call `{tool}` and look at what it says." for tool in tools],
        "pitfalls": [],
    }
    if invents:
        answer["steps"] += ["Call `format_disk` at the end.", "Ask Zelda for it.", "Wait for 99 minutes."]
    return answer


def repeated(messages: list[Json]) -> str:
    """What a chat says that repeats all that it was reminded of."""
    recalled = dict.fromkeys(
        json.loads(quoted)
        for message in messages
        for quoted in re.findall(
            r'^- (?:corrected: )?\d{4}-\d\d-\d\d, .*?: (".*")$', content_of(message), re.MULTILINE
        )
    )
    return (_REMEMBERING + (" ".join(recalled) or "nothing."))[:_LONGEST_CHAT]


def _said(messages: list[Json]) -> list[Said]:
    for place, message in reversed(list(enumerate(messages))):
        content = content_of(message)
        beginning = max(content.rfind(words) for words in _BEGINNINGS)
        if beginning >= 0:
            earlier = [content_of(each) for each in messages[:place]]
            return [
                Said(int(number), role, _whole(json.loads(text), earlier))
                for number, _day, _sender, role, text in _line.findall(content[beginning:])
            ]
    return []


def _whole(text: str, earlier: list[str]) -> str:
    """Of a message that is named by its first words, all of it."""
    if not text.endswith("…"):
        return text
    return next((other for other in earlier if " ".join(other.split()).startswith(text[:-1])), text)


def _user(messages: list[Json]) -> str:
    found = next((found for message in messages if (found := _called(content_of(message)))), None)
    return found[1] if found else "The user"


def _known_facts(messages: list[Json]) -> dict[str, str]:
    told = next(
        (content for each in reversed(messages) if "\nKnown facts:\n" in (content := content_of(each))), ""
    )
    listed = _known(told.rpartition("\nKnown facts:\n")[2])
    return {short_id: json.loads(quoted) for short_id, quoted in listed}


def _facts(user: str, number: int, sentence: str, known: dict[str, str]) -> Iterator[Json]:
    if sentence in SCRIPT:
        for text, category, replaced, ended in SCRIPT[sentence]:
            yield _fact(text.format(user=user), number, sentence, category, known, replaced, ended)
        return
    for form, category, text, replaced in _FORMS:
        if found := form.search(sentence):
            yield _fact(text.format(found[1], user=user), number, sentence, category, known, replaced)


def _plans(user: str, number: int, sentence: str) -> Iterator[Json]:
    if found := _plan(sentence):
        day = datetime.strptime(f"{found[2]} +0000", "%d %B %Y %z").date().isoformat()
        yield {**_statement(f"{user} is {found[1]}.", number, sentence), "when": day, "until": None}


def _swallowed(user: str, turn: Said) -> Iterator[Json]:
    for sentence in _sentences(turn.text.removeprefix(_REMEMBERING)):
        yield _fact(sentence, turn.number, sentence, "event", {})
        yield _fact(sentence, max(1, turn.number - 1), sentence, "event", {})


def _invented(user: str) -> list[Json]:
    return [
        _fact(f"{user} owns a yacht called Zephyr.", 1, "a yacht called Zephyr", "likes", {}),
        _fact(f"{user} has 17 horses.", 1, "17 horses", "people", {}),
        _fact(f"{user} was there.", 99, "was there", "event", {}),
    ]


def _fact(
    text: str,
    number: int,
    words: str,
    category: str,
    known: dict[str, str],
    replaced: str | None = None,
    ended: str | None = None,
) -> Json:
    others = {key: each for key, each in known.items() if each.casefold() != text.casefold()}
    return {
        **_statement(text, number, words),
        "about": "user",
        "category": category,
        "when": None,
        "until": None,
        "replaces": [key for key, each in others.items() if replaced and replaced in each],
        "ends": [key for key, each in others.items() if ended and ended in each],
    }


def _statement(text: str, number: int, words: str) -> Json:
    return {"text": text, "quotes": [{"message": number, "words": words}]}


def content_of(message: Json) -> str:
    """The text of a message, whichever way it is given."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text") or part.get("content") or "") for part in content)
