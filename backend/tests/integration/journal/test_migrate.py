"""A journal that moves into PostgreSQL and back is the same journal, and until the last step the old one counts."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from recollect.app import open_home
from recollect.domain.access import Caller
from recollect.errors import HomeUnusable
from recollect.infra.journal import moving
from recollect.infra.vault_objects import MARKER
from recollect.service import migrate as migration
from recollect.service.coordination import no_progress
from recollect.service.migrate import migrate
from recollect.service.operations import backup
from recollect.service.restore import restore_home
from recollect.settings import Settings, load_settings
from tests.buckets import PLACES, new_url
from tests.chatting import say, with_backend
from tests.deployment import Bucket, Folder
from tests.files_under import files_under
from tests.http_client import add, coverage, drained, message, opened
from tests.members import Members
from tests.postgres import Cluster, cluster_of_session
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of_session()


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """With threads, memories and jobs of two users."""
    async with opened(tmp_path / "home") as home:
        for user in ("ann", "bob"):
            await home.add(
                f"t-{user}", *(f"I like tea{number}, \\ \t „so“." for number in range(30)), user_id=user
            )
    return tmp_path / "home"


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(path)) as journal:
        names = [name for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(journal.execute(f"SELECT * FROM {name}"), key=repr) for name in names}


def settings(home: Path) -> Settings:
    return load_settings(home=home)


async def test_there_and_back_it_is_the_same_row_by_row_and_file_by_file(
    home: Path, cluster: Cluster
) -> None:
    url = cluster.url(str(home))
    (home / "recollect.toml").write_text('port = 8601 # mine\n\n[llm]\nmodel = "x"\n', encoding="utf-8")
    before, vault = rows(home / "journal.db"), files_under(home / "vault")

    there = await migrate(settings(home), url, no_progress)
    assert there.rows > 100
    assert "hunter2" not in str(there)
    assert settings(home).postgres_url == url
    assert not (home / "journal.db").exists()

    await migrate(settings(home), "sqlite", no_progress)
    assert settings(home).database_url is None
    assert rows(home / "journal.db") == before
    assert files_under(home / "vault") == vault
    text = (home / "recollect.toml").read_text(encoding="utf-8")
    assert text == 'port = 8601 # mine\n\n[llm]\nmodel = "x"\n'


async def test_another_journal_in_the_target_is_left_alone(home: Path, cluster: Cluster) -> None:
    url = cluster.url(str(home))
    await migrate(settings(home), url, no_progress)
    with cluster.inside(url) as driver:
        driver.execute("UPDATE threads SET title = 'another'")
    (old,) = home.glob("journal.migrated-*.db")
    old.rename(home / "journal.db")
    (home / "recollect.toml").unlink()
    with pytest.raises(HomeUnusable, match="is not empty; nothing was copied"):
        await migrate(settings(home), url, no_progress)
    assert settings(home).database_url is None
    assert (home / "journal.db").exists()


async def test_the_old_file_is_named_where_forgetting_is_proved(home: Path, cluster: Cluster) -> None:
    await migrate(settings(home), cluster.url(str(home)), no_progress)
    (old,) = home.glob("journal.migrated-*.db")
    async with opened(home, database_url=cluster.url(str(home))) as there:
        result = await there.app.forgotten_verifier.verify()
    assert [note for note in result.notes if note.startswith(old.name)]


async def test_what_ended_before_the_last_step_leaves_the_old_journal_in_use_and_goes_on(
    home: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cluster.url(str(home))

    async def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(migration, "write_first_setting", die)
        with pytest.raises(KeyboardInterrupt):
            await migrate(settings(home), url, no_progress)
    assert settings(home).database_url is None
    assert (home / "journal.db").exists()
    await migrate(settings(home), url, no_progress)
    assert settings(home).postgres_url == url


async def test_a_copy_that_differs_is_refused_and_undone(
    home: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cluster.url(str(home))
    with monkeypatch.context() as patched:
        patched.setattr(
            moving, "_continue_numbers", lambda driver, source: driver.execute("UPDATE turns SET asks = 7")
        )
        with pytest.raises(HomeUnusable, match="differs from the journal in turns"):
            await migrate(settings(home), url, no_progress)
    with cluster.inside(url) as driver:
        assert driver.execute("SELECT count(*) FROM turns").fetchone() == (0,)


async def test_a_server_goes_on_where_the_other_journal_ended(home: Path, cluster: Cluster) -> None:
    await migrate(settings(home), cluster.url(str(home)), no_progress)
    async with opened(home, database_url=settings(home).database_url) as there:
        assert (
            len(
                await there.app.THREADS.get_history(
                    await there.app.THREADS.meant("t-ann", user_id="ann"), None
                )
            )
            == 30
        )
        await there.add("t-ann", "One more.", user_id="ann")
        await there.add("t-cid", "And a new one.", user_id="cid")


async def test_a_backup_is_the_same_file_and_is_restored_into_either(
    home: Path, cluster: Cluster, tmp_path: Path
) -> None:
    before = rows(home / "journal.db")["turns"]
    await migrate(settings(home), cluster.url(str(home)), no_progress)
    url, other = settings(home).database_url, cluster.url(f"{home} again")
    async with opened(home, database_url=url) as there:
        saved = tmp_path / "saved.tar.gz"
        operator = Caller(local_operator=True)
        app = there.app
        journal, ledger = app.database.connector, app.ledger_outbox.ledger
        await backup(operator, app.jobs, app.settings, journal, app.vault, ledger, saved)
    for name, database_url in (("file", None), ("postgres", other)):
        restored = load_settings(home=tmp_path / name, database_url=database_url)
        assert (await restore_home(saved, restored, open_home)).ok
        assert (tmp_path / name / "journal.db").exists() == (database_url is None)
    assert rows(tmp_path / "file" / "journal.db")["turns"] == before


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_home_moves_to_several_servers_and_back_with_the_same_digest_and_files(
    tmp_path: Path, cluster: Cluster, model: StandInModel, place: str
) -> None:
    home, back, saved = tmp_path / "home", tmp_path / "back", tmp_path / "saved.tar.gz"
    alone = with_backend(model.base_url)
    shared = {"RECOLLECT_DATABASE_URL": cluster.url(str(tmp_path)), "RECOLLECT_FILES_URL": new_url(place)}
    bucket = Bucket(shared["RECOLLECT_FILES_URL"])
    with Server(home, alone) as server:
        for user in ("ann", "bob"):
            say(server.client, f"t-{user}", "Who is Ada Lovelace?", user_id=user, memory=True)
            add(server.client, f"n-{user}", [message("I like „tea“ \\ \t so.")], user_id=user)
            flush = {"session_id": f"n-{user}", "user_id": user, "timeout": 30}
            server.client.post("/api/v1/memory/flush", json=flush).raise_for_status()
        drained(server.client)
        digest = coverage(server.client)["digest"]
        notes = [home / "vault/default/users" / user / "index.md" for user in ("ann", "bob")]
        wait_until(lambda: all(note.exists() for note in notes), "the notes are written")
    files = files_of(Folder(home / "vault"))

    recollect_json(home, "migrate", "--to", shared["RECOLLECT_DATABASE_URL"])
    pushed = recollect(home, "vault", "push", str(home / "vault"), settings=shared)
    assert pushed.returncode == 0, pushed.stderr
    with Members(tmp_path / "members", alone | shared) as members:
        one = members.start("one")
        members.leader()
        two = members.start("two")
        drained(two.client)
        assert coverage(two.client)["digest"] == digest
        assert recollect_json(two.home, "verify")["ok"]
        assert files_of(bucket) == files
        add(two.client, "n-ann", [message("And honey.", 1)], user_id="ann")
        drained(two.client)
        digest, files = coverage(two.client)["digest"], files_of(bucket)
        recollect_json(one.home, "backup", str(saved))

    assert recollect_json(back, "restore", str(saved))["ok"]
    assert files_of(Folder(back / "vault")) == files
    with Server(back, alone) as server:
        drained(server.client)
        assert coverage(server.client)["digest"] == digest
        assert recollect_json(back, "verify")["ok"]
    assert files_of(Folder(back / "vault")) == files


def files_of(vault: Folder) -> dict[str, bytes]:
    """But for the one that marks it as a home's."""
    return {path: content for path, content in vault.files().items() if path != MARKER}
