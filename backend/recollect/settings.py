"""Every setting, from the environment (`RECOLLECT_…`) or `<home>/recollect.toml`; the environment wins."""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from recollect.errors import HomeUnusable
from recollect.failpoints import FailPoints
from recollect.quota_settings import LimitSettings, QuotaSettings

PREFIX = "RECOLLECT_"
TOML_NAME = "recollect.toml"
MODELS = "models"
DEFAULT_MODEL = "all-minilm-l6-v2"
RESERVED_BACKENDS = ("default", "tasks")
"""Names of the backends that have groups of their own."""
BackendKind = Literal[
    "llama.cpp", "lmstudio", "vllm", "sglang", "ollama", "openai", "anthropic", "openrouter", "other"
]
Names = Annotated[list[str], NoDecode]
_ADDRESS = r"^https?://[^\s/]+"
_ADDRESS_MEANING = "Address of the model server, such as http://127.0.0.1:8080/v1; /v1 is optional."


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _ModelServer(_Group):
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


class ChatSettings(_Group):
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


class MemorizeSettings(_Group):
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


class StrategySettings(_Group):
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


class StrategiesSettings(_Group):
    """What is made of conversations. Changes in recollect.toml apply while the server runs."""

    episode: StrategySettings = StrategySettings()
    facts: StrategySettings = StrategySettings()
    foresight: StrategySettings = StrategySettings()
    profile: TimedStrategySettings = TimedStrategySettings()
    case: StrategySettings = StrategySettings()
    skill: TimedStrategySettings = TimedStrategySettings()


class JobSettings(_Group):
    """The job engine."""

    workers: int = Field(4, ge=1, le=64, description="Jobs that run at the same time in each pool.")
    lease_seconds: float = Field(
        660, gt=0, le=86_400, description="A job that runs longer is considered hung: stopped and retried."
    )
    max_attempts: int = Field(8, ge=1, description="A job that has failed this often is set aside as dead.")
    stop_seconds: float = Field(10, ge=0, le=3600, description="How long shutdown waits for running jobs.")


class EmbeddingSettings(_Group):
    """The model for search by meaning."""

    kind: Literal["onnx", "openai", "none"] = Field(
        "onnx", description="A local ONNX model, an OpenAI-compatible server, or none (search by words only)."
    )
    folder: Path | None = Field(
        None, description="Folder of the ONNX model; unset: where 'recollect setup' puts it in the home."
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


class IndexSettings(_Group):
    """The search index."""

    cache_mb: int = Field(
        256, ge=1, le=1_000_000, description="Memory for the rows of recently active users; one always fits."
    )
    delay_ms: int = Field(
        300, ge=0, le=60_000, description="Debounce: wait this long for more messages before indexing."
    )


class VaultSettings(_Group):
    """The vault."""

    sweep_seconds: float = Field(
        60, gt=0, le=86_400, description="How often all files are checked for changes the watcher missed."
    )


class Settings(BaseSettings):
    """All of Recollect's settings."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        validate_default=True,
    )

    home: Path = Field(
        default_factory=lambda: Path.home() / ".recollect",
        description="Folder of the journal, the vault, the index and recollect.toml.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on; any but loopback needs API keys.")
    port: int = Field(8600, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    allowed_hosts: Names = Field([], description="Further host names clients may use, comma-separated.")
    allowed_origins: Names = Field([], description="Further web origins that may call, comma-separated.")
    user_headers: Names = Field(["X-OpenWebUI-User-Id"], description="Headers that name a front end's user.")
    thread_headers: Names = Field(["X-OpenWebUI-Chat-Id"], description="Headers that name its conversation.")
    user_jwt_secret: SecretStr | None = Field(None, description="Secret that signs X-OpenWebUI-User-Jwt.")
    mask_secrets: bool = Field(True, description="Mask secrets in memories and for remote model servers.")
    database_url: str | None = Field(
        None, description="Where the journal is: sqlite:///<path>; unset: journal.db in the home."
    )
    synchronous: Literal["FULL", "NORMAL"] = Field(
        "FULL", description="FULL survives a power cut; NORMAL may lose the last moments."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Lowest level shown.")
    log_format: Literal["text", "json"] = Field("text", description="key=value or JSON lines.")
    transcript_delay_ms: int = Field(
        600, ge=0, le=60_000, description="Wait this long for more messages before writing transcripts."
    )
    llm: LlmSettings = LlmSettings()
    tasks: TasksSettings = TasksSettings()
    backends: dict[str, BackendSettings] = Field(
        {}, description="Further model backends by name, as JSON; a thread chooses one."
    )
    chat: ChatSettings = ChatSettings()
    memorize: MemorizeSettings = MemorizeSettings()
    strategies: StrategiesSettings = StrategiesSettings()
    jobs: JobSettings = JobSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    vault: VaultSettings = VaultSettings()
    limits: LimitSettings = LimitSettings()
    quotas: QuotaSettings = QuotaSettings()
    fail_point: str | None = Field(
        None,
        description="For crash tests: kill the process at this step, or when it is reached the n-th time (name:n).",
    )

    @field_validator("fail_point")
    @classmethod
    def _known_fail_point(cls, value: str | None) -> str | None:
        FailPoints(value)
        return value

    @field_validator("backends")
    @classmethod
    def _names_are_free(cls, value: dict[str, BackendSettings]) -> dict[str, BackendSettings]:
        if taken := [name for name in value if name in RESERVED_BACKENDS]:
            raise ValueError(f"{taken[0]!r} has settings of its own and cannot name a further backend")
        return value

    @field_validator("allowed_hosts", "allowed_origins", "user_headers", "thread_headers", mode="before")
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [item.strip() for item in value.split(",") if item.strip()]
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        home = init_settings().get("home") or env_settings().get("home") or Path.home() / ".recollect"
        toml = _read_toml(Path(home).expanduser() / TOML_NAME)
        return init_settings, env_settings, InitSettingsSource(settings_cls, toml)

    @property
    def journal_path(self) -> Path:
        if self.database_url is None:
            return self.home / "journal.db"
        scheme, separator, path = self.database_url.partition(":///")
        if scheme != "sqlite" or not separator or not path:
            raise HomeUnusable(
                f"RECOLLECT_DATABASE_URL is {self.database_url!r}; only sqlite:///<path> is supported so far"
            )
        return Path(path)

    @property
    def vault_path(self) -> Path:
        return self.home / "vault"

    @property
    def index_path(self) -> Path:
        return self.home / "index"

    @property
    def model_folder(self) -> Path:
        """Folder of the local embedding model, installed or not."""
        return self.embedding.folder or self.home / MODELS / DEFAULT_MODEL


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HomeUnusable(f"{path} is not valid TOML: {error}") from error
    if "home" in values:
        raise HomeUnusable(f"{path} must not set home: the file is inside the home")
    return values


def load_settings(**overrides: Any) -> Settings:
    """The settings of this process. Raises HomeUnusable, naming every invalid value."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = Settings(**given)
    except SettingsError as error:
        raise HomeUnusable(f"the settings are not valid: {error}") from error
    except ValidationError as error:
        problems = "; ".join(
            f"{PREFIX}{'__'.join(str(part).upper() for part in item['loc'])}: {item['msg']}"
            for item in error.errors()
        )
        raise HomeUnusable(f"the settings are not valid: {problems}") from error
    return settings.model_copy(update={"home": settings.home.expanduser().absolute()})


def setting_names(model: type[BaseModel] = Settings, prefix: str = PREFIX) -> dict[str, str]:
    """Every environment variable with its description, nested ones spelled out."""
    names: dict[str, str] = {}
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names |= setting_names(field.annotation, variable + "__")
        else:
            names[variable] = field.description or ""
    return names


def unknown_variables() -> list[str]:
    """Variables that begin like settings but are none, most often because of a typo."""
    known = setting_names()
    ours = (name for name in os.environ if name.startswith(PREFIX))
    return sorted(name for name in ours if name not in known and not name.startswith(f"{PREFIX}BACKENDS__"))
