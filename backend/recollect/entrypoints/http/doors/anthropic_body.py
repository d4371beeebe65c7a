"""What a request for one of Anthropic's messages may hold, and the turns that it makes."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import FailFast, Field, StrictBool, TypeAdapter, ValidationError, model_validator

from recollect.domain.chat import ChatRequest
from recollect.domain.model import JsonObject, NewTurn
from recollect.entrypoints.http import openai_schemas as schemas
from recollect.entrypoints.http.doors import anthropic_blocks as block_turns
from recollect.entrypoints.http.requests import Id, Objects, Said, Text, ThreadId
from recollect.errors import InvalidInput
from recollect.service.chat.history_matching import ResentHistory

_legacy_session = re.compile(r".*_session_([0-9a-fA-F-]{8,64})").fullmatch
"""How older versions of Claude Code named a session in `metadata.user_id`."""
_thread_id: TypeAdapter[str] = TypeAdapter(ThreadId)
_BILLING = "x-anthropic-billing-header:"
"""How a block of Claude Code's system text begins that is for Anthropic's books, and differs between sessions."""
_TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}

_MEMORY_TOOL = "memory_20250818"
_TEXT = {"type": "string"}
_MEMORY_FUNCTION: JsonObject = {
    "name": "memory",
    "description": "Files below /memories that stay from one conversation to the next. view: a file, or what is in a "
    "folder. create: a new file. str_replace: a text that is there once. insert: after a line. delete. rename.",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
            **dict.fromkeys(
                ("path", "file_text", "old_str", "new_str", "insert_text", "old_path", "new_path"), _TEXT
            ),
            "insert_line": {"type": "integer"},
            "view_range": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["command"],
    },
}
"""Anthropic's models know it by its type alone."""


class MessageParam(Said, schemas.Lenient):
    role: Literal["user", "assistant", "system"]
    content: Text | Objects


class MessageMetadata(schemas.Lenient):
    user_id: Text | None = Field(None, description="Names a session, never a person; see the documentation.")

    @property
    def session_id(self) -> str | None:
        """Of JSON `{"session_id"}`, or of Claude Code's older form."""
        try:
            given = json.loads(self.user_id or "")
        except (ValueError, RecursionError):
            found = _legacy_session(self.user_id or "")
            return found[1] if found else None
        named = given.get("session_id") if isinstance(given, dict) else None
        try:
            return _thread_id.validate_python(named)
        except ValidationError:
            return None  # No thread can be called so.


class PromptBody(Said, schemas.Lenient):
    """What tokens can be counted of."""

    model: Id | None = Field(None, description="One of /v1/models; unset, or `recollect`: the default.")
    messages: Annotated[list[MessageParam], FailFast()] = Field(min_length=1, max_length=5_000)
    system: Text | Objects | None = Field(None, description="Text, or blocks of text.")
    tools: Objects | None = Field(None, description="Those that the client runs itself.")

    def instructions(self) -> list[str]:
        given = self.system
        texts = [given] if isinstance(given, str) else block_turns.texts_of(given or (), "system")
        return [text for text in texts if not text.startswith(_BILLING)]

    def placed_turns(self, now: int) -> tuple[list[tuple[int, NewTurn]], list[str]]:
        """Turns, each with the place of its message, and the texts of system messages.

        One that comes after an answer belongs to the turn before it: the instructions stay what they were.
        """
        turns: list[tuple[int, NewTurn]] = []
        instructing = self.instructions()
        for place, message in enumerate(self.messages):
            blocks: Sequence[JsonObject] = (
                [{"type": "text", "text": message.content}]
                if isinstance(message.content, str)
                else message.content
            )
            where = f"messages[{place}].content"
            if message.role == "system":
                texts = block_turns.texts_of(blocks, where)
                is_late = any(turn.role == "assistant" for _, turn in turns)
                if is_late and turns[-1][1].role != "assistant":
                    turns[-1] = (turns[-1][0], block_turns.with_aside(turns[-1][1], texts))
                else:
                    instructing += texts
            elif message.role == "assistant":
                turns.append((place, block_turns.answer(blocks, now, where)))
            else:
                turns += [(place, turn) for turn in block_turns.said(blocks, now, where)]
        return turns, instructing

    def countable(self, now: int) -> list[JsonObject]:
        """The prompt, tools included."""
        tools = [{"role": "system", "content": json.dumps(tool)} for tool in self.tools_offered()]
        return [*tools, *self.prompt(now)]

    def tools_offered(self) -> list[JsonObject]:
        return [_tool(tool, f"tools[{number}]") for number, tool in enumerate(self.tools or ())]

    def prompt(self, now: int) -> list[JsonObject]:
        """Everything as it was sent, as messages in OpenAI's shape."""
        turns, instructing = self.placed_turns(now)
        messages: list[JsonObject] = [{"role": "system", "content": text} for text in instructing]
        return messages + [block_turns.message_of(turn) for _, turn in turns]


class MessagesBody(PromptBody):
    tool_choice: schemas.Object | None = None
    thinking: schemas.Object | None = Field(None, description="Passed on to a backend of Anthropic's.")
    output_config: schemas.Object | None = Field(None, description="`format`, a JSON schema.")
    mcp_servers: Objects | None = Field(None, description="Refused: the client's own tools alone are called.")
    max_tokens: schemas.Count | None = None
    stream: StrictBool | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] | None = None
    stop_sequences: Annotated[list[Text], Field(max_length=100)] | None = None
    metadata: MessageMetadata | None = None
    context_management: schemas.Object | None = Field(None, description="Ignored: see the documentation.")
    user_id: Id | None = Field(None, description="Who is asking; must be the key's user where it has one.")

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.mcp_servers:
            raise ValueError("mcp_servers: are not called from here; list their tools in the client")
        return self

    def is_probe(self, *, by_claude_code: bool) -> bool:
        """Whether a program asks it by itself, to judge by its shape: nobody said it.

        An answer of one token; of Claude Code, what comes without tools and without a context that is to be managed.
        """
        return self.max_tokens == 1 or (by_claude_code and not self.tools and not self.context_management)

    def options(self) -> JsonObject:
        """For the backend, in the form of chat completions. Raises InvalidInput for what Anthropic's servers alone do."""
        tools = self.tools_offered()
        choice = self.tool_choice or {}
        given = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "stop": self.stop_sequences or None,
            "tools": tools or None,
            "tool_choice": _tool_choice(choice) if tools else None,
            "parallel_tool_calls": False
            if tools and choice.get("disable_parallel_tool_use") is True
            else None,
            "response_format": _response_format((self.output_config or {}).get("format")),
            "thinking": self.thinking,
        }
        return {name: value for name, value in given.items() if value is not None}

    def request(self, asking: schemas.Asking) -> ChatRequest:
        """Everything but what is said."""
        return asking.request(max_tokens=self.max_tokens, may_be_shorter=True, options=self.options())

    def resent(self, asking: schemas.Asking, request: ChatRequest, now: int) -> ResentHistory:
        turns, instructing = self.placed_turns(now)
        if not turns:
            raise InvalidInput("messages: nothing was said", field="messages")
        return ResentHistory(
            tuple(turn for _, turn in turns),
            replace(request, system_texts=tuple(instructing) or None),
            asking.thread_id,
            tuple(place for place, _ in turns),
            asking.chat_id,
        )


def _tool(tool: JsonObject, where: str) -> JsonObject:
    """As a function."""
    if tool.get("type") == _MEMORY_TOOL:
        return {"type": "function", "function": _MEMORY_FUNCTION}
    name, kind = tool.get("name"), tool.get("type")
    if (
        not isinstance(name, str)
        or kind not in (None, "custom")
        or not isinstance(tool.get("input_schema"), dict)
    ):
        raise InvalidInput(
            f"{where}: must be a tool with a name and an input_schema; those that Anthropic defines or runs are not here",
            field=where,
        )
    function = {"name": name, "description": tool.get("description"), "parameters": tool["input_schema"]}
    return {
        "type": "function",
        "function": {name: value for name, value in function.items() if value is not None},
    }


def _tool_choice(choice: JsonObject) -> str | JsonObject | None:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return {"type": "function", "function": {"name": name}}
        case {"type": str(kind)} if kind in _TOOL_CHOICES:
            return _TOOL_CHOICES[kind]
    if choice:
        raise InvalidInput(
            "tool_choice: its type must be auto, any, none, or tool with a name", field="tool_choice"
        )
    return None


def _response_format(form: Any) -> JsonObject | None:
    match form:
        case None:
            return None
        case {"type": "json_schema", "schema": dict(schema)}:
            return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    raise InvalidInput("output_config.format: must be a json_schema", field="output_config.format")
