"""What supports a statement: the sentences that people said of their own, apart from all else in their turns."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from recollect.domain.entries.entry import text_key
from recollect.domain.extraction.draft import CellText
from recollect.domain.extraction.grounding_dates import SaidTimes, without_dates
from recollect.domain.extraction.grounding_words import compared, content_terms, numbers_said, vocabulary
from recollect.domain.model import Turn
from recollect.domain.recall.words import normal

_LOOKED_AT = 20_000
"""Characters of a turn; what stands further down supports nothing."""

_ends = re.compile(r"(?<=[!?\u3002\uff01\uff1f;\uff1b\n])\s*|(?<=\.)(?!\d)\s+|(?<=\.[\"')\u201d])\s+")
_colons = re.compile("[:\uff1a]").split
_fenced = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_quoted_line = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_forwarded = re.compile(
    r"^[ \t]*(?:-{2,} ?(?:original|forwarded) message|begin forwarded message|on [^\n]{1,200} wrote:).*\Z",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_affirms = re.compile(
    r"""\W*(?: (?:oh|well|haha|um|ah)\W+ )?
    (?: (?: yes|yeah|yep|yup|exactly|correct|right|that'?s\ (?:right|correct|true)|indeed|absolutely|definitely|precisely
          | of\ course|sure|true|you'?re\ right|ja|genau|stimmt|oui|exact|sí|si|claro|exacto|sim|да|точно|верно )
        \b (?! \W{0,3}(?:but|and\ no|not|aber|pero|mais|но)\b )
      | (?:是的|没错|沒錯|对的|對的|对啊|對啊|对呀|正确|正確|当然|當然|是啊|确实|確實|嗯|好的|就是|はい|そう|네|맞아)
      | [对對](?=[\s,.!\uff0c\u3002\uff01]|$) )""",
    re.IGNORECASE | re.VERBOSE,
).match
_overrides = re.compile(
    r"""\b(?:ignore|disregard|forget|override|bypass|drop)\b[^.!?\n]{0,40}
        \b(?:instructions?|rules?|prompts?|guidelines?|polic(?:y|ies)|directions?|training|(?:you\ were|been)\ told)\b
    | \b(?:new|updated)\ (?:system\ )?(?:instructions?|prompt)\b | ^\W*system\ (?:prompt|message|note)\s*:
    | (?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|绕过)[^\u3002\uff01\n]{0,20}(?:指令|指示|规则|規則|提示|设定|設定|要求)""",
    re.IGNORECASE | re.VERBOSE,
).search
_remember = re.compile(
    r"""^\W*(?:(?:and|also|so|now|then|please|hey|ok|okay|just|you\ (?:must|should|have\ to|need\ to)|can\ you|could\ you
        |i\ want\ you\ to|i'?d\ like\ you\ to|from\ now\ on|always)\W+){0,4}
        (?:remember|memori[sz]e|store|save|record|note(?:\ down)?|keep\ in\ mind|bear\ in\ mind|don'?t\ forget|never\ forget
        |take\ note|write\ down|add\ (?:this\ |it\ )?to\ (?:your\ )?memory|learn)\b
    | ^\W*(?:请|請|你要|你必须|一定要|务必|麻烦)*(?:记住|記住|记下|記下|牢记|别忘了|不要忘记|记得|記得|保存|存下)""",
    re.IGNORECASE | re.VERBOSE,
).search
_about_speaker = re.compile(
    r"\b(?:i|i'?m|i'?ve|i'?d|i'?ll|me|my|mine|myself|we|our|us|ich|mein\w*|je|j'|mon|ma|mes|yo|mi|mis|я|мой|моя)\b|[我俺咱]",
    re.IGNORECASE,
).search
_asks_only_to_note = re.compile(
    r"\b(?:this|the following|these)\W*$|[:\uff1a]\s*$|以下|下面|这件事", re.IGNORECASE
).search
_about_answers = re.compile(
    r"\b(?:answer|reply|respond|write|speak|talk|use|format|call me|address)\w*\b|回答|回复|回覆|用.{1,8}(?:写|说|答)|称呼",
    re.IGNORECASE,
).search


@dataclass(frozen=True)
class Support:
    """Sentences of turns, to look a statement up in."""

    sentences: tuple[tuple[Turn, str], ...]
    time_zone: str

    @cached_property
    def text(self) -> str:
        return compared("\n".join(sentence for _, sentence in self.sentences))

    @cached_property
    def words(self) -> frozenset[str]:
        # A date that is written onto a word hides it: a statement's words are looked up without their dates.
        return vocabulary(self.text) | vocabulary(without_dates(self.text))

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset(numbers_said(self.text))

    @cached_property
    def times(self) -> SaidTimes:
        texts: dict[str, tuple[Turn, list[str]]] = {}
        for turn, sentence in self.sentences:
            texts.setdefault(turn.turn_id, (turn, []))[1].append(sentence)
        return SaidTimes([(turn, normal("\n".join(said))) for turn, said in texts.values()], self.time_zone)


class SaidInCell:
    """The turns of a cell, taken apart once. `of_people` and its kin choose what may support a statement."""

    def __init__(self, cell: CellText) -> None:
        self._cell = cell
        self._supports: dict[tuple[str, frozenset[str]], Support] = {}
        self._own: dict[str, tuple[str, ...]] = {}
        self._commands: dict[str, frozenset[int]] = {}
        self._repeated: set[str] = set()
        """What assistants say again of what was recalled."""
        for turn in cell.turns:
            if turn.role == "user":
                sentences = sentences_in(without_quotations(turn.content))
                self._own[turn.turn_id] = sentences
                self._commands[turn.turn_id] = frozenset(commanded(sentences))
            elif turn.role == "assistant":
                sentences = sentences_in(turn.content)
                own = _not_recalled(sentences, cell.recalled.get(turn.turn_id, ""))
                self._own[turn.turn_id] = own
                self._repeated |= {text_key(each) for each in sentences if each not in own}

    def of_people(self, turn_ids: Iterable[str]) -> Support:
        """What people said in these turns, with what they affirmed, but for commands.

        A command to remember something about the one who speaks is no such command.
        """
        return self._known("people", turn_ids, lambda cited: self._people(cited, commands=False))

    def with_commands(self, turn_ids: Iterable[str]) -> Support:
        """What people said in these turns, commands included."""
        return self._known("commands", turn_ids, lambda cited: self._people(cited, commands=True))

    def of_all(self, turn_ids: Iterable[str]) -> Support:
        """Whatever was said in these turns, tools included, but for what was recalled."""
        return self._known("all", turn_ids, self._everything)

    def with_recalled(self, turn_ids: Iterable[str]) -> Support:
        """Everything, what was recalled for these turns included."""
        return self._known("recalled", turn_ids, self._everything_and_recalled)

    def is_repeated(self, sentence: str) -> bool:
        """An assistant says just this, and only because it was recalled."""
        key = text_key(sentence)
        people = (self._own[turn.turn_id] for turn in self._cell.turns if turn.role == "user")
        return key in self._repeated and not any(text_key(said) == key for own in people for said in own)

    def _known(
        self,
        kind: str,
        turn_ids: Iterable[str],
        choose: Callable[[frozenset[str]], Iterable[tuple[Turn, str]]],
    ) -> Support:
        """Each support is put together once: statements of one cell cite the same turns."""
        cited = frozenset(turn_ids)
        if (kind, cited) not in self._supports:
            self._supports[kind, cited] = Support(tuple(choose(cited)), self._cell.time_zone)
        return self._supports[kind, cited]

    def _people(self, cited: frozenset[str], *, commands: bool) -> Iterator[tuple[Turn, str]]:
        for place, turn in enumerate(self._cell.turns):
            if turn.role == "user" and turn.turn_id in cited:
                yield from self._said_by_person(turn, commands=commands)
            elif turn.role == "assistant":
                yield from self._affirmed(place, turn, cited)

    def _everything(self, cited: frozenset[str]) -> Iterator[tuple[Turn, str]]:
        for turn in self._cell.turns:
            if turn.turn_id in cited:
                own = self._own[turn.turn_id] if turn.role == "assistant" else sentences_in(turn.content)
                yield from ((turn, sentence) for sentence in own)

    def _everything_and_recalled(self, cited: frozenset[str]) -> Iterator[tuple[Turn, str]]:
        for turn in self._cell.turns:
            if turn.turn_id in cited:
                yield turn, turn.content[:_LOOKED_AT]
                yield turn, self._cell.recalled.get(turn.turn_id, "")[:_LOOKED_AT]

    def _said_by_person(self, turn: Turn, *, commands: bool) -> list[tuple[Turn, str]]:
        left_out = frozenset() if commands else self._commands[turn.turn_id]
        own = self._own[turn.turn_id]
        return [(turn, sentence) for place, sentence in enumerate(own) if place not in left_out]

    def _affirmed(self, place: int, turn: Turn, cited: frozenset[str]) -> list[tuple[Turn, str]]:
        """The sentences of an answer that a person affirms in the turn after it, or had affirmed in the one before."""
        own = [(turn, sentence) for sentence in self._own[turn.turn_id]]
        after = self._person_at(place + 1)
        if (
            after is not None
            and _affirms(after.content)
            and not cited.isdisjoint([turn.turn_id, after.turn_id])
        ):
            return own
        before = self._person_at(place - 1)
        if before is not None and turn.turn_id in cited and _affirms(before.content):
            answered = self._cell.turns[place - 2].content[:_LOOKED_AT] if place > 1 else ""
            known = vocabulary(f"{before.content[:_LOOKED_AT]}\n{answered}")
            return [(turn, sentence) for _, sentence in own if _share(sentence, known) > 1 / 2]
        return []

    def _person_at(self, place: int) -> Turn | None:
        turns = self._cell.turns
        return turns[place] if 0 <= place < len(turns) and turns[place].role == "user" else None


def sentences_in(text: str) -> tuple[str, ...]:
    """The sentences of a text; each line ends one."""
    return tuple(sentence for sentence in _ends.split(text[:_LOOKED_AT]) if sentence and sentence.strip())


def without_quotations(text: str) -> str:
    """A person's text without code, forwarded mails, and lines that quote somebody else."""
    return _quoted_line.sub("", _forwarded.sub("", _fenced.sub("\n", text[:_LOOKED_AT])))


def commanded(sentences: Sequence[str]) -> Iterable[int]:
    """The places of sentences that tell a model what to ignore or to remember, about anything but who speaks.

    Whatever follows a command to ignore instructions is part of it.
    """
    is_next = False
    for place, sentence in enumerate(sentences):
        if _overrides(sentence):
            yield from range(place, len(sentences))
            return
        is_about_speaker = _about_speaker(after_command(sentence)) is not None
        commands = _remember(sentence) is not None
        if (commands or is_next) and not is_about_speaker and not (commands and _about_answers(sentence)):
            yield place
        is_next = commands and _asks_only_to_note(sentence) is not None


def after_command(sentence: str) -> str:
    """What is to be remembered: "I want you to remember that" is not about the one who speaks."""
    found = _remember(sentence)
    return sentence[found.end() :] if found else sentence


def _not_recalled(sentences: Sequence[str], recalled: str) -> tuple[str, ...]:
    """Without the sentences that say mostly what the memories in the prompt said, all of it or behind a colon."""
    if not recalled:
        return tuple(sentences)
    known = vocabulary(recalled[:_LOOKED_AT])
    return tuple(
        sentence
        for sentence in sentences
        if all(_share(part, known) <= 1 / 2 for part in (sentence, _colons(sentence)[-1]))
    )


def _share(sentence: str, known: frozenset[str] | Mapping[str, object]) -> float:
    """How much of a sentence's content is known, from 0 to 1."""
    terms = content_terms(sentence)
    return sum(term in known for term in terms) / len(terms) if terms else 0.0
