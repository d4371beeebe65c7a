"""The vault in S3 or a shared folder: an object per file, replaced only while it is what it was when it was looked at."""

import asyncio
import functools
import hashlib
import json
import logging
import secrets
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from recollect.domain.identity import text_digest
from recollect.domain.paths import is_markdown, is_note
from recollect.domain.vault_file import EMPTY, FileStamp, VaultFile
from recollect.errors import HomeUnusable, StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.objects import REMOVED, Changed, Found, Listed, Objects, conflict_path
from recollect.infra.vault_read import SUFFIX, decoded

P = ParamSpec("P")
R = TypeVar("R")
MARKER = ".recollect-vault"
"""Says which home the files belong to, and which process of it works there. Empty: the next home that comes."""
_GONE = "the vault is missing: bring it back, or rewrite it with 'recollect verify --repair'"
_THREADS, _TRIES = 8, 20
_log = logging.getLogger("recollect.vault")


class _Missing(StorageUnavailable):
    """The whole vault is missing."""


def off_loop(
    done: str, what: str = "the vault"
) -> Callable[[Callable[P, R]], Callable[P, Coroutine[Any, Any, R]]]:
    """Run a method in threads of the vault's own: where it hangs, nobody else waits for a thread."""

    def decorated(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(method)
        async def run(*args: P.args, **named: P.kwargs) -> R:
            self: Any = args[0]
            vault: ObjectVault = getattr(self, "vault", self)
            try:
                answer = await vault.in_thread(functools.partial(method, *args, **named))
            except _Missing:
                raise
            except StorageUnavailable as error:
                vault.failed = f"{what} cannot be {done}: {error.message}"
                raise StorageUnavailable(vault.failed) from error
            vault.failed = None
            return answer

        return run

    return decorated


class ObjectVault:
    """As `infra/vault.py` promises. Somebody who saves an object between our look and our write is not overwritten.

    The marker names the home that owns the prefix: another one is refused at its start, and a process whose place was
    taken writes no more once it has looked.
    """

    def __init__(
        self,
        objects: Objects,
        home_id: Callable[[], Awaitable[str]],
        *,
        takes_over: bool = False,
        fail_points: FailPoints | None = None,
    ) -> None:
        """With `takes_over`, what another home left there is taken: a person has said so."""
        self.objects = objects
        self._home_id = home_id
        self._takes_over = takes_over
        self._fail_points = fail_points or FailPoints()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="vault-objects")
        self._mark = ""
        self._mark_etag: str | None = None
        self._expected, self._is_probed = False, False
        self._missing: str | None = "the vault is not open"
        self.failed: str | None = None
        """Why the last request failed; None if it did not."""
        self.conflicts = 0

    @property
    def place(self) -> str:
        return self.objects.url

    async def in_thread(self, call: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def open(self, *, expected: bool) -> None:
        """Raises HomeUnusable where only a person can help: no such bucket, keys, or it belongs to another home."""
        self._mark = json.dumps({"home": await self._home_id(), "process": secrets.token_hex(8)})
        self._mark_etag, self._expected = None, expected
        self._missing = "the files were not reached since the start"
        try:
            await self._claimed()
        except StorageUnavailable as error:
            _log.error("%s; nothing is written there until it answers", error.message)

    @property
    def _was_ours(self) -> bool:
        """Whether this process had the prefix since it was opened."""
        return self._mark_etag is not None

    async def come_back(self) -> bool:
        """Look whether a missing vault is there again."""
        try:
            await self._claimed()
        except StorageUnavailable:
            return False  # `problem` says why.
        except HomeUnusable as error:
            self._missing = self._missing if self._was_ours else error.message
        except Exception:  # noqa: BLE001 - logged; whoever looks again and again must not end
            _log.exception("the vault could not be looked at")
            return False
        return self.is_there()

    @off_loop("reached")
    def _claimed(self) -> None:
        if is_new := not self._expected and not self._was_ours:
            self.objects.make()
        if not self._is_probed:
            self.objects.probe()
            self._is_probed = True
        self._claim(create=is_new)

    def _claim(self, *, create: bool) -> None:
        found = self.objects.get(MARKER)
        if found is None and not create:
            self._missing = _GONE
            return
        if found is not None and found.etag != self._mark_etag and not self._may_take(found):
            raise HomeUnusable(
                f"{self.place} belongs to another home: give this one a place of its own in RECOLLECT_FILES_URL."
                " If that home is gone for good, 'recollect rebuild --take' takes its files"
            )
        try:
            self._mark_etag = self.objects.put(
                MARKER, self._mark.encode(), None if found is None else found.etag
            )
        except Changed:
            again = self.objects.get(MARKER)
            if again is None or again.content != self._mark.encode():
                raise HomeUnusable(f"another process is taking {self.place} at this moment") from None
            self._mark_etag = again.etag
        self._missing = None

    def _may_take(self, found: Found) -> bool:
        if not found.content.strip():
            return True  # It was brought back, or nobody had it.
        if self._was_ours:
            return found.content == self._mark.encode()  # Whoever else has it since took it from us.
        return self._takes_over or _home_of(found) == json.loads(self._mark)["home"]

    @off_loop("read")
    def has_owner(self) -> bool:
        found = self.objects.get(MARKER)
        return found is not None and bool(found.content.strip())

    @off_loop("reached")
    def exists(self) -> bool:
        return any(True for _ in self._all())

    def _all(self) -> Iterator[Listed]:
        """Every file, where there may be no place for any yet."""
        return self.objects.list() if self.objects.is_made() else iter(())

    @off_loop("written")
    def recreate(self) -> None:
        self.objects.make()
        self._claim(create=True)

    async def fill(self, folder: Path) -> None:
        """The marker comes last, and empty: the next home that opens it owns it."""
        await self.in_thread(self.objects.make)
        files = await asyncio.to_thread(lambda: sorted(file for file in folder.rglob("*") if file.is_file()))
        for begin in range(0, len(files), _THREADS):
            some = [file for file in files[begin : begin + _THREADS] if file.name != MARKER]
            await asyncio.gather(*(self._take(file.relative_to(folder).as_posix(), file) for file in some))
        await self._leave_mark()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    @off_loop("written")
    def _take(self, path: str, file: Path) -> None:
        self.objects.replace(path, file.read_bytes())

    @off_loop("written")
    def _leave_mark(self) -> None:
        self.objects.replace(MARKER, b"")

    def problem(self) -> str | None:
        return self.failed or self._missing

    def keeps_copies(self) -> str | None:
        if not self.objects.keeps_versions:
            return None
        return (
            "the bucket keeps versions: what was forgotten stays in old versions until a lifecycle rule of the bucket"
            " removes them (NoncurrentVersionExpiration)"
        )

    def is_there(self) -> bool:
        """As the last listing of all files saw it."""
        return self._missing is None

    def refuse_if_missing(self) -> None:
        if not self.is_there():
            raise _Missing(self.problem())

    async def read(self, path: str) -> str | None:
        found = await self.look(path)
        return None if found is None else found.text

    @off_loop("read")
    def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        found = self.objects.get(path, limit)
        return None if found is None else _file(path, found)

    @off_loop("read")
    def is_blocked(self, path: str) -> bool:
        return self.objects.is_blocked(path)

    @off_loop("read")
    def stamps(self, folder: str = "") -> dict[str, FileStamp]:
        """Where all are listed, the marker is looked for among them: a vault that is gone has no files to miss."""
        found, mark = {}, None
        for path, etag, size in self.objects.list(folder):
            if path == MARKER:
                mark = etag
            elif is_markdown(path) and not _is_hidden(path) and not self._is_left(path, size):
                found[path] = _stamp(etag, size)
        if not folder:
            self._see_mark(mark)
        return found

    def _see_mark(self, etag: str | None) -> None:
        if etag != self._mark_etag and self.is_there():
            self._missing = (
                _GONE
                if etag is None
                else f"another process has taken {self.place}: stop one of the two, and restart this one"
            )
            _log.error("%s", self._missing)

    def _is_left(self, path: str, size: int) -> bool:
        """Whether a removal was interrupted here. It is brought to its end, if we may write."""
        return size == len(REMOVED) and self.is_there() and self.objects.finish_removal(path)

    @off_loop("read")
    def list_files(self, folder: str = "") -> list[str]:
        listed = [(path, size) for path, _, size in self.objects.list(folder) if path.endswith(SUFFIX)]
        return sorted(path for path, size in listed if not self._is_left(path, size))

    @off_loop("read")
    def holds_transcripts(self) -> bool:
        pattern = f"*/users/*/threads/*/*{SUFFIX}"
        return any(fnmatchcase(path, pattern) for path, _, _ in self._all())

    @off_loop("read")
    def bytes_below(self, folder: str) -> int:
        return sum(size for _, _, size in self.objects.list(folder))

    @off_loop("read")
    def sources(self) -> dict[str, Callable[[], bytes]]:
        """With an empty marker: whoever restores it, to a folder or elsewhere, owns it there."""
        found: dict[str, Callable[[], bytes]] = {
            path: functools.partial(self._content, path) for path, _, _ in self.objects.list()
        }
        return found | {MARKER: bytes}

    def _content(self, path: str) -> bytes:
        found = self.objects.get(path)
        if found is None:
            raise FileNotFoundError(path)
        return found.content

    @off_loop("written")
    def write(self, path: str, text: str, ours: frozenset[str]) -> str | None:
        conflict, _ = self._write(path, text, ours, insist=True)
        return conflict

    @off_loop("written")
    def write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None:
        _, theirs = self._write(path, text, ours, insist=False)
        return None if theirs is None else _file(path, theirs)

    def _write(
        self, path: str, text: str, ours: frozenset[str], *, insist: bool
    ) -> tuple[str | None, Found | None]:
        """Returns the conflict file that a person's version was kept as or, unless we `insist`, that version."""
        self.refuse_if_missing()
        content, digest, conflict = text.encode(), text_digest(text), None
        for _ in range(_TRIES):
            found = self.objects.get(path)
            if found is not None and found.digest == digest:
                return conflict, None  # Ours whose answer was lost, or a person's with the same text.
            if found is not None and found.digest not in ours:
                if not insist:
                    return None, found
                conflict = self._keep_beside(path, found)
            self._fail_points.reach("vault.synced")
            try:
                self.objects.put(path, content, None if found is None else found.etag)
            except Changed:
                continue
            self._fail_points.reach("vault.renamed")
            return conflict, None
        raise _changing()

    @off_loop("written")
    def keep_copy(self, path: str, digest: str) -> str | None:
        self.refuse_if_missing()
        found = self.objects.get(path)
        return None if found is None or found.digest != digest else self._keep_beside(path, found)

    def _keep_beside(self, path: str, found: Found) -> str:
        for digits in (8, 64):  # Once more where the one with the short name was changed since.
            kept = conflict_path(path, found.digest[:digits])
            try:
                self.objects.put(kept, found.content, None)
            except Changed:
                there = self.objects.get(kept)
                if there is not None and there.digest == found.digest:
                    return kept  # It was kept before.
                continue
            self.conflicts += 1
            _log.warning("%s was changed by hand; that version is kept as %s", path, kept)
            return kept
        raise _changing()

    @off_loop("written")
    def remove_folder(self, path: str) -> None:
        """Nobody asks whose they are when files are deleted: so the marker is looked at first."""
        self._see_mark(None if (mark := self.objects.get(MARKER)) is None else mark.etag)
        self.refuse_if_missing()
        self.objects.remove_leftovers(path)
        self.objects.delete([each.path for each in self.objects.list(path)])

    async def remove_empty_folder(self, path: str) -> None:
        """None is left: it goes with its last file."""

    @off_loop("written")
    def remove_file(self, path: str, ours: frozenset[str]) -> str | None:
        self.refuse_if_missing()
        conflict = None
        for _ in range(_TRIES):
            found = self.objects.get(path)
            if found is None:
                return conflict
            if found.digest not in ours and found.digest != EMPTY:
                conflict = self._keep_beside(path, found)
            try:
                self.objects.remove(path, found.etag, lambda: self._fail_points.reach("vault.emptied"))
            except Changed:
                continue
            return conflict
        raise _changing()

    @off_loop("written")
    def remove_leftovers(self, folder: str) -> None:
        self.objects.remove_leftovers(folder)


def _changing() -> StorageUnavailable:
    return StorageUnavailable("a file is changed again and again at this moment")


def _home_of(marker: Found) -> str | None:
    try:
        return str(json.loads(marker.content)["home"])
    except (ValueError, KeyError, TypeError):
        return None


def _file(path: str, found: Found) -> VaultFile:
    text, is_text = decoded(found.content, any_encoding=is_note(path))
    return VaultFile(
        text=text,
        digest=found.digest,
        lf_digest=found.lf_digest,
        modified=found.modified_ms,
        stamp=None if found.could_change_unseen else _stamp(found.etag, found.size),
        is_whole=found.is_whole and is_text,
    )


def _stamp(etag: str, size: int) -> FileStamp:
    return FileStamp(int.from_bytes(hashlib.sha256(etag.encode()).digest()[:8]), size)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))
