"""Importing what was said and written elsewhere: a file is sent, and how far its import is comes back line by line."""

import asyncio
import tempfile
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from recollect.entrypoints.http.deps import Calling, Home, UserQuery, note
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.requests import Title
from recollect.entrypoints.http.routes.operations import LINES, lines
from recollect.service.coordination import Progress
from recollect.service.imports.source import Source

router = APIRouter(prefix="/api/v1", tags=["memory"])
_FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}  # fmt: skip


@router.post(
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
