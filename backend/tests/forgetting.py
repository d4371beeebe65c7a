"""A home in which a word is everywhere, and looking for its bytes."""

import zlib
from pathlib import Path

import httpx2

from tests import deployment
from tests.chatting import prompt, say, with_backend
from tests.http_client import Json, drained
from tests.processes import StandInModel, wait_until

CANARY = "Quixelbürg"
ENTRIES = "/api/v1/memory/entries"
FORMS = {
    CANARY.encode(),
    CANARY.encode("utf-16-le"),
    CANARY.encode("utf-16-be"),
    CANARY.encode("unicode_escape"),
    b"Quixelb\\u00fcrg",
    CANARY.lower().encode(),
    b"quixelburg",  # As it stands among the words of the index.
}


def settings(model: StandInModel, **more: str) -> dict[str, str]:
    return with_backend(
        model.base_url,
        EMBEDDING__KIND="openai",
        EMBEDDING__BASE_URL=model.base_url,
        EMBEDDING__MODEL="stand-in",
        **more,
    )


def fill(client: httpx2.Client, model: StandInModel, user: str = "ann") -> Json:
    """Ann says the word once. It is answered, remembered, corrected, embedded, and recalled in another thread.

    Returns the turn that said it.
    """
    model.control(entities=[CANARY])
    said = say(client, "t1", f"I live in {CANARY}.", user_id=user, memory=True)
    assert CANARY in said["assistant_turn"]["content"]
    model.control()
    say(client, "t1", "I work as a nurse.", user_id=user, memory=True)
    say(client, "t0", "I have a cat called Mog.", user_id=user, memory=True)
    for thread in ("t0", "t1"):
        body = {"session_id": thread, "timeout": 30, "user_id": user}
        client.post("/api/v1/memory/flush", json=body).raise_for_status()
    drained(client)
    fact = next(entry for entry in entries(client, user, "facts") if CANARY in entry["text"])
    changed = {"text": f"{user} lives in {CANARY}, by the sea.", "user_id": user}
    client.patch(f"{ENTRIES}/{fact['id']}", json=changed).raise_for_status()
    wait_until(lambda: recalled(client, user), "the word is recalled in another thread", every=0.3)
    drained(client)
    return dict(said["user_turn"])


def recalled(client: httpx2.Client, user: str) -> bool:
    answer = say(
        client, "t2", f"Do I live in {CANARY[:3]} or in a town by the sea?", user_id=user, memory=True
    )
    return CANARY in str(prompt(client, "t2", answer["assistant_turn"]["turn_id"], user_id=user))


def entries(client: httpx2.Client, user: str, kind: str | None = None) -> list[Json]:
    query = {"user_id": user, **({} if kind is None else {"kind": kind})}
    found: list[Json] = client.get(ENTRIES, params=query).raise_for_status().json()["entries"]
    return found


def files_with_the_word(home: Path) -> list[str]:
    """Every file of a home that holds the word, in any form; and what is packed in the journal."""
    found = [
        path.relative_to(home).as_posix() if path.is_relative_to(home) else str(path)
        for path, content in deployment.HOMES.held(home).items()
        if any(form in content for form in FORMS)
    ]
    return sorted([*found, *_packed_prompts(home)])


def _packed_prompts(home: Path) -> list[str]:
    prompts = deployment.HOMES.rows(home, "SELECT position, rest FROM prompts")
    return [f"prompt {place}" for place, rest in prompts if CANARY.encode() in zlib.decompress(rest)]
