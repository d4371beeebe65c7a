"""How much each part of a score counts: chosen on conversations with questions, as docs/recall.md tells."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part counts. Zero switches a part off."""

    words: float = 0.4
    meaning: float = 0.9
    enough: float = 0.7
    """The share of all that the query's words can bring from which on the best match by words counts in full. With less,
    words say less: they match what any text may have."""
    asked_before: float = 0.5
    answered_before: float = 0.1
    """A word of the exchange before a follow-up, beside a word of its own. With less, a follow-up without a telling word
    finds nothing; with more, one that changes the subject finds the old one."""
    near_people: float = 0.8
    """The neighbourhood's words, where people talk to each other."""
    near_assistant: float = 0.2
    """The same, where a person talks to an assistant, or alone."""
    near_meaning: float = 0.3
    """How much the neighbourhood's meaning counts, compared with its words."""
    date: float = 0.2
    """Said on a day, in a month or in a year that the query names."""
    meant: float = 2.0
    """Said on a day or in a week that the query means, with a word of the query, or where nothing said then has one."""
    meant_alone: float = 0.5
    """Said then, in other words than the query's."""
    speaker: float = 0.2
    """Said by the one whom the query names."""
    asking: float = -0.3
    """All of it a question, where people talk to each other."""
    user: float = 0.5
    """What the person said, where they talk to an assistant."""
    question: float = -1.0
    """Asks the same as the query, in part for a question that asks for more: a question is no evidence. More is taken
    from what only asks, to come behind the best that tell something."""
    instruction: float = 0.5
    preference: float = 0.2
    reply: float = 0.4
    """What an assistant's reply inherits, where the query is about replies or wants a summary."""
    brought: float = 0.05
    """How much of a fact's words and meaning goes to the turns it came from, and is taken from those of a fact that
    holds no more."""
    fact: float = -0.5
    """A fact, a plan or a line of the profile: by itself it says less of where it belongs than its turns do."""
    held: float = 0.5
    """An entry that held at the time that the query names."""
    superseded: float = -1.0
    """An entry that did not hold then, or that holds no more, or not yet, where no time is named."""
    pinned: float = 0.5
    """An entry that a person pinned, with a word of the query."""
    centred: bool = True
    """Whether vectors are taken relative to the owner's mean."""
