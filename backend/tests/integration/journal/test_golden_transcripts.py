"""A fixed conversation gives transcripts with the same bytes in every version: people keep these files for years."""

import shutil
from pathlib import Path

from recollect.app import open_home
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
from tests.http_client import Json, opened, thread_path
from tests.remembering import DAY, MAY_8, MINUTE, vault_files

GOLDEN = Path(__file__).parents[2] / "golden" / "transcripts"
"""Written once. Where the format changes, its version does too, and these files are what the upgrade is tested with."""

FIRST_VERSION = GOLDEN.with_name("transcripts-1")
"""The same conversation as version 1 of the format had it."""

CALL: Json = {
    "id": "call-1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"place": "Porto"}'},
}
SAID: list[tuple[str, str, int, Json]] = [
    ("user", "My sister Marta is moving to Porto!", 0, {}),
    ("assistant", "That is lovely news. When does she leave?", 1, {}),
    ("user", "On 1 June.\n\n## not a heading\n> not a quotation\n```\n%% not a comment %%\n```", 2, {}),
    ("assistant", "", 3, {"tool_calls": [CALL]}),
    ("tool", '{"sky": "clear", "degrees": 24}', 4, {"tool_call_id": "call-1"}),
    ("assistant", "It is sunny there: 24 °C. ☀️", 5, {}),
    ("user", "玛尔塔喜欢海。 \t ¿Y el trabajo?\r\nمرحبا", 60 * 5, {}),  # noqa: RUF001
    ("assistant", "A lone CR\rand a trailing space ", 60 * 5 + 1, {}),
    ("user", "x" * 3_000, 60 * 9, {}),
]


def messages(start: int) -> list[Json]:
    return [
        {
            "message_id": f"m{number}",
            "sender_id": "ann" if role == "user" else "helper",
            "role": role,
            "timestamp": start + minutes * MINUTE,
            "content": text,
            **fields,
        }
        for number, (role, text, minutes, fields) in enumerate(SAID)
    ]


async def transcripts(home: Path) -> dict[str, bytes]:
    async with opened(home, embedding={"kind": "none"}, llm={"discover": False}) as opened_home:
        client = opened_home.client
        for session, user, start in (("t1", "ann", MAY_8), ("t 2/ü", "Bob Ω", MAY_8 + DAY)):
            told = {"session_id": session, "user_id": user, "tags": ["family"], "messages": messages(start)}
            (await client.post("/api/v1/memory/add", json=told)).raise_for_status()
            title = {"title": "A title: with [signs]"}
            changed = await client.patch(thread_path(session), params={"user_id": user}, json=title)
            changed.raise_for_status()
            flush = {"session_id": session, "user_id": user, "timeout": 30}
            (await client.post("/api/v1/memory/flush", json=flush)).raise_for_status()
        await opened_home.drain()
    return {name: content for name, content in vault_files(home).items() if "/threads/" in name}


async def test_the_bytes_of_transcripts_stay_as_they_are(tmp_path: Path) -> None:
    wanted = {str(file.relative_to(GOLDEN)): file.read_bytes() for file in GOLDEN.rglob("*.md")}
    assert len(wanted) == 2
    assert await transcripts(tmp_path / "home") == wanted


async def test_transcripts_of_version_1_are_rebuilt_and_stay_as_they_are(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(FIRST_VERSION, home / "vault")
    settings = Settings(home=home, embedding={"kind": "none"}, llm={"discover": False})
    report, found = await rebuild_home(settings, open_home)
    assert (report.threads, report.turns, report.problems, found.problems) == (2, 18, [], [])
    wanted = {str(file.relative_to(FIRST_VERSION)): file.read_bytes() for file in FIRST_VERSION.rglob("*.md")}
    assert {name: content for name, content in vault_files(home).items() if "/threads/" in name} == wanted
