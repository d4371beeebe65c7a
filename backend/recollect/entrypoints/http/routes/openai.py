"""OpenAI's protocol: any of its clients gets memory by changing its base URL."""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field, field_validator

from recollect.app import App
from recollect.domain.access import Caller
from recollect.domain.llm import Delta
from recollect.domain.model import DEFAULT_USER, JsonObject
from recollect.domain.recall.hits import tokens
from recollect.domain.recall.rows import Vectors
from recollect.entrypoints.http import errors, sse
from recollect.entrypoints.http import openai_schemas as schemas
from recollect.entrypoints.http.deps import Calling, Home, PathId, id_in_header, note
from recollect.entrypoints.http.direct_route import direct
from recollect.entrypoints.http.requests import MAX_ID, MAX_TEXT, Id, Text
from recollect.entrypoints.http.sse import WhileConnected
from recollect.errors import InvalidInput, RecollectError
from recollect.infra.off_loop import off_loop
from recollect.service.chat.stream import LiveTurn
from recollect.service.models.choice import chosen_model, offered_model, offered_models
from recollect.service.recall.embedding import embedded_texts

router = APIRouter(prefix=errors.ROOT, tags=["openai"])
MAX_HEADER = 5000
MAX_KEY = 200
MOST_TEXTS = 2048
_Text = Annotated[Text, Field(min_length=1, max_length=MAX_TEXT)]
TASK_HEADER = "X-OpenWebUI-Task"
"""What Open WebUI asks by itself; empty for a person's message. One that does not know `{{TASK}}` sends that."""
_rendered = errors.for_either_door(errors.render_known)


class EmbeddingsBody(schemas.Lenient):
    model: Id | None = Field(None, description="Any name: there is one embedder, and the answer names it.")
    input: _Text | list[_Text] = Field(description="A text, or up to 2,048 of them.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: schemas.Count | None = Field(None, description="Only the embedder's own number.")
    user: Annotated[Text, Field(max_length=MAX_ID)] | None = None
    user_id: Id | None = None

    @field_validator("input", mode="before")
    @classmethod
    def _are_texts(cls, given: Any) -> Any:
        first = given[0] if isinstance(given, list) and given else None
        if isinstance(first, int | list):
            raise ValueError("tokens are of OpenAI's own tokenizers: send the text")
        if isinstance(given, list) and not 1 <= len(given) <= MOST_TEXTS:
            raise ValueError(f"must hold 1 to {MOST_TEXTS} texts")
        return given

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class EmbeddingsAnswer(BaseModel):
    object: str
    data: list[dict[str, Any]]
    model: str
    usage: dict[str, int] = Field(description="About how many tokens there were.")


def headers(
    x_recollect_thread: Annotated[
        str | None, Header(max_length=MAX_HEADER, description="The thread, percent-encoded.")
    ] = None,
    x_recollect_user: Annotated[
        str | None, Header(max_length=MAX_HEADER, description="Whose, percent-encoded.")
    ] = None,
    x_recollect_memory: Annotated[
        str | None, Header(max_length=100, description="`off`: no memory for this call.")
    ] = None,
    idempotency_key: Annotated[
        str | None, Header(max_length=MAX_KEY, description="Sent again, it joins the turn there is.")
    ] = None,
) -> None:
    """What `asking_of` reads, for the description alone."""


def streamed(description: str) -> dict[int | str, dict[str, Any]]:
    """Of an answer that may be a stream, for the description."""
    return {200: {"content": {sse.MEDIA_TYPE: {}}, "description": description}}


async def asking_of(
    home: App,
    caller: Caller,
    request: Request,
    model: str | None,
    users: Sequence[str | None],
    *thread_headers: str,
) -> schemas.Asking:
    """`users`: those that the body names, in order of precedence."""
    user_id = caller.acting_for(*users) or DEFAULT_USER
    note(request, user=user_id)
    headers = request.headers
    memory = (headers.get("X-Recollect-Memory") or "on").lower()
    if memory not in ("on", "off"):
        raise InvalidInput("X-Recollect-Memory: must be on or off", field="X-Recollect-Memory")
    key = headers.get("Idempotency-Key")
    if key is not None and len(key) > MAX_KEY:
        raise InvalidInput(
            f"Idempotency-Key: must have at most {MAX_KEY} characters", field="Idempotency-Key"
        )
    thread_id = id_in_header(schemas.THREAD_HEADER, request)
    named_by = (*home.settings.thread_headers, *thread_headers)
    chat_id = id_in_header(named_by, request) if thread_id is None else None
    if (thread_id or chat_id) in {".", ".."}:
        raise InvalidInput("X-Recollect-Thread: must not be . or ..", field="X-Recollect-Thread")
    task = headers.get(TASK_HEADER, "").strip()
    backend, model = await chosen_model(home.talking.backends, model)
    return schemas.Asking(
        user_id=user_id,
        backend=backend,
        model=model,
        thread_id=thread_id,
        chat_id=chat_id,
        is_task=bool(task) and not task.startswith("{{"),
        memory=memory == "on",
        key=key,
    )


@direct(
    router,
    "/chat/completions",
    response_model=schemas.Completion,
    responses={**errors.documented_for_openai(429, 502, 504), **streamed("The answer, or its chunks.")},
    dependencies=[Depends(headers)],
)
async def complete_chat(
    home: Home, caller: Calling, body: schemas.CompletionBody, request: Request
) -> Response:
    """One chat turn of a client that keeps its history itself."""
    asking = await asking_of(home, caller, request, body.model, body.named_users())
    now = home.clock()
    content, count = await request.body(), len(body.messages)
    resent = await off_loop(content, lambda: body.resent(asking, now), count=count)
    if asking.is_task or resent.is_housekeeping():
        live = home.chat.housekeeping.handle(caller, body.request(asking), body.as_sent())
    else:
        live = await home.history_matching.handle(caller, resent)
        note(request, thread=live.accepted.thread.thread_id, turn=live.turn.turn_id)
    events = partial(schemas.chunks, live, body) if body.stream else None
    return answer_of(live, request, partial(schemas.completion, live, body), events)


@direct(router, "/embeddings", response_model=EmbeddingsAnswer, responses=errors.documented_for_openai())
async def create_embeddings(home: Home, caller: Calling, body: EmbeddingsBody, request: Request) -> Response:
    """Vectors of texts, by the embedder that search uses. Nothing is stored."""
    note(request, user=caller.acting_for(body.user_id, body.user) or DEFAULT_USER)
    return WhileConnected(partial(_embedded, home, body, request))


@router.post("/completions", responses=errors.documented_for_openai())
async def complete_text(caller: Calling) -> schemas.Completion:
    """Refused: a bare prompt has no conversation that could be remembered."""
    raise InvalidInput(
        "/v1/completions is not served: use /v1/chat/completions or /v1/responses", field="prompt"
    )


@router.get("/models", responses=errors.documented_for_openai())
async def list_models(
    home: Home,
    caller: Calling,
    limit: Annotated[int | None, Query(description="Ignored, as the others: all are listed.")] = None,
    after_id: Annotated[str | None, Query(max_length=MAX_ID)] = None,
    before_id: Annotated[str | None, Query(max_length=MAX_ID)] = None,
    beta: Annotated[str | None, Query(max_length=100)] = None,
) -> schemas.ModelsAnswer:
    """The models of every backend that answers, and `recollect`: the default's own choice."""
    return schemas.ModelsAnswer.of(await offered_models(home.talking.backends))


@router.get("/models/{model_id:path}", include_in_schema=False)
@router.get("/models/{model_id}", responses=errors.documented_for_openai())
async def get_model(home: Home, caller: Calling, model_id: PathId) -> schemas.ModelAnswer:
    """One of them, by the name under which it is listed."""
    return schemas.ModelAnswer.of(await offered_model(home.talking.backends, model_id))


Whole = Callable[[], JsonObject]
"""An answer that has ended."""
Events = Callable[[list[Delta] | None, AsyncGenerator[list[Delta]]], AsyncIterator[bytes]]
"""An answer as it comes, of its first piece and the others."""


def answer_of(live: LiveTurn, request: Request, whole: Whole, events: Events | None) -> Response:
    """The answer in a protocol's own form: as a stream where `events` are given."""
    make = (
        partial(_whole, live, request, whole) if events is None else partial(_stream, live, request, events)
    )
    return WhileConnected(make)


async def _whole(live: LiveTurn, request: Request, whole: Whole) -> Response:
    with live.heard():
        await live.wait()
        if (error := schemas.what_went_wrong(live)) is not None:
            return await _told_error(request, live, error)
        return JSONResponse(whole(), headers=schemas.headers_of(live))


async def _stream(live: LiveTurn, request: Request, events: Events) -> Response:
    """Begins with the first piece, or when the answer has kept the client waiting: until then an error has a status."""
    pieces = live.follow()
    first = await anext(pieces, None)
    if first is None and (error := schemas.what_went_wrong(live)) is not None:
        return await _told_error(request, live, error)
    headers = {**sse.HEADERS, **schemas.headers_of(live)}
    return StreamingResponse(events(first, pieces), media_type=sse.MEDIA_TYPE, headers=headers)


async def _told_error(request: Request, live: LiveTurn, error: RecollectError) -> Response:
    answer = await _rendered(request, error)
    answer.headers.update(schemas.headers_of(live))
    if live.stop_reason is not None:
        answer.headers.update(errors.DO_NOT_RETRY)  # Somebody stopped it: it is not wanted again.
    return answer


async def _embedded(home: Home, body: EmbeddingsBody, request: Request) -> Response:
    try:
        model, vectors = await embedded_texts(home.search.embedder, body.texts)
        if body.dimensions not in (None, vectors.shape[1]):
            raise InvalidInput(
                f"dimensions: {model} gives {vectors.shape[1]}, and no other number", field="dimensions"
            )
    except RecollectError as error:
        return await _rendered(request, error)
    return await asyncio.to_thread(_embeddings, model, vectors, body)


def _embeddings(model: str, vectors: Vectors, body: EmbeddingsBody) -> Response:
    """Base64 holds little-endian 32-bit floats."""
    if body.encoding_format == "base64":
        found: list[Any] = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
    else:
        found = vectors.tolist()
    count = sum(map(tokens, body.texts))
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(found)]
    usage = {"prompt_tokens": count, "total_tokens": count}
    return JSONResponse({"object": "list", "data": data, "model": model, "usage": usage})
