"""Where things lie in the vault. Ids from outside become path parts here and nowhere else."""

from recollect.memory.file_names import file_name

AGENT = "agent"
"""The agent of threads that name none."""
MARKDOWN_ENDINGS = (".md", ".markdown")


def owner_folder(space: str, user_id: str) -> str:
    """A user's folder. It names the user everywhere an owner has to be named: different users, different folders."""
    return f"{file_name(space)}/users/{file_name(user_id)}"


def agent_folder(space: str, agent_id: str | None) -> str:
    """An agent's folder; all that have no id share one."""
    return f"{file_name(space)}/agents/{file_name(agent_id or AGENT)}"


def owner_of_path(path: str) -> str | None:
    """The owner's folder that a path lies in; None for what is nobody's."""
    parts = path.split("/")
    return "/".join(parts[:3]) if len(parts) > 3 and parts[1] in ("users", "agents") else None


def is_markdown(path: str) -> bool:
    """By its name, however people and their editors write the ending."""
    return path.lower().endswith(MARKDOWN_ENDINGS)


def is_note(path: str) -> bool:
    """Whatever Markdown a person puts into `notes/`."""
    parts = path.split("/")
    in_notes = len(parts) > 4 and parts[1] in ("users", "agents") and parts[3] == "notes"
    return in_notes and is_markdown(path)


def thread_folder(space: str, user_id: str, thread_id: str) -> str:
    return f"{owner_folder(space, user_id)}/threads/{file_name(thread_id)}"


def transcript_path(space: str, user_id: str, thread_id: str, part: int) -> str:
    return f"{thread_folder(space, user_id, thread_id)}/{part:04d}.md"


def forgotten_path(space: str, user_id: str, thread_key: str) -> str:
    """The tombstones of one thread: they name it by its key, never by its id."""
    return f"{owner_folder(space, user_id)}/forgotten/{thread_key}.md"


def preset_path(space: str, key: str) -> str:
    """Where a new preset is written; one that a person made may lie beside it under any name."""
    return f"{file_name(space)}/presets/{file_name(key)}.md"


def preferences_path(space: str, user_id: str) -> str:
    return f"{owner_folder(space, user_id)}/preferences.md"


def is_people_file(path: str) -> bool:
    """A preset (`<space>/presets/<name>.md`) or a user's preferences. Conflict files and hidden ones are neither."""
    parts = path.split("/")
    name = parts[-1]
    if ".conflict-" in name or name.startswith(".") or not name.endswith(".md"):
        return False
    if len(parts) == 3:
        return parts[1] == "presets"
    return len(parts) == 4 and parts[1] == "users" and name == "preferences.md"
