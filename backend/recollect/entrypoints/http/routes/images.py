"""Images of messages, as they are in the vault."""

from typing import Any

from fastapi import APIRouter, Request, Response

from recollect.entrypoints.http.dependencies import Calling, Home, PathId, UserQuery, note
from recollect.entrypoints.http.errors import documented
from recollect.memory.images import media_type

router = APIRouter(prefix="/api/v1/threads", tags=["threads"])
_HEADERS = {
    # A picture and nothing else: what is no picture at all is not guessed at, and nothing in it runs.
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    # What is forgotten is not kept by a browser either.
    "Cache-Control": "no-store",
}
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The image.",
        "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get(
    "/{thread_id}/images/{name}",
    response_class=Response,
    responses={**documented(404), **_PICTURE},
)
async def get_image(
    home: Home,
    caller: Calling,
    thread_id: PathId,
    name: PathId,
    request: Request,
    user_id: UserQuery = None,
) -> Response:
    """An image of a thread's owner: `name` is what stands after `vault:images/` in a part."""
    note(request, thread=thread_id, user=user_id)
    content = await home.images.shown(home.THREADS, caller, thread_id, user_id, name)
    return Response(content, headers=_HEADERS, media_type=media_type(name))
