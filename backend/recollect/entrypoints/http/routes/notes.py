"""Notes: Markdown that a person brings along."""

from fastapi import APIRouter, Request, Response

from recollect.entrypoints.http.dependencies import Calling, Home, PathId, UserQuery, note
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.note_bodies import (
    ForgottenNoteAnswer,
    NoteAnswer,
    NoteBody,
    NotesAnswer,
    NoteTextAnswer,
)
from recollect.service.forget_note import forget_note

router = APIRouter(prefix="/api/v1/memory/notes", tags=["memory"])


@router.get("", responses=documented(404))
async def list_notes(home: Home, caller: Calling, request: Request, user_id: UserQuery = None) -> NotesAnswer:
    """A user's notes, by their names."""
    note(request, user=user_id)
    found = await home.user_notes.list_notes(caller, user_id)
    return NotesAnswer(notes=[NoteAnswer.of(each) for each in found])


@router.post("", status_code=201, responses={**documented(404, 409), 200: {"model": NoteTextAnswer}})
async def import_note(
    home: Home, caller: Calling, body: NoteBody, request: Request, response: Response
) -> NoteTextAnswer:
    """Put a note into the vault (201). 200: it was there, or was replaced."""
    note(request, user=body.user_id)
    found, is_new = await home.user_notes.import_note(
        caller, body.user_id, body.name, body.text, replace=body.replace
    )
    if not is_new:
        response.status_code = 200
    return NoteTextAnswer.told(found)


@router.get("/{name}", responses=documented(404))
async def get_note(
    home: Home, caller: Calling, name: PathId, request: Request, user_id: UserQuery = None
) -> NoteTextAnswer:
    """One note with its text; a slash in its name comes as `%2F`."""
    note(request, user=user_id)
    return NoteTextAnswer.told(await home.user_notes.get_note(caller, user_id, name))


@router.delete("/{name}", responses=documented(404))
async def delete_note(
    home: Home, caller: Calling, name: PathId, request: Request, user_id: UserQuery = None
) -> ForgottenNoteAnswer:
    """Forget a note: its file, what the index holds of it, and the prompts that quoted it."""
    note(request, user=user_id)
    await forget_note(home.user_notes, home.forgetting, caller, user_id, name)
    return ForgottenNoteAnswer(name=name)
