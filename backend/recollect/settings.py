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
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from recollect.errors import HomeUnusable
from recollect.failpoints import FAIL_POINTS, FailPoints

PREFIX = "RECOLLECT_"
TOML_NAME = "recollect.toml"
MODELS = "models"
DEFAULT_MODEL = "all-minilm-l6-v2"
RESERVED_BACKENDS = ("default", "tasks")
"""Names of the backends that have groups of their own."""
BackendKind = Literal[
    "llama.cpp", "lmstudio", "vllm", "sglang", "ollama", "openai", "anthropic", "openrouter", "other"
]
_ADDRESS = r"^https?://[^\s/]+"
_ADDRESS_MEANING = "Address of a model's server, such as http://127.0.0.1:8080/v1; /v1 may be left out."


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _ModelServer(_Group):
    """What is known of a model's server before it is asked."""

    model: str | None = Field(None, description="Model name; unset: the first one the endpoint lists.")
    api_key: SecretStr | None = Field(None, description="Key for the endpoint, if it wants one.")
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Further headers for every request to it, as JSON."
    )
    models: list[str] = Field(
        default_factory=list, description="The models it has, as JSON; empty: those that it lists."
    )
    kind: BackendKind | None = Field(
        None, description="The engine: " + ", ".join(get_args(BackendKind)) + "; unset: found by asking."
    )
    local: bool | None = Field(
        None, description="Whether it runs on this machine or network; unset: told by its address."
    )
    gate_group: str | None = Field(
        None, description="Backends on the same hardware share one; unset: host and port."
    )
    context_tokens: int | None = Field(
        None,
        ge=256,
        description="What one request may hold, prompt and answer; unset: as the endpoint tells.",
    )
    keep_alive: str = Field("30m", description="How long Ollama keeps the model loaded after a call.")


class BackendSettings(_ModelServer):
    """One of several named model backends."""

    base_url: str = Field(pattern=_ADDRESS, description=_ADDRESS_MEANING)


class TasksSettings(_ModelServer):
    """The model backend for background work."""

    base_url: str | None = Field(None, pattern=_ADDRESS, description=_ADDRESS_MEANING)


class LlmSettings(TasksSettings):
    """The default model backend."""

    discover: bool = Field(
        True, description="With no backend configured, look for one that runs on this machine."
    )


class ChatSettings(_Group):
    """How chats are answered, and how long their parts may take."""

    max_turns: int = Field(
        80,
        ge=2,
        le=100_000,
        description="A prompt holds at most so many messages; then the newer half goes on.",
    )
    answer_seconds: float = Field(
        600.0, gt=0, le=86_400, description="How long an answer may take; then it is kept as far as it got."
    )
    orphan_seconds: float = Field(
        10.0, ge=0, le=86_400, description="How long an answer goes on when nobody listens to it any more."
    )
    rewrite_seconds: float = Field(
        1.5,
        gt=0,
        le=60,
        description="How long the model may take to complete a follow-up; then the last exchange joins it.",
    )
    recall_seconds: float = Field(
        1.0, gt=0, le=60, description="How long recall may take; then the answer goes on without."
    )

    incognito_hours: float = Field(
        24.0, gt=0, le=8784, description="An incognito thread that nobody used for so long is forgotten."
    )
    connect_seconds: float = Field(
        3.0, gt=0, le=60, description="How long a model's server may take to accept a connection."
    )
    first_token_seconds: float = Field(
        120.0, gt=0, le=3600, description="Silence before an answer's first piece after which it has failed."
    )
    stall_seconds: float = Field(
        60.0, gt=0, le=3600, description="Silence within an answer after which it has failed."
    )


class MemorizeSettings(_Group):
    """How conversations become memcells."""

    mode: Literal["chat", "agent", "both"] = Field(
        "both",
        description="Whose memory is made: the user's (chat), the agent's (agent), or both.",
    )
    boundary_every: int = Field(4, ge=1, le=1000, description="Look for boundaries every so many messages.")
    pause_seconds: float = Field(
        30.0, ge=0, le=86400, description="Look for boundaries after a pause of so many seconds, too."
    )
    delay_ms: int = Field(
        300, ge=0, le=60_000, description="How long that look waits for the rest of a burst of messages."
    )
    gap_minutes: float = Field(
        30.0, gt=0, le=527_040, description="A gap of so many minutes between messages closes a memcell."
    )
    max_turns: int = Field(40, ge=2, le=1000, description="A memcell holds at most so many messages.")
    max_chars: int = Field(
        12_000, ge=100, description="A memcell is closed before it exceeds so many characters."
    )
    model_timeout_seconds: float = Field(
        60.0, gt=0, le=3600, description="How long the model may take to find boundaries; then rules decide."
    )


class StrategySettings(_Group):
    """Whether one strategy is on, and when it runs. What is unset is as the strategy says."""

    enabled: bool = Field(True, description="Whether it runs at all.")
    every: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Only at every so manieth event; then it works on all that have come.",
    )
    idle_seconds: float | None = Field(
        None, ge=0, le=86_400, description="When no such event has come for so long."
    )
    at: str | None = Field(
        None, pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="At this time of day, UTC, for example 03:30."
    )


class StrategiesSettings(_Group):
    """What is made of conversations. A change in recollect.toml is seen while the server runs."""

    episode: StrategySettings = Field(default_factory=StrategySettings, description="The strategy episode.")
    facts: StrategySettings = Field(default_factory=StrategySettings, description="The strategy facts.")
    foresight: StrategySettings = Field(
        default_factory=StrategySettings, description="The strategy foresight."
    )
    profile: StrategySettings = Field(default_factory=StrategySettings, description="The strategy profile.")
    case: StrategySettings = Field(default_factory=StrategySettings, description="The strategy case.")
    skill: StrategySettings = Field(default_factory=StrategySettings, description="The strategy skill.")


class JobSettings(_Group):
    """The job engine."""

    workers: int = Field(
        4,
        ge=1,
        le=64,
        description="Jobs that may run at the same time: so many that may ask a model, and so many that write files.",
    )
    lease_seconds: float = Field(
        120.0, gt=0, le=86_400, description="A job that runs longer is taken for hung, ended and run again."
    )
    max_attempts: int = Field(8, ge=1, description="Failures after which a job is set aside as dead.")
    stop_seconds: float = Field(10.0, ge=0, le=3600, description="How long a stop waits for running jobs.")


class EmbeddingSettings(_Group):
    """The model that search by meaning uses."""

    kind: Literal["onnx", "openai", "none"] = Field(
        "onnx", description="A local ONNX model, an OpenAI-compatible server, or none: search goes by words."
    )
    folder: Path | None = Field(
        None,
        description="Folder of the ONNX model; unset: the one that 'recollect setup' puts into the home.",
    )
    base_url: str | None = Field(
        None, description="Address of an OpenAI-compatible server, for example http://127.0.0.1:8080/v1."
    )
    model: str | None = Field(None, description="Name of the model on that server.")
    api_key: SecretStr | None = Field(None, description="Key of that server.")
    dimensions: int | None = Field(None, ge=1, description="Length of its vectors; unset: as they come.")
    timeout_seconds: float = Field(30.0, gt=0, le=600, description="How long that server may take.")
    query_seconds: float = Field(
        2.0, gt=0, le=60, description="How long a search waits for the model; then it goes by words."
    )
    batch: int | None = Field(
        None, ge=1, le=1024, description="Texts embedded at once; unset: 16 locally, 64 on a server."
    )
    threads: int = Field(1, ge=1, le=64, description="Threads of the local model.")

    @model_validator(mode="after")
    def _server_is_named(self) -> Self:
        if self.kind == "openai" and not (self.base_url and self.model):
            raise ValueError("kind openai needs base_url and model")
        return self


class IndexSettings(_Group):
    """The index."""

    cache_mb: int = Field(
        256,
        ge=1,
        le=1_000_000,
        description="Memory for the texts of the users who searched last; one user's always fit.",
    )
    delay_ms: int = Field(
        300, ge=0, le=60_000, description="How long a message may wait for others before it is indexed."
    )


class VaultSettings(_Group):
    """The vault."""

    sweep_seconds: float = Field(
        60.0, gt=0, le=86_400, description="How often the vault is searched for changes nobody reported."
    )


class LimitSettings(_Group):
    """What one request may hold."""

    body_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="Largest request body in bytes.")
    chat_body_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024,
        description="Largest body of a chat message in bytes, images and a resent history included.",
    )
    messages: int = Field(500, ge=1, description="Most messages in one memory/add.")


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
        description="Folder of journal, vault and index.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on; any but loopback needs API keys.")
    port: int = Field(8600, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        default_factory=list,
        description="Further names under which the server may be called (the Host header), comma-separated.",
    )
    allowed_origins: Annotated[list[str], NoDecode] = Field(
        default_factory=list,
        description="Web origins besides its own that may call the server, comma-separated.",
    )
    database_url: str | None = Field(
        None, description="Where the journal is; unset: sqlite:///<home>/journal.db. Only sqlite so far."
    )
    synchronous: Literal["FULL", "NORMAL"] = Field(
        "FULL",
        description="SQLite's durability: FULL survives a power cut; NORMAL may lose the last moments.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Least severe log line."
    )
    log_format: Literal["text", "json"] = Field("text", description="Log lines as key=value text or as JSON.")
    transcript_delay_ms: int = Field(
        600,
        ge=0,
        le=60_000,
        description="How long a message may wait for others before its transcript is written.",
    )
    llm: LlmSettings = Field(default_factory=LlmSettings, description="The default model backend.")
    tasks: TasksSettings = Field(
        default_factory=TasksSettings,
        description="The model backend for background work; unset: the default one.",
    )
    backends: dict[str, BackendSettings] = Field(
        default_factory=dict, description="Further model backends by name, as JSON; a thread picks one."
    )
    chat: ChatSettings = Field(default_factory=ChatSettings, description="How long a model may take.")
    memorize: MemorizeSettings = Field(default_factory=MemorizeSettings, description="How memcells are made.")
    strategies: StrategiesSettings = Field(
        default_factory=StrategiesSettings, description="What is made of conversations, and when."
    )
    jobs: JobSettings = Field(default_factory=JobSettings, description="The job engine.")
    embedding: EmbeddingSettings = Field(
        default_factory=EmbeddingSettings, description="The model that search by meaning uses."
    )
    index: IndexSettings = Field(default_factory=IndexSettings, description="The index.")
    vault: VaultSettings = Field(default_factory=VaultSettings, description="The vault.")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="What one request may hold.")
    fail_point: str | None = Field(
        None,
        description="For crash tests: kill the process at this step, or at its n-th time (name:n). One of: "
        + ", ".join(FAIL_POINTS)
        + ".",
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

    @field_validator("allowed_hosts", "allowed_origins", mode="before")
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
        return init_settings, env_settings, _HomeToml(settings_cls, init_settings, env_settings)

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
        """Where the local embedding model is, or is to be."""
        return self.embedding.folder or self.home / MODELS / DEFAULT_MODEL


class _HomeToml(PydanticBaseSettingsSource):
    """`<home>/recollect.toml`, where home is known from the arguments or the environment alone."""

    def __init__(
        self,
        settings_cls: type[BaseSettings],
        arguments: PydanticBaseSettingsSource,
        environment: PydanticBaseSettingsSource,
    ) -> None:
        super().__init__(settings_cls)
        home = arguments().get("home") or environment().get("home") or Path.home() / ".recollect"
        self._path = Path(home).expanduser() / TOML_NAME

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        raise LookupError("read as a whole by __call__")

    def __call__(self) -> dict[str, Any]:
        if not self._path.is_file():
            return {}
        try:
            values = tomllib.loads(self._path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise HomeUnusable(f"{self._path} is not valid TOML: {error}") from error
        if "home" in values:
            raise HomeUnusable(f"{self._path} must not set home: it lies in it")
        return values


def load_settings(**overrides: Any) -> Settings:
    """The settings of this process; raises HomeUnusable with every problem in words."""
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
    """Variables that look like settings and are none: most often a typing mistake."""
    known = setting_names()
    named = f"{PREFIX}BACKENDS__"
    return sorted(
        name
        for name in os.environ
        if name.startswith(PREFIX) and name not in known and not name.startswith(named)
    )
