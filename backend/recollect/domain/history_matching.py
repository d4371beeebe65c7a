"""Knowing a conversation by what a client resends: digests that grow message by message.

A message is its role, its words and its tool calls; white space around the words, reasoning and system messages
don't count. A chain is the digest of all messages up to one; it begins with its owner, so that two owners never
have the same one, whatever they said.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from recollect.domain.model import JsonObject, NewTurn, Turn

DIGEST_BYTES = 16
EXAMPLE = "an example"
"""Why memory leaves a message alone that a client puts first in its conversations."""
COPY = "a copy"
"""Why memory leaves a message alone that a client puts into a conversation after it was answered in another thread."""
FEWEST_IN_THE_MIDDLE = 2
"""The fewest messages in a row by which a conversation is known whose beginning was not sent."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A turn of a thread at which messages that were resent end."""

    thread_id: str
    turn_id: str
    known: int
    """How many of the messages, from the first on, are known up to here."""
    is_tip: bool
    """Nothing was said in the thread after it, unless in answers that broke off."""
    answered: bool
    """An answer that was given here is among what leads to it."""
    silent: bool
    """Of a tip: its answer never came, or broke off."""


def owner_root(space: str, user_id: str) -> bytes:
    """The chain before anything was said."""
    return _digest(["owner", space, user_id])


def said_digest(turn: Turn | NewTurn) -> bytes | None:
    """What was said, for comparing; None for what counts as nothing: system messages and empty answers."""
    if turn.role == "system" or (turn.role == "assistant" and is_silent(turn)):
        return None
    calls = [_call(call) for call in turn.tool_calls or ()]
    return _digest([turn.role, words_of(turn), calls, turn.tool_call_id if turn.role == "tool" else None])


def is_silent(turn: Turn | NewTurn) -> bool:
    return not (turn.content.strip() or turn.parts or turn.tool_calls)


def words_of(turn: Turn | NewTurn) -> str:
    """Text parts joined, or the plain content, without white space around it."""
    texts = text_parts(turn.parts or ())
    return ("\n".join(texts) if texts else turn.content).strip()


def text_parts(parts: Iterable[JsonObject]) -> list[str]:
    return [str(part.get("text") or "") for part in parts if part.get("type") == "text"]


def longer(chain: bytes, said: bytes) -> bytes:
    """The chain with one more message."""
    return hashlib.sha256(chain + said).digest()[:DIGEST_BYTES]


def chains_of(root: bytes, said: Iterable[bytes]) -> list[bytes]:
    """The chain after each of these messages."""
    return list(accumulate(said, longer, initial=root))[1:]


def pair_digest(root: bytes, before: bytes, said: bytes) -> bytes:
    """Two messages in a row of one owner: where to look for a conversation whose beginning was not sent."""
    return hashlib.sha256(b"pair" + root + before + said).digest()[:DIGEST_BYTES]


def all_digest(messages: Sequence[Turn | NewTurn]) -> bytes:
    """Equal for requests that resend the same."""
    said = [[turn.role, turn.content, turn.parts, turn.tool_calls, turn.tool_call_id] for turn in messages]
    return _digest(said)


def count_history(messages: Sequence[NewTurn]) -> int:
    """How many messages, up to the last answer, were there before what is asked now."""
    return next((n for n in range(len(messages), 0, -1) if messages[n - 1].role == "assistant"), 0)


def count_examples(messages: Sequence[NewTurn], sightings: Sequence[Sighting]) -> int:
    """How many messages, from the first on, a client that opens a thread has put first in another one already.

    An exchange that was not held here, and comes a second time with another message after it, is no conversation
    that somebody brings along.
    """
    known = max((each.known for each in sightings if not each.answered), default=0)
    return count_history(messages[:known]) if known <= count_history(messages) else 0


def is_asked_again(sighting: Sighting, messages: Sequence[NewTurn]) -> bool:
    """All was said before and its answer is wanted (again)."""
    return sighting.known == len(messages) and messages[-1].role != "assistant"


def may_go_on(sighting: Sighting, messages: Sequence[NewTurn]) -> bool:
    """Whether a thread that nobody named goes on here, or the messages open another one.

    Openings are alike by chance, and greetings and examples that a client puts first are the same in all of its
    conversations: only an answer that was given here tells conversations apart. Without one a thread is known by
    its whole tip alone, and one that only asked is taken up again where its answer never came or broke off.
    """
    if sighting.answered:
        return True
    return sighting.is_tip and (sighting.silent or not is_asked_again(sighting, messages))


def best_of(sightings: Sequence[Sighting]) -> Sighting | None:
    """The longest; of equally long ones, which come newest first, a thread's tip before a branch."""
    return max(sightings, key=lambda each: (each.known, each.is_tip), default=None)


def _call(call: JsonObject) -> list[object]:
    function = call.get("function") or {}
    return [call.get("id"), function.get("name"), _arguments(function.get("arguments"))]


def _arguments(arguments: object) -> object:
    """Some clients re-serialise the JSON of arguments: spaces and order don't count, and no text is no arguments."""
    if not arguments:
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _digest(value: object) -> bytes:
    written = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(written.encode()).digest()[:DIGEST_BYTES]
