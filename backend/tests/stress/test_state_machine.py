"""Anything, in any order, held against a simple model in memory: add, chat, flush, edit, undo, forget, search, restart.

Every message has a word of its own. Wherever a word shows up, it says whose it is; a forgotten one shows up nowhere.
"""

import asyncio
import re
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from tests.eventually import eventually
from tests.http_client import Json, bearer, message, opened, thread_path
from tests.processes import StandInModel
from tests.remembering import vault_files
from tests.stress.utils import Api, Figures, Size

USERS = ("ann", "bob")
THREADS = ("a", "b", "c")
ENTRIES = "/api/v1/memory/entries"
OK, ACCEPTED, NOT_FOUND, CONFLICT = 200, 202, 404, 409
FORMS = (
    "I live in {0}.",
    "I like {0} parks.",
    "My name is {0}.",
    "what do you know about {0}?",
    "{0} it is, then",
)
words_in = re.compile(r"Wq\d+x").findall
PICKS = st.integers(0, 1000)
"""Which one of what there is then: how many there are depends on how far jobs have come, what is drawn must not."""
T = TypeVar("T")


def chosen(choices: Sequence[T], pick: int) -> T:
    return choices[pick % len(choices)]


@dataclass
class Said:
    """One message as the model knows it. What an assistant says may repeat any word of its thread's owner."""

    message_id: str
    role: str
    content: str
    turn_id: str
    skipped: bool = False
    """Memory was off for it: then search doesn't know it."""


@dataclass
class Conversation:
    owner: str
    turns: list[Said] = field(default_factory=list)


class Machine(RuleBasedStateMachine):
    """The real application, spoken to over its HTTP API, and what it must have kept."""

    backend: ClassVar[str]
    figures: ClassVar[Figures]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.stack = AsyncExitStack()
        self.threads: dict[tuple[str, str], Conversation] = {}
        """By owner and id: users share ids."""
        self.words: dict[str, str] = {}
        """Whose each word is."""
        self.forgotten: set[str] = set()
        """Words that nothing may show any more."""
        self.tombstones: dict[tuple[str, str], list[str]] = {}
        """Ids of forgotten messages, by the owner and the id of their thread."""
        self.accepted = 0
        self.edited: dict[str, tuple[str, str]] = {}
        """By the id of an entry its owner and its text."""
        self.written: dict[str, set[str]] = {}
        """By the id of an entry all that a person ever wrote there."""
        self.orphans: set[str] = set()
        """Lines whose fact was deleted: what they said before a person wrote there is forgotten."""
        self.deleted: dict[str, str] = {}

    @initialize()
    def open(self) -> None:
        self.run(self._open())

    async def _open(self) -> None:
        given = {"llm": {"base_url": self.backend}, "embedding": {"kind": "none"}, "log_level": "ERROR"}
        self.home = await self.stack.enter_async_context(opened(Path(self.folder.name) / "home", **given))
        self.api = Api(self.home.client, self.figures)

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def call(self, method: str, path: str, **fields: Any) -> httpx2.Response:
        answer: httpx2.Response = self.run(self.api.call(method, path, **fields))
        return answer

    def new_word(self, user: str) -> str:
        word = f"Wq{len(self.words)}x"
        self.words[word] = user
        return word

    def shows_only(self, user: str, shown: object) -> None:
        """Nothing of another's, nothing that is forgotten."""
        found = set(words_in(str(shown)))
        strangers = {word for word in found if self.words.get(word) != user}
        self.figures.leaked += len(strangers)
        assert not strangers, f"{user} was shown {strangers}: {shown}"
        assert not found & self.forgotten, f"{found & self.forgotten} was forgotten: {shown}"

    @rule(
        user=st.sampled_from(USERS), thread=st.sampled_from(THREADS), form=st.sampled_from(FORMS), count=st.integers(1, 3)
    )  # fmt: skip
    def add(self, user: str, thread: str, form: str, count: int) -> None:
        new = [(f"m{len(self.words)}-{n}", form.format(self.new_word(user))) for n in range(count)]
        batch = [
            message(text, len(self.words), message_id=message_id, sender_id=user) for message_id, text in new
        ]
        answer = self._add(user, thread, batch)
        assert answer.status_code == ACCEPTED, answer.text
        told = self.threads.setdefault((user, thread), Conversation(user))
        for (message_id, text), receipt in zip(new, answer.json()["receipts"], strict=True):
            assert receipt["status"] == "accepted"
            told.turns.append(Said(message_id, "user", text, receipt["turn_id"]))
            self.accepted += 1

    def _add(self, user: str, thread: str, batch: list[Json]) -> httpx2.Response:
        body = {"session_id": thread, "user_id": user, "messages": batch}
        return self.call("POST", "/api/v1/memory/add", json=body)

    @precondition(lambda self: any(one.turns for one in self.threads.values()))
    @rule(pick=PICKS)
    def add_again(self, pick: int) -> None:
        (owner, thread), said = self._some_turn(pick)
        answer = self._add(owner, thread, [message(said.content, message_id=said.message_id)])
        assert [receipt["status"] for receipt in answer.json()["receipts"]] == ["duplicate"]

    @precondition(lambda self: self._deleted_here())
    @rule(pick=PICKS)
    def add_what_was_forgotten(self, pick: int) -> None:
        (owner, thread), message_id = chosen(self._deleted_here(), pick)
        answer = self._add(owner, thread, [message("once more", message_id=message_id)])
        assert [receipt["status"] for receipt in answer.json()["receipts"]] == ["forgotten"]

    def _deleted_here(self) -> list[tuple[tuple[str, str], str]]:
        return [
            (named, message_id)
            for named in sorted(self.threads)
            for message_id in self.tombstones.get(named, ())
        ]

    @rule(
        user=st.sampled_from(USERS), thread=st.sampled_from(THREADS), form=st.sampled_from(FORMS), memory=st.booleans()
    )  # fmt: skip
    def chat(self, user: str, thread: str, form: str, memory: bool) -> None:
        words = form.format(self.new_word(user))
        body = {"user_id": user, "content": words, "memory": memory}
        answer = self.call("POST", thread_path(thread, "messages"), json=body)
        assert answer.status_code == OK, answer.text
        told = self.threads.setdefault((user, thread), Conversation(user))
        for name in ("user_turn", "assistant_turn"):
            turn = answer.json()[name]
            assert turn["status"] == "complete"
            told.turns.append(
                Said(turn["message_id"], turn["role"], turn["content"], turn["turn_id"], skipped=not memory)
            )
            self.accepted += 1
        path = thread_path(thread, "turns", told.turns[-1].turn_id, "prompt")
        prompt = self.call("GET", path, params={"user_id": user})
        self.shows_only(user, prompt.json())
        assert prompt.json()["messages"][-1]["content"].endswith(words)

    @precondition(lambda self: self.threads)
    @rule(pick=PICKS)
    def flush(self, pick: int) -> None:
        owner, thread = chosen(sorted(self.threads), pick)
        body = {"session_id": thread, "user_id": owner, "timeout": 60}
        answer = self.call("POST", "/api/v1/memory/flush", json=body)
        assert (answer.status_code, answer.json()["buffered"]) == (OK, 0), answer.text

    @rule(pick=PICKS, user=st.sampled_from(USERS))
    def edit(self, pick: int, user: str) -> None:
        if (entry := self._some_entry(pick, user)) is None:
            return
        text = f"{user} corrected this with {self.new_word(user)}."
        body = {"text": text, "user_id": user}
        self.run(self.api.json("PATCH", f"{ENTRIES}/{entry['id']}", json=body))
        self.edited[entry["id"]] = (user, text)
        self.written.setdefault(entry["id"], set()).add(text)

    @rule(pick=PICKS, user=st.sampled_from(USERS))
    def undo_an_edit(self, pick: int, user: str) -> None:
        if (entry := self._some_entry(pick, user)) is None or entry["id"] not in self.edited:
            return
        undone = self.call("POST", f"{ENTRIES}/{entry['id']}/undo", json={"user_id": user})
        _, text = self.edited[entry["id"]]
        others = self.written[entry["id"]] - {text}
        if entry["id"] in self.orphans and not others:
            assert undone.status_code == CONFLICT, undone.text
            return
        assert undone.status_code == OK, undone.text
        assert undone.json()["text"] != text
        assert entry["id"] not in self.orphans or undone.json()["text"] in others
        del self.edited[entry["id"]]

    @rule(pick=PICKS, user=st.sampled_from(USERS))
    def delete_an_entry(self, pick: int, user: str) -> None:
        if (entry := self._some_entry(pick, user)) is None:
            return
        gone = self.run(self.api.json("DELETE", f"{ENTRIES}/{entry['id']}", params={"user_id": user}))
        for each in (gone, *gone["went_along"]):
            self.deleted[each["id"]] = user
            self.edited.pop(each["id"], None)
        if entry["kind"] == "facts":
            self.orphans |= {each for each in gone["changed"] if each.startswith("pr-")}

    @precondition(lambda self: any(one.turns for one in self.threads.values()))
    @rule(pick=PICKS)
    def forget_a_turn(self, pick: int) -> None:
        (owner, thread), said = self._some_turn(pick)
        told = self.threads[owner, thread]
        path = thread_path(thread, "turns", said.turn_id)
        for stranger in (user for user in USERS if (user, thread) not in self.threads):
            assert self.call("DELETE", path, params={"user_id": stranger}).status_code == NOT_FOUND
        citing = self._citing({said.message_id}, told.owner)
        assert self.call("DELETE", path, params={"user_id": told.owner}).status_code == OK
        told.turns.remove(said)
        self._forgot(thread, told.owner, [said], citing)

    @precondition(lambda self: self.threads)
    @rule(pick=PICKS)
    def forget_a_thread(self, pick: int) -> None:
        owner, thread = chosen(sorted(self.threads), pick)
        told = self.threads[owner, thread]
        citing = self._citing({said.message_id for said in told.turns}, owner)
        self.call("DELETE", thread_path(thread), params={"user_id": owner}).raise_for_status()
        del self.threads[owner, thread]
        self._forgot(thread, told.owner, told.turns, citing)

    def _citing(self, message_ids: set[str], user: str) -> set[str]:
        return {entry["id"] for entry in self._entries(user) if message_ids & set(entry["message_ids"])}

    def _forgot(self, thread: str, owner: str, gone: list[Said], citing: set[str]) -> None:
        """A word is gone where no other message says it, too: answers repeat what was said."""
        self.tombstones.setdefault((owner, thread), []).extend(said.message_id for said in gone)
        left = set(words_in(str([said.content for told in self.threads.values() for said in told.turns])))
        for said in gone:
            self.forgotten |= set(words_in(said.content)) - left
        for entry_id in citing & set(self.edited):
            self.forgotten |= set(words_in(self.edited.pop(entry_id)[1]))

    @rule(pick=PICKS, user=st.sampled_from(USERS))
    def search(self, pick: int, user: str) -> None:
        said = [
            each
            for told in self.threads.values()
            if told.owner == user
            for each in told.turns
            if each.role == "user" and not each.skipped
        ]
        anything = sorted(self.words) or ["nothing"]
        wanted = chosen(said, pick) if said else None
        query = words_in(wanted.content)[0] if wanted else chosen(anything, pick)
        self.shows_only(user, self._search(user, query))
        found = self._hits(user, query)
        if wanted and wanted.message_id not in found:
            self.run(self.api.indexed(seconds=60))  # What was just said is found a moment later.
            assert wanted.message_id in self._hits(user, query)

    def _hits(self, user: str, query: str) -> set[str]:
        """The ids of the messages that are found."""
        hits = self._search(user, query, types=["turn"])
        self.shows_only(user, hits)
        return {message_id for hit in hits for message_id in hit["message_ids"]}

    def _search(self, user: str, query: str, **more: Any) -> list[Json]:
        hits: list[Json] = self.run(self.api.search(query, user_id=user, top_k=1000, **more))
        return hits

    @rule()
    def restart(self) -> None:
        async def again() -> None:
            await self.stack.aclose()
            await self._open()

        self.run(again())

    @rule()
    def rest(self) -> None:
        """Everything that follows catches up: then the files show it, too."""
        self.run(self.home.drain())
        self.run(self._is_well())
        for user in USERS:
            files = vault_files(self.home.app.settings.home, f"default/users/{user}")
            self.shows_only(user, [content.decode() for content in files.values()])

    async def _is_well(self) -> None:
        """Nothing that people did by way of the API looks like damage."""
        degraded: list[str] = []

        async def is_well() -> bool:
            degraded[:] = (await self.home.client.get("/health")).json()["degraded"]
            return not degraded

        try:
            await eventually(is_well, seconds=60)
        except TimeoutError as error:
            raise AssertionError(f"after a minute there is still something wrong: {degraded}") from error

    @invariant()
    def threads_hold_what_was_said(self) -> None:
        if not hasattr(self, "home"):
            return
        for (owner, thread), told in self.threads.items():
            turns = self.run(self.api.turns(thread, user_id=owner))
            stored = [(turn["turn_id"], turn["message_id"], turn["content"]) for turn in turns]
            assert stored == [(said.turn_id, said.message_id, said.content) for said in told.turns]
        counted = self.call("GET", "/api/v1/coverage").json()
        assert (counted["missing"], counted["doubled"], counted["messages"]) == (0, 0, self.accepted), counted
        live = sum(len(told.turns) for told in self.threads.values())
        assert counted["forgotten"] == self.accepted - live, counted

    @invariant()
    def entries_are_as_people_left_them(self) -> None:
        if not hasattr(self, "home"):
            return
        for user in USERS:
            entries = {entry["id"]: entry for entry in self._entries(user)}
            self.shows_only(user, list(entries.values()))
            for entry_id, (owner, text) in self.edited.items():
                if owner == user:
                    assert entry_id in entries, f"what {user} wrote is gone: {text}"
                    assert entries[entry_id]["text"] == text
            assert not [entry_id for entry_id in self.deleted if entry_id in entries]

    def _entries(self, user: str) -> list[Json]:
        found: list[Json] = self.run(self.api.entries(user_id=user))
        return found

    def _some_turn(self, pick: int) -> tuple[tuple[str, str], Said]:
        turns = [(name, said) for name, told in sorted(self.threads.items()) for said in told.turns]
        return chosen(turns, pick)

    def _some_entry(self, pick: int, user: str) -> Json | None:
        entries = sorted(self._entries(user), key=lambda entry: str(entry["id"]))
        return chosen(entries, pick) if entries else None

    def teardown(self) -> None:
        try:
            if hasattr(self, "home"):
                self.rest()
                self.all_is_verified()
        finally:
            self.run(self.stack.aclose())
            self.runner.close()
            self.folder.cleanup()

    def all_is_verified(self) -> None:
        for forgotten in (False, True):
            given: Json = {"json": {"forgotten": forgotten}, "headers": bearer(self.home.app.lock.token)}
            told = self.call("POST", "/api/v1/verify", **given)
            assert '"error"' not in told.text, told.text
            compact = told.text.replace(" ", "")
            assert '"ok":true' in compact, told.text
            assert '"ok":false' not in compact, told.text


@pytest.mark.timeout(1800)
def test_whatever_is_done_in_whatever_order_the_model_in_memory_agrees(
    model: StandInModel, figures: Figures, size: Size
) -> None:
    class Bound(Machine): ...

    Bound.backend, Bound.figures = model.base_url, figures
    run_machine(
        Bound,
        settings=settings(
            max_examples=size.of(quick=4, long=25),
            stateful_step_count=size.of(quick=25, long=50),
            deadline=None,
            derandomize=size is Size.QUICK,
            database=None,
            phases=[Phase.generate],  # A step takes a while: to shrink what was found would take hours.
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
    figures.nothing_wrong()
