"""Reading all that is below a folder in which a home is at work."""

from pathlib import Path

TRIES = 100


def files_under(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, as of a moment in which none went: those that write rename and remove files."""
    for _ in range(TRIES):
        try:
            return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        except FileNotFoundError:
            continue
    raise TimeoutError(f"files below {folder} went whenever they were read")
