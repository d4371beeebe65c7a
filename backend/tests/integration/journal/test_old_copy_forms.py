"""An old copy is told from an edit whatever line ends, byte order mark or name a tool gave it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.entry_house import ANN as ANNS
from tests.entry_house import TODAY, fact
from tests.http_client import Home, Json, opened
from tests.integration.journal.test_old_copies import ANN, tell, verified

WORD = "quokka"


async def look(home: Home) -> None:
    await home.app.vault_sweep.sweep()
    await home.drain()


async def texts(home: Home) -> list[str]:
    found = await tell(home, "GET", "memory/entries", user_id="ann", limit="100")
    return sorted(entry["text"] for entry in found["entries"])


async def names(home: Home) -> list[str]:
    return [note["name"] for note in (await tell(home, "GET", "memory/notes", user_id="ann"))["notes"]]


def with_crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


def with_mark(content: bytes) -> bytes:
    return b"\xef\xbb\xbf" + content


@pytest.mark.parametrize("changed", [with_crlf, with_mark])
async def test_line_ends_and_a_byte_order_mark_do_not_make_an_edit_of_an_old_copy(
    tmp_path: Path, changed: Callable[[bytes], bytes]
) -> None:
    vault = tmp_path / "home/vault"
    note, preset, thread = (
        vault / path
        for path in (f"{ANNS}/notes/zoo.md", "default/presets/old.md", f"{ANNS}/threads/t1/0001.md")
    )
    async with opened(tmp_path / "home") as home:
        await home.put(fact(1), fact(2, f"Ann saw a {WORD}."))
        await home.add("t1", "My sister is Marta.", user_id="ann")
        await tell(home, "PUT", "presets/old", {"instructions": "Be brief."})
        await tell(home, "POST", "memory/notes", {**ANN, "name": "zoo", "text": f"A {WORD}\nlives there.\n"})
        await home.drain()
        old = {path: path.read_bytes() for path in (vault / TODAY, note, preset, thread)}
        await tell(home, "PATCH", "memory/entries/fa-1", {"text": "Ann likes number 11.", "user_id": "ann"})
        await tell(home, "DELETE", "memory/entries/fa-2", user_id="ann")
        await home.put(*(fact(number) for number in range(3, 6)))
        await home.add("t1", "Marta moves to Porto.", user_id="ann")
        await tell(home, "DELETE", "presets/old")
        await tell(home, "DELETE", "memory/notes/zoo.md", user_id="ann")
        await home.drain()
        before, day, said = await texts(home), (vault / TODAY).read_bytes(), thread.read_bytes()
        for path, content in old.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(changed(content))
        await look(home)
        await look(home)
        assert await texts(home) == before
        assert ((vault / TODAY).read_bytes(), thread.read_bytes()) == (day, said)
        assert (note.exists(), preset.exists(), await names(home)) == (False, False, [])
        assert len(set(home.app.vault_sweep.reports.old_copies)) == 4


async def test_the_current_version_with_other_line_ends_stays_the_current_one(tmp_path: Path) -> None:
    day = tmp_path / "home/vault" / TODAY
    async with opened(tmp_path / "home") as home:
        await home.put(fact(1), fact(2))
        await home.drain()
        before = await texts(home)
        day.write_bytes(with_crlf(day.read_bytes()))
        await look(home)
        assert (await texts(home), list(home.app.vault_sweep.reports.old_copies)) == (before, [])
        await home.put(fact(3))
        await look(home)
        assert len(await texts(home)) == 3
        assert (await verified(home))["ok"]


async def test_a_forgotten_note_comes_back_through_the_api_with_whatever_line_ends(tmp_path: Path) -> None:
    zoo: Json = {**ANN, "name": "zoo", "text": f"A {WORD}\nlives there.\n"}
    async with opened(tmp_path / "home") as home:
        await tell(home, "POST", "memory/notes", zoo)
        await tell(home, "DELETE", "memory/notes/zoo.md", user_id="ann")
        await home.drain()
        await tell(home, "POST", "memory/notes", {**zoo, "text": f"A {WORD}\r\nlives there.\r\n"})
        await look(home)
        assert await names(home) == ["zoo.md"]
