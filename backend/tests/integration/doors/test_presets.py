"""Presets and preferences over HTTP, from the command line, by hand in the vault, and back from the vault alone."""

import json
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from tests.http_client import QUICK, Home, Json, drained
from tests.processes import Server, recollect, recollect_json, wait_until

SIGKILLED = -9
PIRATE: Json = {"instructions": "Answer like a pirate.", "temperature": 0.7, "persona": "Captain Hook"}


def preset_path(name: str) -> str:
    return f"/api/v1/presets/{quote(name, safe='')}"


def preferences_path(user: str) -> str:
    return f"/api/v1/users/{quote(user, safe='')}/preferences"


async def put(home: Home, name: str, **fields: object) -> httpx2.Response:
    return await home.client.put(preset_path(name), json={**PIRATE, **fields})


class TestPresets:
    async def test_a_preset_is_created_replaced_changed_and_deleted(self, home: Home) -> None:
        created = await put(home, "Pirate")
        replaced = await put(home, "pirate", temperature=0.9)
        changed = await home.client.patch(preset_path("PIRATE"), json={"persona": None, "max_tokens": 99})
        assert (created.status_code, replaced.status_code, changed.status_code) == (201, 200, 200)
        revisions = {answer.json()["revision"] for answer in (created, replaced, changed)}
        assert len(revisions) == 3
        expected = {
            "name": "pirate", "instructions": PIRATE["instructions"], "persona": None, "temperature": 0.9,
            "max_tokens": 99, "model": None, "backend": None, "sources": None, "revision": changed.json()["revision"],
        }  # fmt: skip
        assert (await home.client.get(preset_path("pirate"))).json() == expected
        deleted = await home.client.delete(preset_path("pirate"))
        assert (deleted.status_code, deleted.json()) == (200, {"name": "pirate", "deleted": True})
        assert (await home.client.get(preset_path("pirate"))).status_code == 404

    async def test_presets_are_listed_by_name_in_pages(self, home: Home) -> None:
        for name in ("zeta", "Alpha"):
            await put(home, name)
        first = (await home.client.get("/api/v1/presets", params={"limit": 2})).json()
        rest = (await home.client.get("/api/v1/presets", params={"after": first["next"]})).json()
        assert [preset["name"] for preset in first["presets"]] == ["Alpha", "default"]
        assert [preset["name"] for preset in rest["presets"]] == ["zeta"]
        assert "next" not in rest

    async def test_a_default_preset_of_ones_own_takes_the_place_of_the_built_in_one(self, home: Home) -> None:
        built_in = (await home.client.get(preset_path("default"))).json()
        await put(home, "Default")
        listed = (await home.client.get("/api/v1/presets")).json()["presets"]
        assert [preset["name"] for preset in listed] == ["Default"]
        deleted = [await home.client.delete(preset_path("default")) for _ in range(2)]
        assert [answer.status_code for answer in deleted] == [200, 422]
        assert (await home.client.get(preset_path("default"))).json() == built_in

    async def test_a_preset_that_is_not_there_is_not_found_and_the_others_are_named(self, home: Home) -> None:
        await put(home, "Pirate")
        asked: list[tuple[str, Json | None]] = [("GET", None), ("PATCH", {}), ("DELETE", None)]
        answers = [
            await home.client.request(method, preset_path("corsair"), json=body) for method, body in asked
        ]
        assert [answer.status_code for answer in answers] == [404] * 3
        assert "default, Pirate" in answers[0].json()["error"]["message"]

    @pytest.mark.parametrize("name", ["海盗 ☠", "a/b", "समुद्री डाकू", "con", "x" * 64])
    async def test_a_preset_may_have_any_name_and_lies_in_a_safe_file(self, home: Home, name: str) -> None:
        assert (await put(home, name)).status_code == 201
        await home.drain()
        assert (await home.client.get(preset_path(name))).json()["name"] == name
        (file,) = (home.app.settings.vault_path / "default" / "presets").iterdir()
        assert "Answer like a pirate." in file.read_text(encoding="utf-8")

    @pytest.mark.parametrize(
        ("name", "fields", "at_fault"),
        [
            ("x" * 65, {}, "name"),
            (" pirate", {}, "name"),
            ("pirate", {"instructions": " \n"}, "instructions"),
            ("pirate", {"instructions": None}, "instructions"),
            ("pirate", {"temperature": 2.5}, "temperature"),
            ("pirate", {"temperature": "hot"}, "temperature"),
            ("pirate", {"max_tokens": 0}, "max_tokens"),
            ("pirate", {"colour": "red"}, "colour"),
        ],
    )
    async def test_what_cannot_be_is_refused_by_name(
        self, home: Home, name: str, fields: Json, at_fault: str
    ) -> None:
        answer = await put(home, name, **fields)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, at_fault)
        assert len((await home.client.get("/api/v1/presets")).json()["presets"]) == 1

    async def test_instructions_can_be_changed_and_not_cleared(self, home: Home) -> None:
        await put(home, "pirate")
        answer = await home.client.patch(preset_path("pirate"), json={"instructions": None})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, "instructions")
        assert (await home.client.get(preset_path("pirate"))).json()["instructions"] == PIRATE["instructions"]

    async def test_health_names_a_file_of_50_mb_and_what_to_do(self, home: Home) -> None:
        path = home.app.settings.vault_path / "default/presets/huge.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 50_000_000)
        await home.app.vault_sweep.catch_up(home.app.jobs)
        degraded = (await home.client.get("/health")).json()["degraded"]
        assert [
            said for said in degraded if "mend or remove it: default/presets/huge.md: the file is" in said
        ]

    async def test_a_thread_with_an_unknown_preset_is_told_the_known_ones(self, home: Home) -> None:
        await put(home, "pirate")
        answer = await home.client.post("/api/v1/threads", json={"thread_id": "t1", "preset": "corsair"})
        error = answer.json()["error"]
        assert (answer.status_code, error["field"]) == (422, "preset")
        assert "default, pirate" in error["message"]
        for number, preset in enumerate(("Pirate", "default")):
            created = await home.client.post(
                "/api/v1/threads", json={"thread_id": f"known {number}", "preset": preset}
            )
            assert created.status_code == 201
        refused = await home.client.patch("/api/v1/threads/known%200", json={"preset": "corsair"})
        cleared = await home.client.patch("/api/v1/threads/known%200", json={"preset": None})
        assert (refused.status_code, cleared.json()["preset"]) == (422, None)
        assert (await home.client.get("/api/v1/threads/t1")).status_code == 404


class TestPreferences:
    async def test_preferences_are_the_defaults_until_they_are_chosen(self, home: Home) -> None:
        defaults = {
            "user_id": "张三", "auto_memory": True, "auto_skills": True, "time_zone": None, "preset": None,
        }  # fmt: skip
        assert (await home.client.get(preferences_path("张三"))).json() == defaults
        chosen = {"auto_memory": False, "time_zone": "Asia/Shanghai", "preset": "default"}
        answer = await home.client.patch(preferences_path("张三"), json=chosen)
        assert (answer.status_code, answer.json()) == (200, {**defaults, **chosen})
        assert (await home.client.get(preferences_path("张三"))).json() == {**defaults, **chosen}
        cleared = await home.client.patch(preferences_path("张三"), json=dict.fromkeys(chosen))
        assert cleared.json() == defaults

    async def test_they_are_for_their_user_and_the_operator_alone(self, home: Home) -> None:
        found = []
        for user in ("ann", "bob", None):
            async with home.keyed(user) as client:
                changed = await client.patch(preferences_path("ann"), json={"auto_skills": False})
                found.append((changed.status_code, (await client.get(preferences_path("ann"))).status_code))
        assert found == [(200, 200), (403, 403), (200, 200)]

    @pytest.mark.parametrize(
        "wrong", [{"time_zone": "Mars/Olympus"}, {"preset": "corsair"}, {"auto_memory": "no"}, {"zone": 1}]
    )
    async def test_what_cannot_be_is_refused_by_name(self, home: Home, wrong: Json) -> None:
        answer = await home.client.patch(preferences_path("ann"), json=wrong)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, next(iter(wrong)))


class TestTheVault:
    async def test_a_vault_that_is_away_delays_nothing_and_gets_it_when_it_is_back(self, home: Home) -> None:
        root = home.app.settings.vault_path
        root.rename(root.with_name("away"))
        assert (await put(home, "pirate")).status_code == 201
        assert (await home.client.get(preset_path("pirate"))).status_code == 200
        root.with_name("away").rename(root)
        await home.drain()
        assert (root / "default" / "presets" / "pirate.md").is_file()

    @pytest.mark.timeout(180)
    def test_what_a_person_writes_is_in_force_without_waiting_for_a_sweep(self, tmp_path: Path) -> None:
        with Server(tmp_path / "home", {**QUICK, "RECOLLECT_VAULT__SWEEP_SECONDS": "3600"}) as server:
            server.client.put(preset_path("pirate"), json=PIRATE).raise_for_status()
            server.client.patch(preferences_path("ann"), json={"auto_skills": False}).raise_for_status()
            drained(server.client)
            vault = server.home / "vault" / "default"
            before = server.client.get(preset_path("pirate")).json()

            preset = vault / "presets" / "pirate.md"
            preset.write_text(preset.read_text().replace("like a pirate", "like a corsair"))
            wait_until(
                lambda: server.client.get(preset_path("pirate")).json()["revision"] != before["revision"],
                "the edited instructions",
            )
            assert server.client.get(preset_path("pirate")).json()["instructions"] == "Answer like a corsair."

            preset.write_text("nothing that can be read")
            mine = vault / "presets" / "Be calm.md"
            mine.write_text("---\nrecollect: 1\nkind: preset\n---\n\nBe calm.\n")
            wait_until(lambda: server.client.get(preset_path("be calm")).status_code == 200, "the new preset")
            assert server.client.get(preset_path("pirate")).json()["instructions"] == "Answer like a corsair."
            wait_until(lambda: "pirate.md: not applied" in server.errors(), "the report")

            chosen = vault / "users" / "ann" / "preferences.md"
            chosen.write_text(chosen.read_text().replace("time_zone: null", "time_zone: Asia/Tokyo"))
            wait_until(
                lambda: server.client.get(preferences_path("ann")).json()["time_zone"] == "Asia/Tokyo",
                "the time zone",
            )

            mine.unlink()
            wait_until(
                lambda: server.client.get(preset_path("be calm")).status_code == 404,
                "the preset that a person removed is gone",
            )

    @pytest.mark.timeout(180)
    def test_the_journal_deleted_a_rebuild_brings_them_back(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with Server(home, QUICK) as server:
            server.client.put(preset_path("Pirate 海盗"), json=PIRATE).raise_for_status()
            server.client.patch(preset_path("default"), json={"temperature": 0.1}).raise_for_status()
            server.client.patch(preferences_path("ann"), json={"time_zone": "Asia/Tokyo"}).raise_for_status()
            drained(server.client)
            before = server.client.get("/api/v1/presets").json()
            server.stop()
        for file in home.glob("journal.db*"):
            file.unlink()
        report = recollect_json(home, "rebuild")
        assert (report["presets"], report["preferences"], report["problems"]) == (2, 1, [])
        with Server(home, QUICK) as server:
            assert server.client.get("/api/v1/presets").json() == before
            assert server.client.get(preferences_path("ann")).json()["time_zone"] == "Asia/Tokyo"

    @pytest.mark.timeout(180)
    def test_a_rebuild_over_a_healthy_journal_first_writes_what_is_still_to_be_written(
        self, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        dying = {**QUICK, "RECOLLECT_FAIL_POINT": "vault.written_beside"}
        with Server(home, dying) as server:
            server.client.put(preset_path("pirate"), json=PIRATE).raise_for_status()
            assert server.wait_for_end() == SIGKILLED
        assert not (home / "vault" / "default" / "presets" / "pirate.md").exists()
        assert recollect_json(home, "rebuild")["presets"] == 1

    @pytest.mark.timeout(240)
    @pytest.mark.parametrize(
        "step", ["vault.written_beside", "vault.synced", "vault.renamed", "jobs.handled"]
    )
    def test_a_kill_while_a_preset_is_written_leaves_it_whole_and_no_conflict(
        self, tmp_path: Path, step: str
    ) -> None:
        home = tmp_path / "home"
        with Server(home, {**QUICK, "RECOLLECT_FAIL_POINT": step}) as server:
            server.client.put(preset_path("pirate"), json=PIRATE).raise_for_status()
            assert server.wait_for_end() == SIGKILLED
        with Server(home, QUICK) as server:
            drained(server.client)
            assert server.client.get(preset_path("pirate")).json()["temperature"] == 0.7
        presets = home / "vault" / "default" / "presets"
        assert [file.name for file in presets.glob("*.md")] == ["pirate.md"]
        assert "temperature: 0.7" in (presets / "pirate.md").read_text()


@pytest.mark.timeout(180)
def test_presets_from_the_command_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    file = tmp_path / "pirate.md"
    file.write_text("Answer like a pirate.\n\n- short\n")
    with Server(home, QUICK):
        made = recollect_json(home, "presets", "set", "pirate", "--file", str(file), "--temperature", "0.7")
        assert (made["instructions"], made["temperature"]) == ("Answer like a pirate.\n\n- short", 0.7)
        changed = recollect_json(
            home, "presets", "set", "PIRATE", "--persona", "Hook", "--clear", "temperature"
        )
        assert (changed["persona"], changed["temperature"], changed["instructions"]) == (
            "Hook", None, made["instructions"],
        )  # fmt: skip
        piped = recollect(home, "presets", "set", "calm", "--file", "-", text="Be calm.\n")
        assert piped.returncode == 0, piped.stderr
        names = [preset["name"] for preset in recollect_json(home, "presets", "list")["presets"]]
        assert names == ["calm", "default", "pirate"]
        shown = recollect(home, "presets", "show", "calm")
        assert shown.stdout.endswith("\n\nBe calm.\n")
        assert recollect(home, "presets", "delete", "calm").stdout == "deleted calm\n"
        missing = recollect(home, "presets", "show", "calm")
        assert (missing.returncode, "there are: default, pirate" in missing.stderr) == (1, True)
        nothing = recollect(home, "presets", "set", "new", "--temperature", "1")
        assert nothing.returncode == 1
        both = recollect(home, "presets", "set", "x", "--file", str(file), "--instructions", "y")
        assert both.returncode == 2
        assert json.loads(recollect(home, "presets", "show", "pirate", "--json").stdout)["persona"] == "Hook"
