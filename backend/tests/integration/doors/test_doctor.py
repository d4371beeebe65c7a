"""What runs, what is missing and what to do: `doctor` and `status`; `settings`; `flush` and `export`."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect import __version__
from recollect.entrypoints.cli.doctor import ServerState, findings_about
from tests.chatting import with_backend
from tests.http_client import QUICK, add, drained, message
from tests.postgres import cluster_of_session
from tests.processes import Server, StandInModel, recollect, recollect_json


@pytest.fixture(scope="module")
def server(running: StandInModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """All tests share it, each with a user of its own."""
    with Server(tmp_path_factory.mktemp("served") / "home", with_backend(running.base_url)) as server:
        yield server


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def found_by(home: Path, settings: dict[str, str] | None = None) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code of `doctor`, and its findings by what they are about."""
    done = recollect(home, "doctor", "--json", settings=settings)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["ok"] == (done.returncode == 0)
    return done.returncode, {each["about"]: each for each in told["findings"]}


# --- doctor -------------------------------------------------------------------------------------------------


def test_before_the_first_start_doctor_says_what_to_do_and_makes_nothing(tmp_path: Path) -> None:
    code, found = found_by(tmp_path / "home")
    assert code == 0
    assert found["python"]["state"] == "ok"
    assert found["home"] == {
        "about": "home", "state": "note", "found": f"{tmp_path / 'home'} does not exist yet", "do": "recollect serve",
    }  # fmt: skip
    assert (found["server"]["state"], found["server"]["do"]) == ("note", "recollect serve")
    assert (found["model"]["state"], "RECOLLECT_LLM__BASE_URL" in found["model"]["do"]) == ("note", True)
    assert (found["embedding"]["state"], found["disk"]["state"]) == ("note", "ok")
    assert found["journal"]["found"] == f"SQLite {tmp_path / 'home/journal.db'}, not there yet"
    assert found["files"]["found"] == str(tmp_path / "home/vault")
    assert not (tmp_path / "home").exists()


def test_doctor_names_the_server_and_the_model_that_makes_memories(server: Server) -> None:
    code, found = found_by(server.home)
    assert code == 0
    assert found["server"]["found"] == f"{server.address}, version {__version__}, process {server.pid}, ok"
    assert found["model"]["found"] == "memories are made by stand-in (other, backend default)"
    assert {each["state"] for about, each in found.items() if about != "embedding"} == {"ok"}
    assert {"keys", "backlog"} <= found.keys()
    assert found["journal"]["found"] == f"SQLite {server.home / 'journal.db'}"
    assert found["files"]["found"] == str(server.home / "vault")
    told = recollect(server.home, "doctor")
    assert (told.returncode, told.stdout.splitlines()[-1]) == (0, "nothing is wrong")


def test_doctor_believes_the_server_and_not_its_own_environment(
    running: StandInModel, tmp_path: Path
) -> None:
    """As under systemd: the variables are the server's alone. What it misses is a note; the model it has is named."""
    missing = with_backend(running.base_url, EMBEDDING__KIND="onnx", EMBEDDING__FOLDER=str(tmp_path / "none"))
    with Server(tmp_path / "home", missing) as server:
        code, found = found_by(server.home, {"RECOLLECT_EMBEDDING__KIND": "onnx"})
    assert code == 0
    assert found["model"]["found"] == "memories are made by stand-in (other, backend default)"
    assert (found["setup"]["state"], "RECOLLECT_EMBEDDING__FOLDER" in found["setup"]["found"]) == (
        "note",
        True,
    )
    assert "embedding" not in found


def test_a_model_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    code, found = found_by(tmp_path, {"RECOLLECT_LLM__BASE_URL": "http://127.0.0.1:9"})
    assert (code, found["model"]["state"]) == (1, "problem")
    assert "127.0.0.1:9" in found["model"]["found"]


def test_a_model_is_asked_without_a_server(tmp_path: Path, running: StandInModel) -> None:
    code, found = found_by(tmp_path, with_backend(running.base_url))
    assert (code, found["model"]["state"]) == (0, "ok")
    address = running.base_url.removeprefix("http://").removesuffix("/v1")
    assert found["model"]["found"] == f"memories are made by stand-in (other at {address})"


def test_an_embedding_model_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    missing = {"RECOLLECT_EMBEDDING__KIND": "onnx", "RECOLLECT_EMBEDDING__FOLDER": str(tmp_path / "none")}
    code, found = found_by(tmp_path, missing)
    told = found["embedding"]
    assert (code, told["state"], told["do"]) == (1, "problem", "unset RECOLLECT_EMBEDDING__FOLDER")


def test_the_embedding_model_is_tried(tmp_path: Path, model_folder: Path) -> None:
    _, found = found_by(tmp_path, {"RECOLLECT_EMBEDDING__KIND": "onnx"})
    assert (found["embedding"]["state"], str(model_folder) in found["embedding"]["found"]) == ("ok", True)


def test_a_journal_in_postgresql_is_asked_for_and_named_without_its_password(tmp_path: Path) -> None:
    cluster = cluster_of_session()
    url = cluster.url(str(tmp_path), loopback=True)
    place = f"127.0.0.1:{cluster.port}/journals"
    settings = {"RECOLLECT_DATABASE_URL": url, "RECOLLECT_FILES_URL": "s3://bucket/ann"}
    code, found = found_by(tmp_path, settings)
    assert (code, found["journal"]["found"]) == (0, f"PostgreSQL {place}, not there yet")
    assert found["files"]["found"] == "s3://bucket/ann"
    settings["RECOLLECT_DATABASE_URL"] = url.replace("hunter2", "wrong")
    code, found = found_by(tmp_path, settings)
    assert (code, found["journal"]["state"]) == (1, "problem")
    assert "wrong" not in str(found)


def test_a_home_that_others_may_read_is_pointed_out(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    code, found = found_by(tmp_path)
    assert (code, found["home"]["state"], found["home"]["do"]) == (0, "note", f"chmod 700 {tmp_path}")


@pytest.mark.parametrize("home", ["file", "file/home"])
def test_a_home_that_can_be_no_folder_is_a_problem(tmp_path: Path, home: str) -> None:
    (tmp_path / "file").write_text("in the way")
    code, found = found_by(tmp_path / home)
    assert (code, found["home"]["state"]) == (1, "problem")


def test_settings_that_are_not_valid_are_a_problem_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "recollect.toml").write_text("[llm]\nbase_ulr = 'http://127.0.0.1:8080'\n")
    code, found = found_by(tmp_path)
    assert (code, found["settings"]["state"]) == (1, "problem")
    assert (
        "line 2, llm.base_ulr: there is no such setting; did you mean llm.base_url?"
        in found["settings"]["found"]
    )
    assert {"python", "home", "disk"} <= found.keys()


def test_a_key_in_a_file_that_everybody_may_read_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "recollect.toml"
    file.write_text("[llm]\nbase_url = 'http://127.0.0.1:9'\napi_key = 'precious'\n")
    file.chmod(0o644)
    code, found = found_by(tmp_path)
    assert (code, found["settings"]["do"]) == (1, f"chmod 600 {file}")


HEALTHY = {
    "status": "ok",
    "version": __version__,
    "degraded": [],
    "jobs": {},
    "oldest_job_wait_ms": 0,
    "hints": [],
}
NO_KEYS = {"keys": [], "closed": False}


def test_what_a_server_lacks_is_told_in_its_words() -> None:
    ill = {
        **HEALTHY,
        "status": "degraded",
        "degraded": ["2 jobs are dead: see 'recollect jobs'"],
        "jobs": {"dead": 2},
    }
    found = {each.about: each for each in findings_about(ServerState("http://x", 1, ill, NO_KEYS, 3))}
    assert (found["server"].state, found["server"].found[-37:]) == (
        "problem",
        "degraded: 2 jobs are dead: see 'recollect jobs'"[-37:],
    )
    assert "2 dead" in found["backlog"].found
    assert "3 messages" in found["backlog"].found


def test_a_server_of_another_version_and_one_that_lets_nobody_in_are_told() -> None:
    state = ServerState("http://x", 1, {**HEALTHY, "version": "0.0.1"}, {"keys": [], "closed": True}, 0)
    found = {each.about: each for each in findings_about(state)}
    assert (found["server"].state, "0.0.1" in found["server"].found) == ("note", True)
    assert (found["keys"].state, "recollect keys create" in found["keys"].do) == ("problem", True)
    ended = {"revoked": None, "expires": time.time() * 1000 - 1}
    in_force = {"revoked": None, "expires": None}
    state = ServerState("http://x", 1, HEALTHY, {"keys": [ended, in_force], "closed": True}, 0)
    assert [each.found for each in findings_about(state) if each.about == "keys"] == ["1 in force"]


# --- status -------------------------------------------------------------------------------------------------


def test_status_is_short_and_says_where_the_server_is(server: Server, user: str) -> None:
    add(server.client, "t1", [message("one")], user_id=user)
    told = recollect_json(server.home, "status")
    assert (told["running"], told["address"], told["version"]) == (True, server.address, __version__)
    assert (told["health"], told["messages"] >= 1, told["home"]) == ("ok", True, str(server.home))
    assert {"waiting", "jobs", "pid"} <= told.keys()
    assert (told["journal"], told["files"]) == (
        f"SQLite {server.home / 'journal.db'}",
        f"{server.home / 'vault'}",
    )
    lines = recollect(server.home, "status").stdout.splitlines()
    assert (lines[0], len(lines) < 9) == (
        f"server: {server.address} (version {__version__}, process {server.pid})",
        True,
    )


def test_status_without_a_server_says_how_to_start_one(tmp_path: Path) -> None:
    told = recollect(tmp_path / "home", "status")
    assert (told.returncode, "recollect serve" in told.stdout) == (1, True)
    assert json.loads(recollect(tmp_path / "home", "status", "--json").stdout)["running"] is False
    assert not (tmp_path / "home").exists()


# --- settings -----------------------------------------------------------------------------------------------


@pytest.fixture
def set_home(tmp_path: Path) -> Path:
    text = "port = 8700\n\n[llm]\nmodel = 'm'\napi_key = 'precious'\nheaders = {'X-Key' = 'precious'}\n"
    (tmp_path / "recollect.toml").write_text(
        text + "[backends.big]\nbase_url = 'http://ann:precious@127.0.0.1:9'\n"
    )
    return tmp_path


def test_every_setting_is_shown_with_its_value_and_where_it_comes_from(set_home: Path) -> None:
    told = recollect_json(set_home, "settings", "show", settings={"RECOLLECT_JOBS__WORKERS": "2"})
    shown = {each["name"]: (each["value"], each["from"]) for each in told["settings"]}
    file = set_home / "recollect.toml"
    assert shown["port"] == (8700, f"{file}, line 1")
    assert shown["llm.model"] == ("m", f"{file}, line 4")
    assert shown["llm.kind"] == (None, "default")
    assert shown["jobs.workers"] == (2, "RECOLLECT_JOBS__WORKERS")
    assert shown["home"] == (str(set_home), "RECOLLECT_HOME")
    assert shown["backends"][1] == f"{file}, line 7"
    assert shown["chat.max_turns"] == (80, "default")


def test_a_table_in_capitals_is_named_as_the_source(set_home: Path) -> None:
    file = set_home / "recollect.toml"
    file.write_text("[LLM]\nmodel = 'm'\n")
    (shown,) = recollect_json(set_home, "settings", "show", "llm.model")["settings"]
    assert (shown["value"], shown["from"]) == ("m", f"{file}, line 2")


def test_secrets_are_masked(set_home: Path) -> None:
    for arguments in ((), ("--json",)):
        told = recollect(set_home, "settings", "show", *arguments).stdout
        assert ("llm.api_key" in told, "precious" in told) == (True, False)


def test_one_group_or_setting_is_shown_by_name_or_variable(set_home: Path) -> None:
    for name in ("llm.model", "RECOLLECT_LLM__MODEL"):
        assert [each["name"] for each in recollect_json(set_home, "settings", "show", name)["settings"]] == [
            "llm.model"
        ]
    group = recollect_json(set_home, "settings", "show", "index")["settings"]
    assert [each["name"] for each in group] == ["index.cache_mb", "index.delay_ms"]


def test_the_setting_that_was_meant_is_named(set_home: Path) -> None:
    refused = recollect(set_home, "settings", "show", "llm.modle")
    assert (refused.returncode, refused.stderr) == (
        1,
        "recollect: there is no setting llm.modle; did you mean llm.model?\n",
    )


def test_good_settings_are_checked(set_home: Path) -> None:
    checked = recollect(set_home, "settings", "check")
    file = set_home / "recollect.toml"
    assert (checked.returncode, checked.stdout) == (0, f"ok: the environment and {file} are valid\n")
    none = recollect(set_home / "none", "settings", "check").stdout
    assert none == f"ok: the environment is valid; there is no {set_home / 'none' / 'recollect.toml'}\n"
    assert recollect_json(set_home, "settings", "check") == {"ok": True, "problems": []}


def test_bad_settings_are_told_with_file_line_field_and_variable(set_home: Path) -> None:
    file = set_home / "recollect.toml"
    file.write_text("prot = 1\n")
    typo = {"RECOLLECT_HOTS": "127.0.0.1"}
    checked = recollect(set_home, "settings", "check", settings=typo)
    assert checked.returncode == 1
    assert f"{file}, line 1, prot: there is no such setting; did you mean port?" in checked.stdout
    assert "RECOLLECT_HOTS: there is no such setting; did you mean RECOLLECT_HOST?" in checked.stdout
    told = json.loads(recollect(set_home, "settings", "check", "--json", settings=typo).stdout)
    assert (told["ok"], len(told["problems"])) == (False, 2)
    file.write_text("port = 'no'\n")
    hidden = recollect(set_home, "settings", "check", settings={"RECOLLECT_PORT": "9000"}).stdout
    assert hidden.startswith(f"{file}, line 1, port: Input should be a valid integer")
    file.unlink()
    once = recollect(set_home, "settings", "check", settings={"RECOLLECT_LLM__MODLE": "m"}).stdout
    assert once.count("RECOLLECT_LLM__MODLE") == 1
    once = recollect(set_home, "settings", "check", settings={"recollect_llm__modle": "m"}).stdout
    assert once.upper().count("RECOLLECT_LLM__MODLE") == 1


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (
            "'llm.model' = 'm'",
            "llm.model: there is no such setting; did you mean llm.model (without the quotes)?",
        ),
        ("[backends.big]\nbase_url = 'x'\nadress = 'x'", "backends.big.adress: there is no such setting\n"),
    ],
)
def test_no_setting_is_suggested_that_would_not_help(set_home: Path, written: str, told: str) -> None:
    (set_home / "recollect.toml").write_text(written)
    assert told in recollect(set_home, "settings", "check").stdout


# --- flush --------------------------------------------------------------------------------------------------


def test_a_thread_is_remembered_now(server: Server, user: str) -> None:
    add(server.client, "now", [message("Marta moves to Porto")], user_id=user)
    flushed = recollect_json(server.home, "flush", "now", "--user", user)["threads"]
    assert [(each["session_id"], each["status"], each["buffered"]) for each in flushed] == [
        ("now", "done", 0)
    ]
    assert len(flushed[0]["memcells"]) == 1


def test_all_threads_of_a_user_are_remembered_now(server: Server, user: str) -> None:
    for thread in ("a", "b"):
        add(server.client, thread, [message("Marta moves to Porto")], user_id=user)
    told = recollect(server.home, "flush", "--user", user)
    assert (told.returncode, "b: 1 memcell closed; remembered\n" in told.stdout) == (0, True)
    assert server.client.get("/api/v1/coverage", params={"user_id": user}).json()["buffered"] == 0
    assert recollect(server.home, "flush", "--user", user).stdout == "nothing waits to be remembered\n"


def test_flush_names_what_is_to_be_flushed(server: Server) -> None:
    assert recollect(server.home, "flush").returncode == 2
    refused = recollect(server.home, "flush", "nowhere", "--user", "nobody")
    assert (refused.returncode, "nowhere" in refused.stderr) == (1, True)


# --- export -------------------------------------------------------------------------------------------------


@pytest.fixture
def talked(server: Server, user: str) -> str:
    """A user with two threads; one of them has more turns than a page."""
    add(server.client, "trip", [message("# Porto\nin *May*", 1), message("Two nights", 2)], user_id=user)
    add(server.client, "Long Thread", [message(f"line {n}", n) for n in range(250)], user_id=user)
    server.client.patch(
        "/api/v1/threads/trip", json={"title": "The trip", "user_id": user}
    ).raise_for_status()
    drained(server.client)
    return user


def test_a_thread_is_exported_to_standard_output(server: Server, talked: str) -> None:
    text = recollect(server.home, "export", "trip", "--user", talked).stdout
    assert text.startswith(f"# The trip\n\nThread trip of {talked}, ")
    assert text.index("# Porto\nin *May*") < text.index("Two nights")
    told = json.loads(recollect(server.home, "export", "trip", "--user", talked, "--json").stdout)
    (thread,) = told["threads"]
    assert (thread["title"], [turn["content"] for turn in thread["turns"]]) == (
        "The trip",
        ["# Porto\nin *May*", "Two nights"],
    )


def test_a_user_is_exported_to_a_folder_whole_and_private(
    server: Server, talked: str, tmp_path: Path
) -> None:
    done = recollect_json(
        server.home, "export", "--user", talked, "--to", str(tmp_path / "out"), "--format", "json"
    )
    files = sorted((tmp_path / "out").rglob("*.json"))
    assert sorted(done["files"]) == [str(file) for file in files]
    threads = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert sorted((thread["thread_id"], len(thread["turns"])) for thread in threads) == [
        ("Long Thread", 250),
        ("trip", 2),
    ]
    assert {file.stat().st_mode & 0o077 for file in files} == {0}


def test_an_export_to_a_file_takes_its_form_from_the_name_and_replaces_nothing(
    server: Server, talked: str, tmp_path: Path
) -> None:
    file = tmp_path / "all.json"
    assert recollect(server.home, "export", "--user", talked, "--to", str(file)).returncode == 0
    assert len(json.loads(file.read_text(encoding="utf-8"))["threads"]) == 2
    file.write_text("mine")
    refused = recollect(server.home, "export", "--user", talked, "--to", str(file))
    assert (refused.returncode, str(file) in refused.stderr, file.read_text()) == (1, True, "mine")
    assert recollect(server.home, "export", "--user", talked, "--to", str(file), "--force").returncode == 0
    assert file.read_text() != "mine"


def test_an_incognito_thread_is_exported_only_by_its_name(server: Server, talked: str) -> None:
    body = {"user_id": talked, "thread_id": "secret", "incognito": True}
    server.client.post("/api/v1/threads", json=body).raise_for_status()
    add(server.client, "secret", [message("between us")], user_id=talked)
    assert "between us" not in recollect(server.home, "export", "--user", talked).stdout
    assert "between us" in recollect(server.home, "export", "secret", "--user", talked).stdout


def test_a_home_without_a_server_is_exported_too(tmp_path: Path) -> None:
    recollect(
        tmp_path / "home", "add", "Marta moves to Porto", "--session", "t1", "--user", "ann", settings=QUICK
    )
    text = recollect(tmp_path / "home", "export", "--user", "ann").stdout
    assert "Marta moves to Porto" in text


def test_where_there_is_nothing_to_export_it_is_said(server: Server) -> None:
    none = recollect(server.home, "export", "--user", "nobody")
    assert (none.returncode, none.stdout, "no conversation to export" in none.stderr) == (0, "", True)


def test_what_was_said_can_not_steer_the_terminal(server: Server, user: str) -> None:
    add(server.client, "t2", [message("a \x1b[31mred\x07 alert")], user_id=user)
    found = recollect(server.home, "search", "alert", "--user", user).stdout
    assert "a \ufffd[31mred\ufffd alert" in found
