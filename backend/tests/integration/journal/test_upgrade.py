"""`recollect upgrade`: old files get the form of today, nothing of a person's is lost, and it can be undone."""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest

from recollect.app import open_home
from recollect.domain.markdown.entry_document import read_document
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
from tests.http_client import Home, Json, bearer, opened, thread_path
from tests.integration.journal.test_golden_transcripts import FIRST_VERSION, GOLDEN
from tests.processes import recollect, recollect_json
from tests.remembering import vault_files

FACTS = "default/users/ann/facts/2026-05-08.md"
OLD_FACTS = """\
---
recollect: 1
kind: facts
owner: users/ann
aliases: [mine]
---

My own line.

## Marta lives in Porto. ^fa-1
- when: 2026-05-08T14:03:00Z
- from: [[threads/t1/0001#^t-1]]
- by: facts, qwen3-8b
- subject: Marta
- category: home
- mood: good

> Marta lives in Porto.

## Ann has a sister. ^fa-2
- when: in May
- by: facts, qwen3-8b

> Ann has a sister.
"""
PLANS = "default/users/ann/foresight/2026-05-08.md"
SECOND_PLANS = """\
---
recollect: 2
kind: foresight
owner: users/ann
---

## Marta starts in Porto. ^fo-1
- when: 2026-05-08T14:03:00Z
- about: 2026-06-01T00:00:00.000Z
%% by: foresight, qwen3-8b %%

> Marta starts in Porto.

My own line.
"""
"""As version 2 quoted every text."""
LINKS = re.compile(rb"%%(?: \[\[[^\]]+\]\])+\n")
"""To memories, which the old home has none of."""
QUIET: Json = {"embedding": {"kind": "none"}, "llm": {"discover": False}}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.md")}


@pytest.fixture
async def old_home(tmp_path: Path) -> Path:
    """A home whose vault versions 1 and 2 wrote, a person's lines among it."""
    home = tmp_path / "home"
    shutil.copytree(FIRST_VERSION, home / "vault")
    old = {FACTS: OLD_FACTS, PLANS: SECOND_PLANS}
    for path, text in old.items():
        (home / "vault" / path).parent.mkdir(parents=True)
        (home / "vault" / path).write_text(text, encoding="utf-8")
    await rebuild_home(Settings(home=home, **QUIET), open_home)
    written = {path: text.encode() for path, text in old.items()}
    assert contents(home / "vault") == contents(FIRST_VERSION) | written
    return home


async def ask(home: Home, route: str, **body: object) -> Json:
    answer = await home.client.post(f"/api/v1/{route}", json=body, headers=bearer(home.app.lock.token))
    result: Json = json.loads(answer.raise_for_status().text.splitlines()[-1])["result"]
    return result


def files(home: Home) -> dict[str, bytes]:
    return vault_files(home.app.settings.home)


async def test_old_files_are_upgraded_once_and_put_back_byte_for_byte(old_home: Path) -> None:
    before = vault_files(old_home)
    entries = read_document(FACTS, OLD_FACTS).intact
    async with opened(old_home, **QUIET) as home:
        assert await ask(home, "upgrade") == {"files": 4, "current": 0, "left": []}
        after = files(home)
        transcripts = {name: text for name, text in after.items() if "/threads/" in name}
        assert transcripts == {name: LINKS.sub(b"%%\n", text) for name, text in contents(GOLDEN).items()}
        facts = after[FACTS].decode()
        assert read_document(FACTS, facts).intact == entries
        assert "aliases: [mine]\n---\n\nMy own line.\n\n## Marta" in facts
        assert "- mood: good\n%% by: facts, qwen3-8b · subject: Marta · category: home %%\n" in facts
        assert "> Marta" not in facts
        assert after[PLANS].decode() == SECOND_PLANS.replace("recollect: 2", "recollect: 3").replace(
            "\n> Marta starts in Porto.\n", ""
        )
        assert facts.endswith(OLD_FACTS[OLD_FACTS.index("## Ann has") :]), "a damaged section stays"
        assert await ask(home, "upgrade") == {"files": 0, "current": 4, "left": []}
        assert (await ask(home, "verify"))["problems"] == []
        assert (await ask(home, "upgrade", undo=True)) == {"files": 4, "current": 0, "left": []}
        assert files(home) == before
        assert (await ask(home, "verify"))["problems"] == []
        assert not list((old_home / "before-upgrade").rglob("*.md*"))
    async with opened(old_home, **QUIET) as home:
        await home.app.vault_sweep.sweep()
        await home.drain()
        assert files(home) == before
        assert list(home.app.transcriber.reports.old_copies) == []


async def test_an_upgrade_that_was_cut_off_goes_on_and_can_be_undone_whole(old_home: Path) -> None:
    before = vault_files(old_home)

    def cut_off(done: int, total: int) -> None:
        raise InterruptedError

    async with opened(old_home, **QUIET) as home:
        with pytest.raises(InterruptedError):
            await home.app.upgrader.upgrade(cut_off)
    async with opened(old_home, **QUIET) as home:
        assert await ask(home, "upgrade") == {"files": 3, "current": 1, "left": []}
        with pytest.raises(InterruptedError):
            await home.app.upgrader.undo(cut_off)
    async with opened(old_home, **QUIET) as home:
        assert (await ask(home, "upgrade", undo=True))["files"] == 3
        assert files(home) == before


@pytest.mark.slow
@pytest.mark.parametrize("point", ["upgrade.kept", "vault.synced:2", "vault.renamed", "transcribe.recorded"])
async def test_a_killed_upgrade_is_run_again_and_put_back(old_home: Path, point: str) -> None:
    before = vault_files(old_home)
    settings = {"RECOLLECT_EMBEDDING__KIND": "none", "RECOLLECT_LLM__DISCOVER": "false"}
    killed = recollect(old_home, "upgrade", settings={**settings, "RECOLLECT_FAIL_POINT": point})
    assert killed.returncode == -signal.SIGKILL
    recollect_json(old_home, "upgrade", settings=settings)
    upgraded = vault_files(old_home)
    transcripts = {name: text for name, text in upgraded.items() if "/threads/" in name}
    assert transcripts == {name: LINKS.sub(b"%%\n", text) for name, text in contents(GOLDEN).items()}
    undone = recollect_json(old_home, "upgrade", "--undo", settings=settings)
    assert (undone["left"], vault_files(old_home)) == ([], before)


async def test_hand_edits_before_and_after_an_upgrade_are_kept(old_home: Path) -> None:
    transcript = old_home / "vault/default/users/ann/threads/t1/0001.md"
    transcript.write_bytes(transcript.read_bytes().replace(b"My sister Marta", b"My brother Max"))
    async with opened(old_home, **QUIET) as home:
        assert (await ask(home, "upgrade"))["left"] == []
        upgraded = transcript.read_text(encoding="utf-8")
        assert "recollect: 2\n" in upgraded
        assert "- edited: yes\n\n> My brother Max is moving" in upgraded
        facts = old_home / "vault" / FACTS
        facts.write_text(
            facts.read_text().replace("## Marta lives", "## Marta still lives"), encoding="utf-8"
        )
        result = await ask(home, "upgrade", undo=True)
        assert [left.partition(":")[0] for left in result["left"]] == [FACTS]
        assert "## Marta still lives in Porto. ^fa-1" in facts.read_text(encoding="utf-8")
        assert (await ask(home, "verify"))["problems"] == []


async def test_what_is_forgotten_is_in_no_kept_file(old_home: Path) -> None:
    async with opened(old_home, **QUIET) as home:
        await ask(home, "upgrade")
        assert list((old_home / "before-upgrade").rglob("0001.md.*"))
        gone = await home.client.delete(f"{thread_path('t1')}/turns/t-1", params={"user_id": "ann"})
        gone.raise_for_status()
        await home.drain()
        assert (await ask(home, "verify", forgotten=True))["problems"] == []
        assert not (old_home / "before-upgrade/default").exists()
        assert (await ask(home, "upgrade", undo=True)) == {"files": 0, "current": 0, "left": []}
