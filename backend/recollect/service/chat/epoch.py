"""Where an epoch begins, which turns the next prompt holds, and which leave when the window is full."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.domain.chat import Accepted, ContextBlock, Conversation, Epoch, SentTurn
from recollect.domain.identity import place_of, thread_key
from recollect.domain.llm import BackendFacts
from recollect.domain.model import JsonObject, Turn
from recollect.domain.prompt import (
    Instructions,
    Prompt,
    Window,
    answer_tokens,
    build_contextual_messages,
    half,
    planned_cut,
    shares,
)
from recollect.domain.sources import Source, without_sources
from recollect.errors import TooLarge
from recollect.infra.backends.configured import Backend
from recollect.service.chat.followups import digest_of_turns
from recollect.service.chat.rewrite import Rewritten
from recollect.service.models.llama_slots import wants_thread_tag


@dataclass(slots=True)
class Draft:
    """A prompt: what it is made for, what it is made of, and its parts while they are decided on."""

    accepted: Accepted
    conversation: Conversation
    backend: Backend
    facts: BackendFacts
    model: str | None
    instructions: tuple[str, ...]
    max_turns: int
    max_tokens: int | None
    now: int
    time_zone: str | None = None
    memory: bool = True
    links: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    """What the links of a turn lead to, by its id, where they were fetched now."""
    has_tools: bool = False
    """The model can call tools, or works for an agent: then it is told which skills there are."""
    window: Window = field(init=False)
    epoch: Epoch = field(init=False)
    opens_epoch: bool = field(init=False)
    history: tuple[SentTurn, ...] = field(init=False)
    """The turns before the new ones that the prompt holds."""
    block: ContextBlock | None = field(init=False, default=None)
    block_place: int | None = field(init=False, default=None)
    rewritten: Rewritten | None = field(init=False, default=None)
    notes: JsonObject = field(init=False, default_factory=dict)
    messages: list[JsonObject] = field(init=False, default_factory=list)
    """The prompt, once it is ready."""
    leaving: JsonObject | None = field(init=False, default=None)
    """For the summary of what will leave at the end of the epoch, where that is near."""

    def __post_init__(self) -> None:
        """Continue the epoch, or open a new one if anything earlier in the prompt has changed.

        Raises TooLarge where the context has no room for the answer alone.
        """
        self.window = _window(self.max_turns, self.max_tokens, self.facts.context_tokens)
        conversation, epoch = self.conversation, self.conversation.epoch
        digest = hashlib.sha256(self._system().system_message().encode()).hexdigest()
        cache = f"{self.backend.name}/{self.model or ''}"
        reason = _reason_to_end(conversation, digest, cache)
        path, left_out = _without_unsendable(conversation.path, self.window)
        if left_out:
            self.notes["never_sent"] = left_out
        # A branch that leaves before the epoch began has a past of its own, and the epoch's summary is not of it.
        through = epoch is not None and any(
            each.position == epoch.first_position for each in conversation.path
        )
        history = path
        if epoch is not None and (through or reason is None):
            history = _since(path, epoch.first_position)
        self.opens_epoch = epoch is None or reason is not None
        if epoch is None or reason is not None:
            epoch = Epoch(
                number=epoch.number + 1 if epoch else 1,
                first_position=history[0].position if history else self.first_new,
                reason=reason or "the conversation begins",
                system_digest=digest,
                backend=cache,
                revision=conversation.revision,
                summary=epoch.summary if epoch is not None and through else None,
                blocks_from=epoch.blocks_from if epoch is not None else 0,
            )
        self.epoch = epoch
        # What is answered again is sent as it was, with its own block.
        kept = history[-1].position if history and not self.accepted.turns else None
        self.history = _without_blocks(history, epoch.blocks_from, kept)

    def _system(self) -> Instructions:
        tag = thread_key(self.conversation.thread.ref)[:8] if wants_thread_tag(self.facts) else None
        return Instructions((*self.instructions, *self.conversation.system_texts), tag)

    @property
    def first_new(self) -> int:
        """Where the turns begin that were never sent before."""
        return place_of(self.accepted.turns[0] if self.accepted.turns else self.accepted.answers[0])

    @property
    def is_first_answer(self) -> bool:
        """The thread holds no other answer in words."""
        return not any(
            each.turn.role == "assistant" and each.turn.status == "complete" and each.turn.content
            for each in self.conversation.path
        )

    @property
    def answer_limit(self) -> int | None:
        """The most tokens that the answer may have; None where that is the model's business."""
        context = self.facts.context_tokens
        return self.max_tokens or (answer_tokens(None, context) if context else None)

    def build(self) -> Prompt:
        last = self.conversation.last_prompt
        return build_contextual_messages(
            self._system(),
            self.history,
            self.accepted.turns,
            block=self.block,
            summary=self.epoch.summary,
            merge_roles=self.facts.alternating_roles,
            sent=0 if last is None else sum(each.position <= last.position for each in self.history),
        )

    def known_tokens(self) -> int | None:
        """Tokens of the last prompt and its answer, as the backend counted them; None in a new epoch."""
        last = self.conversation.last_prompt
        if self.opens_epoch or last is None or last.epoch != self.epoch.number:
            return None
        usage = last.detail.get("usage") or {}
        prompt, answer = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not isinstance(prompt, int) or not isinstance(answer or 0, int):
            return None
        return prompt + (answer or 0)

    def shrink(self, window: Window, tokens: int) -> bool:
        """Open an epoch with the newer half, and with the summary of the older one where that is ready.

        The prefix changes, so the blocks of earlier turns leave too. False where no turn can leave. The words that set
        off a chain of tool calls stay, though the chain is cut.
        """
        new = self.accepted.turns
        turns = [*(each.turn for each in self.history), *new]
        each_tokens = shares(turns, tokens)
        cut, summary = half(turns, each_tokens, window), None
        ready = self.conversation.summary
        if ready is not None and not self.opens_epoch:
            place = next((n for n, each in enumerate(self.history) if each.position >= ready.cut), None)
            fits = place is not None and not window.is_over(len(turns) - place, sum(each_tokens[place:]))
            if place and fits and digest_of_turns(turns[:place]) == ready.digest:
                cut, summary = place, ready.text
        kept = self.history[cut:]
        first = kept[0].position if kept else self.first_new
        if kept or not any(turn.role == "user" for turn in new):
            kept = _since(self.history, first)
        if len(kept) == len(self.history):
            return False
        reason = "the window was full" + (": what left is summed up" if summary else ": trimmed alone")
        left = len(self.history) - len(kept)
        self.notes["window"] = {
            "left": left,
            "kept": len(kept),
            "summary": "made" if summary else "not ready",
        }
        self.history = kept
        self._open_epoch(reason, first_position=first, summary=summary or self.epoch.summary)
        return True

    def drop_blocks(self) -> bool:
        """Open an epoch with the same turns and without the blocks of earlier ones. False where there are none."""
        words = self._newest_words()
        if not any(each.block for each in self.history if each.position < words):
            return False
        # Where an epoch begins anyway, what began it is the cause of the miss.
        self._open_epoch(self.epoch.reason if self.opens_epoch else "the blocks of the epoch were full")
        return True

    def _open_epoch(self, reason: str, **changed: Any) -> None:
        """Blocks are sent from the newest words on."""
        self.epoch = replace(
            self.epoch,
            number=self.epoch.number if self.opens_epoch else self.epoch.number + 1,
            reason=reason,
            revision=self.conversation.revision,
            blocks_from=self._newest_words(),
            **changed,
        )
        self.history = _without_blocks(self.history, self.epoch.blocks_from)
        self.opens_epoch = True

    def _newest_words(self) -> int:
        """Where the user's newest words stand."""
        turns = (*self.accepted.turns[::-1], *(each.turn for each in reversed(self.history)))
        newest = next((turn for turn in turns if turn.role == "user"), None)
        return self.first_new if newest is None else place_of(newest)

    def block_texts(self) -> list[str]:
        """Of all blocks that the prompt holds, without the sources in them."""
        earlier = [each.block for each in self.history if each.position != self.block_place]
        return [without_sources(block.text) for block in (*earlier, self.block) if block is not None]

    def plan_leaving(self, tokens: int) -> None:
        """Say what will leave at the end of the epoch, where that is near and not summed up yet."""
        turns = [each.turn for each in self.history]
        if not self.window.is_nearly_over(len(turns) + len(self.accepted.turns) + 1, tokens):
            return
        cut = planned_cut(turns, shares(turns, tokens), self.window)
        if cut is None:
            return
        place, ready = self.history[cut].position, self.conversation.summary
        if ready is None or ready.cut != place or self.opens_epoch:
            places = [each.position for each in self.history[:cut]]
            self.leaving = {"epoch": self.epoch.number, "cut": place, "places": places}

    def words(self) -> Turn | None:
        """The user turn that needs a new context block: the newest one, or an old one whose answer never came."""
        if self.accepted.turns:
            return next((turn for turn in reversed(self.accepted.turns) if turn.role == "user"), None)
        last = next((each for each in reversed(self.history) if _shows(each.turn)), None)
        if last is None or last.turn.role != "user":
            return None
        # Answered in some branch: then the same prompt is sent again, byte for byte.
        path = self.conversation.path
        answered = self.conversation.is_answered_again and path[-1].position == last.position
        return None if last.block is not None and answered else last.turn


def _window(max_turns: int, max_tokens: int | None, context: int | None) -> Window:
    if context is None:
        return Window(max_turns)
    if max_tokens is not None and max_tokens >= context:
        raise TooLarge(
            f"max_tokens: {max_tokens} tokens are asked for the answer, and the model's context holds {context} "
            "in all",
            field="max_tokens",
        )
    return Window(max_turns, max(1, context - answer_tokens(max_tokens, context)))


def _reason_to_end(conversation: Conversation, digest: str, cache: str) -> str | None:
    epoch, last = conversation.epoch, conversation.last_prompt
    if epoch is None:
        return None
    if epoch.backend != cache:
        return f"the model changed from {epoch.backend} to {cache}"
    if epoch.system_digest != digest:
        return "the instructions changed"
    if epoch.revision != conversation.revision:
        return "a message was edited or forgotten"
    if (
        last is not None
        and last.epoch == epoch.number
        and not any(each.position == last.position for each in conversation.path)
    ):
        return "the conversation goes on from another branch"
    return None


def _without_blocks(history: Sequence[SentTurn], before: int, but: int | None = None) -> tuple[SentTurn, ...]:
    """The same turns, those before a position without their blocks; the one at `but` keeps its own."""
    return tuple(
        replace(each, block=None) if each.position < before and each.position != but else each
        for each in history
    )


def _since(path: Sequence[SentTurn], first: int) -> tuple[SentTurn, ...]:
    """The turns from there on. Where these begin within a chain of tool calls, the words that set it off come first."""
    since = tuple(each for each in path if each.position >= first)
    if since and since[0].turn.role == "user":
        return since
    asked = next(
        (each for each in reversed(path) if each.position < first and each.turn.role == "user"), None
    )
    is_heard = any(each.turn.role == "user" for each in since)
    return since if asked is None or (is_heard and not _is_within_calls(since)) else (asked, *since)


def _is_within_calls(turns: Sequence[SentTurn]) -> bool:
    """They begin with an answer that called tools, or with results."""
    return bool(turns) and (turns[0].turn.role == "tool" or bool(turns[0].turn.tool_calls))


def _without_unsendable(path: Sequence[SentTurn], window: Window) -> tuple[tuple[SentTurn, ...], int]:
    """Messages that were refused as too long are in no prompt: they would push everything else out of it."""
    if window.tokens is None:
        return tuple(path), 0
    kept = [
        each
        for place, each in enumerate(path)
        if not (_went_unanswered(path, place) and len(each.turn.content.encode()) > 2 * window.tokens)
    ]
    return tuple(kept), len(path) - len(kept)


def _went_unanswered(path: Sequence[SentTurn], place: int) -> bool:
    """The user's words there were followed by an answer that never came."""
    if path[place].turn.role != "user" or place + 1 >= len(path):
        return False
    answer = path[place + 1].turn
    return answer.role == "assistant" and answer.status == "failed" and not _shows(answer)


def _shows(turn: Turn) -> bool:
    return turn.role != "assistant" or bool(turn.content or turn.tool_calls)
