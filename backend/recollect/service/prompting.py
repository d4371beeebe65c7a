"""From a request to the prompt that is sent for it: epoch, rewriting, recall, window, messages."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from recollect.context.clock import clock_line
from recollect.context.context_block import render_memories
from recollect.context.context_builder import (
    Instructions,
    PastTurn,
    Prompt,
    build_contextual_messages,
    context_block,
)
from recollect.context.llm import BackendFacts
from recollect.context.prefix import first_difference, prefix_digest, prompt_bytes
from recollect.context.window import (
    PER_MESSAGE,
    Window,
    answer_tokens,
    block_tokens,
    half,
    planned_cut,
    shares,
)
from recollect.errors import ModelUnavailable, TooLarge
from recollect.memory.access import Caller
from recollect.memory.chat import Accepted, ContextBlock, Conversation, Epoch, SentPrompt, SentTurn
from recollect.memory.identity import place_of, thread_key
from recollect.memory.model import JsonObject, Turn
from recollect.service.follow_up import Leaving
from recollect.service.ports import Backend
from recollect.service.recall_source import Known, Recalled, RecallSource
from recollect.service.rewriter import Rewriter, Rewritten
from recollect.service.slots import wants_thread_tag
from recollect.service.summaries import digest_of_turns

RECENT_TURNS = 12
"""How far back the rewriter looks."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the prompt is made for, settled before it is made."""

    caller: Caller
    accepted: Accepted
    backend: Backend
    facts: BackendFacts
    model: str | None
    instructions: tuple[str, ...]
    max_turns: int
    max_tokens: int | None
    now: int
    time_zone: str | None = None
    memory: bool = True


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prompt that is ready to be sent."""

    sent: SentPrompt
    messages: list[JsonObject]
    max_tokens: int | None
    tokens: int
    """About how many it has."""
    leaving: Leaving | None
    """What will leave at the end of the epoch, where that is near."""
    is_first_answer: bool
    recent: tuple[Turn, ...]


@dataclass(slots=True)
class _Draft:
    """The prompt's parts while they are decided on."""

    epoch: Epoch
    history: tuple[SentTurn, ...]
    opens_epoch: bool
    block: ContextBlock | None = None
    block_place: int | None = None
    notes: JsonObject = field(default_factory=dict)


class PromptMaker:
    """Reads, asks the rewriter and recall, and decides. What it decides is written down by its caller."""

    def __init__(self, rewriter: Rewriter, recall: RecallSource) -> None:
        self._rewriter = rewriter
        self._recall = recall

    async def prepare(self, wanted: Wanted, conversation: Conversation) -> Prepared:
        """Raises TooLarge, with both numbers, for what cannot fit."""
        instructions = _instructions(wanted, conversation)
        draft = _begin(wanted, conversation, instructions)
        await self._add_context(wanted, draft)
        window = _window(wanted)
        tokens = await self._fit(wanted, conversation, instructions, draft, window)
        prompt = _build(wanted, instructions, draft)
        messages = prompt_bytes(prompt.messages)
        before = conversation.last_prompt
        differs_at = None if before is None else first_difference(before.messages, messages)
        detail: JsonObject = {
            "epoch": draft.epoch.number,
            "epoch_reason": draft.epoch.reason if draft.opens_epoch else None,
            "prefix_digest": prefix_digest(prompt.messages, prompt.new_from),
            "first_difference": differs_at,
            "cause": draft.epoch.reason if differs_at is not None else None,
            "backend": wanted.backend.name,
            "kind": wanted.facts.kind,
            **draft.notes,
        }
        if differs_at is not None and not draft.opens_epoch:
            detail["cause"] = "an earlier message is sent in another form"
        if wanted.facts.drops_reasoning and any(past.turn.reasoning for past in draft.history):
            detail["misses"] = "the model's template leaves earlier reasoning out of the next prompt"
        return Prepared(
            sent=SentPrompt(
                epoch=draft.epoch,
                opens_epoch=draft.opens_epoch,
                block=draft.block,
                block_position=draft.block_place,
                messages=messages,
                new_from=prompt.new_from,
                detail=detail,
            ),
            messages=prompt.messages,
            max_tokens=wanted.max_tokens
            or (answer_tokens(None, wanted.facts.context_tokens) if wanted.facts.context_tokens else None),
            tokens=tokens,
            leaving=_leaving(wanted, conversation, draft, window, tokens),
            is_first_answer=draft.epoch.number == 1
            and not any(_is_answer(each.turn) for each in draft.history),
            recent=tuple(each.turn for each in draft.history[-RECENT_TURNS:]),
        )

    async def _add_context(self, wanted: Wanted, draft: _Draft) -> None:
        words = _words(wanted, draft)
        if words is None:
            return
        lines = [clock_line(wanted.now, wanted.time_zone)]
        memories: dict[str, str] = {}
        if wanted.memory:
            rewritten, recalled = await self._remembered(wanted, draft, words)
            draft.notes["rewriter"] = rewritten.as_receipt()
            draft.notes["recall"] = recalled.as_receipt()
            if recalled.memories:
                lines.append(render_memories(recalled.memories))
                memories = {memory.id: memory.digest for memory in recalled.memories}
        else:
            draft.notes["recall"] = {"memories": [], "left_out": "memory is off for this message"}
        block = ContextBlock(context_block(lines), memories)
        draft.history = tuple(
            replace(each, block=block) if each.turn is words else each for each in draft.history
        )
        draft.block, draft.block_place = block, place_of(words)

    async def _remembered(self, wanted: Wanted, draft: _Draft, words: Turn) -> tuple[Rewritten, Recalled]:
        thread = wanted.accepted.thread
        rewritten = await self._rewriter.rewrite(
            words.content,
            [each.turn for each in draft.history[-RECENT_TURNS:]],
            backend=wanted.backend,
            facts=wanted.facts,
            model=wanted.model,
            space=thread.space,
        )
        injected: dict[str, str] = {}
        for each in draft.history:
            injected |= each.block.memories if each.block else {}
        # What stands beside the path was said in a branch that was left: it is not brought back.
        first, last = draft.epoch.first_position, place_of(wanted.accepted.answers[-1])
        shown = {(thread.thread_id, place) for place in range(first, last + 1)}
        recalled = await self._recall.recall(
            thread,
            rewritten.query,
            known=Known(frozenset(shown), injected, _first_new(wanted.accepted)),
            max_tokens=block_tokens(wanted.facts.context_tokens),
            now=wanted.now,
        )
        return rewritten, recalled

    async def _fit(
        self,
        wanted: Wanted,
        conversation: Conversation,
        instructions: Instructions,
        draft: _Draft,
        window: Window,
    ) -> int:
        """Count, and open a new epoch with the newer half where the window is full. Returns the prompt's tokens."""
        new = wanted.accepted.turns
        tokens = await _count(wanted, conversation, instructions, draft)
        if window.is_over(len(draft.history) + len(new), tokens) and draft.history:
            _shrink(wanted, conversation, draft, window, tokens)
            tokens = await _count(wanted, conversation, instructions, draft)
            if window.tokens is not None and tokens > window.tokens and draft.history:
                _shrink(wanted, conversation, draft, replace(window, tokens=window.tokens // 2), tokens)
                tokens = await _count(wanted, conversation, instructions, draft)
        if window.tokens is not None and tokens > window.tokens:
            raise TooLarge(
                f"content: the message needs about {tokens} tokens with its instructions, and {window.tokens} are "
                f"left of the model's {wanted.facts.context_tokens} once its answer has its room",
                field="content",
            )
        return tokens


def _instructions(wanted: Wanted, conversation: Conversation) -> Instructions:
    thread = conversation.thread
    tag = thread_key(thread.space, thread.thread_id)[:8] if wants_thread_tag(wanted.facts) else None
    return Instructions((*wanted.instructions, *conversation.system_texts), tag)


def _begin(wanted: Wanted, conversation: Conversation, instructions: Instructions) -> _Draft:
    """The epoch goes on, or a new one is opened because something in the prompt's past has changed."""
    digest = hashlib.sha256(instructions.system_message().encode()).hexdigest()
    cache = f"{wanted.backend.name}/{wanted.model or ''}"
    epoch, path = conversation.epoch, conversation.path
    reason = _reason_to_end(conversation, digest, cache)
    if epoch is not None and reason is None:
        history = tuple(each for each in path if each.position >= epoch.first_position)
        return _Draft(epoch, history, opens_epoch=False)
    summary = epoch.summary if epoch is not None else None
    history = path
    if epoch is not None:
        history = tuple(each for each in path if each.position >= epoch.first_position) or path
    first = history[0].position if history else _first_new(wanted.accepted)
    opened = Epoch(
        number=epoch.number + 1 if epoch else 1,
        first_position=first,
        reason=reason or "the conversation begins",
        system_digest=digest,
        backend=cache,
        revision=conversation.revision,
        summary=summary,
    )
    return _Draft(opened, history, opens_epoch=True)


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
    if last is not None and last.epoch == epoch.number and not _goes_on(conversation, last.position):
        return "the conversation goes on from another branch"
    return None


def _goes_on(conversation: Conversation, answer: int) -> bool:
    """Whether the answer to the last prompt is on the path."""
    return any(each.position == answer for each in conversation.path)


def _window(wanted: Wanted) -> Window:
    context = wanted.facts.context_tokens
    if context is None:
        return Window(wanted.max_turns)
    return Window(wanted.max_turns, max(1, context - answer_tokens(wanted.max_tokens, context)))


def _build(wanted: Wanted, instructions: Instructions, draft: _Draft) -> Prompt:
    return build_contextual_messages(
        instructions,
        [PastTurn(each.turn, each.block.text if each.block else None) for each in draft.history],
        wanted.accepted.turns,
        block=draft.block.text if draft.block else None,
        summary=draft.epoch.summary,
        merge_roles=wanted.facts.alternating_roles,
    )


async def _count(
    wanted: Wanted, conversation: Conversation, instructions: Instructions, draft: _Draft
) -> int:
    """Tokens of the prompt: what the backend said of the last one, and only what is new counted."""
    prompt = _build(wanted, instructions, draft)
    known = _known_tokens(conversation, draft)
    messages = prompt.messages if known is None else prompt.messages[prompt.new_from :]
    text = "\n".join(_text_of(message) for message in messages)
    try:
        counted = await wanted.backend.count_tokens(text) if text else 0
    except ModelUnavailable:
        counted = len(text.encode()) // 3
    return (known or 0) + counted + PER_MESSAGE * len(messages)


def _known_tokens(conversation: Conversation, draft: _Draft) -> int | None:
    last = conversation.last_prompt
    if draft.opens_epoch or last is None or last.epoch != draft.epoch.number:
        return None
    usage = last.detail.get("usage") or {}
    prompt, answer = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return None if prompt is None else int(prompt) + int(answer or 0)


def _text_of(message: JsonObject) -> str:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(str(part.get("text", "")) for part in content)
    calls = "".join(str(call.get("function", "")) for call in message.get("tool_calls") or ())
    return content + calls


def _shrink(wanted: Wanted, conversation: Conversation, draft: _Draft, window: Window, tokens: int) -> None:
    """Open an epoch with the newer half, and with the summary of the older one where that is ready."""
    new = wanted.accepted.turns
    turns = [*(each.turn for each in draft.history), *new]
    each_tokens = shares(turns, tokens)
    cut, summary = half(turns, each_tokens, window), None
    ready = conversation.summary
    if ready is not None and not draft.opens_epoch:
        place = next((n for n, each in enumerate(draft.history) if each.position >= ready.cut), None)
        fits = place is not None and not window.is_over(len(turns) - place, sum(each_tokens[place:]))
        if place and fits and digest_of_turns(turns[:place]) == ready.digest:
            cut, summary = place, ready.text
    number = draft.epoch.number if draft.opens_epoch else draft.epoch.number + 1
    kept = draft.history[cut:]
    draft.epoch = replace(
        draft.epoch,
        number=number,
        first_position=kept[0].position if kept else _first_new(wanted.accepted),
        reason="the window was full" + (": what left is summed up" if summary else ": trimmed alone"),
        revision=conversation.revision,
        summary=summary or draft.epoch.summary,
    )
    draft.notes["window"] = {"left": cut, "kept": len(kept), "summary": "made" if summary else "not ready"}
    draft.history, draft.opens_epoch = kept, True


def _leaving(
    wanted: Wanted, conversation: Conversation, draft: _Draft, window: Window, tokens: int
) -> Leaving | None:
    turns = [each.turn for each in draft.history]
    if not window.is_nearly_over(len(turns) + len(wanted.accepted.turns) + 1, tokens):
        return None
    cut = planned_cut(turns, shares(turns, tokens), window)
    if cut is None:
        return None
    place = draft.history[cut].position
    ready = conversation.summary
    if ready is not None and ready.cut == place and not draft.opens_epoch:
        return None
    return Leaving(draft.epoch.number, draft.epoch.first_position, place)


def _first_new(accepted: Accepted) -> int:
    return place_of(accepted.turns[0] if accepted.turns else accepted.answers[0])


def _words(wanted: Wanted, draft: _Draft) -> Turn | None:
    """The user's words that are sent for the first time: new, or those whose answer never came."""
    if wanted.accepted.turns:
        return next((turn for turn in reversed(wanted.accepted.turns) if turn.role == "user"), None)
    last = next((each for each in reversed(draft.history) if _shows(each.turn)), None)
    unsent = last is not None and last.turn.role == "user" and last.block is None
    return last.turn if last is not None and unsent else None


def _shows(turn: Turn) -> bool:
    return turn.role != "assistant" or bool(turn.content or turn.tool_calls)


def _is_answer(turn: Turn) -> bool:
    return turn.role == "assistant" and turn.status == "complete"


def instructions_of(texts: Sequence[str | None]) -> tuple[str, ...]:
    """Instructions and persona without what is empty."""
    return tuple(text for text in texts if text)
