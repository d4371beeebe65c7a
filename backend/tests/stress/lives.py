"""A home that lives through many kills: what was told to it, and so what it must hold."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from recollect.infra.home_lock import current_holder
from tests import deployment
from tests.http_client import Json, bearer, contents, drained, thread_path
from tests.processes import Server, wait_until
from tests.remembering import MAY_8, MINUTE, vault_files
from tests.searching import search
from tests.standins.tool_tasks import tool_task
from tests.stress.armed_server import VARIABLE
from tests.stress.utils import covered

SOON = 30.0
"""Seconds for what is done after a restart without being asked for."""
MADE_AGAIN = ("index.md",)
"""What is made of other files, whoever edits it."""
PRESETS, ENTRIES, NOTES = "/api/v1/presets", "/api/v1/memory/entries", "/api/v1/memory/notes"
_editable = re.compile(r"\b((?:tea|preset|note)\d+)((?:byhand\d+)?)\b")
"""Words that work has put into files, each with the number of its life. A hand edit adds `byhand` and its own number."""


_numbered = re.compile(r"\w*[a-z]\d\w*")
"""Words that only one message holds, or one memory."""


class Broken(AssertionError):
    """What is wrong after a kill; the name of its column is the first argument."""


class ArmedServer(Server):
    """A server that can be told at which fail point to die, and when."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self.order = home.parent / "die-at"
        self._environment[VARIABLE] = str(self.order)
        self._program[0] = "tests.stress.armed_server"

    def arm(self, spec: str) -> None:
        self.order.write_text(spec, encoding="utf-8")
        self.order.with_suffix(".log").write_bytes(b"")

    def reached(self) -> Counter[str]:
        """How often each fail point was reached since it was armed."""
        return Counter(self.order.with_suffix(".log").read_text(encoding="utf-8").split())

    def operate(self, path: str, **body: object) -> Json:
        """As the command line on this machine does; returns the result."""
        holder = current_holder(self.home)
        if holder is None:
            raise RuntimeError("the server has ended")
        url = f"/api/v1/{path}"
        answer = self.client.post(url, json=body, headers=bearer(holder.token)).raise_for_status()
        result: Json = json.loads(answer.text.splitlines()[-1])
        assert "result" in result, f"{path}: {result}"
        return dict(result["result"])


@dataclass
class Life:
    """One home through all of its lives: what was told to it, and so what it must hold."""

    home: Path
    chance: random.Random
    number: int = 0
    said: dict[str, list[str]] = field(default_factory=dict)
    """The texts of each thread that were acknowledged, in order."""
    users: dict[str, str] = field(default_factory=dict)
    """Whose a thread is."""
    facts: dict[str, str] = field(default_factory=dict)
    """What is to be remembered of a thread."""
    unflushed: dict[str, str] = field(default_factory=dict)
    """Threads whose memories are to be made, and whose they are."""
    edits: dict[str, str] = field(default_factory=dict)
    """Words that a person wrote since all was looked at last, and into which file."""
    edited: int = 0
    """How many edits by hand there were."""
    gone: list[str] = field(default_factory=list)
    unanswered: tuple[str, str, Json | None, Callable[[], object]] | None = None
    """A request that got no answer: it is sent again after the restart, as clients do."""

    def ask(
        self,
        client: httpx2.Client,
        method: str,
        path: str,
        then: Callable[[], object],
        body: Json | None = None,
    ) -> Json:
        """Send a request that may be sent again; `then` notes that it was answered."""
        self.unanswered = (method, path, body, then)
        answer = client.request(method, path, json=body)
        assert answer.is_success or (method, answer.status_code) == ("DELETE", 404), answer.text
        self.unanswered = None
        then()
        found: Json = answer.json()
        return found

    def tell(self, client: httpx2.Client, thread: str, messages: list[Json], user: str = "ann") -> list[Json]:
        def heard() -> None:
            self.users[thread] = user
            self.said.setdefault(thread, []).extend(each["content"] for each in messages)
            if thread.startswith("x"):
                self.facts[thread] = messages[0]["content"].replace("I like", "ann likes")

        body = {"session_id": thread, "messages": messages, "user_id": user}
        receipts: list[Json] = self.ask(client, "POST", "/api/v1/memory/add", heard, body)["receipts"]
        return receipts

    def messages(self, *texts: str) -> list[Json]:
        return [
            {
                "message_id": f"{self.number}-{place}",
                "sender_id": "ann",
                "role": "user",
                "timestamp": MAY_8 + (60 * self.number + place) * MINUTE,
                "content": text,
            }
            for place, text in enumerate(texts)
        ]

    def edit_by_hand(self, *, latest: bool = False) -> None:
        """A person adds to a word in some file, or the `latest`, in place or by renaming, as editors do."""
        vault = deployment.HOMES.vault(self.home)
        files = [
            path
            for path in map(Path, vault.files())
            if path.suffix == ".md" and path.name not in MADE_AGAIN and ".conflict-" not in path.name
        ]
        self.chance.shuffle(files)
        if latest:
            files.sort(key=lambda path: vault.modified(str(path)), reverse=True)
        for file in files:
            if (found := vault.read(str(file))) is None:
                continue
            text, seen = found
            words = [pair for pair in _editable.findall(text) if self._is_left_alone(pair[0], file)]
            if not words or self.word in text:
                continue
            word, before = self.chance.choice(words)
            self.edited += 1
            edited = f"{word}byhand{self.edited}"
            text = re.sub(rf"\b{word}{before}\b", edited, text, count=1)
            if vault.save(str(file), text, seen, by_renaming=self.chance.random() < 0.5):
                self.edits.pop(f"{word}{before}", None)
                self.edits[edited] = str(file)
                return

    def _is_left_alone(self, word: str, file: Path) -> bool:
        """Whether no request of this life writes over it, as it may, and no edit of the same memory in another file."""
        if not word.startswith("tea"):
            return int(word.lstrip("presnot")) % 3 != self.number % 3
        return not _is_of_fact(file) or not any(
            edit.startswith(f"{word}byhand") and _is_of_fact(Path(other)) and other != str(file)
            for edit, other in self.edits.items()
        )

    def may_be_overwritten(self) -> bool:
        """Whether a request of another life may write over what a person wrote."""
        return not all(words.startswith("tea") for words in self.edits)

    # --- the work ----------------------------------------------------------------------------------

    def write(self, server: ArmedServer) -> None:
        """A transcript, a preset, preferences, a note and an entry: the files of a vault."""
        client, turn = server.client, self.number % 3
        self.tell(client, f"talk-{self.number // 10}", self.messages(f"We drink tea{self.number}.", "Good."))
        for method, path, body in (
            ("PUT", f"{PRESETS}/p{turn}", {"instructions": f"Say preset{self.number}."}),
            ("PATCH", "/api/v1/users/ann/preferences", {"time_zone": ("UTC", "Asia/Tokyo")[self.number % 2]}),
            (
                "POST",
                NOTES,
                {"user_id": "ann", "name": f"n{turn}", "text": f"note{self.number}", "replace": True},
            ),
        ):
            self.ask(client, method, path, lambda: None, body)
        entry = self.chance.choice(listed(client, "ann", "facts"))["id"]
        pin = {"pinned": bool(self.number % 2), "user_id": "ann"}
        self.ask(client, "PATCH", f"{ENTRIES}/{entry}", lambda: None, pin)

    def take_in(self, server: ArmedServer) -> None:
        """Edits, while the server runs; others came while it did not."""
        for _ in range(2):
            self.edit_by_hand()
        server.operate("verify")

    def extract(self, server: ArmedServer) -> None:
        """A talk with a fact in it, and a task with tools: an episode, a fact, a case, and what a skill learns of it."""
        number, client = self.number, server.client
        self.unflushed |= {f"x{number}": "ann", f"w{number}": "bob"}
        self.tell(client, f"x{number}", self.messages(f"I like tea{number}.", "What about you?"))
        task = tool_task(f"w{number}-", MAY_8 + 60 * number * MINUTE, f"Clean the disk of server{number}")
        self.tell(client, f"w{number}", task, "bob")
        self.flush(client)

    def flush(self, client: httpx2.Client) -> None:
        for thread, user in list(self.unflushed.items()):
            if thread in self.said:
                flush(client, thread, user)
            del self.unflushed[thread]

    def index(self, server: ArmedServer) -> None:
        """Messages of two threads; in every third life all of the index is made again too."""
        for thread in (f"talk-{self.number // 10}", f"walk-{self.number // 10}"):
            self.tell(
                server.client, thread, self.messages(f"In {thread} we drink tea{self.number}.", "Good.")
            )
        if self.number % 3 == 0:
            server.operate("reindex")

    def before_forgetting(self, server: ArmedServer) -> None:
        """A word in every place where one may be."""
        thread, user = f"g{self.number}", ("ann", "ann", f"u{self.number}")[self.number % 3]
        (receipt, _) = self.tell(server.client, thread, self.messages(f"I like {self.word}.", "Hm."), user)
        flush(server.client, thread, user)
        drained(server.client)
        turn = f"{thread_path(thread, 'turns', receipt['turn_id'])}?user_id={user}&answers=true"
        paths = (turn, f"{thread_path(thread)}?user_id={user}", f"/api/v1/users/{user}")
        self.deleting = paths[self.number % 3]

    @property
    def word(self) -> str:
        return f"quixel{self.number}q"

    def forget(self, server: ArmedServer) -> None:
        thread, word, is_turn = f"g{self.number}", self.word, self.number % 3 == 0

        def forgot() -> None:
            self.gone.append(word)
            if is_turn:
                self.said[thread] = self.said[thread][1:]
            else:
                self.said.pop(thread, None)

        self.ask(server.client, "DELETE", self.deleting, forgot)

    # --- and what came of it -----------------------------------------------------------------------

    def check_acknowledged(self, server: ArmedServer) -> None:
        """Send again what got no answer, and look whether what was acknowledged is there once. Raises Broken."""
        self.ask_again(server.client)
        latest = list(self.said)[-3:]
        self.threads_hold(server.client, latest)
        wrong = self.search_problems(server.client, {self.users[thread] for thread in latest})
        if wrong := [each for each in wrong if each[0] != "unequal"]:
            raise Broken(*wrong[0])

    def check(self, server: ArmedServer) -> None:
        """Send again what got no answer, let everything be done, and look at all there is. Raises Broken."""
        client = server.client
        self.ask_again(client)
        self.flush(client)
        found: Json = {"problems": ["jobs are left"], "pending": None, "search": []}

        def is_sound() -> bool:
            drained(client)
            found.update(
                server.operate("verify"), search=self.search_problems(client, {*self.users.values()})
            )
            return bool(found["ok"] and found["pending"] == 0 and not found["search"])

        with suppress(TimeoutError):
            wait_until(is_sound, "verified", seconds=SOON, every=0.05)
        if found["problems"] or found["pending"]:
            raise Broken("unequal", found)
        if found["search"]:
            raise Broken(*found["search"][0])
        covered(client)
        entries = [each for user in ("ann", "bob") for each in listed(client, user)]
        texts = Counter((each["kind"], each["text"]) for each in entries)
        if twice := [each for each, count in texts.items() if count > 1]:
            raise Broken("doubled", twice)
        told = {as_told(text) for _, text in texts}
        if lost := set(self.facts.values()) - told:
            raise Broken("lost", lost, sorted(told))
        self.threads_hold(client, list(self.said)[-3:])
        self.edits_are_kept(client, json.dumps(entries))
        self.gone_is_gone()

    def ask_again(self, client: httpx2.Client) -> None:
        if self.unanswered is not None:
            method, path, body, then = self.unanswered
            self.ask(client, method, path, then, body)

    def search_problems(self, client: httpx2.Client, users: set[str]) -> list[tuple[str, str]]:
        """Each of their messages with a word of its own, and each fact that was made, is one hit, and in the index."""
        problems = []
        wanted = {
            ("ann", "facts"): [fact for thread, fact in self.facts.items() if thread not in self.unflushed]
        }
        for thread, texts in self.said.items():
            wanted.setdefault((self.users[thread], "turn"), []).extend(filter(_numbered.search, texts))
        for (user, kind), texts in wanted.items():
            if user not in users:
                continue
            query = "drink like clean " + " ".join(_numbered.findall("\n".join(texts)))
            answer = search(client, query, user_id=user, types=[kind], top_k=1000, passages=False)
            found = Counter(as_told(hit["text"]) for hit in answer["hits"])
            if wrong := {text: found[text] for text in texts if found[text] != 1}:
                column = "doubled" if any(wrong.values()) else "lost"
                problems.append((column, f"hits of a search among the {kind} of {user}: {wrong}"))
            if answer["degraded"] or answer["searched"]["from_journal"]:
                problems.append(("unequal", f"search lacks {answer['degraded']}, {answer['searched']}"))
        return problems

    def threads_hold(self, client: httpx2.Client, threads: list[str]) -> None:
        for thread in threads:
            held = [as_told(text) for text in contents(client, thread)]
            if held != self.said[thread]:
                more = len(held) > len(self.said[thread])
                raise Broken("doubled" if more else "lost", thread, held, self.said[thread])

    def edits_are_kept(self, client: httpx2.Client, entries: str) -> None:
        """Each is in the journal, or in a file beside the one that it was made in."""
        if not self.edits:
            return
        files = vault_files(self.home).items()
        beside = "".join(content.decode() for path, content in files if ".conflict-" in Path(path).name)
        notes = [
            client.get(f"{NOTES}/n{turn}.md", params={"user_id": "ann"}).raise_for_status().text
            for turn in range(3)
        ]
        edited = [
            thread for thread in self.said if any(f"/{thread}/" in file for file in self.edits.values())
        ]
        turns = [text for thread in edited for text in contents(client, thread)]
        told = "\n".join([client.get(PRESETS).text, *notes, *turns, entries])
        for words, file in self.edits.items():
            if words not in told and words not in beside:
                raise Broken("edits lost", words, file)
        self.edits.clear()

    def gone_is_gone(self) -> None:
        left = [
            str(path)
            for path, content in deployment.HOMES.held(self.home).items()
            if any(word.encode() in content for word in self.gone)
        ]
        if left:
            raise Broken("not forgotten", self.gone, left)


def _is_of_fact(file: Path) -> bool:
    """Whether it holds facts, or the lines of the profile, which follow them and are followed."""
    return file.name == "profile.md" or file.parent.name == "facts"


def as_told(text: str) -> str:
    """Without what was edited by hand."""
    return re.sub(r"byhand\d+", "", text)


def listed(client: httpx2.Client, user: str, *kinds: str) -> list[Json]:
    query: dict[str, str | list[str]] = {"user_id": user, "limit": "1000", "kind": list(kinds)}
    found: list[Json] = client.get(ENTRIES, params=query).raise_for_status().json()["entries"]
    return found


def flush(client: httpx2.Client, thread: str, user: str) -> None:
    body = {"session_id": thread, "timeout": 60, "user_id": user}
    client.post("/api/v1/memory/flush", json=body).raise_for_status()
