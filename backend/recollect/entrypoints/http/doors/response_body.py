"""What a request for one of OpenAI's responses may hold."""

from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, FailFast, Field, StrictBool, model_validator

from recollect.domain.model import JsonObject
from recollect.entrypoints.http import openai_schemas as schemas
from recollect.entrypoints.http.doors.openai_items import CONVERSATION, InputItem, Turns
from recollect.entrypoints.http.requests import MAX_ID, Id, Objects, Said, Text
from recollect.errors import InvalidInput
from recollect.service.chat.history_matching import ResentHistory

MOST_ITEMS = 5_000
Pairs = Annotated[
    dict[Annotated[Text, Field(max_length=64)], Annotated[Text, Field(max_length=512)]],
    Field(max_length=16),
]


def _as_items(given: Any) -> Any:
    return [{"role": "user", "content": given}] if isinstance(given, str) else [] if given is None else given


Items = Annotated[
    list[InputItem],
    FailFast(),
    Field(max_length=MOST_ITEMS),
    BeforeValidator(_as_items, json_schema_input_type=str | list[InputItem] | None),
]
REPEATED = (
    "instructions", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "max_output_tokens",
    "reasoning", "text", "truncation", "store", "user", "model", "metadata", "previous_response_id",
)  # fmt: skip
"""Fields of the request that its response has, too."""


class ConversationRef(schemas.Lenient):
    id: Id


class ResponseBody(Said, schemas.Lenient):
    model: Id | None = Field(None, description="One of /v1/models; unset, or `recollect`: the default.")
    input: Items = Field(
        default_factory=list,
        description="A message, or items; with their history where no response or conversation is named.",
    )
    instructions: Text | None = Field(None, description="For this response alone.")
    previous_response_id: Annotated[Text, Field(max_length=6 * MAX_ID)] | None = Field(
        None, description="The response that it follows: its thread goes on, or branches there."
    )
    conversation: Id | ConversationRef | None = Field(None, description="The conversation it is added to.")
    store: StrictBool | None = Field(None, description="False: it can't be read again by its id.")
    stream: StrictBool | None = None
    tools: Objects | None = Field(None, description="Functions alone.")
    tool_choice: Text | schemas.Object | None = None
    parallel_tool_calls: StrictBool | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_output_tokens: schemas.Count | None = None
    text: schemas.Object | None = Field(None, description="`format` and `verbosity`.")
    reasoning: schemas.Object | None = Field(None, description="`effort`.")
    include: Annotated[list[Text], Field(max_length=100)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20, strict=True)] | None = None
    truncation: Text | None = None
    metadata: Pairs | None = Field(None, description="Kept; `thread_id` and `user_id` are read, too.")
    user: Annotated[Text, Field(max_length=MAX_ID)] | None = None
    user_id: Id | None = Field(None, description="Who is asking; must be the key's user where it has one.")
    safety_identifier: Text | None = None
    service_tier: Text | None = None
    background: StrictBool | None = Field(None, description="Only false.")
    prompt: schemas.Object | None = Field(None, description="Refused: no templates are kept here.")

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        schemas.Metadata.model_validate(self.metadata or {})
        if self.conversation is not None and self.previous_response_id is not None:
            raise ValueError("previous_response_id and conversation exclude each other")
        if not self.input and self.conversation is None:
            raise ValueError("input: is missing")
        return self

    @property
    def named(self) -> schemas.Metadata:
        return schemas.Metadata.model_validate(self.metadata or {})

    def named_users(self) -> tuple[str | None, ...]:
        return self.user_id, self.user, self.named.user_id

    @property
    def conversation_id(self) -> str | None:
        return self.conversation.id if isinstance(self.conversation, ConversationRef) else self.conversation

    def options(self) -> JsonObject:
        """For the backend, in the form of chat completions. Raises InvalidInput for what only OpenAI's servers do."""
        for name in ("background", "prompt"):
            if getattr(self, name):
                raise InvalidInput(f"{name}: is not supported here", field=name)
        logprobs = bool(self.top_logprobs) or "message.output_text.logprobs" in (self.include or ())
        given = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "tools": [_tool(tool, f"tools[{n}]") for n, tool in enumerate(self.tools or ())] or None,
            "tool_choice": _tool_choice(self.tool_choice),
            "parallel_tool_calls": self.parallel_tool_calls,
            "response_format": _response_format((self.text or {}).get("format")),
            "verbosity": _text((self.text or {}).get("verbosity"), "text.verbosity"),
            "reasoning_effort": _text((self.reasoning or {}).get("effort"), "reasoning.effort"),
            "service_tier": self.service_tier,
            "safety_identifier": self.safety_identifier,
            "user": self.user,
            "logprobs": logprobs or None,
            "top_logprobs": self.top_logprobs if logprobs else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def repeated(self) -> JsonObject:
        """What the response says of its request."""
        told = {name: getattr(self, name) for name in REPEATED if getattr(self, name) is not None}
        if self.tools:
            told["tools"] = [{"parameters": None, "strict": None, **tool} for tool in self.tools]
        if (conversation := self.conversation_id) is not None:
            told["conversation"] = {"id": conversation}
        return told

    def resent(self, asking: schemas.Asking, now: int) -> ResentHistory:
        turns = Turns.of(self.input, now, "input").turns
        if turns and all(turn.role == "system" for turn in turns.values()):
            last = max(turns)
            turns[last] = replace(turns[last], role="user")
        request = asking.request(
            max_tokens=self.max_output_tokens,
            options=self.options(),
            system_texts=None if self.instructions is None else (self.instructions,),
        )
        appended = self.conversation_id is not None or self.previous_response_id is not None
        return ResentHistory(
            tuple(turns.values()),
            request,
            asking.thread_id or (None if asking.chat_id else self.named.thread_id),
            tuple(turns),
            asking.chat_id,
            appended=appended,
            field="input",
            waiting=CONVERSATION,
        )


def _text(value: object, field: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{field}: must be text", field=field)
    return value


def _tool(tool: JsonObject, where: str) -> JsonObject:
    if tool.get("type") != "function" or not isinstance(tool.get("name"), str):
        raise InvalidInput(
            f"{where}: must be a function with a name; tools of OpenAI's own servers are not here",
            field=where,
        )
    kept = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in kept if tool.get(name) is not None}}


def _tool_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    match choice:
        case None | "auto" | "none" | "required":
            return choice
        case {"type": "function", "name": str(name)}:
            return {"type": "function", "function": {"name": name}}
    raise InvalidInput(
        "tool_choice: must be auto, none, required or a function with its name", field="tool_choice"
    )


def _response_format(form: Any) -> JsonObject | None:
    match form:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "json_object"}
        case {"type": "json_schema", **schema}:
            return {"type": "json_schema", "json_schema": schema}
    raise InvalidInput("text.format: must be text, json_object or json_schema", field="text.format")
