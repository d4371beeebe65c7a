"""Knowing a conversation by what a client resends: digests that grow message by message.

A message is its role, its words and its tool calls; white space around the words, reasoning and system messages
don't count. A chain is the digest of all messages up to one; it begins with its owner, so that two owners never
have the same one, whatever they said.

What chat apps ask by themselves (titles, tags, tools to call) is told from what people say by its shape, and by the
chat that it quotes.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from recollect.domain.model import JsonObject, NewTurn, Turn

DIGEST_BYTES = 16
EXAMPLE = "an example"
"""Why memory leaves a message alone that a client puts first in its conversations."""
COPY = "a copy"
"""Why memory leaves a message alone that a client puts into a conversation after it was answered in another thread."""
QUOTATION = "it quotes another chat"
"""Why memory leaves a message alone that opens a conversation and is about another one."""
_LABEL = re.compile(r"\w+[:\uff1a]\s")
_TOOLS = re.compile(r"\[\s*\{")
_MARKED = re.compile(r"\n[^\n`]{1,40}[:\uff1a] ?```([^`\n][^`]*)```\s*\Z")
_MOST_TRIES = 20
_HEAD = 80
"""Characters by which the beginning of a long message is known that is quoted in part."""
_OPENING, _CLOSING = "\n:\uff1a\"'*#-", "\n\"'*\\"
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
    """Text parts joined, or the plain content, without white space around it. The content names files, too."""
    return ("\n".join(text_parts(turn.parts)) if turn.parts else turn.content).strip()


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


def is_task_shaped(text: str, instructions: Sequence[str]) -> bool:
    """Whether a chat app asks it by itself, to judge by the only message and the instructions alone.

    A message that begins with a heading and quotes a conversation: so Open WebUI asks for titles, tags, follow-ups,
    queries and completions. Or one under a label, with tools described in the instructions: so it has tools chosen.
    """
    begins = text.find("<chat_history>")
    if text.lstrip().startswith("#") and 0 < begins < text.rfind("</chat_history>"):
        return True
    return bool(_LABEL.match(text)) and any(_lists_tools(each) for each in instructions)


def quotes_chat(text: str, turns: Sequence[Turn]) -> bool:
    """Whether a message that opens a conversation is about the chat that ends with these turns, and not part of it.

    It quotes a question with the answer to it, or with the answer still under way; or it ends with a part of what was
    said, in marks under a label. A message that begins with the question is what clients send that put their whole
    conversation into one message.
    """
    said = [(turn, words) for turn in turns if (words := words_of(turn))]
    asked = [(number, words) for number, (turn, words) in enumerate(said) if turn.role == "user"]
    if any(text.startswith(words) for _, words in asked):
        return False
    marked = _MARKED.search(text)
    if marked and any(marked[1].strip() in words for _, words in said):
        return True
    is_under_way = bool(turns) and turns[-1].status in ("queued", "streaming")
    for number, words in asked:
        end = _end_of_quote(text, words, 1)
        if end is None:
            continue
        answers = [answer for turn, answer in said[number + 1 :] if turn.role == "assistant"]
        if (is_under_way and (number, words) == asked[-1]) or any(
            _end_of_quote(text, answer, end) is not None for answer in answers
        ):
            return True
    return False


def _end_of_quote(text: str, words: str, start: int) -> int | None:
    """Where these words end that stand for themselves in a text, after a label or in marks; as JSON, too."""
    escaped = json.dumps(words, ensure_ascii=False)[1:-1]
    for form in dict.fromkeys([words, escaped]):
        for at in _places(text, form, start):
            end = at + len(form)
            if _opens(text[:at][-3:]) and _closes(text[end : end + 1]):
                return end
        head = form[:_HEAD]
        if len(form) > _HEAD:
            for at in _places(text, head, start):
                if _opens(text[:at][-3:]):
                    return at + _HEAD
    return None


def _places(text: str, wanted: str, start: int) -> Iterable[int]:
    for _ in range(_MOST_TRIES):
        start = text.find(wanted, start)
        if start < 0:
            return
        yield start
        start += 1


def _opens(before: str) -> bool:
    mark = before.rstrip(" \t")[-1:]
    return bool(mark) and (mark in _OPENING or unicodedata.category(mark) in ("Ps", "Pi", "Sk", "Sm"))


def _closes(mark: str) -> bool:
    return not mark or mark in _CLOSING or unicodedata.category(mark) in ("Pe", "Pf", "Sk", "Sm")


def _lists_tools(text: str) -> bool:
    """A JSON list of functions stands in it, each with its name and parameters."""
    decoder = json.JSONDecoder()
    for number, begins in enumerate(_TOOLS.finditer(text)):
        if number == _MOST_TRIES:
            break
        try:
            listed, _ = decoder.raw_decode(text, begins.start())
        except (ValueError, RecursionError):
            continue
        if all(isinstance(each, dict) and {"name", "parameters"} <= each.keys() for each in listed):
            return True
    return False
