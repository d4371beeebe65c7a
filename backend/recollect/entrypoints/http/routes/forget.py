"""Forgetting a message, or a user; and what would go along."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from recollect.entrypoints.http.deps import Calling, Home, PathId, UserQuery, WhichMemories
from recollect.entrypoints.http.direct_route import BodyRoute
from recollect.entrypoints.http.entry_schemas import NamedEntry
from recollect.entrypoints.http.errors import documented
from recollect.service.forget import forget

router = APIRouter(prefix="/api/v1", tags=["forgetting"], route_class=BodyRoute)
_MOST_NAMED = 100
WithAnswers = Annotated[
    bool, Query(description="With what assistant and tools answered to it, in every branch.")
]


class ForgottenTurnAnswer(BaseModel):
    thread_id: str
    turn_ids: list[str] = Field(description="The turns that were forgotten.")
    forgotten: int = Field(description="How many turns were forgotten.")
    entries: int = Field(description="How many memories went, because they came from them.")


class ForgottenUserAnswer(BaseModel):
    user_id: str
    threads: int = Field(description="How many threads were forgotten.")
    forgotten: int = Field(description="How many turns were forgotten.")
    entries: int = Field(description="How many memories went: the user's, and what agents learned from them.")


class ForgettingAnswer(BaseModel):
    """What forgetting a message, or a thread, would take along."""

    thread_id: str
    turns: int = Field(description="How many turns would be forgotten.")
    entries: int = Field(description="How many memories would go, because they came from them.")
    goes_along: list[NamedEntry] = Field(description=f"Those memories; of very many the first {_MOST_NAMED}.")

    @classmethod
    def of(cls, thread_id: str, forgetting: forget.Forgetting) -> "ForgettingAnswer":
        entries = forgetting.entries
        named = [NamedEntry.of(each) for each in entries[:_MOST_NAMED]]
        return cls(thread_id=thread_id, turns=forgetting.turns, entries=len(entries), goes_along=named)


@router.get("/threads/{thread_id}/deletion", responses=documented(404, 409))
async def thread_deletion(
    home: Home,
    caller: Calling,
    thread_id: PathId,
    user_id: UserQuery = None,
    memories: WhichMemories = "all",
) -> ForgettingAnswer:
    """What deleting a thread would take along. Nothing is changed."""
    goes = await forget.what_goes_with_thread(
        home.THREADS, home.entry_store, caller, thread_id, user_id, memories
    )
    return ForgettingAnswer.of(thread_id, goes)


@router.get("/threads/{thread_id}/turns/{turn_id}/deletion", responses=documented(404, 409))
async def turn_deletion(
    home: Home,
    caller: Calling,
    thread_id: PathId,
    turn_id: PathId,
    user_id: UserQuery = None,
    answers: WithAnswers = False,
) -> ForgettingAnswer:
    """What forgetting one turn would take along. Nothing is changed. 409: it is still being written."""
    goes = await forget.what_goes_with_turn(
        home.THREADS, home.forgetting, home.entry_store, caller, thread_id, turn_id, user_id, answers=answers
    )
    return ForgettingAnswer.of(thread_id, goes)


@router.delete("/threads/{thread_id}/turns/{turn_id}", responses=documented(404, 409))
async def delete_turn(
    home: Home,
    caller: Calling,
    thread_id: PathId,
    turn_id: PathId,
    user_id: UserQuery = None,
    answers: WithAnswers = False,
) -> ForgottenTurnAnswer:
    """Forget one turn and all that came from it. 409: it is still being written; cancel it first."""
    gone = await forget.forget_turn(
        home.THREADS, home.forgetting, caller, thread_id, turn_id, user_id, answers=answers
    )
    return ForgottenTurnAnswer(
        thread_id=thread_id, turn_ids=list(gone.turn_ids), forgotten=gone.turns, entries=gone.entries
    )


@router.delete("/users/{user_id}", responses=documented(404))
async def delete_user(home: Home, caller: Calling, user_id: PathId) -> ForgottenUserAnswer:
    """Forget a user: every thread, memory, note, image and preference of theirs. For that user and the operator."""
    gone = await forget.forget_user(home.forgetting, home.people, caller, user_id)
    return ForgottenUserAnswer(
        user_id=user_id, threads=gone.threads, forgotten=gone.turns, entries=gone.entries
    )
