"""Skills: what agents learned."""

from fastapi import APIRouter, Request

from recollect.entrypoints.http.dependencies import Calling, Home, UserQuery, note
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.skill_answers import SkillAnswer, SkillsAnswer

router = APIRouter(prefix="/api/v1/memory/skills", tags=["memory"])


@router.get("", responses=documented(404))
async def list_skills(
    home: Home, caller: Calling, request: Request, user_id: UserQuery = None
) -> SkillsAnswer:
    """The skills that were made of a user's conversations with agents, or all of the space."""
    note(request, user=user_id)
    found = await home.skills.list_skills(caller, user_id)
    return SkillsAnswer(skills=[SkillAnswer.of(shown) for shown in found])
