"""Extraction without a model: what people plainly state, in English and Chinese. Deterministic; in doubt, nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from recollect.domain.extraction.corrections import Sentence, corrected
from recollect.domain.extraction.draft import CellText, Draft, Extraction
from recollect.domain.extraction.earnest import begins_play, ends_play, is_attack, is_joke, wants_text
from recollect.domain.extraction.instructions import instruction_in
from recollect.domain.extraction.merging import merged
from recollect.domain.extraction.own_words import LONGEST_TURN, own_sentences
from recollect.domain.extraction.statement import Said, Speaker, Statement
from recollect.domain.extraction.statements_en import english_statements
from recollect.domain.extraction.statements_zh import chinese_statements
from recollect.domain.extraction.summary import episode_of
from recollect.domain.model import Turn

_MOST_CHARS = 60_000
"""Of a cell's turns together: more than one holds when it is closed by length, little enough to be read at once."""
_MOST_SENTENCES = 1_500
_MOST_STATEMENTS = 200
_MOST_DRAFTS = 60
"""Of one kind, of one cell."""


def extract_by_rules(cell: CellText) -> Extraction:
    """The episode, facts and plans of a cell, each with the turns that say so.

    Only people's own earnest statements about themselves and theirs give facts and plans; what an assistant or a tool
    said never does. A cell of nothing but greetings and thanks gives nothing.
    """
    order = {turn.turn_id: place for place, turn in enumerate(cell.turns)}
    told = _told(cell, order)
    drafts = merged(list(islice(_drafts(told, cell.time_zone), _MOST_STATEMENTS)), order)
    facts = [draft for draft in drafts if draft.kind == "facts"][:_MOST_DRAFTS]
    plans = [draft for draft in drafts if draft.kind == "foresight"][:_MOST_DRAFTS]
    episode = episode_of(cell, [(speaker.name, sentence) for speaker, sentence in told], [*facts, *plans])
    return Extraction((*([episode] if episode else []), *facts, *plans))


def own_names(cell: CellText) -> frozenset[str]:
    """What the user says in a cell that they are called. Who speaks alone is the user, whatever their sender id."""
    speakers = _speakers(cell)
    senders = [cell.user_id] if cell.user_id in speakers else list(speakers)
    if len(senders) != 1:
        return frozenset()
    order = {turn.turn_id: place for place, turn in enumerate(cell.turns)}
    said = islice(_drafts(_told(cell, order), cell.time_zone), _MOST_STATEMENTS)
    mine = speakers[senders[0]].name
    return frozenset(draft.value for draft in said if draft.attribute == "name" and draft.subject == mine)


def _told(cell: CellText, order: Mapping[str, int]) -> list[tuple[Speaker, Sentence]]:
    """What each person says in earnest, in the order of the turns."""
    told: list[tuple[Speaker, Sentence]] = []
    turns = _readable(cell)
    for sender, speaker in _speakers(cell).items():
        own = [turn for turn in turns if turn.sender_id == sender]
        told += [(speaker, sentence) for sentence in _earnest_sentences(own, cell.time_zone)]
    told.sort(key=lambda each: order[each[1].turn_ids[0]])
    return told[:_MOST_SENTENCES]


def _drafts(told: Sequence[tuple[Speaker, Sentence]], time_zone: str) -> Iterator[Draft]:
    for speaker, sentence in told:
        for statement in _statements(Said(sentence.text, sentence.at, time_zone, speaker)):
            yield _draft(sentence, statement)


def _readable(cell: CellText) -> list[Turn]:
    """What people said, as far as it is read: the first turns, and of a long one its beginning."""
    turns: list[Turn] = []
    room = _MOST_CHARS
    for turn in cell.turns:
        if turn.role == "user" and room > 0:
            turns.append(turn)
            room -= min(len(turn.content), LONGEST_TURN)
    return turns


def _speakers(cell: CellText) -> dict[str, Speaker]:
    """The people of the cell by their sender id, in the order in which they speak."""
    people = list(dict.fromkeys(turn.sender_id for turn in cell.turns if turn.role == "user"))
    names = {sender: _name(sender, cell) for sender in people}
    others = {sender: [names[other] for other in people if other != sender] for sender in people}
    return {
        sender: Speaker(
            names[sender],
            listener=others[sender][0] if len(others[sender]) == 1 else "",
            asks_assistant=not others[sender],
        )
        for sender in people
    }


def _name(sender: str, cell: CellText) -> str:
    return cell.user_name.strip() if sender == cell.user_id and cell.user_name.strip() else sender


@dataclass
class _Listening:
    """What has been heard of one person: sentences in earnest, and whether a play is on."""

    sentences: list[Sentence] = field(default_factory=list)
    last: int = 0
    """Where the sentences of the turn before begin."""
    is_playing: bool = False

    def hear(self, turn: Turn) -> None:
        sentences = list(own_sentences(turn.content))
        whole = " ".join(sentences)
        if is_joke(whole):
            self._take_back_joke(sentences)
            sentences = _after_joke(sentences)
        self.last = len(self.sentences)
        self.sentences += [
            Sentence(text, (turn.turn_id,), turn.timestamp) for text in self._earnest(sentences)
        ]

    def _take_back_joke(self, sentences: Sequence[str]) -> None:
        """A turn that begins by saying so speaks of the turn before."""
        if is_joke(sentences[0]):
            del self.sentences[self.last :]

    def _earnest(self, sentences: Sequence[str]) -> Iterator[str]:
        for text in sentences:
            if ends_play(text):
                self.is_playing = False
            if not self.is_playing:
                yield text
            if wants_text(text):
                return
            if begins_play(text) and not ends_play(text):
                self.is_playing = True


def _earnest_sentences(turns: Sequence[Turn], time_zone: str) -> list[Sentence]:
    """What one person says in earnest in their turns."""
    listening = _Listening()
    for turn in turns:
        listening.hear(turn)
    return corrected(listening.sentences, time_zone)


def _after_joke(sentences: Sequence[str]) -> list[str]:
    last = max(place for place, text in enumerate([*sentences, ""]) if is_joke(text) or place == 0)
    return list(sentences[last + 1 :])


def _statements(said: Said) -> Iterator[Statement]:
    if is_attack(said.text) or begins_play(said.text) or wants_text(said.text):
        return
    instruction = instruction_in(said)
    if instruction is not None:
        yield instruction
        return
    yield from english_statements(said)
    if not said.text.isascii():
        yield from chinese_statements(said)


def _draft(sentence: Sentence, statement: Statement) -> Draft:
    when, about = sentence.at, None
    if statement.moment is not None:
        moment = statement.moment
        if statement.is_plan:
            about = (moment.begin, moment.end)
        elif not moment.holds(sentence.at):
            when = moment.when
    return Draft(
        kind="foresight" if statement.is_plan else "facts",
        title=statement.text,
        text=statement.text,
        when=when,
        turn_ids=sentence.turn_ids,
        subject=statement.subject,
        attribute=statement.attribute,
        value=statement.value,
        about=about,
    )
