"""Servers on one journal and one prefix, each with a home of its own: whoever leads has the index of all before it."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

import pytest

from recollect.domain.recall.rows import Vectors
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.objects import INDEX
from recollect.infra.s3_objects import S3Objects
from tests import deployment
from tests.buckets import FaultyS3, new_url
from tests.eventually import eventually
from tests.http_client import Home, opened

TEXTS = "Marta keeps her bicycle in the cellar", "The cat sleeps on the piano", "Rent is due on Fridays"
BY_MEANING = "an animal resting on a musical instrument"
"""Has no word of the text that it means."""


class Members:
    """Servers that share all but their homes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shared = deployment.HOMES.settings(folder / "shared")
        self.url = shared.get("files_url", new_url())
        self._database = shared.get("database_url", f"sqlite:///{folder / 'journal.db'}")
        self.embedded: Counter[str] = Counter()
        """How often each text was embedded."""

    @asynccontextmanager
    async def leading(self, name: str) -> AsyncIterator[Home]:
        """With a home that nobody has used, unless the name comes again."""
        home = self._folder / name
        (home / "index/g000001").mkdir(parents=True)  # Of the time when it was no member.
        async with self.alone(name, member_url="http://127.0.0.1:1") as opened_home:
            yield opened_home
        assert not (home / "index").exists()

    @asynccontextmanager
    async def alone(self, name: str, **settings: str) -> AsyncIterator[Home]:
        """The index is in the home, unless the settings say that it is a member."""
        embedding = {"kind": "onnx", "query_seconds": 30}
        places = {"database_url": self._database, "files_url": self.url}
        async with opened(self._folder / name, embedding=embedding, **places, **settings) as home:
            yield home

    def times_embedded(self, *texts: str) -> list[int]:
        """As messages: memories quote them."""
        return [self.embedded[f"ann: {text}"] for text in texts]

    def objects_with(self, secret: str) -> list[str]:
        objects = S3Objects(f"{self.url}/{INDEX}")
        held = ((each.path, objects.get(each.path)) for each in objects.list())
        return [path for path, found in held if found is not None and secret.encode() in found.content]


@pytest.fixture
def members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Members:
    members, embed = Members(tmp_path), OnnxEmbedder.embed

    async def counted(self: OnnxEmbedder, texts: Sequence[str]) -> Vectors:
        members.embedded.update(texts)
        return await embed(self, texts)

    monkeypatch.setattr(OnnxEmbedder, "embed", counted)
    return members


async def found(home: Home, query: str, mode: str = "hybrid") -> list[str]:
    body = {"query": query, "user_id": "me", "mode": mode}
    answer = (await home.client.post("/api/v1/memory/search", json=body)).raise_for_status().json()
    return [hit["text"] for hit in answer["hits"]]


async def degraded(home: Home) -> str:
    return " ".join((await home.client.get("/health")).json()["degraded"])


async def test_a_member_with_an_empty_home_finds_all_and_embeds_nothing_again(members: Members) -> None:
    async with members.leading("first") as home:
        await home.add("t1", *TEXTS)
        await home.app.search.indexer.settled()
        assert members.times_embedded(*TEXTS) == [1, 1, 1]
    async with members.leading("second") as home:
        await home.app.search.indexer.settled()
        assert await found(home, "bicycle", "keyword") == [TEXTS[0]]
        assert (await found(home, BY_MEANING, "vector"))[0] == TEXTS[1]
        assert members.times_embedded(*TEXTS) == [1, 1, 1]
        await home.add("t1", "The piano is out of tune")
        await home.app.search.indexer.settled()
        assert (await found(home, "tune"))[0] == "The piano is out of tune"
        assert await home.app.search.verifier.problems(home.app.search.indexer.live.name) == []


async def test_what_is_forgotten_leaves_the_bucket_whoever_leads(members: Members) -> None:
    async with members.leading("first") as home:
        await home.add("t1", *TEXTS)
        await home.add("t2", "Of the other thread")
        await home.drain()
        await home.app.search.indexer.settled()
    assert members.objects_with("bicycle")
    async with members.leading("second") as home:
        await home.client.delete("/api/v1/threads/t1")
        await home.drain()
        assert not members.objects_with("bicycle")
        proof = await home.app.forgotten_verifier.verify()
        assert (proof.problems, proof.looked_at["rows in all of them"]) == ([], 1)
        assert await found(home, "other", "keyword") == ["Of the other thread"]


async def test_what_is_forgotten_while_there_are_no_members_is_not_found_by_the_next(
    members: Members,
) -> None:
    async with members.leading("first") as home:
        await home.add("t1", *TEXTS)
        await home.add("t2", "Of the other thread")
        await home.app.search.indexer.settled()
    async with members.alone("first") as home:
        await home.client.delete("/api/v1/threads/t1")
        await home.drain()
        await home.app.search.indexer.settled()
    async with members.leading("second") as home:
        await home.app.search.indexer.settled()
        assert await found(home, "bicycle", "keyword") == []
        assert await found(home, "other", "keyword") == ["Of the other thread"]
        await home.drain()
        await eventually(lambda: not members.objects_with("bicycle"))


@pytest.mark.slow
async def test_the_vault_knows_nothing_of_the_index(members: Members) -> None:
    async with members.leading("first") as home:
        await home.add("t1", *TEXTS)
        await home.drain()
        await home.app.search.indexer.settled()
        vault = home.app.vault
        listed = [*await vault.stamps(), *await vault.list_files(), *await vault.sources()]
        assert listed
        assert not [path for path in listed if INDEX in path]
        whole, index = await vault.bytes_below(""), (await home.app.index.size())[1]
        assert whole < index
        await home.app.vault_sweep.sweep()
        assert await home.app.search.verifier.problems(home.app.search.indexer.live.name) == []


def of_index(is_down: Callable[[], bool]) -> Callable[[str, str], int | None]:
    return lambda method, path: 403 if is_down() and f"/{INDEX}/" in unquote(path) else None


@pytest.mark.slow
async def test_while_s3_is_down_messages_are_taken_and_found_and_nothing_is_made_again(
    members: Members,
) -> None:
    is_down = False
    with FaultyS3(of_index(lambda: is_down)):
        async with members.leading("first") as home:
            await home.add("t1", *TEXTS[:2])
            await home.app.search.indexer.settled()
            assert await found(home, "piano", "keyword") == [TEXTS[1]]
            is_down = True
            await home.add("t1", TEXTS[2])
            await eventually(lambda: _finds(home, "Rent", TEXTS[2]))
            await home.add("t2", "A thread that begins while S3 is down")
            await eventually(lambda: _finds(home, "begins", "A thread that begins while S3 is down"))
            assert "S3" in await degraded(home)
            assert (await home.client.get("/metrics")).status_code == 200
            is_down = False
            await home.app.search.indexer.settled()
            await eventually(lambda: _is_well(home))
            assert (await found(home, BY_MEANING, "vector"))[0] == TEXTS[1]
            assert members.times_embedded(*TEXTS[:2]) == [1, 1]


@pytest.mark.slow
async def test_a_member_that_begins_while_s3_is_down_finds_by_words_and_later_by_meaning(
    members: Members,
) -> None:
    is_down = False
    with FaultyS3(of_index(lambda: is_down)):
        async with members.leading("first") as home:
            await home.add("t1", *TEXTS)
            await home.app.search.indexer.settled()
        is_down = True
        async with members.leading("second") as home:
            assert await found(home, "bicycle", "keyword") == [TEXTS[0]]
            await home.add("t1", "The piano is out of tune")
            await eventually(lambda: _finds(home, "tune", "The piano is out of tune"))
            assert "S3" in await degraded(home)
            is_down = False
            await home.app.search.indexer.settled()
            assert (await found(home, BY_MEANING, "vector"))[0] == TEXTS[1]
            assert members.times_embedded(*TEXTS) == [1, 1, 1]


async def _finds(home: Home, query: str, text: str) -> bool:
    return text in await found(home, query, "keyword")


async def _is_well(home: Home) -> bool:
    return not await degraded(home)
