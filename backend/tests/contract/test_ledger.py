"""The ledger, in a file of the home and in objects: lines are only ever added, whatever happens to a write."""

import asyncio
from pathlib import Path

import pytest

from recollect.domain.forgetting import case_line
from recollect.errors import StorageUnavailable
from recollect.infra.ledger import FileLedger, Ledger, remembered_in
from recollect.infra.ledger_objects import ObjectLedger
from recollect.infra.objects import LEDGER_FOLDER
from recollect.infra.vault_objects import MARKER, ObjectVault
from recollect.service.vault.folder_copy import FolderCopy
from tests.buckets import PLACES, FaultyS3, PersonsBucket, new_bucket, new_url, nobody


def piece(number: int) -> str:
    return f"{LEDGER_FOLDER}/{number:08}"


async def cases(ledger: Ledger) -> set[str]:
    content = await ledger.content()
    assert content is not None
    return remembered_in(content).gone_cases


async def ledger_of(where: str, home: Path) -> Ledger:
    return (
        FileLedger(home / "ledger")
        if where == "file"
        else ObjectLedger(await new_bucket(where), home / "ledger")
    )


@pytest.mark.parametrize("where", ["file", *PLACES])
async def test_lines_are_there_in_the_order_in_which_they_were_added(where: str, tmp_path: Path) -> None:
    ledger = await ledger_of(where, tmp_path)
    assert not await ledger.is_there()
    assert await ledger.content() is None
    await ledger.append([])
    assert await ledger.is_there()
    assert await ledger.content() == b""
    for lines in (["b", "a"], ["c"]):
        await ledger.append(lines)
    assert await ledger.content() == b"b\na\nc\n"


@pytest.fixture(params=PLACES)
async def bucket(request: pytest.FixtureRequest) -> PersonsBucket:
    return await new_bucket(request.param)


@pytest.fixture
def ledger(bucket: PersonsBucket, tmp_path: Path) -> ObjectLedger:
    return ObjectLedger(bucket, tmp_path / "ledger", piece_bytes=100)


async def test_a_line_that_was_cut_short_harms_no_other(
    bucket: PersonsBucket, ledger: ObjectLedger, tmp_path: Path
) -> None:
    file = FileLedger(tmp_path / "file")
    for each in (file, ledger):
        await each.append([case_line("ca-1")])
    torn = case_line("ca-2")[:-3].encode()
    file.path.write_bytes(file.path.read_bytes() + torn)
    bucket.objects.replace(piece(1), bucket.objects.get(piece(1)).content + torn)  # type: ignore[union-attr]
    for each in (file, ledger):
        await each.append([case_line("ca-3")])
        assert await cases(each) == {"ca-1", "ca-3"}


async def test_of_two_servers_that_add_at_the_same_time_each_keeps_its_lines(
    bucket: PersonsBucket, ledger: ObjectLedger, tmp_path: Path
) -> None:
    other = ObjectLedger(bucket, tmp_path / "another/ledger", piece_bytes=100)
    names = [f"ca-{number}" for number in range(30)]
    await asyncio.gather(
        *((ledger, other)[number % 2].append([case_line(name)]) for number, name in enumerate(names))
    )
    assert await cases(ledger) == set(names)
    assert len(list(bucket.objects.list(LEDGER_FOLDER))) > 2


async def test_an_answer_that_is_lost_costs_no_line(tmp_path: Path) -> None:
    url, left = new_url(), [1, 2]

    def lost_twice(method: str, path: str) -> int | None:
        return 0 if method == "PUT" and LEDGER_FOLDER in path and left and left.pop() else None

    with FaultyS3(lost_twice) as s3:
        vault = PersonsBucket(url)
        await vault.open(expected=False)
        ledger = ObjectLedger(vault, tmp_path / "ledger")
        for name in ("ca-1", "ca-2", "ca-3"):
            await ledger.append([case_line(name)])
        assert await cases(ledger) == {"ca-1", "ca-2", "ca-3"}
        assert s3.faults == 2


async def test_no_listing_of_the_vault_shows_it(
    bucket: PersonsBucket, ledger: ObjectLedger, tmp_path: Path
) -> None:
    await ledger.append([case_line("ca-1")])
    assert list(await bucket.sources()) == [MARKER]
    assert (await bucket.stamps(), await bucket.list_files()) == ({}, [])
    assert FolderCopy(bucket.objects, tmp_path / "copy").pull().brought == []
    FolderCopy(bucket.objects, tmp_path / "copy").push(force=True)
    assert await cases(ledger) == {"ca-1"}
    bucket.objects.delete([MARKER])
    assert not await bucket.exists()


async def test_what_the_home_had_is_taken_along_and_is_there_until_then(
    ledger: ObjectLedger, tmp_path: Path
) -> None:
    file = FileLedger(tmp_path / "ledger")
    await file.append([case_line("ca-1")])
    assert not await ledger.is_there()
    assert await cases(ledger) == {"ca-1"}
    await ledger.append([case_line("ca-2")])
    assert not await file.is_there()
    assert await ledger.is_there()
    assert await cases(ledger) == {"ca-1", "ca-2"}


async def test_a_prefix_that_is_not_ours_gets_no_lines(
    bucket: PersonsBucket, ledger: ObjectLedger, tmp_path: Path
) -> None:
    file = FileLedger(tmp_path / "ledger")
    await file.append([case_line("ca-1")])
    later = ObjectVault(bucket.objects, nobody)
    await later.open(expected=True)
    await bucket.stamps()
    with pytest.raises(StorageUnavailable, match="taken"):
        await ledger.append([case_line("ca-2")])
    assert list(bucket.objects.list(LEDGER_FOLDER)) == []
    assert await file.is_there()
