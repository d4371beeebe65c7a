"""Standing instructions: how a person wants to be answered from now on."""

import re

from recollect.domain.extraction.earnest import is_attack, supposes
from recollect.domain.extraction.own_words import OMITTED
from recollect.domain.extraction.statement import Said, Statement
from recollect.domain.extraction.verbs_en import third_person

_DO = (
    r"(?:answer|reply|respond|write|use|keep|speak|talk|call me|address me|format|explain|give|include|avoid|show"
    r"|convert|cite|add"
    r"|be (?:brief|short|concise|polite|formal|informal|direct|honest)|start|end|suggest|make|stop|put|list"
    r"|summari[sz]e|name|spell|assume|mention|begin)"
)
_english = re.compile(
    rf"(?:(?:and|also|ok|okay|so|but|great|thanks|sure|yes),?\s+)*(?:please,?\s+"
    rf"|in (?:the )?future,?\s+(?:please\s+)?|from now on,?\s+(?:please\s+)?(?:can you |could you )?)*"
    rf"(?:(?P<how>always|never)\s+(?P<do>{_DO}\b.{{2,160}})|(?P<dont>(?:don't"
    rf"|do not)\s+(?:ever\s+)?)?(?P<what>{_DO}\b.{{2,160}}))",
    re.IGNORECASE,
).match
_lasting = re.compile(
    r"\b(?:from now on|in (?:the )?future|always|never|every time|whenever|each time|until i say)\b",
    re.IGNORECASE,
).search
_named = re.compile(r"(?:please,?\s+)?call me\s+(?P<v>[A-Z][\w'-]{0,30})\s*$").match
_from_now_on = re.compile(r",?\s*\b(?:from now on|in (?:the )?future)\b,?", re.IGNORECASE).sub
_i_do = re.compile(r"\bI ([a-z]{2,12})\b").sub
_person = re.compile(r"\b(?:me|my|I|you|your|yours)\b", re.IGNORECASE).sub
_chinese = re.compile(
    r"(?:请|請)?(?:以后|以後|从现在起|從現在起|从现在开始|今后|今後|总是|總是|永远|永遠|每次|一律)[，,]?(?:请|請|都|你|要|就|只)*"  # noqa: RUF001
    r"(?:用|回答|回复|回覆|叫我|称呼我|稱呼我|不要|别|別|保持|写|寫|讲|說|说|给我|給我|在).{1,60}"
).match
_dangling = re.compile(r"\b(?:it|this|that|those|these|them)\b", re.IGNORECASE).search
_SHORTEST = 6


def instruction_in(said: Said) -> Statement | None:
    """The instruction to the assistant that this sentence gives, None for any other sentence."""
    text = said.text.rstrip(" .!。！")  # noqa: RUF001 - Chinese punctuation
    if not said.speaker.asks_assistant or text.endswith(("?", "？")) or OMITTED in text:  # noqa: RUF001
        return None
    if is_attack(text) or supposes(text):
        return None
    return _in_chinese(text, said.speaker.name) or _in_english(text, said.speaker.name)


def _in_english(text: str, name: str) -> Statement | None:
    found = _english(text)
    if found is None or not (_lasting(text) or _named(text)) or _dangling(text):
        return None
    how = (found["how"] or "").lower()
    wanted = _from_now_on("", found["do"] or found["what"]).strip(" ,")
    told = _i_do(lambda clause: f"{name} {third_person(clause[1])}", wanted)
    told = _person(lambda word: _third(word[0], name), told)
    told = told[0].lower() + told[1:]
    to = "not to " if found["dont"] else "to " + (f"{how} " if how else "")
    text = f"{name} asks the assistant {to}{told}{'' if how else ' from now on'}."
    value = f"{'not ' if found['dont'] else ''}{how + ' ' if how else ''}{wanted}"
    return Statement(text, name, "instruction", value)


def _in_chinese(text: str, name: str) -> Statement | None:
    if text.isascii() or len(text) < _SHORTEST or _chinese(text) is None:
        return None
    spaced = f" {name} " if name.isascii() else name
    told = text.replace("我", spaced).replace("  ", " ").strip()
    return Statement(f"{name}要求助手：{told}。", name, "instruction", text)  # noqa: RUF001


def _third(word: str, name: str) -> str:
    word = word.lower()
    if word in ("me", "i"):
        return name
    return f"{name}'s" if word == "my" else {"you": "it"}.get(word, "its")
