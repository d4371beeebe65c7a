"""What memories cost: calls of a model and tokens of its prompts per 100 messages, beside a model that is asked where to cut.

The model's server is a stand-in that makes a fact of every second message of a person, so that prompts list as many
known facts as those of a real one. A token is four characters.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import servers
from driving import Server
from recall_data import read_conversations
from recall_measure import Conversation
from remembering import RememberingHome, remembering_home
from reporting import Row, row

from recollect.domain.extraction.draft import CATEGORIES

CALLS, TOKENS = 6, 12_000
"""Per 100 messages, at most."""
_BATCH = 100
_BURST = 8
"""Messages of a live chat from one pause to the next."""
_FACT_CHARS = 80
_EMBEDDER = {"RECOLLECT_EMBEDDING__KIND": "onnx"}


@dataclass
class Cost:
    """Of the calls for some messages."""

    messages: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    characters: int = 0

    def per_hundred(self) -> tuple[float, float]:
        """Calls and tokens."""
        share = 100 / max(self.messages, 1)
        return self.calls.total() * share, self.characters / 4 * share


def measure_memory_cost(folder: Path, files: Sequence[Path], limit: int | None) -> list[Row]:
    """For each file of conversations: brought in with cells by rules, by a model, and as a live chat with pauses."""
    rows: list[Row] = []
    for file in files:
        name, conversations = file.name.partition(".")[0], read_conversations(file, limit)
        place = folder / f"cost-{name}"
        ours = _brought_in(place / "rules", conversations, {"RECOLLECT_MEMORIZE__BOUNDARY": "rules"})
        asked = _brought_in(place / "model", conversations, {"RECOLLECT_MEMORIZE__BOUNDARY": "model"})
        live = _brought_in(place / "live", conversations[:1], {}, burst=_BURST)
        figures = zip(
            ("calls", "prompt tokens"),
            (CALLS, TOKENS),
            *(each.per_hundred() for each in (ours, asked, live)),
            strict=True,
        )
        for what, most, mine, theirs, chat in figures:
            title = f"{name}: {what} per 100 messages"
            rows.append(
                row(f"{title}, cells by rules / by a model", mine, theirs, f"at most {most:,}", mine <= most)
            )
            rows.append(row(f"{title}, live with pauses / brought in", chat, mine))
    return rows


def _brought_in(
    folder: Path, conversations: Sequence[Conversation], settings: dict[str, str], burst: int | None = None
) -> Cost:
    cost = Cost()
    with (
        servers.standin_model() as asking,
        remembering_home(folder, {**_EMBEDDER, **servers.real_embedder(), **asking, **settings}) as home,
    ):
        port = int(asking["RECOLLECT_LLM__BASE_URL"].rpartition(":")[2])
        for conversation in conversations:
            Server(port).call("POST", "/control", {"table": list(_table(conversation))})
            _tell(home.connected(), conversation, burst)
            cost.messages += len(conversation.messages)
        for body, logged in _calls(Server(port)):
            cost.calls[logged["asks"]] += 1
            cost.characters += sum(len(str(message.get("content") or "")) for message in body["messages"])
    return cost


def _tell(home: RememberingHome, conversation: Conversation, burst: int | None) -> None:
    """Add all of it and close what is left; with `burst`, after each so many messages."""
    owner = conversation.conversation_id
    for first in range(0, len(conversation.messages), burst or _BATCH):
        some = [dict(message) for message in conversation.messages[first : first + (burst or _BATCH)]]
        home.add({"session_id": owner, "user_id": owner, "messages": some})
        if burst:
            _close(home, owner)
    _close(home, owner)


def _close(home: RememberingHome, owner: str) -> None:
    wanted = {"session_id": owner, "user_id": owner, "timeout": 0}
    home.server.call("POST", "/api/v1/memory/flush", wanted)
    home.settle()


def _table(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """A row for each message; every second one of a person is a fact, in its own first words."""
    people = 0
    for message in conversation.messages:
        words = " ".join(message["content"][:_FACT_CHARS].split())
        told: dict[str, Any] = {"messages": [[message["sender_id"], message["content"]]]}
        if message["role"] == "user" and words:
            people += 1
            if people % 2:
                told["facts"] = [[f"{message['sender_id']}: {words}", "user", CATEGORIES[people % 9], words]]
        yield told


def _calls(model: Server) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What the model was asked: each request, and what it was about."""
    told = model.call("GET", "/control/calls")
    yield from zip(told["bodies"], told["log"], strict=True)
