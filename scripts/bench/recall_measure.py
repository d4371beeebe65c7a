"""`recollect bench recall`: add conversations, wait until they are embedded, ask, and count what came back.

With memories: what extraction makes of the conversations takes part, and each question is asked with them and without.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from bm25_baseline import Bm25
from recall_metrics import Hit, Scores, mean, percentile, score, share

from recollect.errors import IndexUnavailable, InvalidInput
from recollect.service.coordination import Progress

RECOLLECT = "recollect"
BASELINE = "BM25 by message"
WITHOUT_MEMORY = "without memories"
"""The variant in which messages alone take part, among the same messages in the same home."""
CONTEXTS = (32_768, 8_192)
"""Of the models whose context blocks are measured."""
EARLIER_QUESTIONS = 40
STALLED_AFTER_SECONDS = 300.0
HOPELESS_AFTER_SECONDS = 10.0
"""How long nothing may move while the index says what is wrong."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the ids of the messages that answer it."""

    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages as `memory/add` takes them, in order, and the questions about them. Its id is its owner's."""

    conversation_id: str
    messages: Sequence[Mapping[str, Any]]
    questions: Sequence[Question]

    @property
    def ended_at(self) -> int:
        """When its questions are asked: "last Tuesday" in them means the one before this moment."""
        return max((message["timestamp"] for message in self.messages), default=0)


@dataclass(frozen=True, slots=True)
class Query:
    """One search. `variant` names the ranking to use; None is the one that is shipped."""

    user_id: str
    text: str
    asked_at: int
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search returned, and which parts of it were out of order."""

    hits: Sequence[Hit]
    degraded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """What a question's prompt holds: message ids in its own context block, and in all blocks of its epoch."""

    new: Sequence[str]
    held: Sequence[str]
    evaluated: int
    """Tokens of the prompt after what it has in common with the one before."""
    ends_epoch: bool


class BlockThread(Protocol):
    """A thread that questions are asked in one after another. No model takes part: the answers are given."""

    async def ask(self, text: str, answer: str) -> Block: ...


@dataclass(frozen=True, slots=True)
class MeasuredHome:
    """The ways into a home that holds the measured conversations and nothing else."""

    add: Callable[[Conversation], Awaitable[None]]
    count_embedded: Callable[[str], Awaitable[tuple[int, int]]]
    """How many messages of this owner are indexed and embedded, and how many are to be."""
    ask: Callable[[Query], Awaitable[Answer]]
    problem: Callable[[], str | None]
    """Why nothing is embedded, in words."""
    remember: Callable[[Conversation], Awaitable[int]] | None = None
    """Makes memories of a conversation that was added, and returns when they can be found: how many there are."""
    open_thread: Callable[[Conversation, int], BlockThread] | None = None
    """Opens a chat of the conversation's owner with a model of so many tokens' context."""


Stage = Callable[[str], AbstractContextManager[Progress]]
"""Opens a progress bar with this title."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Time, as the measurement sees it: a clock in seconds and a short rest between two looks."""

    clock: Callable[[], float]
    rest: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class MethodResult:
    """How one way of searching did on every question, in the order in which they were asked."""

    method: str
    categories: list[str] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    degraded: int = 0
    """CachedModelCalls that were answered by less than the whole search."""

    def overall(self) -> Scores | None:
        return mean(self.scores) if self.scores else None

    def by_category(self) -> dict[str, tuple[int, Scores]]:
        """The number of questions and their mean scores, in the alphabet's order."""
        groups: dict[str, list[Scores]] = {}
        for category, scores in zip(self.categories, self.scores, strict=True):
            groups.setdefault(category, []).append(scores)
        return {category: (len(groups[category]), mean(groups[category])) for category in sorted(groups)}

    def milliseconds(self, share: float) -> float | None:
        return percentile(self.seconds, share) * 1000 if self.seconds else None


@dataclass(slots=True)
class BlockResult:
    """How much of the evidence context blocks held with a context of so many tokens; one share a question."""

    context_tokens: int
    first: list[float] = field(default_factory=list)
    """In the block of a thread's first message."""
    later: list[float] = field(default_factory=list)
    """After `EARLIER_QUESTIONS` others in the same thread: in the block or in the epoch."""
    evaluated: list[int] = field(default_factory=list)
    """Tokens of each prompt after the thread's first that its cache did not hold."""
    epoch_ends: int = 0


@dataclass(slots=True)
class RecallReport:
    """What was measured on one set of conversations."""

    conversations: int
    messages: int
    questions: int
    left_out: int
    """CachedModelCalls without evidence: there is nothing to find for them."""
    methods: list[MethodResult]
    memories: int | None = None
    """How many took part; None where none were made."""
    blocks: list[BlockResult] = field(default_factory=list)


async def measure_recall(
    conversations: Sequence[Conversation],
    home: MeasuredHome,
    *,
    top_k: int,
    stage: Stage,
    pace: Pace,
    variants: Sequence[str] = (),
) -> RecallReport:
    """Measure the shipped search, the given variants of it, and the baseline on the same questions."""
    await _add(conversations, home, stage)
    await _wait_until_embedded(conversations, home, stage, pace)
    memories = await _remember(conversations, home.remember, stage) if home.remember else None
    compared = (WITHOUT_MEMORY,) if home.remember else ()
    methods = await _ask(conversations, home, stage, pace, (None, *compared, *variants))
    questions = sum(len(conversation.questions) for conversation in conversations)
    asked = len(methods[0].scores)
    return RecallReport(
        conversations=len(conversations),
        messages=sum(len(conversation.messages) for conversation in conversations),
        questions=asked,
        left_out=questions - asked,
        methods=[*methods, _baseline(conversations, top_k, pace)],
        memories=memories,
        blocks=[await _measure_blocks(conversations, home.open_thread, stage, size) for size in CONTEXTS]
        if home.open_thread
        else [],
    )


async def _add(conversations: Sequence[Conversation], home: MeasuredHome, stage: Stage) -> None:
    total = sum(len(conversation.messages) for conversation in conversations)
    done = 0
    with stage("adding") as progress:
        for conversation in conversations:
            await home.add(conversation)
            done += len(conversation.messages)
            progress(done, total)


async def _wait_until_embedded(
    conversations: Sequence[Conversation], home: MeasuredHome, stage: Stage, pace: Pace
) -> None:
    """Return when every message can be found by its words and by its meaning; give up when nothing moves."""
    counts = {conversation.conversation_id: (0, 1) for conversation in conversations}
    before, moved_at = -1, pace.clock()
    with stage("embedding") as progress:
        while True:
            for owner, (embedded, wanted) in counts.items():
                if embedded < wanted:
                    counts[owner] = await home.count_embedded(owner)
            done, total = (sum(column) for column in zip((0, 0), *counts.values(), strict=True))
            progress(done, total)
            if done >= total:
                return
            if done != before:
                before, moved_at = done, pace.clock()
            _give_up_if_stalled(f"{done} of {total} messages are embedded", home, pace.clock() - moved_at)
            await pace.rest()


def _give_up_if_stalled(so_far: str, home: MeasuredHome, seconds: float) -> None:
    problem = home.problem()
    if seconds > (STALLED_AFTER_SECONDS if problem is None else HOPELESS_AFTER_SECONDS):
        raise IndexUnavailable(
            f"{so_far}, and for {seconds:.0f} s no further one was: {problem or 'nobody says why'}"
        )


async def _remember(
    conversations: Sequence[Conversation], remember: Callable[[Conversation], Awaitable[int]], stage: Stage
) -> int:
    made = 0
    with stage("remembering") as progress:
        for number, conversation in enumerate(conversations, 1):
            made += await remember(conversation)
            progress(number, len(conversations))
    if not made:
        raise InvalidInput("nothing was made of these conversations: there are no memories to measure")
    return made


async def _ask(
    conversations: Sequence[Conversation],
    home: MeasuredHome,
    stage: Stage,
    pace: Pace,
    variants: Sequence[str | None],
) -> list[MethodResult]:
    """Every variant answers a question before the next is asked, so that a busy moment hits all of them."""
    results = {variant: MethodResult(variant or RECOLLECT) for variant in variants}
    asked = [(conversation, question) for conversation in conversations for question in _asked(conversation)]
    with stage("asking") as progress:
        for number, (conversation, question) in enumerate(asked, 1):
            for variant, result in results.items():
                query = Query(conversation.conversation_id, question.text, conversation.ended_at, variant)
                started = pace.clock()
                answer = await home.ask(query)
                _record(result, question, answer.hits, pace.clock() - started)
                result.degraded += bool(answer.degraded)
            progress(number, len(asked))
    return list(results.values())


async def _measure_blocks(
    conversations: Sequence[Conversation],
    open_thread: Callable[[Conversation, int], BlockThread],
    stage: Stage,
    context_tokens: int,
) -> BlockResult:
    """Ask each question in a thread of its own, and once more in one thread after all before it."""
    result = BlockResult(context_tokens)
    total, done = sum(len(_asked(conversation)) for conversation in conversations), 0
    with stage(f"blocks, {context_tokens:,}") as progress:
        for conversation in conversations:
            texts = {message["message_id"]: message.get("content") or "" for message in conversation.messages}
            long_thread = open_thread(conversation, context_tokens)
            for number, question in enumerate(_asked(conversation)):
                answer = " ".join(texts[name] for name in sorted(question.evidence))
                alone = await open_thread(conversation, context_tokens).ask(question.text, answer)
                result.first.append(share(alone.new, question.evidence))
                block = await long_thread.ask(question.text, answer)
                if number:
                    result.evaluated.append(block.evaluated)
                    result.epoch_ends += block.ends_epoch
                if number >= EARLIER_QUESTIONS:
                    result.later.append(share(block.held, question.evidence))
                done += 1
                progress(done, total)
    return result


def _baseline(conversations: Sequence[Conversation], top_k: int, pace: Pace) -> MethodResult:
    """BM25 over "sender: content", with the statistics of each conversation alone."""
    result = MethodResult(BASELINE)
    for conversation in conversations:
        messages = conversation.messages
        texts = [message.get("content") or "" for message in messages]
        ranking = Bm25(
            [f"{message['sender_id']}: {text}" for message, text in zip(messages, texts, strict=True)]
        )
        for question in _asked(conversation):
            started = pace.clock()
            best = ranking.rank(question.text, top_k)
            seconds = pace.clock() - started
            hits = [Hit(texts[number], (messages[number]["message_id"],)) for number in best]
            _record(result, question, hits, seconds)
    return result


def _asked(conversation: Conversation) -> list[Question]:
    return [question for question in conversation.questions if question.evidence]


def _record(result: MethodResult, question: Question, hits: Sequence[Hit], seconds: float) -> None:
    result.categories.append(question.category)
    result.scores.append(score(hits, question.evidence))
    result.seconds.append(seconds)
