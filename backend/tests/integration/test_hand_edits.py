"""People edit, remove and add files of the vault while a real server runs, and while none does."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.http_client import QUICK, add, contents, coverage, drained, message, thread_path, turns
from tests.processes import Server, recollect, recollect_json, wait_until

SEEN_SECONDS = 2.0
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
    with Server(tmp_path / "home", QUICK) as server:
        talk(server, "t1", "t2")
        before = coverage(server.client)
        edit(part_of(server.home, "t1"), "> t1 says 2", "> Porto,\n> not Lisbon", save)
        wait_until(
            lambda: contents(server.client, "t1")[2] == "Porto,\nnot Lisbon",
            "the edit in the journal",
            seconds=SEEN_SECONDS,
        )
        drained(server.client)
        assert "- edited: yes\n\n> Porto,\n> not Lisbon" in part_of(server.home, "t1").read_text()
        assert conflicts(server.home) == []
        after = coverage(server.client)
        assert (after["missing"], after["doubled"]) == (0, 0)
        assert after["digest"] != before["digest"]
        assert is_sound(server.home)


def test_an_edit_made_while_no_server_runs_is_taken_in_at_the_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server(home, QUICK) as server:
        talk(server, "t1", "t2")
        server.stop()
    edit(part_of(home, "t1"), "t1 says 2", "I meant Porto")
    with Server(home, QUICK) as server:
        wait_until(
            lambda: contents(server.client, "t1")[2] == "I meant Porto", "the edit in the journal", seconds=5
        )
        drained(server.client)
        assert conflicts(home) == []
        assert is_sound(home)


def test_a_title_changed_by_hand_is_the_threads_title(tmp_path: Path) -> None:
    with Server(tmp_path / "home", QUICK) as server:
        talk(server, "t1", "t2")
        edit(part_of(server.home, "t1"), "part: 1\n", "part: 1\ntitle: Porto\ntags: [family, trip]\n")
        wait_until(
            lambda: server.client.get(thread_path("t1")).json()["title"] == "Porto",
            "the title",
            seconds=SEEN_SECONDS,
        )
        drained(server.client)
        assert server.client.get(thread_path("t1")).json()["tags"] == ["family", "trip"]
        assert conflicts(server.home) == []
        assert is_sound(server.home)


def test_a_turn_removed_by_hand_is_restored_and_reported(tmp_path: Path) -> None:
    with Server(tmp_path / "home", QUICK) as server:
        talk(server, "t1", "t2")
        file = part_of(server.home, "t1")
        whole = file.read_text()
        start, end = (
            whole.index(f"## user · ann · {time}") for time in ("2026-02-02T02:40:01", "2026-02-02T02:40:02")
        )
        save_in_place(file, whole[:start] + whole[end:])
        wait_until(lambda: file.read_text() == whole, "the turn is back", seconds=SEEN_SECONDS)
        drained(server.client)
        assert "turns removed by hand are back: t-2" in server.errors()
        assert [kept.read_text() for kept in conflicts(server.home)] == [whole[:start] + whole[end:]]
        assert is_sound(server.home)


def test_a_file_removed_by_hand_is_restored_and_reported(tmp_path: Path) -> None:
    with Server(tmp_path / "home", QUICK) as server:
        talk(server, "t1", "t2", "t3")
        file = part_of(server.home, "t1")
        whole = file.read_text()
        file.unlink()
        wait_until(file.exists, "the file is back", seconds=SEEN_SECONDS)
        drained(server.client)
        assert file.read_text() == whole
        assert "0001.md: was removed by hand and is written anew" in server.errors()
        assert is_sound(server.home)


def test_a_folder_renamed_by_hand_is_restored_and_the_copy_is_noted(tmp_path: Path) -> None:
    with Server(tmp_path / "home", QUICK) as server:
        talk(server, "t1", "t2", "t3")
        folder = part_of(server.home, "t1").parent
        folder.rename(folder.with_name("my-t1"))
        wait_until(lambda: part_of(server.home, "t1").exists(), "the file is back", seconds=SEEN_SECONDS)
        drained(server.client)
        assert part_of(server.home, "my-t1").exists()
        assert any("my-t1/0001.md" in note for note in recollect_json(server.home, "verify")["notes"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n## user", "\nmy own remark\n\n## user"),
        ("---\nrecollect: 1", "recollect: 1"),
        ("- id: ", "- id: x"),
    ],
    ids=["stray text", "front matter", "message id"],
)
def test_what_cannot_be_taken_in_is_kept_beside(tmp_path: Path, old: str, new: str) -> None:
    with Server(tmp_path / "home", QUICK) as server:
        talk(server, "t1", "t2")
        file = part_of(server.home, "t1")
        whole = file.read_text()
        edit(file, old, new)
        theirs = file.read_text()
        wait_until(lambda: file.read_text() == whole, "our form is back", seconds=SEEN_SECONDS)
        drained(server.client)
        assert [kept.read_text() for kept in conflicts(server.home)] == [theirs]
        assert contents(server.client, "t1") == [f"t1 says {n}" for n in range(4)]
        assert "not taken in" in server.errors()
        assert is_sound(server.home)


@pytest.mark.slow
def test_edits_amid_new_messages_are_all_in_the_journal_or_kept_beside(tmp_path: Path) -> None:
    """A person edits one turn after another, whenever some more messages came in, and the file is written anew."""
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
        assert server.wait_for_end(20) == SIGKILLED
    with Server(home, QUICK) as server:
        wait_until(
            lambda: contents(server.client, "t1")[2] == "I meant Porto", "the edit in the journal", seconds=5
        )
        drained(server.client)
        assert contents(server.client, "t1") == ["t1 says 0", "t1 says 1", "I meant Porto", "t1 says 3"]
        assert conflicts(home) == []
        assert is_sound(home)


def test_a_rebuild_brings_back_edits_and_their_mark(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server(home, QUICK) as server:
        talk(server, "t1", "t2")
        edit(part_of(home, "t1"), "t1 says 2", "I meant Porto")
        wait_until(
            lambda: contents(server.client, "t1")[2] == "I meant Porto", "the edit", seconds=SEEN_SECONDS
        )
        drained(server.client)
        before, digest = turns(server.client, "t1"), coverage(server.client)["digest"]
        server.stop()
    text = part_of(home, "t1").read_text()
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (home / name).unlink(missing_ok=True)
    assert recollect(home, "rebuild").returncode == 0
    with Server(home, QUICK) as server:
        drained(server.client)
        assert turns(server.client, "t1") == before
        assert coverage(server.client)["digest"] == digest
        assert part_of(home, "t1").read_text() == text
        assert is_sound(home)


def test_a_rebuild_over_a_journal_takes_in_what_was_edited_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server(home, QUICK) as server:
        talk(server, "t1", "t2")
        server.stop()
    edit(part_of(home, "t1"), "t1 says 2", "I meant Porto")
    assert recollect(home, "rebuild").returncode == 0
    assert "- edited: yes\n\n> I meant Porto" in part_of(home, "t1").read_text()


def test_a_copy_of_the_vault_taken_back_brings_old_words_back(tmp_path: Path) -> None:
    """An older version of a file that comes back is an edit like any other."""
    home = tmp_path / "home"
    with Server(home, QUICK) as server:
        talk(server, "t1", "t2")
        file = part_of(home, "t1")
        shutil.copy(file, tmp_path / "saved.md")
        edit(file, "t1 says 2", "I meant Porto")
        wait_until(
            lambda: contents(server.client, "t1")[2] == "I meant Porto", "the edit", seconds=SEEN_SECONDS
        )
        drained(server.client)
        shutil.copy(tmp_path / "saved.md", file)
        wait_until(
            lambda: contents(server.client, "t1")[2] == "t1 says 2", "the old words", seconds=SEEN_SECONDS
        )
        drained(server.client)
        assert is_sound(home)
