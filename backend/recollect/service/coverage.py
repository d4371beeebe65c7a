"""Coverage: where is every message that the caller may see?"""

from recollect.memory.access import Caller
from recollect.memory.model import Coverage
from recollect.service.ports import CoverageStore, ThreadStore


async def get_coverage(
    counts: CoverageStore, threads: ThreadStore, caller: Caller, thread_id: str | None, user_id: str | None
) -> Coverage:
    """Of one session or, without one, of all that the caller may see. A session nobody knows has no messages."""
    acting = caller.acting_for(user_id)
    return await counts.coverage(space=caller.space, thread_id=thread_id, user_id=acting)
