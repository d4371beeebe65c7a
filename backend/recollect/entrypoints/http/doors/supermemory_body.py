"""What supermemory's client sends."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from recollect.entrypoints.http.doors.memories import Metadata, Words
from recollect.entrypoints.http.openai_schemas import Lenient
from recollect.entrypoints.http.requests import Id, Said, Tag, ThreadId


class Tagged(Lenient):
    """Whose: the container's name is the user's, or with a user's key a tag."""

    container_tag: Tag | None = Field(None, alias="containerTag")
    container_tags: Annotated[list[Tag], Field(max_length=100)] | None = Field(None, alias="containerTags")
    filters: Metadata | None = None

    @model_validator(mode="after")
    def _one_container(self) -> "Tagged":
        if self.filters:
            raise ValueError(
                "filters: metadata is kept and told, and can't be searched by; leave filters out"
            )
        if len(self.container_tags or ()) > 1:
            raise ValueError("containerTags: one container a request; whose memory would it be else?")
        self.container_tag = self.container_tag or next(iter(self.container_tags or ()), None)
        return self


class Document(Said, Tagged):
    content: Words
    custom_id: ThreadId | None = Field(None, alias="customId")
    metadata: Metadata | None = None


class Batch(Said, Tagged):
    documents: Annotated[list[Document | Words], Field(min_length=1, max_length=600)]


class DocumentChanges(Said, Tagged):
    content: Words | None = None
    metadata: Metadata | None = None


class DocumentsWanted(Tagged):
    include_content: bool = Field(False, alias="includeContent")
    limit: int = Field(10, ge=1, le=1000)
    page: int = Field(1, ge=1)
    order: Literal["asc", "desc"] = "desc"


class Bulk(Tagged):
    ids: Annotated[list[Id], Field(max_length=100)] = Field(default_factory=list)


class SearchWanted(Tagged):
    q: Words
    limit: int = Field(10, ge=1, le=100)
    threshold: float | None = Field(None, ge=0, le=1)
    mode: Literal["memories", "hybrid", "documents"] = Field("memories", alias="searchMode")


class ProfileWanted(Tagged):
    q: Words | None = None


class MemoryNamed(Tagged):
    id: Id | None = None
    content: Words | None = None
    new_content: Words | None = Field(None, alias="newContent")
