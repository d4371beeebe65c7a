"""Generations of the index: which one is live, and another in its place where that one cannot be used."""

from collections.abc import Collection

from recollect.memory.index_row import Generation
from recollect.memory.searchable import FORMAT
from recollect.service.ports import IndexLedger, IndexStore


async def new_generation(store: IndexStore, ledger: IndexLedger, above: Generation | None) -> Generation:
    """An empty generation beside all others. `above` may be gone from the disk; its name is not used again."""
    names = [generation.name for generation in await store.generations()]
    names += [above.name] if above is not None else []
    number = 1 + max((int(name[1:]) for name in names if name[1:].isdigit()), default=0)
    generation = Generation(f"g{number:06d}", FORMAT)
    await ledger.add_generation(generation.name)
    await store.create(generation)
    return generation


async def usable_live(store: IndexStore, ledger: IndexLedger) -> tuple[Generation | None, Generation | None]:
    """The live generation where it can be used, and else what stands in its place, if anything does."""
    live = await store.live()
    if live is not None and live.format == FORMAT and await ledger.knows(live.name):
        return live, None
    return None, live


async def is_gone(store: IndexStore, live: Generation) -> bool:
    """Whether somebody took the live generation away from under a running process."""
    there = await store.live()
    return there is None or there.name != live.name


async def discard_others(store: IndexStore, kept: Collection[Generation | None]) -> None:
    """What killed rebuilds left, and what nobody needs any more."""
    names = {generation.name for generation in kept if generation is not None}
    for leftover in await store.generations():
        if leftover.name not in names:
            await store.discard(leftover.name)
