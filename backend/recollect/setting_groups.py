"""Groups of settings: limits, quotas, chats, memcells, strategies, jobs, search, sources, webhooks, vault, model servers."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator


def _names_files(url: str) -> str:
    if re.fullmatch(r"s3://[^/?#@:]+(/[^?#]*)?|file:///[^/?#][^?#]*", url) is None:
        raise ValueError("must be s3://<bucket>/<prefix> or file:///<path of a folder>")
    return url


FilesUrl = Annotated[str, AfterValidator(_names_files)]


class Group(BaseModel):
    """A table of `recollect.toml`; a name that it doesn't know is refused."""

    model_config = ConfigDict(extra="forbid")


class LimitSettings(Group):
    """What one request may hold, how long it may take to arrive, how many connections there may be, and how much work."""

    header_bytes: int = Field(65_536, ge=1024, description="Most bytes of request line and headers.")
    body_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="Largest request body in bytes.")
    chat_body_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="Largest chat request in bytes, with images and resent history.",
    )
    import_bytes: int = Field(
        1024 * 1024 * 1024, ge=1024, description="Largest file that is imported, in bytes."
    )
    head_seconds: float = Field(30, gt=0, le=3600, description="Time for request line and headers to arrive.")
    body_seconds: float = Field(
        60,
        gt=0,
        le=3600,
        description="Time for a body to arrive, and a second more for every 4 KiB of it; "
        "and for a client to read more of its answer.",
    )
    keep_alive_seconds: int = Field(75, ge=6, le=3600, description="How long idle connections stay open.")
    connections: int = Field(1000, ge=2, description="Most connections at once.")
    unfinished: int = Field(200, ge=1, description="Most requests that have not arrived in full.")
    messages: int = Field(500, ge=1, description="Most messages in one memory/add request.")
    backlog: int = Field(2000, ge=1, description="Jobs of a user that may be overdue; then adds answer 429.")
    unsearched: int = Field(5000, ge=1, description="Messages of a user that search may lack; likewise.")


DEFAULTS = {
    "user_requests": 1_200,
    "key_requests": 12_000,
    "user_bytes": 128 * 1024 * 1024,
    "key_bytes": 1024 * 1024 * 1024,
    "user_model_calls": 5_000,
    "user_disk_mb": 10_240,
}
"""Where the server listens on another address than loopback."""


class QuotaSettings(Group):
    """What a user and a key may use. Unset: as in DEFAULTS, and no limit on loopback; 0: no limit anywhere."""

    user_requests: int | None = Field(None, ge=0, description="Requests of a user a minute; 0: any number.")
    key_requests: int | None = Field(None, ge=0, description="Requests with a key a minute; 0: any number.")
    user_bytes: int | None = Field(
        None, ge=0, description="Bytes in bodies of a user's requests a minute; 0: any number."
    )
    key_bytes: int | None = Field(
        None, ge=0, description="Bytes in bodies of requests with a key a minute; 0: any number."
    )
    user_model_calls: int | None = Field(
        None, ge=0, description="Background calls to a model for a user a day; 0: any number."
    )
    user_disk_mb: int | None = Field(
        None, ge=0, description="Megabytes of a user's files in the vault; 0: any number."
    )

    def in_force(self, name: str, *, on_loopback: bool) -> int:
        """The limit of this name; 0: none."""
        given: int | None = getattr(self, name)
        return given if given is not None else 0 if on_loopback else DEFAULTS[name]


class ChatSettings(Group):
    """Prompt size and timeouts of chats."""

    max_turns: int = Field(
        80, ge=2, le=100_000, description="Most messages in a prompt; at the limit the older half is dropped."
    )
    answer_seconds: float = Field(
        600, gt=0, le=86_400, description="Time limit for an answer; what has arrived by then is kept."
    )
    orphan_seconds: float = Field(
        10, ge=0, le=86_400, description="How long an answer continues after its client has disconnected."
    )
    rewrite_seconds: float = Field(
        1.5, gt=0, le=60, description="Time limit for the model to rewrite a follow-up question for recall."
    )
    recall_seconds: float = Field(
        1, gt=0, le=60, description="Time limit for recall; after it, the model answers without memories."
    )
    incognito_hours: float = Field(
        24, gt=0, le=8784, description="An incognito thread is forgotten after this long without a message."
    )
    connect_seconds: float = Field(3, gt=0, le=60, description="Time limit for connecting to a model server.")
    first_token_seconds: float = Field(120, gt=0, le=3600, description="Time limit for the first token.")
    stall_seconds: float = Field(60, gt=0, le=3600, description="Time limit between two pieces of an answer.")
    allow_private_images: bool = Field(
        False, description="Allow images by http: and from addresses of this machine and its network."
    )


class MemorizeSettings(Group):
    """How conversations are divided into memcells."""

    mode: Literal["chat", "agent", "both"] = Field(
        "both", description="What is remembered: about the user (chat), the agent's work (agent), or both."
    )
    boundary: Literal["rules", "model"] = Field(
        "rules", description="What decides where a memcell ends: rules, or a model, which costs calls."
    )
    boundary_every: int = Field(4, ge=1, le=1000, description="Look for boundaries every N messages.")
    pause_seconds: float = Field(
        30, ge=0, le=86400, description="Look for boundaries after this long without a message, too."
    )
    delay_ms: int = Field(
        300, ge=0, le=60_000, description="Debounce: wait this long for more messages before looking."
    )
    gap_minutes: float = Field(
        30, gt=0, le=527_040, description="A gap of this length between two messages closes a memcell."
    )
    quiet_seconds: float = Field(
        300, gt=0, le=86400, description="Close what is left of a chat after this long without a message."
    )
    max_turns: int = Field(40, ge=2, le=1000, description="Most messages in a memcell.")
    max_chars: int = Field(
        9_000, ge=100, description="Most characters in a memcell; of long messages only a part counts."
    )
    language: str | None = Field(
        None,
        max_length=60,
        description="Language of memories, such as German; unset: that of the conversation.",
    )
    model_timeout_seconds: float = Field(
        300, gt=0, le=3600, description="Time limit for a background call to the model."
    )


class StrategySettings(Group):
    """Whether a strategy runs that works on memcells: they share one job and one call of the model."""

    enabled: bool = Field(True, description="Whether the strategy runs.")


class TimedStrategySettings(StrategySettings):
    """Whether and when a strategy runs that follows others. Unset values are the strategy's own."""

    every: int | None = Field(
        None, ge=1, le=10_000, description="Run once every N events, on all events since the last run."
    )
    idle_seconds: float | None = Field(
        None, ge=0, le=86_400, description="Run after this long without an event."
    )
    at: str | None = Field(
        None, pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="Run at this time of day, UTC, such as 03:30."
    )


class StrategiesSettings(Group):
    """What is made of conversations. Changes in recollect.toml apply while the server runs."""

    episode: StrategySettings = StrategySettings()
    facts: StrategySettings = StrategySettings()
    foresight: StrategySettings = StrategySettings()
    profile: TimedStrategySettings = TimedStrategySettings()
    case: StrategySettings = StrategySettings()
    skill: TimedStrategySettings = TimedStrategySettings()


class JobSettings(Group):
    """The job engine."""

    workers: int = Field(4, ge=1, le=64, description="Jobs that run at the same time in each pool.")
    lease_seconds: float = Field(
        660, gt=0, le=86_400, description="A job that runs longer is considered hung: stopped and retried."
    )
    max_attempts: int = Field(8, ge=1, description="A job that has failed this often is set aside as dead.")
    stop_seconds: float = Field(10, ge=0, le=3600, description="How long shutdown waits for running jobs.")


class EmbeddingSettings(Group):
    """The model for search by meaning."""

    kind: Literal["onnx", "openai", "none"] = Field(
        "onnx", description="A local ONNX model, an OpenAI-compatible server, or none (search by words only)."
    )
    folder: Path | None = Field(
        None, description="Folder of another ONNX model; unset: the model in the package."
    )
    base_url: str | None = Field(
        None, description="Address of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1."
    )
    model: str | None = Field(None, description="Name of the model on that server.")
    api_key: SecretStr | None = Field(None, description="API key for that server.")
    dimensions: int | None = Field(None, ge=1, description="Required length of its vectors; unset: any.")
    timeout_seconds: float = Field(30, gt=0, le=600, description="Time limit for one request to that server.")
    query_seconds: float = Field(
        2, gt=0, le=60, description="Time limit for embedding a query; then the search goes by words alone."
    )
    batch: int | None = Field(
        None, ge=1, le=1024, description="Texts per call; unset: 16 locally, 64 remotely."
    )
    threads: int = Field(1, ge=1, le=64, description="CPU threads of the local model.")

    @model_validator(mode="after")
    def _server_is_named(self) -> Self:
        if self.kind == "openai" and not (self.base_url and self.model):
            raise ValueError("kind openai needs base_url and model")
        return self


class IndexSettings(Group):
    """The search index."""

    cache_mb: int = Field(
        256, ge=1, le=1_000_000, description="Memory for the rows of recently active users; one always fits."
    )
    delay_ms: int = Field(
        300, ge=0, le=60_000, description="Debounce: wait this long for more messages before indexing."
    )


class WebhookSettings(Group):
    """Deliveries to webhooks."""

    allow_private: bool = Field(
        False, description="Let webhooks lead to private addresses, and by http; for programs of your own."
    )
    timeout_seconds: float = Field(10, gt=0, le=120, description="Time limit for one try of a delivery.")
    max_attempts: int = Field(
        16, ge=1, le=100, description="A delivery that has failed this often is set aside as dead."
    )


class SourceSettings(Group):
    """Files, links and results that go with a message."""

    tokens: int = Field(4000, ge=100, le=1_000_000, description="Most tokens of a source in a prompt.")
    total_tokens: int = Field(
        8000,
        ge=100,
        le=1_000_000,
        description="Most tokens of all sources of a message; never more than a third of the model's context.",
    )
    file_mb: int = Field(20, ge=1, le=1000, description="Largest attached file in megabytes.")
    links: bool = Field(
        False,
        description="Fetch pages that people link to in their messages, unless the preset leaves links out.",
    )
    link_seconds: float = Field(8, gt=0, le=120, description="Time limit for fetching and reading a link.")
    allow_private: bool = Field(
        False, description="Fetch links from private addresses, too; for programs of your own."
    )


class VaultSettings(Group):
    """The vault."""

    sweep_seconds: float = Field(
        60, gt=0, le=86_400, description="How often all files are checked for changes the watcher missed."
    )


BackendKind = Literal[
    "llama.cpp", "lmstudio", "vllm", "sglang", "ollama", "openai", "anthropic", "openrouter", "other"
]
_ADDRESS = r"^https?://[^\s/]+"
_ADDRESS_MEANING = "Address of the model server, such as http://127.0.0.1:8080/v1; /v1 is optional."


class _ModelServer(Group):
    """What can be set for any model server."""

    model: str | None = Field(None, description="Name of the model; unset: the first one the server lists.")
    api_key: SecretStr | None = Field(None, description="API key for the server, if it needs one.")
    headers: dict[str, SecretStr] = Field({}, description="Extra HTTP headers for every request, as JSON.")
    models: list[str] = Field([], description="Names of its models, as JSON; empty: ask the server.")
    kind: BackendKind | None = Field(
        None, description="The engine: " + ", ".join(get_args(BackendKind)) + "; unset: detected."
    )
    local: bool | None = Field(
        None, description="Whether it runs on this machine or network; unset: judged by its address."
    )
    gate_group: str | None = Field(
        None, description="Equal for backends on the same hardware; unset: host:port."
    )
    context_tokens: int | None = Field(
        None, ge=256, description="Size of the context window in tokens; unset: ask the server."
    )
    keep_alive: str = Field("30m", description="How long Ollama keeps the model loaded after a call.")


class BackendSettings(_ModelServer):
    """One of several named model backends."""

    base_url: str = Field(pattern=_ADDRESS, description=_ADDRESS_MEANING)


class TasksSettings(_ModelServer):
    """The model backend for background work; without an address, the default one."""

    base_url: str | None = Field(None, pattern=_ADDRESS, description=_ADDRESS_MEANING)


class LlmSettings(TasksSettings):
    """The default model backend."""

    discover: bool = Field(True, description="If no backend is configured, use one running on this machine.")
