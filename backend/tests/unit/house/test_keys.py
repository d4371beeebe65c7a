"""Keys: which one is in force, and how far it leads."""

import asyncio
from dataclasses import replace

import pytest

from recollect.domain.access import ApiKey, Caller, secret_hash
from recollect.errors import NotFound
from recollect.infra.journal.keys import SqlKeyStore
from recollect.service.access.keys import create_key, ending_with_key, list_keys, revoke_key
from recollect.service.coordination import now_ms
from tests.contract.journals import Journal
from tests.fakes import START, FakeClock

OPERATOR = Caller(local_operator=True)


@pytest.fixture
def keys(journal: Journal) -> SqlKeyStore:
    return SqlKeyStore(journal.database)


async def new_key(keys: SqlKeyStore, clock: FakeClock) -> tuple[ApiKey, str]:
    return await create_key(keys, clock, OPERATOR, space="work", user_id=None, name=None)


def test_the_keys_of_a_home_rest_on_sha_256() -> None:
    assert secret_hash("rk_1") == "d9cdc01b56fb934be492ece69aa6d169d43bacd08023339e68c86825edc2b270"


async def test_keys_are_listed_oldest_first_with_the_time_at_which_they_were_first_revoked(
    keys: SqlKeyStore,
) -> None:
    clock = FakeClock()
    first, secret = await new_key(keys, clock)
    clock.advance(1)
    second, other = await new_key(keys, clock)
    for _ in range(2):
        clock.advance(9)
        await revoke_key(keys, clock, OPERATOR, first.key_id)
    assert await list_keys(keys, OPERATOR) == [replace(first, revoked=START + 10), second]
    assert (keys.find(secret_hash(secret)), keys.find(secret_hash(other))) == (None, second)
    with pytest.raises(NotFound) as caught:
        await revoke_key(keys, clock, OPERATOR, "k_9")
    assert caught.value.field == "key_id"


async def test_what_runs_with_a_key_ends_when_the_key_expires(keys: SqlKeyStore) -> None:
    expires = now_ms() + 50
    key = ApiKey("k_1", "work", None, None, now_ms(), expires=expires)
    await keys.add(key, "hash")
    ended = asyncio.Event()
    with ending_with_key(keys, now_ms, key.key_id, ended.set):
        async with asyncio.timeout(20):
            await ended.wait()
    assert now_ms() >= expires
