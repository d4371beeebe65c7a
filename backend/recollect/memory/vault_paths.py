"""Where things lie in the vault. Ids from outside become path parts here and nowhere else."""

from recollect.memory.file_names import file_name


def thread_folder(space: str, user_id: str, thread_id: str) -> str:
    return f"{file_name(space)}/users/{file_name(user_id)}/threads/{file_name(thread_id)}"


def transcript_path(space: str, user_id: str, thread_id: str, part: int) -> str:
    return f"{thread_folder(space, user_id, thread_id)}/{part:04d}.md"


def forgotten_path(space: str, user_id: str, thread_key: str) -> str:
    """The tombstones of one thread: they name it by its key, never by its id."""
    return f"{file_name(space)}/users/{file_name(user_id)}/forgotten/{thread_key}.md"
