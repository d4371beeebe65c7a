"""Keys: who may come in, and who may hand out keys."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from recollect.domain.access import ApiKey, Caller, secret_hash
from recollect.errors import InvalidInput, KeyRequired, NotFound, Refused
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


@pytest.mark.parametrize("secret", [None, "sk-none", ""])
def test_without_keys_everybody_is_the_operator_of_the_default_space(
    keys: SqlKeyStore, secret: str | None
) -> None:
    assert who(keys, secret) == Caller("default", None)


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


async def test_a_key_brings_its_space_and_user(keys: SqlKeyStore) -> None:
    _, secret = await new_key(keys, space="work", user_id="ann")
    assert who(keys, secret) == Caller("work", "ann")


async def test_a_revoked_key_is_refused(keys: SqlKeyStore) -> None:
    key, secret = await new_key(keys)
    await revoke_key(keys, FakeClock(), OPERATOR, key.key_id)
    with pytest.raises(KeyRequired):
        who(keys, secret)


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


async def test_the_operators_token_makes_the_local_operator(keys: SqlKeyStore) -> None:
    await new_key(keys)
    assert who(keys, TOKEN) == OPERATOR


def test_the_local_operator_acts_in_the_space_it_names(keys: SqlKeyStore) -> None:
    assert who(keys, TOKEN, space="work") == Caller("work", local_operator=True)


async def test_a_key_acts_in_its_own_space_whatever_it_names(keys: SqlKeyStore) -> None:
    _, secret = await new_key(keys, space="work")
    assert who(keys, secret, space="other").space == "work"


async def test_a_secret_is_kept_as_its_hash_alone(keys: SqlKeyStore) -> None:
    key, secret = await new_key(keys)
    assert keys.find(secret_hash(secret)) == key
    assert keys.find(secret) is None
    assert secret not in repr(await keys.list_keys())


async def test_a_key_says_whose_it_is_and_since_when(keys: SqlKeyStore) -> None:
    key, _ = await new_key(keys, space="work", user_id="ann")
    assert key == ApiKey(key.key_id, "work", "ann", "laptop", START)


async def test_no_two_keys_are_alike(keys: SqlKeyStore) -> None:
    made = [await new_key(keys) for _ in range(20)]
    assert len({key.key_id for key, _ in made}) == len({secret for _, secret in made}) == 20


async def test_a_key_needs_a_space(keys: SqlKeyStore) -> None:
    with pytest.raises(InvalidInput) as caught:
        await new_key(keys, space="")
    assert caught.value.field == "space"
    assert await keys.list_keys() == []


@pytest.mark.parametrize("caller", [Caller(), Caller("work"), Caller("default", "ann")])
@pytest.mark.parametrize(
    "manage",
    [
        lambda keys, caller: create_key(keys, FakeClock(), caller, space="x", user_id=None, name=None),
        list_keys,
        lambda keys, caller: revoke_key(keys, FakeClock(), caller, "k_1"),
    ],
    ids=["create", "list", "revoke"],
)
async def test_only_the_local_operator_manages_keys(
    keys: SqlKeyStore, caller: Caller, manage: Callable[[SqlKeyStore, Caller], Awaitable[object]]
) -> None:
    with pytest.raises(Refused):
        await manage(keys, caller)
    assert await keys.list_keys() == []
