"""Quotas: what a user and a key may use over time. Counted in this process alone: a restart resets the counts."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Literal

from recollect.domain.paths import owner_folder
from recollect.errors import DiskQuotaUsed, OverQuota, StorageUnavailable
from recollect.infra.metrics import Metrics
from recollect.infra.vault import Vault
from recollect.service.coordination import BackgroundLoop
from recollect.setting_groups import QuotaSettings

MOST_NAMES = 10_000
"""Users, or keys, whose use is remembered; whoever has been quiet for longest is forgotten first."""
MEASURE_SECONDS = 30.0
_MINUTE, _DAY = 60.0, 86_400.0
_MEBIBYTE = 1024 * 1024
_ROUNDING = 0.001
_log = logging.getLogger("recollect.quotas")
_GROWTH = 4
"""Upper bound of disk use per byte sent: the transcript and the entries made of it."""
Whose = Literal["user", "key"]
_WORDS = {
    "user_requests": "{} requests a minute are allowed for this user",
    "key_requests": "{} requests a minute are allowed with this key",
    "user_bytes": "{} bytes a minute are allowed in requests of this user",
    "key_bytes": "{} bytes a minute are allowed in requests with this key",
    "user_model_calls": "{} background model calls a day are allowed for this user",
    "user_disk_mb": "this user's files take up more than the {} MB that are allowed; delete something first",
}


class Buckets:
    """Token buckets by name, each of which fills evenly from empty to `limit` in `seconds`. 0: no limit.

    A bucket is one number, the time at which it is full (GCRA), so one that is full need not be kept.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit = limit
        self._seconds = seconds
        self._each = seconds / limit if limit else 0.0
        self._full_at: dict[Hashable, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def wait(self, name: Hashable, amount: int, now: float) -> float:
        """Seconds until so many tokens are there; 0: they are. More than the limit are there once it is full."""
        if not self.limit or not amount:
            return 0.0
        full_at = self._full_at.get(name, now)
        missing = full_at - now if full_at > now else 0.0
        wait = missing + (amount if amount < self.limit else self.limit) * self._each - self._seconds
        return wait if wait > _ROUNDING else 0.0

    def take(self, name: Hashable, amount: int, now: float) -> None:
        """Take tokens, or put some back, whether they are there or not: what is overdrawn has to fill first."""
        if not self.limit or not amount:
            return
        kept = self._full_at
        full_at = kept.pop(name, now)  # And to the end: the longest quiet are the first.
        kept[name] = (full_at if full_at > now else now) + amount * self._each
        if len(kept) > MOST_NAMES:
            filling = [each for each in kept.items() if each[1] > now]
            self._full_at = dict(filling[-MOST_NAMES // 2 :])


class Quotas:
    """The quotas of a server. What is refused is not counted, so waiting for `retry_after` is enough."""

    def __init__(
        self,
        settings: QuotaSettings,
        metrics: Metrics,
        *,
        on_loopback: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        def limit(name: str) -> int:
            return settings.in_force(name, on_loopback=on_loopback)

        self._clock = clock
        self._refused = metrics.over_quota
        self._buckets = {
            name: Buckets(limit(name), _DAY if name == "user_model_calls" else _MINUTE)
            for name in _WORDS
            if name != "user_disk_mb"
        }
        self._counted = {
            whose: (self._buckets[f"{whose}_requests"], self._buckets[f"{whose}_bytes"])
            for whose in ("user", "key")
        }
        self.disk_mb = limit("user_disk_mb")
        for name in _WORDS:
            metrics.quotas.labels(name).set(limit(name))
        self.full: Mapping[tuple[str, str], float] = {}
        """Users whose disk quota was used up when it was last measured, and when it is measured next."""
        self._room: dict[tuple[str, str], int] = {}
        """Bytes that users had left then, less what they may have stored since."""
        self.unmeasured: set[tuple[str, str]] = set()
        """Users who may have none left, or whose files were not measured yet."""

    def count(self, whose: Whose, name: Hashable, size: int) -> None:
        """Count a request with so many bytes in its body. Raises OverQuota."""
        now = self._clock()
        requests, sizes = self._counted[whose]
        waits = requests.wait(name, 1, now), sizes.wait(name, size, now)
        if wait := max(waits):
            raise self._refusal(f"{whose}_{'requests' if wait == waits[0] else 'bytes'}", wait)
        requests.take(name, 1, now)
        sizes.take(name, size, now)

    def take_back(self, key: Hashable) -> None:
        """Another quota refused the request: it does not count for its key."""
        self._buckets["key_requests"].take(key, -1, self._clock())

    def count_bytes(self, key: Hashable, size: int) -> None:
        """Bytes of a body whose length was not told before."""
        self._buckets["key_bytes"].take(key, size, self._clock())

    def model_call(self, space: str, user_id: str) -> Callable[[], None]:
        """Raises OverQuota where the user's background model calls are used up; else returns what counts one.

        Calls that run at the same time may overdraw it.
        """
        calls, name = self._buckets["user_model_calls"], (space, user_id)
        if wait := calls.wait(name, 1, self._clock()):
            raise self._refusal("user_model_calls", wait)
        return lambda: calls.take(name, 1, self._clock())

    def count_disk(self, space: str, user_id: str, size: int) -> None:
        """So many bytes are to be stored. Raises DiskQuotaUsed, with the time of the next measurement."""
        if not self.disk_mb:
            return
        user = space, user_id
        if (next_at := self.full.get(user)) is not None:
            raise self._refusal("user_disk_mb", max(1.0, next_at - self._clock()))
        if user in self._room:
            self._room[user] -= _GROWTH * size
        if self._room.get(user, 0) <= 0 and len(self.unmeasured) < MOST_NAMES:
            self.unmeasured.add(user)

    async def measure(self, vault: Vault) -> None:
        """Measure the files of users who may have no space left."""
        users, self.unmeasured = {*self.full, *self.unmeasured}, set()
        used = {user: await vault.bytes_below(owner_folder(*user)) for user in users}
        next_at = self._clock() + MEASURE_SECONDS
        room = {user: self.disk_mb * _MEBIBYTE - size for user, size in used.items()}
        self.full = {user: next_at for user, left in room.items() if left < 0}
        self._room = room if len(self._room) > MOST_NAMES else self._room | room

    def _refusal(self, name: str, wait: float) -> OverQuota:
        self._refused.labels(name).inc()
        limit = self.disk_mb if name == "user_disk_mb" else self._buckets[name].limit
        kind = DiskQuotaUsed if name == "user_disk_mb" else OverQuota
        setting = f"RECOLLECT_QUOTAS__{name.upper()}"
        return kind(
            f"{_WORDS[name].format(limit)} ({setting}); try again in {math.ceil(wait)} s", retry_after=wait
        )


class DiskUse(BackgroundLoop):
    """Measures what users store, where there is a quota for it."""

    def __init__(self, quotas: Quotas, vault: Vault) -> None:
        self._quotas = quotas
        self._vault = vault

    async def _run(self) -> None:
        while self._quotas.disk_mb:
            await asyncio.sleep(MEASURE_SECONDS)
            try:
                await self._quotas.measure(self._vault)
            except StorageUnavailable as error:
                _log.warning("disk use cannot be measured: %s", error.message)
