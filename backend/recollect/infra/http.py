"""Connection pools that close idle connections."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2


def closing_to_the_end(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """The client, whose pool closes all that it lets go of.

    A request first closes the connections that have expired since the last one. It is shielded there from a
    cancellation of anyio's alone: one of asyncio's, as every `asyncio.timeout` is, would leave those that come after
    the first to the garbage collector.
    """
    pool: Any = getattr(client._transport, "_pool", None)  # noqa: SLF001 - it has no other place to hold on to
    if pool is not None:
        pool._close_connections = _shielded(pool._close_connections)  # noqa: SLF001
    return client


async def close_expired(client: httpx2.AsyncClient) -> None:
    """Close the connections that were idle for too long: the client itself does so with its next request alone."""
    pool: Any = getattr(client._transport, "_pool", None)  # noqa: SLF001
    if pool is not None:
        await pool._close_connections(pool._assign_requests_to_connections())  # noqa: SLF001


def _shielded(close: Callable[[list[Any]], Awaitable[None]]) -> Callable[[list[Any]], Awaitable[None]]:
    async def close_all(connections: list[Any]) -> None:
        if connections:
            await asyncio.shield(asyncio.ensure_future(close(connections)))

    return close_all
