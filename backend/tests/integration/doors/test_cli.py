"""The command line: every command, with and without a running server, and the server as a process."""

import json
import re
import resource
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect import __version__
from recollect.entrypoints.cli import render
from tests.http_client import QUICK, add, coverage, drained, jobs, message
from tests.processes import Server, StandInModel, recollect, recollect_json

HELP_SECONDS = 0.5


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(params=["a running server", "no server"])
def any_home(request: pytest.FixtureRequest, home: Path) -> Iterator[Path]:
    """A home that is served, and one that is not: commands work alike."""
    if request.param == "no server":
        yield home
        return
    with Server(home, QUICK):
        yield home


def test_add_and_threads_work_with_and_without_a_server(any_home: Path, tmp_path: Path) -> None:
    added = recollect(any_home, "add", "Marta moves to Porto", "--session", "t1", "--user", "ann")
    assert (added.returncode, added.stderr) == (0, "")
    assert re.fullmatch(
        r"1 accepted\n1 message waits to be remembered, until \S+ \S+Z at the .* now\n", added.stdout
    )
    assert recollect(any_home, "add", "-", "--session", "t1", text="Größe 🪐\n").returncode == 0
    file = tmp_path / "chat.jsonl"
    file.write_text("".join(json.dumps(message(f"line {n}", n)) + "\n" for n in range(250)))
    receipts = recollect_json(any_home, "add", "--file", str(file), "--session", "t2")["receipts"]
    assert [receipt["turn_id"] for receipt in receipts] == [f"t-{number}" for number in range(1, 251)]
    listed = recollect_json(any_home, "threads")["threads"]
    counted = [(item["thread_id"], item["user_id"], item["turn_count"]) for item in listed]
    assert sorted(counted) == [("t1", "ann", 2), ("t2", "me", 250)]
    assert audited(any_home) == [("local operator", "read")]


def audited(home: Path) -> list[tuple[str, str]]:
    """What commands took out of a home, as the audit log has it."""
    lines = map(json.loads, (home / "audit.log").read_text().splitlines())
    return [(line["who"], line["what"]) for line in lines]


def test_verify_jobs_and_backup_work_with_and_without_a_server(any_home: Path, tmp_path: Path) -> None:
    recollect(any_home, "add", "one", "--session", "t1")
    verified = recollect_json(any_home, "verify")
    assert (verified["ok"], verified["coverage"]["default"]["messages"]) == (True, 1)
    assert all(job["thread_id"] == "t1" for job in recollect_json(any_home, "jobs")["jobs"])
    archive = tmp_path / "backup.tar.gz"
    saved = recollect_json(any_home, "backup", str(archive))
    assert (saved["path"], archive.is_file()) == (str(archive), True)
    assert audited(any_home) == [("local operator", "backed up")]
    assert recollect_json(tmp_path / "restored", "restore", str(archive))["ok"]


def test_people_get_words_and_tables(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    recollect(home, "add", "one", "--session", "t1", "--user", "ann")
    listed = recollect(home, "threads").stdout
    assert ("thread" in listed, "t1" in listed, "ann" in listed) == (True, True, True)
    verified = recollect(home, "verify").stdout
    assert "default\n  messages: 1  buffered: 1  celled: 0  skipped: 0" in verified
    assert "nothing is missing" in verified
    assert "digest of default: " in verified


def test_a_table_that_is_wider_than_the_terminal_becomes_lines_that_keep_every_id(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    moment = dict.fromkeys(("created", "last_used", "expires", "revoked"), 1778248980000)
    key = {"key": "key_id", "user": "user_id", "space": "space"} | {name: name for name in moment}
    ids = {"key_id": "k_1f2e3d4c5b6a", "space": "default", "user_id": None}
    render.print_records(key, [ids | moment])
    assert capsys.readouterr().out.splitlines() == [
        "k_1f2e3d4c5b6a",
        "  space: default  created: 2026-05-08 14:03:00Z  last_used: 2026-05-08 14:03:00Z",
        "  expires: 2026-05-08 14:03:00Z  revoked: 2026-05-08 14:03:00Z",
    ]
    render.print_table(("key", "name"), [("k_1f2e3d4c5b6a", "word " * 30)])
    title, *lines = capsys.readouterr().out.splitlines()
    assert (title.split(), lines[0].split()[0]) == (["key", "name"], "k_1f2e3d4c5b6a")
    assert " ".join(lines).split()[1:] == ["word"] * 30


def test_a_table_in_a_pipe_is_as_wide_as_it_must_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    columns = tuple(f"column {number}" for number in range(20))
    rows = [(*(f"cell {row}.{number}" for number in range(19)), "a\tword\n" * 30) for row in range(2)]
    render.print_table(columns, rows)
    title, *lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [" ".join(row).split() for row in rows]
    assert " ".join(title.split()) == " ".join(columns)


def test_commands_are_completed() -> None:
    asked = {"_RECOLLECT_COMPLETE": "complete_bash", "COMP_WORDS": "recollect thr", "COMP_CWORD": "1"}
    assert recollect(Path("unused"), settings=asked).stdout.split() == ["threads"]


def test_the_version_is_printed() -> None:
    assert recollect(Path("unused"), "--version").stdout == f"recollect {__version__}\n"


def test_verify_fails_on_a_damaged_vault_and_repair_mends_what_is_missing(home: Path) -> None:
    with Server(home, QUICK) as server:
        add(server.client, "t1", [message("one")])
        drained(server.client)
        (home / "vault/default/users/me/threads/t1/0001.md").unlink()
        found = recollect(home, "verify", "--json")
        assert found.returncode == 1
        assert json.loads(found.stdout)["problems"] == ["default/users/me/threads/t1/0001.md is missing"]
        assert recollect_json(home, "verify", "--repair")["repaired"] == 1
        assert recollect_json(home, "verify")["ok"]


def test_repair_leaves_what_a_person_changed(home: Path) -> None:
    with Server(home, QUICK) as server:
        add(server.client, "t1", [message("one")])
        drained(server.client)
        transcript = home / "vault/default/users/me/threads/t1/0001.md"
        transcript.write_text(transcript.read_text() + "\na person's note\n")
        recollect(home, "verify", "--repair")
        assert any("a person's note" in path.read_text() for path in transcript.parent.glob("*.md"))


def test_rebuild_is_refused_while_a_server_runs(home: Path) -> None:
    with Server(home) as server:
        refused = recollect(home, "rebuild")
        assert refused.returncode == 1
        assert f"process {server.pid} " in refused.stderr


def test_a_dead_job_is_shown_and_retried(home: Path) -> None:
    recollect(home, "add", "one", "--session", "t1")  # Its boundary job waits for a pause.
    with sqlite3.connect(home / "journal.db") as journal:
        journal.execute(
            "UPDATE jobs SET state = 'dead', attempts = 8, error = 'OSError: told to fail'"
            " WHERE kind = 'boundary'"
        )
    journal.close()
    with Server(home, QUICK) as server:
        dead = recollect_json(home, "jobs", "--state", "dead")["jobs"][0]
        assert (dead["attempts"], dead["error"]) == (8, "OSError: told to fail")
        assert server.client.get("/health").json()["status"] == "degraded"
        assert recollect_json(home, "jobs", "retry", str(dead["job_id"]))["state"] == "queued"
        drained(server.client)


@pytest.fixture(scope="module")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One that is served, for commands that are to fail and change nothing."""
    with Server(tmp_path_factory.mktemp("used") / "home", QUICK) as server:
        yield server.home


FRIENDLY = {
    "no message": (["add"], "recollect add 'Hello'"),
    "both a message and a file": (["add", "x", "--file", "y"], "either"),
    "a file that is not there": (["add", "--file", "/nowhere/chat.jsonl"], "/nowhere/chat.jsonl"),
    "an empty message": (["add", ""], "content"),
    "an unknown role": (["add", "x", "--role", "robot"], "role"),
    "a job that is not there": (["jobs", "retry", "17"], "17"),
    "an unknown state of jobs": (["jobs", "--state", "lost"], "state"),
    "a key that is not there": (["keys", "revoke", "k_none"], "k_none"),
    "a key for no space": (["keys", "create", "--space", ""], "space"),
}


@pytest.mark.parametrize("name", FRIENDLY)
def test_a_mistake_is_answered_in_words_with_exit_code_1(used_home: Path, name: str) -> None:
    arguments, words = FRIENDLY[name]
    failed = recollect(used_home, *arguments)
    assert failed.returncode == 1
    assert words in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_home_that_cannot_be_made_is_answered_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    failed = recollect(tmp_path / "file" / "home", "threads")
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    assert str(tmp_path / "file" / "home") in failed.stderr


def test_a_port_that_is_taken_is_answered_in_words(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = recollect(home, "serve", "--port", port)
    assert failed.returncode == 1
    assert port in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_server_that_breaks_off_is_answered_in_words(home: Path) -> None:
    with Server(home) as server:
        server.process.send_signal(signal.SIGSTOP)
        try:
            lock = json.loads((home / "recollect.lock").read_text())
            with socket.create_server(("127.0.0.1", 0)) as deaf:
                lock["address"] = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            (home / "recollect.lock").write_text(json.dumps(lock))
            failed = {name: recollect(home, name) for name in ("threads", "verify")}
        finally:
            server.process.send_signal(signal.SIGCONT)
    assert {name: done.returncode for name, done in failed.items()} == {"threads": 1, "verify": 1}
    assert [done.stderr for done in failed.values() if "Traceback" in done.stderr] == []


def test_help_comes_within_half_a_second() -> None:
    """Of the processor: on a busy machine the clock would tell how busy it is. The process is one of its own, since
    a forked one has imported everything.
    """

    def used() -> float:
        told = resource.getrusage(resource.RUSAGE_CHILDREN)
        return told.ru_utime + told.ru_stime

    before = used()
    assert "serve" in recollect(Path("unused"), "--help", prefix=("env",)).stdout
    assert 0 < used() - before < HELP_SECONDS


def test_a_second_server_on_the_same_home_is_refused_at_once_naming_the_first(home: Path) -> None:
    with Server(home) as server:
        started = time.monotonic()
        second = recollect(home, "serve", "--port", "0")
        assert second.returncode == 1
        assert f"process {server.pid} is using {home}" in second.stderr
        assert time.monotonic() - started < 30


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_cleanly(home: Path, number: signal.Signals) -> None:
    with Server(home) as server:
        add(server.client, "t1", [message("one")])
        server.process.send_signal(number)
        assert server.wait_for_end() == 0
    assert "Traceback" not in server.errors()
    assert not (home / "journal.db-wal").exists()


def test_sigterm_puts_the_job_that_runs_back_unpunished(home: Path) -> None:
    with StandInModel() as model:
        model.control("silent")
        asks = {"RECOLLECT_LLM__BASE_URL": model.base_url, "RECOLLECT_MEMORIZE__BOUNDARY": "model"}
        with Server(home, {**QUICK, **asks, "RECOLLECT_JOBS__STOP_SECONDS": "0.1"}) as server:
            add(server.client, "t1", [message(f"text {n}", n) for n in range(4)])
            model.calls(in_flight=1)
            assert server.stop() == 0
    slow = {
        "RECOLLECT_LLM__BASE_URL": "http://127.0.0.1:9/v1",
        "RECOLLECT_MEMORIZE__MODEL_TIMEOUT_SECONDS": "0.1",
    }
    with Server(home, {**QUICK, **slow}) as server:
        waiting = jobs(server.client)
        assert [(job["attempts"], job["interruptions"]) for job in waiting if job["kind"] == "boundary"] in (
            [(0, 0)],
            [],  # It has run again already.
        )
        drained(server.client)
        assert coverage(server.client)["messages"] == 4


def test_a_request_is_one_line_of_the_log_with_its_ids_and_no_words(home: Path) -> None:
    with Server(home) as server:
        add(server.client, "t1", [message("an unmistakable sentence")], user_id="ann")
        body = {"role": "user", "content": "another unmistakable one", "user_id": "ann"}
        server.client.post("/api/v1/threads/t1/turns", json=body).raise_for_status()
        server.client.get("/api/v1/threads/none").close()
        server.stop()
    lines = [line for line in server.errors().splitlines() if " recollect.access " in line]
    assert [line.partition(" method=")[2].split()[0] for line in lines] == ["POST", "POST", "GET"]
    assert ("thread=t1" in lines[0], "user=ann" in lines[0], "status=202" in lines[0]) == (True, True, True)
    assert "turn=t-2" in lines[1]
    assert ("thread=none" in lines[2], "status=404" in lines[2]) == (True, True)
    assert "unmistakable" not in server.errors()


def test_log_lines_can_be_json(home: Path) -> None:
    with Server(home, {"RECOLLECT_LOG_FORMAT": "json"}) as server:
        add(server.client, 'odd "id"\nwith a line break', [message("x")])
        server.stop()
    (line,) = [json.loads(line) for line in server.errors().splitlines() if '"recollect.access"' in line]
    assert (line["method"], line["thread"], line["status"]) == ("POST", 'odd "id"\nwith a line break', 202)


def test_a_variable_that_is_no_setting_is_pointed_out(home: Path) -> None:
    with Server(home, {"RECOLLECT_HOMME": "typo"}) as server:
        server.stop()
    assert "RECOLLECT_HOMME" in server.errors()


def test_an_id_that_was_typed_leads_nowhere_else(used_home: Path) -> None:
    recollect(used_home, "add", "precious", "--session", "t1")
    for key_id in ("../threads/t1", "..", "."):
        refused = recollect(used_home, "keys", "revoke", key_id)
        assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
    assert [item["thread_id"] for item in recollect_json(used_home, "threads")["threads"]] == ["t1"]


def test_a_file_with_a_bad_line_stores_nothing_and_names_the_line(home: Path, tmp_path: Path) -> None:
    good = {"role": "user", "sender_id": "ann", "timestamp": 1, "content": "a\u2028b"}
    lines = [json.dumps(good, ensure_ascii=False)] * 120
    file = tmp_path / "chat.jsonl"
    for bad in (json.dumps({**good, "content": ""}), "{broken"):
        file.write_text("\n".join([*lines, bad]), encoding="utf-8")
        refused = recollect(home, "add", "--file", str(file))
        assert (refused.returncode, "line 121" in refused.stderr) == (1, True)
    assert recollect_json(home, "threads")["threads"] == []
    file.write_text("\n".join(lines), encoding="utf-8")
    assert len(recollect_json(home, "add", "--file", str(file))["receipts"]) == 120


def test_a_backup_without_the_vault_is_refused(home: Path, tmp_path: Path) -> None:
    with Server(home, QUICK) as server:
        add(server.client, "t1", [message("one")])
        drained(server.client)
        (home / "vault").rename(tmp_path / "elsewhere")
        refused = recollect(home, "backup", str(tmp_path / "b.tar.gz"))
        assert (refused.returncode, "vault is missing" in refused.stderr) == (1, True)
        verified = recollect(home, "verify")
        assert (verified.returncode, "PROBLEM: the vault is missing" in verified.stdout) == (1, True)
