"""What keys of homes that exist rest on."""

from recollect.domain.access import secret_hash


def test_the_hash_of_a_secret_is_sha_256() -> None:
    assert secret_hash("rk_1") == "d9cdc01b56fb934be492ece69aa6d169d43bacd08023339e68c86825edc2b270"
