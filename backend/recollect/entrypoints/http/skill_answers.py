"""What answers about skills look like."""

from pydantic import BaseModel, Field

from recollect.service.skill_view import ShownSkill


class SkillAnswer(BaseModel):
    name: str
    agent: str = Field(description="The agent's folder in the vault.")
    description: str
    tools: list[str]
    cases: list[str] = Field(description="The ids of the cases that it was made of.")
    edited: list[str] = Field(description="What a person wrote in it and nobody else changes.")
    path: str = Field(description="Its file in the vault.")
    text: str = Field(description="All of the file.")

    @classmethod
    def of(cls, shown: ShownSkill) -> "SkillAnswer":
        skill = shown.skill
        return cls(
            name=skill.name,
            agent=shown.agent,
            description=skill.description,
            tools=list(skill.tools),
            cases=list(skill.cases),
            edited=list(skill.edited),
            path=shown.path,
            text=shown.text,
        )


class SkillsAnswer(BaseModel):
    skills: list[SkillAnswer]
