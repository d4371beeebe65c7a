"""OpenAI's Responses: a response is one chat turn of a thread."""

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from recollect.domain.chat import ChatRequest
from recollect.domain.model import DEFAULT_USER, JsonObject, NewTurn, Thread, ThreadRef
from recollect.entrypoints.http import errors
from recollect.entrypoints.http.deps import Calling, Home, note
from recollect.entrypoints.http.direct_route import direct
from recollect.entrypoints.http.doors.openai_items import (
    InputItem,
    items_of,
    no_item,
    no_response,
    read_item_id,
    read_response_id,
)
from recollect.entrypoints.http.doors.response_body import ResponseBody
from recollect.entrypoints.http.doors.response_events import KEPT, ResponseEvents, response_of
from recollect.entrypoints.http.requests import MAX_ID
from recollect.entrypoints.http.routes.chat import STOP_SECONDS
from recollect.entrypoints.http.routes.openai import answer_of, asking_of, headers, streamed
from recollect.errors import InvalidInput, NotFound
from recollect.service.chat.context_builder import prompt_tokens
from recollect.service.chat.history_matching import ResentHistory
from recollect.service.chat.stream import LiveTurn
from recollect.service.forget import forget

router = APIRouter(prefix=errors.ROOT, tags=["openai"])
ResponseId = Annotated[str, Path(min_length=1, max_length=6 * MAX_ID)]
"""Of a response or an item: holds the id of a thread, encoded."""
After = Annotated[str | None, Query(max_length=6 * MAX_ID, description="The last item of the page before.")]
Included = Annotated[list[str] | None, Query(alias="include[]", description="Ignored.")]


class ResponseAnswer(BaseModel):
    """A response, in OpenAI's shape."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: str
    status: str
    output: list[dict[str, Any]]


class InputTokensAnswer(BaseModel):
    object: str = "response.input_tokens"
    input_tokens: int


class ItemsAnswer(BaseModel):
    object: str = "list"
    data: list[dict[str, Any]]
    first_id: str = ""
    last_id: str = ""
    has_more: bool = False


class DeletedAnswer(BaseModel):
    id: str
    object: str
    deleted: bool = True


@direct(
    router,
    "/responses",
    response_model=ResponseAnswer,
    responses={**errors.documented_for_openai(429, 502, 504), **streamed("The response, or its events.")},
    dependencies=[Depends(headers)],
)
async def create_response(home: Home, caller: Calling, body: ResponseBody, request: Request) -> Response:
    """One chat turn: of the conversation or after the response that is named, else recognised by its history."""
    asking = await asking_of(home, caller, request, body.model, body.named_users())
    owner = ThreadRef(caller.space, asking.user_id, "")
    body = await _with_items(home, owner, body)
    resent = await asyncio.to_thread(body.resent, asking, home.clock())
    if asking.is_task or resent.is_housekeeping():
        messages = [*_instructing(resent.request), *_in_words(resent.messages)]
        live = home.chat.housekeeping.handle(caller, resent.request, messages)
    else:
        live = await home.history_matching.handle(caller, await _placed(home, owner, body, resent))
        note(request, thread=live.accepted.thread.thread_id, turn=live.turn.turn_id)
    told = body.repeated()
    events = ResponseEvents(live, told).stream if body.stream else None
    return answer_of(live, request, partial(response_of, live, told), events)


@direct(
    router,
    "/responses/input_tokens",
    response_model=InputTokensAnswer,
    responses=errors.documented_for_openai(),
)
async def count_input_tokens(
    home: Home, caller: Calling, body: ResponseBody, request: Request
) -> InputTokensAnswer:
    """About how many tokens the input, the instructions and the tools have. Nothing is stored."""
    asking = await asking_of(home, caller, request, body.model, body.named_users())
    body = await _with_items(home, ThreadRef(caller.space, asking.user_id, ""), body)
    resent = await asyncio.to_thread(body.resent, asking, home.clock())
    tools = [{"role": "system", "content": json.dumps(tool)} for tool in body.tools or ()]
    messages = [*tools, *_instructing(resent.request), *_in_words(resent.messages)]
    count = await prompt_tokens(home.talking.backends.get(asking.backend), messages)
    return InputTokensAnswer(input_tokens=count)


@router.post("/responses/compact", responses=errors.documented_for_openai())
async def compact(caller: Calling) -> ResponseAnswer:
    """Refused: a thread is cut to the model's window by itself."""
    raise NotFound("/v1/responses/compact is not served: a thread is cut to the model's window by itself")


async def _with_items(home: Home, owner: ThreadRef, body: ResponseBody) -> ResponseBody:
    """With the items in place of references to them."""
    given = list(body.input)
    for place, item in enumerate(given):
        if (wanted := item.refers_to) is not None:
            thread_id, turn_id = read_item_id(wanted, f"input[{place}].id")
            ref = owner._replace(thread_id=thread_id)
            turn = await home.THREADS.turn(ref, turn_id)
            shown = [] if turn is None else [each for each in items_of(ref, turn) if each["id"] == wanted]
            if not shown:
                raise no_item(wanted, f"input[{place}].id")
            given[place] = InputItem.model_validate(shown[0])
    return body.model_copy(update={"input": given})


async def _placed(home: Home, owner: ThreadRef, body: ResponseBody, resent: ResentHistory) -> ResentHistory:
    """With the thread that is named, and with the instructions that hold in it.

    A conversation keeps system messages as its own; elsewhere they hold for the responses that follow from this one.
    """
    request = resent.request
    kept: JsonObject = {}
    if (conversation := body.conversation_id) is not None:
        if await home.THREADS.find(owner._replace(thread_id=conversation)) is None:
            raise NotFound(f"there is no conversation {conversation!r}", field="conversation")
        kept["conversation"] = {"id": conversation}
        resent = replace(resent, thread_id=conversation)
    else:
        instructing = [turn.content for turn in resent.messages if turn.role == "system"]
        if body.previous_response_id is not None:
            thread_id, turn_id = read_response_id(body.previous_response_id, "previous_response_id")
            ref = owner._replace(thread_id=thread_id)
            answer = await home.THREADS.turn(ref, turn_id)
            if answer is None or answer.role != "assistant":
                raise no_response(body.previous_response_id, "previous_response_id")
            receipt = (await home.chats.receipts(ref, [answer])).get(turn_id, {})
            before = receipt.get(KEPT, {}).get("instructing", [])
            instructing = [*before, *instructing]
            resent = replace(resent, thread_id=thread_id, parent_id=turn_id)
            kept["previous_response_id"] = body.previous_response_id
        if instructing:
            texts = (*(request.system_texts or ()), *instructing)
            request = replace(request, system_texts=texts)
            kept["instructing"] = instructing
        placed = [
            (n, turn) for n, turn in zip(resent.places, resent.messages, strict=True) if turn.role != "system"
        ]
        resent = replace(resent, messages=tuple(t for _, t in placed), places=tuple(n for n, _ in placed))
    if body.metadata:
        kept["metadata"] = body.metadata
    return replace(resent, request=replace(request, kept={KEPT: kept} if kept else {}))


def _instructing(request: ChatRequest) -> list[JsonObject]:
    return [{"role": "system", "content": text} for text in request.system_texts or ()]


def _in_words(turns: tuple[NewTurn, ...]) -> list[JsonObject]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]


async def _found(home: Home, caller: Calling, response_id: str, request: Request) -> tuple[Thread, LiveTurn]:
    """The response, if it is the caller's; another's is as absent as one that never was."""
    user_id = caller.acting_for(None) or DEFAULT_USER
    thread_id, turn_id = read_response_id(response_id)
    note(request, user=user_id, thread=thread_id, turn=turn_id)
    thread = await home.THREADS.find(ThreadRef(caller.space, user_id, thread_id))
    if thread is None:
        raise no_response(response_id)
    try:
        return thread, await home.chat.join(thread, turn_id)
    except NotFound:
        raise no_response(response_id) from None


def _shown(live: LiveTurn) -> JsonObject:
    kept = live.receipt.get(KEPT)
    return response_of(live, kept if isinstance(kept, dict) else {})


@router.get("/responses/{response_id}", responses=errors.documented_for_openai())
async def get_response(
    home: Home,
    caller: Calling,
    response_id: ResponseId,
    request: Request,
    stream: Annotated[bool, Query(description="Only false.")] = False,
    include: Included = None,
    starting_after: Annotated[int | None, Query(description="Ignored.")] = None,
    include_obfuscation: Annotated[bool | None, Query(description="Ignored.")] = None,
) -> ResponseAnswer:
    """A response, as far as it got. Instructions, tools and options are in its prompt, not here."""
    if stream:
        raise InvalidInput("stream: a response can't be streamed again; ask without it", field="stream")
    _, live = await _found(home, caller, response_id, request)
    return ResponseAnswer.model_validate(_shown(live))


@router.get("/responses/{response_id}/input_items", responses=errors.documented_for_openai())
async def list_input_items(
    home: Home,
    caller: Calling,
    response_id: ResponseId,
    request: Request,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "desc",
    include: Included = None,
) -> ItemsAnswer:
    """What the response answers: the items after the answer before it."""
    thread, live = await _found(home, caller, response_id, request)
    found = [item for turn in live.accepted.turns for item in items_of(thread.ref, turn)]
    found = found[::-1] if order == "desc" else found
    if after is not None:
        found = found[1 + next((n for n, item in enumerate(found) if item["id"] == after), len(found)) :]
    return page_of(found, limit)


def page_of(found: list[JsonObject], limit: int) -> ItemsAnswer:
    page = found[:limit]
    first, last = (page[0]["id"], page[-1]["id"]) if page else ("", "")
    return ItemsAnswer(data=page, first_id=first, last_id=last, has_more=len(found) > limit)


@router.post("/responses/{response_id}/cancel", responses=errors.documented_for_openai())
async def cancel_response(
    home: Home, caller: Calling, response_id: ResponseId, request: Request
) -> ResponseAnswer:
    """Stop a response that is being written; what has come is kept. One that has ended stays as it is."""
    thread, live = await _found(home, caller, response_id, request)
    if stopped := home.chat.cancel(thread, turn_id=live.accepted.answer.turn_id):
        await asyncio.wait([asyncio.ensure_future(each.wait()) for each in stopped], timeout=STOP_SECONDS)
    return ResponseAnswer.model_validate(_shown(live))


@router.delete("/responses/{response_id}", responses=errors.documented_for_openai(409))
async def delete_response(
    home: Home, caller: Calling, response_id: ResponseId, request: Request
) -> DeletedAnswer:
    """Forget a response, what it answers, and what was made of both. 409: it is still being written."""
    thread, live = await _found(home, caller, response_id, request)
    for turn in (live.turn, *live.accepted.turns):
        await forget.forget_turn(
            home.THREADS, home.forgetting, caller, thread.thread_id, turn.turn_id, thread.user_id
        )
    return DeletedAnswer(id=response_id, object="response")
