"""Requests and answers about presets, preferences, notes, backends and the index."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from recollect.domain.model import Note
from recollect.domain.people import DEFAULT_PRESET, MAX_INSTRUCTIONS, MAX_PERSONA, MAX_TOKENS, Preset
from recollect.entrypoints.http.answers import Answer
from recollect.entrypoints.http.requests import Body, Id, Text, not_blank
from recollect.service.models.choice import Connected, DefaultModel
from recollect.service.operations import BackendView
from recollect.service.vault.notes import NoteText, name_of

Instructions = Annotated[Text, Field(min_length=1, max_length=MAX_INSTRUCTIONS)]
Persona = Annotated[Text, Field(min_length=1, max_length=MAX_PERSONA)]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False, strict=True)]
Kinds = Annotated[Text, Field(min_length=1, max_length=100)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)]


class PresetBody(Body):
    """A whole preset; what is left out is unset."""

    instructions: Instructions = Field(description="What the model is told before the conversation.")
    persona: Persona | None = Field(None, description="Who the model is to be.")
    temperature: Temperature | None = None
    max_tokens: Tokens | None = Field(None, description="Of an answer, at most.")
    model: Id | None = Field(None, description="Unset: the backend's own.")
    backend: Id | None = Field(None, description="One of the configured backends, by name.")
    sources: Kinds | None = Field(
        None,
        description="Context sources that it takes, of files, images, links and results; unset: all, `none`: none.",
    )

    def preset(self, space: str, name: str) -> Preset:
        return Preset(space, name, **self.model_dump())


class PresetChanges(Body):
    """Only what is named is changed; null clears it."""

    instructions: Instructions | None = Field(None, description="Can be changed, not cleared.")
    persona: Persona | None = None
    temperature: Temperature | None = None
    max_tokens: Tokens | None = None
    model: Id | None = None
    backend: Id | None = None
    sources: Kinds | None = None

    def changes(self) -> dict[str, Any]:
        given = self.model_dump(exclude_unset=True)
        return {
            name: "" if name == "instructions" and value is None else value for name, value in given.items()
        }


class PresetAnswer(Answer):
    name: str
    instructions: str
    persona: str | None
    temperature: float | None
    max_tokens: int | None
    model: str | None
    backend: str | None
    sources: str | None
    revision: str = Field(description="Changes with what is asked of the model, and only then.")


class PresetsAnswer(BaseModel):
    presets: list[PresetAnswer]
    next: str | None = Field(None, description="Pass it as `after` for the next page; absent on the last.")


class DeletedPresetAnswer(BaseModel):
    name: str
    deleted: bool = True


class PreferenceChanges(Body):
    """Only what is named is changed; null is the default again."""

    auto_memory: bool | None = Field(
        None, strict=True, description="Make memories of what is said; default true."
    )
    auto_skills: bool | None = Field(
        None, strict=True, description="Make skills of what agents do; default true."
    )
    time_zone: Id | None = Field(None, description="An IANA name such as Europe/Lisbon; default UTC.")
    preset: Id | None = Field(None, description=f"For threads that name none; default `{DEFAULT_PRESET}`.")

    def changes(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True)


class PreferencesAnswer(Answer):
    user_id: str
    auto_memory: bool
    auto_skills: bool
    time_zone: str | None
    preset: str | None


class UserAnswer(BaseModel):
    user_id: str
    threads: int = Field(description="How many chats they have.")
    last_used: int = Field(description="When a message last came to one of them.")


class UsersAnswer(BaseModel):
    users: list[UserAnswer]
    next: str | None = Field(None, description="Pass it as `after` for the next page; absent on the last.")


class NoteBody(Body):
    """A note to be kept."""

    user_id: Id | None = Field(None, description="Whose; unset: the key's user, else `me`.")
    name: Id = Field(description="Its file's name, without folders, with or without `.md`.")
    text: Annotated[Text, AfterValidator(not_blank)] = Field(description="Markdown, up to 1,000,000 bytes.")
    replace: bool = Field(False, description="Put it in the place of another note of that name.")


MemoryPath = Annotated[Text, Field(max_length=1024)]


class MemoryToolBody(Body):
    """A call of Anthropic's memory tool: its input, as the model made it. What a command doesn't need is left alone."""

    model_config = ConfigDict(extra="ignore")

    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    user_id: Id | None = Field(None, description="Whose notes; unset: the key's user, else `me`.")
    path: MemoryPath = Field("", description="Below `/memories`.")
    view_range: Annotated[list[int], Field(max_length=2)] | None = Field(
        None, description="First and last line; -1: the end."
    )
    file_text: Text = ""
    old_str: Text = ""
    new_str: Text = ""
    insert_line: int = 0
    insert_text: Text = ""
    old_path: MemoryPath = ""
    new_path: MemoryPath = ""


class MemoryToolAnswer(BaseModel):
    """For a `tool_result`."""

    content: str
    is_error: bool = Field(description="The command failed, and the content says why.")


class NoteAnswer(BaseModel):
    name: str = Field(description="Its path below `notes/`.")
    path: str = Field(description="Its file in the vault.")
    modified: int = Field(description="When it was last written.")

    @classmethod
    def of(cls, note: Note) -> "NoteAnswer":
        return cls(name=name_of(note), path=note.path, modified=note.modified)


class NoteTextAnswer(NoteAnswer):
    text: str

    @classmethod
    def told(cls, found: NoteText) -> "NoteTextAnswer":
        return cls(**dict(NoteAnswer.of(found.note)), text=found.text)


class NotesAnswer(BaseModel):
    notes: list[NoteAnswer]


class ForgottenNoteAnswer(BaseModel):
    name: str
    deleted: bool = True


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
    last_activity: int | None = Field(
        description="When it last sent anything; null: not since the start, or not for this key."
    )

    @classmethod
    def of(cls, view: BackendView, last_activity: datetime | None) -> "BackendAnswer":
        facts = view.facts
        return cls(
            **{name: getattr(facts, name, None) for name in ("kind", "local", "context_tokens", "slots")},
            name=view.backend.name,
            models=[] if facts is None else list(facts.models),
            pinned_slots=view.pinned,
            label=view.backend.label,
            problem=view.problem,
            last_activity=None if last_activity is None else int(last_activity.timestamp() * 1000),
        )


class BackendsAnswer(BaseModel):
    backends: list[BackendAnswer] = Field(description="The default first.")


def _with_scheme(address: Any) -> Any:
    if not isinstance(address, str):
        return address
    address = address.strip()
    return address if "://" in address else f"http://{address}"


def _is_address(address: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", address):
        raise ValueError("must be the address of a model server, such as http://127.0.0.1:11434")
    return address


def _fits_header(key: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]+", key.get_secret_value()):
        raise ValueError("must have no spaces and no letters but those of English")
    return key


class ModelBody(Body):
    """A model to be used for all chats that name no other."""

    base_url: Annotated[Id, BeforeValidator(_with_scheme, str), AfterValidator(_is_address)] = Field(
        description="Address of its server; `http://` and `/v1` may be left out."
    )
    api_key: Annotated[SecretStr, AfterValidator(_fits_header)] | None = Field(
        None, max_length=10_000, description="If the server needs one. It is stored in `recollect.toml`."
    )
    model: Id | None = Field(None, description="Unset: the first that the server lists.")


class DefaultModelAnswer(BaseModel):
    source: Literal["settings", "found", "demonstration", "none"] = Field(
        description="Named in the settings; found on this machine; the bundled model, a demonstration; or there is none."
    )
    server: str | None = Field(
        description="Host and port of the one that the settings name; null: none, or not for this key."
    )
    may_connect: bool = Field(description="Whether this caller may connect another one.")
    fixed_by: str | None = Field(
        description="The environment variable that changes it where the route can't: it is set, or there are several servers."
    )

    @classmethod
    def told(cls, found: DefaultModel, *, may_connect: bool) -> "DefaultModelAnswer":
        server = found.server if may_connect else None
        return cls(source=found.source, server=server, may_connect=may_connect, fixed_by=found.fixed_by)


class ConnectedAnswer(BaseModel):
    model: str | None = Field(description="The one that answered; null: its server doesn't name it.")
    kind: str = Field(description="The engine, as far as it told.")
    local: bool
    models: list[str] = Field(description="All that the server lists.")

    @classmethod
    def of(cls, connected: Connected) -> "ConnectedAnswer":
        facts = connected.facts
        return cls(model=connected.model, kind=facts.kind, local=facts.local, models=list(facts.models))


class CachedPrompt(Answer):
    user_id: str = Field(description="The owner of the thread.")
    thread_id: str
    turn_id: str = Field(description="The answer's.")
    at: int
    cached_tokens: int | None = Field(description="Null where the backend did not tell.")
    evaluated_tokens: int | None
    time_to_first_token_ms: float | None
    cause: str | None = Field(
        description="Why the prompt was no longer what the cache held; null: it only grew."
    )


class CacheAnswer(BaseModel):
    answers: list[CachedPrompt] = Field(description="The last answers, oldest first.")


class RebuildingAnswer(BaseModel):
    embedded: int = Field(description="Texts embedded so far.")
    texts: int = Field(description="About how many there are.")


class IndexAnswer(BaseModel):
    files: int
    bytes: int = Field(description="On disk, old versions that are not yet cleared included.")
    memory_bytes: int = Field(description="Of the texts that are held in memory to be searched.")
    waiting_words: int = Field(description="Threads with messages that are not found by words yet.")
    waiting_meaning: int = Field(description="The same by meaning.")
    model: str | None = Field(description="The embedding model; null: search goes by words alone.")
    index_model: str | None = Field(
        description="The model whose vectors are in the index; null: there are none."
    )
    rebuilding: RebuildingAnswer | None = Field(
        description="How far an index that is being made beside it is."
    )
