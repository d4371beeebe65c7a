"""Notes over HTTP: put into the vault as they are, found by search, replaced only when that is asked for."""

import httpx2
import pytest

from tests.eventually import eventually
from tests.files_under import files_under
from tests.http_client import Home, Json

NOTES = "/api/v1/memory/notes"
TEXT = "# Porto\r\n\nMarta lives in the *Rua das Flores*.\n"


async def bring(
    home: Home, name: str = "Porto trip.md", text: str = TEXT, **fields: object
) -> httpx2.Response:
    return await home.client.post(NOTES, json={"user_id": "ann", "name": name, "text": text, **fields})


async def names(home: Home, user_id: str = "ann") -> list[str]:
    listed: Json = (await home.client.get(NOTES, params={"user_id": user_id})).raise_for_status().json()
    return [note["name"] for note in listed["notes"]]


async def test_a_note_stands_in_the_vault_as_it_was_brought_and_is_found(home: Home) -> None:
    answer = await bring(home)
    note = answer.json()
    assert (answer.status_code, note["text"]) == (201, TEXT)
    assert (home.app.settings.vault_path / note["path"]).read_bytes() == TEXT.encode()
    assert await names(home) == [note["name"]]

    async def is_found() -> bool:
        asked = {"user_id": "ann", "query": "Rua das Flores"}
        hits = (await home.client.post("/api/v1/memory/search", json=asked)).json()["hits"]
        return [(hit["type"], hit["path"]) for hit in hits] == [("note", note["path"])]

    await eventually(is_found)


async def test_another_note_of_the_same_name_is_replaced_only_when_that_is_asked_for(home: Home) -> None:
    await bring(home)
    again, other = await bring(home), await bring(home, text="another")
    assert (again.status_code, other.status_code) == (200, 409)
    assert other.json()["error"]["code"] == "already_exists"
    replaced = await bring(home, text="another", replace=True)
    assert (replaced.status_code, replaced.json()["text"]) == (200, "another")
    assert len(await names(home)) == 1


@pytest.mark.parametrize("name", ["..", "CON", "\u4f60\u597d.md"])
async def test_no_name_leads_out_of_the_notes(home: Home, name: str) -> None:
    path = (await bring(home, name)).raise_for_status().json()["path"]
    assert path.startswith("default/users/ann/notes/")
    assert ".." not in path
    assert path.count("/") == 4


async def test_what_is_no_note_is_refused_by_name(home: Home) -> None:
    for field, fields in {"text": {"text": " \n"}, "name": {"name": ""}, "colour": {"colour": "red"}}.items():
        answer = await bring(home, **{"name": "n", "text": "t", **fields})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    for name in ("../../../escape.md", "/etc/passwd", "a\\b.md", "porto.md/x.md"):
        refused = (await bring(home, name)).json()["error"]
        assert (refused["field"], refused["message"]) == ("name", "name: names a file, without folders")
    too_long = await bring(home, text="x" * 1_000_001)
    assert (too_long.status_code, too_long.json()["error"]["field"]) == (422, "text")


async def forget(home: Home, name: str, user_id: str = "ann") -> httpx2.Response:
    return await home.client.delete(f"{NOTES}/{name}", params={"user_id": user_id})


async def test_a_forgotten_note_is_gone_from_the_vault_the_list_and_every_search(home: Home) -> None:
    note, other = (await bring(home)).json(), (await bring(home, "other.md", "Quite another matter.")).json()
    asked = {"user_id": "ann", "query": "Rua das Flores"}
    await home.client.post("/api/v1/memory/search", json=asked)
    answer = (await forget(home, note["name"])).raise_for_status().json()
    assert answer == {"name": note["name"], "deleted": True}
    assert await names(home) == [other["name"]]
    await home.drain()
    assert not (home.app.settings.vault_path / note["path"]).exists()
    assert await names(home) == [other["name"]]
    hits = (await home.client.post("/api/v1/memory/search", json=asked)).json()["hits"]
    assert [hit["path"] for hit in hits if hit["path"] == note["path"]] == []
    assert (await home.app.forgotten_verifier.verify()).problems == []
    files = files_under(home.app.settings.home)
    assert [path for path, content in files.items() if b"flores" in content.lower()] == []
    assert (await forget(home, note["name"])).status_code == 404


async def test_a_note_of_the_same_name_that_is_brought_after_that_stays(home: Home) -> None:
    name = (await bring(home)).json()["name"]
    (await forget(home, name)).raise_for_status()
    await home.drain()
    again = await bring(home, text="Said again.")
    assert again.status_code == 201
    await home.drain()
    assert (await home.client.get(f"{NOTES}/{name}", params={"user_id": "ann"})).json()[
        "text"
    ] == "Said again."


async def test_a_note_that_is_edited_before_its_file_is_removed_is_kept(home: Home) -> None:
    """A job that runs late, or again, removes the version that was forgotten, and no other."""
    note = (await bring(home)).json()
    file = home.app.settings.vault_path / note["path"]
    async with home.app.jobs.paused():
        (await forget(home, note["name"])).raise_for_status()
        file.write_bytes(b"Edited since.")
    await home.drain()
    assert file.read_bytes() == b"Edited since."


async def test_anothers_notes_are_not_there(home: Home) -> None:
    name = (await bring(home)).json()["name"]
    async with home.keyed("bob") as bob:
        assert (await bob.get(NOTES)).json() == {"notes": []}
        refused = [
            await bob.get(f"{NOTES}/{name}"),
            await bob.delete(f"{NOTES}/{name}"),
            await bob.delete(f"{NOTES}/{name}", params={"user_id": "ann"}),
            await bob.get(NOTES, params={"user_id": "ann"}),
            await bob.post(NOTES, json={"user_id": "ann", "name": "n", "text": "t"}),
        ]
    assert [answer.status_code for answer in refused] == [404, 404, 403, 403, 403]
    assert len(list(home.app.settings.vault_path.rglob("notes/*.md"))) == 1
