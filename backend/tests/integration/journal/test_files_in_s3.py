"""A home whose files are in S3 or a shared folder: they are written, edited, forgotten and brought back as in its own
folder, whatever S3 does.
"""

import itertools
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import httpx2
import pytest

from recollect.app import open_home
from recollect.errors import HomeUnusable, StorageUnavailable
from recollect.infra.object_stores import objects_at
from recollect.infra.vault_objects import ObjectVault
from recollect.service.operations import files_to_back_up
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings, load_settings
from tests.buckets import BUCKET, PLACES, FaultyS3, ObjectTexts, go_back, new_url
from tests.entry_house import fact
from tests.eventually import eventually
from tests.http_client import Home, Json, add, contents, drained, message, opened
from tests.processes import Server, recollect, recollect_json


def _home(home: Path) -> str | None:
    with closing(sqlite3.connect(home / "journal.db")) as journal:
        found = journal.execute("SELECT name FROM marks WHERE name LIKE 'home:%'").fetchone()
    return None if found is None else str(found[0])


UNUSABLE = (HomeUnusable, StorageUnavailable)
AT_ONCE = {"RECOLLECT_MEMORIZE__PAUSE_SECONDS": "0"}
"""Whoever waits for all jobs need not wait for a pause in the conversation."""
PART = "default/users/me/threads/t1/0001.md"
NOTE = "default/users/me/notes/porto.md"


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def url(place: str) -> str:
    return new_url(place)


@pytest.fixture
def files(url: str) -> ObjectTexts:
    return ObjectTexts(objects_at(url))


only_in_s3 = pytest.mark.parametrize("place", ["s3"], indirect=True)


async def health(home: Home) -> Json:
    answer: Json = (await home.client.get("/health")).json()
    return answer


async def verified(home: Home, **body: bool) -> Json:
    answer = await home.operate("POST", "verify", **{"repair": False, **body})
    found: Json = json.loads(answer.text.splitlines()[-1])
    assert "result" in found, found
    result: Json = found["result"]
    return result


async def test_messages_become_objects_edits_are_taken_in_and_forgetting_leaves_none(
    tmp_path: Path, url: str, files: ObjectTexts
) -> None:
    async with opened(tmp_path / "home", files_url=url) as home:
        await home.add("t1", "Marta moves to Prague", "She starts in June")
        await home.drain()
        assert "Marta moves to Prague" in files[PART]
        files[PART] = files[PART].replace("Prague", "Porto")
        files[NOTE] = "The flat is in Rua das Flores"
        await home.app.vault_sweep.sweep()
        await home.drain()
        history = await home.client.get("/api/v1/threads/t1/turns")
        assert history.json()["turns"][0]["content"] == "Marta moves to Porto"
        assert (await verified(home))["ok"]
        await home.app.search.indexer.settled()
        found = await home.client.post(
            "/api/v1/memory/search", json={"query": "Rua das Flores", "user_id": "me"}
        )
        assert [hit["path"] for hit in found.json()["hits"]] == [NOTE]
        await home.client.delete("/api/v1/threads/t1")
        await home.drain()
        assert not [path for path in files if "/threads/" in path]
        assert (await verified(home, forgotten=True))["ok"]
    assert not (tmp_path / "home/vault").exists()


async def test_a_prefix_belongs_to_one_home_and_a_restart_keeps_it(tmp_path: Path, url: str) -> None:
    for _ in range(2):
        async with opened(tmp_path / "home", files_url=url) as home:
            assert (await health(home))["degraded"] == []
    with pytest.raises(HomeUnusable, match="another home"):
        async with opened(tmp_path / "other", files_url=url):
            pass


async def test_a_new_home_is_told_first_that_the_prefix_is_anothers(tmp_path: Path, url: str) -> None:
    async with opened(tmp_path / "home", files_url=url) as home:
        await home.add("t1", "one")
        await home.drain()
        with pytest.raises(HomeUnusable, match="a place of its own") as raised:
            async with opened(tmp_path / "other", files_url=url):
                pass
        assert "whose journal is not" in str(raised.value)
        with pytest.raises(HomeUnusable, match="another home"):
            await rebuild_home(Settings(home=tmp_path / "third", files_url=url), open_home)
        await home.app.vault_sweep.sweep()
        assert home.app.vault.is_there()


def test_keys_in_the_url_are_refused_and_not_shown() -> None:
    with pytest.raises(HomeUnusable) as raised:
        load_settings(files_url="s3://ann:topsecret@bucket/prefix")
    assert "topsecret" not in str(raised.value)


async def test_a_process_whose_place_was_taken_writes_no_more(
    tmp_path: Path, url: str, files: ObjectTexts
) -> None:
    async with opened(tmp_path / "home", files_url=url) as home:
        await home.add("t1", "one")
        await home.drain()
        mark = json.loads(files[".recollect-vault"])
        files[".recollect-vault"] = json.dumps({**mark, "process": "a later one of a copy of this home"})
        await home.app.vault_sweep.sweep()
        assert not home.app.vault.is_there()
        assert "another process has taken" in (await health(home))["degraded"][0]
        before = dict(files)
        await home.add("t1", "two")
        await eventually(lambda: _waits(home))
        assert isinstance(home.app.vault, ObjectVault)
        assert not await home.app.vault.come_back()
        assert dict(files) == before


async def _waits(home: Home) -> bool:
    jobs = await home.app.jobs.list_jobs(space=None)
    return any(job.error is not None for job in jobs)


async def test_files_that_all_vanish_are_asked_about_and_written_again_where_a_person_says_so(
    tmp_path: Path, url: str, files: ObjectTexts
) -> None:
    async with opened(tmp_path / "home", files_url=url) as home:
        await home.add("t1", "one")
        await home.drain()
        objects_at(url).delete([*files, ".recollect-vault"])
        await home.app.vault_sweep.sweep()
        assert "the vault is missing" in (await health(home))["degraded"][0]
        assert (await verified(home, repair=True))["ok"]
        assert list(files) == [PART]
        assert (await health(home))["degraded"] == []


@only_in_s3
@pytest.mark.parametrize(
    ("what", "said"),
    [("bucket", "no bucket"), ("scheme", "not encrypted"), ("conditions", "ignores conditions")],
)
async def test_what_only_a_person_can_put_right_is_said_at_the_start(
    tmp_path: Path, url: str, what: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignores = {"if-match", "if-none-match"} if what == "conditions" else set[str]()
    if what == "bucket":
        url = url.replace(BUCKET, "elsewhere")
    with FaultyS3(ignores=ignores):
        if what == "scheme":
            monkeypatch.delenv("AWS_ALLOW_HTTP")
        with pytest.raises(UNUSABLE, match=said):
            async with opened(tmp_path / "home", files_url=url):
                pass


@only_in_s3
@pytest.mark.parametrize("status", [401, 403])
async def test_keys_that_are_refused_are_named_at_the_start(tmp_path: Path, url: str, status: int) -> None:
    with FaultyS3(lambda method, path: status), pytest.raises(UNUSABLE, match="AWS_ACCESS_KEY_ID"):
        async with opened(tmp_path / "home", files_url=url):
            pass


@only_in_s3
async def test_messages_are_taken_while_s3_is_down_and_written_once_it_is_back(
    tmp_path: Path, url: str, files: ObjectTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.infra.s3_objects._RETRIES", 1)
    down = True
    async with opened(tmp_path / "home", files_url=url) as first:
        await first.add("t1", "zero")
    with FaultyS3(lambda method, path: 503 if down else None):
        async with opened(tmp_path / "home", files_url=url) as home:
            await home.add("t1", "one", "two")
            await eventually(lambda: _waits(home))
            told = await health(home)
            assert told["status"] == "degraded"
            (problem,) = [each for each in told["degraded"] if "S3 answers with error 503" in each]
            assert "messages are kept in the journal" in problem
            down = False
            await eventually(lambda: _is_there(home))
            await home.drain()
            assert "> two" in files[PART]
            assert (await verified(home))["ok"]
            assert (await health(home))["status"] == "ok"


async def _is_there(home: Home) -> bool:
    return home.app.vault.is_there()


async def test_a_share_that_is_not_mounted_gets_nothing_and_is_written_once_it_is_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "mnt").mkdir()
    url, shared = f"file://{tmp_path}/mnt/shared", tmp_path / "mnt/shared"
    async with opened(tmp_path / "home", files_url=url) as home:
        await home.add("t1", "zero")
        await home.drain()
    shared.rename(tmp_path / "elsewhere")
    async with opened(tmp_path / "home", files_url=url) as home:
        await home.add("t1", "one", "two")
        await eventually(lambda: _waits(home))
        (problem,) = [each for each in (await health(home))["degraded"] if "is it mounted?" in each]
        assert "messages are kept in the journal" in problem
        assert list((tmp_path / "mnt").iterdir()) == []
        (tmp_path / "elsewhere").rename(shared)
        await eventually(lambda: _is_there(home))
        await home.drain()
        assert "> two" in (shared / PART).read_text(encoding="utf-8")
        assert (await verified(home))["ok"]
        assert (await health(home))["status"] == "ok"


@only_in_s3
@pytest.mark.parametrize("status", [503, 0], ids=["answers 503", "breaks after it was done"])
async def test_requests_that_fail_now_and_then_lose_and_double_nothing(
    tmp_path: Path, url: str, files: ObjectTexts, status: int
) -> None:
    count = itertools.count(1)
    with FaultyS3(lambda method, path: status if next(count) % 7 == 0 else None) as faulty:
        async with opened(tmp_path / "home", files_url=url) as home:
            for number in range(10):
                await home.add("t1", f"message {number}")
                await home.drain()
                if number == 5:
                    files[NOTE] = "by hand"
            await home.app.vault_sweep.sweep()
            await home.drain()
            assert (await verified(home))["ok"]
            assert (await home.coverage())["missing"] == 0
        assert faulty.faults > 5
    assert not [path for path in files if "conflict" in path]


async def test_deletions_outlive_home_and_journal(tmp_path: Path, url: str, files: ObjectTexts) -> None:
    async with opened(tmp_path / "home", files_url=url) as home:
        await home.add("t1", "Marta moves to Porto", "My PIN is 4711", user_id="ann")
        await home.put(fact(1), fact(2, "Ann's PIN is 4711."))
        await home.drain()
        old = dict(files)
        for path in ("threads/t1/turns/t-2", "memory/entries/fa-2"):
            (await home.client.delete(f"/api/v1/{path}?user_id=ann")).raise_for_status()
        await home.drain()
        packed = await files_to_back_up(tmp_path / "home", home.app.vault, home.app.ledger_outbox.ledger)
        assert b"fa-2" in packed["ledger"]()
        assert not [name for name in packed if ".ledger" in name]
    assert not (tmp_path / "home/ledger").exists()
    go_back(files, old)
    lost = Settings(home=tmp_path / "new", files_url=url, embedding={"kind": "none"})
    report, verification = await rebuild_home(lost, open_home, take=True)
    assert (report.turns, report.entries, verification.ok) == (1, 1, True)
    assert "old copies of deleted files" not in str(report.lost)
    assert not [path for path in files if "4711" in files[path]]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["vault.synced", "vault.renamed", "transcribe.recorded", "jobs.handled"])
def test_a_kill_at_any_step_of_a_write_loses_and_doubles_nothing(
    tmp_path: Path, url: str, files: ObjectTexts, point: str
) -> None:
    settings = AT_ONCE | {"RECOLLECT_FILES_URL": url, "RECOLLECT_TRANSCRIPT_DELAY_MS": "0"}
    dying = settings | {"RECOLLECT_FAIL_POINT": point}
    with Server(tmp_path / "home", dying) as server:
        add(server.client, "t1", [message("message 0"), message("message 1")])
        server.wait_for_end()
    with Server(tmp_path / "home", settings) as server:
        drained(server.client)
        assert contents(server.client, "t1") == ["message 0", "message 1"]
    assert recollect_json(tmp_path / "home", "verify", settings=settings)["ok"]
    assert [path for path in files if "/threads/" in path] == [PART]


@pytest.mark.slow
def test_a_kill_while_a_note_is_forgotten_leaves_no_object(
    tmp_path: Path, url: str, files: ObjectTexts
) -> None:
    settings = {"RECOLLECT_FILES_URL": url}
    with Server(tmp_path / "home", settings) as server:
        server.client.post(
            "/api/v1/memory/notes", json={"name": "porto", "text": "Rua das Flores"}
        ).raise_for_status()
        assert NOTE in files
    with Server(tmp_path / "home", settings | {"RECOLLECT_FAIL_POINT": "vault.emptied"}) as server:
        with suppress(httpx2.HTTPError):
            server.client.delete("/api/v1/memory/notes/porto.md")
        server.wait_for_end()
    with Server(tmp_path / "home", settings) as server:
        drained(server.client)
    assert recollect_json(tmp_path / "home", "verify", "--forgotten", settings=settings)["ok"]
    assert NOTE not in list(files)


@pytest.mark.slow
def test_backup_restore_and_rebuild_bring_a_home_back(
    tmp_path: Path, url: str, files: ObjectTexts, place: str
) -> None:
    settings = AT_ONCE | {"RECOLLECT_FILES_URL": url}
    with Server(tmp_path / "home", settings) as server:
        add(server.client, "t1", [message("one"), message("two")])
        drained(server.client)
        recollect_json(tmp_path / "home", "backup", str(tmp_path / "saved.tar.gz"), settings=settings)
    archive = str(tmp_path / "saved.tar.gz")
    refused = recollect(tmp_path / "new", "restore", archive, settings=settings)
    assert "holds files already" in refused.stderr
    elsewhere = new_url(place)
    assert recollect_json(tmp_path / "new", "restore", archive, settings={"RECOLLECT_FILES_URL": elsewhere})[
        "ok"
    ]
    assert _home(tmp_path / "new") not in (None, _home(tmp_path / "home"))
    restored = ObjectTexts(objects_at(elsewhere))
    assert restored[PART] == files[PART]
    assert not (tmp_path / "new/vault").exists()
    assert recollect_json(tmp_path / "folder", "restore", archive)["ok"]
    assert (tmp_path / "folder/vault" / PART).read_text() == files[PART]
    (tmp_path / "home/journal.db").rename(tmp_path / "lost.db")
    refused = recollect(tmp_path / "home", "serve", settings=settings)
    assert "recollect rebuild" in refused.stderr
    refused = recollect(tmp_path / "home", "rebuild", settings=settings)
    assert "another home" in refused.stderr
    rebuilt = recollect_json(tmp_path / "home", "rebuild", "--take", settings=settings)
    assert (rebuilt["turns"], rebuilt["verification"]["ok"]) == (2, True)
    with Server(tmp_path / "home", settings) as server:
        assert contents(server.client, "t1") == ["one", "two"]
