"""A home whose agent has learned one skill, and what people do to it."""

import shutil
from pathlib import Path

import httpx2

from recollect.app import open_home
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
from tests.files_under import files_under
from tests.http_client import Home, Json
from tests.remembering import DAY, MAY_8, remember, states, vault_files
from tests.standins.tool_tasks import tool_task

ENTRIES = "/api/v1/memory/entries"
DISK = "Free some space on the full disk of the {} server"
TRANSLATE = "Translate the letter of my grandmother into {}"
DELETED = "its skill was deleted by a person"


async def work(home: Home, host: str, day: int, user: str = "bob") -> Json:
    """One task of the same kind; returns what the strategies tell of it."""
    thread = f"{user}-{host}-{day}"
    messages = tool_task(thread, MAY_8 + day * DAY, DISK.format(host), user=user)
    flushed = await remember(home, thread, messages, user_id=user)
    await home.drain()
    return states(flushed)


async def translate(home: Home, language: str, day: int) -> None:
    messages = tool_task(language, MAY_8 + day * DAY, TRANSLATE.format(language))
    await remember(home, language, messages, user_id="bob")
    await home.drain()


async def skills(home: Home, user: str = "bob") -> list[Json]:
    answer = await home.client.get(ENTRIES, params={"kind": "skills", "user_id": user})
    found: list[Json] = answer.raise_for_status().json()["entries"]
    return found


async def learned(home: Home, user: str = "bob") -> Json:
    """The one skill that two tasks make."""
    await work(home, "web", 0, user)
    await work(home, "database", 1, user)
    (skill,) = await skills(home, user)
    return skill


async def learned_with_quixel(home: Home) -> Json:
    """The same skill, improved by a third task, which a test forgets."""
    await learned(home)
    await work(home, "quixel", 2)
    (skill,) = await skills(home)
    return skill


async def forget(home: Home, thread: str) -> None:
    (await home.client.delete(f"/api/v1/threads/{thread}")).raise_for_status()
    await home.drain()


async def rebuilt(home: Path) -> None:
    """From the vault alone."""
    for path in home.iterdir():
        if path.name != "vault":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    await rebuild_home(Settings(home=home), open_home)


async def delete(home: Home, skill: Json, user: str = "bob") -> httpx2.Response:
    return await home.client.delete(f"{ENTRIES}/{skill['id']}", params={"user_id": user})


def skill_files(home: Home) -> list[str]:
    return [path for path in vault_files(home.app.settings.home) if path.endswith("/SKILL.md")]


def file_of(home: Home, skill: Json) -> Path:
    path: str = skill["path"]
    return home.app.settings.vault_path / path


def files_with(home: Home, word: bytes) -> list[str]:
    files = files_under(home.app.settings.home)
    return [path.name for path, content in files.items() if word in content]


async def edit(home: Home, skill: Json, **changes: object) -> httpx2.Response:
    return await home.client.patch(f"{ENTRIES}/{skill['id']}", json={"user_id": "bob", **changes})
