"""The embedder that asks a server which speaks OpenAI's protocol."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import numpy as np
import numpy.typing as npt

from recollect.domain.breaker import Breaker
from recollect.domain.recall.rows import Vectors
from recollect.errors import EmbedderUnavailable, TextRefused
from recollect.infra.backends.address import api_root
from recollect.infra.backends.server import tls_context
from recollect.infra.embedders.onnx_model import unit_vectors, valid_text
from recollect.infra.secrets import mask_json

MAX_ANSWER_BYTES = 64 * 1024 * 1024
_PAUSES = (0, 0, 5.0)
MAX_CHARS = 8000
"""Of one text; common models take 8,191 tokens and refuse a request that holds a longer text."""

_REFUSALS = frozenset({400, 413, 422})
"""Statuses with which a server refuses a text. Any other error may be temporary."""

_LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=2, keepalive_expiry=4)
"""Many searches at once need many connections for a moment; the batches that follow need one."""


class OpenAiEmbedder:
    """Calls may run at the same time; `aclose` ends its use.

    `base_url` is the server's address with or without its version: `http://host:8080`, `…/v1` and `…/v1/`
    are the same; a path that names a version somewhere (`…/v1beta/openai`) is used as it is.
    After three failures in a row it fails at once for five seconds; then a single call asks again.
    TextRefused tells a text that the server does not take (it answers 400, 413 or 422), which is no failure.
    Error messages name the server's status or the flaw in its answer, and never quote either.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str | None,
        timeout: float = 30,
        dimensions: int | None = None,
        batch: int = 64,
        masks_secrets: bool = False,
        clock: Callable[[], float] = time.monotonic,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._address = f"{api_root(base_url)}/embeddings"
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        self._asked_dimensions = dimensions
        self._dimensions = dimensions
        self._batch = batch
        self._masks_secrets = masks_secrets
        self._breaker = Breaker(clock, _PAUSES)
        self._client = httpx2.AsyncClient(
            limits=_LIMITS, transport=transport, verify=tls_context(trust_env=True)
        )

    @property
    def name(self) -> str:
        return self._model

    def problem(self) -> str | None:
        """What is wrong with it, as far as its last call showed; None when that went well."""
        return self._breaker.cause or None

    def unknown_share(self, text: str) -> float:
        """0: the server does not tell."""
        return 0.0

    async def aclose(self) -> None:
        await self._client.aclose()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector a text, `timeout` seconds at most for a request of `batch` texts."""
        if not texts:
            return np.zeros((0, 0), np.float32)
        parts = [
            await self._embed_batch(texts[first : first + self._batch])
            for first in range(0, len(texts), self._batch)
        ]
        return np.concatenate(parts)

    async def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        if (refused := self._breaker.refuses()) is not None:
            raise EmbedderUnavailable(f"the embedding server is not asked: {refused}")
        if self._masks_secrets:
            texts, _ = await asyncio.to_thread(mask_json, list(texts))
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._post(texts)
            vectors = unit_vectors(await asyncio.to_thread(_vectors, answer, len(texts)))
            self._check_dimensions(vectors.shape[1])
        except TextRefused:
            self._breaker.succeeded()  # It answers, and may take another text.
            raise
        except EmbedderUnavailable as error:
            self._breaker.failed(error.message)
            raise
        except TimeoutError:
            raise self._failure(f"the embedding server took more than {self._timeout:g} s") from None
        except httpx2.RequestError as error:
            raise self._failure(f"the embedding server cannot be reached ({type(error).__name__})") from error
        self._breaker.succeeded()
        return vectors

    async def _post(self, texts: Sequence[str]) -> bytearray:
        # An empty text is refused by servers; a blank one is not.
        body: dict[str, Any] = {
            "model": self._model,
            "input": [valid_text(text, MAX_CHARS) or " " for text in texts],
        }
        if self._asked_dimensions is not None:
            body["dimensions"] = self._asked_dimensions
        request = self._client.stream("POST", self._address, json=body, headers=self._headers, timeout=None)
        async with request as response:
            if response.status_code != 200:
                kind = TextRefused if response.status_code in _REFUSALS else EmbedderUnavailable
                raise kind(f"the embedding server answered {response.status_code}")
            answer = bytearray()
            async for chunk in response.aiter_bytes():
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise EmbedderUnavailable(
                        f"the embedding server's answer exceeds {MAX_ANSWER_BYTES} bytes"
                    )
            return answer

    def _check_dimensions(self, found: int) -> None:
        if self._dimensions is None:
            self._dimensions = found
        if found != self._dimensions:
            raise EmbedderUnavailable(
                f"the embedding server answered with vectors of {found} dimensions, not of {self._dimensions}"
            )

    def _failure(self, cause: str) -> EmbedderUnavailable:
        self._breaker.failed(cause)
        return EmbedderUnavailable(cause)


def _vectors(answer: bytearray, count: int) -> npt.NDArray[np.floating]:
    """The vectors in the order of the texts."""
    try:
        items = json.loads(answer)["data"]
        rows = {item.get("index", place): item["embedding"] for place, item in enumerate(items)}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise EmbedderUnavailable("the embedding server's answer holds no embeddings") from None
    if len(items) != count:
        raise EmbedderUnavailable(f"the embedding server answered with {len(items)} vectors to {count} texts")
    if rows.keys() != set(range(count)) or not all(type(place) is int for place in rows):
        raise EmbedderUnavailable("the embedding server's answer does not say which vector is which text's")
    try:
        vectors = np.array([rows[place] for place in range(count)])
    except ValueError:
        raise EmbedderUnavailable("the embedding server answered with vectors of several lengths") from None
    if vectors.dtype.kind not in "fi" or vectors.ndim != 2 or vectors.shape[1] == 0:
        raise EmbedderUnavailable("the embedding server's vectors are no lists of numbers")
    return vectors
