"""Who gets in: hosts, origins and keys."""

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.entrypoints.http.routes.web import CONTENT_SECURITY_POLICY
from recollect.entrypoints.http.server import create_api, create_server
from tests.files_under import files_under
from tests.http_client import Home, Json, add_one, bearer, opened
from tests.processes import Server, recollect, recollect_json


class TestHosts:
    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "127.0.0.1:8600", "localhost", "LocalHost:99", "[::1]", "[::1]:8600"]
    )
    async def test_a_name_of_this_machine_is_let_in(self, home: Home, host: str) -> None:
        assert (await home.client.get("/health", headers={"Host": host})).status_code == 200

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "evil.example:8600",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::2]",
            "",
        ],
    )
    async def test_any_other_name_is_refused(self, home: Home, host: str) -> None:
        answer = await home.client.get("/api/v1/threads", headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["field"]) == (403, "Host")

    async def test_a_name_in_the_settings_is_let_in(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home", allowed_hosts=["Memory.Example"]) as home:
            answer = await home.client.get("/health", headers={"Host": "memory.example:443"})
        assert answer.status_code == 200

    async def test_the_address_the_server_listens_on_is_let_in(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home", host="127.0.0.2") as home:
            answer = await home.client.get("/health", headers={"Host": "127.0.0.2:8600"})
        assert answer.status_code == 200


class TestOrigins:
    @pytest.mark.parametrize(
        "origin",
        ["http://127.0.0.1:8600", "HTTP://127.0.0.1:8600", "http://127.0.0.1:8600/", "http://[::1]:8600"],
    )
    async def test_the_servers_own_page_is_let_in(self, home: Home, origin: str) -> None:
        headers = {"Host": "[::1]:8600" if "[" in origin else "127.0.0.1:8600", "Origin": origin}
        assert (await home.client.get("/health", headers=headers)).status_code == 200

    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "http://127.0.0.1:9999",
            "http://127.0.0.1",
            "null",
            "",
            "http://[",
            "file://",
            "http://127.0.0.1:8600.evil.example",
        ],
    )
    async def test_any_other_origin_is_refused(self, home: Home, origin: str) -> None:
        headers = {"Host": "127.0.0.1:8600", "Origin": origin}
        answer = await home.client.get("/api/v1/threads", headers=headers)
        assert (answer.status_code, answer.json()["error"]["field"]) == (403, "Origin")

    async def test_pages_of_an_origin_in_the_settings_may_read_answers_and_no_others(
        self, tmp_path: Path
    ) -> None:
        """By CORS. A preflight has no key; the request after it needs one."""
        asked = {
            "Origin": "https://app.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type, x-recollect-thread",
        }
        listed = ["https://App.example/", "*"]
        async with opened(tmp_path / "home", host="0.0.0.0", allowed_origins=listed) as home:
            preflight = await home.client.options("/v1/chat/completions", headers=asked)
            assert preflight.status_code == 200
            assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
            assert "authorization" in preflight.headers["Access-Control-Allow-Headers"].lower()
            unkeyed = await home.client.get("/v1/models", headers={"Origin": "https://app.example"})
            assert unkeyed.status_code == 401
            assert "X-Recollect-Thread" in unkeyed.headers["Access-Control-Expose-Headers"]
            for answer in (preflight, unkeyed):
                assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
                assert "Access-Control-Allow-Credentials" not in answer.headers
                assert "Origin" in answer.headers["Vary"]
            for origin in ("https://evil.example", "null", "*"):
                refused = await home.client.options(
                    "/v1/chat/completions", headers={**asked, "Origin": origin}
                )
                assert "Access-Control-Allow-Origin" not in refused.headers


class TestKeys:
    @pytest.mark.parametrize(("secret", "status"), [("sk-none", 200), ("rk_unknown", 401)])
    async def test_without_keys_a_clients_placeholder_does_no_harm_and_an_unknown_key_is_refused(
        self, home: Home, secret: str, status: int
    ) -> None:
        assert (await home.client.get("/api/v1/threads", headers=bearer(secret))).status_code == status

    async def test_beyond_this_machine_nobody_comes_in_without_a_key(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home", host="0.0.0.0") as home:
            answers = [await home.client.get("/api/v1/threads", headers=each) for each in ({}, bearer("x"))]
        assert [answer.status_code for answer in answers] == [401, 401]

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            bearer("wrong"),
            bearer("rk_wrong"),
            {"Authorization": "Basic eDp5"},
            {"Authorization": "Bearer schlüssel".encode("latin-1")},
        ],
    )
    async def test_after_the_first_key_a_request_without_one_is_refused(
        self, home: Home, headers: Any
    ) -> None:
        await home.make_key()
        answer = await home.client.get("/api/v1/threads", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "key_required")
        assert answer.headers["www-authenticate"] == "Bearer"

    async def test_after_the_first_key_liveness_stays_open(self, home: Home) -> None:
        await home.make_key()
        assert (await home.client.get("/health/live")).status_code == 200

    async def test_health_names_no_thread_and_no_user_to_those_without_a_key(self, home: Home) -> None:
        await home.make_key()
        async with home.keyed("ann") as client, home.app.jobs.paused():
            await add_one(client, "very-private", "x")
            await home.app.database.write(
                lambda connection: connection.run(
                    "UPDATE jobs SET error = 'users/ann/threads/very-private/0001.md cannot be written'"
                )
            )
            shown = (await home.client.get("/health")).text
        assert "very-private" not in shown

    async def test_health_says_where_journal_and_files_are_to_operators_alone(self, home: Home) -> None:
        places = (f"SQLite {home.app.settings.journal_path}", str(home.app.settings.vault_path))
        told = (await home.client.get("/health")).json()
        assert (told["journal"], told["files"]) == places
        admin = await home.make_key()
        for headers, expected in (({}, (None, None)), (admin, places)):
            told = (await home.client.get("/health", headers=headers)).json()
            assert (told["journal"], told["files"]) == expected
        async with home.keyed("ann") as client:
            assert (await client.get("/health")).json()["journal"] is None

    async def test_a_key_in_any_case_of_bearer_opens(self, home: Home) -> None:
        headers = {name: value.replace("Bearer", "bearer") for name, value in (await home.make_key()).items()}
        answer = await home.client.get("/api/v1/threads", headers=headers)
        assert answer.status_code == 200

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", "/api/v1/keys/open", None),
            ("POST", "/api/v1/verify", {}),
            ("POST", "/api/v1/backup", None),
            ("POST", "/api/v1/upgrade", {}),
        ],
    )
    @pytest.mark.parametrize("who", ["nobody in particular", "a space's key", "a user's key"])
    async def test_operators_work_is_for_the_local_operator_alone(
        self, home: Home, who: str, method: str, path: str, body: Json | None
    ) -> None:
        if who == "nobody in particular":
            answer = await home.client.request(method, path, json=body)
        else:
            async with home.keyed("ann" if who == "a user's key" else None) as client:
                answer = await client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "refused")


ANTHROPIC = "/v1/messages"


async def answer_without_reading(home: Home, method: str, path: str, **headers: str) -> tuple[int, str]:
    """Status and error code (at Anthropic's door its type) of a request whose body is on its way, which nobody may read."""
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(told: Any) -> None:
        sent.append(told)

    given = {"host": "127.0.0.1", "transfer-encoding": "chunked", **headers}
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    await create_server(home.app)(scope, receive, send)
    error = json.loads(sent[1]["body"])["error"]
    told = error.get("data", error)
    return sent[0]["status"], told["type"] if path.startswith(ANTHROPIC) else told["code"]


class TestBodies:
    """What is checked before the first byte of a body is read, on every route that takes one."""

    ROUTES = sorted(
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, item in create_api().openapi()["paths"].items()
        for method, operation in item.items()
        if "requestBody" in operation
    )

    @pytest.mark.parametrize(("method", "path"), ROUTES)
    async def test_no_body_is_read_without_a_key(self, home: Home, method: str, path: str) -> None:
        await home.make_key()
        status, code = await answer_without_reading(
            home, method, path, **{"content-type": "application/json"}
        )
        expected = "invalid_api_key" if path.startswith("/v1") else "key_required"
        assert (status, code) == (401, "authentication_error" if path.startswith(ANTHROPIC) else expected)

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
    async def test_no_body_is_read_that_is_no_json(self, home: Home, kind: str) -> None:
        for method, path in self.ROUTES:
            answer = await answer_without_reading(home, method, path, **{"content-type": kind})
            is_anthropic = path.startswith(ANTHROPIC)
            expected = "invalid_request_error" if is_anthropic else "unsupported_media_type"
            assert answer == (415, expected), path

    async def test_a_character_set_does_no_harm(self, home: Home) -> None:
        headers = {"Content-Type": "Application/JSON; charset=utf-8"}
        answer = await home.client.post("/api/v1/threads", content=b"{}", headers=headers)
        assert answer.status_code == 201


class TestHeaders:
    @pytest.mark.parametrize("path", ["/api/v1/threads", "/health", "/api/v1/threads/none", "/openapi.json"])
    async def test_answers_are_not_sniffed_kept_or_framed(self, home: Home, path: str) -> None:
        headers = (await home.client.get(path)).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"

    async def test_the_web_page_keeps_its_own_policy(self, home: Home) -> None:
        headers = (await home.client.get("/")).headers
        assert headers.get_list("Content-Security-Policy") == [CONTENT_SECURITY_POLICY]
        assert headers.get_list("Cache-Control") == ["no-cache"]


class TestKeysFromTheCommandLine:
    def test_a_key_is_made_listed_and_revoked(self, tmp_path: Path) -> None:
        made = recollect_json(tmp_path / "home", "keys", "create", "--user", "ann", "--name", "laptop")
        (listed,) = recollect_json(tmp_path / "home", "keys", "list")["keys"]
        assert listed == {name: value for name, value in made.items() if name != "secret"}
        assert (listed["space"], listed["user_id"], listed["name"]) == ("default", "ann", "laptop")
        assert recollect(tmp_path / "home", "keys", "revoke", made["key_id"]).returncode == 0
        (listed,) = recollect_json(tmp_path / "home", "keys", "list")["keys"]
        assert listed["revoked"] is not None

    @pytest.mark.slow
    def test_a_key_has_an_expiry_and_scopes_and_is_rotated(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        made = recollect_json(home, "keys", "create", "--expires", "90d", "--scopes", "read,write")
        assert made["scopes"] == ["read", "write"]
        assert 89.9 < (made["expires"] - made["created"]) / 86_400_000 <= 90
        rotated = recollect_json(home, "keys", "rotate", made["key_id"], "--overlap", "30m")
        old, new = recollect_json(home, "keys", "list")["keys"]
        assert (old["replaced_by"], new["scopes"]) == (rotated["key_id"], ["read", "write"])
        assert old["expires"] == new["created"] + 1_800_000
        dated = recollect_json(home, "keys", "create", "--expires", "2099-01-01")
        assert dated["expires"] == 4_070_908_800_000
        for wrong in (["--expires", "soon"], ["--expires", "2001-01-01"], ["--scopes", "fly"]):
            assert recollect(home, "keys", "create", *wrong).returncode in (1, 2)

    def test_revoking_the_last_key_says_that_the_server_stays_closed_until_it_is_opened(
        self, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        with Server(home) as server:
            first, last = [recollect_json(home, "keys", "create")["key_id"] for _ in range(2)]
            assert "keys open" not in recollect(home, "keys", "revoke", first).stdout
            assert "'recollect keys open'" in recollect(home, "keys", "revoke", last).stdout
            assert server.client.get("/api/v1/threads").status_code == 401
            assert recollect(home, "keys", "open").returncode == 0
            assert server.client.get("/api/v1/threads").status_code == 200

    def test_a_secret_is_nowhere_under_the_home(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with Server(home) as server:
            secret = recollect_json(home, "keys", "create")["secret"].encode()
            server.client.get("/api/v1/threads", headers=bearer(secret.decode())).raise_for_status()
            found = [path for path, content in files_under(home).items() if secret in content]
            logged = secret.decode() in server.errors()
        assert (found, logged) == ([], False)

    def test_the_lock_file_with_the_operators_token_is_its_owners_alone(self, tmp_path: Path) -> None:
        with Server(tmp_path / "home"):
            assert (tmp_path / "home" / "recollect.lock").stat().st_mode & 0o077 == 0

    @pytest.mark.parametrize(
        ("mode", "secret", "warned"), [(0o644, "k-1", True), (0o600, "k-1", False), (0o644, "", False)]
    )
    def test_a_settings_file_with_a_key_that_everybody_can_read_is_warned_about(
        self, tmp_path: Path, mode: int, secret: str, warned: bool
    ) -> None:
        file = tmp_path / "home" / "recollect.toml"
        file.parent.mkdir()
        file.write_text(f'[llm]\nbase_url = "http://127.0.0.1:9"\napi_key = "{secret}"\n')
        file.chmod(mode)
        with Server(tmp_path / "home") as server:
            server.stop()
            assert (f"chmod 600 {file}" in server.errors()) is warned

    def test_the_server_does_not_open_to_the_world_without_a_key(self, tmp_path: Path) -> None:
        refused = recollect(tmp_path / "home", "serve", "--host", "0.0.0.0", "--port", "0")
        assert refused.returncode == 1
        assert "without API keys" in refused.stderr
        assert "Traceback" not in refused.stderr

    def test_the_server_opens_to_the_world_with_a_key(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        secret = recollect_json(home, "keys", "create")["secret"]
        with Server(home, arguments=["--host", "0.0.0.0"]) as server:
            assert server.client.get("/api/v1/threads").status_code == 401
            assert server.client.get("/api/v1/threads", headers=bearer(secret)).status_code == 200
