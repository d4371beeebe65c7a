"""What looks like a secret stays in the transcript: no memory holds it, and no server elsewhere gets to see it."""

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.infra import secrets
from recollect.infra.secrets import MASK, mask_json, mask_secrets
from tests.http_client import Json
from tests.processes import StandInModel
from tests.remembering import remember, remembering, said, states, texts
from tests.talking import talking

AWS = "AKIAIOSFODNN7EXAMPLE"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJlLW9mLWl0"
PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\n\nhkiG9w0B\n-----END PRIVATE KEY-----"
CARD = "4111 1111 1111 1111"
SECRETS = [
    AWS, JWT, PRIVATE_KEY, CARD, "5500-0000-0000-0004", "ghp_" + "a1B2" * 9, "rk_" + "aB3" * 14 + "x",
    "sk-ant-api03-abcDEF0123456789_-xyz", "xoxb-123456789012-abcdef", "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
]  # fmt: skip
PLAIN = [
    "It was 1770000000000 ms, or 2026-11-17 10:00:00, in room 4111.",
    "Call +49 170 1234567, order 1234 5678 9012 3456 or ISBN 978-3-16-148410-0.",
    "ask-me-anything-about-the-weather-please, at https://example.com/a/b?c=d@e",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_to_its_end_and_nothing_beside_it(secret: str) -> None:
    assert mask_secrets(f"{secret}, {'x' * 990} {secret}. So.") == (f"{MASK}, {'x' * 990} {MASK}. So.", 2)


@pytest.mark.parametrize(
    "text", ["{} 12/27", "{} 12/27 123", "Visa {} 123", "card2 {}", "{}-1", "{}, 3", "Nr. 17: {} 456"]
)
@pytest.mark.parametrize("card", [CARD, "4111111111111111", "4111-1111-1111-1111", "3782 822463 10005"])
def test_a_card_is_masked_whatever_numbers_stand_beside_it(text: str, card: str) -> None:
    assert mask_secrets(text.format(card)) == (text.format(MASK), 1)


@pytest.mark.parametrize(
    "bait", ["sk-", "AKIA", "eyJ", "xoxb-", "4111 ", "http://a:b", "-----BEGIN PRIVATE KEY-----"]
)
def test_a_text_made_of_the_beginnings_of_secrets_takes_time_by_its_length(bait: str) -> None:
    def seconds(length: int) -> float:
        text, started = (bait * length)[:length], time.thread_time()
        mask_secrets(text)
        return time.thread_time() - started

    seconds(1_000)
    assert seconds(400_000) < 8 * 4 * max(seconds(100_000), 0.01)


PIECES = [
    "4111", " ", "-", "1111 1111 1111 1111", "3782 822463 10005", ",", "x", "-----BEGIN PRIVATE KEY-----", "-----",
    "-----BEGIN RSA PRIVATE KEY-----", "-----END PRIVATE KEY-----", "END A-----", "BEGIN PRIVATE KEY",
]  # fmt: skip
KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----.*?(?:-----END [A-Z0-9 ]{0,60}-----|\Z)",
    re.DOTALL,
)


@given(text=st.lists(st.sampled_from(PIECES), max_size=30).map("".join), at_once=st.integers(1, 40))
def test_a_search_in_pieces_finds_what_a_search_of_the_whole_finds(text: str, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "_AT_ONCE", at_once)
        for card in secrets._CARDS:
            found = [each.span() for each in secrets._matches(card, text)]
            assert found == [each.span() for each in card.finditer(text)]
        assert list(secrets._private_keys(text)) == [each.span() for each in KEY.finditer(text)]


class Watched:
    """A pattern that says how much it was given to search."""

    def __init__(self, pattern: re.Pattern[str], searched: list[int]) -> None:
        self._pattern, self._searched = pattern, searched

    def finditer(self, text: str, at: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[str]]:
        self._searched.append(min(end, len(text)) - at)
        return self._pattern.finditer(text, at, end)


def test_no_call_searches_so_much_that_other_threads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    for name in ("_KEY_BEGIN", "_KEY_END"):
        monkeypatch.setattr(secrets, name, Watched(getattr(secrets, name), searched))
    monkeypatch.setattr(secrets, "_CARDS", [Watched(card, searched) for card in secrets._CARDS])
    mask_secrets("-----BEGIN PRIVATE KEY-----" + "hello world " * 80_000)
    assert sum(searched) > 3_000_000
    assert max(searched) < 150_000


def test_a_password_in_an_address_is_masked_and_the_address_is_not() -> None:
    assert mask_secrets("at postgres://ann:hunter2@db/x") == (f"at postgres://ann:{MASK}@db/x", 1)


def test_only_the_bytes_of_a_data_url_are_left_and_no_name_is_lost() -> None:
    image = "data:image/png;base64,iVBORw0KGgo="
    assert mask_json([image, f"data: {AWS}"]) == ([image, f"data: {MASK}"], 1)
    masked, count = mask_json({AWS: 1, JWT: 2})
    assert (sorted(masked.values()), count) == ([1, 2], 2)


@pytest.mark.parametrize("text", PLAIN)
def test_numbers_times_and_addresses_are_no_secrets(text: str) -> None:
    assert mask_secrets(text) == (text, 0)


@pytest.mark.parametrize(
    ("settings", "masked"),
    [({"llm": {"local": False}}, 6), ({}, None), ({"llm": {"local": False}, "mask_secrets": False}, None)],
    ids=["elsewhere", "local", "switched off"],
)
async def test_a_server_elsewhere_gets_no_secret_and_the_receipt_counts(
    tmp_path: Path, model: StandInModel, settings: Json, masked: int | None
) -> None:
    settings = {**settings, "llm": {"base_url": model.base_url, **settings.get("llm", {})}}
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "pay", "arguments": json.dumps({"card": CARD})},
    }
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": f"My key is {AWS}."}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": PRIVATE_KEY},
    ]
    before = len(model.calls()["bodies"])
    async with talking(tmp_path, model, **settings) as talk:
        schema = {"type": "object", "properties": {AWS: {"type": "string"}}, "required": [AWS]}
        function = {"name": "pay", "description": f"pays with {JWT}", "parameters": schema}
        tool = {"type": "function", "function": function}
        body = {"user": "ann", "messages": messages, "tools": [tool]}
        answer = await talk.client.post("/v1/chat/completions", json=body)
        path = f"/api/v1/threads/{answer.raise_for_status().headers['X-Recollect-Thread']}/turns"
        kept = (await talk.client.get(path, params={"receipts": True})).json()
        sent = (await talk.client.get(f"{path}/{kept['turns'][-1]['turn_id']}/prompt")).json()
    bodies = model.calls()["bodies"][before:]
    for tools in (json.dumps(each["tools"]) for each in bodies if "tools" in each):
        assert (JWT not in tools, AWS not in tools) == (bool(masked), bool(masked))
    wire = json.dumps([each["messages"] for each in bodies])
    for secret in (AWS, CARD, "MIIEvQIBADANBgkq"):
        assert (secret not in wire) == bool(masked)
        assert (secret not in json.dumps(sent["request"])) == bool(masked), "it is told as it was sent"
        assert secret in json.dumps(kept["turns"])
    assert sent["detail"].get("secrets_masked") == masked


@pytest.mark.parametrize("masks", [True, False])
async def test_no_memory_holds_a_secret_and_the_transcript_does(
    tmp_path: Path, model: StandInModel, masks: bool
) -> None:
    """Also where the model tells one: in a chat's own prompt it saw it."""
    fact = {
        "text": f"Ann's key is {AWS}.",
        "about": "user",
        "category": "event",
        "quotes": [{"message": 1, "words": "My key is"}],
    }
    answer = {
        "episode": {"title": f"The key {AWS}", "text": f"Ann told her key {AWS}."},
        "facts": [fact],
        "foresight": [],
    }
    model.control(only="memory", answer=answer)
    messages = said([("user", f"My key is {AWS}, and my card {CARD}."), ("assistant", "Keep it safe.")])
    messages[0]["sender_id"] = AWS
    async with remembering(tmp_path / "home", model, mask_secrets=masks) as home:
        told = states(await remember(home, "t1", messages, user_id="ann"))
        made = " ".join(await texts(home, "facts", "episodes", "profile"))
        await home.drain()
        holding = [
            path.parts[-2] for path in home.app.settings.vault_path.rglob("*.md") if AWS in path.read_text()
        ]
    assert (MASK in made, AWS in made) == (masks, not masks)
    assert ("t1" in holding, "facts" in holding) == (True, not masks)
    assert told["facts"]["detail"].get("secrets_masked") == (3 if masks else None)


async def test_without_a_model_no_episode_holds_a_secret(tmp_path: Path) -> None:
    messages = said([("user", f"This is my private key for the server in Porto. {PRIVATE_KEY}")])
    async with remembering(tmp_path / "home", alone=True) as home:
        told = states(await remember(home, "t1", messages, user_id="ann"))
        (episode,) = await texts(home, "episodes")
    assert ("Porto" in episode, "MII" in episode, "hkiG" in episode) == (True, False, False)
    assert told["episode"]["detail"]["secrets_masked"] == 1
