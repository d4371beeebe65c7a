"""What a person says about themselves or theirs, before it becomes a draft."""

from dataclasses import dataclass

from recollect.domain.extraction.moments import Moment


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who says it, and to whom."""

    name: str
    listener: str = ""
    """The other person, where there is exactly one: "you" in what is said."""
    asks_assistant: bool = True
    """Whether a request is one to the assistant, and not to other people."""


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence in its setting."""

    text: str
    at: int
    time_zone: str
    speaker: Speaker


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that holds, happened, or is planned, in a sentence that needs no context."""

    text: str
    subject: str
    attribute: str
    """One of ATTRIBUTES; of a plan, empty."""
    value: str
    moment: Moment | None = None

    @property
    def is_plan(self) -> bool:
        return not self.attribute
