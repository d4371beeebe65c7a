"""Where things lie in the vault. Ids from outside become path parts here and nowhere else."""

from recollect.memory.file_names import file_name


def owner_folder(space: str, user_id: str) -> str:
    """A user's folder. It names the user everywhere an owner has to be named: different users, different folders."""
    return f"{file_name(space)}/users/{file_name(user_id)}"


def owner_of_path(path: str) -> str | None:
    """The owner's folder that a path lies in; None for what is nobody's."""
    parts = path.split("/")
    return "/".join(parts[:3]) if len(parts) > 3 and parts[1] in ("users", "agents") else None


def is_note(path: str) -> bool:
    """Whatever a person puts into `notes/`."""
    parts = path.split("/")
    return len(parts) > 4 and parts[1] in ("users", "agents") and parts[3] == "notes"


def thread_folder(space: str, user_id: str, thread_id: str) -> str:
    return f"{owner_folder(space, user_id)}/threads/{file_name(thread_id)}"


def transcript_path(space: str, user_id: str, thread_id: str, part: int) -> str:
    return f"{thread_folder(space, user_id, thread_id)}/{part:04d}.md"


def forgotten_path(space: str, user_id: str, thread_key: str) -> str:
    """The tombstones of one thread: they name it by its key, never by its id."""
    return f"{owner_folder(space, user_id)}/forgotten/{thread_key}.md"
