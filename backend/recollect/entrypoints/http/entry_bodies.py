"""What requests about entries may hold."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from recollect.entrypoints.http.bodies import Body, Id, Text, Timestamp, Title
from recollect.memory.entry_edit import EntryEdit

Kind = Literal["episodes", "facts", "foresight", "profile", "cases", "skills"]
MAX_TEXT = 20_000


def _says_something(text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise PydanticCustomError("blank", "must not be blank")
    return text


def _on_one_line(text: str | None) -> str | None:
    if text is not None and len(f"{text}.".splitlines()) > 1:
        raise PydanticCustomError("lines", "must be one line")
    return text


Revision = Annotated[int, Field(ge=1, le=2**62, strict=True)]


class EntryChanges(Body):
    """Only what is named is changed; null is the same as not named."""

    user_id: Id | None = Field(None, description="Who asks; the owner cannot be changed.")
    title: Annotated[Title | None, AfterValidator(_says_something), AfterValidator(_on_one_line)] = Field(
        None, description="One line."
    )
    text: Annotated[Annotated[Text, Field(max_length=MAX_TEXT)] | None, AfterValidator(_says_something)] = (
        None
    )
    when: Timestamp | None = Field(None, description="When it happened, in UTC milliseconds.")
    pinned: bool | None = Field(None, strict=True)
    revision: Revision | None = Field(
        None, description="The revision that was read: refused with 409 where the entry has another by now."
    )

    def edit(self) -> EntryEdit:
        return EntryEdit(self.title, self.text, self.when, self.pinned, self.revision)


class UndoBody(Body):
    user_id: Id | None = Field(None, description="Who asks.")
    revision: Revision | None = Field(None, description="Back to this one; unset: the last change is undone.")
