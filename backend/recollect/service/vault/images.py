"""Images: taken out of a message before it is journalled, put back at the last moment before it is sent.

A file is there before a turn that refers to it is accepted, and goes when the last turn that does is forgotten.
Both happen under one lock for each owner, so that no image is forgotten while somebody is about to show it again.
The file of a forgotten image that comes back, by an old copy of the vault, is none: only showing it again makes it one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from recollect.domain.access import Caller
from recollect.domain.images import (
    TakenOut,
    data_url,
    image_parts,
    image_url,
    images_folder,
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
from recollect.domain.model import Append, JsonObject, NewTurn, ThreadRef, Turn
from recollect.domain.paths import owner_folder
from recollect.errors import InvalidInput, NotFound
from recollect.infra.addresses import Addresses
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.vault import Images as ImageStore
from recollect.infra.vault import Vault
from recollect.service.coordination import OwnerLocks
from recollect.service.threads import add_turn, owned_thread
from recollect.service.vault.reader import EditReports

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
        store: ImageStore,
        threads: SqlThreadStore,
        versions: SqlTranscriptStore,
        vault: Vault,
        addresses: Addresses,
        reports: EditReports,
    ) -> None:
        self._addresses = addresses
        self._store = store
        self._threads = threads
        self._versions = versions
        self._vault = vault
        self._reports = reports
        self._locks = OwnerLocks()

    async def taken_out(self, ref: ThreadRef, turns: Sequence[NewTurn]) -> Shown:
        """Nothing is written yet. An incognito thread leaves no file: there, images stay in the turn itself.

        Raises InvalidInput, which names the part, for what is no image, and for a link into this network.
        """
        given = tuple(turns)
        if not any(turn.parts for turn in given):
            return Shown(given)
        linked = await asyncio.to_thread(_links, given)
        await self._addresses.check(linked, (ref.space, ref.user_id))
        thread = await self._threads.find(ref)
        if thread is not None and thread.incognito:
            return Shown(given)
        return await asyncio.to_thread(_taken_out, given)

    @asynccontextmanager
    async def kept(self, thread: ThreadRef, shown: Shown) -> AsyncIterator[None]:
        """What is shown is durable, in the folder of the thread's user, and nobody forgets it while the block runs.

        Raises InvalidInput for a reference to what is not there.
        """
        if not shown.images and not shown.referred:
            yield
            return
        space, user_id = thread.space, thread.user_id
        async with self._locks.of(owner_folder(space, user_id)):
            if shown.referred:
                there = await self._store.names(space, user_id)
                there -= await self._forgotten(space, user_id, there)
                for name, place in shown.referred.items():
                    if name not in there and name not in shown.images:
                        raise InvalidInput(f"{place}: there is no image {reference(name)}", field=place)
            for name in await self._forgotten(space, user_id, shown.images):
                await self._versions.allow(*_version(space, user_id, name))
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
            content = None if name is None else await self._read(space, user_id, name)
            if name is None or content is None:
                missing.append(url)
                continue
            wire = await asyncio.to_thread(_on_the_wire, name, content)
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
            content = await self._read(caller.space, thread.user_id, name)
        if content is None:
            raise NotFound(f"there is no image {name!r}")
        return content

    async def _read(self, space: str, user_id: str, name: str) -> bytes | None:
        """None where there is none, it was forgotten, or it is not what its name says."""
        content = await self._store.read(space, user_id, name)
        if content is None or await self._forgotten(space, user_id, [name]):
            return None
        return content if await asyncio.to_thread(is_content_of, name, content) else None

    async def _forgotten(self, space: str, user_id: str, names: Iterable[str]) -> set[str]:
        paths = {_version(space, user_id, name)[0]: name for name in names}
        return {paths[path] for path in await self._versions.were_ours(paths, gone=True)} if paths else set()

    async def drop_old_copies(self) -> None:
        """Remove the files of images that were forgotten and are there again."""
        if await self._versions.is_purging():
            return
        for space, user_id in await self._versions.users_with_tombstones():
            async with self._locks.of(owner_folder(space, user_id)):
                back = await self._forgotten(space, user_id, await self._store.names(space, user_id))
                await self._store.remove(space, user_id, back)
            for name in sorted(back):
                path, _ = _version(space, user_id, name)
                self._reports.old_copy_removed(path, "an image that was forgotten")

    async def forget_unused(self, space: str, user_id: str, *, ask_files: bool = True) -> None:
        """Remove the images that no turn of the user refers to any more, for good.

        Transcripts are asked too, with `ask_files`: one that could not be read into the journal still holds its turns.
        """
        async with self._locks.of(owner_folder(space, user_id)):
            unused = await self._store.names(space, user_id)
            if unused:
                unused -= await self._threads.images_shown(space, user_id)
            for path in (
                await self._vault.list_files(owner_folder(space, user_id)) if unused and ask_files else ()
            ):
                unused -= references_in(await self._vault.read(path) or "")
            if unused:
                await self._versions.retire(dict(_version(space, user_id, name) for name in unused))
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
    thread = await threads.meant(thread_id, space=caller.space, user_id=caller.acting_for(user_id))
    shown = await images.taken_out(thread, (turn,))
    async with images.kept(thread, shown):
        return await add_turn(threads, thread, shown.turns[0])


async def append_with_images(
    threads: SqlThreadStore, images: Images, thread: ThreadRef, turns: Sequence[NewTurn]
) -> list[Turn]:
    """Append turns to a thread, all or none; what they show becomes files first."""
    shown = await images.taken_out(thread, turns)
    said = [
        replace(turn, sender_id=turn.sender_id or (thread.user_id if turn.role == "user" else turn.role))
        for turn in shown.turns
    ]
    async with images.kept(thread, shown):
        receipts = await threads.append(Append(thread.space, thread.thread_id, said, thread.user_id))
    stored = [await threads.turn(thread, receipt.turn_id or "") for receipt in receipts]
    return [turn for turn in stored if turn is not None]


def _version(space: str, user_id: str, name: str) -> tuple[str, str]:
    """The path of an image, and its digest, which is its name."""
    return f"{images_folder(space, user_id)}/{name}", name.partition(".")[0]


def _links(turns: tuple[NewTurn, ...]) -> list[tuple[str, str]]:
    return [link for turn in turns for link in links(turn.parts or ())]


def _taken_out(turns: tuple[NewTurn, ...]) -> Shown:
    shown = Shown(())
    changed = []
    for turn in turns:
        taken = take_out(turn.parts) if turn.parts else TakenOut([])
        shown.images.update(taken.images)
        shown.referred.update(taken.referred)
        changed.append(replace(turn, parts=taken.parts) if turn.parts else turn)
    return replace(shown, turns=tuple(changed))


def _on_the_wire(name: str, content: bytes) -> dict[str, None]:
    """What an engine may take for an image: the data URL, or its base64 alone.

    Keys of a dict, because to hash them takes as long as to make them.
    """
    url = data_url(name, content)
    encoded = url.partition(",")[2]
    return dict.fromkeys([url, encoded] if len(encoded) >= _LEAST_TELLING else [url])
