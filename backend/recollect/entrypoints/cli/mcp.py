"""`recollect mcp`: the memory as tools for agents on this machine, and how they are told of it."""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import typer

from recollect.entrypoints.cli.options import Home, settings_for
from recollect.entrypoints.cli.render import say
from recollect.errors import InvalidInput

NAME = "recollect"
"""Of the server, in every client's configuration."""

mcp_cli = typer.Typer(help="Serve the memory to an agent, over the Model Context Protocol.")
User = Annotated[str | None, typer.Option(help="Whose memory; default: the key's user, else me.")]
Key = Annotated[
    str | None,
    typer.Option(envvar="RECOLLECT_API_KEY", help="An API key; default: the right of who owns the home."),
]
Url = Annotated[
    str | None, typer.Option(help="A server's address; default: the one that runs on this home, else none.")
]


@mcp_cli.callback(
    invoke_without_command=True,
    epilog="Examples: recollect mcp --user ann  |  recollect mcp --url https://memory.example --key rk_…",
)
def serve_stdio(
    context: typer.Context,
    user: User = None,
    key: Key = None,
    url: Url = None,
    space: Annotated[str | None, typer.Option("--space", help="The space; default: the key's.")] = None,
    home: Home = None,
) -> None:
    """Serve the memory to an agent over stdin and stdout, as agents start it themselves.

    Where a server runs on this home, it answers; else the home is opened for as long as the agent runs.
    """
    if context.invoked_subcommand is None:
        from recollect.entrypoints.cli.stdio import run_stdio

        asyncio.run(run_stdio(settings_for(home), url, key, user, space))


class Target(NamedTuple):
    """A client: what it is called, where its configuration is, and what that looks like."""

    name: str
    file: Path
    servers: str
    """The property that holds the servers."""
    is_shared: bool
    """A project's file, which others may read: it names the key's variable instead of the key."""
    variable: str = "${env:RECOLLECT_API_KEY}"
    speaks_http: bool = True


def _targets() -> dict[str, Target]:
    config = "Library/Application Support" if sys.platform == "darwin" else ".config"
    desktop = Path.home() / config / "Claude" / "claude_desktop_config.json"
    return {
        "claude_code": Target(
            "Claude Code", Path(".mcp.json"), "mcpServers", is_shared=True, variable="${RECOLLECT_API_KEY}"
        ),
        "cursor": Target("Cursor", Path.home() / ".cursor" / "mcp.json", "mcpServers", is_shared=False),
        "vscode": Target("VS Code", Path(".vscode", "mcp.json"), "servers", is_shared=True),
        "claude_desktop": Target("Claude Desktop", desktop, "mcpServers", is_shared=False, speaks_http=False),
    }


@mcp_cli.command(
    epilog="Examples: recollect mcp install --claude-code  |  recollect mcp install --cursor --user ann --yes"
)
def install(
    claude_code: Annotated[
        bool, typer.Option("--claude-code", help="Claude Code, for the project in this folder (.mcp.json).")
    ] = False,
    cursor: Annotated[bool, typer.Option("--cursor", help="Cursor (~/.cursor/mcp.json).")] = False,
    vscode: Annotated[
        bool, typer.Option("--vscode", help="VS Code, for the project in this folder (.vscode/mcp.json).")
    ] = False,
    claude_desktop: Annotated[bool, typer.Option("--claude-desktop", help="Claude Desktop.")] = False,
    user: User = None,
    key: Key = None,
    url: Url = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    home: Home = None,
) -> None:
    """Write the configuration of an agent, after it was shown. Whatever else is in the file stays."""
    chosen = {
        "claude_code": claude_code, "cursor": cursor, "vscode": vscode, "claude_desktop": claude_desktop,
    }  # fmt: skip
    targets = [target for name, target in _targets().items() if chosen[name]]
    if not targets:
        raise typer.BadParameter("name a client: --claude-code, --cursor, --vscode or --claude-desktop")
    for target in targets:
        secret = target.variable if key and target.is_shared else key
        _install(target, _entry(target, user, secret, url, home), secret, yes=yes)
        if key and target.is_shared:
            say(f"The key is not in the file: start {target.name} with RECOLLECT_API_KEY set to it.")


def _entry(
    target: Target, user: str | None, key: str | None, url: str | None, home: Path | None
) -> dict[str, Any]:
    """How the client reaches the memory: by HTTP with `--url`, else it starts `recollect mcp`."""
    if url is not None and target.speaks_http:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers |= {"X-Recollect-User": quote(user, safe="")} if user else {}
        address = f"{url.rstrip('/').removesuffix('/mcp')}/mcp"
        return {"type": "http", "url": address} | ({"headers": headers} if headers else {})
    arguments = ["mcp"]
    chosen = home or os.environ.get("RECOLLECT_HOME")
    where = str(Path(chosen).resolve()) if chosen else None
    for option, value in (("--home", where), ("--user", user), ("--url", url)):
        arguments += [option, value] if value else []
    entry = {"type": "stdio", "command": _program(), "args": arguments}
    return entry | ({"env": {"RECOLLECT_API_KEY": key}} if key else {})


def _program() -> str:
    """This program's own path: a client has no shell that would find it."""
    beside = Path(sys.executable).with_name("recollect")
    return str(beside) if beside.exists() else shutil.which("recollect") or "recollect"


def _install(target: Target, entry: dict[str, Any], secret: str | None, *, yes: bool) -> None:
    file = target.file.resolve()
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        whole = json.loads(text) if text.strip() else {}
        servers = whole.setdefault(target.servers, {}) if isinstance(whole, dict) else None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} is not plain JSON, and was left as it is: {error}") from error
    if not isinstance(servers, dict):
        raise InvalidInput(f"{file} has no object {target.servers!r}, and was left as it is")
    shown = json.dumps({target.servers: {NAME: entry}}, indent=2, ensure_ascii=False)
    say(f"{target.name}, {file}:")
    say(shown.replace(secret, f"{secret[:6]}…") if secret and secret != target.variable else shown)
    if servers.get(NAME) == entry:
        say("It is there already.")
        return
    if NAME in servers:
        say(f"This replaces the entry {NAME!r} that is there.")
    if not yes:
        typer.confirm("Write it?", abort=True)
    servers[NAME] = entry
    _replace(file, json.dumps(whole, indent=_indent(text), ensure_ascii=False) + "\n")
    say(f"Written. Restart {target.name} if it runs.")


def _indent(text: str) -> int | str:
    """As the file has it."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return 2 if found is None else found[1]


def _replace(file: Path, text: str) -> None:
    """All of it or nothing; a file keeps its permissions, and a new one is its owner's alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as writing:
            writing.write(text)
            writing.flush()
            os.fsync(writing.fileno())
        if file.exists():
            Path(temporary).chmod(file.stat().st_mode & 0o777)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
