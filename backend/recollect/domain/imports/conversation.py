"""Conversations that were held elsewhere, in the form in which they are imported."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from recollect.domain.model import MAX_TIMESTAMP

MAX_MESSAGE = 1_000_000
"""Characters of a message that is imported, as of one that is added."""
MAX_TITLE = 1_000
HIDDEN, EMPTY = "hidden messages", "empty messages"
TOOLS, SYSTEM = "tool calls and results", "system messages"
THINKING, IMAGES, TOO_LONG = "thinking", "images and other media", "messages that are too long"
NO_MESSAGES, UNREADABLE = "conversations without messages", "conversations that can't be read"
NO_MESSAGE = "nothing was said"
"""Of a node that only holds a tree together: it is not counted."""
BAD_TIMES = "times that can't be read"
REPEATED = "messages whose id another one of the conversation has"


@dataclass(frozen=True, slots=True)
class Said:
    """One message. Its id is the source's, so that the same message is never taken twice."""

    message_id: str
    parent: str | None
    """The message that it follows; None for a first one."""
    role: Literal["user", "assistant"]
    text: str
    time: int | None = None
    model: str | None = None
    attachments: tuple[tuple[str, str], ...] = ()
    """Names of attached files, and their text as far as the source has it."""
    left_out: str | None = None
    """Why it is not imported. It still leads from its parent to what follows it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Its messages in an order in which each follows its parent, and the current branch comes last."""

    thread_id: str
    title: str | None
    said: tuple[Said, ...]
    branches: frozenset[str] = frozenset()
    """Ids of the messages that are not on the current branch."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reasons, and how often each applied."""


def conversation(
    source: str,
    identifier: str | None,
    title: str | None,
    messages: Iterable[Said],
    *,
    current: str | None = None,
    created: int | None = None,
    left_out: Mapping[str, int] | None = None,
) -> Conversation:
    """Order a tree of messages. `current` is the end of the branch that the person sees; unknown: the last message's."""
    reasons = Counter(left_out or {})
    by_id: dict[str, Said] = {}
    for each in messages:
        if each.message_id in by_id:
            reasons[REPEATED] += 1
        else:
            by_id[each.message_id] = _checked(each)
    path = _path(by_id, current)
    kept: list[Said] = []
    before: dict[str, str | None] = {}
    for each in _in_order(by_id, path):
        parent = before.get(each.parent or "")
        before[each.message_id] = parent if each.left_out else each.message_id
        if not each.left_out:
            kept.append(replace(each, parent=parent))
        elif each.left_out != NO_MESSAGE:
            reasons[each.left_out] += 1
    if not kept:
        reasons[NO_MESSAGES] += 1
    return Conversation(
        thread_id=f"{source}-{_short(identifier or _made_id(created, by_id))}",
        title=clean(title).strip()[:MAX_TITLE] or None if title else None,
        said=tuple(_with_times(kept, created)),
        branches=frozenset(each.message_id for each in kept if each.message_id not in path),
        left_out=+reasons,
    )


def _checked(said: Said) -> Said:
    if said.left_out:
        return said
    named = "".join(f"\n\n[attached: {name}]" for name, _ in said.attachments)
    text = clean(f"{said.text}{named}").strip()
    attached = tuple((clean(name), clean(words)) for name, words in said.attachments)
    reason = None if text else EMPTY
    if len(text) + sum(len(words) for _, words in attached) > MAX_MESSAGE:
        reason = TOO_LONG
    return replace(said, text=text, attachments=attached, left_out=reason)


def _path(by_id: dict[str, Said], current: str | None) -> set[str]:
    """The messages that lead to the end of the current branch."""
    last: dict[str | None, str] = {each.parent: each.message_id for each in by_id.values()}
    place = current if current in by_id else next(reversed(by_id), None)
    seen: set[str] = set()
    while place is not None and (below := last.get(place)) is not None and place not in seen:
        seen.add(place)
        place = below
    path: set[str] = set()
    while place is not None and place not in path and place in by_id:
        path.add(place)
        place = by_id[place].parent
    return path


def _in_order(by_id: Mapping[str, Said], path: set[str]) -> Iterator[Said]:
    """Parents before their children, and the way to the current end after all else that begins where it does."""
    children: dict[str | None, list[str]] = {}
    for each in by_id.values():
        parent = each.parent if each.parent in by_id else None
        children.setdefault(parent, []).append(each.message_id)
    waiting: list[str] = []
    reached: set[str] = set()

    def put(parent: str | None) -> None:
        below = children.get(parent, [])
        # The last in is the first out.
        waiting.extend(each for each in below if each in path)
        waiting.extend(each for each in reversed(below) if each not in path)

    put(None)
    while waiting or len(reached) < len(by_id):
        # What is left then is a circle.
        place = waiting.pop() if waiting else next(each for each in by_id if each not in reached)
        if place not in reached:
            reached.add(place)
            yield by_id[place]
            put(place)


def _with_times(kept: list[Said], created: int | None) -> Iterator[Said]:
    """One without a time has that of its parent, or of the conversation's beginning."""
    known = [each.time for each in kept if each.time is not None]
    first = created if created is not None else min(known, default=None)
    times: dict[str | None, int | None] = {}
    for each in kept:
        time = each.time if each.time is not None else times.get(each.parent, first)
        times[each.message_id] = time
        yield replace(each, time=time)


def _made_id(created: int | None, messages: Iterable[str]) -> str:
    """Of a conversation that has none: the same when it has got more messages, or another title."""
    told = "\x00".join([str(created), *itertools.islice(messages, 3)])
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:32]


def _short(identifier: str) -> str:
    """Ids of threads have at most 512 characters, and those of people's exports 36."""
    plain = clean(identifier)
    return plain if len(plain) <= 200 else hashlib.sha256(plain.encode()).hexdigest()


def made_message_id(place: int, role: str, text: str) -> str:
    """For a message that has no id: the same in every export of the conversation."""
    told = f"{place}\x00{role}\x00{text}"
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:32]


def clean(text: str) -> str:
    """Without what can't be stored: NUL, and halves of surrogate pairs."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def said_id(value: Any) -> str | None:
    """An id as a source gives it; None for what is none."""
    return clean(value) if isinstance(value, str) and 0 < len(value) <= MAX_TITLE else None


def text_in(value: Any) -> str:
    return value if isinstance(value, str) else ""


def objects_in(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def moment(value: Any) -> int | None:
    """UTC milliseconds of a time in seconds, or in ISO 8601; None for what is neither."""
    if isinstance(value, str):
        try:
            told = datetime.fromisoformat(value)
        except ValueError:
            return None
        value = (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e20:
        return None
    # Some tell milliseconds, microseconds or nanoseconds: no conversation was held after the year 5138.
    while value > 1e11:
        value /= 1000
    milliseconds = round(value * 1000)
    return milliseconds if 0 < milliseconds <= MAX_TIMESTAMP else None


def told_moment(value: Any, left_out: Counter[str]) -> int | None:
    """Likewise; one that is told and can't be read is counted."""
    time = moment(value)
    if time is None and value:
        left_out[BAD_TIMES] += 1
    return time
