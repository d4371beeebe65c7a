"""Connecting a model while the server runs: tried first, written into the settings, in force at once."""

import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.errors import ModelRefused
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.local_model import SMOLLM2, LocalModel
from recollect.infra.backends.server import Endpoint
from recollect.settings import load_settings
from tests.eventually import eventually
from tests.http_client import Home, Json, client_of, error_of, opened
from tests.processes import StandInModel
from tests.remembering import flush, polite_model, remember, remembering, said, texts

NOBODY = "http://127.0.0.1:9"
THEIRS = '# My settings.\nlog_level = "WARNING"  # quiet\n\n[llm]\nkeep_alive = "5m"\n\n[jobs]\nworkers = 3\n'


async def put(home: Home, **body: Any) -> httpx2.Response:
    return await home.client.put("/api/v1/model", json=body)


async def source(home: Home) -> str:
    return str((await home.client.get("/api/v1/model")).raise_for_status().json()["source"])


async def say(home: Home, thread: str, content: str, **fields: Any) -> Json:
    """In a thread that has its title, so that nothing is asked of the model besides."""
    opened = {"thread_id": thread, "user_id": "ann", "title": "A title"}
    (await home.client.post("/api/v1/threads", json=opened)).raise_for_status()
    body = {"user_id": "ann", "content": content, **fields}
    answer: Json = (
        (await home.client.post(f"/api/v1/threads/{thread}/messages", json=body)).raise_for_status().json()
    )
    return answer


async def test_a_model_is_tried_written_down_and_in_force_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "recollect.toml"
    file.write_text(THEIRS)
    file.chmod(0o644)
    model = polite_model()
    async with remembering(tmp_path, alone=True) as home:
        assert await source(home) == "none"
        address = model.base_url.removeprefix("http://")
        connected = (await put(home, base_url=address, api_key="sk-1", model="stand-in")).raise_for_status()
        assert connected.json()["model"] == "stand-in"
        assert await source(home) == "settings"
        await remember(home, "t1", said([("user", "I live in Porto.")]), user_id="ann")
        assert await texts(home, "facts") == ["ann lives in Porto."]
        answered = await say(home, "t2", "My sister is Marta.", memory=False)
        assert answered["assistant_turn"]["content"] == "I see: Marta"
        assert (await home.client.get("/health")).json()["hints"] == []
    written = file.read_text()
    assert [line for line in THEIRS.splitlines() if line not in written.splitlines()] == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.glob("recollect.toml?*")) == []
    llm = load_settings(home=tmp_path).llm
    assert (llm.base_url, llm.model, llm.keep_alive) == (model.base_url, "stand-in", "5m")
    assert llm.api_key is not None
    assert llm.api_key.get_secret_value() == "sk-1"


@pytest.mark.parametrize(
    ("given", "field", "told"),
    [
        ({"base_url": NOBODY}, "base_url", "nobody answers"),
        ({"base_url": "what?"}, "base_url", "such as http://127.0.0.1:11434"),
        ({"base_url": "http://127.0.0.1:99999"}, "base_url", "no address"),
        ({"base_url": "http://[::1"}, "base_url", "no address"),
        ({"base_url": "ftp://127.0.0.1"}, "base_url", "such as http://127.0.0.1:11434"),
        ({"model": "gpt-9"}, "model", "It has: stand-in"),
        ({"api_key": "señal"}, "api_key", "no spaces"),
    ],
)
async def test_what_is_wrong_is_named_with_its_field_and_nothing_changes(
    tmp_path: Path, given: Json, field: str, told: str
) -> None:
    async with remembering(tmp_path, alone=True) as home:
        error = error_of(refused := await put(home, **{"base_url": polite_model().base_url, **given}))
        assert (refused.status_code, error["field"]) == (422, field)
        assert told in error["message"]
        assert await source(home) == "none"
    assert not (tmp_path / "recollect.toml").exists()


async def test_a_server_that_refuses_the_key_says_so_and_the_key_is_nowhere_shown(tmp_path: Path) -> None:
    with StandInModel() as model:
        model.control("error", status=401)
        async with remembering(tmp_path, alone=True) as home:
            refused = await put(home, base_url=model.base_url, api_key="sk-very-secret")
            assert error_of(refused)["field"] == "api_key"
            assert "Check its API key" in refused.text
            assert "very-secret" not in refused.text


async def test_of_several_servers_none_keeps_what_the_others_would_not_see(tmp_path: Path) -> None:
    async with opened(tmp_path, member_url="http://127.0.0.1:8600") as home:
        chosen = (await home.client.get("/api/v1/model")).json()
        assert (chosen["may_connect"], chosen["fixed_by"]) == (True, "RECOLLECT_LLM__BASE_URL")
        error = error_of(refused := await put(home, base_url=NOBODY, api_key="sk-very-secret"))
        assert refused.status_code == 409
        assert "RECOLLECT_LLM__BASE_URL, RECOLLECT_LLM__API_KEY, RECOLLECT_LLM__MODEL" in error["message"]
        refused = await home.operate("POST", "upgrade", undo=False)
        assert refused.status_code == 409
        assert "RECOLLECT_MEMBER_URL" in error_of(refused)["message"]
    assert {path.name for path in tmp_path.iterdir()} <= {
        "journal.db",
        "vault",
        "index",
        "recollect.lock",
        "ledger",
    }


async def test_only_the_operator_of_the_server_connects_a_model(tmp_path: Path) -> None:
    async with remembering(tmp_path, alone=True) as home:
        body = {"base_url": polite_model().base_url}
        operator = await home.make_key()
        users, others = await home.make_key("ann"), await home.make_key(space="other")
        for headers, status in ((users, 403), (others, 403), (operator, 200)):
            async with client_of(home.app, **headers) as client:
                may = (await client.get("/api/v1/model")).json()["may_connect"]
                assert may is (status == 200)
                assert (await client.put("/api/v1/model", json=body)).status_code == status


async def test_a_variable_takes_precedence_so_the_file_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_LLM__MODEL", "stand-in")
    async with remembering(tmp_path, alone=True) as home:
        refused = await put(home, base_url=polite_model().base_url)
        assert refused.status_code == 409
        assert "RECOLLECT_LLM__MODEL" in refused.text
    assert not (tmp_path / "recollect.toml").exists()


@pytest.fixture
def demonstration(monkeypatch: pytest.MonkeyPatch) -> StandInModel:
    """The stand-in plays the bundled model."""

    async def address(_model: LocalModel) -> str:
        return polite_model().base_url

    monkeypatch.setattr(LocalModel, "address", address)
    monkeypatch.setattr(LocalModel, "is_set_up", lambda _model: True)
    return polite_model()


@pytest.mark.usefixtures("demonstration")
async def test_the_demonstrations_answers_are_kept_and_neither_extracted_nor_recalled(tmp_path: Path) -> None:
    async with remembering(tmp_path, alone=True) as home:
        assert await source(home) == "demonstration"
        (hint,) = (await home.client.get("/health")).json()["hints"]
        assert "a demonstration whose answers are not remembered" in hint
        answered = await say(home, "t1", "My sister Marta lives in Porto.")
        assert answered["receipt"]["label"] == SMOLLM2.label
        (cell,) = (await flush(home, "t1"))["memcells"]
        assert cell["message_ids"] == [answered["user_turn"]["message_id"]]
        await eventually(lambda: home.app.search.indexer.waiting == (0, 0))
        search = {"user_id": "ann", "query": "I see Marta Porto", "neighbours": 5}
        found = (await home.client.post("/api/v1/memory/search", json=search)).raise_for_status().json()
        assert "sister Marta" in str(found["hits"])
        assert "I see:" not in str(found["hits"])
        kept = (await home.client.get("/api/v1/threads/t1/turns")).json()["turns"]
        assert [turn["content"] for turn in kept][-1] == "I see: Marta, Porto"
        counts = await home.coverage()
        assert (counts["messages"], counts["celled"], counts["skipped"], counts["missing"]) == (2, 1, 1, 0)


async def test_a_server_is_never_its_own_model(tmp_path: Path) -> None:
    """Each question would be asked of itself, without end."""
    async with remembering(tmp_path, alone=True) as home:
        address = Endpoint(name="default", base_url="http://127.0.0.1:8600")
        own = HttpBackend(address, transport=home.client._transport)
        with pytest.raises(ModelRefused) as refused:
            await own.facts()
    assert "This is Recollect's own address: give that of a model server." in str(refused.value)
