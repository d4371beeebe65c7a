"""What the store of API keys promises."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.domain.access import ApiKey
from recollect.errors import NotFound
from recollect.infra.journal.database import Database
from recollect.infra.journal.people import SqlKeyStore
from tests.fakes import START

ANNS = ApiKey("k_1", "default", "ann", "laptop", START)
SPACES = ApiKey("k_2", "work", None, None, START + 1)


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[SqlKeyStore]:
    database = Database(tmp_path / "journal.db")
    await database.open()
    store = SqlKeyStore(database)
    await store.load()
    yield store
    await database.close()


async def test_without_keys_none_is_in_force(keys: SqlKeyStore) -> None:
    assert not keys.any_in_force()
    assert keys.find("hash") is None
    assert await keys.list_keys() == []


async def test_a_key_is_found_by_its_hash_at_once(keys: SqlKeyStore) -> None:
    await keys.add(ANNS, "hash-1")
    assert keys.find("hash-1") == ANNS
    assert keys.any_in_force()


async def test_a_key_is_found_by_no_other_hash(keys: SqlKeyStore) -> None:
    await keys.add(ANNS, "hash-1")
    await keys.add(SPACES, "hash-2")
    assert keys.find("hash-2") == SPACES
    assert keys.find("hash-3") is None


async def test_keys_are_listed_oldest_first(keys: SqlKeyStore) -> None:
    await keys.add(SPACES, "hash-2")
    await keys.add(ANNS, "hash-1")
    assert await keys.list_keys() == [ANNS, SPACES]


async def test_a_revoked_key_is_out_of_force_at_once_and_still_listed(keys: SqlKeyStore) -> None:
    await keys.add(ANNS, "hash-1")
    revoked = await keys.revoke("k_1", START + 9)
    assert revoked == replace(ANNS, revoked=START + 9)
    assert keys.find("hash-1") is None
    assert not keys.any_in_force()
    assert await keys.list_keys() == [revoked]


async def test_revoking_leaves_the_other_keys_in_force(keys: SqlKeyStore) -> None:
    await keys.add(ANNS, "hash-1")
    await keys.add(SPACES, "hash-2")
    await keys.revoke("k_1", START)
    assert keys.find("hash-2") == SPACES


async def test_a_key_revoked_twice_keeps_the_first_time(keys: SqlKeyStore) -> None:
    await keys.add(ANNS, "hash-1")
    await keys.revoke("k_1", START + 1)
    assert (await keys.revoke("k_1", START + 2)).revoked == START + 1


async def test_a_key_nobody_knows_cannot_be_revoked(keys: SqlKeyStore) -> None:
    with pytest.raises(NotFound) as caught:
        await keys.revoke("k_9", START)
    assert caught.value.field == "key_id"
