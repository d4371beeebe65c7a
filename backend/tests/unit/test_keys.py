"""Keys: who may come in, and who may hand out keys."""

from dataclasses import replace

import pytest

from recollect.domain.access import ApiKey, Caller, secret_hash
from recollect.errors import InvalidInput, KeyRequired, NotFound
from recollect.infra.journal.people import SqlKeyStore
from recollect.service.people import create_key, identify, list_keys, revoke_key
from tests.contract.journals import Journal
from tests.fakes import START, FakeClock

OPERATOR = Caller(local_operator=True)
TOKEN = "the-operators-token"


def who(
    keys: SqlKeyStore, secret: str | None, *, on_loopback: bool = True, space: str | None = None
) -> Caller:
    return identify(keys, secret, TOKEN, on_loopback=on_loopback, space=space)


@pytest.fixture
async def keys(journal: Journal) -> SqlKeyStore:
    return SqlKeyStore(journal.database)


async def new_key(
    keys: SqlKeyStore, *, space: str = "default", user_id: str | None = None
) -> tuple[ApiKey, str]:
    return await create_key(keys, FakeClock(), OPERATOR, space=space, user_id=user_id, name="laptop")


@pytest.mark.parametrize("secret", [None, "sk-none", "", "rk_wrong", "schlüssel"])
async def test_with_keys_nobody_comes_in_without_one(keys: SqlKeyStore, secret: str | None) -> None:
    await new_key(keys)
    with pytest.raises(KeyRequired):
        who(keys, secret)


@pytest.mark.parametrize("secret", [None, "sk-none", ""])
def test_beyond_loopback_nobody_comes_in_without_a_key(keys: SqlKeyStore, secret: str | None) -> None:
    with pytest.raises(KeyRequired):
        who(keys, secret, on_loopback=False)


def test_a_key_that_is_unknown_is_refused_even_where_none_is_wanted(keys: SqlKeyStore) -> None:
    with pytest.raises(KeyRequired):
        who(keys, "rk_unknown")


async def test_keys_are_listed_oldest_first_with_the_time_at_which_they_were_first_revoked(
    keys: SqlKeyStore,
) -> None:
    clock = FakeClock()
    first, secret = await create_key(keys, clock, OPERATOR, space="work", user_id=None, name=None)
    clock.advance(1)
    second, other = await create_key(keys, clock, OPERATOR, space="work", user_id=None, name=None)
    for _ in range(2):
        clock.advance(9)
        await revoke_key(keys, clock, OPERATOR, first.key_id)
    assert await list_keys(keys, OPERATOR) == [replace(first, revoked=START + 10), second]
    assert (keys.find(secret_hash(secret)), keys.find(secret_hash(other))) == (None, second)
    with pytest.raises(NotFound) as caught:
        await revoke_key(keys, clock, OPERATOR, "k_9")
    assert caught.value.field == "key_id"


def test_the_local_operator_acts_in_the_space_it_names(keys: SqlKeyStore) -> None:
    assert who(keys, TOKEN, space="work") == Caller("work", local_operator=True)


async def test_a_key_acts_in_its_own_space_whatever_it_names(keys: SqlKeyStore) -> None:
    _, secret = await new_key(keys, space="work")
    assert who(keys, secret, space="other").space == "work"


async def test_a_key_needs_a_space(keys: SqlKeyStore) -> None:
    with pytest.raises(InvalidInput) as caught:
        await new_key(keys, space="")
    assert caught.value.field == "space"
    assert await keys.list_keys() == []
