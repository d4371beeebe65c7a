"""A model backend over HTTP, for every engine."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx2

from recollect.domain.llm import (
    BackendFacts,
    ChatCall,
    Delta,
    Finished,
    Sent,
    StreamEvent,
    find_model,
    is_alias,
    nearest_names,
)
from recollect.domain.model import JsonObject
from recollect.errors import ModelRefused, ModelTooSlow, ModelUnavailable, StreamBroken, UnknownModel
from recollect.infra.backends.address import cloud_kind
from recollect.infra.backends.anthropic import Anthropic
from recollect.infra.backends.dialect import (
    AnswerReader,
    Dialect,
    EndlessLineError,
    Outgoing,
    StrangeAnswerError,
    dict_of,
    guess_tokens,
)
from recollect.infra.backends.facts import REPLACED, ServerFacts, local_of
from recollect.infra.backends.ollama import Ollama
from recollect.infra.backends.openai_compatible import (
    BatchingServer,
    LlamaCpp,
    LmStudio,
    OpenAi,
    OpenAiCompatible,
    OpenRouter,
    Vllm,
)
from recollect.infra.backends.refusals import EXTRAS_REFUSED, code_of, hint, refusal
from recollect.infra.backends.server import (
    Endpoint,
    ModelServer,
    Patience,
    StaleConnectionError,
    StatusError,
    parsed_json,
)
from recollect.infra.off_loop import off_loop
from recollect.infra.secrets import mask_json, mask_secrets
from recollect.setting_groups import BackendKind


def merged(ends: Sequence[Finished]) -> Finished:
    """Sum of several requests for one prompt: prompt tokens count once, answer tokens add up."""
    first = ends[0]
    written = [end.usage.completion_tokens for end in ends if end.usage.completion_tokens is not None]
    return Finished(
        {choice: next(iter(end.reasons.values()), "stop") for choice, end in enumerate(ends)},
        replace(first.usage, completion_tokens=sum(written) if written else None),
        first.model,
    )


DIALECTS: dict[BackendKind, Dialect] = {
    "llama.cpp": LlamaCpp(),
    "lmstudio": LmStudio(),
    "vllm": Vllm(),
    "sglang": BatchingServer(),
    "ollama": Ollama(),
    "openai": OpenAi(),
    "anthropic": Anthropic(),
    "openrouter": OpenRouter(),
    "other": OpenAiCompatible(),
}


_NAME_REQUIRED = frozenset({"ollama", "anthropic", "openai", "openrouter"})


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


class HttpBackend:
    """A model's server. Calls may run at the same time; `aclose` ends its use."""

    label: str | None = None
    """A note shown with its answers; None for a model that people chose."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = endpoint.name
        self.server = endpoint.address
        """Host and port: the same for all names that one server has."""
        self.gate_group = endpoint.gate_group or endpoint.address
        self._endpoint = endpoint
        # A proxy of the environment is for the world outside: it could not reach what is local.
        outside = not local_of(endpoint, endpoint.kind or cloud_kind(endpoint.base_url))
        self._server = ModelServer(
            endpoint, trust_proxies=outside, transport=transport, monotonic=monotonic, now=now
        )
        self._facts = ServerFacts(endpoint, self._server, self._ask, monotonic=monotonic)

    @property
    def reads_pdf(self) -> bool:
        """Whether its models take PDF files as they are, as far as that is known without asking it."""
        return (self._endpoint.kind or cloud_kind(self._endpoint.base_url)) == "anthropic"

    @property
    def last_activity(self) -> datetime | None:
        """When the server last sent anything."""
        return self._server.last_activity

    def problem(self) -> str | None:
        return self._facts.problem

    async def aclose(self) -> None:
        await self._server.aclose()

    async def facts(self) -> BackendFacts:
        """Facts about the server. Cached until a call suggests that they are stale."""
        return await self._facts.get()

    async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        """Sent, Deltas, Finished. Closing it drops the request at once.

        If another engine has taken the server's place since it was asked, the call is sent again in its dialect.
        """
        try:
            facts, has_begun = await self._facts.get(), False
            while True:
                try:
                    async with aclosing(self._answers(call, facts)) as events:
                        async for event in events:
                            has_begun = has_begun or isinstance(event, Delta)
                            yield event
                    break
                except StatusError as refused:
                    self._facts.after_status(refused.status)
                    if has_begun or refused.status not in REPLACED:
                        raise
                    before, facts = facts, await self._facts.get()
                    if facts.kind == before.kind:
                        raise
        except StatusError as refused:
            self._facts.problem = refused.error.message
            raise refused.error from None
        except ModelUnavailable as error:
            self._facts.after(error)
            raise
        self._facts.problem = None

    async def count_tokens(self, text: str) -> int:
        """By llama.cpp's tokenizer; a careful guess for other engines, and whenever it doesn't answer."""
        try:
            facts = await self.facts()
            if facts.kind == "llama.cpp":
                if self._endpoint.masks_secrets and not facts.local:
                    text, _ = await asyncio.to_thread(mask_secrets, text)
                answer = await self._ask("/tokenize", {"content": text})
                if isinstance(answer, dict) and isinstance(answer.get("tokens"), list):
                    return len(answer["tokens"])
        except ModelUnavailable as error:
            self._facts.after(error)
        except StatusError:
            # It has no tokenizer, or is another server by now: the next chat tells.
            return await off_loop(text, lambda: guess_tokens(text))
        return await off_loop(text, lambda: guess_tokens(text))

    async def _answers(self, call: ChatCall, facts: BackendFacts) -> AsyncGenerator[StreamEvent]:
        """One request, or one for each choice of a server that gives one at a time."""
        masked = 0
        if self._endpoint.masks_secrets and not facts.local:
            parts = (call.messages, call.options)
            (messages, options), masked = await asyncio.to_thread(mask_json, parts)
            call = replace(call, messages=messages, options=options)
        model = await self._model(call.model, facts)
        dialect = DIALECTS[facts.kind]
        extras = self._facts.takes_extras and call.extras
        outgoing = Outgoing(call, model, facts, extras, self._endpoint.keep_alive)
        requests = 1 if dialect.takes_choices else call.choices
        if requests > 1:
            outgoing = replace(outgoing, call=replace(call, choices=1))
        ends: list[Finished] = []
        for choice in range(requests):
            async with aclosing(self._answer(dialect, outgoing)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        ends.append(event)
                    elif isinstance(event, Delta):
                        yield replace(event, choice=choice) if requests > 1 else event
                    elif choice == 0:
                        yield replace(event, secrets_masked=masked)
        yield merged(ends) if requests > 1 else ends[0]

    async def _answer(self, dialect: Dialect, outgoing: Outgoing) -> AsyncGenerator[StreamEvent]:
        """A server that refuses the extras is asked once more without them, unless it names another field."""
        full, bare = dialect.payload(outgoing), dialect.payload(replace(outgoing, extras=False))
        try:
            async with aclosing(self._sent(dialect, outgoing, full)) as events:
                async for event in events:
                    yield event
            return
        except StatusError as refused:
            named = refused.error.field
            if refused.status not in EXTRAS_REFUSED or bare == full or named in bare:
                raise
            if named is not None:
                self._facts.takes_extras = False  # It says so itself.
        async with aclosing(self._sent(dialect, outgoing, bare)) as events:
            async for event in events:
                if not isinstance(event, Sent):
                    self._facts.takes_extras = False  # It answers now: it was the extras.
                yield event

    async def _sent(
        self, dialect: Dialect, outgoing: Outgoing, body: JsonObject
    ) -> AsyncGenerator[StreamEvent]:
        """One request; a second one where the connection of the first may have been closed before."""
        headers = dialect.headers(self._endpoint.key)
        for is_second in (False, True):
            yield Sent(body)
            answer = Answer(self._server, self._endpoint.patience, dialect, outgoing)
            try:
                async with (
                    self._server.open(dialect.route, headers, body) as response,
                    aclosing(answer.read(response)) as events,
                ):
                    async for event in events:
                        yield event
                return
            except StaleConnectionError:
                if is_second:
                    raise

    async def _ask(self, route: str, body: JsonObject | None) -> Any:
        kind = self._endpoint.kind or cloud_kind(self._endpoint.base_url) or "other"
        return await self._server.ask(route, DIALECTS[kind].headers(self._endpoint.key), body)

    async def _model(self, asked: str | None, facts: BackendFacts) -> str | None:
        """The name to send. A name that is not in the list is looked for once more in a fresh one."""
        wanted = asked or self._endpoint.model
        if wanted is None:
            if not facts.models and facts.kind in _NAME_REQUIRED:
                raise ModelRefused(f"{self._server.who} lists no model, and none is set.")
            return next(iter(facts.models), None)
        if not facts.selects_by_name or not facts.models:
            return wanted
        found = find_model(wanted, facts.models)
        if found is None:
            facts = await self._facts.ask_again()
            found = find_model(wanted, facts.models)
        if found is None and not facts.local and is_alias(wanted, facts.models):
            return wanted
        if found is None:
            names = ", ".join(nearest_names(wanted, facts.models))
            raise UnknownModel(f"{self._server.who} has no model {wanted!r}. It has: {names}", field="model")
        return found
