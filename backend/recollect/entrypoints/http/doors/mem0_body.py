"""What mem0's client sends: whose memory is meant, by any of its four names, and what is to be added, found or changed."""

import math
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator

from recollect.domain.model import MAX_TIMESTAMP, JsonObject, Role
from recollect.entrypoints.http.openai_schemas import Lenient
from recollect.entrypoints.http.requests import Id, Objects, Said, Text, ThreadId, not_blank, storable_json
from recollect.errors import InvalidInput

_OWN = ("user_id", "agent_id", "app_id", "run_id")
_MOMENTS = ("created_at", "timestamp")
Metadata = Annotated[dict[str, Any], AfterValidator(storable_json)]
Seconds = Annotated[float, Field(ge=0, le=MAX_TIMESTAMP // 1000, description="Since 1970.")]
_Moment: TypeAdapter[int] = TypeAdapter(
    Annotated[int, BeforeValidator(math.floor), Field(ge=0, le=MAX_TIMESTAMP)]
)
Words = Annotated[Text, AfterValidator(not_blank)]


class Names(Lenient):
    """Whose memory, by any of mem0's four names, beside the rest or in `filters`."""

    user_id: Id | None = None
    agent_id: Id | None = None
    app_id: Id | None = None
    run_id: ThreadId | None = Field(None, description="The thread.")


class Filtered(Names):
    filters: Metadata | None = Field(
        None,
        description="`user_id`, `agent_id`, `app_id`, `run_id`, and times as `created_at`, joined by AND.",
    )
    since: int | None = Field(None, exclude=True)
    until: int | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _read_filters(self) -> "Filtered":
        for name, value in _equalities(self.filters or {}):
            if name in _MOMENTS:
                self._bound(name, value)
            elif name in _OWN and isinstance(value, str) and 0 < len(value) <= 512:
                setattr(self, name, value)
            else:
                raise ValueError(
                    f"filters.{name}: only {', '.join(_OWN)}, each equal to one id, and {_MOMENTS[0]} with"
                    " gt, gte, lt or lte are possible"
                )
        return self

    def _bound(self, name: str, value: Any) -> None:
        if not isinstance(value, dict) or not value or not value.keys() <= {"gt", "gte", "lt", "lte"}:
            raise ValueError(f"filters.{name}: must be an object of gt, gte, lt or lte with dates")
        for operator, given in value.items():
            moment = read_moment(given, f"filters.{name}.{operator}") + (operator in ("gt", "lte"))
            if operator.startswith("g"):
                self.since = max(self.since or 0, moment)
            else:
                self.until = min(self.until or moment, moment)


def _equalities(filters: JsonObject, depth: int = 0) -> list[tuple[str, Any]]:
    if depth > 5:
        raise ValueError("filters: nested too deeply")
    found: list[tuple[str, Any]] = []
    for name, value in filters.items():
        if name == "AND" and isinstance(value, list) and all(isinstance(each, dict) for each in value):
            found += [pair for each in value for pair in _equalities(each, depth + 1)]
        elif isinstance(value, dict) and list(value) == ["eq"]:
            found.append((name, value["eq"]))
        else:
            found.append((name, value))
    return found


def read_moment(given: Any, field: str) -> int:
    """UTC milliseconds of ISO 8601, a date, or seconds since 1970."""
    try:
        if isinstance(given, str):
            read = datetime.fromisoformat(given)
            given = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        return _Moment.validate_python(given * 1000)
    except (ValueError, TypeError, OverflowError):
        problem = f"{field}: must be a date as 2026-05-08, a time in ISO 8601, or seconds, since 1970"
        raise ValueError(problem) from None


class Mem0Message(Said, Lenient):
    role: Role = "user"
    content: Text | Objects

    def words(self, place: str) -> str:
        if isinstance(self.content, str):
            return self.content
        kinds = {str(part.get("type")) for part in self.content} - {"text"}
        if kinds:
            raise InvalidInput(
                f"{place}.content: only text can be remembered here, not {', '.join(sorted(kinds))[:100]}; "
                "chats take images",
                field=f"{place}.content",
            )
        return "\n".join(str(part.get("text", "")) for part in self.content)


class AddMemories(Said, Filtered):
    messages: Annotated[list[Mem0Message], Field(min_length=1)] | Words
    metadata: Metadata | None = Field(
        None, description="Kept with the messages, and told with their memories."
    )
    infer: bool | None = Field(None, description="false: each message is a memory as it stands.")
    timestamp: Seconds | None = Field(None, description="Unset: now.")

    def said(self) -> list[tuple[Role, str]]:
        """Raises InvalidInput, which names the field, for what is no text."""
        if isinstance(self.messages, str):
            return [("user", self.messages)]
        said = [(each.role, each.words(f"messages[{n}]")) for n, each in enumerate(self.messages)]
        for number, (_, text) in enumerate(said):
            if not text.strip():
                field = f"messages[{number}].content"
                raise InvalidInput(f"{field}: must not be empty", field=field)
        return said


class SearchMemories(Filtered):
    query: Words
    top_k: int | None = Field(None, ge=1, le=1000)
    limit: int | None = Field(None, ge=1, le=1000)
    threshold: float | None = Field(
        None, description="0: all that is found; else up to where relevance ends."
    )


class MemoryChanges(Lenient):
    text: Words | None = None
    metadata: Metadata | None = None
    timestamp: Seconds | None = None


class BatchChange(MemoryChanges):
    memory_id: Id


class Batch(Lenient):
    memories: Annotated[list[BatchChange], Field(min_length=1, max_length=1000)]
