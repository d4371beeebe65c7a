"""Where skills stand in the vault."""


def skill_path(owner: str, name: str) -> str:
    return f"{owner}/skills/{name}/SKILL.md"


def is_skill_path(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 6 and (parts[1], parts[3], parts[5]) == ("agents", "skills", "SKILL.md")
