"""A home with its journal in PostgreSQL, and its files in a folder or in S3: the vault alone brings the journal back."""

from pathlib import Path
from typing import Any

import pytest

from recollect.app import open_home
from recollect.errors import HomeInUse, HomeUnusable
from recollect.infra.journal import moving, postgres_writer
from recollect.infra.journal.audit_lines import SqlAuditLines
from recollect.infra.journal.postgres import PostgresConnector
from recollect.infra.journal.postgres_writer import PostgresTransactions
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
from tests.buckets import new_url
from tests.http_client import Home, add, contents, coverage, drained, message, opened
from tests.postgres import Cluster, cluster_of_session
from tests.processes import Server, recollect, recollect_json

TEXTS = ["I like tea.", "Marta moves to Porto."]
HOOK = ("wh_1", "default", "ann", "https://hooks.example/x", "s", "forgotten", 1)


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of_session()


@pytest.fixture
def url(cluster: Cluster, tmp_path: Path) -> str:
    return cluster.url(str(tmp_path))


def settings_of(tmp_path: Path, url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=url, embedding={"kind": "none"})


@pytest.fixture
async def settings(tmp_path: Path, url: str) -> Settings:
    """Of a home with a thread and a row that no vault holds."""
    async with opened(tmp_path / "home", database_url=url) as home:
        await home.add("t1", *TEXTS)
        await home.drain()
        await home.app.database.execute("INSERT INTO marks (name, at) VALUES ('of the old journal', 0)")
    return settings_of(tmp_path, url)


async def said(home: Home) -> list[str]:
    turns: list[dict[str, Any]] = (await home.client.get("/api/v1/threads/t1/turns")).json()["turns"]
    return [turn["content"] for turn in turns]


def is_old(cluster: Cluster, url: str) -> bool:
    with cluster.inside(url) as driver:
        found = driver.execute("SELECT count(*) FROM marks WHERE name = 'of the old journal'").fetchone()
    return found == (1,)


async def test_a_rebuild_takes_the_place_of_the_old_journal_and_keeps_what_no_vault_holds(
    settings: Settings, cluster: Cluster, url: str
) -> None:
    async with opened(settings.home, database_url=url) as home:
        await home.make_key()
        values = ", ".join("?" * len(HOOK))
        await home.app.database.execute(f"INSERT INTO webhooks VALUES ({values})", HOOK)
        await SqlAuditLines(home.app.database).append("a line")
        keys = await home.app.keys.list_with_hashes()
    report, verification = await rebuild_home(settings, open_home)
    assert (report.turns, report.problems, verification.ok) == (2, [], True)
    assert "API keys" not in report.lost
    assert not is_old(cluster, url)
    assert not list(settings.home.glob("journal*"))
    async with opened(settings.home, database_url=url) as home:
        assert await home.app.keys.list_with_hashes() == keys
        assert await SqlAuditLines(home.app.database).all() == ["a line"]
        assert [each.webhook_id for each in await home.app.webhooks.store.all()] == ["wh_1"]
        assert (await home.client.get("/api/v1/threads/t1/turns")).status_code == 401


async def test_a_lost_journal_is_brought_back_into_an_empty_database(
    settings: Settings, cluster: Cluster
) -> None:
    """Also where somebody has opened that before: tables without a row are no journal."""
    empty = cluster.url(f"{settings.home} empty")
    connector = PostgresConnector(empty)
    await connector.open()
    await connector.close()
    lost = settings.model_copy(update={"database_url": empty})
    with pytest.raises(HomeUnusable, match=r"is missing\. Run 'recollect rebuild'"):
        async with open_home(lost):
            pass
    report, verification = await rebuild_home(lost, open_home)
    assert (report.turns, verification.ok) == (2, True)
    async with opened(settings.home, database_url=empty) as home:
        assert await said(home) == TEXTS


async def test_a_vault_that_holds_less_changes_nothing(
    settings: Settings, cluster: Cluster, url: str
) -> None:
    async with opened(settings.home, database_url=url) as home:
        await home.add("t2", "Another.")
        await home.drain()
    threads = settings.vault_path / "default/users/me/threads"

    def lose(done: int, total: int) -> None:
        (threads / "t2/0001.md").write_text("")

    with pytest.raises(HomeUnusable, match="nothing was changed"):
        await rebuild_home(settings, open_home, lose)
    assert is_old(cluster, url)


async def test_nobody_else_takes_the_journal_meanwhile(
    settings: Settings, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "_LOCK_SECONDS", 0.1)
    refused: list[str] = []

    def take(done: int, total: int) -> None:
        with pytest.raises(HomeInUse) as told:
            PostgresTransactions(url, "the journal", durable=True, wait_seconds=5).open()
        refused.append(told.value.message)

    await rebuild_home(settings, open_home, take)
    assert refused


async def test_a_copy_that_differs_leaves_the_old_journal_whole(
    settings: Settings, cluster: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            moving, "_continue_numbers", lambda driver, source: driver.execute("UPDATE turns SET asks = 7")
        )
        with pytest.raises(HomeUnusable, match="differs from the journal in turns"):
            await rebuild_home(settings, open_home)
    assert is_old(cluster, url)
    async with opened(settings.home, database_url=url) as home:
        assert await said(home) == TEXTS


async def test_a_connection_that_breaks_while_it_is_replaced_costs_a_retry(
    settings: Settings, cluster: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    continue_numbers = moving._continue_numbers
    ended: list[Any] = []

    def end(driver: Any, source: Any) -> None:
        if not ended:
            with cluster.operator() as operator:
                ended.append(
                    operator.execute("SELECT pg_terminate_backend(%s)", (driver.info.backend_pid,)).fetchone()
                )
        continue_numbers(driver, source)

    monkeypatch.setattr(moving, "_continue_numbers", end)
    report, verification = await rebuild_home(settings, open_home)
    assert (ended, report.turns, verification.ok) == ([(True,)], 2, True)
    assert not is_old(cluster, url)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["rebuild.imported", "rebuild.swapped"])
def test_a_killed_rebuild_leaves_a_whole_journal_and_can_be_started_again(
    settings: Settings, cluster: Cluster, url: str, point: str
) -> None:
    env = {"RECOLLECT_DATABASE_URL": url}
    killed = recollect(settings.home, "rebuild", settings=env | {"RECOLLECT_FAIL_POINT": point})
    assert killed.returncode != 0
    assert is_old(cluster, url) == (point == "rebuild.imported")
    with Server(settings.home, env) as server:
        assert contents(server.client, "t1") == TEXTS
        notes = recollect_json(settings.home, "verify", "--forgotten", settings=env)["notes"]
        assert ("journal.db.rebuilding" in str(notes)) == (point == "rebuild.imported")
    assert recollect_json(settings.home, "rebuild", settings=env)["turns"] == 2
    assert not is_old(cluster, url)


@pytest.mark.slow
def test_the_commands_of_an_operator_work_with_postgresql_and_s3(
    cluster: Cluster, url: str, tmp_path: Path
) -> None:
    home, saved = tmp_path / "home", tmp_path / "saved.tar.gz"
    env = {"RECOLLECT_DATABASE_URL": url, "RECOLLECT_FILES_URL": new_url()}

    def run(*arguments: str) -> Any:
        return recollect_json(home, *arguments, settings=env)

    with Server(home, env) as server:
        add(server.client, "t1", [message(text) for text in TEXTS])
        add(server.client, "t2", [message("To be forgotten.")])
        drained(server.client)
        status = run("status")
        assert status["journal"].startswith("PostgreSQL ")
        assert status["files"] == env["RECOLLECT_FILES_URL"]
        assert "hunter2" not in str(status)
        assert run("forget", "t2", "--yes")
        drained(server.client)
        assert run("verify", "--forgotten")["ok"]
        counted = coverage(server.client)
        assert (counted["messages"], counted["forgotten"], counted["missing"]) == (3, 1, 0)
    assert run("verify")["ok"]
    run("backup", str(saved))
    assert run("rebuild")["verification"]["ok"]
    assert run("verify", "--forgotten")["ok"]
    with Server(home, env) as server:
        assert contents(server.client, "t1") == TEXTS
        assert server.client.get("/api/v1/threads/t2/turns").status_code == 404
    lost = env | {"RECOLLECT_DATABASE_URL": cluster.url(f"{home} lost")}
    assert "recollect rebuild --take" in recollect(home, "serve", settings=lost).stderr
    assert recollect_json(home, "rebuild", "--take", settings=lost)["turns"] == 2
    elsewhere = {
        "RECOLLECT_DATABASE_URL": cluster.url(f"{home} restored"),
        "RECOLLECT_FILES_URL": new_url(),
    }
    assert recollect_json(tmp_path / "restored", "restore", str(saved), settings=elsewhere)["ok"]
