"""What requests on presets and preferences may hold, and what the answers look like."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from recollect.entrypoints.http.bodies import Body, Id, Text
from recollect.memory.preferences import Preferences
from recollect.memory.preset import DEFAULT_PRESET, MAX_INSTRUCTIONS, MAX_PERSONA, MAX_TOKENS, Preset

Instructions = Annotated[Text, Field(min_length=1, max_length=MAX_INSTRUCTIONS)]
Persona = Annotated[Text, Field(min_length=1, max_length=MAX_PERSONA)]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False, strict=True)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)]


class PresetBody(Body):
    """A whole preset; what is left out is unset."""

    instructions: Instructions = Field(description="What the model is told before the conversation.")
    persona: Persona | None = Field(None, description="Who the model is to be.")
    temperature: Temperature | None = None
    max_tokens: Tokens | None = Field(None, description="Of an answer, at most.")
    model: Id | None = Field(None, description="Unset: the backend's own.")
    backend: Id | None = Field(None, description="One of the configured backends, by name.")

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

    def changes(self) -> dict[str, Any]:
        given = self.model_dump(exclude_unset=True)
        return {
            name: "" if name == "instructions" and value is None else value for name, value in given.items()
        }


class PresetAnswer(BaseModel):
    name: str
    instructions: str
    persona: str | None
    temperature: float | None
    max_tokens: int | None
    model: str | None
    backend: str | None
    revision: str = Field(description="Changes with what is asked of the model, and only then.")

    @classmethod
    def of(cls, preset: Preset) -> "PresetAnswer":
        return cls(**{name: getattr(preset, name) for name in cls.model_fields})


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


class PreferencesAnswer(BaseModel):
    user_id: str
    auto_memory: bool
    auto_skills: bool
    time_zone: str | None
    preset: str | None

    @classmethod
    def of(cls, preferences: Preferences) -> "PreferencesAnswer":
        return cls(**{name: getattr(preferences, name) for name in cls.model_fields})
