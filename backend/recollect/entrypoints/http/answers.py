"""What answers look like."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from recollect.domain.access import ApiKey
from recollect.domain.model import Memcell, Turn
from recollect.domain.recall.hits import Hit
from recollect.service.recall.search import Found
from recollect.service.remember.boundaries import StrategyState


class Answer(BaseModel):
    """An answer that is made of an object whose attributes have the names of its fields."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, source: Any) -> Self:
        return cls.model_validate(source)


def next_page(found: Sequence[Any], limit: int, mark: Callable[[Any], object]) -> dict[str, Any]:
    """`next`, the mark of the page's last item, where more was found than the page holds."""
    return {"next": mark(found[limit - 1])} if len(found) > limit else {}


class ErrorDetail(BaseModel):
    code: str
    message: str
    field: str | None = Field(None, description="The field at fault, such as messages[0].content.")
    id: str | None = Field(None, description="Of an unexpected error: find it in the log by this id.")


class ErrorAnswer(BaseModel):
    error: ErrorDetail


class ThreadAnswer(Answer):
    thread_id: str
    user_id: str
    agent_id: str | None
    title: str | None
    tags: list[str]
    preset: str | None
    backend: str | None
    incognito: bool
    created: int
    updated: int
    turn_count: int
    pinned: bool
    archived: bool
    one_shot: bool


class WaitingAnswer(Answer):
    messages: int
    until: int = Field(description="When they are in a memcell at the latest, unless another message comes.")


class OneThreadAnswer(ThreadAnswer):
    waiting: WaitingAnswer | None = Field(None, description="Messages that are not in a memcell yet.")


class ThreadsAnswer(BaseModel):
    threads: list[ThreadAnswer]
    next: str | None = Field(None, description="Pass it as `after` for the next page; absent on the last.")


class TurnAnswer(Answer):
    turn_id: str
    message_id: str
    role: str
    sender_id: str
    content: str
    parts: list[dict[str, Any]] | None
    tool_calls: list[dict[str, Any]] | None
    tool_call_id: str | None
    reasoning: str | None
    parent_id: str | None
    model: str | None
    timestamp: int
    status: str


class TurnsAnswer(BaseModel):
    turns: list[TurnAnswer]
    next: str | None = Field(
        None, description="Pass it as `before` for the turns before these; absent at the start."
    )
    newer: str | None = Field(
        None,
        description="With `around` or `after`: pass it as `after` for the turns after these; absent at the end.",
    )
    receipts: dict[str, dict[str, Any]] | None = Field(
        None, description="With `receipts`: what was sent for answers and what came of it, by turn id."
    )


class ReceiptAnswer(Answer):
    message_id: str
    turn_id: str | None
    status: Literal["accepted", "duplicate", "forgotten"]
    detail: str | None = None
    indexed: bool = Field(description="In the index, and found by its words from there; false for a new one.")
    embedded: bool = Field(description="Found by its meaning too; false for a new one.")


class AddAnswer(BaseModel):
    session_id: str
    receipts: list[ReceiptAnswer]
    waiting: WaitingAnswer | None = Field(
        None, description="Messages of the thread that are not in a memcell yet."
    )


class HitAnswer(BaseModel):
    id: str
    type: str
    text: str
    score: float
    why: dict[str, float] = Field(description="The parts of the score; they add up to it.")
    message_ids: list[str]
    thread_id: str | None = Field(
        description="The thread that it is of; null where there are several, or none."
    )
    thread_ids: list[str] = Field(description="Every thread that it comes from, the latest first.")
    timestamp: int
    path: str | None = Field(description="The file in the vault; null for a message that is not in it yet.")
    role: str | None
    sender_id: str | None
    tags: list[str]
    passage: tuple[int, int] | None = Field(
        description="Where `text` begins and ends in the whole text; null where it is the whole."
    )
    embedded: bool = Field(description="Found by words and by meaning; false: by words alone so far.")
    until: int | None = Field(
        description="When a memory ceases to hold, or when what was made of a message did; null where nothing says so."
    )
    superseded_by: str | None = Field(description="The memory that holds instead.")
    about: str | None = Field(
        description="Whom a memory is about, by name and relation; `user` is its owner. Null where it does not say so."
    )
    repeated: int = Field(
        description="How many other texts say the same; of these, 20 at most are named in `message_ids`."
    )
    said: list[str] = Field(
        description="Of a memory: the words of source messages that say more of what is asked than it does."
    )
    neighbours: list[TurnAnswer] | None = None


class HitThreadAnswer(Answer):
    thread_id: str
    title: str | None
    created: int
    one_shot: bool


class SearchAnswer(BaseModel):
    hits: list[HitAnswer]
    threads: list[HitThreadAnswer] = Field(description="The threads that hits are of.")
    degraded: list[str] = Field(
        description="What this search could not use, in words; empty when all is well."
    )
    left_out: dict[str, int] = Field(
        description="`hits` and `neighbours` that were found and did not fit into `max_tokens`."
    )
    searched: dict[str, int] = Field(
        description="`texts` searched; `embedded`: those with vectors; `from_journal`: those not indexed yet."
    )
    timing: dict[str, float] = Field(description="Milliseconds of its steps.")
    model: str | None = Field(
        description="The embedding model that the query was compared by; null: by words alone."
    )

    @classmethod
    def of(cls, found: Found) -> "SearchAnswer":
        around: Sequence[list[Turn] | None] = found.neighbours or [None] * len(found.hits)
        return cls(
            hits=[
                _hit(hit, thread_ids, path, turns)
                for hit, thread_ids, path, turns in zip(
                    found.hits, found.thread_ids, found.paths, around, strict=True
                )
            ],
            threads=[HitThreadAnswer.of(thread) for thread in found.threads],
            degraded=found.degraded,
            left_out=found.left_out,
            searched={"texts": found.rows, "embedded": found.embedded, "from_journal": found.from_journal},
            timing=found.timing,
            model=found.model,
        )


def _hit(hit: Hit, thread_ids: list[str], path: str | None, turns: list[Turn] | None) -> HitAnswer:
    row = hit.row
    return HitAnswer(
        id=row.row_id,
        type=row.type,
        text=hit.text,
        score=hit.score,
        why=hit.why,
        repeated=hit.repeated,
        said=[each.text for each in hit.said],
        message_ids=hit.message_ids,
        thread_id=row.thread_id or None,
        thread_ids=thread_ids,
        timestamp=row.timestamp,
        path=path,
        role=row.role or None,
        sender_id=row.sender or None,
        tags=list(row.tags),
        passage=hit.passage,
        embedded=hit.embedded,
        until=hit.until or None,
        superseded_by=row.superseded_by or None,
        about=row.subject or None,
        neighbours=None if turns is None else [TurnAnswer.of(turn) for turn in turns],
    )


class StrategyAnswer(Answer):
    strategy: str
    state: str = Field(description="`extracted`, `nothing worth keeping`, `off`, `waiting` or `failed`.")
    detail: dict[str, Any] = Field(
        description="Ids of what it wrote, merged, superseded; what it refused and why; by whom; tokens; its error."
    )


class MemcellAnswer(BaseModel):
    memcell_id: str
    message_ids: list[str]
    reason: str
    state: Literal["celled", "extracted", "failed"] = "celled"
    strategies: list[StrategyAnswer] = Field(description="What was made of it, strategy by strategy.")

    @classmethod
    def of(
        cls, cell: Memcell, message_ids: Sequence[str], strategies: Sequence[StrategyState]
    ) -> "MemcellAnswer":
        states = {each.state for each in strategies}
        extracted = bool(states) and "waiting" not in states
        return cls(
            memcell_id=cell.memcell_id,
            message_ids=list(message_ids),
            reason=cell.reason,
            state="failed" if "failed" in states else "extracted" if extracted else "celled",
            strategies=[StrategyAnswer.of(each) for each in strategies],
        )


class FlushAnswer(BaseModel):
    session_id: str
    status: Literal["done", "pending", "failed"]
    memcells: list[MemcellAnswer] = Field(description="The memcells this flush closed.")
    buffered: int = Field(description="Messages still in the buffer.")
    error: str | None = None


class ReprocessAnswer(Answer):
    memcells: int = Field(description="How many memcells are worked on again.")
    jobs: int = Field(description="How many jobs were queued for that.")


class ForgetAnswer(BaseModel):
    thread_id: str
    forgotten: int = Field(description="How many turns were forgotten.")


class CoverageAnswer(Answer):
    messages: int
    buffered: int
    celled: int
    extracted: int = Field(
        description="Of those in memcells: the ones that no strategy has still to work on."
    )
    skipped: int
    forgotten: int
    missing: int
    doubled: int
    indexed: int
    embedded: int
    digest: str


class JobAnswer(Answer):
    job_id: int
    kind: str
    space: str
    user_id: str | None = Field(description="The owner of the thread.")
    thread_id: str | None
    state: str
    attempts: int
    interruptions: int
    run_at: int
    created: int
    error: str | None


class JobsAnswer(BaseModel):
    jobs: list[JobAnswer]
    next: int | None = Field(None, description="Pass it as `after` for the next page; absent on the last.")


class LiveAnswer(BaseModel):
    status: Literal["alive"] = "alive"
    version: str
    role: Literal["leads", "stands by"] | None = Field(
        None, description="Of one of several servers on a journal; null: there is one."
    )


class BackendHealth(BaseModel):
    name: str
    problem: str | None = Field(description="What was wrong with its last call, in words.")
    label: str | None = Field(description="What to know of its answers; null for a model that was chosen.")


class HealthAnswer(BaseModel):
    status: Literal["ok", "degraded", "unavailable"]
    version: str
    degraded: list[str] = Field(description="What does not work, and what to do about it.")
    jobs: dict[str, int]
    oldest_job_wait_ms: int
    backends: list[BackendHealth] = Field(description="The models' servers.")
    hints: list[str] = Field(description="What is not set up, what it would add, and how to set it up.")
    embedding_model: str | None = Field(description="Of search by meaning; null: search goes by words alone.")
    journal: str | None = Field(description="Its engine and where it is, without a password; for operators.")
    files: str | None = Field(description="Where the vault is: a folder, s3://… or file:///…; for operators.")


class KeyAnswer(Answer):
    key_id: str
    space: str
    user_id: str | None
    name: str | None
    scopes: list[str]
    created: int
    expires: int | None
    last_used: int | None = Field(description="Up to the minute after a crash.")
    revoked: int | None
    replaced_by: str | None = Field(description="The key that a rotation made instead.")


class NewKeyAnswer(KeyAnswer):
    secret: str = Field(description="Shown this once.")

    @classmethod
    def made(cls, key: ApiKey, secret: str) -> Self:
        return cls(**KeyAnswer.of(key).model_dump(), secret=secret)


class RevokedKeyAnswer(KeyAnswer):
    keys_left: int = Field(
        description="How many keys are in force. With none, only the command line gets in."
    )


class KeysAnswer(BaseModel):
    keys: list[KeyAnswer]
    closed: bool = Field(description="Whether a request needs a key on loopback too.")
