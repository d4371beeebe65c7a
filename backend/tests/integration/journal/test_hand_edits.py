"""People edit, remove and add files of the vault while a real server runs, and while none does."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.http_client import QUICK, add, contents, coverage, drained, message
from tests.processes import Server, recollect, recollect_json, wait_until

SEEN_SECONDS = 2.0
THREADS = ("t1", "t2", "t3", "t4")
SIGKILLED = -9


def part_of(home: Path, thread: str, part: int = 1) -> Path:
    return home / "vault" / "default" / "users" / "me" / "threads" / thread / f"{part:04d}.md"


def conflicts(home: Path) -> list[Path]:
    return sorted((home / "vault").rglob("*.conflict-*.md"))


def talk(server: Server, *threads: str) -> None:
    """Four messages a thread, all of them in the vault."""
    for thread in threads:
        add(server.client, thread, [message(f"{thread} says {n}", n) for n in range(4)])
    drained(server.client)


def save_in_place(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="")


def save_by_renaming(file: Path, text: str) -> None:
    beside = file.with_name(f".{file.name}.swp")
    beside.write_text(text, encoding="utf-8", newline="")
    beside.replace(file)


def edit(file: Path, old: str, new: str, save: Callable[[Path, str], None] = save_in_place) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    save(file, text.replace(old, new, 1))


def is_sound(home: Path) -> bool:
    verified = recollect_json(home, "verify")
    assert verified["ok"], verified
    return True


@pytest.mark.parametrize("save", [save_in_place, save_by_renaming])
def test_an_edited_turn_is_a_revision_within_two_seconds(
    tmp_path: Path, save: Callable[[Path, str], None]
) -> None:
    """The best of four: a busy machine may be late now and then."""
    with Server(tmp_path / "home", QUICK) as server:
        talk(server, *THREADS)
        before = coverage(server.client)
        waits = [seconds_to_revision(server, thread, save) for thread in THREADS]
        assert min(waits) < SEEN_SECONDS, waits
        drained(server.client)
        for thread in THREADS:
            assert "- edited: yes\n\n> Porto,\n> not Lisbon" in part_of(server.home, thread).read_text()
        assert conflicts(server.home) == []
        after = coverage(server.client)
        assert (after["missing"], after["doubled"]) == (0, 0)
        assert after["digest"] != before["digest"]
        assert is_sound(server.home)


def seconds_to_revision(server: Server, thread: str, save: Callable[[Path, str], None]) -> float:
    started = time.monotonic()
    edit(part_of(server.home, thread), f"> {thread} says 2", "> Porto,\n> not Lisbon", save)
    wait_until(
        lambda: contents(server.client, thread)[2] == "Porto,\nnot Lisbon",
        "the edit in the journal",
        every=0.1,
    )
    return time.monotonic() - started


@pytest.mark.slow
def test_edits_amid_new_messages_are_all_in_the_journal_or_kept_beside(tmp_path: Path) -> None:
    """A person edits one turn after another, whenever some more messages came in, and the file is written again."""
    edits, adds_per_edit = 20, 80
    batches = edits * adds_per_edit
    with Server(tmp_path / "home", {**QUICK, "RECOLLECT_TRANSCRIPT_DELAY_MS": "0"}) as server:
        add(server.client, "t1", [message(f"old words {number}", number) for number in range(edits)])
        drained(server.client)
        file = part_of(server.home, "t1")

        def keep_adding() -> None:
            for number in range(batches):
                add(server.client, "t1", [message(f"more {number}", edits + number)])
                added.release()

        added = threading.Semaphore(0)
        adding = threading.Thread(target=keep_adding)
        adding.start()
        for number in range(edits):
            for _ in range(adds_per_edit):
                assert added.acquire(timeout=30)
            save = save_by_renaming if number % 3 else save_in_place
            edit(file, f"> old words {number}\n", f"> new words {number}\n", save)
        adding.join()

        def lost() -> list[int]:
            held = contents(server.client, "t1")
            beside = "".join(kept.read_text() for kept in conflicts(server.home))
            new = [f"new words {number}" for number in range(edits)]
            return [n for n, words in enumerate(new) if held[n] != words and f"> {words}\n" not in beside]

        wait_until(lambda: not lost(), "every edit in the journal or beside", seconds=SEEN_SECONDS + 1)
        drained(server.client)
        assert lost() == []
        held = contents(server.client, "t1")
        assert held[edits:] == [f"more {number}" for number in range(batches)]
        assert is_sound(server.home)


@pytest.mark.parametrize("point", ["edits.seen", "edits.taken_in", "vault.renamed"])
def test_a_kill_amid_taking_in_leaves_one_revision_and_no_conflict(tmp_path: Path, point: str) -> None:
    home = tmp_path / "home"
    with Server(home, QUICK) as server:
        talk(server, "t1", "t2")
        server.stop()
    with Server(home, {**QUICK, "RECOLLECT_FAIL_POINT": point}) as server:
        edit(part_of(home, "t1"), "t1 says 2", "I meant Porto")
        assert server.wait_for_end() == SIGKILLED
    with Server(home, QUICK) as server:
        wait_until(lambda: contents(server.client, "t1")[2] == "I meant Porto", "the edit in the journal")
        drained(server.client)
        assert contents(server.client, "t1") == ["t1 says 0", "t1 says 1", "I meant Porto", "t1 says 3"]
        assert conflicts(home) == []
        assert is_sound(home)


def test_a_rebuild_over_a_journal_takes_in_what_was_edited_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server(home, QUICK) as server:
        talk(server, "t1", "t2")
        server.stop()
    edit(part_of(home, "t1"), "t1 says 2", "I meant Porto")
    assert recollect(home, "rebuild").returncode == 0
    assert "- edited: yes\n\n> I meant Porto" in part_of(home, "t1").read_text()
