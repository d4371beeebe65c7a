"""The official MCP client starts `recollect mcp` itself, as agents do."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from recollect.infra.home_lock import current_holder
from tests.forking import BACKEND
from tests.http_client import QUICK
from tests.processes import Server, environment, recollect

QUIET = {**QUICK, "RECOLLECT_EMBEDDING__KIND": "none", "RECOLLECT_LLM__DISCOVER": "false"}


def program(home: Path, *arguments: str) -> StdioServerParameters:
    given = {**environment(home, QUIET), "PYTHONPATH": str(BACKEND)}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "recollect", "mcp", *arguments], env=given, cwd=BACKEND
    )


@asynccontextmanager
async def started(home: Path, *arguments: str, mode: Any = "auto") -> AsyncIterator[Client]:
    async with Client(stdio_client(program(home, *arguments)), mode=mode) as client:
        yield client


async def remembered(client: Client, text: str) -> None:
    assert not (await client.call_tool("remember", {"text": text})).is_error


async def texts(client: Client, query: str) -> list[str]:
    found = (await client.call_tool("search_memory", {"query": query})).structured_content
    return [each["text"] for each in (found or {})["memories"]]


async def test_an_agent_talks_to_the_server_that_runs_on_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server(home, QUIET) as server:

        async def talk(mode: str) -> None:
            async with started(home, "--user", "añn", mode=mode) as client:
                await remembered(client, f"The {mode} umbrella is in the hall.")
                assert f"The {mode} umbrella is in the hall." in await texts(client, f"{mode} umbrella")

        await asyncio.gather(talk("2026-07-28"), talk("legacy"))
        search = {"user_id": "añn", "query": "umbrella", "types": ["turn"]}
        hits = server.client.post("/api/v1/memory/search", json=search).json()["hits"]
        assert {hit["sender_id"] for hit in hits} == {"añn"}
        assert len(hits) == 2


async def exchanged(home: Path, *lines: bytes, arguments: tuple[str, ...] = ()) -> list[Any]:
    """What the program answers to lines, each as JSON; it ends by itself when stdin does."""
    command = program(home, *arguments)
    process = await asyncio.create_subprocess_exec(
        command.command, *command.args, env=command.env, cwd=BACKEND, stdin=-1, stdout=-1, stderr=-1
    )
    output, errors = await process.communicate(b"".join(line + b"\n" for line in lines))
    assert process.returncode == 0, errors
    return [json.loads(line) for line in output.splitlines()]


async def test_stdout_has_nothing_but_answers_whatever_is_sent(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ping = b'{"jsonrpc": "2.0", "id": "p", "method": "ping"}'
    with Server(home, QUIET):
        answers = await exchanged(
            home,
            b"hello",
            b"",
            b"[]",
            b"7",
            b'{"id": 3}',
            b'{"method": "notifications/x", "jsonrpc": "2.0"}',
            ping,
        )
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert {answer["id"]: "error" in answer for answer in answers} == {None: True, 3: True, "p": False}


@pytest.mark.slow
async def test_without_a_server_agents_share_the_home_and_take_over_from_each_other(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = "The spare key is under the flowerpot."
    ready, leave = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with started(home, "--user", "ann") as client:
            await remembered(client, said)
            ready.set()
            await leave.wait()

    holding = asyncio.create_task(first())
    await ready.wait()
    holder = current_holder(home)
    async with started(home, "--user", "ann") as second:
        assert await texts(second, "spare key") == [said]
        listed = recollect(home, "threads", "--user", "ann", "--json")
        assert len(json.loads(listed.stdout)["threads"]) == 1, "commands find it too"
        assert current_holder(home) == holder
        leave.set()
        await holding
        assert said in await texts(second, "spare key")
        assert current_holder(home) not in (None, holder)
    assert current_holder(home) is None


@pytest.mark.slow
async def test_a_key_says_whose_memory_it_is_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = recollect(home, "keys", "create", "--user", "bob", "--json")
    with Server(home, QUIET) as server:
        async with started(
            home, "--url", f"{server.address}/mcp", "--key", json.loads(made.stdout)["secret"]
        ) as bob:
            await remembered(bob, "My locker has the number 12.")
            assert await texts(bob, "locker") == ["My locker has the number 12."]
        async with started(home) as me:
            assert await texts(me, "locker") == []
        ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
        (refused,) = await exchanged(home, ping, arguments=("--key", "rk_wrong"))
        assert refused["error"]["data"]["code"] == "key_required"
