"""Images: taken out of a message before it is journalled, put back at the last moment before it is sent.

A file is there before a turn that refers to it is accepted, and goes when the last turn that does is forgotten.
Both happen under one lock for each owner, so that no image is forgotten while somebody is about to show it again.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from recollect.domain.access import Caller
from recollect.domain.images import (
    TakenOut,
    data_url,
    image_parts,
    image_url,
    is_content_of,
    is_image_name,
    links,
    put_back,
    reference,
    references_in,
    referred_image,
    replaced_texts,
    take_out,
)
from recollect.domain.model import JsonObject, NewTurn, Turn
from recollect.domain.paths import owner_folder
from recollect.errors import InvalidInput, NotFound
from recollect.infra.addresses import Addresses
from recollect.infra.image_files import ImageFiles
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.vault import Vault
from recollect.service.coordination import OwnerLocks
from recollect.service.threads import DEFAULT_USER, add_turn, owned_thread

_LEAST_TELLING = 32
"""Characters of base64: a shorter text could be anything, such as the name of a role."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Turns with references in place of images, and what they show."""

    turns: tuple[NewTurn, ...]
    images: dict[str, bytes] = field(default_factory=dict)
    referred: dict[str, str] = field(default_factory=dict)
    """Images that have to be there already: by name, where in the request they stand."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Messages as a backend gets them."""

    messages: list[JsonObject]
    missing: tuple[str, ...] = ()
    """References to images that are no longer there: the model is told so in words."""
    sent: dict[str, str] = field(default_factory=dict)
    """What stands for each image on the wire, in any engine's shape, and its reference."""

    def receipt(self) -> JsonObject:
        return {"images": {"missing": list(self.missing)}} if self.missing else {}

    def referring(self, payload: JsonObject | None) -> JsonObject | None:
        """A request as it is written down: with references again."""
        if payload is None or not self.sent:
            return payload
        referring: JsonObject = replaced_texts(payload, self.sent)
        return referring


class Images:
    """The images of all users."""

    def __init__(
        self,
        store: ImageFiles,
        threads: SqlThreadStore,
        vault: Vault,
        addresses: Addresses,
    ) -> None:
        self._addresses = addresses
        self._store = store
        self._threads = threads
        self._vault = vault
        self._locks = OwnerLocks()

    async def taken_out(
        self, threads: SqlThreadStore, space: str, thread_id: str, turns: Sequence[NewTurn]
    ) -> Shown:
        """Nothing is written yet. An incognito thread leaves no file: there, images stay in the turn itself.

        Raises InvalidInput, which names the part, for what is no image, and for a link into this network.
        """
        given = tuple(turns)
        if not any(turn.parts for turn in given):
            return Shown(given)
        for turn in given:
            for place, url in links(turn.parts or ()):
                try:
                    await self._addresses.check(url)
                except ValueError as error:
                    raise InvalidInput(f"{place}: {error}", field=place) from None
        thread = await threads.get_thread(thread_id, space=space)
        if thread is not None and thread.incognito:
            return Shown(given)
        return await asyncio.to_thread(_taken_out, given)

    @asynccontextmanager
    async def kept(
        self, threads: SqlThreadStore, caller: Caller, thread_id: str, user_id: str | None, shown: Shown
    ) -> AsyncIterator[None]:
        """What is shown is durable, and nobody forgets it while the block runs.

        Raises InvalidInput for a reference to what is not there, NotFound for a thread that is not the caller's.
        """
        if not shown.images and not shown.referred:
            yield
            return
        space, user_id = caller.space, await _owner(threads, caller, thread_id, user_id)
        async with self._locks.of(owner_folder(space, user_id)):
            if shown.referred:
                there = await self._store.names(space, user_id)
                for name, place in shown.referred.items():
                    if name not in there and name not in shown.images:
                        raise InvalidInput(f"{place}: there is no image {reference(name)}", field=place)
            for name, content in shown.images.items():
                await self._store.keep(space, user_id, name, content)
            yield

    async def opened(self, space: str, user_id: str, messages: Sequence[JsonObject]) -> Opened:
        """The same data URLs that were sent to us, byte for byte: a prompt's prefix stays what it was."""
        urls: dict[str, str] = {}
        sent: dict[str, str] = {}
        missing: list[str] = []
        wanted = dict.fromkeys(image_url(part) or "" for part in image_parts(messages))
        for url in wanted:
            name = referred_image(url)
            content = None if name is None else await self._store.read(space, user_id, name)
            wire = None
            if name is not None and content is not None:
                wire = await asyncio.to_thread(_on_the_wire, name, content)
            if name is None or wire is None:
                missing.append(url)
                continue
            urls[name] = next(iter(wire))
            sent |= dict.fromkeys(wire, url)
        if not wanted:
            return Opened(list(messages))
        return Opened(put_back(messages, urls), tuple(missing), sent)

    async def shown(
        self, threads: SqlThreadStore, caller: Caller, thread_id: str, user_id: str | None, name: str
    ) -> bytes:
        """An image of a thread's owner. Raises NotFound where there is none, or not for this caller."""
        thread = await owned_thread(threads, caller, thread_id, user_id)
        content = None
        if is_image_name(name):
            content = await self._store.read(caller.space, thread.user_id, name)
        if content is None or not await asyncio.to_thread(is_content_of, name, content):
            raise NotFound(f"there is no image {name!r}")
        return content

    async def forget_unused(self, space: str, user_id: str) -> None:
        """Remove the images that no turn of the user refers to any more.

        Transcripts are asked too: one that could not be read into the journal still holds its turns.
        """
        async with self._locks.of(owner_folder(space, user_id)):
            unused = await self._store.names(space, user_id)
            if unused:
                unused -= await self._threads.images_shown(space, user_id)
            for path in await self._vault.list_files(owner_folder(space, user_id)) if unused else ():
                unused -= references_in(await self._vault.read(path) or "")
            if unused:
                await self._store.remove(space, user_id, unused)


async def add_turn_with_images(
    threads: SqlThreadStore,
    images: Images,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    turn: NewTurn,
) -> tuple[Turn, bool]:
    """Append one turn as `threads.add_turn` does; what it shows becomes files first."""
    shown = await images.taken_out(threads, caller.space, thread_id, (turn,))
    async with images.kept(threads, caller, thread_id, user_id, shown):
        return await add_turn(threads, caller, thread_id, user_id, shown.turns[0])


async def _owner(threads: SqlThreadStore, caller: Caller, thread_id: str, user_id: str | None) -> str:
    """In whose folder images of a thread lie: its owner's, or that of the user it is opened for.

    Raises NotFound for a thread that is not the caller's: nobody writes into another's folder.
    """
    acting = caller.acting_for(user_id)
    thread = await threads.get_thread(thread_id, space=caller.space)
    if thread is None:
        return acting or DEFAULT_USER
    if acting is not None and thread.user_id != acting:
        raise NotFound(f"there is no thread {thread_id!r}")
    return thread.user_id


def _taken_out(turns: tuple[NewTurn, ...]) -> Shown:
    shown = Shown(())
    changed = []
    for turn in turns:
        taken = take_out(turn.parts) if turn.parts else TakenOut([])
        shown.images.update(taken.images)
        shown.referred.update(taken.referred)
        changed.append(replace(turn, parts=taken.parts) if turn.parts else turn)
    return replace(shown, turns=tuple(changed))


def _on_the_wire(name: str, content: bytes) -> dict[str, None] | None:
    """What an engine may take for an image: the data URL, or its base64 alone. None where it is damaged.

    Keys of a dict, because to hash them takes as long as to make them.
    """
    if not is_content_of(name, content):
        return None
    url = data_url(name, content)
    encoded = url.partition(",")[2]
    return dict.fromkeys([url, encoded] if len(encoded) >= _LEAST_TELLING else [url])
