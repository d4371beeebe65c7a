"""Whom a request is about: the key's user, or else the one it names; they must agree."""

import pytest

from recollect.domain.access import Caller, secret_hash
from recollect.errors import NotFound


@pytest.mark.parametrize(
    ("keys_user", "named", "acting"),
    [(None, None, None), (None, "ann", "ann"), ("ann", None, "ann"), ("ann", "ann", "ann")],
)
def test_a_request_is_about_the_keys_user_or_the_one_it_names(
    keys_user: str | None, named: str | None, acting: str | None
) -> None:
    assert Caller("default", keys_user).acting_for(named) == acting


@pytest.mark.parametrize("named", ["bob", "", "Ann", "ann "])
def test_another_user_than_the_keys_is_not_found(named: str) -> None:
    with pytest.raises(NotFound) as caught:
        Caller("default", "ann").acting_for(named)
    assert caught.value.field == "user_id"


def test_a_caller_is_no_local_operator_unless_it_says_so() -> None:
    assert not Caller().local_operator


def test_the_hash_of_a_secret_is_sha_256() -> None:
    assert secret_hash("rk_1") == "d9cdc01b56fb934be492ece69aa6d169d43bacd08023339e68c86825edc2b270"
