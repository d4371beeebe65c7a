"""Asking a model where memcells end, over any endpoint that speaks OpenAI's protocol."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx2

from recollect.errors import ModelUnavailable
from recollect.memory.boundary import BoundaryAnswer, parse_answer
from recollect.memory.boundary_prompt import ANSWER_SCHEMA, boundary_prompt
from recollect.memory.model import JsonObject, Turn

MAX_ANSWER_BYTES = 64 * 1024
MAX_LISTING_BYTES = 4 * 1024 * 1024
PAUSE_SECONDS = 0.5

_TRANSIENT = frozenset({408, 425, 429})
_FORMAT_REFUSED = frozenset({400, 422})
_RESPONSE_FORMAT: JsonObject = {
    "type": "json_schema",
    "json_schema": {"name": "boundaries", "strict": True, "schema": ANSWER_SCHEMA},
}


class BoundaryModel:
    """A model that says where memcells end. Calls may run at the same time; `aclose` ends its use.

    `base_url` is the server's address with or without its version: `http://host:8080`, `…/v1` and `…/v1/`
    are the same; a path that names a version somewhere (`…/v1beta/openai`) is used as it is.
    Without a `model`, the first one that the server lists is used from then on.
    Error messages name the server's status or the flaw in its answer, and never quote either.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str | None,
        api_key: str | None,
        timeout: float = 60,
        attempts: int = 3,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        client: httpx2.AsyncClient | None = None,
    ) -> None:
        self._api = _api_root(base_url)
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        self._attempts = max(1, attempts)
        self._pause = pause
        self._owns_client = client is None
        self._client = httpx2.AsyncClient() if client is None else client
        self._takes_format = True

    async def aclose(self) -> None:
        """Close the connections, unless the client was passed in: then it is its owner's to close."""
        if self._owns_client:
            await self._client.aclose()

    async def ask(self, turns: Sequence[Turn]) -> BoundaryAnswer:
        """The model's valid answer, within `timeout` seconds in all; else `ModelUnavailable`.

        Invalid answers, failing connections and errors that may pass are tried `attempts` times in all.
        Cancelling drops the connection, so that the server stops working at once.
        """
        messages = boundary_prompt(turns)
        trouble = "it did not answer"
        try:
            async with asyncio.timeout(self._timeout):
                for attempt in range(1, self._attempts + 1):
                    try:
                        return _valid_answer(await self._complete(messages))
                    except (_FailedTryError, httpx2.RequestError) as error:
                        trouble = str(error) or type(error).__name__
                    if attempt < self._attempts:
                        await self._pause(PAUSE_SECONDS * attempt)
        except TimeoutError:
            raise ModelUnavailable(f"the model took more than {self._timeout:g} s: {trouble}") from None
        raise ModelUnavailable(f"the model failed {self._attempts} times: {trouble}")

    async def _complete(self, messages: list[JsonObject]) -> str:
        body: JsonObject = {
            "model": await self._model_name(),
            "messages": messages,
            "temperature": 0,
            "stream": True,
        }
        if self._takes_format:
            try:
                return await self._post({**body, "response_format": _RESPONSE_FORMAT})
            except _FormatRefusedError:
                text = await self._post(body)
                self._takes_format = False
                return text
        return await self._post(body)

    async def _post(self, body: JsonObject) -> str:
        request = self._client.stream(
            "POST", f"{self._api}/chat/completions", json=body, headers=self._headers, timeout=self._timeout
        )
        async with request as response:
            if response.status_code in _FORMAT_REFUSED and "response_format" in body:
                raise _FormatRefusedError
            _check_status(response)
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                return await _streamed_text(response)
            return _choice_text(await _bounded_json(response, MAX_ANSWER_BYTES), "message")

    async def _model_name(self) -> str:
        if self._model is None:
            request = self._client.stream(
                "GET", f"{self._api}/models", headers=self._headers, timeout=self._timeout
            )
            async with request as response:
                _check_status(response)
                self._model = _first_model(await _bounded_json(response, MAX_LISTING_BYTES))
        return self._model


class _FailedTryError(Exception):
    """The server failed in a way that may pass, or its answer is of no use."""


class _FormatRefusedError(Exception):
    """The server does not take this response_format, or not this request at all."""


def _api_root(base_url: str) -> str:
    root = base_url.rstrip("/")
    if not re.match(r"https?://[^/]", root):
        raise ValueError("the base URL of a model must begin with http:// or https://")
    names_version = re.search(r"/v\d+[a-z]*\d*(?=/|$)", root)
    return root if names_version else f"{root}/v1"


def _check_status(response: httpx2.Response) -> None:
    status = response.status_code
    if status >= 500 or status in _TRANSIENT:
        raise _FailedTryError(f"the server answered {status}")
    if status != 200:
        raise ModelUnavailable(f"the model's server answered {status} to {response.request.url.path}")


def _valid_answer(text: str) -> BoundaryAnswer:
    try:
        return parse_answer(text)
    except ValueError as error:
        raise _FailedTryError(str(error)) from None


async def _streamed_text(response: httpx2.Response) -> str:
    pieces: list[str] = []
    size = 0
    async for event in httpx2.EventSource(response, max_event_size=MAX_ANSWER_BYTES):
        if event.data.strip() == "[DONE]":
            break
        if event.data:
            pieces.append(_choice_text(_json(event.data), "delta"))
            size += len(pieces[-1].encode("utf-8", "replace"))
        if size > MAX_ANSWER_BYTES:
            raise _FailedTryError(f"the answer exceeds {MAX_ANSWER_BYTES} bytes")
    return "".join(pieces)


async def _bounded_json(response: httpx2.Response, limit: int) -> Any:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            raise _FailedTryError(f"the answer exceeds {limit} bytes")
    return _json(body)


def _json(text: str | bytearray) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _FailedTryError("the server sent something that is not JSON") from None


def _choice_text(completion: Any, part: str) -> str:
    """The text of the first choice; a chunk without choices or without text (usage, a role) has none."""
    try:
        if completion.get("error"):
            raise _FailedTryError("the server reported an error in its answer")
        choices = completion["choices"]
        text = choices[0][part].get("content") if choices else None
    except (AttributeError, IndexError, KeyError, TypeError):
        raise _FailedTryError("the server's answer is not a chat completion") from None
    return text if isinstance(text, str) else ""


def _first_model(listing: Any) -> str:
    try:
        return str(listing["data"][0]["id"])
    except (IndexError, KeyError, TypeError):
        raise _FailedTryError("the server lists no model") from None
