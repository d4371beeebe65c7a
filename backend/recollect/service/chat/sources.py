"""Context sources: what is attached to a message is read as it is accepted; links are fetched before its prompt is made.

The text goes into the frozen context block of the turn, as quotations, bounded, once for as long as the prompt holds it.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from recollect.domain.chat import ChatRequest, Conversation
from recollect.domain.model import JsonObject, NewTurn, Thread, ThreadRef, Turn
from recollect.domain.people import Preferences, Preset
from recollect.domain.prompt import ASSUMED_CONTEXT
from recollect.domain.sources import (
    FILES,
    IMAGES,
    LINKS,
    LONGEST_NAME,
    MOST_CHARS,
    MOST_SOURCES,
    RESULTS,
    Source,
    bounded,
    clean_name,
    file_part,
    image_receipts,
    is_source,
    links_in,
    render_sources,
    source_of,
    sources_of,
    urls_in,
    words_of_person,
)
from recollect.errors import InvalidInput, TooLarge
from recollect.infra.addresses import Addresses
from recollect.infra.backends.configured import Backends
from recollect.infra.documents import DocumentReader, UnreadableError
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.link_fetcher import LinkFetcher
from recollect.service.chat.epoch import Draft
from recollect.service.people import preset_in_force
from recollect.setting_groups import SourceSettings

CONTEXT_SHARE = 3
"""Sources of a block take at most this part of the model's context."""
LEAST_TOKENS = 50
"""Room for less is room for no text."""
_AT_ONCE = 1024 * 1024
_data_url = re.compile(r"data:([\w.+-]*/?[\w.+-]*)(?:;[\w=.+-]*)*?;base64,", re.IGNORECASE).match

Counting = Callable[[str], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The sources of a block, and what the receipt says of them and of those that were left out."""

    text: str = ""
    ids: dict[str, str] = field(default_factory=dict)
    """What the block says that it holds: memory takes none of that for something a person said."""
    receipt: list[JsonObject] = field(default_factory=list)


class Sources:
    """Behind one interface, whatever they are: `taken_in` on arrival, `fetched` before the prompt, `chosen` for it."""

    def __init__(
        self, settings: SourceSettings, threads: SqlThreadStore, people: SqlPresetStore, backends: Backends
    ) -> None:
        self._settings = settings
        self._threads = threads
        self._people = people
        self._backends = backends
        self._reader = DocumentReader()
        addresses = Addresses(allow_private=settings.allow_private, schemes="http: or https:")
        self._links = LinkFetcher(addresses, self._reader, settings.link_seconds)

    async def taken_in(self, ref: ThreadRef, request: ChatRequest, preferences: Preferences) -> ChatRequest:
        """With the text of every file in place of its bytes. Raises InvalidInput, which names the part.

        A backend that reads PDF files by itself gets the new ones as they came.
        """
        parts = (part for turn in (*request.earlier, *request.turns) for part in turn.parts or ())
        if all(_kind_of(part) is None for part in parts):
            return request
        thread = await self._threads.find(ref)
        names = (request.preset, thread.preset if thread else None, preferences.preset)
        preset = await preset_in_force(self._people, ref.space, *names)
        backend = self._backends.get(
            request.backend or preset.backend or (thread.backend if thread else None)
        )
        passes_pdf = backend.reads_pdf
        earlier = [await self._read(turn, preset, passes_pdf=False) for turn in request.earlier]
        turns = [await self._read(turn, preset, passes_pdf=passes_pdf) for turn in request.turns]
        return replace(request, earlier=tuple(earlier), turns=tuple(turns))

    async def _read(self, turn: NewTurn, preset: Preset, *, passes_pdf: bool) -> NewTurn:
        if turn.role != "user" or not turn.parts:
            return turn
        parts: list[JsonObject] = []
        labels: list[str] = []
        for number, given in enumerate(turn.parts):
            place, part = f"parts[{number}]", given
            kind = _kind_of(part)
            if kind is not None and not preset.takes(kind):
                raise InvalidInput(f"{place}: the preset {preset.name!r} takes no {kind}", field=place)
            if kind == FILES:
                part = await self._file(given, place, passes_pdf=passes_pdf)
            elif kind == RESULTS:
                part = _result(given, place)
            parts.append(part)
            labels += [source_of(part).label] if is_source(part) else []
        if len(labels) > MOST_SOURCES:
            raise InvalidInput(
                f"parts: {len(labels)} files and results are too many; a message takes {MOST_SOURCES}",
                field="parts",
            )
        return replace(turn, parts=parts, content="\n".join(filter(None, (turn.content, *labels))))

    async def _file(self, part: JsonObject, place: str, *, passes_pdf: bool) -> JsonObject:
        place = f"{place}.file"
        file = part.get("file")
        if not isinstance(file, dict):
            raise InvalidInput(f"{place}: must be an object with filename and file_data", field=place)
        name = clean_name(_text(file, "filename", place) or "file")
        if isinstance(file.get("text"), str):
            text, pages = file["text"], file.get("pages")
            length = file.get("characters")
            known = Source("file", name, bounded(text), "", pages if isinstance(pages, int) else None)
            return file_part(replace(known, length=length if isinstance(length, int) else len(text)))
        place = f"{place}.file_data"
        given = _text(file, "file_data", place.rpartition(".")[0])
        if given is None:
            if isinstance(file.get("file_id"), str):
                return part  # A file that the backend has: it knows what to make of it.
            raise InvalidInput(f"{place}: is missing", field=place)
        if len(given) > self._settings.file_mb * 1_400_000:
            raise TooLarge(f"{place}: {name} has more than {self._settings.file_mb} MB", field=place)
        media_type, content = await asyncio.to_thread(_decoded, given, place)
        if passes_pdf and media_type == "application/pdf":
            return part
        try:
            read = await self._reader.read(content, media_type)
        except UnreadableError as error:
            raise InvalidInput(f"{place}: {name} {error}", field=place) from None
        return file_part(Source("file", name, read.text, "", read.pages, read.length))

    async def fetched(
        self, thread: Thread, preset: Preset, turns: Sequence[Turn], conversation: Conversation
    ) -> Mapping[str, tuple[Source, ...]]:
        """What the links of the newest words lead to, by the turn; nothing for words that have a block already."""
        if not self._settings.links or not preset.takes(LINKS):
            return {}
        words = next((turn for turn in reversed(turns) if turn.role == "user"), None)
        if words is None:
            last = conversation.path[-1] if conversation.path and not turns else None
            words = (
                last.turn if last is not None and last.turn.role == "user" and last.block is None else None
            )
        urls = urls_in(words_of_person(words)) if words is not None else []
        if words is None or not urls:
            return {}
        user = (thread.space, thread.user_id, "links")
        return {words.turn_id: tuple(await asyncio.gather(*(self._page(url, user) for url in urls)))}

    async def _page(self, url: str, user: tuple[str, ...]) -> Source:
        try:
            read = await self._links.fetch(url, user)
        except UnreadableError as error:
            return Source("link", url, error=str(error))
        return Source("link", url, read.text, "", read.pages, read.length)

    def most_tokens(self, context_tokens: int | None) -> int:
        """For all sources of a block."""
        return min(self._settings.total_tokens, (context_tokens or ASSUMED_CONTEXT) // CONTEXT_SHARE)

    async def chosen(self, draft: Draft, words: Turn, room: int | None, count: Counting) -> Chosen:
        """What is new to the prompt and fits into so many tokens, the newest message's first; the rest is said."""
        kept: list[Source] = []
        receipt = image_receipts(words)
        most = self.most_tokens(draft.facts.context_tokens)
        room = most if room is None else min(room, most)
        new = list(pending(draft, words))
        for source in new:
            fitting, tokens = await _fitting(source, min(room, self._settings.tokens), count)
            room -= tokens
            kept.append(fitting)
            receipt.append(fitting.as_receipt(tokens))
        return Chosen(render_sources(kept), {source.id: "" for source in new}, receipt)


def pending(draft: Draft, words: Turn) -> Iterator[Source]:
    """Sources of the prompt's messages that no block in it holds, each once, those of the newest words first."""
    frozen = {each.turn.turn_id: each.block for each in draft.conversation.path if each.block is not None}
    visible = {each.turn.turn_id for each in draft.history if each.block and each.turn is not words}
    seen = {
        key for each in draft.history if each.block and each.turn is not words for key in each.block.memories
    }
    turns = [*(each.turn for each in draft.history if each.turn is not words), words]
    for turn in reversed(turns):
        if turn.role != "user":
            continue
        links: Sequence[Source] = draft.links.get(turn.turn_id, ())
        if not links and turn.turn_id not in visible and (block := frozen.get(turn.turn_id)) is not None:
            links = links_in(block.text)
        for source in (*sources_of(turn), *links):
            if source.id not in seen:
                seen.add(source.id)
                yield source


async def _fitting(source: Source, room: int, count: Counting) -> tuple[Source, int]:
    """As much of a source as fits into so many tokens, and how many it has. What has no room is said to have none."""
    source = replace(source, length=max(source.length, len(source.text)))
    if source.error is None and room < LEAST_TOKENS:
        source = replace(source, text="", error="no room was left for it in the prompt")
    fitting = source.cut_to(room * 8)
    tokens = await count(render_sources([fitting]))
    while source.error is None and fitting.text and tokens > room:
        fitting = source.cut_to(int(len(fitting.text) * room / tokens * 0.97) - 20)
        tokens = await count(render_sources([fitting]))
    return fitting, tokens


def _kind_of(part: JsonObject) -> str | None:
    return {"file": FILES, "context": RESULTS, "image_url": IMAGES}.get(str(part.get("type")))


def _result(part: JsonObject, place: str) -> JsonObject:
    """What a caller found elsewhere and supplies with the message."""
    place = f"{place}.context"
    given = part.get("context")
    if not isinstance(given, dict):
        raise InvalidInput(f"{place}: must be an object with title, text and origin", field=place)
    text = _text(given, "text", place)
    if text is None or not text.strip():
        raise InvalidInput(f"{place}.text: must not be empty", field=f"{place}.text")
    if len(text) > MOST_CHARS:
        raise TooLarge(
            f"{place}.text: must not have more than {MOST_CHARS} characters", field=f"{place}.text"
        )
    names = {name: _text(given, name, place) for name in ("title", "origin")}
    kept = {name: bounded(value)[: 5 * LONGEST_NAME] for name, value in names.items() if value}
    return {"type": "context", "context": {**kept, "text": bounded(text)}}


def _text(fields: JsonObject, name: str, place: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{place}.{name}: must be text", field=f"{place}.{name}")
    return value


def _decoded(given: str, place: str) -> tuple[str, bytes]:
    """The type and the bytes of a data URL, or of base64 alone. In a thread: it may be long."""
    found = _data_url(given[:500])
    encoded = given[found.end() :] if found else given
    try:
        pieces = (encoded[start : start + _AT_ONCE] for start in range(0, len(encoded), _AT_ONCE))
        content = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{place}: must be base64, or a data URL with base64", field=place) from None
    if not content:
        raise InvalidInput(f"{place}: the file is empty", field=place)
    return found[1].lower() if found else "", content
