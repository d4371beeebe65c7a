"""What mem0's client sends: whose memory is meant, by any of its four names, and what is to be added, found or changed."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from recollect.domain.model import MAX_TIMESTAMP, Role
from recollect.entrypoints.http.doors.memories import Metadata, Words, bounds_of
from recollect.entrypoints.http.errors import first_problem
from recollect.entrypoints.http.openai_schemas import Lenient
from recollect.entrypoints.http.requests import Id, Objects, Said, Text, ThreadId
from recollect.errors import InvalidInput, NotFound

_OWN = ("user_id", "agent_id", "app_id", "run_id")
_EVENT: TypeAdapter[tuple[str, str]] = TypeAdapter(tuple[Id, ThreadId])
Seconds = Annotated[float, Field(ge=0, le=MAX_TIMESTAMP // 1000, description="Since 1970.")]


def _one(name: str) -> str:
    """mem0's wildcard would mean everybody."""
    if name == "*":
        raise ValueError("must be one id: Recollect has no * for all of them")
    return name


Name = Annotated[Id, AfterValidator(_one)]
Run = Annotated[ThreadId, AfterValidator(_one)]


class Names(Lenient):
    """Whose memory, by any of mem0's four names, beside the rest or in `filters`."""

    user_id: Name | None = None
    agent_id: Name | None = None
    app_id: Name | None = None
    run_id: Run | None = Field(None, description="The thread.")


class Filtered(Names):
    filters: Metadata | None = Field(
        None,
        description="`user_id`, `agent_id`, `app_id`, `run_id`, and times as `created_at`, joined by AND.",
    )
    since: int | None = Field(None, exclude=True)
    until: int | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _read_filters(self) -> "Filtered":
        bounds = bounds_of(self.filters or {}, _OWN, "created_at")
        try:
            Names.model_validate(bounds.names)
        except ValidationError as error:
            problem, field = first_problem(error.errors())
            raise ValueError(f"filters.{field}: {problem.removeprefix(f'{field}: ')}") from None
        for name, value in bounds.names.items():
            setattr(self, name, value)
        self.since, self.until = bounds.since, bounds.until
        return self


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
    user_id: Name | None = None
    text: Words | None = None
    metadata: Metadata | None = None
    timestamp: Seconds | None = None


class BatchChange(MemoryChanges):
    memory_id: Id


class Batch(Lenient):
    memories: Annotated[list[BatchChange], Field(min_length=1, max_length=1000)]


def event_id_of(user_id: str, thread_id: str) -> str:
    """Whose thread: a `run_id` may be that of several users."""
    return urlsafe_b64encode(json.dumps([user_id, thread_id]).encode()).decode().rstrip("=")


def read_event_id(event_id: str) -> tuple[str, str]:
    """User and thread."""
    try:
        return _EVENT.validate_json(urlsafe_b64decode(event_id + "=" * (-len(event_id) % 4)))
    except ValueError:
        raise NotFound(f"there is no event {event_id[:100]!r}") from None
