"""From a request to the prompt that is sent for it: epoch, rewriting, recall, window, messages. And prompts read back."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from recollect.domain.access import Caller
from recollect.domain.chat import ContextBlock, PromptReceipt, SentPrompt
from recollect.domain.context_lines import OfferedSkill, render_memories, render_skills
from recollect.domain.identity import place_of, turn_number
from recollect.domain.identity import turn_id as turn_id_of
from recollect.domain.images import image_tokens
from recollect.domain.model import JsonObject, Thread, Turn
from recollect.domain.paths import is_skill_path
from recollect.domain.prompt import (
    PER_MESSAGE,
    Prompt,
    block_tokens,
    context_block,
    current_datetime_context_message,
    epoch_block_tokens,
    first_difference,
    prefix_digest,
    prompt_bytes,
)
from recollect.errors import ModelUnavailable, NotFound, RecollectError, TooLarge
from recollect.infra.backends.configured import Backend
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.off_loop import off_loop
from recollect.service.chat.context import Known, Recalled, RecallSource, careful_tokens
from recollect.service.chat.epoch import Draft
from recollect.service.chat.rewrite import Rewriter, Rewritten
from recollect.service.chat.sources import Chosen, Sources, pending
from recollect.service.threads import owned_thread

SkillSource = Callable[[Thread], Awaitable[Sequence[OfferedSkill]]]
"""The skills that a chat of a thread may be offered, the newest first."""

RECENT_TURNS = 12
"""How far back the rewriter looks."""
MOST_SKILLS = 20
SKILL_TOKENS = 400
_SKILL_SECONDS = 1.0


class PromptMaker:
    """Reads, asks the rewriter and recall, and decides. What it decides is written down by its caller."""

    def __init__(
        self, rewriter: Rewriter, recall: RecallSource, skills: SkillSource, sources: Sources
    ) -> None:
        self._rewriter = rewriter
        self._recall = recall
        self._skills = skills
        self.sources = sources

    async def prepare(self, draft: Draft) -> SentPrompt:
        """Settle what is open in the draft. Raises TooLarge, with both numbers, for what cannot fit."""
        prompt, tokens = await self._fit(draft)
        messages, detail = await off_loop(prompt.messages, partial(_written, draft, prompt))
        draft.messages = prompt.messages
        draft.plan_leaving(tokens)
        before = draft.conversation.epoch
        return SentPrompt(
            epoch=draft.epoch,
            opens_epoch=draft.opens_epoch,
            block=draft.block,
            block_position=draft.block_place,
            messages=messages,
            new_from=prompt.new_from,
            detail=detail,
            follows=None if before is None else before.revision,
        )

    async def _add_context(self, draft: Draft) -> None:
        words = draft.words()
        if words is None:
            return
        clock = str(current_datetime_context_message(draft.now, draft.time_zone)["content"])
        given = await self._given(draft, words)
        parts, memories = [clock], dict[str, str]()
        if draft.memory:
            room = block_tokens(draft.facts.context_tokens)
            room -= await _tokens_of(draft, context_block([clock]))
            skills = await self._offered(draft, words, room // 2)
            room -= await _tokens_of(draft, render_skills(skills))
            rewritten, recalled = await self._remembered(draft, words, room)
            recalled, text = await _within(draft, recalled, room)
            draft.notes["rewriter"] = rewritten.as_receipt()
            draft.notes["recall"] = recalled.as_receipt()
            memories = {
                each.id: each.digest for memory in recalled.memories for each in (memory, *memory.carries)
            }
            # The facts of a line of the profile are in the prompt with it.
            memories |= {
                fact: digest for memory in recalled.memories for fact, digest in memory.shows.items()
            }
            memories |= {origin: "" for skill in skills for origin in skill.origins}
            parts += [render_skills(skills), text] if memories else []
        else:
            draft.notes["recall"] = {"memories": [], "left_out": "memory is off for this message"}
        block = ContextBlock(context_block(filter(None, (*parts, given.text))), memories | given.ids)
        draft.history = tuple(
            replace(each, block=block) if each.turn is words else each for each in draft.history
        )
        draft.block, draft.block_place = block, place_of(words)

    async def _given(self, draft: Draft, words: Turn) -> Chosen:
        """The sources of the block, in what the messages and recall leave of the window."""
        given = Chosen()
        if any(pending(draft, words)) or words.parts:
            draft.block = None
            draft.history = tuple(
                replace(each, block=None) if each.turn is words else each for each in draft.history
            )
            context, most = draft.facts.context_tokens, draft.window.tokens
            _, tokens = await _counted(draft)
            room = None if most is None else most - tokens - block_tokens(context)
            given = await self.sources.chosen(draft, words, room, partial(_tokens_of, draft))
        if given.receipt:
            draft.notes["sources"] = given.receipt
        return given

    async def _offered(self, draft: Draft, words: Turn, room: int) -> list[OfferedSkill]:
        """The agent's skills, once an epoch: nothing while a block that stays in the prompt lists them."""
        held = (each.block.memories for each in draft.history if each.block and each.turn is not words)
        if not draft.has_tools or any(is_skill_path(key) for memories in held for key in memories):
            return []
        try:
            async with asyncio.timeout(_SKILL_SECONDS):
                found = await self._skills(draft.accepted.thread)
        except (RecollectError, OSError) as error:  # A time-out is an OSError, too.
            draft.notes["skills"] = {"offered": [], "left_out": f"could not be read: {type(error).__name__}"}
            return []
        offered: list[OfferedSkill] = []
        for skill in found[:MOST_SKILLS]:
            if careful_tokens(render_skills([*offered, skill])) <= min(SKILL_TOKENS, room):
                offered.append(skill)
        left = len(found) - len(offered)
        if found:
            draft.notes["skills"] = {
                "offered": [skill.name for skill in offered],
                "left_out": f"no room for {left} more" if left else None,
            }
        return offered

    async def _remembered(self, draft: Draft, words: Turn, room: int) -> tuple[Rewritten, Recalled]:
        thread = draft.accepted.thread
        rewritten = draft.rewritten or await self._rewriter.rewrite(
            words.content,
            [each.turn for each in draft.history[-RECENT_TURNS:] if each.turn is not words],
            backend=draft.backend,
            facts=draft.facts,
            model=draft.model,
            space=thread.space,
        )
        draft.rewritten = rewritten
        injected: dict[str, str] = {}
        for each in draft.history:
            # The words' own block gives way to the new one.
            injected |= each.block.memories if each.block and each.turn is not words else {}
        # A turn beside the path was said in a branch that was left: it is not brought back.
        first, last = draft.epoch.first_position, place_of(draft.accepted.answers[-1])
        shown = {(thread.thread_id, place) for place in range(first, last + 1)}
        recalled = await self._recall.recall(
            thread,
            rewritten.query,
            before=rewritten.before,
            known=Known(frozenset(shown), injected, draft.first_new),
            max_tokens=max(0, room),
            now=draft.now,
        )
        return rewritten, recalled

    async def _fit(self, draft: Draft) -> tuple[Prompt, int]:
        """The prompt, with its tokens. A new epoch is opened with the newer half where the window is full.

        The window is settled before memories are looked for: what leaves it may be recalled. Where the blocks of the
        epoch are full, a new one begins without them, and their memories may be recalled again.
        """
        context, room = draft.facts.context_tokens, draft.window.tokens
        words = draft.words()
        wants_room = words is not None and any(pending(draft, words))
        reserved = self.sources.most_tokens(context) if wants_room else 0
        reserved += block_tokens(context) if draft.memory else 0
        if reserved:
            await _shrink_to(draft, reserved)
        await self._add_context(draft)
        held = await _tokens_of(draft, "\n".join(draft.block_texts()))
        if draft.block is not None and held > epoch_block_tokens(context) and draft.drop_blocks():
            await self._add_context(draft)
        prompt, tokens, shrunk = await _shrink_to(draft, 0)
        if shrunk:
            await self._add_context(draft)
            prompt, tokens = await _counted(draft)
        if room is not None and tokens > room:
            raise TooLarge(
                f"content: the message needs about {tokens} tokens with its instructions, and {room} are "
                f"left of the model's {context} once its answer has its room",
                field="content",
            )
        return prompt, tokens


async def _shrink_to(draft: Draft, room: int) -> tuple[Prompt, int, bool]:
    """The prompt, its tokens, and whether the window shrank, by halves, so that it and `room` tokens more fit in."""
    shrunk = False
    prompt, tokens = await _counted(draft)
    for smaller in (draft.window, draft.window.halved()):
        turns = 0 if shrunk else len(draft.history) + len(draft.accepted.turns)
        if not draft.window.is_over(turns, room + tokens) or not draft.history:
            break
        if not draft.shrink(smaller, room + tokens):
            break
        shrunk = True
        prompt, tokens = await _counted(draft)
    return prompt, tokens, shrunk


async def _counted(draft: Draft) -> tuple[Prompt, int]:
    """The prompt and its tokens: what the backend said of the last one, and only what is new counted."""
    prompt, known = draft.build(), draft.known_tokens()
    messages = prompt.messages if known is None else prompt.messages[prompt.new_from :]
    return prompt, (known or 0) + await prompt_tokens(draft.backend, messages)


async def prompt_tokens(backend: Backend, messages: Sequence[JsonObject]) -> int:
    """About how many tokens messages in OpenAI's shape have, with what a template may put around them."""
    counted = await _counted_by(backend, "\n".join(_text_of(message) for message in messages))
    return counted + PER_MESSAGE * len(messages) + image_tokens(messages)


def _text_of(message: JsonObject) -> str:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(str(part.get("text", "")) for part in content)
    calls = "".join(str(call.get("function", "")) for call in message.get("tool_calls") or ())
    return content + calls


async def _tokens_of(draft: Draft, text: str) -> int:
    return await _counted_by(draft.backend, text)


async def _counted_by(backend: Backend, text: str) -> int:
    """By the backend's tokenizer where it has one."""
    try:
        return await backend.count_tokens(text) if text else 0
    except ModelUnavailable:
        return len(text.encode()) // 3


async def _within(draft: Draft, recalled: Recalled, room: int) -> tuple[Recalled, str]:
    """As many of the memories as really fit, and how they are shown."""
    memories = recalled.memories
    while memories:
        text = render_memories(memories)
        if await _tokens_of(draft, text) <= room:
            break
        memories = memories[:-1]
    dropped = len(recalled.memories) - len(memories)
    if dropped:
        passed = {**recalled.passed_over, "no room": recalled.passed_over.get("no room", 0) + dropped}
        recalled = replace(recalled, memories=memories, passed_over=passed)
    return recalled, render_memories(memories) if memories else ""


def _written(draft: Draft, prompt: Prompt) -> tuple[bytes, JsonObject]:
    messages = prompt_bytes(prompt.messages)
    return messages, _detail(draft, messages, prompt.new_from)


def _detail(draft: Draft, messages: bytes, new_from: int) -> JsonObject:
    """What the receipt says of the prompt."""
    before = draft.conversation.last_prompt
    differs_at = None if before is None else first_difference(before.messages, messages)
    cause = None
    if differs_at is not None:
        cause = draft.epoch.reason if draft.opens_epoch else "an earlier message is sent in another form"
    detail: JsonObject = {
        "epoch": draft.epoch.number,
        "epoch_reason": draft.epoch.reason if draft.opens_epoch else None,
        "prefix_digest": prefix_digest(messages, new_from),
        "first_difference": differs_at,
        "cause": cause,
        "backend": draft.backend.name,
        "kind": draft.facts.kind,
        **({"label": draft.backend.label} if draft.backend.label else {}),
        **draft.notes,
    }
    if draft.facts.drops_reasoning and any(past.turn.reasoning for past in draft.history):
        detail["misses"] = "the model's template leaves earlier reasoning out of the next prompt"
    return detail


_NEAR = 4
"""An answer stands right behind its message, but for results of tools and further choices."""


async def prompt_of(
    threads: SqlThreadStore,
    chats: SqlChatStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    turn_id: str,
) -> PromptReceipt:
    """Of an answer, or of the message that it answers. Raises NotFound where nothing was sent for it."""
    thread = (await owned_thread(threads, caller, thread_id, user_id)).ref
    receipt = await chats.prompt(thread, turn_id)
    number = turn_number(turn_id)
    turn = await threads.turn(thread, turn_id)
    if receipt is None and number is not None and turn is not None and turn.role == "user":
        for place in range(number + 1, number + 1 + _NEAR):
            receipt = receipt or await chats.prompt(thread, turn_id_of(place))
    if receipt is None and turn is not None and turn.status in ("queued", "streaming"):
        raise NotFound(f"what is sent for {turn_id!r} is not written down yet")
    if receipt is None:
        raise NotFound(f"nothing was sent for {turn_id!r} in this thread")
    return receipt
