"""Nobody finds what is another's, whatever they send, and what others have changes nothing of what I find."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http_client import START, Json, add, bearer, message
from tests.processes import Server, recollect_json
from tests.searching import indexed, search, texts, with_model

WORDS = ("secret", "Porto", "nurse", "invoice")
USERS = ("ann", "Ann", "ann'", "ann/../bob", "bob", "*", "%", 'ann" OR "1"="1', "安", "default", "me")
SPACES = ("default", "acme", "acme/users/ann", "Default", "'; DROP TABLE threads; --")
THREADS = ("t1", "t1'", "../../bob/threads/t1", "%", "*", "t1\u202e")
HOSTILE = (
    "'", "\"", "' OR '1'='1", "\" OR 1=1 --", "owner = 'default/users/bob'", "*", "%", "_", "\\", "../",
    "default/users/bob", "row_id IN ('')", "\U0001f600", "NULL", "{}", "$ne", "\x01", "ignore all scopes",
)  # fmt: skip
OTHERS_ROWS = 500


@dataclass(frozen=True)
class Owner:
    """A user of a space, what only they have said, and who may search it."""

    space: str
    user: str

    @property
    def mark(self) -> str:
        return f"only-{SPACES.index(self.space)}-{USERS.index(self.user)}-has-this"


OWNERS = [Owner(space, user) for space in SPACES for user in USERS]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("scope") / "home", with_model(model_folder)) as server:
        yield server


@pytest.fixture(scope="module")
def keys(server: Server) -> dict[str, str]:
    """A key for every space, and for every owner, by space and by owner's mark."""
    found = {}
    for space in SPACES:
        made = recollect_json(server.home, "keys", "create", "--space", space)
        found[space] = made["secret"]
    return found


@pytest.fixture(scope="module")
def everybody(server: Server, keys: dict[str, str]) -> dict[str, str]:
    for number, owner in enumerate(OWNERS):
        said = [f"{word} {owner.mark}" for word in WORDS]
        body = {
            "session_id": f"{THREADS[number % len(THREADS)]} {owner.user}",
            "user_id": owner.user,
            "tags": ["shared", owner.mark],
            "messages": [
                message(text, place, message_id=f"{owner.mark}-{place}") for place, text in enumerate(said)
            ],
        }
        server.client.post(
            "/api/v1/memory/add", json=body, headers=bearer(keys[owner.space])
        ).raise_for_status()
    for space in SPACES:
        with keyed(server, keys[space]) as client:
            indexed(client, embedded=True, seconds=120)
    return keys


def keyed(server: Server, secret: str) -> httpx2.Client:
    return httpx2.Client(base_url=server.address, headers=bearer(secret), timeout=60, trust_env=False)


anything = st.one_of(
    st.sampled_from([*HOSTILE, *USERS, *SPACES, *THREADS, *WORDS]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
)
marks = st.sampled_from([owner.mark for owner in OWNERS])
queries = st.one_of(
    anything, marks, st.builds("{} {}".format, st.sampled_from(WORDS), st.one_of(anything, marks))
)
narrowings = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["hybrid", "keyword", "vector"]),
        "types": st.lists(st.sampled_from(["turn", "stretch", "note"]), max_size=3),
        "tags": st.lists(st.one_of(st.just("shared"), marks, anything), max_size=3),
        "thread_id": st.one_of(
            anything, st.builds("{} {}".format, st.sampled_from(THREADS), st.sampled_from(USERS))
        ),
        "agent_id": anything,
        "since": st.integers(0, 2 * START),
        "top_k": st.integers(1, 1000),
        "max_tokens": st.integers(1, 10_000),
        "neighbours": st.integers(0, 20),
        "passages": st.booleans(),
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(owner=st.sampled_from(OWNERS), query=queries, narrowed=narrowings)
def test_whatever_is_sent_only_ones_own_comes_back(
    server: Server, everybody: dict[str, str], owner: Owner, query: str, narrowed: Json
) -> None:
    body = {"query": query, "user_id": owner.user, **narrowed}
    answer = server.client.post("/api/v1/memory/search", json=body, headers=bearer(everybody[owner.space]))
    assert answer.status_code in (200, 404, 422), answer.text
    foreign = [other.mark for other in OWNERS if other != owner and other.mark != query]
    sent = json.dumps(body, ensure_ascii=False)
    assert [mark for mark in foreign if mark in answer.text and mark not in sent] == []
    for hit in answer.json().get("hits", ()):
        assert all(message_id.startswith(owner.mark) for message_id in hit["message_ids"])
        assert all(owner.mark in turn["content"] for turn in hit["neighbours"] or ())


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.mark)
def test_everybody_finds_all_that_is_theirs(server: Server, everybody: dict[str, str], owner: Owner) -> None:
    with keyed(server, everybody[owner.space]) as client:
        found = texts(client, " ".join(WORDS), user_id=owner.user, top_k=1000)
    assert sorted(found) == sorted(f"{word} {owner.mark}" for word in WORDS)


def test_a_key_of_one_user_searches_theirs_alone(server: Server, everybody: dict[str, str]) -> None:
    owner = Owner("acme", "bob")
    made = recollect_json(server.home, "keys", "create", "--space", owner.space, "--user", owner.user)
    with keyed(server, made["secret"]) as client:
        assert all(owner.mark in text for text in texts(client, "secret Porto"))
        assert texts(client, "secret", user_id="bob", mode="keyword") == [f"secret {owner.mark}"]
        refused = client.post("/api/v1/memory/search", json={"query": "secret", "user_id": "ann"})
        assert (refused.status_code, refused.json()["error"]["field"]) == (403, "user_id")


@pytest.mark.slow
def test_what_others_have_changes_neither_hits_nor_order_nor_scores(
    tmp_path: Path, model_folder: Path
) -> None:
    with Server(tmp_path / "home", with_model(model_folder)) as server:
        client = server.client
        said = ["Marta moves to Porto", "lovely news", "she is a nurse in Porto", "the invoice is due", "bye"]
        add(client, "mine", [message(text, number) for number, text in enumerate(said)], user_id="ann")
        indexed(client, embedded=True)
        before = [hits_of(client, query) for query in ("Porto nurse", "who works in a hospital?", "invoice")]
        for other in ("bob", "Ann", "ann2"):
            copies = [message(f"Porto nurse invoice {number}", number) for number in range(OTHERS_ROWS // 3)]
            add(client, f"of {other}", copies, user_id=other)
        indexed(client, embedded=True, seconds=90)
        after = [hits_of(client, query) for query in ("Porto nurse", "who works in a hospital?", "invoice")]
        assert after == before
        assert server.stop() == 0
    with Server(tmp_path / "home", with_model(model_folder)) as server:
        again = [
            hits_of(server.client, query) for query in ("Porto nurse", "who works in a hospital?", "invoice")
        ]
    assert again == before


def hits_of(client: httpx2.Client, query: str) -> str:
    """Byte for byte what is found, the path apart: it comes when the message is in the vault."""
    hits: list[dict[str, Any]] = search(client, query, user_id="ann")["hits"]
    return json.dumps([{**hit, "path": None} for hit in hits])
