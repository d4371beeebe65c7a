"""Who is asking."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from recollect.entrypoints.http.dependencies import Calling
from recollect.entrypoints.http.errors import documented
from recollect.service.threads import DEFAULT_USER

router = APIRouter(prefix="/api/v1", tags=["people"])


class WhoamiAnswer(BaseModel):
    space: str
    user_id: str | None = Field(
        description="The key's user; null: the operator of the space, who sees all of it."
    )
    default_user: str = Field(description="Whose a thread is that an operator opens without naming a user.")


@router.get("/whoami", responses=documented())
async def whoami(caller: Calling) -> WhoamiAnswer:
    """The space and the user that requests like this one stand for."""
    return WhoamiAnswer(space=caller.space, user_id=caller.user_id, default_user=DEFAULT_USER)
