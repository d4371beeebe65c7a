"""What forgetting needs of the world."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from recollect.domain.forgetting import Forgotten, Task


class ForgettingStore(Protocol):
    """Forgets in the journal. Each call is all or nothing, and queues the jobs that finish what it began."""

    async def forget_turns(
        self, space: str, thread_id: str, turn_ids: Sequence[str], *, answers: bool = False
    ) -> Forgotten:
        """Raises NotFound for a turn that is not there, Conflict for one that is still being written."""
        ...

    async def turns_to_forget(
        self, space: str, thread_id: str, turn_ids: Sequence[str], *, answers: bool = False
    ) -> tuple[str, ...]:
        """Those that `forget_turns` would forget now. Raises what that would raise, and changes nothing."""
        ...

    async def forget_user(self, space: str, user_id: str) -> Forgotten: ...
    async def forget_note(self, space: str, user_id: str, path: str, digest: str) -> None: ...
    async def forget_quotes(self, space: str, user_id: str, path: str) -> None:
        """Prompts that quote a note, by its path."""
        ...

    async def waits_for(self, task: Task) -> str | None: ...
    async def forget_late(self, task: Task) -> None: ...
    async def forget_owner(self, space: str, user_id: str) -> None: ...
    async def tombstones_of(self, space: str, user_id: str) -> dict[str, list[tuple[int, str]]]: ...
    async def queue_overwriting(self, space: str) -> None: ...
    async def skills_are_waiting(self) -> bool: ...
    async def overwrite(self) -> None: ...


class ForgettingIndex(Protocol):
    """Leaves no byte of what is forgotten in any generation of the index, old versions of its tables included."""

    async def forget_turns(
        self, space: str, user_id: str, thread_id: str, numbers: Sequence[int]
    ) -> None: ...
    async def forget_entries(self, owner: str, entry_ids: Sequence[str]) -> None: ...
    async def forget_note(self, owner: str, path: str) -> None: ...
    async def forget_user(self, space: str, user_id: str) -> None: ...


class LeftoverRemover(Protocol):
    """Removes what killed writes of an earlier process left in a folder of the vault."""

    def __call__(self, folder: str) -> Awaitable[None]: ...


ForgetImages = Callable[[str, str], Awaitable[None]]
"""Removes those of a space's user that nothing refers to any more."""


async def no_leftovers(folder: str) -> None:
    """For vaults that no write is killed in."""
