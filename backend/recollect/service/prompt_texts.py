"""The prompts of extraction: those that ship, and a space's own in their place."""

from dataclasses import dataclass, field
from importlib import resources

from recollect.errors import InvalidInput
from recollect.memory.extraction.case import CASE_PLACEHOLDERS
from recollect.memory.extraction.prompts import MEMCELL_PLACEHOLDERS, check_template
from recollect.memory.extraction.skill_model import SKILL_PLACEHOLDERS
from recollect.memory.file_names import file_name
from recollect.service.ports import Vault

PROMPTS = {
    "memcell": ("messages", MEMCELL_PLACEHOLDERS),
    "case": ("messages", CASE_PLACEHOLDERS),
    "skill": ("cases", SKILL_PLACEHOLDERS),
}
"""What each must hold, and what it may."""
_MOST_BYTES = 64_000


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """`<space>/prompts/<name>.md` in the vault where a person put one there, read at every use; else what ships."""

    vault: Vault
    _shipped: dict[str, str] = field(default_factory=dict)

    async def text(self, space: str, name: str) -> str:
        """Raises InvalidInput, with the name of the file, where a person's prompt can't be used."""
        path = f"{file_name(space)}/prompts/{name}.md"
        own = await self.vault.look(path, _MOST_BYTES)
        if own is None or not own.text.strip():
            if name not in self._shipped:
                self._shipped[name] = shipped_prompt(name)
            return self._shipped[name]
        if not own.is_whole:
            raise InvalidInput(f"{path}: the prompt is not UTF-8, or longer than {_MOST_BYTES} bytes")
        try:
            check_template(own.text, *PROMPTS[name])
        except ValueError as error:
            raise InvalidInput(f"{path}: {error}") from error
        return own.text


def shipped_prompt(name: str) -> str:
    return resources.files("recollect").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
