"""What answers about backends, their caches and the index look like."""

from pydantic import BaseModel, Field

from recollect.memory.chat import PromptCost
from recollect.service.backend_view import BackendView


class BackendAnswer(BaseModel):
    name: str
    kind: str | None = Field(description="The engine, as far as it told; null: it does not answer.")
    local: bool | None
    models: list[str]
    context_tokens: int | None = Field(description="What one request may hold.")
    slots: int | None = Field(description="How many conversations its cache holds at once; null: not told.")
    pinned_slots: int = Field(description="How many of them hold a thread that is known to be there.")
    label: str | None = Field(description="What to know of its answers; null for a model that was chosen.")
    problem: str | None = Field(description="What was wrong with its last call, in words.")

    @classmethod
    def of(cls, view: BackendView) -> "BackendAnswer":
        facts = view.facts
        return cls(
            name=view.backend.name,
            kind=None if facts is None else facts.kind,
            local=None if facts is None else facts.local,
            models=[] if facts is None else list(facts.models),
            context_tokens=None if facts is None else facts.context_tokens,
            slots=None if facts is None else facts.slots,
            pinned_slots=view.pinned,
            label=view.backend.label,
            problem=view.problem,
        )


class BackendsAnswer(BaseModel):
    backends: list[BackendAnswer] = Field(description="The default first.")


class CachedPrompt(BaseModel):
    thread_id: str
    turn_id: str = Field(description="The answer's.")
    at: int
    cached_tokens: int | None = Field(description="Null where the backend did not tell.")
    evaluated_tokens: int | None
    time_to_first_token_ms: float | None
    cause: str | None = Field(
        description="Why the prompt was no longer what the cache held; null: it only grew."
    )

    @classmethod
    def of(cls, cost: PromptCost) -> "CachedPrompt":
        return cls(**{name: getattr(cost, name) for name in cls.model_fields})


class CacheAnswer(BaseModel):
    answers: list[CachedPrompt] = Field(description="The last answers, oldest first.")


class IndexAnswer(BaseModel):
    files: int
    bytes: int = Field(description="On disk, old versions that are not yet cleared included.")
    memory_bytes: int = Field(description="Of the texts that are held in memory to be searched.")
    waiting_words: int = Field(description="Threads with messages that are not found by words yet.")
    waiting_meaning: int = Field(description="The same by meaning.")
    model: str | None = Field(description="The embedding model; null: search goes by words alone.")
