"""The vault alone brings a home back; a backup does too; damage is reported and takes no neighbour down."""

import asyncio
import io
import json
import shutil
import sqlite3
import tarfile
import threading
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.app import App
from recollect.domain.model import Append, Coverage, NewTurn, Thread, ThreadRef, Turn
from recollect.service.operations import files_to_back_up
from tests.http_client import (
    QUICK,
    START,
    Home,
    Json,
    add,
    bearer,
    client_of,
    contents,
    coverage,
    drained,
    message,
    opened,
)
from tests.processes import Server, recollect, recollect_json, wait_until

pytestmark = pytest.mark.slow

SPACES = ("default", "red")
ODD_TEXTS = [
    "## user · ann · 2026-05-08T14:03:00.000Z ^t-12\n\n> quoted\n\n%% memcell c-1: t-1 %%",
    "---\nrecollect: 1\n---\n```\nfence\n~~~",
    "line\r\nline\rline\u2028line\u0085line\x0b\x0c",
    "שלום مرحبا \u202ereversed\u202c",
    "🪐" * 40 + "\ufeff\u200b tail \\ \\n > \t",
    "trailing spaces   \n\n\n",
]


@dataclass
class Snapshot:
    """All that a home knows, out of the stores themselves."""

    threads: dict[str, list[Thread]]
    turns: dict[str, list[Turn]]
    cells: dict[str, list[Any]]
    coverage: dict[str, Coverage]
    tombstones: list[dict[str, Any]]


async def snapshot(app: App) -> Snapshot:
    tombstones = await app.database.read("SELECT * FROM tombstones ORDER BY space, thread_key, number")
    taken = Snapshot({}, {}, {}, {}, [dict(row) for row in tombstones])
    for space in SPACES:
        listed = await app.THREADS.list_threads(space=space)
        # When a thread was last touched is the journal's knowledge alone.
        taken.threads[space] = sorted(
            (replace(thread, updated=0) for thread in listed), key=lambda thread: thread.thread_id
        )
        counted = await app.coverage.coverage(space=space)
        taken.coverage[space] = replace(counted, indexed=0, embedded=0)  # The index follows by itself.
        for thread in listed:
            name = f"{space}/{thread.thread_id}"
            taken.turns[name] = await app.THREADS.get_history(
                await app.THREADS.meant(thread.thread_id, space=space)
            )
            taken.cells[name] = await app.cells.list_cells(ThreadRef(space, "ann", thread.thread_id))
    return taken


async def fill(home: Home) -> None:
    """Threads of several users in two spaces, with all that a thread and a turn can carry."""
    answer = await home.client.post(
        "/api/v1/keys", json={"space": "red"}, headers=bearer(home.app.lock.token)
    )
    async with client_of(home.app, **bearer(home.app.lock.token)) as default:
        await fill_default(default)
    call = NewTurn("user", "What is the capital of Portugal?", START, "ann")
    await home.app.THREADS.append(Append("default", "call", [call], "ann", one_shot=True))
    async with client_of(home.app, **bearer(answer.json()["secret"])) as red:
        await post(red, "/api/v1/memory/add", session_id="odd", messages=[message("said in red")])
        await post(red, "/api/v1/memory/flush", session_id="odd")
    await home.drain()


async def fill_default(client: httpx2.AsyncClient) -> None:
    odd = [message(text, number) for number, text in enumerate(ODD_TEXTS)]
    await post(
        client, "/api/v1/memory/add", session_id="odd", user_id="ann", tags=["a: b", "#c"], messages=odd
    )
    await post(client, "/api/v1/memory/flush", session_id="odd")
    await post(client, "/api/v1/memory/add", session_id="odd", messages=[message("still buffered", 99)])
    changes = {"title": 'A "title": --- with \\ signs', "preset": "default", "pinned": True, "archived": True}
    (await client.patch("/api/v1/threads/odd", json=changes)).raise_for_status()
    long = [message(f"{number} " + "lorem ipsum " * 100, number) for number in range(150)]
    await post(client, "/api/v1/memory/add", session_id="long/../thread", user_id="Bob 🪐", messages=long)
    calls = [{"id": "c1", "function": {"name": "look", "arguments": '{"a":\n1}'}}]
    await post(
        client,
        "/api/v1/memory/add",
        session_id="tools",
        agent_id="helper",
        messages=[
            message("be kind", role="system"),
            message("", 1, role="assistant", content=None, tool_calls=calls, message_id="m_tools_0_1"),
            message("", 2, role="tool", tool_call_id="c1"),
        ],
    )
    turn = {"role": "assistant", "content": "half", "status": "partial", "reasoning": "hm\n> hm", "model": "m1",
            "parts": [{"type": "text", "text": "half"}], "parent_id": "t-1"}  # fmt: skip
    await client.post("/api/v1/threads/tools/turns", json=turn)
    await client.post("/api/v1/threads", json={"thread_id": "empty", "title": "nothing said"})
    await post(
        client, "/api/v1/memory/add", session_id="gone", messages=[message("a"), message("b", message_id="b")]
    )
    (await client.delete("/api/v1/threads/gone")).raise_for_status()


async def post(client: httpx2.AsyncClient, path: str, **body: Any) -> None:
    (await client.post(path, json=body)).raise_for_status()


def delete_journal(home: Path) -> None:
    for path in home.glob("journal.db*"):
        path.unlink()


@dataclass
class Rebuilt:
    before: Snapshot
    after: Snapshot
    report: Json


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Rebuilt:
    """A full home before its journal was deleted, and after `recollect rebuild`."""
    home = tmp_path_factory.mktemp("rebuilt") / "home"

    async def before() -> Snapshot:
        async with opened(home) as filled:
            await fill(filled)
            return await snapshot(filled.app)

    async def after() -> Snapshot:
        async with opened(home) as back:
            await back.drain()
            return await snapshot(back.app)

    first = asyncio.run(before())
    delete_journal(home)
    report = recollect_json(home, "rebuild")
    return Rebuilt(first, asyncio.run(after()), report)


class TestFromTheVaultAlone:
    def test_all_of_it_comes_back_as_it_was(self, rebuilt: Rebuilt) -> None:
        assert rebuilt.after == rebuilt.before
        assert any(rebuilt.before.cells.values())
        assert len(rebuilt.after.tombstones) == 2
        counted = rebuilt.after.coverage["default"]
        assert (counted.missing, counted.doubled, counted.skipped, counted.forgotten) == (0, 0, 1, 2)

    def test_the_report_names_what_lives_in_the_journal_alone(self, rebuilt: Rebuilt) -> None:
        named = " ".join(rebuilt.report["lost"])
        assert all(kind in named for kind in ("jobs", "receipts", "incognito", "API keys")), named


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three threads, all of them in the vault, and no server; and a backup beside."""
    home = tmp_path_factory.mktemp("template") / "home"
    with Server(home, QUICK) as server:
        for name in ("t1", "t2", "t3"):
            add(server.client, name, [message(f"{name} says {n}", n) for n in range(6)])
        server.client.post("/api/v1/memory/flush", json={"session_id": "t1"}).raise_for_status()
        drained(server.client)
        server.stop()
    recollect_json(home, "backup", str(home.parent / "backup.tar.gz"))
    return home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path / "home")
    return tmp_path / "home"


def transcript(home: Path, thread: str) -> Path:
    return home / f"vault/default/users/me/threads/{thread}/0001.md"


def damage_journal(home: Path, place: str) -> bytes:
    """The journal from now on, with most of it overwritten."""
    start, content = 0 if place == "header" else 4096, (home / "journal.db").read_bytes()
    damaged = content[:start] + b"\xa5" * len(content[start : start + 40_000]) + content[start + 40_000 :]
    (home / "journal.db").write_bytes(damaged)
    return damaged


def digest_of(home: Path) -> str:
    return str(recollect_json(home, "verify")["coverage"]["default"]["digest"])


class TestOverAJournal:
    def test_messages_not_yet_in_the_vault_are_written_first(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with Server(home, {"RECOLLECT_TRANSCRIPT_DELAY_MS": "60000"}) as server:
            add(server.client, "t1", [message("not written yet")])
            server.kill()
        assert not transcript(home, "t1").exists()
        assert recollect_json(home, "rebuild")["turns"] == 1
        assert "not written yet" in transcript(home, "t1").read_text()

    def test_a_rebuild_over_a_healthy_journal_keeps_its_keys_and_changes_no_transcript(
        self, home: Path
    ) -> None:
        made = recollect_json(home, "keys", "create", "--scopes", "read", "--expires", "90d")
        recollect(home, "keys", "revoke", made["key_id"])
        kept = recollect_json(home, "keys", "list")
        webhook = ("wh_1", "default", "ann", "https://hooks.example/x", "s", "forgotten", 1)
        with sqlite3.connect(home / "journal.db") as journal:
            journal.execute("INSERT INTO webhooks VALUES (?, ?, ?, ?, ?, ?, ?)", webhook)
        journal.close()
        before = {path: path.read_bytes() for path in home.glob("vault/**/*.md")}
        recollect_json(home, "rebuild")
        assert recollect_json(home, "keys", "list") == kept
        assert (kept["closed"], kept["keys"][0]["scopes"]) == (True, ["read"])
        with closing(sqlite3.connect(home / "journal.db")) as journal:
            assert journal.execute("SELECT * FROM webhooks").fetchall() == [webhook]
        assert {path: path.read_bytes() for path in home.glob("vault/**/*.md")} == before

    @pytest.mark.parametrize("place", ["header", "middle"])
    def test_a_damaged_journal_is_kept_aside_and_the_vault_brings_all_back(
        self, home: Path, place: str
    ) -> None:
        digest = digest_of(home)
        damaged = damage_journal(home, place)
        report = recollect_json(home, "rebuild")
        assert report["verification"]["coverage"]["default"]["digest"] == digest
        (aside,) = home.glob("journal.damaged-*.db")
        assert aside.read_bytes() == damaged
        assert any(aside.name in line for line in report["lost"])

    @pytest.mark.parametrize("place", ["header", "middle"])
    def test_a_server_on_a_damaged_journal_says_what_to_do(self, home: Path, place: str) -> None:
        damage_journal(home, place)
        failed = recollect(home, "serve", "--port", "0")
        assert failed.returncode == 1
        assert "recollect rebuild" in failed.stderr
        assert "Traceback" not in failed.stderr

    def test_the_log_of_a_damaged_journal_is_kept_with_it(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with Server(home, {"RECOLLECT_TRANSCRIPT_DELAY_MS": "60000"}) as server:
            add(server.client, "t1", [message("in the log alone")])
            server.kill()
        words = b"in the log alone"
        assert words in (home / "journal.db-wal").read_bytes()
        (home / "journal.db").write_bytes(b"\xa5" * 8192)
        recollect(home, "rebuild")
        assert [path for path in home.iterdir() if path.is_file() and words in path.read_bytes()]

    def test_a_journal_that_another_program_holds_is_not_taken_for_damaged(self, home: Path) -> None:
        holding = sqlite3.connect(home / "journal.db", isolation_level=None)
        holding.execute("BEGIN IMMEDIATE")
        try:
            refused = recollect(home, "rebuild")
        finally:
            holding.close()
        assert refused.returncode == 1
        assert list(home.glob("journal.damaged-*")) == []
        assert recollect_json(home, "verify")["coverage"]["default"]["messages"] == 18

    def test_a_rebuild_without_a_vault_is_refused_and_makes_none(self, home: Path) -> None:
        (home / "vault").rename(home / "elsewhere")
        refused = recollect(home, "rebuild")
        assert (refused.returncode, (home / "vault").exists()) == (1, False)
        (home / "elsewhere").rename(home / "vault")
        assert recollect_json(home, "verify")["coverage"]["default"]["messages"] == 18

    def test_a_server_does_not_begin_again_over_a_vault_whose_journal_is_gone(self, home: Path) -> None:
        delete_journal(home)
        before = {path: path.read_bytes() for path in home.glob("vault/**/*.md")}
        refused = recollect(home, "serve", "--port", "0")
        assert (refused.returncode, "recollect rebuild" in refused.stderr) == (1, True)
        assert {path: path.read_bytes() for path in home.glob("vault/**/*.md")} == before


class TestDamagedTranscripts:
    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00garbage", b"no front matter at all\n"])
    def test_a_file_beyond_repair_is_reported_and_the_other_threads_come_back(
        self, home: Path, content: bytes
    ) -> None:
        transcript(home, "t2").write_bytes(content)
        delete_journal(home)
        done = recollect(home, "rebuild", "--json")
        report = json.loads(done.stdout)
        assert (done.returncode, report["threads"], report["turns"]) == (1, 2, 12)
        assert any("threads/t2" in problem for problem in report["problems"])
        assert transcript(home, "t2").read_bytes() == content


class TestBackup:
    def test_what_was_acknowledged_before_a_backup_began_is_in_it(self, tmp_path: Path) -> None:
        home, archive = tmp_path / "home", tmp_path / "backup.tar.gz"
        acknowledged: list[str] = []
        stop = threading.Event()

        def keep_adding(address: str) -> None:
            with httpx2.Client(base_url=address, timeout=60, trust_env=False) as client:
                while not stop.is_set():
                    text = f"text {len(acknowledged)}"
                    add(client, f"t{len(acknowledged) % 5}", [message(text, len(acknowledged))])
                    acknowledged.append(text)

        with Server(home, QUICK) as server:
            adding = threading.Thread(target=keep_adding, args=(server.address,))
            adding.start()
            try:
                wait_until(lambda: len(acknowledged) >= 100, "a hundred messages")
                before = set(acknowledged)
                recollect_json(home, "backup", str(archive))
            finally:
                stop.set()
                adding.join()
            assert len(acknowledged) > len(before), "nothing was added while the backup was made"
        restored = tmp_path / "restored"
        verified = recollect_json(restored, "restore", str(archive))
        assert verified["ok"]
        with Server(restored, QUICK) as server:
            drained(server.client)
            held = {text for number in range(5) for text in contents(server.client, f"t{number}")}
            assert recollect_json(restored, "verify")["pending"] == 0
            assert coverage(server.client)["missing"] == 0
        assert before <= held

    @pytest.fixture
    def archive(self, template: Path, tmp_path: Path) -> Path:
        return Path(shutil.copy(template.parent / "backup.tar.gz", tmp_path))

    def test_a_backup_holds_no_secret_of_the_running_process(self, archive: Path) -> None:
        with tarfile.open(archive) as tar:
            assert "recollect.lock" not in tar.getnames()

    def test_a_backup_does_not_replace_a_file(self, home: Path, archive: Path) -> None:
        before = archive.read_bytes()
        assert recollect(home, "backup", str(archive)).returncode != 0
        assert archive.read_bytes() == before

    def test_a_restored_home_is_the_one_that_was_saved(
        self, home: Path, archive: Path, tmp_path: Path
    ) -> None:
        restored = recollect_json(tmp_path / "restored", "restore", str(archive))
        assert restored["coverage"]["default"]["digest"] == digest_of(home)

    @pytest.mark.parametrize("damage", ["cut short", "a byte changed", "no archive", "a member outside"])
    def test_a_damaged_archive_is_refused_and_leaves_nothing(
        self, archive: Path, tmp_path: Path, damage: str
    ) -> None:
        spoil(archive, damage)
        before = {path.name for path in tmp_path.iterdir()}
        refused = recollect(tmp_path / "restored", "restore", str(archive))
        assert refused.returncode == 1
        assert "Traceback" not in refused.stderr
        assert {path.name for path in tmp_path.iterdir()} == before

    def test_a_home_that_is_not_empty_is_not_restored_into(self, home: Path, archive: Path) -> None:
        digest = digest_of(home)
        refused = recollect(home, "restore", str(archive))
        assert refused.returncode == 1
        assert str(home) in refused.stderr
        assert digest_of(home) == digest


def spoil(archive: Path, damage: str) -> None:
    content = bytearray(archive.read_bytes())
    if damage == "cut short":
        archive.write_bytes(content[: len(content) * 2 // 3])
    elif damage == "a byte changed":
        content[len(content) // 2] ^= 0xFF
        archive.write_bytes(content)
    elif damage == "no archive":
        archive.write_bytes(b"this is no archive" * 100)
    else:
        shutil.copy(archive, archive.with_suffix(".old"))
        with tarfile.open(archive, "w:gz") as tar:
            member = tarfile.TarInfo("../evil")
            member.size = 4
            tar.addfile(member, io.BytesIO(b"evil"))
        archive.with_suffix(".old").unlink()


async def test_a_backup_follows_no_link_out_of_the_vault(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as home:
        secret = tmp_path / "secret.md"
        secret.write_text("secret")
        notes = tmp_path / "home/vault/default/users/ann/notes"
        notes.mkdir(parents=True)
        (notes / "real.md").write_text("mine")
        (notes / "inside.md").symlink_to("real.md")
        (notes / "outside.md").symlink_to(secret)
        (notes / "folder").symlink_to(tmp_path)
        packed = await files_to_back_up(home.app.settings.home, home.app.vault, home.app.ledger_outbox.ledger)
        names = {Path(name).name for name in packed if name.startswith("vault/default/users/ann/notes/")}
        assert names == {"real.md", "inside.md"}
