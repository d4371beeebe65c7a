"""A space's own prompts take the place of those that ship; one that can't be used is an error that names its file."""

from pathlib import Path

import pytest

from recollect.service.remember.extract import shipped_prompt
from tests.http_client import Home, Json
from tests.processes import StandInModel
from tests.remembering import FACTS_OF_TALK, flush, remember, remembering, said, states, tell, texts


def put_prompt(home: Path, written: bytes, name: str = "memcell") -> None:
    path = home / "vault" / "default" / "prompts" / f"{name}.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(written)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"Tell me everything.", "the prompt must hold {{messages}} exactly once, not 0 times"),
        (b"{{messages}} {{sender}}", "the prompt has the placeholder {{sender}}, which is none of"),
        (b"caf\xe9 {{messages}}", "the prompt is not UTF-8"),
        (b"x" * 7_000 + b"{{messages}}", "the prompt has more than 6,000 characters"),
        (b"x" * 50_000_000, "the prompt is not UTF-8, or longer than 64000 bytes"),
    ],
)
async def test_a_prompt_that_cannot_be_used_is_named_in_the_receipt_and_on_health(
    tmp_path: Path, written: bytes, problem: str
) -> None:
    put_prompt(tmp_path, written)
    with StandInModel() as model:
        async with remembering(tmp_path, model) as home:
            told = await told_of_failure(home)
            degraded = (await home.client.get("/health")).json()["degraded"]
    assert told["state"] == "waiting"
    assert f"default/prompts/memcell.md: {problem}" in told["detail"]["error"]
    assert [each for each in degraded if f"default/prompts/memcell.md: {problem}" in each]


async def told_of_failure(home: Home) -> Json:
    """What a flush tells of an episode that could not be made; a busy machine may need longer to find that out."""
    told: Json = {}
    for seconds in (1, 2, 4, 8, 16):
        # Each time by another user: what one's first memcell waits for, their next ones wait behind.
        user = f"user {seconds}"
        await tell(home, f"t{seconds}", said(prefix=f"{seconds}-", user=user), user_id=user)
        told = states(await flush(home, f"t{seconds}", timeout=seconds))["episode"]
        if "error" in told["detail"]:
            break
    return told


async def test_a_prompt_of_the_space_is_what_the_model_is_asked_with(tmp_path: Path) -> None:
    put_prompt(tmp_path, f"Mind the pets above all.\n\n{shipped_prompt('memcell')}".encode())
    with StandInModel() as model:
        async with remembering(tmp_path, model) as home:
            await remember(home, "t1", said(), user_id="ann")
            assert await texts(home, "facts") == FACTS_OF_TALK
        asked = [str(body) for body in model.calls()["bodies"] if "The person is called" in str(body)]
    assert asked
    assert all("Mind the pets above all." in each for each in asked)
