"""`recollect chat`: one message from a script, a conversation at a terminal, with and without a running server."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from recollect.entrypoints.cli.conversation import TASTE, Conversation, Screen, Wishes
from tests.chatting import with_backend
from tests.forking import Forked
from tests.http_client import add, coverage, jobs, message, turns
from tests.processes import Server, StandInModel, environment, recollect, recollect_json, wait_until

COUNTING = "one two three four five six seven eight nine ten eleven"


@pytest.fixture(scope="module")
def settings(running: StandInModel) -> dict[str, str]:
    return with_backend(running.base_url)


@pytest.fixture(scope="module")
def one_server(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("chat") / "home", settings) as server:
        yield server


@pytest.fixture
def server(one_server: Server, model: StandInModel) -> Server:
    """All tests share it: each has a thread of its own."""
    return one_server


@pytest.fixture
def thread(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


class Terminal:
    """A person at a terminal who runs a command; `screen` is all that they have seen."""

    def __init__(self, home: Path, *arguments: str, settings: dict[str, str]) -> None:
        self._home, self._arguments, self._settings = home, arguments, settings
        self.screen = ""

    def __enter__(self) -> Self:
        self._keys, terminal = pty.openpty()
        env = {**environment(self._home, self._settings), "TERM": "dumb"}
        self.process = Forked(
            "recollect", "chat", *self._arguments, env=env, stdin=terminal, stdout=terminal, stderr=terminal
        )
        os.close(terminal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._keys)

    def types(self, text: str) -> None:
        os.write(self._keys, text.encode())

    def sees(self, pattern: str, seconds: float = 60) -> str:
        """What comes up to the pattern, which is gone from `screen` then."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.screen)) is None:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{pattern!r} is not to be seen in {self.screen!r}")
        seen, self.screen = self.screen[: found.end()], self.screen[found.end() :]
        return seen

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._keys], [], [], max(0, seconds))
        if not ready:
            return False
        try:
            read = os.read(self._keys, 65_536)
        except OSError:  # The other end is closed.
            return False
        self.screen += read.decode(errors="replace")
        return bool(read)

    def presses_ctrl_c(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def presses_ctrl_c_until_it_leaves(self) -> int:
        """Its exit code. Python misses a signal that comes just before it begins to wait, until the next one."""

        def has_left() -> bool:
            self.presses_ctrl_c()
            return not self._is_still_there(4)

        wait_until(has_left, "it leaves", every=0)
        return self.process.wait()

    def _is_still_there(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def leaves(self, seconds: float = 60) -> int:
        """Its exit code, with all it still had to say read."""
        while self._read(seconds):
            continue
        return self.process.wait(seconds)


def test_one_message_prints_its_answer_alone(server: Server, settings: dict[str, str], thread: str) -> None:
    said = recollect(server.home, "chat", thread, "Who", "is", "Donald", "Trump?", settings=settings)
    assert (said.returncode, said.stdout) == (0, "I see: Donald Trump\n")
    assert "stand-in" in said.stderr
    assert "opened here" not in said.stderr
    again = recollect(server.home, "chat", thread, settings=settings, text="who are his children?\n")
    assert (again.returncode, again.stdout) == (0, "I see: Donald Trump\n")
    assert [turn["content"] for turn in turns(server.client, thread)][::2] == [
        "Who is Donald Trump?",
        "who are his children?\n",
    ]


def test_without_a_server_the_home_is_opened_here_and_it_says_so(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    said = recollect(tmp_path / "home", "chat", "t1", "Who is Marie Curie?", settings=settings)
    assert (said.returncode, said.stdout) == (0, "I see: Marie Curie\n")
    assert f"No server runs on {tmp_path / 'home'}" in said.stderr


def test_json_is_the_whole_answer(server: Server, settings: dict[str, str]) -> None:
    told = recollect_json(server.home, "chat", "-", "Who is Marie Curie?", "--user", "jane", "--no-memory")
    assert set(told) == {"thread_id", "user_turn", "assistant_turn", "receipt"}
    assert told["assistant_turn"]["content"] == "I see: Marie Curie"
    assert told["receipt"]["recall"]["left_out"] == "memory is off for this message"
    (thread,) = recollect_json(server.home, "threads", "--user", "jane")["threads"]
    assert thread["thread_id"] == told["thread_id"]


def test_a_failure_has_words_and_a_code(
    server: Server, model: StandInModel, settings: dict[str, str], thread: str
) -> None:
    model.control("error")
    failed = recollect(server.home, "chat", thread, "hello", settings=settings)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("recollect: ")
    assert "failed (500)" in failed.stderr
    for option in ("--preset", "--backend"):
        wrong = recollect(server.home, "chat", thread, "hello", option, "nobody", settings=settings)
        assert (wrong.returncode, wrong.stdout) == (1, "")
        assert "nobody" in wrong.stderr
    assert recollect(server.home, "chat", thread, settings=settings, text=" \n").returncode == 1


def test_what_broke_off_is_printed_as_far_as_it_came(
    server: Server, model: StandInModel, settings: dict[str, str], thread: str
) -> None:
    model.control("early_end", answer=COUNTING)
    failed = recollect(server.home, "chat", thread, "count", settings=settings)
    assert failed.returncode == 1
    assert COUNTING.startswith(failed.stdout.strip())
    assert failed.stdout.strip()
    assert failed.stderr.startswith("recollect: ")


def test_reasoning_is_not_printed_for_a_script(
    server: Server, model: StandInModel, settings: dict[str, str], thread: str
) -> None:
    model.control("reasoning")
    said = recollect(server.home, "chat", thread, "Who is Marie Curie?", settings=settings)
    assert said.stdout == "I see: Marie Curie\n"


def test_an_incognito_thread_is_forgotten_at_the_end(
    server: Server, settings: dict[str, str], thread: str
) -> None:
    told = json.loads(
        recollect(server.home, "chat", "-", "hush", "--incognito", "--json", settings=settings).stdout
    )
    assert server.client.get(f"/api/v1/threads/{told['thread_id']}").status_code == 404
    wait_until(lambda: "purge" not in {job["kind"] for job in jobs(server.client)}, "it is purged")
    taken = recollect(server.home, "chat", thread, "hello", settings=settings)
    assert taken.returncode == 0
    refused = recollect(server.home, "chat", thread, "hush", "--incognito", settings=settings)
    assert (refused.returncode, refused.stdout) == (1, "")


@pytest.mark.parametrize("served", [True, False], ids=["a running server", "no server"])
def test_a_conversation_streams_and_remembers(
    served: bool, tmp_path: Path, model: StandInModel, settings: dict[str, str]
) -> None:
    home = tmp_path / "home"
    if served:
        with Server(home, settings):
            _converse(home, model, settings)
    else:
        _converse(home, model, settings)


def _converse(home: Path, model: StandInModel, settings: dict[str, str]) -> None:
    with Terminal(home, "t1", "--user", "ann", settings=settings) as person:
        person.sees(r"thread t1(?s:.)*> ")
        person.types("Who is Donald Trump?\n")
        assert "stand-in" in person.sees(r"I see: Donald Trump(?s:.)*> ")
        person.types("who are his children?\n")
        person.sees(r"I see: Donald Trump(?s:.)*> ")
        person.types("/memories\n")
        person.sees(r"None were used(?s:.)*> ")
        person.types("/prompt\n")
        shown = person.sees(r"who are his children\?\r\n(?s:.)*> ")
        assert "--- system" in shown
        assert "Current date and time" in shown
        person.types("/unknown\n")
        person.sees(r"There is no /unknown(?s:.)*> ")
        person.types("/new\n")
        person.sees(r"a new thread(?s:.)*> ")
        person.types("who are his children?\n")
        person.sees(r"I see: (?s:.)*> ")
        model.control("error")
        person.types("does it go on?\n")
        person.sees(r"recollect: (?s:.)*> ")
        model.control("stall", answer=COUNTING)
        person.types("count\n")
        person.sees("one two three")
        person.presses_ctrl_c()
        person.sees(r"partial: it was cancelled(?s:.)*> ")
        model.control()
        person.types("\n")
        assert person.leaves() == 0
    stored = recollect_json(home, "threads", "--user", "ann", settings=settings)["threads"]
    assert sorted(thread["turn_count"] for thread in stored) == [4, 6]


@pytest.mark.slow
def test_a_second_ctrl_c_leaves_though_the_server_hangs(
    server: Server, model: StandInModel, settings: dict[str, str], thread: str
) -> None:
    model.control("stall", answer=COUNTING)
    with Terminal(server.home, thread, settings=settings) as person:
        person.sees("> ")
        person.types("count\n")
        person.sees("one two three")
        server.process.send_signal(signal.SIGSTOP)
        try:
            person.presses_ctrl_c()
            person.sees(r"stopping")
            person.presses_ctrl_c()
            assert person.leaves() == 0
        finally:
            server.process.send_signal(signal.SIGCONT)
    wait_until(lambda: turns(server.client, thread)[1]["status"] == "partial", "what came is kept")


def test_ctrl_c_ends_a_single_message_with_a_code_of_its_own(
    server: Server, model: StandInModel, settings: dict[str, str], thread: str
) -> None:
    model.control("stall", answer=COUNTING)
    with Terminal(server.home, thread, "count", settings=settings) as person:
        person.sees("one two three")
        person.presses_ctrl_c()
        assert person.leaves() == 130
    wait_until(lambda: turns(server.client, thread)[1]["status"] == "partial", "what came is kept")


def test_the_memories_that_were_used_are_shown_with_their_thread(
    server: Server, settings: dict[str, str], thread: str
) -> None:
    told = "My sister Marta moves to Porto on the first of June."
    add(server.client, thread, [message(told)], user_id="mia")
    wait_until(lambda: coverage(server.client, user_id="mia")["indexed"] == 1, "it can be found")
    with Terminal(server.home, "--user", "mia", settings=settings) as person:
        person.sees("> ")
        person.types("When does my sister Marta move to Porto?\n")
        person.sees(r"I see: (?s:.)*> ")
        person.types("/memories\n")
        shown = person.sees(r"score(?s:.)*> ")
    assert told in shown
    assert f"thread {thread}" in shown


@pytest.mark.parametrize("key", ["Ctrl-D", "Ctrl-C"])
def test_a_key_at_the_prompt_leaves(server: Server, settings: dict[str, str], key: str) -> None:
    with Terminal(server.home, "--user", "dora", settings=settings) as person:
        person.sees(r"a new thread(?s:.)*> ")
        if key == "Ctrl-C":
            assert person.presses_ctrl_c_until_it_leaves() == 0
        else:
            person.types("\x04")
            assert person.leaves() == 0
    assert recollect_json(server.home, "threads", "--user", "dora")["threads"] == []


def test_reasoning_is_dimmed_and_no_answer_steers_the_terminal(
    server: Server, model: StandInModel, settings: dict[str, str]
) -> None:
    with Terminal(server.home, settings=settings) as person:
        person.sees("> ")
        model.control("reasoning", answer="red \x1b[31malert")
        person.types("hello\n")
        shown = person.sees(r"alert(?s:.)*> ")
        assert "\x1b[2mLet me look at" in shown
        assert "\x1b[31m" not in shown


def test_the_small_model_is_called_a_taste() -> None:
    told: list[str] = []

    class Told(Screen):
        def note(self, text: str) -> None:
            told.append(text)

    conversation = Conversation(None, Told(is_dialogue=False), Wishes(), None)  # type: ignore[arg-type]
    answer = {"model": "/home/ann/models/SmolLM2-135M-Instruct.Q4_1.gguf", "status": "complete"}
    conversation._tell_who_answers(
        {"assistant_turn": answer, "receipt": {"backend": "default", "label": "a taste"}}
    )
    assert told == ["[SmolLM2-135M-Instruct.Q4_1.gguf, backend default]", TASTE]
