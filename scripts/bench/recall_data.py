"""Reads conversations with questions: one a line, as JSON, plain or compressed with gzip; or a table of messages."""

import gzip
import json
import zlib
from collections import defaultdict
from io import TextIOWrapper
from pathlib import Path
from random import Random
from typing import Any, TextIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from recall_measure import Conversation, Question

from recollect.entrypoints.http.requests import Message
from recollect.errors import InvalidInput

_FIRST_MS, _BETWEEN_MS = 1_760_000_000_000, 600_000


class _Question(BaseModel):
    model_config = ConfigDict(extra="ignore")

    question: str = Field(min_length=1)
    category: str = ""
    evidence: list[str]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str = Field(min_length=1)
    messages: list[Message] = Field(min_length=1)
    questions: list[_Question]

    @model_validator(mode="after")
    def _evidence_can_be_found(self) -> "_Line":
        known = {message.message_id for message in self.messages if message.message_id}
        if len(known) < len(self.messages):
            raise ValueError("every message needs a message_id of its own: evidence is named by it")
        missing = sorted({name for question in self.questions for name in question.evidence} - known)
        if missing:
            raise ValueError(f"evidence {missing[0]!r} is no message of the conversation")
        return self


def read_conversations(file: Path, limit: int | None = None) -> list[Conversation]:
    """The first `limit` conversations of a file; InvalidInput names the line that can't be used."""
    if file.suffix == ".tsv":
        return _by_language(file)[:limit]
    found: dict[str, Conversation] = {}
    try:
        with _opened(file) as lines:
            for number, line in enumerate(lines, 1):
                if len(found) == limit:
                    break
                if line.strip():
                    conversation = _conversation(line, f"{file}, line {number}")
                    if conversation.conversation_id in found:
                        raise InvalidInput(f"{file}, line {number}: its id was there before")
                    found[conversation.conversation_id] = conversation
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from error
    if not found:
        raise InvalidInput(f"{file} holds no conversation")
    return list(found.values())


def _by_language(file: Path) -> list[Conversation]:
    """Of `language, message, question, question in English`: what one person says in each language, in a fixed order."""
    spoken: defaultdict[str, list[list[str]]] = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            language, *columns = line.split("\t")
            spoken[language].append(columns)
    found = []
    for language, lines in spoken.items():
        Random(language).shuffle(lines)  # noqa: S311 - the same order every time
        messages: list[dict[str, Any]] = []
        questions = []
        for number, (text, *asked) in enumerate(lines):
            message_id, said_at = f"{language}{number}", _FIRST_MS + number * _BETWEEN_MS
            messages.append(
                {
                    "message_id": message_id,
                    "sender_id": "me",
                    "role": "user",
                    "timestamp": said_at,
                    "content": text,
                }
            )
            questions += [
                Question(question, category, frozenset([message_id]))
                for category, question in zip(("same language", "in English"), asked, strict=False)
            ]
        found.append(Conversation(language, messages, questions))
    return found


def _opened(file: Path) -> TextIO:
    if file.suffix == ".gz":
        return TextIOWrapper(gzip.open(file), encoding="utf-8")
    return file.open(encoding="utf-8")


def _conversation(line: str, place: str) -> Conversation:
    try:
        raw: dict[str, Any] = json.loads(line)
        checked = _Line.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "conversation"
        raise InvalidInput(f"{place}, {field}: {first['msg']}") from error
    except ValueError as error:
        raise InvalidInput(f"{place} is not valid JSON: {error}") from error
    questions = [
        Question(item.question, item.category or "none", frozenset(item.evidence))
        for item in checked.questions
    ]
    return Conversation(checked.id, raw["messages"], questions)
