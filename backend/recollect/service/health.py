"""Health: is it alive, is it ready, and what is degraded?"""

from collections.abc import Callable
from dataclasses import dataclass, field

from recollect.errors import Unavailable
from recollect.service.ports import JobRunner, Vault

_LATE_MS = 60_000


@dataclass(slots=True)
class Health:
    """`degraded` says what does not work and what to do about it. It names no user and no thread: anybody may ask."""

    ready: bool = True
    degraded: list[str] = field(default_factory=list)
    jobs: dict[str, int] = field(default_factory=dict)
    oldest_job_wait_ms: int = 0


async def check_health(
    journal_problem: Callable[[], str | None],
    vault: Vault,
    jobs: JobRunner,
    *others: Callable[[], str | None],
) -> Health:
    """Ready means: a message that comes in now can be taken. `others` tell in words what else does not work."""
    health = Health()
    if (problem := journal_problem()) is not None:
        health.ready = False
        health.degraded.append(problem)
    if (problem := vault.problem()) is not None:
        health.degraded.append(f"{problem}; messages are kept in the journal and written when it is back")
    health.degraded += [problem for other in others if (problem := other()) is not None]
    try:
        await _look_at_jobs(health, jobs)
    except Unavailable as error:
        health.ready = False
        health.degraded.append(error.message)
    return health


async def _look_at_jobs(health: Health, jobs: JobRunner) -> None:
    health.jobs = await jobs.counts()
    health.oldest_job_wait_ms = await jobs.oldest_wait_ms()
    if dead := health.jobs.get("dead"):
        health.degraded.append(f"{dead} jobs are dead: see 'recollect jobs', then 'recollect jobs retry'")
    if troubled := await jobs.in_trouble():
        health.degraded.append(f"{troubled} jobs wait to be tried again after an error: see 'recollect jobs'")
    if health.oldest_job_wait_ms > _LATE_MS:
        health.degraded.append(f"the oldest job has waited for {health.oldest_job_wait_ms // 1000} s")
