"""Figures that people look at: the backends, how much their caches held, and the index."""

from typing import Annotated

from fastapi import APIRouter, Query

from recollect.entrypoints.http.dependencies import Calling, Home, UserQuery
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.operation_answers import (
    BackendAnswer,
    BackendsAnswer,
    CacheAnswer,
    CachedPrompt,
    IndexAnswer,
)
from recollect.errors import Refused
from recollect.service.backend_view import look_at_backends

router = APIRouter(prefix="/api/v1", tags=["operations"])


@router.get("/backends", responses=documented())
async def get_backends(home: Home, caller: Calling) -> BackendsAnswer:
    """The models' servers: what each is, what it offers, and what is wrong with it."""
    talking = home.talking
    found = await look_at_backends(talking.backends.all(), talking.slots)
    return BackendsAnswer(backends=[BackendAnswer.of(view) for view in found])


@router.get("/cache", responses=documented(404))
async def get_cache(
    home: Home,
    caller: Calling,
    user_id: UserQuery = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> CacheAnswer:
    """How much of their prompts the backends' caches held, answer by answer."""
    found = await home.chats.prompt_costs(caller.space, caller.acting_for(user_id), limit)
    return CacheAnswer(answers=[CachedPrompt.of(cost) for cost in found])


@router.get("/index", responses=documented())
async def get_index(home: Home, caller: Calling) -> IndexAnswer:
    """The size of the index, and what waits for it; not for a key that belongs to one user."""
    if caller.user_id is not None:
        raise Refused("the index is everybody's: use a key that belongs to no single user")
    files, size = await home.index.size()
    words, meaning = home.search.indexer.waiting
    embedder = home.search.embedder
    return IndexAnswer(
        files=files,
        bytes=size,
        memory_bytes=home.search.corpora.bytes_used,
        waiting_words=words,
        waiting_meaning=meaning,
        model=None if embedder is None else embedder.name,
    )
