"""Background model calls whose answers are stored before use, so that none is paid for twice."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from recollect.domain.entries.entry import KeptAnswer
from recollect.domain.extraction.prompts import prompt_digest, repair_messages
from recollect.domain.model import JsonObject, ThreadRef
from recollect.errors import ModelTooSlow
from recollect.failpoints import FailPoints
from recollect.infra.journal.cells import SqlModelAnswers
from recollect.service.models.background import Answer, BackgroundModel, ChatPrefix

_ANSWER_TOKENS = 1_500


class ExtractionFailed(Exception):
    """The model's answer can't be used, not even after a second chance, or finds no end; this counts as an attempt."""


@dataclass(frozen=True, slots=True)
class Appended:
    """A question that follows the chat's own prompt, where the backend has that in its cache."""

    message: JsonObject
    prefix: Callable[[], Awaitable[ChatPrefix | None]]


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt and how its answer is read."""

    name: str
    thread: ThreadRef
    """Whose backend is asked; with the thread its answer is forgotten."""
    subject: str
    """What the answer is stored for, such as a memcell."""
    messages: Sequence[JsonObject]
    """The prompt, when it is sent by itself."""
    schema: JsonObject
    read: Callable[[str], object]
    """Raises ValueError, in words, for an answer that can't be used."""
    appended: Appended | None = None
    stage: Literal["extract", "skill"] = "extract"
    lacks: Callable[[str], str | None] = lambda text: None
    """Says what a usable answer lacks; None if nothing."""


@dataclass(frozen=True, slots=True)
class CachedModelCalls:
    """Returns a stored answer if there is one. An answer that can't be parsed is asked for once more."""

    model: BackgroundModel
    answers: SqlModelAnswers
    fail_points: FailPoints

    async def answer(self, question: Question) -> tuple[KeptAnswer, JsonObject]:
        """The answer and what it cost now. Raises Preempted, ModelUnavailable and ExtractionFailed."""
        digest = prompt_digest(question.name, question.messages)
        kept = await self.answers.answer(question.thread.space, question.subject, question.name, digest)
        if kept is not None:
            return kept, {}
        answer, asked = await self._ask(question)
        kept = KeptAnswer(answer.text, answer.model or "a model", _cost(asked))
        await self.answers.keep(question.thread, question.subject, question.name, digest, kept)
        self.fail_points.reach(f"{question.stage}.answer_kept")
        return kept, dict(kept.usage)

    async def _ask(self, question: Question) -> tuple[Answer, list[Answer]]:
        """An answer that can be read, at the second chance at the latest; one that lacks something where both do.

        And all that there were.
        """
        messages, prefix = list(question.messages), None
        if question.appended is not None and (prefix := await question.appended.prefix()) is not None:
            messages = [question.appended.message]
        first = await self._once(question, messages, prefix)
        wrong = await _wrong_with(question, first.text) or await asyncio.to_thread(question.lacks, first.text)
        if wrong is None:
            return first, [first]
        if first.cut_short:
            second = await self._once(question, messages, prefix, 2 * _ANSWER_TOKENS)
        else:
            second = await self._once(question, repair_messages(messages, first.text, wrong), prefix)
        unusable = await _wrong_with(question, second.text)
        if unusable is None:
            return second, [first, second]
        if await _wrong_with(question, first.text) is None:
            return first, [first, second]
        raise ExtractionFailed(f"the model's answer can't be used: {unusable}")

    async def _once(
        self,
        question: Question,
        messages: Sequence[JsonObject],
        prefix: ChatPrefix | None,
        max_tokens: int = _ANSWER_TOKENS,
    ) -> Answer:
        try:
            answer = await self.model.ask(
                messages,
                thread=question.thread,
                max_tokens=max_tokens,
                schema=question.schema,
                prefix=prefix,
            )
        except ModelTooSlow as error:
            # Not an outage, which is retried without limit: this counts as an attempt.
            raise ExtractionFailed(error.message) from error
        self.fail_points.reach(f"{question.stage}.answered")
        return answer


async def _wrong_with(question: Question, text: str) -> str | None:
    """In a thread: a malformed answer can take seconds to read."""
    try:
        await asyncio.to_thread(question.read, text)
    except ValueError as error:
        return str(error)
    return None


def _cost(answers: Sequence[Answer]) -> JsonObject:
    """Of all of them; what no answer tells is left out."""
    cost: JsonObject = {}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        told = [getattr(answer.usage, name) for answer in answers]
        if any(count is not None for count in told):
            cost[name] = sum(count or 0 for count in told)
    return cost
