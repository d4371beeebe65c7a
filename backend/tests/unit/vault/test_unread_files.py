"""Files that are there and cannot be read: everybody else's are followed, and nothing is taken for gone."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from recollect.domain.model import Note
from recollect.domain.vault_file import NOT_FOLLOWED, UNREADABLE, FileStamp, VaultFile
from recollect.errors import StorageUnavailable
from recollect.service import coordination as retry_loop
from recollect.service.recall.verify import UNPROVEN
from recollect.service.vault.reader import Look
from recollect.service.vault.sync import FileSync
from tests.contract.journals import Journal
from tests.eventually import eventually
from tests.persons_vault import PersonsVault
from tests.unit.index_house import OWNER
from tests.unit.index_house import House as IndexHouse
from tests.unit.vault_house import House as VaultHouse

ANN, BOB = "default/users/ann/notes", "default/users/bob/notes"


class LockedVault(PersonsVault):
    """Single files cannot be read, single folders not even listed, and links lead elsewhere."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.locked: set[str] = set()
        self.locked_folders: set[str] = set()
        self.links: set[str] = set()
        self.answers = asyncio.Event()
        self.answers.set()

    async def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        if path in self.locked:
            raise StorageUnavailable("the vault cannot be read: permission is denied")
        return await super().look(path, limit)

    async def read(self, path: str) -> str | None:
        if path in self.locked:
            raise StorageUnavailable("the vault cannot be read: permission is denied")
        return await super().read(path)

    async def stamps(self, folder: str = "") -> dict[str, FileStamp]:
        await self.answers.wait()
        seen = {
            path: stamp
            for path, stamp in (await super().stamps(folder)).items()
            if not any(path.startswith(f"{locked}/") for locked in self.locked_folders)
        }
        return seen | dict.fromkeys(self.locked_folders, UNREADABLE) | dict.fromkeys(self.links, NOT_FOLLOWED)


class ReadsOne(FileSync):
    """Follows presets, and would fail as a whole where one cannot be read."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def follows(self, path: str) -> bool:
        return "/presets/" in path

    async def known(self) -> dict[str, str]:
        return {}

    async def look_at(self, paths: Iterable[str], look: Look | None = None) -> dict[str, FileStamp]:
        assert look is not None
        self.seen |= {path for path in paths if await look(path, None) is not None}
        return {}

    async def let_go(self, paths: object) -> None: ...
    async def write_again(self, paths: object) -> None: ...


class House(VaultHouse):
    vault: LockedVault

    def __init__(self, journal: Journal, vault: LockedVault) -> None:
        self.presets = ReadsOne()
        super().__init__(journal, vault, self.presets)

    async def known(self) -> set[str]:
        return {note.path for note in await self.notes.known()}


@pytest.fixture
def locked(vault: PersonsVault) -> LockedVault:
    if not isinstance(vault, PersonsVault):
        pytest.skip("locked files are a disk's")
    return LockedVault(vault.root)


@pytest.fixture
async def house(journal: Journal, locked: LockedVault) -> House:
    """Ann and Bob have notes, and these are known."""
    house = House(journal, locked)
    for number in range(6):
        house.vault.files.update({f"{owner}/{number}.md": f"{number}" for owner in (ANN, BOB)})
    await house.edits.sweep()
    return house


@pytest.mark.parametrize("seen_by", ["sweep", "watcher"])
async def test_a_note_that_cannot_be_read_keeps_nobodys_from_being_followed(
    house: House, seen_by: str
) -> None:
    house.vault.files[f"{ANN}/private.md"] = "x"
    house.vault.locked = {f"{ANN}/private.md"}
    house.vault.files[f"{BOB}/new.md"] = "new"
    del house.vault.files[f"{BOB}/0.md"]
    if seen_by == "watcher":
        await house.edits.look_at([f"{ANN}/private.md", f"{BOB}/new.md"])
        assert f"{BOB}/new.md" in await house.known()
    await house.edits.sweep()
    assert {path for path in await house.known() if path.startswith(BOB)} == {
        f"{BOB}/new.md",
        *(f"{BOB}/{number}.md" for number in range(1, 6)),
    }
    assert house.edits.problem() is None


@pytest.mark.parametrize("seen_by", ["sweep", "watcher"])
async def test_a_known_note_that_cannot_be_read_any_longer_stays_known_until_it_can_be(
    house: House, seen_by: str
) -> None:
    before = {note.path: note.digest for note in await house.notes.known()}
    house.vault.locked = {f"{ANN}/0.md"}
    house.vault.files[f"{ANN}/0.md"] = "edited"
    await (house.edits.sweep() if seen_by == "sweep" else house.edits.look_at([f"{ANN}/0.md"]))
    assert before == {note.path: note.digest for note in await house.notes.known()}
    assert house.edits.notes_problem() is not None
    house.vault.locked = set()
    await house.edits.sweep()  # The stamp of the file is the same.
    after = {note.path: note.digest for note in await house.notes.known()}
    assert {path for path in before if before[path] != after[path]} == {f"{ANN}/0.md"}
    assert house.edits.notes_problem() is None


async def test_what_lies_in_a_folder_that_cannot_be_listed_is_not_gone(house: House) -> None:
    house.vault.locked_folders = {ANN}
    del house.vault.files[f"{BOB}/0.md"]
    await house.edits.sweep()
    await house.edits.look_at([ANN])
    await house.edits.accept_losses()
    assert len([path for path in await house.known() if path.startswith(ANN)]) == 6
    assert f"{BOB}/0.md" not in await house.known()
    assert house.edits.problem() is None


async def test_health_counts_what_is_not_read_and_the_log_names_it_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.vault.files[f"{ANN}/private.md"] = "x"
    house.vault.locked, house.vault.locked_folders = {f"{ANN}/private.md"}, {f"{BOB}/locked"}
    house.vault.links = {f"{ANN}/elsewhere"}
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await house.edits.sweep()
    said = house.edits.notes_problem() or ""
    assert "2 files or folders of the vault cannot be read" in said
    assert "1 link is not followed" in said
    assert not any(name in said for name in ("users", "private", "elsewhere", "locked"))
    for path in (f"{ANN}/private.md", f"{BOB}/locked", f"{ANN}/elsewhere"):
        assert sum(path in record.getMessage() for record in caplog.records) == 1
    house.vault.locked, house.vault.locked_folders, house.vault.links = set(), set(), set()
    await house.edits.sweep()
    assert house.edits.notes_problem() is None


async def test_a_link_that_is_not_followed_is_counted_as_soon_as_the_watcher_tells_of_it(
    house: House,
) -> None:
    await house.edits.start()
    await eventually(lambda: house.edits.sweeps == 2)
    house.vault.links = {f"{ANN}/elsewhere"}
    house.watcher.tell(f"{ANN}/elsewhere")
    await eventually(lambda: "1 link is" in (house.edits.notes_problem() or ""))
    await house.edits.stop()


async def test_a_preset_that_cannot_be_read_keeps_no_other_from_being_followed(house: House) -> None:
    presets = {f"default/presets/{name}.md" for name in ("a", "b", "c")}
    house.vault.files.update(dict.fromkeys(presets, "x"))
    house.vault.locked = {"default/presets/b.md"}
    await house.edits.sweep()
    assert house.presets.seen == presets - house.vault.locked


async def test_a_sweep_that_does_not_end_shows_until_it_does(house: House) -> None:
    house.vault.answers.clear()
    sweeping = asyncio.create_task(house.edits.sweep())
    await asyncio.sleep(0)
    assert house.edits.problem() is None
    house.journal.clock.advance(61_000)
    assert "looked through for 61 s" in (house.edits.problem() or "")
    house.vault.answers.set()
    await sweeping
    assert house.edits.problem() is None


# The index


@pytest.fixture
async def index(
    journal: Journal, locked: LockedVault, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[IndexHouse]:
    """With two notes, one of which cannot be read any longer, and a thread."""
    monkeypatch.setattr(retry_loop, "_FIRST_PAUSE", 0.001)
    house = IndexHouse(journal, locked)
    await house.open()
    await house.write_note("private", "heron")
    await house.write_note("open", "wombat")
    await house.add("t1", "one")
    await house.settled()
    locked.locked = {f"{OWNER}/notes/private.md"}
    yield house
    await house.close()


async def test_making_the_index_again_goes_on_where_a_note_cannot_be_read(index: IndexHouse) -> None:
    old = index.indexer.live.name
    report = await index.reindexer.reindex()
    await index.settled()
    assert index.indexer.live.name != old
    assert report.unreadable == [f"{OWNER}/notes/private.md"]
    assert report.embedded == 0
    assert await index.stored() == dict.fromkeys(("heron", "wombat", "one"), True)
    assert await index.texts("heron") == {"heron"}


async def test_a_note_that_was_never_indexed_and_cannot_be_read_is_left_out_and_listed(
    index: IndexHouse,
) -> None:
    path = f"{OWNER}/notes/new.md"
    assert isinstance(index.vault, LockedVault)
    index.vault.files[path] = "ibis"
    index.vault.locked.add(path)
    await index.notes.seen(Note(path, OWNER, "a digest", 0))
    report = await index.reindexer.reindex()
    assert path in report.unreadable
    assert set(await index.stored()) == {"heron", "wombat", "one"}


async def test_verifying_says_what_it_could_not_prove_and_finds_all_else(index: IndexHouse) -> None:
    live = index.indexer.live.name
    assert await index.verifier.problems(live) == [f"index: 1 {UNPROVEN}"]
    kept = await index.store.load(live, OWNER)
    lost = [row.row_id for row in kept.rows if row.text == "wombat"]
    await index.store.remove(live, OWNER, lost)
    assert "index: 1 texts are missing from the index" in await index.verifier.problems(live)
