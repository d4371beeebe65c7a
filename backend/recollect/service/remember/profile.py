"""The profile page of a user follows the facts that hold about them."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from recollect.domain.entries.entry import FACTS, PROFILE, EntryChange, KnownEntry
from recollect.domain.entries.links import origin_ids
from recollect.domain.entries.profile import (
    HEADINGS,
    basis_of,
    facts_on_page,
    heading_of,
    line_of,
    shows_facts,
)
from recollect.domain.extraction.answer import items_of, list_of, strict_object, text_of
from recollect.domain.extraction.answer_json import find_object
from recollect.domain.extraction.prompts import PROFILE_PLACEHOLDERS, check_template, filled_with, listed
from recollect.domain.job import Job
from recollect.domain.llm import quoted
from recollect.domain.model import JsonObject
from recollect.domain.strategy import Cause, causes_of, lapse_job
from recollect.errors import ModelUnavailable, OverQuota
from recollect.infra.journal.entries import SqlEntryStore
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.entries import in_place_of
from recollect.service.models.background import BackgroundModel, CallBudget
from recollect.service.remember.consolidate import NOTHING, leave_receipts
from recollect.service.remember.extract import RULES, PromptTexts

_MOST_READ = 200
"""Of a category. Far more than fit on a page, because some may not belong there."""
ENOUGH = 8
"""A model writes the page again once so many facts on it are new, or say something else, and two of three are."""
_ANSWER_TOKENS = 4_000
_MOST_CALLS = 3
"""Of one page. A second one has no schema, or more room."""


@dataclass(frozen=True, slots=True)
class _Page:
    """The page as it is stored, and the facts that belong on it."""

    stored: dict[str, KnownEntry]
    facts: list[KnownEntry]
    """In the page's order."""
    taken: Collection[str]
    """Ids of lines that a person wrote or deleted."""

    def lines(self, made: Sequence[KnownEntry]) -> list[KnownEntry]:
        """These, each as a new version of the one that is there, and every other fact by itself."""
        shown = {name for line in made for name in origin_ids(line.entry)}
        single = [line_of(fact) for fact in self.facts if fact.entry_id not in shown]
        return [
            in_place_of(self.stored[line.entry_id], line) if line.entry_id in self.stored else line
            for line in (*made, *single)
            if line.entry_id not in self.taken
        ]

    @property
    def kept(self) -> list[KnownEntry]:
        """What a model wrote and still holds."""
        return kept_lines(filter(shows_facts, self.stored.values()), self.facts)


@dataclass(frozen=True, slots=True)
class Profiles:
    """Rebuilds the page from the facts; lines that a person added stay.

    With a model, it writes the page when enough facts changed. Without one, and while it fails, a fact is a line.
    """

    entries: SqlEntryStore
    locks: OwnerLocks
    clock: Clock
    prompts: PromptTexts
    model: BackgroundModel | None = None

    async def handle(self, job: Job) -> None:
        """For jobs of the strategy profile."""
        space, owner, causes = job.space, str(job.payload["owner"]), causes_of(job)
        async with self.locks.of(owner):
            page = await self._page(space, owner)
            kept = page.kept
            written = await self._write(space, owner, page, kept)
        await self._tell(space, owner, causes, written)
        new = len(page.facts) - sum(len(origin_ids(line.entry)) for line in kept)
        if self.model is not None and causes and new >= max(ENOUGH, len(page.facts) * 2 // 3):
            await self._ask(self.model, space, owner, causes, page, kept, written)

    async def _ask(
        self,
        model: BackgroundModel,
        space: str,
        owner: str,
        causes: Sequence[Cause],
        page: _Page,
        lines: Sequence[KnownEntry],
        written: Sequence[KnownEntry],
    ) -> None:
        """`written` are the lines without it. The answer is not kept: what it says is forgotten with the lines. Raises Preempted."""
        facts = numbered(page.facts)
        messages = profile_messages(await self.prompts.text(space, "profile"), facts, lines)
        try:
            answer = await model.ask(
                messages,
                thread=causes[0].thread,
                max_tokens=_ANSWER_TOKENS,
                schema=PROFILE_SCHEMA,
                budget=CallBudget(_MOST_CALLS),
            )
        except (ModelUnavailable, OverQuota) as error:
            # The next change asks again.
            await self._tell(space, owner, causes, written, why=error.message)
            return
        by, why = answer.model or "a model", None
        try:
            made = await asyncio.to_thread(parse_profile_answer, answer.text, facts, by)
        except ValueError as error:
            # Its name on the lines says that it was asked about these facts.
            made, why = [line_of(fact, by=by) for fact in page.facts], answer.fault(str(error))
        async with self.locks.of(owner):
            current = await self._page(space, owner)
            still = kept_lines(made, current.facts)
            written = await self._write(space, owner, current, still)
        await self._tell(space, owner, causes, written, RULES if why else by, why)

    async def _page(self, space: str, owner: str) -> _Page:
        stored = await self.entries.list_entries(space, owner, kinds=(PROFILE,))
        own = [line for line in stored if not shows_facts(line)]
        chosen = facts_on_page(await self._facts(space, owner), own, self.clock())
        deletions = await self.entries.deletions(space, owner)
        return _Page(
            {line.entry_id: line for line in stored},
            [fact for of_heading in chosen.values() for fact in of_heading],
            {line.entry_id for line in own} | {each.entry_id for each in deletions},
        )

    async def _write(
        self, space: str, owner: str, page: _Page, made: Sequence[KnownEntry]
    ) -> tuple[KnownEntry, ...]:
        written = tuple(page.lines(made))
        names = {line.entry_id for line in written}
        gone = tuple(name for name, line in page.stored.items() if name not in names and shows_facts(line))
        ends = [fact.lapses for fact in page.facts if fact.lapses is not None]
        later = [lapse_job(owner, end - self.clock()) for end in sorted(ends)[:1]]
        change = EntryChange(space, owner, "consolidation", "the facts changed", written, gone)
        await self.entries.apply(replace(change, extra_jobs=tuple(later)))
        return written

    async def _tell(
        self,
        space: str,
        owner: str,
        causes: Sequence[Cause],
        written: Sequence[KnownEntry],
        by: str = RULES,
        why: str | None = None,
    ) -> None:
        """`why` a model that was asked did not write them."""
        told = [(cause, _told(cause, written, by, why)) for cause in causes]
        await leave_receipts(self.entries, space, owner, PROFILE, told)

    async def _facts(self, space: str, owner: str) -> list[KnownEntry]:
        """Those that may have a place on the page: the newest that hold, and all that a person wrote or pinned."""
        found = await self.entries.of_person(space, owner, FACTS)
        for category in HEADINGS:
            found += await self.entries.of_category(space, owner, FACTS, category, _MOST_READ)
        return list({fact.entry_id: fact for fact in found}.values())


def _told(cause: Cause, lines: Sequence[KnownEntry], by: str, why: str | None) -> JsonObject:
    """The receipt of a memcell: its lines on the page. The same however often the page is made."""
    wrote = [line.entry_id for line in lines if set(origin_ids(line.entry)) & set(cause.entry_ids)]
    if not wrote:
        return {"state": NOTHING, "why": "nothing of it belongs on the page"}
    return {"state": "extracted", "wrote": wrote, "by": by, **({"why": why} if why else {})}


# The page by a model: what it is asked, and which lines of its answer are kept.

_TEXT: JsonObject = {"type": "string"}
_PAGE_LINES = 120
_FACTS_OF_LINE = 12
_LINE_CHARS = 300
PROFILE_SCHEMA: JsonObject = strict_object(
    lines=list_of(
        strict_object(
            category={"type": "string", "enum": list(HEADINGS)},
            text=_TEXT,
            facts=list_of(_TEXT, _FACTS_OF_LINE),
        ),
        _PAGE_LINES,
    )
)


def numbered(facts: Iterable[KnownEntry]) -> dict[str, KnownEntry]:
    """The facts by the short ids that the model knows them by."""
    return {f"f{number}": fact for number, fact in enumerate(facts, 1)}


def profile_messages(
    template: str, facts: Mapping[str, KnownEntry], lines: Sequence[KnownEntry]
) -> list[JsonObject]:
    """The prompt: the page so far, line by line with the facts of each, and the facts that have changed since.

    Raises ValueError if the template is invalid.
    """
    check_template(template, "facts", PROFILE_PLACEHOLDERS)
    names = {fact.entry_id: name for name, fact in facts.items()}
    shown: set[str] = set()
    told: list[tuple[str, str]] = []
    for line in lines:
        ids = [names[name] for name in line.entry.extra.get("fact", "").split() if name in names]
        shown.update(ids)
        told.append((f"line, {line.category}, {' '.join(ids)}", line.entry.text))
    told += [
        (f"{name}, {heading_of(fact)}", listed(fact)) for name, fact in facts.items() if name not in shown
    ]

    def fitting(room: int) -> list[str]:
        share = _LINE_CHARS
        while True:
            written = [f"[{head}] {quoted(text, share)}" for head, text in told]
            if sum(len(line) + 1 for line in written) <= room or not share:
                return written
            share = share * 9 // 10

    return filled_with(template, "facts", {"categories": ", ".join(HEADINGS)}, fitting)


def parse_profile_answer(text: str, facts: Mapping[str, KnownEntry], by: str) -> list[KnownEntry]:
    """The page: each fact at most once. A line that names no fact of the input, or several headings, is dropped.

    Facts that no line names keep their own. Raises ValueError where the answer holds no page.
    """
    free = dict(facts)
    made: list[KnownEntry] = []
    for item in items_of(find_object(text, ("lines",)).value, "lines"):
        if not isinstance(item, dict):
            continue
        names = [str(name) for name in dict.fromkeys(map(str, items_of(item, "facts")))]
        said, category = text_of(item, "text"), text_of(item, "category")
        shown = [free[name] for name in names if name in free]
        is_whole = bool(shown) and len(shown) == len(names) <= _FACTS_OF_LINE
        if not is_whole or not 0 < len(said) <= _LINE_CHARS:
            continue
        if {heading_of(fact) for fact in shown} != {category}:
            continue
        made.append(line_of(*shown, text=said, by=by))
        for name in names:
            del free[name]
    return [*made, *(line_of(fact, by=by) for fact in free.values())]


def kept_lines(lines: Iterable[KnownEntry], on_page: Iterable[KnownEntry]) -> list[KnownEntry]:
    """Those lines of a model's page whose facts are on the page still, and say what they said then.

    Of any other line, each such fact by itself: the model has seen it.
    """
    facts = {fact.entry_id: fact for fact in on_page}
    kept = []
    for line in lines:
        names, by = line.entry.extra.get("fact", "").split(), line.entry.by.partition(", ")[2]
        if by == RULES:
            continue
        told = zip(names, line.entry.extra.get("basis", "").split(), strict=False)
        same = [name for name, said in told if name in facts and basis_of([facts[name]]) == said]
        shown = [facts.pop(name) for name in same]
        if shown and len(shown) == len(names):
            kept.append(line_of(*shown, text=line.entry.text, by=by))
        else:
            kept += [line_of(fact, by=by) for fact in shown]
    return kept
