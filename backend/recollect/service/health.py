"""Health: is it alive, is it ready, and what is degraded?"""

from dataclasses import dataclass

from recollect.service.ports import JobRunner, Vault

_LATE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Health:
    """`degraded` says in words what does not work and what to do about it."""

    ready: bool
    degraded: list[str]
    jobs: dict[str, int]
    oldest_job_wait_ms: int


async def check_health(vault: Vault, jobs: JobRunner) -> Health:
    degraded = []
    if (problem := vault.problem()) is not None:
        degraded.append(f"{problem}; messages are kept in the journal and written when it is back")
    counts = await jobs.counts()
    waited = await jobs.oldest_wait_ms()
    if counts.get("dead"):
        degraded.append(f"{counts['dead']} jobs are dead: see 'recollect jobs', then 'recollect jobs retry'")
    troubled, error = await jobs.trouble()
    if troubled:
        degraded.append(f"{troubled} jobs wait to be tried again; the latest error: {error}")
    if waited > _LATE_MS:
        degraded.append(f"the oldest job has waited for {waited // 1000} s")
    return Health(True, degraded, counts, waited)
