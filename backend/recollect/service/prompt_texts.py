"""The prompts of extraction: those that ship, and a space's own in their place."""

from dataclasses import dataclass, field
from importlib import resources

from recollect.errors import InvalidInput
from recollect.memory.file_names import file_name
from recollect.service.ports import Vault

PROMPTS = ("memcell", "case", "skill")
_MOST_BYTES = 64_000


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """`<space>/prompts/<name>.md` in the vault where a person put one there, read at every use; else what ships."""

    vault: Vault
    _shipped: dict[str, str] = field(default_factory=dict)

    async def text(self, space: str, name: str) -> str:
        """Raises InvalidInput where a person's prompt is no text."""
        own = await self.vault.look(f"{file_name(space)}/prompts/{name}.md", _MOST_BYTES)
        if own is None or not own.text.strip():
            if name not in self._shipped:
                self._shipped[name] = shipped_prompt(name)
            return self._shipped[name]
        if not own.is_whole:
            raise InvalidInput(
                f"the prompt {name}.md of the space is not UTF-8, or longer than {_MOST_BYTES} bytes"
            )
        return own.text


def shipped_prompt(name: str) -> str:
    return resources.files("recollect").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
