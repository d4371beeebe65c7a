"""OpenAI's own client in tests, talking to a server of Recollect's; its fixtures are imported by name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import httpx2
import pytest
from openai import OpenAI, Stream
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.chatting import with_backend
from tests.http_client import Json, turns
from tests.processes import Server
from tests.standins.standin_engines import StandInEngine


@pytest.fixture(scope="module")
def running() -> Iterator[StandInEngine]:
    with StandInEngine("llama.cpp") as engine:
        yield engine


@pytest.fixture
def engine(running: StandInEngine) -> StandInEngine:
    running.control()
    return running


@pytest.fixture(scope="module")
def server(running: StandInEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its background work goes to a model of its own, so that every chat the engine sees is a test's."""
    home = tmp_path_factory.mktemp("openai") / "home"
    with StandInEngine("vllm") as tasks:
        settings = with_backend(running.base_url, TASKS__BASE_URL=tasks.base_url, CHAT__ORPHAN_SECONDS="5")
        with Server(home, settings) as server:
            yield server


def openai_client(address: str, *, key: str = "sk-none", user: str | None = None, retries: int = 0) -> OpenAI:
    """Close it after use, or use it in a `with` block."""
    headers = {} if user is None else {"X-Recollect-User": quote(user)}
    return OpenAI(
        base_url=f"{address}/v1",
        api_key=key,
        max_retries=retries,
        default_headers=headers,
        http_client=httpx2.Client(trust_env=False, timeout=60),
    )


def user_says(text: str) -> Json:
    return {"role": "user", "content": text}


def system_says(text: str) -> Json:
    return {"role": "system", "content": text}


def assistant_says(text: str) -> Json:
    return {"role": "assistant", "content": text}


@dataclass
class Answered:
    """An answer, and where it went."""

    completion: ChatCompletion
    thread: str
    turn: str

    @property
    def text(self) -> str:
        return self.completion.choices[0].message.content or ""


def ask(
    client: OpenAI, messages: Sequence[Json], *, headers: dict[str, str] | None = None, **fields: Any
) -> Answered:
    raw = client.chat.completions.with_raw_response.create(
        **{"model": "recollect", "messages": list(messages), "extra_headers": headers or {}, **fields}
    )
    return Answered(
        raw.parse(), unquote(raw.headers["X-Recollect-Thread"]), unquote(raw.headers["X-Recollect-Turn"])
    )


def streamed(client: OpenAI, text: str, **fields: Any) -> Stream[ChatCompletionChunk]:
    stream: Stream[ChatCompletionChunk] = client.chat.completions.create(
        **{"model": "recollect", "messages": [user_says(text)], "stream": True, **fields}
    )
    return stream


@dataclass
class ResendingClient:
    """Keeps its history itself and sends all of it with every request, as most clients do."""

    client: OpenAI
    system: str | None = None
    history: list[Json] = field(default_factory=list)

    def say(self, text: str, **fields: Any) -> Answered:
        self.history.append(user_says(text))
        answered = ask(self.client, self.sent(), **fields)
        self.history.append(assistant_says(answered.text))
        return answered

    def say_messages(self, count: int) -> str:
        """`message 0`, `message 1`, …; returns their thread."""
        threads = [self.say(f"message {number}").thread for number in range(count)]
        assert len(set(threads)) == 1
        return threads[0]

    def sent(self) -> list[Json]:
        return [*([system_says(self.system)] if self.system else []), *self.history]


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """Each test has its own: what one says is never recognised in another."""
    return f"user of {request.node.name}"


@pytest.fixture
def client(server: Server, engine: StandInEngine, user: str) -> Iterator[OpenAI]:
    with openai_client(server.address, user=user) as client:
        yield client


@pytest.fixture
def resending(client: OpenAI) -> ResendingClient:
    return ResendingClient(client)


def texts(server: Server, thread: str) -> list[str]:
    return [turn["content"] for turn in turns(server.client, thread)]


def conversation(engine: StandInEngine) -> list[str]:
    """What the engine was sent last, without instructions and what memory added."""
    _, *messages = engine.chats()[-1]["messages"]
    return [message["content"] for message in messages if not message["content"].startswith("[Context]")]


def threads_of(server: Server, user: str) -> list[str]:
    found = server.client.get("/api/v1/threads", params={"user_id": user}).raise_for_status().json()
    return [thread["thread_id"] for thread in found["threads"]]
