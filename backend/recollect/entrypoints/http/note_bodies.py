"""What requests and answers about notes hold."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from recollect.entrypoints.http.bodies import Body, Id, Text
from recollect.memory.note import Note
from recollect.service.import_note import NoteText, name_of


def _says_something(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


class NoteBody(Body):
    """A note to be kept."""

    user_id: Id | None = Field(None, description="Whose; unset: the key's user, else `me`.")
    name: Id = Field(description="Its file's name, with or without `.md`.")
    text: Annotated[Text, AfterValidator(_says_something)] = Field(
        description="Markdown, up to 1,000,000 bytes."
    )
    replace: bool = Field(False, description="Put it in the place of another note of that name.")


class NoteAnswer(BaseModel):
    name: str = Field(description="Its path below `notes/`.")
    path: str = Field(description="Its file in the vault.")
    modified: int = Field(description="When it was last written.")

    @classmethod
    def of(cls, note: Note) -> "NoteAnswer":
        return cls(name=name_of(note), path=note.path, modified=note.modified)


class NoteTextAnswer(NoteAnswer):
    text: str

    @classmethod
    def told(cls, found: NoteText) -> "NoteTextAnswer":
        note = found.note
        return cls(name=name_of(note), path=note.path, modified=note.modified, text=found.text)


class NotesAnswer(BaseModel):
    notes: list[NoteAnswer]


class ForgottenNoteAnswer(BaseModel):
    name: str
    deleted: bool = True
