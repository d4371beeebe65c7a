"""Commands that look and change nothing: doctor, status. Neither opens the home."""

import asyncio
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from recollect import __version__
from recollect.entrypoints.cli.options import Home, Json, Space, settings_for
from recollect.entrypoints.cli.render import counted, say, show
from recollect.errors import EmbedderUnavailable, HomeUnusable, ModelUnavailable, RecollectError

if TYPE_CHECKING:
    from recollect.settings import Settings

commands = typer.Typer()

_LITTLE_BYTES = 1024**3
_PATIENCE_SECONDS = 2.0
_START = "recollect serve"
_CONNECT = "start Ollama, LM Studio or llama.cpp on this machine, or set RECOLLECT_LLM__BASE_URL; see docs/backends.md"


@dataclass(frozen=True, slots=True)
class Finding:
    """`note`: Recollect works, and something could be added. `problem`: something does not work."""

    about: str
    state: Literal["ok", "note", "problem"]
    found: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the server that runs on a home says of itself."""

    address: str
    pid: int
    health: dict[str, Any]
    keys: dict[str, Any]
    waiting: int
    """Messages that no memory is made of yet."""


@commands.command(epilog="Examples: recollect doctor  |  recollect doctor --json")
def doctor(home: Home = None, json: Json = False) -> None:
    """Say what runs, what is missing and what to do next. It changes nothing.

    The exit code is 1 if something does not work.
    """
    findings = [_packages(), *_home_and_settings(home)]
    is_ok = all(each.state != "problem" for each in findings)
    show({"ok": is_ok, "findings": [asdict(each) for each in findings]}, _print_findings, as_json=json)
    if not is_ok:
        raise typer.Exit(1)


def _print_findings(told: dict[str, Any]) -> None:
    for each in told["findings"]:
        say(f"{each['state']:<9}{each['about']}: {each['found']}")
        if each["do"]:
            say(f"{'':<9}-> {each['do']}")
    problems = sum(each["state"] == "problem" for each in told["findings"])
    say(counted(problems, "problem") if problems else "nothing is wrong")


def _packages() -> Finding:
    from importlib import metadata

    try:
        required = [each for each in metadata.requires("recollect") or () if "extra ==" not in each]
    except metadata.PackageNotFoundError:
        required = []  # It runs from its sources.
    names = [re.split(r"[^\w.-]", each)[0] for each in required]
    missing = [name for name in names if not any(metadata.distributions(name=name))]
    found = f"{platform.python_version()}, recollect {__version__}"
    if missing:
        return Finding(
            "python", "problem", f"{found}; missing: {', '.join(missing)}", "install recollect again"
        )
    return Finding("python", "ok", f"{found} with its {len(names)} packages")


def _home_and_settings(home: Path | None) -> Iterator[Finding]:
    from recollect.settings import settings_file

    folder = settings_file(home).parent.absolute()
    yield _folder(folder)
    yield _disk(folder)
    try:
        settings = settings_for(home)
    except (HomeUnusable, OSError) as error:
        yield Finding("settings", "problem", str(error), "correct it, then: recollect settings check")
        return
    yield _settings(settings)
    served = asyncio.run(_served(settings))
    # A server has an environment of its own, and says itself what it misses.
    if served is None:
        yield _journal(settings)
        yield Finding("files", "ok", settings.files_url or str(settings.vault_path))
        yield _embedding(settings)
    none = Finding("server", "note", "none runs on this home", _START)
    yield from served or [none, asyncio.run(_own_look(settings))]


def _folder(folder: Path) -> Finding:
    there = _nearest(folder)
    if not there.is_dir() or not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return Finding(
            "home", "problem", f"{there} is no folder that you may write to", "choose another --home"
        )
    if there != folder:
        return Finding("home", "note", f"{folder} does not exist yet", _START)
    if (mode := folder.stat().st_mode & 0o777) & 0o077:
        told = f"{folder} has mode {mode:o}: others on this machine may look into it"
        return Finding("home", "note", told, f"chmod 700 {folder}")
    return Finding("home", "ok", str(folder))


def _nearest(folder: Path) -> Path:
    """The folder, or what there is on the way to it."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(_nearest(folder)).free
    told = f"{free / 1024**3:.1f} GiB free"
    return (
        Finding("disk", "ok", told) if free > _LITTLE_BYTES else Finding("disk", "problem", told, "make room")
    )


def _settings(settings: "Settings") -> Finding:
    from recollect.entrypoints.http.server import exposed_file
    from recollect.settings import TOML_NAME, unknown_variables

    if (file := exposed_file(settings)) is not None:
        return Finding(
            "settings", "problem", f"{file} holds a key, and everybody may read it", f"chmod 600 {file}"
        )
    if unknown := unknown_variables():
        told = ", ".join(f"{name} is no setting{meant}" for name, meant in unknown.items())
        return Finding("settings", "note", told, "recollect settings check")
    file = settings.home / TOML_NAME
    return Finding("settings", "ok", f"valid; {file} {'is read' if file.is_file() else 'is not there'}")


def _journal(settings: "Settings") -> Finding:
    from recollect.infra.journal.database import journal_connector

    try:
        connector = journal_connector(
            settings.model_copy(update={"database_wait_seconds": _PATIENCE_SECONDS})
        )
        is_there = asyncio.run(connector.exists())
    except RecollectError as error:
        return Finding(
            "journal", "problem", str(error), "correct RECOLLECT_DATABASE_URL, or start the database"
        )
    return Finding("journal", "ok", f"{connector.engine}{'' if is_there else ', not there yet'}")


def _embedding(settings: "Settings") -> Finding:
    from recollect.infra.embedders.onnx_model import load_model
    from recollect.infra.secrets import mask_secrets

    chosen = settings.embedding
    if chosen.kind == "none":
        return Finding(
            "embedding", "note", "off: search goes by words alone", "unset RECOLLECT_EMBEDDING__KIND"
        )
    if chosen.kind == "openai":
        return Finding("embedding", "ok", f"{chosen.model} at {mask_secrets(chosen.base_url or '')[0]}")
    try:
        load_model(settings.model_folder, threads=1)
    except EmbedderUnavailable as error:
        return Finding("embedding", "problem", error.message, "unset RECOLLECT_EMBEDDING__FOLDER")
    return Finding("embedding", "ok", f"the model in {settings.model_folder} works")


async def _served(settings: "Settings") -> list[Finding] | None:
    """What the server that runs on the home says; None: there is none."""
    from recollect.entrypoints.cli.client import home_client
    from recollect.infra.home_lock import current_holder

    if (holder := current_holder(settings.home)) is None:
        return None
    if holder.address is None:
        told = f"process {holder.pid} is using the home and serves nobody"
        return [Finding("server", "note", told, "wait")]
    try:
        async with home_client(settings) as client:
            health = await client.health()
            keys = await client.call("GET", "/api/v1/keys")
            waiting = (await client.call("GET", "/api/v1/coverage"))["buffered"]
            source = (await client.call("GET", "/api/v1/model"))["source"]
            backends = (await client.call("GET", "/api/v1/backends"))["backends"]
    except (RecollectError, ValueError) as error:
        told = f"process {holder.pid} at {holder.address}: {error}"
        return [Finding("server", "problem", told, "see its log, and start it again")]
    has_own = source in ("settings", "found")
    model = [each for each in backends if each["name"] == "tasks"] or backends[: int(has_own)]
    return [
        *findings_about(ServerState(holder.address, holder.pid, health, keys, waiting)),
        *(_served_model(settings, each) for each in model),
    ]


def findings_about(server: ServerState) -> Iterator[Finding]:
    """The server itself, what is not set up, its keys, and what waits."""
    health = server.health
    told = f"{server.address}, version {health['version']}, process {server.pid}, {health['status']}"
    if health["status"] != "ok":
        yield Finding("server", "problem", f"{told}: {'; '.join(health['degraded'])}", "see its log")
    elif health["version"] != __version__:
        yield Finding("server", "note", told, f"start it again: this is version {__version__}")
    else:
        yield Finding("server", "ok", told)
    for about in ("journal", "files"):
        if place := health.get(about):
            yield Finding(about, "ok", place)
    for hint in health["hints"]:
        yield Finding("setup", "note", hint)
    now = time.time() * 1000
    keys = [key for key in server.keys["keys"] if not key["revoked"] and (key["expires"] or now + 1) > now]
    if server.keys["closed"] and not keys:
        do = "recollect keys create, or for this machine alone: recollect keys open"
        yield Finding("keys", "problem", "none is in force, and the server lets nobody in", do)
    else:
        yield Finding(
            "keys", "ok", f"{len(keys)} in force" if keys else "none: open to programs of this machine"
        )
    yield Finding("backlog", "ok", _backlog(health, server.waiting))


def _backlog(health: dict[str, Any], waiting: int) -> str:
    jobs = ", ".join(f"{count} {state}" for state, count in sorted(health["jobs"].items())) or "none"
    return f"{counted(waiting, 'message')} not remembered yet; jobs: {jobs}"


async def _own_look(settings: "Settings") -> Finding:
    """Ask the model server from here, as a server would."""
    from recollect.infra.backends.configured import Backends

    backends = Backends(settings)
    try:
        if not await backends.has_model():
            return _without_model(settings)
        facts = await backends.tasks.facts()
    except ModelUnavailable as error:
        return _model(None, "", error.message)
    finally:
        await backends.aclose()
    where = f"{facts.kind} at {backends.tasks.server}"
    return _model(_named_model(settings) or next(iter(facts.models), None), where, None)


def _served_model(settings: "Settings", backend: dict[str, Any]) -> Finding:
    """The server has read its own environment: it may use another of these models than the settings here name."""
    named, models = _named_model(settings), backend["models"]
    model = named or next(iter(models), None)
    if named is None and len(models) > 1:
        model = f"{model}, unless the server's settings name another of its {len(models)} models"
    return _model(model, f"{backend['kind']}, backend {backend['name']}", backend["problem"])


def _named_model(settings: "Settings") -> str | None:
    llm, tasks, named = settings.llm, settings.tasks, [*settings.backends.values()]
    chats = llm if llm.base_url or not named else named[0]
    return tasks.model if tasks.base_url else (llm.base_url and tasks.model) or chats.model


def _model(model: str | None, where: str, problem: str | None) -> Finding:
    if problem is not None or model is None:
        do = "start that server, or set another RECOLLECT_LLM__BASE_URL"
        return Finding("model", "problem", problem or "the model server lists no model", do)
    return Finding("model", "ok", f"memories are made by {model} ({where})")


def _without_model(settings: "Settings") -> Finding:
    from recollect.infra.backends.local_model import SMOLLM2

    is_there = SMOLLM2.is_set_up(settings.local_model(SMOLLM2.name))
    no_chat = "there is no chat (for a taste: recollect setup)"
    chats = "chats use the built-in demonstration" if is_there else no_chat
    looked = "none runs on this machine" if settings.llm.discover else "none is looked for"
    told = f"none is configured, and {looked}: {chats}, and of conversations only episodes are made"
    return Finding("model", "note", told, _CONNECT)


@commands.command(epilog="Examples: recollect status  |  recollect status --json")
def status(space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Say in short whether a server runs on the home, how it is, and what waits.

    The exit code is 1 if none runs, or if it takes no messages.
    """
    told = asyncio.run(_status(settings_for(home), space))
    show(told, _print_status, as_json=json)
    if told["health"] not in {"ok", "degraded"}:
        raise typer.Exit(1)


async def _status(settings: "Settings", space: str) -> dict[str, Any]:
    from recollect.entrypoints.cli.client import home_client
    from recollect.infra.home_lock import current_holder

    holder = current_holder(settings.home)
    if holder is None or holder.address is None:
        return {"home": str(settings.home), "running": False, "health": None}
    async with home_client(settings, space) as client:
        health = await client.health()
        coverage = await client.call("GET", "/api/v1/coverage")
    return {
        "home": str(settings.home), "running": True, "address": holder.address, "pid": holder.pid,
        "version": health["version"], "health": health["status"], "degraded": health["degraded"],
        "journal": health["journal"], "files": health["files"], "embedding_model": health["embedding_model"],
        "messages": coverage["messages"], "waiting": coverage["buffered"], "jobs": health["jobs"],
    }  # fmt: skip


def _print_status(told: dict[str, Any]) -> None:
    if not told["running"]:
        say(f"no server runs on {told['home']}; start one with: {_START}")
        return
    say(f"server: {told['address']} (version {told['version']}, process {told['pid']})")
    say(f"home: {told['home']}")
    say(f"journal: {told['journal']}")
    say(f"files: {told['files']}")
    say(f"health: {told['health']}" + "".join(f"\n  {each}" for each in told["degraded"]))
    say(f"messages: {told['messages']}")
    model = told["embedding_model"]
    say(f"search: by words{f' and by meaning, with {model}' if model else ''}")
    say(f"backlog: {_backlog(told, told['waiting'])}")
