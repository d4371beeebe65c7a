"""What EverOS' client sends."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from recollect.domain.model import JsonObject, NewTurn, Role
from recollect.entrypoints.http.doors.memories import Bounds, Metadata, Words, bounds_of
from recollect.entrypoints.http.openai_schemas import Lenient
from recollect.entrypoints.http.requests import (
    Id,
    Objects,
    Said,
    Text,
    ThreadId,
    Timestamp,
)
from recollect.errors import InvalidInput

_DEFAULT = "default"
MemoryType = Literal["episode", "profile", "agent_case", "agent_skill"]


class Scoped(Lenient):
    """`app_id` and `project_id` narrow a search as tags do, where they are not the default ones."""

    app_id: Id = _DEFAULT
    project_id: Id = _DEFAULT

    @property
    def tags(self) -> tuple[str, ...]:
        names = (self.app_id, self.project_id)
        return () if names == (_DEFAULT, _DEFAULT) else (f"{'/'.join(names)}"[:200],)


class Sent(Said, Lenient):
    sender_id: Id
    role: Role
    timestamp: Timestamp
    content: Text | Objects
    tool_calls: Objects | None = None
    tool_call_id: Id | None = None

    def turn(self, place: str) -> NewTurn:
        text = self.content if isinstance(self.content, str) else _text(self.content, place)
        if not text.strip() and not self.tool_calls and self.role != "tool":
            raise InvalidInput(f"{place}.content: must not be empty", field=f"{place}.content")
        return NewTurn(
            self.role,
            text,
            self.timestamp,
            self.sender_id,
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id,
        )


def _text(parts: Sequence[JsonObject], place: str) -> str:
    kinds = {str(part.get("type")) for part in parts} - {"text"}
    if kinds:
        raise InvalidInput(
            f"{place}.content: only text can be remembered here, not {', '.join(sorted(kinds))[:100]}",
            field=f"{place}.content",
        )
    return "\n".join(str(part.get("text") or "") for part in parts)


class AddBody(Said, Scoped):
    session_id: ThreadId
    messages: Annotated[list[Sent], Field(min_length=1, max_length=500)]
    async_mode: bool = True


class FlushBody(Scoped):
    session_id: ThreadId


class Owned(Scoped):
    user_id: Id | None = None
    agent_id: Id | None = None

    @model_validator(mode="after")
    def _one_owner(self) -> "Owned":
        if self.user_id and self.agent_id:
            raise ValueError("agent_id: give either a user_id or an agent_id")
        return self


class Filtered(Owned):
    filters: Metadata | None = Field(None, description="`session_id` and `timestamp`, joined by AND.")

    def bounds(self) -> Bounds:
        return bounds_of(self.filters or {}, ("session_id",), "timestamp")

    @model_validator(mode="after")
    def _read_filters(self) -> "Filtered":
        self.bounds()
        return self


class SearchBody(Filtered):
    query: Words
    method: Literal["keyword", "vector", "hybrid", "agentic", "llm_multiround"] = "hybrid"
    top_k: int = Field(-1, ge=-1, le=100)
    min_score: float | None = Field(None, ge=0, le=1)
    include_profile: bool = False


class GetBody(Filtered):
    memory_type: MemoryType
    page: int = Field(1, ge=1)
    page_size: int = Field(20, ge=1, le=100)
    sort_order: Literal["asc", "desc"] = "desc"


class DeleteBody(Owned):
    session_id: Id | None = None


class IdsBody(Lenient):
    user_id: Id | None = None
    memory_type: MemoryType
    memory_ids: Annotated[list[Id], Field(min_length=1, max_length=50)]


class Patch(Lenient):
    episode: Words | None = None
    summary: Words | None = None
    subject: Words | None = None


class UpdateBody(Lenient):
    user_id: Id | None = None
    memory_type: MemoryType
    memory_id: Id
    patch: Patch


class Operation(Lenient):
    action: Literal["add", "update", "delete"]
    type: Id = "explicit_info"
    item_id: Id | None = None
    data: Metadata = Field(default_factory=dict)

    @property
    def words(self) -> str:
        text = self.data.get("description")
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("data.description: must be the new text", field="data.description")
        return text


class EditBody(Scoped):
    user_id: Id
    operations: Annotated[list[Operation], Field(min_length=1, max_length=50)]
