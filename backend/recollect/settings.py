"""Every setting, from the environment (`RECOLLECT_…`) or `<home>/recollect.toml`; the environment wins."""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_serializer, field_validator
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
from recollect.setting_groups import (
    BackendSettings,
    ChatSettings,
    EmbeddingSettings,
    FilesUrl,
    IndexSettings,
    JobSettings,
    LimitSettings,
    LlmSettings,
    MemorizeSettings,
    QuotaSettings,
    SourceSettings,
    StrategiesSettings,
    TasksSettings,
    VaultSettings,
    WebhookSettings,
)

PREFIX = "RECOLLECT_"
TOML_NAME = "recollect.toml"
MODELS, VAULT = "models", "vault"
PACKAGED_MODEL = Path(__file__).parent / MODELS / "recall-v1"
"""The embedding model that is part of the package."""
RESERVED_BACKENDS = ("default", "tasks")
"""Names of the backends that have groups of their own."""
Names = Annotated[list[str], NoDecode]
Origin = Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+/?$")]


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
    models_folder: Path | None = Field(
        None, description="Folder of the small chat model, for all homes; unset: ~/.cache/recollect/models."
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
        None, repr=False, description="Where the journal is: sqlite:///<path> or postgresql://…; unset: home."
    )
    database_wait_seconds: float = Field(
        20, gt=0, le=600, description="How long a request or a start waits for PostgreSQL to come back."
    )
    files_url: FilesUrl | None = Field(
        None, description="The vault: s3://<bucket>/<prefix> or file:///<shared folder>; unset: in the home."
    )
    member_url: Origin | None = Field(None, description="Where other servers on its journal reach this one.")
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
    webhooks: WebhookSettings = WebhookSettings()
    sources: SourceSettings = SourceSettings()
    fail_point: str | None = Field(
        None,
        description="For crash tests: kill the process at this step, or when it is reached the n-th time (name:n).",
    )

    @field_serializer("database_url", when_used="json")
    def _without_password(self, url: str | None) -> str | None:
        shown = re.sub(r"\?.*", "?***", re.sub("://([^:/@]*).*@", r"://\1:***@", url or ""))
        return shown if self.postgres_url else url

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
        toml = _read_toml(settings_file(init_settings().get("home") or env_settings().get("home")))
        return init_settings, env_settings, InitSettingsSource(settings_cls, toml)

    @property
    def postgres_url(self) -> str | None:
        """The address of the journal in PostgreSQL; None where it is a file."""
        url = self.database_url or ""
        return url if url.startswith(("postgresql://", "postgres://")) else None

    @property
    def journal_path(self) -> Path:
        """The journal's file. Raises HomeUnusable where it is none."""
        if self.database_url is None:
            return self.home / "journal.db"
        scheme, separator, path = self.database_url.partition(":///")
        if scheme != "sqlite" or not separator or not path:
            named = self.database_url.partition("://")[0] if "://" in self.database_url else "no address"
            raise HomeUnusable(
                f"RECOLLECT_DATABASE_URL begins with {named}; here it must be sqlite:///<path> or postgresql://…"
                if self.postgres_url is None
                else "RECOLLECT_DATABASE_URL names PostgreSQL, and this needs a journal in a file"
            )
        return Path(path)

    @property
    def vault_path(self) -> Path:
        return self.home / VAULT

    @property
    def index_path(self) -> Path:
        return self.home / "index"

    @property
    def model_folder(self) -> Path:
        """Folder of the local embedding model: the one in the package, unless the settings name another."""
        return self.embedding.folder or PACKAGED_MODEL

    def local_model(self, name: str) -> Path:
        """Folder of a local model, installed or not. A home that has one of its own uses that."""
        own = self.home / MODELS / name
        if self.models_folder is None and own.is_dir():
            return own
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return (self.models_folder or Path(cache, "recollect", MODELS)).expanduser() / name


def settings_file(home: str | Path | None = None) -> Path:
    """The file of a home, there or not; without one, of the home that the environment names."""
    named = home or os.environ.get(f"{PREFIX}HOME") or Path.home() / ".recollect"
    return Path(named).expanduser() / TOML_NAME


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        begins = "" if " line " in str(error) else f", line {_unended(path.read_text(encoding='utf-8'))}"
        raise HomeUnusable(f"{path}{begins} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise HomeUnusable(f"{path} is not valid TOML: {error}") from error
    if "home" in values:
        line = _toml_lines(path)["home",]
        raise HomeUnusable(f"{path}, line {line}, home: the file is inside the home and can't name it")
    return values


def load_settings(**overrides: Any) -> Settings:
    """The settings of this process. Raises HomeUnusable, naming every invalid value and where it comes from."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = Settings(**given)
    except SettingsError as error:
        raise HomeUnusable(f"the settings are not valid: {_not_json(error)}") from error
    except ValidationError as error:
        sources = SettingSources(given)
        problems = "; ".join(
            sources.problem(item["loc"], item["type"], item["msg"]) for item in error.errors()
        )
        raise HomeUnusable(f"the settings are not valid: {problems}") from error
    return settings.model_copy(update={"home": settings.home.expanduser().absolute()})


def _not_json(error: SettingsError) -> str:
    text = getattr(error.__cause__, "doc", None)
    names = [name for name, value in os.environ.items() if name.startswith(PREFIX) and value == text]
    return f"{names[0]}: not JSON: {error.__cause__}" if names else str(error)


API_KEY = f"{PREFIX}API_KEY"
"""No setting: the key that `recollect mcp` sends."""


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


def unknown_variables() -> dict[str, str]:
    """Variables that look like settings but are none, most often because of a typo; with what was meant, if known.

    Case doesn't count. A table may be given as JSON. Names that settings would have without `RECOLLECT_` are told only
    where they are nested: others belong to other programs.
    """
    named = setting_names()
    parts = [name.split("__") for name in named]
    known = {API_KEY, *("__".join(each[:length]) for each in parts for length in range(1, len(each) + 1))}
    ours = [
        name
        for name in sorted(os.environ)
        if (upper := name.upper()).startswith(PREFIX)
        and upper not in known
        and not upper.startswith(f"{PREFIX}BACKENDS__")
    ]
    told = {name: did_you_mean(place_of(name.upper()), variable_of) for name in ours}
    bare = [name for name in sorted(os.environ) if "__" in name and PREFIX + name.upper() in named]
    return told | {name: f"; did you mean {PREFIX}{name.upper()}?" for name in bare}


def hidden_problems(home: Path | None) -> list[str]:
    """Mistakes in the file that nobody notices, because variables take precedence over those settings."""
    options = {} if home is None else {"home": home}
    sources = SettingSources(options, {})
    try:
        Settings(**{**_read_toml(sources.file), **options})
    except ValidationError as error:
        return [
            sources.problem(item["loc"], item["type"], item["msg"])
            for item in error.errors()
            if sources.of(tuple(map(str, item["loc"]))) is not None
        ]
    return []


Place = tuple[str, ...]
"""A setting by its tables and its name: `("llm", "base_url")`."""


def place_of(variable: str) -> Place:
    return tuple(variable.lower().removeprefix(PREFIX.lower()).split("__"))


def variable_of(place: Place) -> str:
    return PREFIX + "__".join(place).upper()


def set_in_environment(*places: Place) -> str | None:
    """The first variable that sets one of these: it takes precedence over the file."""
    return next((name for place in places if os.environ.get(name := variable_of(place))), None)


class SettingSources:
    """Where the value of a setting comes from: an option, a variable, or a line of `recollect.toml`."""

    def __init__(self, options: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> None:
        self.file = settings_file(options.get("home"))
        self._options = options
        given = os.environ if environment is None else environment
        self._environment = {name.upper(): value for name, value in given.items()}
        self._lines = _toml_lines(self.file) if self.file.is_file() else {}

    def of(self, place: Place, *, exact: bool = False) -> str | None:
        """None: it is the default. Unless `exact`, a variable or line that sets its table or a part of it counts, too."""
        table, *rest = place
        place = (table.lower(), *rest)
        for length in range(len(place), len(place) - 1 if exact else 0, -1):
            part = place[:length]
            variable = variable_of(part)
            parts = (name for name in sorted(self._environment) if name.startswith(f"{variable}__"))
            if length == 1 and place[0] in self._options:
                return f"--{place[0].replace('_', '-')}"
            if found := variable if self._environment.get(variable) else next(parts, None):
                return found
            if part in self._lines:
                return f"{self.file}, line {self._lines[part]}"
        return None

    def problem(self, loc: tuple[int | str, ...], kind: str, message: str) -> str:
        """One error of validation, in words: where, which setting, what is wrong, and what was probably meant."""
        place = tuple(map(str, loc))
        source = self.of(place) or variable_of(place)
        in_file = source.startswith(f"{self.file}, ")
        if kind == "extra_forbidden":
            message = "there is no such setting" + did_you_mean(place, ".".join if in_file else variable_of)
        is_named = source == variable_of(place) or source.startswith("--")
        return f"{source}: {message}" if is_named else f"{source}, {'.'.join(place)}: {message}"


def _toml_lines(path: Path) -> dict[Place, int]:
    """The line on which each key is set and each table begins. The file must be valid."""
    lines, first = path.read_text(encoding="utf-8").split("\n"), 1
    found: dict[Place, int] = {}
    for end in range(1, len(lines) + 1):
        try:
            values = tomllib.loads("\n".join(lines[:end]) + "\n")
        except tomllib.TOMLDecodeError:
            continue  # The value goes on in the next line.
        for table, *rest in _places(values):
            found.setdefault((table.lower(), *rest), first)  # Of the outermost names case doesn't count.
        first = end + 1
    return found


def _unended(text: str) -> int:
    """The line on which what is never closed begins, in a file that ends too early."""
    lines = text.split("\n")
    for end in range(len(lines), 0, -1):
        try:
            tomllib.loads("\n".join(lines[:end]) + "\n")
        except tomllib.TOMLDecodeError:
            continue
        return end + 1 + next(n for n, line in enumerate(lines[end:]) if line.strip())
    return 1


def _places(values: Mapping[str, Any], table: Place = ()) -> Iterator[Place]:
    for name, value in values.items():
        yield (*table, name)
        if isinstance(value, dict):
            yield from _places(value, (*table, name))


def did_you_mean(place: Place, spelled: Callable[[Place], str]) -> str:
    """The known name that is most like an unknown one, in words; empty if none is like it."""
    leaves = [place_of(name) for name in setting_names()]
    if place[0] == "backends" and len(place) == 3:
        leaves = [(*place[:2], name) for name in BackendSettings.model_fields]
    known = dict.fromkeys(leaf[:length] for leaf in leaves for length in range(1, len(leaf) + 1))
    meant = tuple(map(str.lower, place))
    if meant[-1].startswith(PREFIX.lower()):
        meant = place_of(meant[-1])  # In a file, spelled as the variable is.

    def likeness(other: Place) -> float:
        if other[:-1] == meant[:-1]:
            ratio = SequenceMatcher(None, meant[-1], other[-1]).ratio()
            return ratio if ratio > 0.65 else 0
        ratio = SequenceMatcher(None, ".".join(meant), ".".join(other)).ratio()
        return max(0.85 if other[-1] == meant[-1] else 0, ratio if ratio > 0.8 else 0)

    nearest = max(known, key=likeness)
    quoted = " (without the quotes)" if spelled(nearest) == spelled(place) else ""
    return f"; did you mean {spelled(nearest)}{quoted}?" if likeness(nearest) else ""
