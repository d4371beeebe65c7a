"""Extraction: what a memcell holds that is worth remembering."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources

from recollect.domain.entries.entry import KeptAnswer, KnownEntry
from recollect.domain.extraction import case, prompts
from recollect.domain.extraction.answer import ANSWER_SCHEMA, CASE_SCHEMA, lacking, parse_memcell_answer
from recollect.domain.extraction.case import CASE_PLACEHOLDERS
from recollect.domain.extraction.draft import CellText, Draft, Extraction, StoredCell
from recollect.domain.extraction.ground import ground
from recollect.domain.extraction.prompts import (
    MEMCELL_PLACEHOLDERS,
    PROFILE_PLACEHOLDERS,
    check_template,
    listed,
)
from recollect.domain.extraction.skill import SKILL_PLACEHOLDERS
from recollect.domain.extraction.summary import extract_without_model
from recollect.domain.model import JsonObject
from recollect.domain.paths import file_name
from recollect.errors import InvalidInput
from recollect.infra.secrets import mask_secrets, mask_turns
from recollect.infra.vault import Vault
from recollect.service.models.background import ChatPrefix
from recollect.service.models.cached_model_calls import AFTER_CHAT, Appended, CachedModelCalls, Question

PROMPTS = {
    "memcell": ("messages", MEMCELL_PLACEHOLDERS),
    "case": ("messages", CASE_PLACEHOLDERS),
    "skill": ("cases", SKILL_PLACEHOLDERS),
    "profile": ("facts", PROFILE_PLACEHOLDERS),
}
"""What each must hold, and what it may."""
_MOST_BYTES = 64_000


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """`<space>/prompts/<name>.md` in the vault where a person put one there, read at every use; else what ships."""

    vault: Vault
    _shipped: dict[str, str] = field(default_factory=dict)
    _problems: dict[str, str] = field(default_factory=dict)

    def problem(self) -> str | None:
        """Which files can't be used, and why; None where all that were last read can."""
        told = "; ".join(self._problems.values())
        return f"memories wait for prompts in the vault to be mended: {told}" if told else None

    async def text(self, space: str, name: str) -> str:
        """Raises InvalidInput, with the name of the file, where a person's prompt can't be used."""
        path = f"{file_name(space)}/prompts/{name}.md"
        try:
            text = await self._text(path, name)
        except InvalidInput as error:
            self._problems[path] = error.message
            raise
        self._problems.pop(path, None)
        return text

    async def _text(self, path: str, name: str) -> str:
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


RULES = "rules"

LivePrefix = Callable[[StoredCell], Awaitable[ChatPrefix | None]]
"""The chat's own prompt where the backend has it in its cache, and it holds every turn of the cell."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came out, by whom, and what it cost."""

    extraction: Extraction
    by: str
    cost: JsonObject = field(default_factory=dict)
    """Tokens in, out and cached; empty where no model was asked now."""
    secrets_masked: int = 0
    """In the cell, before anything was made of it."""
    messages_cut: int = 0
    """Messages of people that were too long for the prompt to show in full."""


@dataclass(frozen=True, slots=True)
class Extractor:
    """Asks once for a cell: the answer is kept before it is used, and serves every retry."""

    model_calls: CachedModelCalls | None
    """None without a model."""
    prompts: PromptTexts
    live_prefix: LivePrefix
    masks_secrets: bool = True
    language: str = ""
    """Of all memories; empty: that of each conversation."""

    async def memcell(
        self, stored: StoredCell, cell: CellText, known: Sequence[KnownEntry] = ()
    ) -> Extracted:
        """All that a cell holds; without a model, its episode. Raises Preempted, ModelUnavailable and ExtractionFailed.

        `known` is what is known already that the cell may touch.
        """
        cell, masked = await self._masked(cell)
        if self.model_calls is None:
            return Extracted(extract_without_model(cell), RULES, secrets_masked=masked)
        template = await self.prompts.text(stored.thread.space, "memcell")
        ids = {f"f{number}": entry for number, entry in enumerate(known, 1)}
        asked = replace(cell, language=self.language)
        prompt = await asyncio.to_thread(_prompt, template, asked, ids)
        kept, cost = await self.model_calls.answer(
            Question(
                "memcell",
                stored.thread.ref,
                stored.memcell_id,
                prompt.messages,
                ANSWER_SCHEMA,
                lambda text: parse_memcell_answer(text, cell),
                Appended(prompt.after_chat, lambda: self.live_prefix(stored)),
                lacks=lacking,
                digest=prompt.digest,
                known={short_id: entry.entry_id for short_id, entry in ids.items()},
            )
        )
        answer = await asyncio.to_thread(_read, kept, cell)
        extracted = await self._kept(answer, kept.model, cost, masked)
        # The chat's own prompt holds every message in full.
        return replace(extracted, messages_cut=0 if AFTER_CHAT in kept.usage else prompt.messages_cut)

    async def without_model(self, cell: CellText) -> Extracted:
        """The episode alone, of a cell about which a model was asked in vain."""
        cell, masked = await self._masked(cell)
        return Extracted(extract_without_model(cell), RULES, secrets_masked=masked)

    async def case(self, stored: StoredCell, cell: CellText) -> Extracted:
        """What the agent did in a chat's turns with tool calls. Only with a model."""
        assert self.model_calls is not None
        cell, masked = await self._masked(cell)
        template = await self.prompts.text(stored.thread.space, "case")
        kept, cost = await self.model_calls.answer(
            Question(
                "case",
                stored.thread.ref,
                stored.memcell_id,
                case.case_messages(template, cell),
                CASE_SCHEMA,
                lambda text: case.parse_case_answer(text, cell),
            )
        )
        answer = await asyncio.to_thread(case.parse_case_answer, kept.text, cell)
        return await self._kept(answer, kept.model, cost, masked)

    async def _masked(self, cell: CellText) -> tuple[CellText, int]:
        if not self.masks_secrets:
            return cell, 0
        turns, masked = await asyncio.to_thread(mask_turns, cell.turns)
        return replace(cell, turns=turns), masked

    async def _kept(self, extraction: Extraction, by: str, cost: JsonObject, masked: int) -> Extracted:
        """What a model made may hold a secret still: in a chat's own prompt it saw the words as they were said."""
        if self.masks_secrets:
            drafts = await asyncio.to_thread(lambda: tuple(map(_without_secrets, extraction.drafts)))
            extraction = replace(extraction, drafts=drafts)
        return Extracted(extraction, by, cost, masked)


@dataclass(frozen=True, slots=True)
class _Prompt:
    messages: list[JsonObject]
    after_chat: JsonObject
    """The one message that follows a chat's own prompt."""
    digest: str
    messages_cut: int


def _prompt(template: str, cell: CellText, known: Mapping[str, KnownEntry]) -> _Prompt:
    """In a thread: long messages take a while to quote."""
    shown = case.shown_with_calls(cell)
    texts = {short_id: listed(entry) for short_id, entry in known.items()}
    messages = prompts.memcell_messages(template, shown, texts)
    return _Prompt(
        messages,
        prompts.memcell_instruction(template, shown, texts),
        prompts.memcell_digest(template, shown),
        prompts.count_cut(messages, shown),
    )


def _read(kept: KeptAnswer, cell: CellText) -> Extraction:
    """What of an answer passes the check."""
    checked = ground(parse_memcell_answer(kept.text, cell), cell, kept.known)
    work = case.case_in_memcell_answer(kept.text, cell)
    return Extraction((*checked.drafts, *work.drafts), (*checked.refused, *work.refused), checked.asks)


def _without_secrets(draft: Draft) -> Draft:
    title, text = mask_secrets(draft.title)[0], mask_secrets(draft.text)[0]
    properties = {name: mask_secrets(value)[0] for name, value in draft.properties.items()}
    quotes = tuple(replace(quote, words=mask_secrets(quote.words)[0]) for quote in draft.quotes)
    return replace(draft, title=title, text=text, properties=properties, quotes=quotes)
