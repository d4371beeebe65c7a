"""Background model calls whose answers are stored before use, so that none is paid for twice."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from recollect.domain.entries.entry import KeptAnswer
from recollect.domain.extraction.prompts import prompt_digest, repair_messages
from recollect.domain.job import GivenUp
from recollect.domain.model import JsonObject, ThreadRef
from recollect.errors import ModelUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.cells import SqlModelAnswers
from recollect.service.models.background import Answer, BackgroundModel, CallBudget, ChatPrefix
from recollect.service.models.call_failures import FailsAgain

MOST_CALLS = 3
"""Requests for one question, retries of every kind counted, until somebody asks for more."""
_ANSWER_TOKENS = 2_000


class ExtractionFailed(GivenUp):
    """The model gave no answer that can be used, as often as it may be asked. It is not asked again unasked."""


AFTER_CHAT = "after_chat"
"""Set in the cost of a question that followed the chat's own prompt."""
INCOMPLETE = "incomplete"
"""Set in the cost of an answer that lacks something: a person's retry asks again."""


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
    digest: str = ""
    """Under which the answer is stored; empty: that of the prompt."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Entries that the prompt lists, by their short ids; stored with the answer."""


@dataclass(frozen=True, slots=True)
class CachedModelCalls:
    """Returns a stored answer if there is one. A request is sent again only after a failure that may pass, later; any
    other second request has more room, or says what was wrong with the first answer. Calls that failed are counted
    durably.
    """

    model: BackgroundModel
    answers: SqlModelAnswers
    fail_points: FailPoints

    async def answer(self, question: Question) -> tuple[KeptAnswer, JsonObject]:
        """The answer and what it cost now. Raises Preempted, ModelUnavailable and ExtractionFailed."""
        digest = question.digest or prompt_digest(question.name, question.messages)
        place = (question.subject, question.name, digest)
        kept = await self.answers.answer(question.thread.space, *place)
        if kept is not None:
            return kept, {}
        left = MOST_CALLS - await self.answers.failed_calls(question.thread.space, *place)
        if left <= 0:
            raise ExtractionFailed("the model was asked as often as it may be, and no answer can be used")
        budget = CallBudget(left)
        try:
            prefix = None if question.appended is None else await question.appended.prefix()
            answer, asked = await self._ask(question, prefix, budget)
        except Exception as error:
            is_final = isinstance(error, ExtractionFailed | FailsAgain) or budget.left <= 0
            failed = left if is_final else left - budget.left
            if failed:
                await self.answers.count_failed(question.thread, *place, failed)
            if is_final:
                raise ExtractionFailed(str(error)) from error
            if failed and isinstance(error, ModelUnavailable):
                told = f"{error.message.rstrip('.')}; calls left: {budget.left}"
                raise ModelUnavailable(told, retry_after=error.retry_after) from error
            raise
        cost = _cost(asked) if prefix is None else {**_cost(asked), AFTER_CHAT: True}
        if await asyncio.to_thread(question.lacks, answer.text):
            cost[INCOMPLETE] = True
        kept = KeptAnswer(answer.text, answer.model or "a model", cost, question.known)
        await self.answers.keep(question.thread, *place, kept)
        self.fail_points.reach(f"{question.stage}.answer_kept")
        return kept, dict(kept.usage)

    async def _ask(
        self, question: Question, prefix: ChatPrefix | None, budget: CallBudget
    ) -> tuple[Answer, list[Answer]]:
        """An answer that can be read; one that lacks something where none is whole. And all that there were.

        One that is cut off is asked for once more with twice the room, one that can't be used once more with what is
        wrong with it.
        """
        messages, room = list(question.messages), _ANSWER_TOKENS
        if question.appended is not None and prefix is not None:
            messages = [question.appended.message]
        asked: list[Answer] = []
        usable: Answer | None = None
        is_repaired = False
        while True:
            try:
                answer = await self._once(question, messages, prefix, room, budget)
            except ModelUnavailable:
                if usable is None:
                    raise
                return usable, asked
            asked.append(answer)
            unusable = await _wrong_with(question, answer.text)
            wrong = unusable or await asyncio.to_thread(question.lacks, answer.text)
            usable = answer if unusable is None else usable
            if wrong is None:
                return answer, asked
            if budget.left and answer.cut_short and room == _ANSWER_TOKENS:
                room *= 2
            elif budget.left and not answer.cut_short and not is_repaired:
                messages, is_repaired = repair_messages(messages, answer.text, wrong), True
            elif usable is not None:
                return usable, asked
            else:
                raise ExtractionFailed(answer.fault(wrong))

    async def _once(
        self,
        question: Question,
        messages: Sequence[JsonObject],
        prefix: ChatPrefix | None,
        room: int,
        budget: CallBudget,
    ) -> Answer:
        answer = await self.model.ask(
            messages,
            thread=question.thread,
            max_tokens=room,
            schema=question.schema,
            prefix=prefix,
            budget=budget,
        )
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
