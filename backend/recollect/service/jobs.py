"""Jobs: see what is waiting, running or dead, and give a dead job another chance."""

from recollect.errors import NotFound
from recollect.memory.access import Caller
from recollect.memory.job import Job, JobState
from recollect.service.ports import JobRunner, ThreadStore


async def list_jobs(
    jobs: JobRunner, caller: Caller, state: JobState | None, limit: int, after: int
) -> list[Job]:
    """The jobs of the caller's space, oldest first; with a user's key, those of the user's threads.

    The command line on this machine sees those of every space.
    """
    return await jobs.list_jobs(
        space=None if caller.local_operator else caller.space,
        user_id=caller.user_id,
        state=state,
        limit=limit,
        after=after,
    )


async def retry_job(jobs: JobRunner, threads: ThreadStore, caller: Caller, job_id: int) -> Job:
    job = await jobs.get(job_id)
    if job is None or not await _may_see(threads, caller, job):
        raise NotFound(f"there is no job {job_id}")
    return await jobs.retry(job_id)


async def _may_see(threads: ThreadStore, caller: Caller, job: Job) -> bool:
    if caller.local_operator:
        return True
    if job.space != caller.space or caller.user_id is None:
        return job.space == caller.space
    thread = await threads.get_thread(job.thread_id, space=job.space) if job.thread_id else None
    return thread is not None and thread.user_id == caller.user_id
