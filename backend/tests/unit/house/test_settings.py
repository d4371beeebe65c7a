"""Settings come from arguments, the environment and `recollect.toml`, in this order; mistakes are named."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import Conflict, HomeUnusable
from recollect.infra.settings_file import with_values
from recollect.settings import Settings, load_settings, setting_names, unknown_variables


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing but what a test sets; the home is a folder of its own."""
    for name in [*setting_names(), "RECOLLECT_COLOUR"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RECOLLECT_HOME", str(tmp_path))


def write_toml(home: Path, text: str) -> None:
    (home / "recollect.toml").write_text(text, encoding="utf-8")


def test_without_any_setting_there_are_defaults(tmp_path: Path) -> None:
    settings = load_settings()
    assert (settings.port, settings.host, settings.synchronous) == (8600, "127.0.0.1", "FULL")
    assert settings.journal_path == tmp_path / "journal.db"
    assert settings.vault_path == tmp_path / "vault"


def test_an_argument_wins_over_the_environment_and_that_over_the_file_setting_by_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_toml(tmp_path, 'port = 8999\n[memorize]\nmode = "agent"\nmax_turns = 7\nboundary_every = 9\n')
    assert load_settings().port == 8999
    monkeypatch.setenv("RECOLLECT_PORT", "9000")
    monkeypatch.setenv("RECOLLECT_LLM__BASE_URL", "http://127.0.0.1:8080/v1")
    monkeypatch.setenv("RECOLLECT_MEMORIZE__MAX_TURNS", "8")
    settings = load_settings(port=9001)
    assert (settings.port, settings.llm.base_url) == (9001, "http://127.0.0.1:8080/v1")
    memorize = settings.memorize
    assert (memorize.mode, memorize.max_turns, memorize.boundary_every) == ("agent", 8, 9)
    assert load_settings(port=None).port == 9000, "an argument that was not given changes nothing"


def test_the_file_is_looked_for_in_the_home_that_was_given(tmp_path: Path) -> None:
    home = tmp_path / "other"
    home.mkdir()
    write_toml(home, "port = 9002\n")
    assert load_settings(home=home).port == 9002


def test_a_home_with_a_tilde_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RECOLLECT_HOME", "~/memory")
    assert load_settings().home == tmp_path / "memory"


@pytest.mark.parametrize("variable", ["RECOLLECT_ALLOWED_HOSTS", "RECOLLECT_ALLOWED_ORIGINS"])
def test_a_list_is_written_with_commas(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "a.example, b.example,")
    name = variable.removeprefix("RECOLLECT_").lower()
    assert getattr(load_settings(), name) == ["a.example", "b.example"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RECOLLECT_PORT", "ninety"),
        ("RECOLLECT_PORT", "70000"),
        ("RECOLLECT_MEMORIZE__MODE", "all"),
        ("RECOLLECT_MEMORIZE__MAX_TURNS", "1"),
        ("RECOLLECT_JOBS__WORKERS", "0"),
        ("RECOLLECT_SYNCHRONOUS", "OFF"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(HomeUnusable, match=variable):
        load_settings()


def test_every_bad_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_PORT", "ninety")
    monkeypatch.setenv("RECOLLECT_JOBS__WORKERS", "0")
    with pytest.raises(HomeUnusable, match=r"RECOLLECT_PORT.*RECOLLECT_JOBS__WORKERS"):
        load_settings()


def test_a_key_is_told_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_LLM__API_KEY", "sk-secret")
    assert "sk-secret" not in repr(load_settings())
    monkeypatch.setenv("RECOLLECT_PORT", "ninety")
    with pytest.raises(HomeUnusable) as caught:
        load_settings()
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\nport = \n", "not valid TOML: Invalid value (at line 2, column 8)"),
        ("port = 1\n\nllm = [\n 1,\n", "recollect.toml, line 3 is not valid TOML: "),
        ("llm = {", "recollect.toml, line 1 is not valid TOML: "),
        ('# mine\nhome = "/x"', "line 2, home: the file is inside the home"),
        ("colour = 1", "line 1, colour: there is no such setting"),
        ("port = 1\n\n[memorize]\ncolour = 1", "line 4, memorize.colour: there is no such setting"),
        (
            '[llm]\nmodel = "m"\nbase_ulr = "x"',
            "line 3, llm.base_ulr: there is no such setting; did you mean llm.base_url?",
        ),
        ('base_url = "x"', "did you mean llm.base_url?"),
        (
            '[llm]\nBASE_URL = "x"',
            "line 2, llm.BASE_URL: there is no such setting; did you mean llm.base_url?",
        ),
        ('[LLM]\nMODEL = "x"', "line 2, llm.MODEL: there is no such setting; did you mean llm.model?"),
        ("RECOLLECT_PORT = 1", "line 1, RECOLLECT_PORT: there is no such setting; did you mean port?"),
        (
            '[llm]\nRECOLLECT_LLM__MODEL = "x"',
            "line 2, llm.RECOLLECT_LLM__MODEL: there is no such setting; did you mean llm.model?",
        ),
        ("[memorise]", "line 1, memorise: there is no such setting; did you mean memorize?"),
        ('[backends.big]\nbase_ulr = "x"', "did you mean backends.big.base_url?"),
        ("[jobs]\r\n\r\nworkers = 0\r\n", "line 3, jobs.workers: Input should be greater than or equal to 1"),
        ("allowed_hosts = [\n  'a',\n  2,\n]\n", "line 1, allowed_hosts.1: Input should be a valid string"),
        (
            "[embedding]\nkind = 'openai'",
            "line 1, embedding: Value error, kind openai needs base_url and model",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line_and_the_nearest_name(
    tmp_path: Path, text: str, problem: str
) -> None:
    write_toml(tmp_path, text)
    with pytest.raises(HomeUnusable) as refused:
        load_settings()
    assert f"{tmp_path / 'recollect.toml'}" in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("RECOLLECT_LLM__BASE_ULR", "x", "there is no such setting; did you mean RECOLLECT_LLM__BASE_URL?"),
        ("RECOLLECT_LLM__HEADERS", "notjson", "not JSON: Expecting value: line 1 column 1"),
        ("RECOLLECT_LLM", '{"base_ulr": "x"}', "did you mean RECOLLECT_LLM__BASE_URL?"),
        ("RECOLLECT_JOBS__WORKERS", "0", "Input should be greater than or equal to 1"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable_and_not_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, problem: str
) -> None:
    write_toml(tmp_path, "[jobs]\nworkers = 3\n[llm]\nmodel = 'm'\n")
    monkeypatch.setenv(variable, value)
    with pytest.raises(HomeUnusable) as refused:
        load_settings()
    assert variable in str(refused.value)
    assert problem in str(refused.value)
    assert "recollect.toml" not in str(refused.value)


def test_a_mistake_in_an_option_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_PORT", "9000")
    with pytest.raises(HomeUnusable, match="--port: Input should be less than or equal to 65535"):
        load_settings(port=70_000)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recollect.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(HomeUnusable, match=r"recollect\.toml"):
        load_settings()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("RECOLLECT_PROT", "RECOLLECT_PORT"),
        ("RECOLLECT_LLM_BASE_URL", "RECOLLECT_LLM__BASE_URL"),
        ("RECOLLECT_BASE_URL", "RECOLLECT_LLM__BASE_URL"),
        ("recollect_prot", "RECOLLECT_PORT"),
        ("LLM__MODEL", "RECOLLECT_LLM__MODEL"),
    ],
)
def test_a_variable_that_is_no_setting_is_listed_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, typed: str, meant: str
) -> None:
    monkeypatch.setenv(typed, "x")
    monkeypatch.setenv("RECOLLECT_COLOUR", "red")
    monkeypatch.setenv("RECOLLECT_HOST", "::1")
    assert unknown_variables() == {typed: f"; did you mean {meant}?", "RECOLLECT_COLOUR": ""}


@pytest.mark.parametrize("name", ["RECOLLECT_llm", "RECOLLECT_LLM", "recollect_llm"])
def test_a_table_is_taken_as_json_and_case_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, '{"model": "m"}')
    monkeypatch.setenv("recollect_port", "9000")
    assert (load_settings().llm.model, load_settings().port) == ("m", 9000)
    assert unknown_variables() == {}


def test_every_setting_has_a_description() -> None:
    assert [name for name, description in setting_names().items() if not description] == []


def test_a_sqlite_address_says_where_the_journal_is(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path}/other.db")
    assert settings.journal_path == tmp_path / "other.db"


def test_an_address_of_postgresql_is_no_file_and_is_not_shown_with_its_password(tmp_path: Path) -> None:
    url = "postgresql://ann:hunter2@db/x"
    settings = Settings(home=tmp_path, database_url=url)
    assert settings.postgres_url == url
    assert "hunter2" not in repr(settings)
    with pytest.raises(HomeUnusable, match="needs a journal in a file") as refused:
        _ = settings.journal_path
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:hunter2@db:5433/x", "postgresql://ann:***@db:5433/x"),
        ("postgresql://ann:hunter2/@more@db/x", "postgresql://ann:***@db/x"),
        ("postgresql://:hunter2@db/x", "postgresql://:***@db/x"),
        ("postgres://db/x?user=ann&password=hunter2", "postgres://db/x?***"),
        ("sqlite:////a@b/journal.db?", "sqlite:////a@b/journal.db?"),
    ],
)
def test_the_address_of_the_journal_is_shown_without_its_password(
    tmp_path: Path, url: str, shown: str
) -> None:
    assert Settings(home=tmp_path, database_url=url).model_dump(mode="json")["database_url"] == shown


@pytest.mark.parametrize(
    "url", ["mysql://ann:hunter2@db/x", "mysql:///x", "sqlite://", "sqlite:///", "journal.db", ""]
)
def test_any_other_database_is_refused(tmp_path: Path, url: str) -> None:
    settings = Settings(home=tmp_path, database_url=url)
    with pytest.raises(HomeUnusable, match="RECOLLECT_DATABASE_URL"):
        _ = settings.journal_path


NEW = {"base_url": "http://new", "model": None}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[llm]\nbase_url = "http://new"\n'),
        ("port = 1", 'port = 1\n\n[llm]\nbase_url = "http://new"\n'),
        (
            '[llm] # mine\nmodel = "x"\nkind = "vllm"\n[chat]\nmax_turns = 4',
            '[llm] # mine\nbase_url = "http://new"\nkind = "vllm"\n[chat]\nmax_turns = 4',
        ),
        ("[llm]\r\nbase_url = 'http://old' # home\r\n", '[llm]\r\nbase_url = "http://new" # home\r\n'),
    ],
)
def test_a_value_is_written_and_every_other_line_stays(before: str, after: str) -> None:
    assert with_values(before, "llm", NEW) == after


@pytest.mark.parametrize(
    "before", ['llm.model = "x"', 'llm = {model = "x"}', "[llm]\nbase_url = '''\na'''", "[[["]
)
def test_a_file_that_cannot_be_changed_safely_is_left_alone(before: str) -> None:
    with pytest.raises(Conflict, match=r"recollect\.toml"):
        with_values(before, "llm", NEW)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_any_text_is_read_back_as_it_was_written(value: str) -> None:
    assert tomllib.loads(with_values("", "llm", {"api_key": value}))["llm"]["api_key"] == value
