"""The README, followed: what it tells people to run is run, and prints what it says."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.chatting import with_backend
from tests.http_client import coverage
from tests.processes import Server, StandInModel, environment, recollect, wait_until
from tests.searching import with_model

REPOSITORY = Path(__file__).parents[4]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(curl|cat|recollect) ")


@pytest.fixture(scope="module")
def server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("readme") / ".recollect"
    with Server(home, with_model(model_folder)) as server:
        yield server


def shell(server: Server, command: str) -> str:
    """Run as a person would, but for the server's port and the home's place."""
    for written, here in {
        "http://127.0.0.1:8600": server.address,
        "~/.recollect": shlex.quote(str(server.home)),
    }.items():
        command = command.replace(written, here)
    command = re.sub("^recollect ", f"{shlex.quote(sys.executable)} -m recollect ", command)
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env={**environment(server.home), "COLUMNS": "120"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def examples() -> list[tuple[str, str | None]]:
    """The commands of "A first taste" in order, each with what the README says it prints, if it says it."""
    taste = README.partition("## A first taste")[2].partition("\n## How it compares")[0]
    blocks = [text for _, text in BLOCKS.findall(taste)]
    found: list[tuple[str, str | None]] = []
    for text in blocks:
        if COMMAND.match(text):
            found += [(line, None) for line in re.split(r"\n(?=curl|cat|recollect)", text.strip())]
        else:
            found[-1] = (found[-1][0], text.strip())
    return found


def test_the_first_taste_prints_what_the_readme_says(server: Server) -> None:
    tried = examples()
    assert len(tried) >= 6
    for command, expected in tried:
        if expected is None:
            assert shell(server, command).strip()
        else:
            wait_until(
                partial(prints, server, command, expected), f"what the README says of {command}", seconds=20
            )


def prints(server: Server, command: str, expected: str) -> bool:
    """Whether it prints this; blanks at the ends of lines don't count, nor until when something waits."""
    printed = "\n".join(line.rstrip() for line in shell(server, command).strip().splitlines())
    until = re.compile(r'"until":\d+')
    return until.sub("", printed) == until.sub("", expected)


def test_the_api_page_shows_the_same_digest_as_the_readme() -> None:
    (digest,) = set(re.findall(r"\b[0-9a-f]{64}\b", README))
    assert f'"digest":"{digest}"' in (REPOSITORY / "docs/api.md").read_text(encoding="utf-8")


def test_its_example_for_openai_s_client_runs(tmp_path: Path) -> None:
    (example,) = (text for language, text in BLOCKS.findall(README) if language == "python")
    with StandInModel() as model, Server(tmp_path / "home", with_backend(model.base_url)) as server:
        asked = example.replace("http://127.0.0.1:8600", server.address) + "client.close()\n"
        ran = subprocess.run(
            [sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert coverage(server.client)["messages"] == 2


def test_its_settings_are_settings(tmp_path: Path) -> None:
    (settings,) = (text for language, text in BLOCKS.findall(README) if language == "toml")
    (tmp_path / "recollect.toml").write_text(settings, encoding="utf-8")
    assert recollect(tmp_path, "settings", "check").returncode == 0
    (tmp_path / "recollect.toml").write_text(settings.replace("base_url", "base_uri"), encoding="utf-8")
    assert recollect(tmp_path, "settings", "check").returncode != 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_two_commands_work_in_a_fresh_clone(tmp_path: Path) -> None:
    """`make test` runs a part of the suite here: CI runs all of it, in a fresh clone as well."""
    clone, person = tmp_path / "clone", tmp_path / "person"
    person.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
    env = {
        **environment(person / ".recollect"),
        "HOME": str(person),
        "XDG_CACHE_HOME": str(person / ".cache"),
        "RECOLLECT_PORT": "0",
    }
    del env["RECOLLECT_HOME"]
    env.pop("PYTHONPATH", None)
    serving = subprocess.Popen(
        ["make", "serve"], cwd=clone, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert serving.stdout is not None
        announced = next(line for line in serving.stdout if " is listening on " in line)
        address, home = re.findall(r"listening on (\S+) \(home: (.+)\)", announced)[0]
        assert home == str(person / ".recollect")
        assert httpx2.get(f"{address}/health", trust_env=False, timeout=30).status_code == 200
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        serving.communicate(timeout=60)
    part = {**env, "PYTEST_ADDOPTS": "-k test_documentation"}
    tested = subprocess.run(
        ["make", "test"], cwd=clone, env=part, capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout[-2000:]
    assert " passed" in tested.stdout
