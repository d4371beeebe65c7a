"""The one fake of each port that has to do with images."""

from recollect.domain.images import is_image_name, references_in
from recollect.errors import StorageUnavailable
from recollect.service.ports import ImageReferences, ImageStore
from tests.fakes import FakeJournal


class FakeImageStore:
    """Images by owner and name. `broken` says why nothing can be written, or listed to be forgotten."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str, str], bytes] = {}
        self.broken: str | None = None

    async def keep(self, space: str, user_id: str, name: str, content: bytes) -> None:
        self._check(name)
        self.files[space, user_id, name] = content

    async def read(self, space: str, user_id: str, name: str) -> bytes | None:
        _refuse_foreign(name)
        return self.files.get((space, user_id, name))

    async def names(self, space: str, user_id: str) -> set[str]:
        self._check()
        return {name for owner_space, owner, name in self.files if (owner_space, owner) == (space, user_id)}

    async def remove(self, space: str, user_id: str, names: set[str]) -> None:
        self._check(*names)
        for name in names:
            self.files.pop((space, user_id, name), None)

    def _check(self, *names: str) -> None:
        for name in names:
            _refuse_foreign(name)
        if self.broken is not None:
            raise StorageUnavailable(self.broken)


def _refuse_foreign(name: str) -> None:
    if not is_image_name(name):
        raise ValueError(f"{name!r} is no name of an image")


class FakeImageReferences:
    """Reads all turns of a fake journal."""

    def __init__(self, journal: FakeJournal) -> None:
        self._threads = journal.threads

    async def referred(self, space: str, user_id: str) -> set[str]:
        return {
            name
            for thread in await self._threads.list_threads(space=space, user_id=user_id)
            for turn in await self._threads.get_history(thread.thread_id, space=space)
            for name in references_in(str(turn.parts))
        }


def _each_fake_has_its_port(journal: FakeJournal) -> None:
    """mypy holds each fake against its port here."""
    _images: ImageStore = FakeImageStore()
    _references: ImageReferences = FakeImageReferences(journal)
