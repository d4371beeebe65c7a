"""`recollect mcp install`: a client's configuration is shown, then written, and nothing else in the file changes."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from typer.testing import CliRunner, Result

from recollect.entrypoints.cli.main import cli
from recollect.errors import InvalidInput
from tests.forking import BACKEND
from tests.http_client import QUICK, turns
from tests.processes import Server, environment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder in a person's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RECOLLECT_API_KEY", raising=False)
    monkeypatch.delenv("RECOLLECT_HOME", raising=False)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return tmp_path


def install(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["mcp", "install", *arguments], input=answer)


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


FILES = {
    "--claude-code": ("project/.mcp.json", "mcpServers"),
    "--cursor": (".cursor/mcp.json", "mcpServers"),
    "--vscode": ("project/.vscode/mcp.json", "servers"),
    "--claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
}


@pytest.mark.parametrize("client", FILES)
def test_a_new_file_is_shown_and_written_after_a_yes(
    folder: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    name, servers = FILES[client]
    refused = install(client, "--user", "ann", answer="n\n")
    assert refused.exit_code == 1
    assert '"recollect"' in refused.output
    assert not (folder / name).exists()
    assert install(client, "--user", "ann", answer="y\n").exit_code == 0
    entry = read(folder / name)[servers]["recollect"]
    assert (entry["type"], entry["args"]) == ("stdio", ["mcp", "--user", "ann"])
    assert (folder / name).stat().st_mode & 0o077 == 0
    assert "already" in install(client, "--user", "ann").output


def test_what_else_is_in_the_file_stays(folder: Path) -> None:
    file = folder / ".cursor/mcp.json"
    file.parent.mkdir()
    before = {"mcpServers": {"other": {"url": "http://x"}, "recollect": {"command": "old"}}, "größe": [1]}
    file.write_text(json.dumps(before, indent=4, ensure_ascii=False))
    file.chmod(0o644)
    done = install("--cursor", "--url", "http://127.0.0.1:8600/", "--key", "rk_secret_of_mine", "--yes")
    assert done.exit_code == 0
    assert "replaces" in done.output
    assert "rk_secret_of_mine" not in done.output
    entry = {
        "type": "http",
        "url": "http://127.0.0.1:8600/mcp",
        "headers": {"Authorization": "Bearer rk_secret_of_mine"},
    }
    assert read(file) == {**before, "mcpServers": {"other": {"url": "http://x"}, "recollect": entry}}
    assert file.read_text().startswith('{\n    "mcpServers"')
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"]


def test_a_projects_file_names_the_keys_variable_instead_of_the_key(folder: Path) -> None:
    done = install("--claude-code", "--vscode", "--key", "rk_secret_of_mine", "--yes")
    assert "RECOLLECT_API_KEY" in done.output
    entry = read(folder / "project/.mcp.json")["mcpServers"]["recollect"]
    assert entry["env"] == {"RECOLLECT_API_KEY": "${RECOLLECT_API_KEY}"}
    entry = read(folder / "project/.vscode/mcp.json")["servers"]["recollect"]
    assert entry["env"] == {"RECOLLECT_API_KEY": "${env:RECOLLECT_API_KEY}"}


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 3}', "// mine\n{}", "\udcff"])
def test_a_file_that_cannot_be_read_is_left_alone(folder: Path, text: str) -> None:
    file = folder / "project/.mcp.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    failed = install("--claude-code", "--yes")
    assert isinstance(failed.exception, InvalidInput)
    assert "left as it is" in str(failed.exception)
    assert file.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_a_home_is_named_by_its_whole_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_HOME", "memory")
    assert install("--claude-code", "--yes").exit_code == 0
    entry = read(folder / "project/.mcp.json")["mcpServers"]["recollect"]
    assert entry["args"] == ["mcp", "--home", str(folder / "project/memory")]


def test_a_client_must_be_named(folder: Path) -> None:
    assert install("--yes").exit_code == 2


async def test_a_client_that_is_configured_so_has_the_memory(folder: Path) -> None:
    home = folder / "home"
    assert install("--claude-desktop", "--home", str(home), "--user", "ann", "--yes").exit_code == 0
    (file,) = folder.glob("**/claude_desktop_config.json")
    entry = read(file)["mcpServers"]["recollect"]
    quiet = {**QUICK, "RECOLLECT_EMBEDDING__KIND": "none", "RECOLLECT_LLM__DISCOVER": "false"}
    given = {**environment(folder / "elsewhere", quiet), "PYTHONPATH": str(BACKEND)}
    with Server(home, quiet):
        program = StdioServerParameters(command=entry["command"], args=entry["args"], env=given)
        async with Client(stdio_client(program)) as client:
            assert not (
                await client.call_tool("remember", {"text": "The boiler was serviced in May."})
            ).is_error


JQ = "import json, sys\nsys.stdout.write(json.load(sys.stdin)[sys.argv[2][1:]] + '\\n')\n"


@pytest.mark.slow
def test_the_recipe_of_hooks_gives_a_prompt_what_is_remembered_and_keeps_it(folder: Path) -> None:
    page = (BACKEND.parent / "docs/clients.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    hooks = json.loads(recipe)["hooks"]
    programs = folder / "bin"
    programs.mkdir()
    for name, code in (
        ("jq", JQ),
        ("recollect", "from recollect.entrypoints.cli.main import main\nmain()\n"),
    ):
        (programs / name).write_text(f"#!{sys.executable}\n{code}")
        (programs / name).chmod(0o755)
    home = folder / "home"
    given = {**environment(home), "PYTHONPATH": str(BACKEND), "PATH": f"{programs}:/usr/bin:/bin"}

    def run(event: str, prompt: str) -> str:
        told = json.dumps({"prompt": prompt, "session_id": "s1"})
        (command,) = [each["command"] for group in hooks[event] for each in group["hooks"]]
        done = subprocess.run(
            ["sh", "-c", command], input=told, env=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with Server(home, QUICK) as server:
        run("SessionStart", "")
        run("UserPromptSubmit", '--My "sister" Marta; lives in $Porto.')
        assert "$Porto" in run("UserPromptSubmit", "Where does Marta live?")
        run("SessionEnd", "")
        said = [turn["content"] for turn in turns(server.client, "claude-code-s1")]
        assert said == ['--My "sister" Marta; lives in $Porto.', "Where does Marta live?"]
