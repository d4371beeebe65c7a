"""Reads a streamed answer: lines and events out of bytes, text and thoughts out of events."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import httpx2

from recollect.domain.llm import Delta, Finished
from recollect.domain.model import JsonObject
from recollect.errors import ModelRefused, ModelTooSlow, ModelUnavailable, StreamBroken
from recollect.infra.backends.dialect import (
    AnswerReader,
    Dialect,
    EndlessLineError,
    Outgoing,
    StrangeAnswerError,
    dict_of,
)
from recollect.infra.backends.refusals import code_of, hint, refusal
from recollect.infra.backends.server import ModelServer, Patience, parsed_json

_OPEN = "<think>"
_CLOSE = "</think>"


class ThoughtSplitter:
    """Takes an answer piece by piece. `<think>…</think>` at its very start is reasoning; later ones are text.

    Line breaks next to the tags are neither's.
    """

    def __init__(self) -> None:
        self._state = "start"
        self._thought_of_something = False
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """(text, reasoning) that are certain now; what may be part of a tag is held back."""
        if self._state == "answer":
            return text, ""
        self._held += text
        if self._state == "start":
            return self._at_start()
        if self._state == "thinking":
            return self._thinking()
        return self._after()

    def flush(self) -> tuple[str, str]:
        """What was held back when the answer ended."""
        held, self._held = self._held, ""
        return ("", held) if self._state == "thinking" else ("" if self._state == "after" else held, "")

    def _at_start(self) -> tuple[str, str]:
        seen = self._held.lstrip()
        if seen.startswith(_OPEN):
            self._state, self._held = "thinking", seen[len(_OPEN) :]
            return self._thinking()
        if _OPEN.startswith(seen):
            return "", ""
        return self._answer(self._held), ""

    def _thinking(self) -> tuple[str, str]:
        if not self._thought_of_something:
            self._held = self._held.lstrip("\n")
        thought, closed, rest = self._held.partition(_CLOSE)
        if closed:
            self._state, self._held = "after", rest
            return self._after()[0], thought.rstrip("\n")
        tag = next(n for n in range(len(_CLOSE) - 1, -1, -1) if self._held.endswith(_CLOSE[:n]))
        certain = self._held[: len(self._held) - tag].rstrip("\n")
        self._held = self._held[len(certain) :]
        self._thought_of_something = self._thought_of_something or bool(certain)
        return "", certain

    def _after(self) -> tuple[str, str]:
        rest = self._held.lstrip("\n")
        return (self._answer(rest), "") if rest else ("", "")

    def _answer(self, text: str) -> str:
        self._state, self._held = "answer", ""
        return text


REST_SECONDS = 5.0
"""How long the counts of a complete answer are waited for."""
CLOSE_SECONDS = 0.2
"""How long the end of a stream that said its last word is waited for; then its connection is not used again."""
_STATUS = {
    **{str(status): status for status in (429, 500, 502, 503, 504, 529)},
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "api_error": 500,
    "server_error": 500,
}
"""Codes of temporary errors that arrive in place of an answer, as OpenRouter, OpenAI and Anthropic send them."""
_NOT_OURS = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


class Answer:
    """One answer of a server, read once."""

    def __init__(self, server: ModelServer, patience: Patience, dialect: Dialect, outgoing: Outgoing) -> None:
        self._server = server
        self._patience = patience
        self._asked = outgoing.call
        self._framing = dialect.framing()
        self._reader: AnswerReader = dialect.reader(outgoing)
        self._started = False
        self._done = False

    async def read(self, response: httpx2.Response) -> AsyncGenerator[Delta | Finished]:
        """Ends with Finished, or raises."""
        sent = response.headers.get("content-type", "")
        if sent.startswith("text/html"):
            raise StreamBroken(
                f"{self._server.who} sent a web page in place of an answer. Check its address."
            )
        if sent.startswith("application/json"):
            for delta in self._deltas(await self._server.whole(response)):
                yield delta
            self._done = True
        else:
            async with aclosing(self._stream(response)) as deltas:
                async for delta in deltas:
                    yield delta
        if not (self._done or self._reader.complete):
            raise StreamBroken(f"the answer of {self._server.who} broke off before its end.")
        if not self._reader.begun:
            raise StreamBroken(f"{self._server.who} sent an answer with nothing in it.")
        for delta in self._reader.flush():
            yield delta
        yield self._reader.finished()

    async def _stream(self, response: httpx2.Response) -> AsyncGenerator[Delta]:
        try:
            async with aclosing(self._server.chunks(response, self._seconds)) as chunks:
                async for chunk in chunks:
                    if self._done:
                        return
                    for delta in self._read_events(self._framing.feed(chunk)):
                        yield delta
            for delta in self._read_events(self._framing.flush()):
                yield delta
        except EndlessLineError:
            raise StreamBroken(f"{self._server.who} sent a line without an end.") from None
        except ModelTooSlow:
            if not (self._done or self._reader.complete):
                raise

    def _seconds(self) -> float:
        if self._done:
            return CLOSE_SECONDS
        if self._reader.complete:
            return REST_SECONDS
        return self._patience.stall if self._started else self._patience.first_token

    def _read_events(self, framed: Iterator[bytes]) -> Iterator[Delta]:
        for data in framed:
            if data == b"[DONE]":
                self._done = True
            elif not self._done:
                yield from self._deltas(parsed_json(data, self._server.who))

    def _deltas(self, event: Any) -> Iterator[Delta]:
        if not isinstance(event, dict):
            raise StreamBroken(f"{self._server.who} sent something that is no part of an answer.")
        if event.get("error") or "error" in (event.get("object"), event.get("type")):
            raise self._error(event)
        try:
            for delta in self._reader.read(event):
                self._started = True
                yield delta
        except StrangeAnswerError as error:
            raise StreamBroken(f"{self._server.who} sent {error}.") from error
        except _NOT_OURS as error:
            raise StreamBroken(f"{self._server.who} sent something that is no part of an answer.") from error

    def _error(self, event: JsonObject) -> ModelUnavailable:
        self._server.log_original(event, (self._asked.messages, self._asked.options))
        if self._started:
            return StreamBroken(f"{self._server.who} failed in the middle of its answer.{hint(event)}")
        error = dict_of(event.get("error"))
        status = next(
            (known for name in ("code", "type") if (known := _STATUS.get(str(error.get(name))))), None
        )
        if status is not None:
            return refusal(self._server.who, status, event, None, None)
        status = error.get("code") if isinstance(error.get("code"), int) else None
        words = f"{self._server.who} gave no answer: it reported an error.{hint(event)}"
        return ModelRefused(words, code=code_of(event, status))
