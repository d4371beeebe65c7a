"""Where skills stand in the vault."""


def skill_path(owner: str, name: str) -> str:
    return f"{owner}/skills/{name}/SKILL.md"


def is_skill_path(path: str) -> bool:
    """Whatever folder of an agent's skills a person put it in."""
    parts = path.split("/")
    return len(parts) >= 6 and (parts[1], parts[3], parts[-1]) == ("agents", "skills", "SKILL.md")


def skill_folder(path: str) -> str:
    """Where a file stands, below the agent's skills: the skill's name, unless a person chose another."""
    return "/".join(path.split("/")[4:-1])
