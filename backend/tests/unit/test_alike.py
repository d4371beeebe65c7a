"""What a new fact is compared with, and which facts a page is made of, among very many."""

from dataclasses import replace

import numpy as np

from recollect.domain.entries.entry import FACTS, FORESIGHT, PROFILE, EntryChange, KnownEntry, Source
from recollect.domain.entries.merge_drafts import Known
from recollect.domain.job import Job
from recollect.domain.model import Entry
from recollect.domain.recall.rows import Vectors
from recollect.failpoints import FailPoints
from recollect.infra.journal.entries import SqlEntryStore
from recollect.service.coordination import OwnerLocks
from recollect.service.remember.consolidate import Remembering
from recollect.service.remember.profile import Profiles
from tests.contract.journals import Journal
from tests.fakes import START

ANN = "default/users/ann"


def likes(thing: str, text: str, when: int, attribute: str = "likes", **extra: str) -> KnownEntry:
    told = {"subject": "user", "attribute": attribute, "value": thing, **extra}
    entry = Entry(f"fa-{when}", text, text, START + when, (), "facts, rules", told)
    return KnownEntry("default", ANN, FACTS, entry, (Source("t1", "t-1"),), f"c-{when}", "facts")


async def stored(journal: Journal, *facts: KnownEntry) -> SqlEntryStore:
    await journal.entries.apply(EntryChange("default", ANN, "extraction", "a test", facts))
    return journal.entries


class _Embedder:
    """Takes all that names swimming for one, and tells what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: list[str]) -> Vectors:
        self.asked = texts
        return np.array([[1, 0] if "swim" in text else [0, 1] for text in texts], dtype=np.float32)


def remembering_in(store: SqlEntryStore, embedder: _Embedder | None = None) -> Remembering:
    return Remembering(
        cells=None,  # type: ignore[arg-type]
        entries=store,
        extractor=None,  # type: ignore[arg-type]
        people=None,  # type: ignore[arg-type]
        embedder=embedder,  # type: ignore[arg-type]
        tuning=None,  # type: ignore[arg-type]
        clock=lambda: START,
        locks=OwnerLocks(),
        fail_points=FailPoints(),
    )


async def test_a_plan_is_compared_with_plans_though_it_is_about_what_is_had_once(journal: Journal) -> None:
    plan, again = (
        replace(likes("Lisbon", f"Ann moves to Lisbon {end}", when, attribute="lives_in"), kind=FORESIGHT)
        for when, end in enumerate(["in the spring.", "in spring."])
    )
    assert [each.entry_id for each in await remembering_in(await stored(journal, plan))._alike(again)] == [
        plan.entry_id
    ]


async def test_of_those_whose_meaning_would_tell_the_newest_are_embedded(journal: Journal) -> None:
    things = ["ski", "run", "hike", "sing", "paint", "cook"]
    older = [likes(f"to {each}", f"Ann likes to {each} a lot.", place) for place, each in enumerate(things)]
    swims = likes("to swim", "Ann likes to swim very often.", 50)
    new = likes("swim", "Ann likes to swim a lot.", 90)
    embedder = _Embedder()
    remembering = remembering_in(await stored(journal, *older, swims), embedder)
    alike = await remembering._alike(new)
    same = await remembering._same_meaning([new], Known([], {new.entry_id: alike}))
    assert same == {frozenset([new.entry_id, swims.entry_id])}
    assert embedder.asked == [new.entry.text, *(each.entry.text for each in older[2:]), swims.entry.text]


async def test_a_fact_that_has_no_place_on_the_page_takes_nothing_off_it(journal: Journal) -> None:
    blue = likes("blue", "Ann's favourite colour is blue.", 1, edited="yes")
    store = await stored(
        journal, blue, likes("red", "Ann's favourite colour is red.", 2, attribute="other", edited="yes")
    )
    await Profiles(store, OwnerLocks()).handle(
        Job(1, "strategy", "profile:ann", "default", None, {"strategy": PROFILE, "owner": ANN})
    )
    page = await store.list_entries("default", ANN, kinds=(PROFILE,))
    assert [line.entry.text for line in page] == [blue.entry.text]
