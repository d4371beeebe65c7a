"""Memory: take messages in, close them into memcells, find them; notes that a person brings, and imports."""

import asyncio
import tempfile
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from recollect.domain.access import Caller
from recollect.domain.model import DEFAULT_USER, Append, Receipt
from recollect.entrypoints.http import answers
from recollect.entrypoints.http import people_schemas as schemas
from recollect.entrypoints.http.access import act_as, body_bytes
from recollect.entrypoints.http.deps import Calling, Home, PathId, UserQuery, note
from recollect.entrypoints.http.direct_route import BodyRoute, direct
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.requests import AddBody, FlushBody, ReprocessBody, SearchBody, Title
from recollect.entrypoints.http.routes.operations import LINES, lines
from recollect.errors import AlreadyExists, InvalidInput, NotFound, TooLarge
from recollect.service.coordination import Progress
from recollect.service.forget.forget import forget_note
from recollect.service.imports.source import Source
from recollect.service.memory_tool import MemoryTool
from recollect.service.remember.boundaries import flush_thread
from recollect.service.vault.notes import notes_owner

router = APIRouter(prefix="/api/v1/memory", tags=["memory"], route_class=BodyRoute)


@direct(router, "/add", status_code=202, responses=documented(404, 409, 429))
async def add(home: Home, caller: Calling, body: AddBody, request: Request) -> answers.AddAnswer:
    """Store messages. When the answer comes they are durable; memory is made of them later."""
    limit = home.settings.limits.messages
    if len(body.messages) > limit:
        raise TooLarge(
            f"messages: {len(body.messages)} are too many; at most {limit} a call", field="messages"
        )
    append = Append(
        space=caller.space,
        thread_id=body.session_id,
        turns=[message.new_turn() for message in body.messages],
        user_id=caller.acting_for(body.user_id),
        agent_id=body.agent_id,
        tags=tuple(body.tags),
    )
    note(request, thread=body.session_id, user=append.user_id)
    receipts = await home.ingest.memorize(append, body_bytes(request.scope))
    waiting = await home.ingest.waiting(append)
    note(request, turn=_turns_named(receipts))
    return answers.AddAnswer(
        session_id=body.session_id,
        receipts=[answers.ReceiptAnswer.of(receipt) for receipt in receipts],
        waiting=None if waiting is None else answers.WaitingAnswer.of(waiting),
    )


def _turns_named(receipts: list[Receipt]) -> str | None:
    """`t-4`, or `t-4..t-9`, for the log."""
    ids = [receipt.turn_id for receipt in receipts if receipt.turn_id is not None]
    return None if not ids else ids[0] if len(ids) == 1 else f"{ids[0]}..{ids[-1]}"


@router.post("/search", responses=documented(404, 503))
async def search(home: Home, caller: Calling, body: SearchBody, request: Request) -> answers.SearchAnswer:
    """Find what one user's memory holds on a query, the best first."""
    note(request, user=body.user_id, thread=body.thread_id)
    found = await home.search.recall.search(caller, body.search())
    home.metrics.observe_search(body.mode, degraded=bool(found.degraded))
    return answers.SearchAnswer.of(found)


@router.post(
    "/flush",
    responses={
        **documented(404, 409),
        202: {"model": answers.FlushAnswer, "description": "Not all done yet."},
    },
)
async def flush(
    home: Home, caller: Calling, body: FlushBody, request: Request, response: Response
) -> answers.FlushAnswer:
    """Close what is buffered into memcells and wait for their strategies; past the time-out the answer is 202."""
    note(request, thread=body.session_id, user=body.user_id)
    flushed = await flush_thread(
        home.THREADS, home.cells, home.jobs, caller, body.session_id, body.user_id, body.timeout
    )
    if not flushed.done:
        response.status_code = 202
    return answers.FlushAnswer(
        session_id=body.session_id,
        status="done" if flushed.done else "failed" if flushed.error else "pending",
        memcells=[
            answers.MemcellAnswer.of(cell, message_ids, flushed.strategies.get(cell.memcell_id, ()))
            for cell, message_ids in flushed.memcells
        ],
        buffered=flushed.buffered,
        error=flushed.error,
    )


@router.post("/reprocess", status_code=202, responses=documented(404, 409))
async def reprocess(
    home: Home, caller: Calling, body: ReprocessBody, request: Request
) -> answers.ReprocessAnswer:
    """Make the memories of memcells again, with the model and prompts that are in force now."""
    note(request, user=body.user_id, thread=body.thread_id)
    return answers.ReprocessAnswer.of(await home.reprocessor.reprocess(caller, **dict(body)))


@router.get("/notes", responses=documented(404))
async def list_notes(home: Home, caller: Calling, user_id: UserQuery = None) -> schemas.NotesAnswer:
    """A user's notes, by their names."""
    found = await home.user_notes.list_notes(caller, user_id)
    return schemas.NotesAnswer(notes=[schemas.NoteAnswer.of(each) for each in found])


@router.post(
    "/notes", status_code=201, responses={**documented(404, 409, 429), 200: {"model": schemas.NoteTextAnswer}}
)
async def import_note(
    home: Home, caller: Calling, body: schemas.NoteBody, request: Request, response: Response
) -> schemas.NoteTextAnswer:
    """Put a note into the vault (201). 200: it was there, or was replaced."""
    note(request, user=body.user_id)
    home.search.indexer.refuse_notes(notes_owner(caller, body.user_id))
    found, is_new = await home.user_notes.import_note(
        caller, body.user_id, body.name, body.text, replace=body.replace
    )
    home.search.indexer.note_came(found.note.owner, found.text)
    if not is_new:
        response.status_code = 200
    return schemas.NoteTextAnswer.told(found)


@router.get("/notes/{name}", responses=documented(404))
async def get_note(
    home: Home, caller: Calling, name: PathId, user_id: UserQuery = None
) -> schemas.NoteTextAnswer:
    """One note with its text; a slash in its name comes as `%2F`."""
    return schemas.NoteTextAnswer.told(await home.user_notes.get_note(caller, user_id, name))


@router.delete("/notes/{name}", responses=documented(404))
async def delete_note(
    home: Home, caller: Calling, name: PathId, user_id: UserQuery = None
) -> schemas.ForgottenNoteAnswer:
    """Forget a note: its file, what the index holds of it, and the prompts that quoted it."""
    await forget_note(home.user_notes, home.forgetting, caller, user_id, name)
    return schemas.ForgottenNoteAnswer(name=name)


_AS_NATIVE = {"view": ("GET", ""), "delete": ("DELETE", "/note")}
"""The native route of notes that does the same as a command; the others write."""


@router.post("/tool", responses=documented(404, 429))
async def use_memory_tool(
    home: Home, caller: Calling, body: schemas.MemoryToolBody, request: Request
) -> schemas.MemoryToolAnswer:
    """One of the six commands of Anthropic's memory tool, on a user's notes."""
    user_id = caller.acting_for(body.user_id) or DEFAULT_USER
    method, path = _AS_NATIVE.get(body.command, ("POST", ""))
    act_as(request.scope, user_id, method, f"/api/v1/memory/notes{path}")
    note(request, user=user_id)
    owner = notes_owner(caller, user_id)
    if method == "POST":
        home.search.indexer.refuse_notes(owner)
    try:
        content = await _used(home.memory_tool, caller, user_id, body)
    except (NotFound, AlreadyExists, InvalidInput) as error:
        return schemas.MemoryToolAnswer(content=error.message, is_error=True)
    if body.command == "create":
        home.search.indexer.note_came(owner, body.file_text)
    return schemas.MemoryToolAnswer(content=content, is_error=False)


async def _used(tool: MemoryTool, caller: Caller, user_id: str, body: schemas.MemoryToolBody) -> str:
    match body.command:
        case "view":
            return await tool.view(caller, user_id, body.path, body.view_range)
        case "create":
            return await tool.create(caller, user_id, body.path, body.file_text)
        case "str_replace":
            return await tool.str_replace(caller, user_id, body.path, body.old_str, body.new_str)
        case "insert":
            return await tool.insert(caller, user_id, body.path, body.insert_line, body.insert_text)
        case "delete":
            return await tool.delete(caller, user_id, body.path)
        case "rename":
            return await tool.rename(caller, user_id, body.old_path, body.new_path)


imports_router = APIRouter(prefix="/api/v1", tags=["memory"])
_FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}  # fmt: skip


@imports_router.post(
    "/imports", response_class=StreamingResponse, responses={**documented(), **LINES}, openapi_extra=_FILE
)
async def import_file(
    home: Home,
    caller: Calling,
    request: Request,
    user_id: UserQuery = None,
    name: Annotated[Title, Query(description="The file's name.")] = "",
    dry_run: Annotated[bool, Query(description="Only say what would be imported.")] = False,
) -> StreamingResponse:
    """Import a file: conversations, notes or entities. Lines of JSON: progress, at last the report or an error."""
    note(request, user=user_id)
    # It has no name: whatever becomes of the process, nothing of it is left in the home.
    file: IO[bytes] = await asyncio.to_thread(tempfile.TemporaryFile, dir=home.settings.home)
    try:
        async for piece in request.stream():
            if piece:
                await asyncio.to_thread(file.write, piece)
        source = await asyncio.to_thread(Source.opened, file, name or "the file")
    except BaseException:
        file.close()
        raise

    async def work(progress: Progress) -> dict[str, Any]:
        with file:
            report = await home.importer.run(caller, user_id, source, progress, dry_run=dry_run)
        return report.as_json()

    return StreamingResponse(lines(work), media_type="application/x-ndjson")
