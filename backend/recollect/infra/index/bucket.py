"""The index in S3 or a shared folder, for a home that one server after another leads.

Whoever leads writes tables of its own: `<generation>/<owner>/<term>-<number>.lance`. What a former leader, which does
not know yet that it is one, still writes goes into tables that nobody reads any more.
"""

import itertools
import json
import logging
import secrets
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.errors import StorageUnavailable
from recollect.infra.index.places import LEADER, LIVE, TERM, IndexFolder, Place, table_names
from recollect.infra.object_stores import objects_at
from recollect.infra.objects import INDEX, Changed, Objects
from recollect.settings import Settings

if TYPE_CHECKING:
    import lancedb

_SUFFIX = ".lance"
_DOWN_SECONDS = 3.0
"""For so long nothing is asked of what just did not answer: whoever waits is told at once."""
_SIZE_SECONDS = 60.0
_TAKEN = "another server has taken the index"
_log = logging.getLogger("recollect.index")


def index_place(settings: Settings) -> Place:
    """Beside the files where another server may lead next, with a home of its own; else in the home."""
    if settings.member_url is None or settings.files_url is None:
        return IndexFolder(settings.index_path)
    return IndexBucket(objects_at(settings.files_url, INDEX), settings.index_path)


class IndexBucket:
    """Below one prefix. `live.json` names the term of the process that leads, beside the live generation."""

    patience: float | None = 30.0
    fewest_texts = 16

    def __init__(self, objects: Objects, former: Path | None = None) -> None:
        """`former` is the folder of the time when the home had one: it goes, since nothing is forgotten there."""
        self._former = former
        self.objects = objects
        self.term = ""
        self._nonce = secrets.token_hex(8)
        """Beside the term, so that of two who choose the same term at the same moment only one leads."""
        self.made: dict[tuple[str, str], str | None] = {}
        """By generation and owner, the table that was found first since `open`, or made last; None where there was none,
        or it was dropped. Nothing else that a former leader makes counts there any more."""
        self.numbers = itertools.count(1)
        self._live_etag: str | None = None
        self._down_until, self._down = 0.0, "its place did not answer at the start"
        self._size, self._size_until = (0, 0), 0.0

    @property
    def mark(self) -> str:
        return f"-{self.term}"

    def open(self) -> None:
        found = self.objects.get(LIVE)
        there = _object(found.content if found is not None else b"{}") or {}
        last = there.get(TERM)
        # In seconds since 1970, so that it grows even if the file was lost.
        term = max(int(time.time()), 1 + int(last) if isinstance(last, str) and last.isdigit() else 0)
        self.term = f"{term:011d}"
        self.made.clear()
        self._live_etag = None if found is None else found.etag
        try:
            self.replace_live({name: value for name, value in there.items() if name not in (TERM, LEADER)})
        except BaseException:
            self.term = ""
            raise
        if self._former is not None:
            shutil.rmtree(self._former, ignore_errors=True)

    def refuse_while_down(self) -> None:
        if not self.term or time.monotonic() < self._down_until:
            raise StorageUnavailable(self._down)

    def went_down(self, why: str) -> None:
        self._down_until, self._down = time.monotonic() + _DOWN_SECONDS, why

    def read(self, path: str) -> bytes | None:
        found = self.objects.get(path)
        return None if found is None else found.content

    def replace(self, path: str, content: bytes) -> None:
        self._refuse_if_taken()
        self.objects.replace(path, content)

    def replace_live(self, content: dict[str, Any]) -> None:
        new = json.dumps(content | {TERM: self.term, LEADER: self._nonce}).encode()
        try:
            self._live_etag = self.objects.put(LIVE, new, self._live_etag)
        except Changed as error:
            there = self.objects.get(LIVE)  # Ours, whose answer was lost; or somebody deleted it.
            if there is not None and there.content != new:
                raise StorageUnavailable(_TAKEN) from error
            self._live_etag = self.objects.put(LIVE, new, None) if there is None else there.etag

    def remove(self, path: str) -> None:
        self._refuse_if_taken()
        self.objects.delete([path])

    def remove_all(self, folder: str) -> None:
        self._refuse_if_taken()
        self.objects.delete([each.path for each in self.objects.list(folder)])

    def _refuse_if_taken(self) -> None:
        live = self.read(LIVE)
        if live is not None and ((_object(live) or {}).get(TERM) or self.term) != self.term:
            raise StorageUnavailable(_TAKEN)

    def folders(self) -> list[str]:
        return self.objects.folders()

    def size(self) -> tuple[int, int]:
        """As it was a minute ago, at most; the last that is known while nothing answers."""
        if time.monotonic() >= self._size_until:
            with suppress(StorageUnavailable):
                sizes = [each.size for each in self.objects.list()]
                self._size = len(sizes), sum(sizes)
            self._size_until = time.monotonic() + _SIZE_SECONDS
        return self._size

    def tables(self, generation: str) -> list[str]:
        names = table_names(self.objects.folders(generation))
        return [name for name in names if self.made.get((generation, name), name) is not None]

    def all_tables(self) -> list[tuple[str, str]]:
        parts = (each.path.split("/") for each in self.objects.list())
        return sorted({(part[0], part[1]) for part in parts if len(part) > 3})

    def table(self, generation: str, name: str) -> "TablePrefix":
        return TablePrefix(self, generation, name)


class TablePrefix:
    """A table is there as soon as it has a manifest, which LanceDB writes last, and only where none of that number is."""

    fewest_files = 32

    def __init__(self, bucket: IndexBucket, generation: str, name: str) -> None:
        self._bucket, self._key = bucket, (generation, name)
        self._prefix = f"{generation}/{name}"
        self._current: str | None = None
        self._durable: set[str] = set()

    def connect(self, session: Any) -> "lancedb.DBConnection":
        import lancedb

        place, options = self._bucket.objects.for_lance()
        return lancedb.connect(f"{place}/{self._prefix}", storage_options=options, session=session)

    def current(self) -> str | None:
        self._current = max(filter(self._counts, _tables(self._paths())), default=None)
        self._bucket.made.setdefault(self._key, self._current)
        return self._current

    def is_ours(self) -> bool:
        return self._current is not None and self._current.startswith(self._bucket.term)

    def last_known_version(self) -> int:
        return 0

    def begin(self) -> str:
        return f"{self._bucket.term}-{next(self._bucket.numbers):06d}"

    def put_in_place(self, name: str) -> None:
        self._current = name
        self._bucket.made[self._key] = name
        self.remove_leftovers()

    def settle(self) -> int:
        files = {each.path for each in self._bucket.objects.list(f"{self._prefix}/{self._current}{_SUFFIX}")}
        self._sync(files)
        return len(files)

    def _sync(self, files: set[str]) -> None:
        self._bucket.objects.sync(files - self._durable)
        self._durable = files

    def opened(self) -> None: ...

    def files_in(self, folder: str, suffix: str = "") -> list[str]:
        begin = f"{self._prefix}/{self._current}{_SUFFIX}/{folder}"
        paths = (each.path for each in self._bucket.objects.list(begin))
        return [path.rpartition("/")[2] for path in paths if path.endswith(suffix)]

    def remove(self) -> None:
        self._current = None
        self._bucket.made[self._key] = None
        self.remove_leftovers()

    def remove_leftovers(self) -> None:
        paths = self._paths()
        kept = {path for path in paths if path.startswith(f"{self._prefix}/{self._current}{_SUFFIX}/")}
        self._sync(kept)  # Before what it replaces goes.
        others = [path for path in paths if path not in kept]
        _delete(self._bucket.objects, [path for path in others if not self._is_later(path.split("/")[2])])

    def names(self) -> list[str]:
        """Here alone a former leader's tables are found that nobody reads any more: they go."""
        if self.current() is None or self.is_ours():
            self.remove_leftovers()
        return _tables(self._paths())

    def is_unreachable(self, error: BaseException) -> bool:
        return isinstance(error, StorageUnavailable) or self._bucket.objects.is_down(str(error))

    def _counts(self, name: str) -> bool:
        return self._bucket.made.get(self._key, name) == name and not self._is_later(name)

    def _is_later(self, name: str) -> bool:
        """Made by a later leader than this process, which does not know yet that it leads no more."""
        return name.partition("-")[0] > self._bucket.term

    def _paths(self) -> list[str]:
        return [each.path for each in self._bucket.objects.list(self._prefix)]


def _delete(objects: Objects, paths: list[str]) -> None:
    """Manifests last, so that no older version is taken for the newest one in between."""
    manifests = [path for path in paths if path.endswith(".manifest")]
    objects.delete([path for path in paths if not path.endswith(".manifest")])
    objects.delete(manifests)


def _tables(paths: Iterable[str]) -> list[str]:
    """Those that have a manifest."""
    found = {path.split("/")[2] for path in paths if path.endswith(".manifest")}
    return sorted(name.removesuffix(_SUFFIX) for name in found)


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
