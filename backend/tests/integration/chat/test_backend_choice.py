"""Which backend a name means, and what is found where none is configured."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.llm import ChatCall, Delta
from recollect.errors import BackendDown, HomeUnusable, InvalidInput
from recollect.infra.backends.configured import Backends, FoundBackend
from recollect.infra.backends.local_model import SMOLLM2
from recollect.infra.backends.server import Endpoint
from recollect.settings import load_settings
from tests.standins.standin_engines import StandInEngine

PLENTY = 10.0
"""Seconds for a server's first words on a machine that has much else to do."""
CALL = ChatCall([{"role": "user", "content": "Hello there"}])
DEFAULT = Endpoint(name="default", base_url="http://127.0.0.1")


@pytest.fixture(scope="module")
def ollama() -> Iterator[StandInEngine]:
    with StandInEngine("ollama") as running:
        yield running


@pytest.fixture(scope="module")
def llama() -> Iterator[StandInEngine]:
    with StandInEngine("llama.cpp") as running:
        yield running


@pytest.fixture
async def backends_of(tmp_path: Path) -> AsyncIterator[Any]:
    """Backends of the given settings."""
    opened: list[Backends] = []

    def of(*, addresses: list[str] | None = None, small_model: Any = None, **settings: Any) -> Backends:
        loaded = load_settings(home=tmp_path, **settings)
        opened.append(Backends(loaded, small_model, addresses=addresses or [], probe_seconds=PLENTY))
        return opened[-1]

    yield of
    for backends in opened:
        await backends.aclose()


async def answer_of(backend: Any) -> str:
    async with aclosing(backend.stream(CALL)) as events:
        return "".join([event.text async for event in events if isinstance(event, Delta)])


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


# --- by name --------------------------------------------------------------------------------------------------


def test_backends_are_got_by_name_and_the_default_without(backends_of: Any) -> None:
    gpu = {"base_url": "http://10.0.0.7:8000/v1", "model": "big", "models": ["small"]}
    cloud = {"base_url": "https://api.openai.com"}
    backends = backends_of(llm={"base_url": "http://127.0.0.1:1/v1"}, backends={"gpu": gpu, "cloud": cloud})
    assert backends.get("gpu").name == "gpu"
    assert backends.get().name == backends.get("default").name == "default"
    assert (backends.names, backends.configured) == (["default", "gpu", "cloud"], True)
    assert [backends.configured_models(name) for name in ("gpu", "default")] == [("big", "small"), ()]
    first = backends_of(backends={"gpu": gpu, "b": {"base_url": "http://b"}})
    assert first.get() is first.get("gpu"), "without a default of its own the first named one is it"
    assert first.get("b").gate_group == "b:80"
    with pytest.raises(InvalidInput, match=r"no backend 'gpo'. Configured: default, gpu, b") as raised:
        first.get("gpo")
    assert raised.value.field == "backend"


def test_a_further_backend_cannot_take_the_name_of_the_default(backends_of: Any) -> None:
    with pytest.raises(HomeUnusable, match="'default' has settings of its own"):
        backends_of(backends={"default": {"base_url": "http://10.0.0.7:8000"}})


def test_backends_at_one_address_are_one_server_and_share_a_gate_unless_a_group_is_set(
    backends_of: Any,
) -> None:
    backends = backends_of(
        llm={"base_url": "http://localhost:8080/v1"},
        backends={
            "same": {"base_url": "http://127.0.0.1:8080"},
            "grouped": {"base_url": "http://127.0.0.1:8080", "gate_group": "card 0"},
        },
        tasks={"model": "another"},
    )
    default, same, grouped = (backends.get(name) for name in (None, "same", "grouped"))
    assert {each.server for each in (default, same, grouped, backends.tasks)} == {"127.0.0.1:8080"}
    assert default.gate_group == same.gate_group == "127.0.0.1:8080"
    assert grouped.gate_group == "card 0"


def test_background_work_goes_to_its_own_backend_where_there_is_one(backends_of: Any) -> None:
    alone = backends_of(llm={"base_url": "http://127.0.0.1:1"})
    assert alone.tasks is alone.get()
    apart = backends_of(llm={"base_url": "http://127.0.0.1:1"}, tasks={"base_url": "http://127.0.0.1:2"})
    assert (apart.tasks.name, apart.tasks.gate_group) == ("tasks", "127.0.0.1:2")
    assert len(apart.all()) == 2


async def test_background_work_may_use_another_model_of_the_same_server(
    backends_of: Any, ollama: StandInEngine
) -> None:
    backends = backends_of(llm={"base_url": ollama.base_url}, tasks={"model": "qwen3:8b"})
    await answer_of(backends.tasks)
    await answer_of(backends.get())
    assert [body["model"] for body in ollama.chats()[-2:]] == ["qwen3:8b", "llama3.2:latest"]
    assert backends.tasks.gate_group == backends.get().gate_group


async def test_key_and_headers_reach_the_server(backends_of: Any, llama: StandInEngine) -> None:
    server = {"base_url": llama.base_url, "api_key": "k-12345", "headers": {"X-Team": "blue"}}
    await answer_of(backends_of(backends={"gpu": server}).get("gpu"))
    headers = llama.requests()[-1]["headers"]
    assert (headers["authorization"], headers["x-team"]) == ("Bearer k-12345", "blue")


# --- found ----------------------------------------------------------------------------------------------------


async def test_with_nothing_configured_a_server_of_this_machine_is_found_by_what_it_is(
    backends_of: Any, ollama: StandInEngine
) -> None:
    before = len(ollama.requests())
    backends = backends_of(addresses=[free_address(), ollama.base_url])
    assert (backends.configured, backends.get().problem()) == (False, None)
    assert len(ollama.requests()) == before  # Nothing is looked for before it is needed.
    assert (await backends.get().facts()).kind == "ollama"
    assert await answer_of(backends.get()) == "You said: Hello there"


async def test_a_server_whose_engine_nobody_knows_is_not_found(backends_of: Any) -> None:
    with StandInEngine("other") as unknown:
        backends = backends_of(addresses=[unknown.base_url])
        with pytest.raises(BackendDown, match="no model is configured, and none was found"):
            await answer_of(backends.get())
    assert "no model is configured" in str(backends.get().problem())


async def test_nothing_is_looked_for_where_that_is_switched_off(
    backends_of: Any, llama: StandInEngine
) -> None:
    before = len(llama.requests())
    backends = backends_of(llm={"discover": False}, addresses=[llama.base_url])
    with pytest.raises(BackendDown, match=r"no model is configured\. Set RECOLLECT_LLM__BASE_URL"):
        await answer_of(backends.get())
    assert len(llama.requests()) == before


async def test_memory_has_a_model_where_one_is_configured_or_runs_here_and_not_by_the_small_one(
    backends_of: Any, llama: StandInEngine
) -> None:
    async def small_model() -> str:
        return llama.base_url

    assert await backends_of(llm={"base_url": free_address()}).has_model()
    assert await backends_of(tasks={"base_url": free_address()}).has_model()
    assert await backends_of(addresses=[llama.base_url]).has_model()
    assert not await backends_of(addresses=[free_address()], small_model=small_model).has_model()
    assert not await backends_of(addresses=[llama.base_url], llm={"discover": False}).has_model()


async def test_what_was_found_is_remembered_for_half_a_minute(llama: StandInEngine) -> None:
    now = 0.0
    nowhere = free_address()
    backend = FoundBackend(
        DEFAULT, addresses=[nowhere, llama.base_url], seconds=PLENTY, monotonic=lambda: now
    )
    assert (await backend.facts()).kind == "llama.cpp"
    asked = len(llama.requests())
    now = 29.0
    await backend.facts()
    assert len(llama.requests()) == asked
    now = 31.0
    await backend.facts()
    assert len(llama.requests()) > asked
    await backend.aclose()


async def test_where_none_is_found_the_small_model_is_used_until_there_is_one(
    llama: StandInEngine,
) -> None:
    started = 0

    async def small_model() -> str:
        nonlocal started
        started += 1
        return llama.base_url

    now = 0.0
    address = free_address()
    backend = FoundBackend(
        DEFAULT.model_copy(update={"model": "named-for-another-server"}),
        small_model=small_model,
        addresses=[address],
        seconds=PLENTY,
        monotonic=lambda: now,
    )
    assert (started, backend.label) == (0, None)
    assert await answer_of(backend) == "You said: Hello there"
    assert (started, backend.label) == (1, SMOLLM2.label)
    assert backend.server == llama.base_url.removeprefix("http://")
    with StandInEngine("vllm", port=int(address.rpartition(":")[2])):
        now = 31.0
        assert (await backend.facts()).kind == "vllm"
        assert backend.label is None
        assert backend.server == address.removeprefix("http://")
    await backend.aclose()


async def test_a_found_server_that_went_away_is_looked_for_again_at_once(ollama: StandInEngine) -> None:
    with StandInEngine("llama.cpp") as first:
        backend = FoundBackend(DEFAULT, addresses=[first.base_url, ollama.base_url], seconds=PLENTY)
        assert (await backend.facts()).kind == "llama.cpp"
    with pytest.raises(BackendDown):
        await answer_of(backend)
    assert await answer_of(backend) == "You said: Hello there"
    assert (await backend.facts()).kind == "ollama"
    await backend.aclose()
