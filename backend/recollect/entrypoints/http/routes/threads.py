"""Threads, their turns and their images."""

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from recollect.domain.images import media_type
from recollect.domain.markdown.transcript import markdown_of
from recollect.domain.model import Append, Thread, ThreadCursor, Turn
from recollect.entrypoints.http import answers
from recollect.entrypoints.http.deps import Calling, Home, OpenedId, PathId, UserQuery, WhichMemories, note
from recollect.entrypoints.http.direct_route import BodyRoute
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.requests import Id, PageMark, ThreadBody, ThreadChanges, Title, TurnBody
from recollect.errors import InvalidInput
from recollect.service import threads
from recollect.service.forget import forget
from recollect.service.threads import TurnPage
from recollect.service.vault.images import add_turn_with_images

router = APIRouter(prefix="/api/v1/threads", tags=["threads"], route_class=BodyRoute)
PAGE = 100
MOST = 2**62
"""More than any thread has, and little enough for the journal to count with."""
_IMAGE_HEADERS = {
    # A picture and nothing else: what is no picture at all is not guessed at, and nothing in it runs.
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    # What is forgotten is not kept by a browser either.
    "Cache-Control": "no-store",
}
_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The conversation.",
        "content": {
            "text/markdown": {"schema": {"type": "string"}},
            "application/json": {"schema": {"type": "object"}},
        },
    }
}
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The image.",
        "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post("", status_code=201, responses=documented(404, 409))
async def create_thread(
    home: Home, caller: Calling, body: ThreadBody, request: Request
) -> answers.ThreadAnswer:
    """Open a thread for a user."""
    thread = await threads.create_thread(home.THREADS, home.clock, caller, body.new_thread(), home.people)
    note(request, thread=thread.thread_id, user=thread.user_id)
    return answers.ThreadAnswer.of(thread)


@router.get("", responses=documented(404, 409), response_model_exclude_unset=True)
async def list_threads(
    home: Home,
    caller: Calling,
    user_id: UserQuery = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    after: Annotated[PageMark | None, Query(description="`next` of the page before.")] = None,
    order: Annotated[
        Literal["created", "recent"],
        Query(description="The oldest first; or pinned ones, then the last used first."),
    ] = "created",
    title: Annotated[
        Title | None, Query(description="With `order=recent`: only those whose title holds this.")
    ] = None,
    archived: Annotated[
        bool | None, Query(description="With `order=recent`: only those that are archived, or are not.")
    ] = None,
    one_shot: Annotated[
        bool | None, Query(description="Only single calls that named no thread, or only the others.")
    ] = None,
) -> answers.ThreadsAnswer:
    """A user's threads."""
    if order == "recent":
        found = await threads.recent_threads(
            home.THREADS, caller, user_id, title or None, limit + 1, after, archived, one_shot
        )
    elif title is not None or archived is not None:
        field = "title" if title is not None else "archived"
        raise InvalidInput(f"{field}: goes with order=recent alone", field=field)
    else:
        found = await threads.list_threads(home.THREADS, caller, user_id, limit + 1, after, one_shot)

    def mark(last: Thread) -> str:
        return ThreadCursor.of(last).as_text() if order == "recent" else threads.page_mark(last)

    page = [answers.ThreadAnswer.of(thread) for thread in found[:limit]]
    return answers.ThreadsAnswer(threads=page, **answers.next_page(found, limit, mark))


@router.get("/{thread_id}", responses=documented(404, 409))
async def get_thread(
    home: Home, caller: Calling, thread_id: PathId, user_id: UserQuery = None
) -> answers.OneThreadAnswer:
    """A thread, and what of it waits to be remembered."""
    thread = await threads.owned_thread(home.THREADS, caller, thread_id, user_id)
    answer = answers.OneThreadAnswer.of(thread)
    waiting = await home.THREADS.waiting(thread.thread_id, space=thread.space, user_id=thread.user_id)
    if waiting is not None:
        answer.waiting = answers.WaitingAnswer.of(waiting)
    return answer


@router.get("/{thread_id}/export", response_class=Response, responses={**documented(404, 409), **_EXPORT})
async def export_thread(
    home: Home,
    caller: Calling,
    thread_id: PathId,
    user_id: UserQuery = None,
    format: Annotated[Literal["markdown", "json"], Query(description="How it is written.")] = "markdown",  # noqa: A002
) -> Response:
    """A thread with all of its turns, as a file to keep."""
    thread = await threads.owned_thread(home.THREADS, caller, thread_id, user_id)
    turns = await home.THREADS.get_history(thread.ref)
    return await asyncio.to_thread(_exported, thread, turns, format)


def _exported(thread: Thread, turns: list[Turn], form: str) -> Response:
    whole = answers.ThreadAnswer.of(thread).model_dump()
    whole["turns"] = [answers.TurnAnswer.of(turn).model_dump() for turn in turns]
    if form == "json":
        text, media_type = json.dumps(whole, ensure_ascii=False, indent=2) + "\n", "application/json"
    else:
        text, media_type = markdown_of(whole), "text/markdown; charset=utf-8"
    return Response(text, headers={"Content-Disposition": "attachment"}, media_type=media_type)


@router.patch("/{thread_id}", responses=documented(404, 409))
async def update_thread(
    home: Home, caller: Calling, thread_id: PathId, body: ThreadChanges, request: Request
) -> answers.ThreadAnswer:
    """Change title, tags, preset, backend, the pin or whether it is archived; what is not named stays."""
    note(request, user=body.user_id)
    changed = await threads.update_thread(
        home.THREADS, caller, thread_id, body.user_id, body.changes(), home.people
    )
    return answers.ThreadAnswer.of(changed)


@router.delete("/{thread_id}", responses=documented(404, 409))
async def delete_thread(
    home: Home,
    caller: Calling,
    thread_id: PathId,
    user_id: UserQuery = None,
    memories: WhichMemories = "all",
) -> answers.ForgetAnswer:
    """Forget a thread and all of its turns. A text-free tombstone of each message stays."""
    count = await forget.delete_thread(home.THREADS, caller, thread_id, user_id, memories)
    return answers.ForgetAnswer(thread_id=thread_id, forgotten=count)


@router.get(
    "/{thread_id}/turns",
    response_model=answers.TurnsAnswer,
    responses=documented(404, 409),
    response_model_exclude_unset=True,
)
async def get_turns(
    home: Home,
    caller: Calling,
    thread_id: PathId,
    user_id: UserQuery = None,
    max_turns: Annotated[
        int | None, Query(ge=0, description="At most so many; unset: a page of 100, with `next`.")
    ] = None,
    before: Annotated[Id | None, Query(description="Only turns before this one.")] = None,
    after: Annotated[Id | None, Query(description="The turns right after this one instead.")] = None,
    around: Annotated[
        Id | None, Query(description="The turns around this one instead, half of them before it.")
    ] = None,
    receipts: Annotated[
        bool, Query(description="With what was sent for each answer, and what came of it.")
    ] = False,
) -> answers.TurnsAnswer | Response:
    """The newest turns, or those before, after or around one; oldest first."""
    if sum(place is not None for place in (before, after, around)) > 1:
        raise InvalidInput("before, after, around: only one of them can be given", field="around")
    thread = (await threads.owned_thread(home.THREADS, caller, thread_id, user_id)).ref
    most = PAGE if max_turns is None else min(max_turns, MOST)
    extra: dict[str, Any] = {}
    if (near := around or after) is not None:
        page = await threads.turns_near(home.THREADS, thread, near, most, "around" if around else "after")
        found, extra = page.turns, _marks(page)
    elif max_turns is not None:
        found = await home.THREADS.get_history(thread, most, before=before)
    else:
        found = await home.THREADS.get_history(thread, PAGE + 1, before=before)
        found, extra = found[-PAGE:], {"next": found[-PAGE].turn_id} if len(found) > PAGE else {}
    if receipts:
        extra["receipts"] = await home.chats.receipts(thread, found)
    return await asyncio.to_thread(_rendered, found, extra)


def _marks(page: TurnPage) -> dict[str, Any]:
    """Where to go on from a page, on the sides where there is more."""
    if not page.turns:
        return {}
    older = {"next": page.turns[0].turn_id} if page.older else {}
    newer = {"newer": page.turns[-1].turn_id} if page.newer else {}
    return older | newer


def _rendered(turns: list[Turn], extra: dict[str, Any]) -> Response:
    """There may be very many: made into JSON off the event loop."""
    answer = answers.TurnsAnswer(turns=[answers.TurnAnswer.of(turn) for turn in turns], **extra)
    return Response(answer.model_dump_json(exclude_unset=True), media_type="application/json")


@router.get("/{thread_id}/turns/{turn_id}", responses=documented(404, 409))
async def get_turn(
    home: Home, caller: Calling, thread_id: PathId, turn_id: PathId, user_id: UserQuery = None
) -> answers.TurnAnswer:
    return answers.TurnAnswer.of(await threads.get_turn(home.THREADS, caller, thread_id, user_id, turn_id))


@router.post(
    "/{thread_id}/turns",
    status_code=201,
    responses={**documented(404, 409, 429), 200: {"model": answers.TurnAnswer}},
)
async def add_turn(
    home: Home, caller: Calling, thread_id: OpenedId, body: TurnBody, request: Request, response: Response
) -> answers.TurnAnswer:
    """Append one turn, without a model. 200 instead of 201: that `message_id` was there already."""
    append = Append(caller.space, thread_id, (), caller.acting_for(body.user_id))
    await home.ingest.admit(append)
    stored, new = await add_turn_with_images(
        home.THREADS, home.images, caller, thread_id, body.user_id, body.new_turn(home.clock())
    )
    note(request, user=body.user_id, turn=stored.turn_id)
    home.metrics.observe_messages(["accepted" if new else "duplicate"])
    if not new:
        response.status_code = 200
    return answers.TurnAnswer.of(stored)


@router.get(
    "/{thread_id}/images/{name}", response_class=Response, responses={**documented(404, 409), **_PICTURE}
)
async def get_image(
    home: Home, caller: Calling, thread_id: PathId, name: PathId, user_id: UserQuery = None
) -> Response:
    """An image of a thread's owner: `name` is what stands after `vault:images/` in a part."""
    content = await home.images.shown(home.THREADS, caller, thread_id, user_id, name)
    return Response(content, headers=_IMAGE_HEADERS, media_type=media_type(name))
