"""From a request to the prompt that is sent for it: epoch, rewriting, recall, window, messages."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from recollect.domain.access import Caller
from recollect.domain.chat import Accepted, ContextBlock, Conversation, Epoch, SentPrompt, SentTurn
from recollect.domain.identity import place_of, thread_key
from recollect.domain.images import image_tokens
from recollect.domain.llm import BackendFacts
from recollect.domain.model import JsonObject, Turn
from recollect.domain.prompt import (
    PER_MESSAGE,
    Instructions,
    Prompt,
    Window,
    answer_tokens,
    block_tokens,
    build_contextual_messages,
    context_block,
    current_datetime_context_message,
    first_difference,
    half,
    planned_cut,
    prefix_digest,
    prompt_bytes,
    render_memories,
    shares,
)
from recollect.errors import ModelUnavailable, TooLarge
from recollect.service.chat.context import Known, Recalled, RecallSource
from recollect.service.chat.followups import digest_of_turns
from recollect.service.chat.post_turn_jobs import Leaving
from recollect.service.chat.rewrite import Rewriter, Rewritten
from recollect.service.models.slots import wants_thread_tag
from recollect.service.ports import Backend

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
    """The thread holds no other answer in words."""
    history: tuple[Turn, ...]
    """The turns before the new ones that the prompt holds."""


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
        window = _window(wanted)
        draft = _begin(wanted, conversation, instructions, window)
        prompt, tokens = await self._fit(wanted, conversation, instructions, draft, window)
        messages = prompt_bytes(prompt.messages)
        before = conversation.last_prompt
        differs_at = None if before is None else first_difference(before.messages, messages)
        detail: JsonObject = {
            "epoch": draft.epoch.number,
            "epoch_reason": draft.epoch.reason if draft.opens_epoch else None,
            "prefix_digest": prefix_digest(messages, prompt.new_from),
            "first_difference": differs_at,
            "cause": draft.epoch.reason if differs_at is not None else None,
            "backend": wanted.backend.name,
            "kind": wanted.facts.kind,
            **({"label": wanted.backend.label} if wanted.backend.label else {}),
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
                follows=None if conversation.epoch is None else conversation.epoch.revision,
            ),
            messages=prompt.messages,
            max_tokens=wanted.max_tokens
            or (answer_tokens(None, wanted.facts.context_tokens) if wanted.facts.context_tokens else None),
            tokens=tokens,
            leaving=_leaving(wanted, conversation, draft, window, tokens),
            is_first_answer=not any(_is_answer(each.turn) for each in conversation.path),
            history=tuple(each.turn for each in draft.history),
        )

    async def _add_context(self, wanted: Wanted, conversation: Conversation, draft: _Draft) -> None:
        words = _words(wanted, conversation, draft)
        if words is None:
            return
        clock = str(current_datetime_context_message(wanted.now, wanted.time_zone)["content"])
        block = ContextBlock(context_block([clock]))
        if wanted.memory:
            room = block_tokens(wanted.facts.context_tokens) - await _tokens_of(wanted, block.text)
            rewritten, recalled = await self._remembered(wanted, draft, words, room)
            recalled, text = await _within(wanted, recalled, room)
            draft.notes["rewriter"] = rewritten.as_receipt()
            draft.notes["recall"] = recalled.as_receipt()
            if text:
                memories = {memory.id: memory.digest for memory in recalled.memories}
                block = ContextBlock(context_block([clock, text]), memories)
        else:
            draft.notes["recall"] = {"memories": [], "left_out": "memory is off for this message"}
        draft.history = tuple(
            replace(each, block=block) if each.turn is words else each for each in draft.history
        )
        draft.block, draft.block_place = block, place_of(words)

    async def _remembered(
        self, wanted: Wanted, draft: _Draft, words: Turn, room: int
    ) -> tuple[Rewritten, Recalled]:
        thread = wanted.accepted.thread
        rewritten = await self._rewriter.rewrite(
            words.content,
            [each.turn for each in draft.history[-RECENT_TURNS:] if each.turn is not words],
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
            said=rewritten.said,
            known=Known(frozenset(shown), injected, _first_new(wanted.accepted)),
            max_tokens=max(0, room),
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
    ) -> tuple[Prompt, int]:
        """The prompt, with its tokens. A new epoch is opened with the newer half where the window is full.

        The window is settled before memories are looked for: what leaves it may be recalled.
        """
        if wanted.memory:
            room = block_tokens(wanted.facts.context_tokens)
            await self._shrink_to(wanted, conversation, instructions, draft, window, room)
        await self._add_context(wanted, conversation, draft)
        prompt, tokens, shrunk = await self._shrink_to(wanted, conversation, instructions, draft, window, 0)
        if shrunk:
            await self._add_context(wanted, conversation, draft)
            prompt, tokens = await _counted(wanted, conversation, instructions, draft)
        if window.tokens is not None and tokens > window.tokens:
            raise TooLarge(
                f"content: the message needs about {tokens} tokens with its instructions, and {window.tokens} are "
                f"left of the model's {wanted.facts.context_tokens} once its answer has its room",
                field="content",
            )
        return prompt, tokens

    async def _shrink_to(
        self,
        wanted: Wanted,
        conversation: Conversation,
        instructions: Instructions,
        draft: _Draft,
        window: Window,
        room: int,
    ) -> tuple[Prompt, int, bool]:
        """The prompt, its tokens, and whether the window shrank, by halves, so that it and so much more fits in."""
        shrunk = False
        prompt, tokens = await _counted(wanted, conversation, instructions, draft)
        for smaller in (window, window.halved()):
            turns = 0 if shrunk else len(draft.history) + len(wanted.accepted.turns)
            if not window.is_over(turns, room + tokens) or not draft.history:
                break
            if not _shrink(wanted, conversation, draft, smaller, room + tokens):
                break
            shrunk = True
            prompt, tokens = await _counted(wanted, conversation, instructions, draft)
        return prompt, tokens, shrunk


async def _tokens_of(wanted: Wanted, text: str) -> int:
    """By the backend's tokenizer where it has one."""
    try:
        return await wanted.backend.count_tokens(text) if text else 0
    except ModelUnavailable:
        return len(text.encode()) // 3


async def _within(wanted: Wanted, recalled: Recalled, room: int) -> tuple[Recalled, str]:
    """As many of the memories as really fit, and how they are shown."""
    memories = recalled.memories
    while memories:
        text = render_memories(memories)
        if await _tokens_of(wanted, text) <= room:
            break
        memories = memories[:-1]
    dropped = len(recalled.memories) - len(memories)
    if dropped:
        passed = {**recalled.passed_over, "no room": recalled.passed_over.get("no room", 0) + dropped}
        recalled = replace(recalled, memories=memories, passed_over=passed)
    return recalled, render_memories(memories) if memories else ""


def _instructions(wanted: Wanted, conversation: Conversation) -> Instructions:
    thread = conversation.thread
    tag = thread_key(thread.space, thread.thread_id)[:8] if wants_thread_tag(wanted.facts) else None
    return Instructions((*wanted.instructions, *conversation.system_texts), tag)


def _begin(wanted: Wanted, conversation: Conversation, instructions: Instructions, window: Window) -> _Draft:
    """The epoch goes on, or a new one is opened because something in the prompt's past has changed."""
    digest = hashlib.sha256(instructions.system_message().encode()).hexdigest()
    cache = f"{wanted.backend.name}/{wanted.model or ''}"
    epoch = conversation.epoch
    reason = _reason_to_end(conversation, digest, cache)
    path, left_out = _without_unsendable(conversation.path, window)
    notes: JsonObject = {"never_sent": left_out} if left_out else {}
    # A branch that leaves before the epoch began has a past of its own, and the epoch's summary is not of it.
    through = epoch is not None and any(each.position == epoch.first_position for each in conversation.path)
    history = path
    if epoch is not None and (through or reason is None):
        history = _since(path, epoch.first_position)
    if epoch is not None and reason is None:
        return _Draft(epoch, history, opens_epoch=False, notes=notes)
    summary = epoch.summary if epoch is not None and through else None
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
    return _Draft(opened, history, opens_epoch=True, notes=notes)


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
    if wanted.max_tokens is not None and wanted.max_tokens >= context:
        raise TooLarge(
            f"max_tokens: {wanted.max_tokens} tokens are asked for the answer, and the model's context holds {context} "
            "in all",
            field="max_tokens",
        )
    return Window(wanted.max_turns, max(1, context - answer_tokens(wanted.max_tokens, context)))


def _build(wanted: Wanted, conversation: Conversation, instructions: Instructions, draft: _Draft) -> Prompt:
    last = conversation.last_prompt
    sent = 0 if last is None else sum(each.position <= last.position for each in draft.history)
    return build_contextual_messages(
        instructions,
        draft.history,
        wanted.accepted.turns,
        block=draft.block,
        summary=draft.epoch.summary,
        merge_roles=wanted.facts.alternating_roles,
        sent=sent,
    )


async def _counted(
    wanted: Wanted, conversation: Conversation, instructions: Instructions, draft: _Draft
) -> tuple[Prompt, int]:
    """The prompt and its tokens: what the backend said of the last one, and only what is new counted."""
    prompt = _build(wanted, conversation, instructions, draft)
    known = _known_tokens(conversation, draft)
    messages = prompt.messages if known is None else prompt.messages[prompt.new_from :]
    counted = await _tokens_of(wanted, "\n".join(_text_of(message) for message in messages))
    return prompt, (known or 0) + counted + PER_MESSAGE * len(messages) + image_tokens(messages)


def _known_tokens(conversation: Conversation, draft: _Draft) -> int | None:
    last = conversation.last_prompt
    if draft.opens_epoch or last is None or last.epoch != draft.epoch.number:
        return None
    usage = last.detail.get("usage") or {}
    prompt, answer = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(answer or 0, int):
        return None
    return prompt + (answer or 0)


def _text_of(message: JsonObject) -> str:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(str(part.get("text", "")) for part in content)
    calls = "".join(str(call.get("function", "")) for call in message.get("tool_calls") or ())
    return content + calls


def _shrink(wanted: Wanted, conversation: Conversation, draft: _Draft, window: Window, tokens: int) -> bool:
    """Open an epoch with the newer half, and with the summary of the older one where that is ready.

    False where nothing can leave. The words that set off a chain of tool calls stay, though the chain is cut.
    """
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
    kept = draft.history[cut:]
    if cut < len(draft.history) or not any(turn.role == "user" for turn in new):
        kept = _since(draft.history, kept[0].position if kept else _first_new(wanted.accepted))
    if len(kept) == len(draft.history):
        return False
    number = draft.epoch.number if draft.opens_epoch else draft.epoch.number + 1
    first = draft.history[cut].position if cut < len(draft.history) else _first_new(wanted.accepted)
    draft.epoch = replace(
        draft.epoch,
        number=number,
        first_position=first,
        reason="the window was full" + (": what left is summed up" if summary else ": trimmed alone"),
        revision=conversation.revision,
        summary=summary or draft.epoch.summary,
    )
    left = len(draft.history) - len(kept)
    draft.notes["window"] = {"left": left, "kept": len(kept), "summary": "made" if summary else "not ready"}
    draft.history, draft.opens_epoch = kept, True
    return True


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
    leaving = tuple(each.position for each in draft.history[:cut])
    return Leaving(draft.epoch.number, place, leaving)


def _first_new(accepted: Accepted) -> int:
    return place_of(accepted.turns[0] if accepted.turns else accepted.answers[0])


def _words(wanted: Wanted, conversation: Conversation, draft: _Draft) -> Turn | None:
    """The user's words that need a context: new ones, and those whose answer never came, as time has passed since."""
    if wanted.accepted.turns:
        return next((turn for turn in reversed(wanted.accepted.turns) if turn.role == "user"), None)
    last = next((each for each in reversed(draft.history) if _shows(each.turn)), None)
    if (
        last is None
        or last.turn.role != "user"
        or (last.block is not None and _has_answer(conversation, last))
    ):
        return None
    return last.turn


def _has_answer(conversation: Conversation, last: SentTurn) -> bool:
    """In some branch: then the same prompt is sent again, byte for byte."""
    return conversation.is_answered_again and conversation.path[-1].position == last.position


def _shows(turn: Turn) -> bool:
    return turn.role != "assistant" or bool(turn.content or turn.tool_calls)


def _is_answer(turn: Turn) -> bool:
    return turn.role == "assistant" and turn.status == "complete" and bool(turn.content)


def instructions_of(texts: Sequence[str | None]) -> tuple[str, ...]:
    """Instructions and persona without what is empty."""
    return tuple(text for text in texts if text)
