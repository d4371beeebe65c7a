"""Verify entries: each stands in its file as the journal has it, and each file as it was left."""

import asyncio

from recollect.memory.entry_document import read_document
from recollect.memory.entry_file import EntryFileState
from recollect.memory.entry_paths import ENTRY_FILE_BYTES, is_entry_path
from recollect.service.ports import EntryFileStore, Vault

_LOOKS = 3
"""A file that is being written is looked at again before it is called wrong."""


async def entry_problems(store: EntryFileStore, vault: Vault) -> list[str]:
    """What of the entries differs between journal and vault. What waits to be written is no problem."""
    files = {file.path for file in await store.files()}
    looked = [await _problem(store, vault, path) for path in sorted(files)]
    there = set(filter(is_entry_path, await vault.list_files()))
    strange = [f"{path} is not taken in" for path in sorted(there - files)]
    return [problem for problem in looked if problem is not None] + strange


async def _problem(store: EntryFileStore, vault: Vault, path: str) -> str | None:
    problem = None
    for _ in range(_LOOKS):
        file = await store.file(path)
        if file is None or not file.is_written:
            return None
        problem = await _difference(store, vault, file)
        if problem is None:
            return None
    return problem


async def _difference(store: EntryFileStore, vault: Vault, file: EntryFileState) -> str | None:
    path = file.path
    found = await vault.look(path, ENTRY_FILE_BYTES)
    if found is None:
        return f"{path} is missing"
    if found.digest not in file.digests:
        return f"{path} differs from the journal"
    here = await store.entries_in(path)
    entries = [each.known.entry for each in here]
    document = await asyncio.to_thread(read_document, path, found.text, known=entries)
    for each in here:
        name = each.known.entry_id
        if name not in document.written:
            return f"{path} does not hold {name}"
        if name not in document.damaged and document.written[name].entry != each.known.entry:
            return f"{path} holds another {name} than the journal"
    return None
