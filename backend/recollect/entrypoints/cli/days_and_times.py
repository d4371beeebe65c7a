"""Days and times as people type them into commands."""

from datetime import UTC, datetime

import typer


def moment(text: str | None, option: str) -> int | None:
    """UTC milliseconds of `2026-05-08` or `2026-05-08T14:03`; in UTC, unless it names a zone."""
    if text is None:
        return None
    try:
        named = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no day or time like 2026-05-08 or 2026-05-08T14:03", param_hint=option
        ) from None
    return int((named if named.tzinfo else named.replace(tzinfo=UTC)).timestamp() * 1000)
