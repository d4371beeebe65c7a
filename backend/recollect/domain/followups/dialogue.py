"""What a conversation is about at one moment: the last exchanges, and who or what a pronoun means in them."""

import re
from collections.abc import Collection
from functools import cached_property

from recollect.domain.followups.entities import Entity, entities_in
from recollect.domain.followups.follow_up_words import Wanted

_TOPIC_CHARS = 300
_ANSWER_HEAD = 160
"""An answer names what was asked for in its beginning."""
_AN_EXCHANGE_AGO = 2.5
"""How much an entity loses with every exchange, where a perfect fit is worth 6."""
_MOST_WORTH = 8.0
_MOST_NAMES = 4
_asks_for_one = re.compile(
    r"\W*(?:who|what|which|whose|wer|welche\w?|was ist d|qui|quel\w*|quién|cuál|qué)\b", re.IGNORECASE
).match
_names_it = re.compile(
    r"\W*(?:[Ww]ho|[Ww]hat|[Ww]er|[Ww]as|[Qq]ui|[Qq]uién|[Qq]ué)(?:'s| is| was| are| ist| war| est| es| fue) +[A-ZÀ-ÖØ-Þ@`\"]"
).match
_sentence = re.compile(r"[^.!?。！？\n]*[.!?。！？]?").match  # noqa: RUF001
_question = re.compile(r"[^.!?。！？\n]*[?？]").findall  # noqa: RUF001
_item = re.compile(r"^[ \t]*(?:\d{1,2}[.)]|[-*•])[ \t]+(.{1,200})$", re.MULTILINE).findall


class Exchange:
    """What somebody said, as a text that stands alone, and what was answered. Read only when it is needed."""

    def __init__(self, said: str) -> None:
        self.said = said
        self.answer = ""

    @cached_property
    def named(self) -> list[Entity]:
        return entities_in(self.said)

    @cached_property
    def answered(self) -> list[Entity]:
        return entities_in(self.answer)


class Dialogue:
    """The last exchanges, the newest last."""

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []

    def said(self, text: str) -> None:
        self._exchanges.append(Exchange(text))

    def answered(self, text: str) -> None:
        if not self._exchanges:
            self._exchanges.append(Exchange(""))
        last = self._exchanges[-1]
        last.answer = f"{last.answer}\n{text}" if last.answer else text

    @property
    def is_empty(self) -> bool:
        return not self._exchanges

    @property
    def last_said(self) -> str:
        return self._exchanges[-1].said if self._exchanges else ""

    def topic(self) -> str:
        """What the last exchange is about: what was said, and what was answered to a question for one thing."""
        if not self._exchanges:
            return ""
        last = self._exchanges[-1]
        said = _short(last.said) or _short((_sentence(last.answer.lstrip()) or [""])[0])
        asked_for = _asked_for(last)
        return said if asked_for is None else f"{said} {asked_for.name}".strip()

    def nth(self, number: int) -> str | None:
        """An item of the last answer's list, or else the entity that it names at that place; -1 is the last."""
        last = self._exchanges[-1] if self._exchanges else Exchange("")
        items = _item(last.answer[:4_000]) or [entity.name for entity in last.answered]
        place = number - 1 if number > 0 else len(items) - 1
        return items[place].strip(" *_`") if 0 <= place < len(items) else None

    def meant_by(self, wanted: Wanted, others: Collection[str] = ()) -> str | None:
        """The name that a pronoun stands for; None where nothing fits. `others` are what other pronouns stand for."""
        best: tuple[float, str] | None = None
        for age, exchange in enumerate(reversed(self._exchanges)):
            lost = _AN_EXCHANGE_AGO * age
            if best is not None and best[0] >= _MOST_WORTH - lost:
                break
            for worth, name in _worths(exchange, wanted):
                if name not in others and (best is None or worth - lost > best[0]):
                    best = (worth - lost, name)
        return best[1] if best else None


def fit(entity: Entity, wanted: Wanted) -> int:
    """From 0, not at all, to 3, certainly."""
    if wanted in ("male", "female"):
        if entity.kind not in ("person", "unknown") or entity.plural or entity.gender not in ("", wanted):
            return 0
        return (2 if entity.kind == "person" else 1) + (entity.gender == wanted)
    if wanted == "many":
        return 3 if entity.plural or entity.kind == "group" else int(entity.kind in ("person", "unknown"))
    fits: dict[Wanted, dict[str, int]] = {
        "someone": {"person": 3, "unknown": 2, "group": 1, "thing": 1, "place": 1},
        "thing": {"thing": 3, "group": 3, "place": 2, "unknown": 2},
        "place": {"place": 3, "unknown": 1, "group": 1, "thing": 1},
    }
    return fits[wanted].get(entity.kind, 0)


def _worths(exchange: Exchange, wanted: Wanted) -> list[tuple[float, str]]:
    """How well each name fits: what was asked about before what was answered, what was asked for before both."""
    if wanted == "many" and (several := _several(exchange)):
        return [(6.5, several)]
    # A name that stands for somebody once does so all through an exchange.
    people = {entity.name for entity in (*exchange.named, *exchange.answered) if entity.kind == "person"}
    worths = [(2 * each + 1.0, entity.name) for entity in exchange.named if (each := fit(entity, wanted))]
    asked_for = _asked_for(exchange)
    worths += [
        (2 * each + (2 if entity is asked_for else 0), entity.name)
        for entity in exchange.answered
        if (each := fit(entity, wanted))
    ]
    return [each for each in worths if wanted != "thing" or each[1] not in people]


def _several(exchange: Exchange) -> str | None:
    """Two names or more that stand together are "they", unless a group was named."""
    for entities in (exchange.named, exchange.answered):
        if any(fit(entity, "many") == 3 for entity in entities):
            return None
        people = [entity.name for entity in entities if entity.kind == "person"]
        if len(people) > 1:
            return ", ".join(people[:_MOST_NAMES])
    return None


def _asked_for(exchange: Exchange) -> Entity | None:
    """What a question such as "What is the capital of France?" asked for: the first that its answer adds."""
    if not _asks_for_one(exchange.said) or _names_it(exchange.said):
        return None
    said = exchange.said.casefold()
    added = (entity for entity in exchange.answered if entity.name.casefold() not in said)
    first = next(added, None)
    return first if first is not None and first.start < _ANSWER_HEAD else None


def _short(text: str) -> str:
    """A text of a few hundred characters: of a longer one its last question, or its beginning."""
    if len(text) <= _TOPIC_CHARS:
        return text.strip()
    questions = _question(text[-2_000:])
    return str(questions[-1] if questions else text).strip()[:_TOPIC_CHARS]
