"""Presets and preferences in memory, behind both of their ports."""

from collections.abc import Callable
from dataclasses import replace

from recollect.domain.job import PEOPLE, people_lane
from recollect.domain.paths import preferences_path, preset_path
from recollect.domain.people import PREFERENCES, PRESET, PeopleFile, Preferences, Preset, preset_key
from recollect.service.ports import PeopleFileStore, PeopleStore
from tests.fakes import FakeClock, FakeJobRunner

Key = tuple[str, str, str]
"""Space, kind, and the preset's key or the user."""


class FakePeopleStore:
    """Every row is a file, as the journal knows it."""

    def __init__(self, jobs: FakeJobRunner, clock: FakeClock) -> None:
        self._jobs = jobs
        self._clock = clock
        self._rows: dict[Key, PeopleFile] = {}
        self.changes: list[Key] = []

    async def preset(self, space: str, name: str) -> Preset | None:
        holds = self._holds((space, PRESET, preset_key(name)))
        return holds if isinstance(holds, Preset) else None

    async def presets(
        self, space: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Preset]:
        begin = "" if after is None else preset_key(after)
        rows = [
            row.holds
            for key, row in sorted(self._rows.items())
            if key[:2] == (space, PRESET) and key[2] > begin
        ]
        return [holds for holds in rows if isinstance(holds, Preset)][:limit]

    async def change_preset(
        self, space: str, name: str, change: Callable[[Preset | None], Preset]
    ) -> tuple[Preset, bool]:
        before = await self.preset(space, name)
        after = change(before)
        if after != before:
            self._put((space, PRESET, preset_key(name)), after)
        return after, before is None

    async def delete_preset(self, space: str, name: str) -> bool:
        key = (space, PRESET, preset_key(name))
        if self._holds(key) is None:
            return False
        row = self._rows[key]
        self._rows[key] = replace(row, holds=None, revision=row.revision + 1)
        self.changes.append(key)
        await self.queue(row.path)
        return True

    async def preferences(self, space: str, user_id: str) -> Preferences:
        holds = self._holds((space, PREFERENCES, user_id))
        return holds if isinstance(holds, Preferences) else Preferences(space, user_id)

    async def change_preferences(
        self, space: str, user_id: str, change: Callable[[Preferences], Preferences]
    ) -> Preferences:
        before = await self.preferences(space, user_id)
        after = change(before)
        if after != before:
            self._put((space, PREFERENCES, user_id), after)
        return after

    async def forget_user(self, space: str, user_id: str) -> None:
        self._rows.pop((space, PREFERENCES, user_id), None)
        self._jobs.drop(people_lane(preferences_path(space, user_id)), [PEOPLE])
        self.changes.append((space, PREFERENCES, user_id))

    async def file(self, path: str) -> PeopleFile | None:
        key = self._key_of(path)
        return None if key is None else self._rows[key]

    async def files(self) -> list[PeopleFile]:
        return sorted(self._rows.values(), key=lambda row: row.path)

    async def path_of(self, holds: Preset | Preferences) -> str | None:
        row = self._rows.get(_key(holds))
        return None if row is None else row.path

    async def announce(self, path: str, writing: str) -> None:
        self._update(path, lambda row: replace(row, writing=writing))

    async def record(self, path: str, revision: int, digest: str) -> None:
        self._update(path, lambda row: replace(row, written=revision, digest=digest, writing=None))

    async def removed(self, path: str) -> None:
        key = self._key_of(path)
        if key is not None and self._rows[key].holds is None:
            del self._rows[key]
        self._update(path, _unwritten)

    async def take_in(self, path: str, holds: Preset | Preferences, digest: str) -> None:
        key, before = _key(holds), self._key_of(path)
        if before not in (None, key):
            assert before is not None
            del self._rows[before]
            self.changes.append(before)
        known = self._rows.get(key)
        revision = 1 if known is None else known.revision + 1
        self._rows[key] = PeopleFile(path, holds, revision, revision, digest)
        self.changes.append(key)

    async def let_go(self, path: str) -> bool:
        key = self._key_of(path)
        if key is None or not self._rows[key].is_written:
            return False
        del self._rows[key]
        self.changes.append(key)
        return True

    async def write_anew(self, path: str) -> None:
        self._update(path, _unwritten)
        await self.queue(path)

    async def queue(self, path: str) -> None:
        key = self._key_of(path)
        space = path.partition("/")[0] if key is None else key[0]
        self._jobs.queue(PEOPLE, people_lane(path), space, None, self._clock(), {"path": path})

    def _holds(self, key: Key) -> Preset | Preferences | None:
        row = self._rows.get(key)
        return None if row is None else row.holds

    def _key_of(self, path: str) -> Key | None:
        return next((key for key, row in self._rows.items() if row.path == path), None)

    def _update(self, path: str, change: Callable[[PeopleFile], PeopleFile]) -> None:
        key = self._key_of(path)
        if key is not None:
            self._rows[key] = change(self._rows[key])

    def _put(self, key: Key, holds: Preset | Preferences) -> None:
        known = self._rows.get(key)
        if known is None:
            self._rows[key] = PeopleFile(self._free_path(holds), holds, 1)
        else:
            self._rows[key] = replace(known, holds=holds, revision=known.revision + 1)
        self.changes.append(key)
        path = self._rows[key].path
        self._jobs.queue(PEOPLE, people_lane(path), key[0], None, self._clock(), {"path": path})

    def _free_path(self, holds: Preset | Preferences) -> str:
        if isinstance(holds, Preferences):
            return preferences_path(holds.space, holds.user_id)
        path, number = preset_path(holds.space, holds.key), 1
        while self._key_of(path) is not None:
            number += 1
            path = preset_path(holds.space, f"{holds.key}-{number}")
        return path


def _unwritten(row: PeopleFile) -> PeopleFile:
    return replace(row, written=0, digest=None, writing=None)


def _key(holds: Preset | Preferences) -> Key:
    if isinstance(holds, Preset):
        return holds.space, PRESET, holds.key
    return holds.space, PREFERENCES, holds.user_id


def _the_fake_has_its_ports(fake: FakePeopleStore) -> None:
    """Read by mypy alone."""
    _1: PeopleStore = fake
    _2: PeopleFileStore = fake
