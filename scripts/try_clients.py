"""`make clients`: real clients, unmodified, each in an environment of its own, against a real server.

Each client is given three things that every chat app asks for: an address, a key and a model. It holds a
conversation of two messages, then asks in a new one for what was said in the first. What must come of it:

1. the second answer knows the first message: the client's history arrived;
2. the server holds the four messages, once each, in one thread;
3. the new conversation's answer names Porto, which this client never sent in it: memory works.

The model is a stand-in that names the people and places it was shown, so an answer proves what reached it.
Each adapter in `examples/` is run twice as it stands, shows what it stored, which search then finds, and passes its
checks in `clients/check_examples.py`.
Packages come from PyPI and npm, in the versions of the day, which the table names.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chatting import with_backend
from tests.processes import Server, StandInModel, recollect_json, wait_until

SCRIPTS = Path(__file__).resolve().parent / "clients"
EXAMPLES = SCRIPTS.parent.parent / "examples"
SAID = ("My sister Marta has moved to Porto.", "And I am in Vienna until May.")
ASKED = ("Where does my sister live?",)
NODE = "node"
"""The environment with a current Node.js, from npm: many packages want a newer one than the machine has."""


@dataclass(frozen=True)
class Client:
    """A client's package and the script that uses it as its documentation says."""

    name: str
    script: str
    packages: tuple[str, ...] = ()
    found: int = 2 * len(SAID)
    """How many messages of the conversation can be found afterwards."""
    is_example: bool = False

    @property
    def is_npm(self) -> bool:
        return self.script.endswith(".mjs")


CLIENTS = (
    Client("curl", "curl.sh"),
    Client("openai", "openai_python.py", ("openai",)),
    Client("openai (npm)", "openai_npm.mjs", ("openai",)),
    Client("Vercel AI SDK", "ai_sdk.mjs", ("ai", "@ai-sdk/openai-compatible")),
    Client("Vercel AI SDK (openai)", "ai_sdk_openai.mjs", ("ai", "@ai-sdk/openai")),
    Client("litellm", "litellm_client.py", ("litellm",)),
    Client("LangChain", "langchain_client.py", ("langchain-openai",)),
    Client("llm", "llm_client.sh", ("llm",)),
    Client("pydantic-ai", "pydantic_ai_client.py", ("pydantic-ai-slim[openai]",)),
    Client("instructor", "instructor_client.py", ("instructor",)),
    Client("openai responses (npm)", "openai_responses.mjs", ("openai",)),
    Client("openai-agents", "openai_agents.py", ("openai-agents",)),
    Client("openai-agents sessions", "openai_agents_session.py", ("openai-agents",)),
    Client("openai-agents (npm)", "openai_agents_js.mjs", ("@openai/agents",)),
    # They remember what is said, and answer with what they find: there is no model.
    Client("MCP inspector (npm)", "mcp_inspector.mjs", ("@modelcontextprotocol/inspector",), found=len(SAID)),
    Client("anthropic (npm)", "anthropic_npm.mjs", ("@anthropic-ai/sdk",)),
    Client("Claude Code", "claude_code.mjs", ("@anthropic-ai/claude-code",)),
    Client("mem0", "mem0_client.py", ("mem0ai",), found=len(SAID)),
    Client("supermemory (npm)", "supermemory_npm.mjs", ("supermemory",), found=len(SAID)),
    # Aider adds a line to the newest message alone, so that what it resends is another text: a thread of its own.
    Client("Aider", "aider_client.sh", ("aider-chat",), found=6),
    Client("CrewAI storage", "crewai_storage.py", ("crewai", "httpx2"), is_example=True),
    Client("LangChain history", "langchain_history.py", ("langchain-core", "httpx2"), is_example=True),
    Client("LangGraph store", "langgraph_store.py", ("langgraph", "httpx2"), is_example=True),
    Client("LlamaIndex memory", "llamaindex_memory.py", ("llama-index-core", "httpx2"), is_example=True),
    Client("Agents session", "openai_agents_session.py", ("openai-agents", "httpx2"), is_example=True),
    Client("pydantic-ai history", "pydantic_ai_history.py", ("pydantic-ai-slim", "httpx2"), is_example=True),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="clients to try, for example: curl openai; default: all")
    parser.add_argument("--environments", type=Path, help="folder in which their environments are kept")
    options = parser.parse_args()
    chosen = [client for client in CLIENTS if not options.names or client.name in options.names]
    if unknown := set(options.names) - {client.name for client in CLIENTS}:
        parser.error(
            f"no such client: {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in CLIENTS)}"
        )
    failed = 0
    with tempfile.TemporaryDirectory(prefix="clients-") as temporary, StandInModel() as model:
        work = Path(temporary)
        environments = options.environments or work / "environments"
        embedding = {"KIND": "openai", "BASE_URL": model.base_url, "MODEL": "stand-in"}
        embedder = {f"RECOLLECT_EMBEDDING__{name}": each for name, each in embedding.items()}
        # CrewAI needs vectors. Chats go without: the stand-in's say nothing of what is relevant.
        for home, settings, is_example in ((work / "home", {}, False), (work / "examples", embedder, True)):
            clients = [client for client in chosen if client.is_example == is_example]
            keys = {client.name: _key(home, client) for client in clients}
            if clients:
                with Server(home, {**with_backend(model.base_url), **settings}) as server:
                    for client in clients:
                        environment = environments / client.script.partition(".")[0]
                        failed += not _tried(client, server, keys[client.name], environment)
    print(f"{len(chosen) - failed} of {len(chosen)} clients work")
    return 1 if failed else 0


def _key(home: Path, client: Client) -> str:
    """A key of a user of its own, so that no client's memory helps another's."""
    key: str = recollect_json(home, "keys", "create", "--user", client.script.partition(".")[0])["secret"]
    return key


def _tried(client: Client, server: Server, key: str, environment: Path) -> bool:
    start = time.monotonic()
    try:
        version = _installed(client, environment)
        if client.is_example:
            _try_example(client, server, key, environment)
        else:
            _try_conversation(client, server, key, environment)
    except (OSError, RuntimeError, subprocess.SubprocessError, TimeoutError) as error:
        print(f"{client.name:22} FAILED  {error}", flush=True)
        return False
    print(f"{client.name:22} ok      {version:40} {time.monotonic() - start:5.0f} s", flush=True)
    return True


def _try_conversation(client: Client, server: Server, key: str, environment: Path) -> None:
    said = _answers(client, server, key, environment, SAID)
    if "Vienna" not in said[-1] or "Porto" not in said[-1]:
        raise RuntimeError(f"the second answer doesn't know the whole conversation: {said[-1]!r}")
    wait_until(lambda: _indexed(server, key) == client.found, "each message is there, once")
    remembered = _answers(client, server, key, environment, ASKED)[-1]
    if "Porto" not in remembered:
        raise RuntimeError(f"a new conversation doesn't know where Marta lives: {remembered!r}")


def _try_example(client: Client, server: Server, key: str, environment: Path) -> None:
    python = str(environment / "bin/python")
    variables = {"RECOLLECT_URL": server.address, "RECOLLECT_API_KEY": key, "HOME": str(environment)}
    for _ in range(2):
        shown = _run([python, str(EXAMPLES / client.script)], environment, variables)
        if "Porto" not in shown:
            raise RuntimeError(f"it doesn't show what it stored: {shown!r}")
    wait_until(lambda: _finds_porto(server, key), "search finds what it stored")
    _run([python, str(SCRIPTS / "check_examples.py"), Path(client.script).stem], environment, variables)


def _finds_porto(server: Server, key: str) -> bool:
    headers = {"Authorization": f"Bearer {key}"}
    found = server.client.post("/api/v1/memory/search", json={"query": ASKED[0]}, headers=headers)
    return any("Porto" in hit["text"] for hit in found.raise_for_status().json()["hits"])


def _indexed(server: Server, key: str) -> int:
    """How many messages can be found; what a client sent as an example is none."""
    answer = server.client.get("/api/v1/coverage", headers={"Authorization": f"Bearer {key}"})
    return int(answer.raise_for_status().json()["indexed"])


def _installed(client: Client, environment: Path) -> str:
    """Installs the client where it isn't yet, and returns its version."""
    environment.mkdir(parents=True, exist_ok=True)
    if client.is_npm:
        _npm_install(environment.parent / NODE, "node")
        _npm_install(environment, *client.packages)
        shutil.copy(SCRIPTS / client.script, environment)
        listed = json.loads(_run(["npm", "ls", "--json", "--depth=0"], environment, {}))["dependencies"]
        return ", ".join(f"{name} {listed[name]['version']}" for name in client.packages)
    if not client.packages:
        return _run([client.name, "--version"], environment, {}).split(" (")[0]
    python = environment / "bin/python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(environment)], environment, {})
        _run([str(python), "-m", "pip", "install", "--quiet", *client.packages], environment, {})
    names = [name.partition("[")[0] for name in client.packages]
    shown = "import sys; from importlib.metadata import version; print(*(f'{n} {version(n)}' for n in sys.argv[1:]))"
    return _run([str(python), "-c", shown, *names], environment, {}).strip()


def _npm_install(folder: Path, *packages: str) -> None:
    """By its tag: else npm takes an old version for an old Node.js."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules").exists():
        newest = [f"{package}@latest" for package in packages]
        _run(["npm", "install", "--silent", "--no-audit", "--no-fund", *newest], folder, {})


def _answers(client: Client, server: Server, key: str, environment: Path, texts: Sequence[str]) -> list[str]:
    """What the client prints for a conversation of these texts: a line for each answer."""
    variables = {
        "OPENAI_BASE_URL": f"{server.address}/v1",
        "OPENAI_API_BASE": f"{server.address}/v1",
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": server.address,
        "ANTHROPIC_API_KEY": key,
        "ANTHROPIC_MODEL": "recollect",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "recollect",
        "PYTHON": sys.executable,
        "BACKEND": str(SCRIPTS.parent.parent / "backend"),
        "HOME": str(environment),
        "PATH": f"{environment / 'bin'}:{environment.parent / NODE / 'node_modules/.bin'}:{os.environ['PATH']}",
    }
    interpreter = {".py": str(environment / "bin/python"), ".mjs": "node", ".sh": "bash"}
    script = environment / client.script if client.is_npm else SCRIPTS / client.script
    printed = _run([interpreter[script.suffix], str(script), *texts], environment, variables)
    lines = [line for line in printed.splitlines() if line.strip()]
    if not lines:
        raise RuntimeError("it printed nothing")
    return lines


def _run(command: Sequence[str], folder: Path, variables: dict[str, str]) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        command,
        check=False,
        cwd=folder,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        timeout=900,
    )
    if ran.returncode:
        raise RuntimeError(f"{Path(command[0]).name} exited with {ran.returncode}: {ran.stderr[-800:]}")
    return ran.stdout


if __name__ == "__main__":
    raise SystemExit(main())
