"""A vault of 30 messages over six days, by Obsidian's rules: every link resolves, and no file has a heading twice."""

import re
from collections import Counter
from pathlib import Path

from recollect.app import open_home
from recollect.domain.forgetting import is_deletions_path
from recollect.domain.markdown.front_matter import split_front_matter
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
from tests.files_under import files_under
from tests.http_client import Home, opened
from tests.remembering import DAY, MAY_8, entries, remember, remembering, said, vault_files

ANN = "default/users/ann/"
DOCS = Path(__file__).parents[4] / "docs" / "vault-format.md"
DAYS = (
    ("My name is Ann and I live in Berlin.", "I have a dog called Rex.", "What a sunny day!"),
    ("I work as a nurse.", "The ward is busy.", "I like early mornings."),
    ("I'm flying to Porto on 3 June 2026.", "My sister lives there.", "I like the sea."),
    ("I'm vegetarian.", "What should I cook tonight?", "I don't eat mushrooms."),
    ("I like long walks.", "Rex does, too.", "It rained all day."),
    ("I now live in Porto.", "The flat is small.", "I have a cat called Mia."),
)
"""What Ann says each day. Every message but the last is answered."""

_links = re.compile(r"\[\[([^\[\]#|]+)(?:#\^([^\[\]|]+))?(?:\|[^\[\]]*)?\]\]").findall
_headings = re.compile(r"^(#+ .*?)(?: \^[A-Za-z0-9-]+)?$", re.MULTILINE).findall
_block_id = re.compile(r"[A-Za-z0-9-]+").fullmatch
_quoted = re.compile(r"`(users/[^`]+)`:\n\n```markdown\n(.*?)```", re.DOTALL).findall


async def talk(home: Home, user_id: str = "ann") -> None:
    for number, (first, second, third) in enumerate(DAYS):
        talked = (
            ("user", first),
            ("assistant", "I see."),
            ("user", second),
            ("assistant", "Oh."),
            ("user", third),
        )
        messages = said(talked, start=MAY_8 + number * DAY, prefix=f"m{number}-")
        await remember(home, "berlin" if number < 3 else "porto", messages, user_id=user_id)
    await home.drain()


def read(home: Path) -> dict[str, str]:
    return {path: content.decode() for path, content in vault_files(home).items() if path.endswith(".md")}


def unresolved(files: dict[str, str]) -> list[str]:
    """Links to no file or to several, or to none of its blocks, where each user's folder is opened as a vault.

    Obsidian takes every file whose path ends with the link, and finds a block by its id at the end of a line.
    """
    found = []
    for path, text in files.items():
        folder = "/".join(path.split("/")[:3])
        opened_files = {
            f"/{name.removeprefix(f'{folder}/')}": name for name in files if name.startswith(f"{folder}/")
        }
        for target, block in _links(text):
            targets = [name for place, name in opened_files.items() if place.endswith(f"/{target}.md")]
            target_text = files[targets[0]] if len(targets) == 1 else None
            ends = [] if target_text is None else [line.split(" ^")[-1] for line in target_text.split("\n")]
            if target_text is None or (block and (ends.count(block) != 1 or not _block_id(block))):
                found.append(f"{path}: {target} {block}")
    return found


async def test_every_link_resolves_and_no_file_has_a_heading_twice(tmp_path: Path) -> None:
    async with remembering(tmp_path / "home") as home:
        await talk(home)
        files = read(tmp_path / "home")
        made = await entries(home, "episodes", "facts", "foresight")
        await talk(home, "Ann's friend")
        await home.app.index_notes.write_due()
        both = read(tmp_path / "home")
    friends = {path: text for path, text in both.items() if not path.startswith(ANN)}
    assert {path: text for path, text in both.items() if path.startswith(ANN)} == files
    assert [
        text for path, text in friends.items() if path.endswith("index.md") and "\n# Ann's friend\n" in text
    ]
    assert unresolved(both) == []
    transcripts = "".join(text for path, text in files.items() if "/threads/" in path)
    assert sum(line.startswith("## ") for line in transcripts.split("\n")) == 30
    assert {path.split("/")[-1] for path in files if "/episodes/" in path} == {
        f"2026-05-{day:02}.md" for day in range(8, 14)
    }
    assert unresolved(files) == []
    index = files[f"{ANN}index.md"]
    for target in ("profile", *(f"episodes/2026-05-{day:02}|2026-05-{day:02}" for day in range(8, 14))):
        assert index.count(f"[[{target}]]") == 1
    for entry in made:
        assert transcripts.count(f"#^{entry.entry_id}]]") == 1, "each memory is linked where it was said"
    for path, text in files.items():
        assert [heading for heading, times in Counter(_headings(text)).items() if times > 1] == [], path
        assert split_front_matter(text)[2] == (), path


async def test_two_memories_of_a_day_that_say_the_same_have_headings_of_their_own(tmp_path: Path) -> None:
    async with remembering(tmp_path / "home") as home:
        body = {"user_id": "ann", "kind": "facts", "text": "Tea is good."}
        for _ in range(3):
            (await home.client.post("/api/v1/memory/entries", json=body)).raise_for_status()
        await home.drain()
        (file,) = (text for path, text in read(tmp_path / "home").items() if "/facts/" in path)
        made = await entries(home, "facts")
    assert _headings(file) == ["## Tea is good.", "## Tea is good. (2)", "## Tea is good. (3)"]
    assert [each.entry.text for each in made] == ["Tea is good."] * 3


async def test_the_files_that_the_documentation_quotes_are_these(tmp_path: Path) -> None:
    async with remembering(tmp_path / "home") as home:
        await talk(home)
    files, quoted = read(tmp_path / "home"), _quoted(DOCS.read_text(encoding="utf-8"))
    assert len(quoted) >= 3
    for path, text in quoted:
        assert text in files[f"default/{path}"], path


async def test_a_memory_that_is_deleted_loses_its_link_and_a_rebuilt_home_has_the_same_links(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path / "home") as home:
        await talk(home)
        gone = (await entries(home, "facts"))[0].entry_id
        assert gone in read(tmp_path / "home")[f"{ANN}threads/berlin/0001.md"]
        answer = await home.client.delete(f"/api/v1/memory/entries/{gone}")
        answer.raise_for_status()
        await home.drain()
        settings = home.app.settings
    before = read(tmp_path / "home")
    assert not [path for path, text in before.items() if gone in text and not is_deletions_path(path)]
    assert unresolved(before) == []
    _, verification = await rebuild_home(settings, open_home)
    assert verification.problems == []
    assert read(tmp_path / "home") == before


async def test_the_index_note_is_a_persons_once_they_change_it_and_comes_back_once_they_remove_it(
    tmp_path: Path,
) -> None:
    index = tmp_path / "home/vault" / f"{ANN}index.md"
    async with opened(tmp_path / "home") as home:
        body = {"user_id": "ann", "name": "treasure", "text": "Below the lighthouse."}
        (await home.client.post("/api/v1/memory/notes", json=body)).raise_for_status()
        await home.drain()
        ours = index.read_text()
        assert "- [[notes/treasure]]\n" in ours
        index.write_text(f"{ours}Mine.\n")
        body = {"user_id": "ann", "name": "plans", "text": "Porto, treasure and lighthouse."}
        (await home.client.post("/api/v1/memory/notes", json=body)).raise_for_status()
        await home.drain()
        await home.app.vault_sweep.sweep()
        await home.app.index_notes.write_due()
        assert index.read_text() == f"{ours}Mine.\n"
        index.unlink()
        await home.app.vault_sweep.sweep()
        await home.app.index_notes.write_due()
        assert "- [[notes/plans]]\n- [[notes/treasure]]\n" in index.read_text()
        await home.app.search.indexer.settled()
        found = await home.client.post("/api/v1/memory/search", json={"user_id": "ann", "query": "treasure"})
        assert {hit["text"] for hit in found.raise_for_status().json()["hits"]} == {
            "Below the lighthouse.",
            body["text"],
        }


async def test_a_forgotten_note_is_named_in_no_file(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        for name in ("treasure", "plans"):
            body = {"user_id": "ann", "name": name, "text": f"{name}."}
            (await home.client.post("/api/v1/memory/notes", json=body)).raise_for_status()
        await home.drain()
        index = tmp_path / "home/vault" / f"{ANN}index.md"
        assert "treasure" in index.read_text()
        home.app.index_notes.changed = lambda owners: None  # type: ignore[method-assign]
        gone = await home.client.delete("/api/v1/memory/notes/treasure.md", params={"user_id": "ann"})
        gone.raise_for_status()
        await home.drain()
        assert (await home.app.forgotten_verifier.verify()).problems == []
        assert "[[notes/plans]]" in index.read_text()
        assert not [path for path, held in files_under(tmp_path / "home").items() if b"treasure" in held]


async def test_a_transcript_that_lost_its_links_is_rebuilt_with_them(tmp_path: Path) -> None:
    async with remembering(tmp_path / "home") as home:
        await talk(home)
    wanted = read(tmp_path / "home")
    file = tmp_path / "home/vault" / f"{ANN}threads/berlin/0001.md"
    file.write_text(re.sub(r"( %%)(?: \[\[[^\]]+\]\])+\n", r"\1\n", file.read_text()), encoding="utf-8")
    (tmp_path / "home/journal.db").unlink()
    settings = Settings(home=tmp_path / "home", embedding={"kind": "none"}, llm={"discover": False})
    _, verification = await rebuild_home(settings, open_home)
    assert verification.problems == []
    assert read(tmp_path / "home") == wanted
