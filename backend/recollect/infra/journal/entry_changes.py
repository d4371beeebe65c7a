"""Changing entries inside one transaction: rows, sources, histories, and the files that follow."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from recollect.domain.entries.edit import is_made_of
from recollect.domain.entries.entry import (
    AFTER_A_PERSON,
    CASES,
    FACTS,
    PROFILE,
    Actor,
    Deletion,
    EntryChange,
    KnownEntry,
    is_agents,
    owner_words,
    statement_key,
)
from recollect.domain.entries.links import LINKED_KINDS, origin_ids, origins_of
from recollect.domain.forgetting import (
    Derived,
    Task,
    case_line,
    deletions_path,
    entry_line,
    entry_restored_line,
    settle_job,
)
from recollect.domain.identity import thread_key, turn_number
from recollect.domain.job import DELETIONS, ENTRIES, TRANSCRIBE, JobSpec, file_lane, vault_lane
from recollect.domain.model import JsonObject, ThreadRef
from recollect.domain.paths import is_entry_path
from recollect.domain.webhook import FORGOTTEN, MEMORY_MADE
from recollect.errors import Conflict
from recollect.infra.journal import entry_rows as places
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.entry_rows import (
    INSERT_ENTRY,
    SELECT_ENTRIES,
    UPDATE_ENTRY,
    dumped_entry,
    known_of,
    put_sources,
    queue_entry_jobs,
    row_of,
    stored_entry,
    version_of,
)
from recollect.infra.journal.prompts import end_quoting_epochs
from recollect.infra.journal.rows import (
    THREAD_PK,
    UNLESS_THERE,
    NewJob,
    earliest,
    put_receipt,
    queue_jobs,
    replacing,
    thread_columns,
)
from recollect.infra.journal.vault_files import add_to_ledger, file_job, forget_file, require_folder, touch
from recollect.infra.journal.webhooks import announce, has_webhooks

ADD_HISTORY = """
INSERT INTO entry_history (entry_pk, revision, entry_json, actor, cause, at) VALUES (?, ?, ?, ?, ?, ?) RETURNING pk"""

ADD_ORIGIN = "INSERT INTO version_sources (version_pk, source, turn) VALUES (?, ?, ?)"

VERSIONS_NAMING = """
SELECT h.pk, h.revision, h.entry_json, h.actor, h.cause, h.at FROM entries e
JOIN entry_history h ON h.entry_pk = e.pk
WHERE e.space = ? AND e.owner = ? AND e.kind IN ('profile', 'skills') AND h.pk IN (
    SELECT version_pk FROM version_sources WHERE source IN (SELECT value FROM json_each(?)))"""

CELL_OF_TURN = f"""
SELECT m.memcell_id, t.role, t.timestamp FROM turns t JOIN memcell_turns mt ON mt.turn_pk = t.pk JOIN memcell m ON m.pk = mt.memcell_pk
WHERE t.thread_pk = {THREAD_PK} AND t.position = ?"""

UNTRANSCRIBE = f"UPDATE memcell SET transcribed = 0 WHERE thread_pk = {THREAD_PK} AND memcell_id = ?"

ADD_LEAVING = f"INSERT INTO leaving_entries (path, entry_id) VALUES (?, ?) {UNLESS_THERE}"
ADD_GONE_CASE = f"INSERT INTO gone_cases (entry_id) VALUES (?) {UNLESS_THERE}"

DELETION_COLUMNS = "space, entry_id, owner, kind, cell, turn_ids_json, statement, said"
ADD_DELETION = f"""
INSERT INTO buried_entries ({DELETION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
{replacing(DELETION_COLUMNS, "space, entry_id")}"""


@dataclass(slots=True)
class EntryWriter:
    """Applies one change. Whatever it raises, the transaction is undone by whoever opened it."""

    connection: Connection
    change: EntryChange
    now: int
    delays: Mapping[str, int] = field(default_factory=dict)
    """For files that are not to be written at once: how long, in milliseconds."""
    changed: set[str] = field(default_factory=set)
    """Ids of what search has to look up again."""
    _touched: set[str] = field(default_factory=set)
    _deleted: list[KnownEntry] = field(default_factory=list)
    """What a person deletes is forgotten to the last byte."""
    _made: list[KnownEntry] = field(default_factory=list)
    _left: set[tuple[str, str]] = field(default_factory=set)
    _relinked: set[tuple[ThreadRef, str]] = field(default_factory=set)
    """Threads and their memcells whose links to memories change."""

    def apply(self) -> int | None:
        """Returns when the first job that follows is due."""
        for known in self.change.put:
            self._put(known, self.change.actor, self.change.cause)
        for known in self.change.marked:
            self._put(known, "consolidation", AFTER_A_PERSON)
        for entry_id in self.change.remove:
            self._remove(entry_id, keep_deleted=self.change.keep_deleted)
        for line in self._made_of_deleted():
            # No deletion is recorded: the same line may come of another fact one day.
            self._remove(line, keep_deleted=False)
        self._forget_words_of_deleted()
        if self.change.deletions:
            record_deletions(self.connection, self.change.space, self.change.owner, self.change.deletions)
        for receipt in self.change.receipts:
            (thread_pk,) = thread_columns(self.connection, receipt.thread)
            put_receipt(self.connection, thread_pk, receipt.cell, receipt.strategy, receipt.detail, self.now)
        self.changed |= places.mark_asking(self.connection, self.change)
        return self._queue()

    def _put(self, known: KnownEntry, actor: Actor, cause: str) -> None:
        if (known.space, known.owner) != (self.change.space, self.change.owner):
            raise ValueError(f"{known.entry_id} is of another owner than the change")
        before = stored_entry(self.connection, known.space, known.entry_id)
        self.changed.add(known.entry_id)
        known = places.with_own_heading(self.connection, known, before, self.delays)
        if before is None:
            self._add(known)
        elif before.owner != known.owner:
            raise Conflict(f"the id {known.entry_id} is taken")
        elif not _is_same(before, known):
            if before.revision != known.revision:
                raise Conflict(
                    f"{known.entry_id} was changed meanwhile: it has revision {before.revision}, not {known.revision}"
                )
            self._replace(before, known, actor, cause)

    def _add(self, known: KnownEntry) -> None:
        if known.revision != 0:
            raise Conflict(f"{known.entry_id} was removed meanwhile")
        if known.kind == PROFILE and self.change.actor == "consolidation":
            self._require_origins(known)
        if self.change.actor == "person":
            require_folder(self.connection, known.owner)
        path = places.new_place(self.connection, known)
        ((pk,),) = self.connection.all(INSERT_ENTRY, row_of(known, path, self.now))
        put_sources(self.connection, pk, known)
        self._made.append(known)
        if self.change.actor in ("person", "undo"):
            self._undelete(known)
        self._relink(known)
        self._touch(path, known)

    def _undelete(self, known: KnownEntry) -> None:
        """A person wrote again what was deleted: the lists of deletions no longer hold it."""
        deleted = (known.space, known.entry_id)
        found = self.connection.all(
            "DELETE FROM buried_entries WHERE space = ? AND entry_id = ? RETURNING owner", deleted
        )
        if found:
            add_to_ledger(self.connection, entry_restored_line(*deleted))
            queue_jobs(self.connection, [deletions_job(known.space, known.owner, self.now)], self.now)

    def _require_origins(self, known: KnownEntry) -> None:
        """What a line says may have been forgotten since its facts were read: it must not come back by the line."""
        for origin in origin_ids(known.entry):
            if stored_entry(self.connection, known.space, origin) is None:
                raise Conflict(f"{origin}, which {known.entry_id} is made of, was removed meanwhile")

    def _replace(self, before: KnownEntry, known: KnownEntry, actor: Actor, cause: str) -> None:
        # What a person changed in a file stays where they have it.
        stays = before.path in self.delays and known.path == before.path
        path = before.path if stays else places.kept_place(self.connection, before, known)
        ((pk,),) = self.connection.all(UPDATE_ENTRY, row_of(known, path, self.now))
        put_sources(self.connection, pk, known)
        version = (pk, before.revision, dumped_entry(before.entry), actor, cause, self.now)
        ((version_pk,),) = self.connection.all(ADD_HISTORY, version)
        origins = origins_of(before.owner, before.entry)
        self.connection.many(ADD_ORIGIN, [(version_pk, *origin) for origin in origins])
        if path != before.path:
            self._leave(before)
        if (path, known.cell) != (before.path, before.cell):
            self._relink(before)
            self._relink(known)
        self._touch(path, known)

    def _made_of_deleted(self) -> list[str]:
        """Lines of the profile that show a fact which a person deleted; those that the person wrote are theirs."""
        gone = {known.entry_id for known in self._deleted if known.kind == FACTS}
        if not gone:
            return []
        bound = (self.change.space, self.change.owner, PROFILE)
        sql = f"{SELECT_ENTRIES} WHERE e.space = ? AND e.owner = ? AND e.kind = ?"
        return [
            line.entry_id
            for line in map(known_of, self.connection.all(sql, bound))
            if not line.is_edited and (made_of := origin_ids(line.entry)) and gone.issuperset(made_of)
        ]

    def _forget_words_of_deleted(self) -> None:
        """What a person wrote over words that were made of a deleted entry stays; those words go."""
        gone = {known.entry_id for known in self._deleted}
        if not gone:
            return
        bound = (self.change.space, self.change.owner, json.dumps(sorted(gone)))
        for row in self.connection.all(VERSIONS_NAMING, bound):
            if is_made_of(version_of(row), gone):
                self.connection.run("UPDATE entry_history SET entry_json = NULL WHERE pk = ?", (row["pk"],))

    def _remove(self, entry_id: str, *, keep_deleted: bool) -> None:
        """One that is gone already, or another owner's, is left alone."""
        before = stored_entry(self.connection, self.change.space, entry_id)
        if before is None or before.owner != self.change.owner:
            return
        self.connection.run("DELETE FROM entries WHERE space = ? AND entry_id = ?", (before.space, entry_id))
        if before.kind == CASES and self.change.actor != "extraction":
            # Nobody forgets a case by making it again.
            self.connection.run(ADD_GONE_CASE, (entry_id,))
            add_to_ledger(self.connection, case_line(entry_id))
        if self.change.actor == "person":
            self._deleted.append(before)
            of_cell = (before.space, before.cell)
            self.connection.run("DELETE FROM model_answers WHERE space = ? AND cell = ?", of_cell)
        if keep_deleted:
            self._record_deletion(before)
        self.changed.add(entry_id)
        self._relink(before)
        self._leave(before)

    def _record_deletion(self, before: KnownEntry) -> None:
        """What several cells said is derived again from none of them, nor from what was said before."""
        turn_ids = tuple(source.turn_id for source in before.sources)
        said = before.said
        cells: dict[str, list[str]] = {}
        for source in before.sources:
            place = (*source.thread_in(before.space), turn_number(source.turn_id))
            for cell, role, timestamp in self.connection.all(CELL_OF_TURN, place):
                cells.setdefault(cell, []).append(source.turn_id)
                said = max(said, timestamp) if role == "user" else said
        statement = statement_key(before)
        deletions = [Deletion(before.entry_id, before.kind, before.cell, turn_ids, statement, said)]
        deletions += [
            Deletion(f"{before.entry_id}@{cell}", before.kind, cell, tuple(names))
            for cell, names in cells.items()
            if cell != before.cell
        ]
        record_deletions(self.connection, before.space, before.owner, deletions)

    def _leave(self, before: KnownEntry) -> None:
        if is_entry_path(before.path):
            # Its section has to be removed from there, whether or not it was written yet.
            self.connection.run(
                ADD_LEAVING,
                (before.path, before.entry_id),
            )
            self._left.add((before.path, before.entry_id))
        self._touch(before.path, before)

    def _touch(self, path: str, known: KnownEntry) -> None:
        """The files of skills are written by whoever makes them."""
        if not is_entry_path(path):
            return
        if (path, known.entry_id) not in self._left:
            drop_leaving(self.connection, path, [known.entry_id])
        if path not in self._touched:
            self._touched.add(path)
            # The index goes by revisions. They begin at the time: a file that is made again repeats none of its earlier ones.
            touch(self.connection, ENTRIES, path, known.space, known.owner, self.now)

    def _relink(self, known: KnownEntry) -> None:
        """The transcript of the memcell that it was made of links to it."""
        if known.cell and known.kind in LINKED_KINDS:
            self._relinked |= {(source.thread_in(known.space), known.cell) for source in known.sources}

    def _transcripts(self) -> list[NewJob]:
        threads = [
            thread
            for thread, cell in sorted(self._relinked)
            if self.connection.run(UNTRANSCRIBE, (*thread, cell))
        ]
        return [
            NewJob(TRANSCRIBE, vault_lane(thread_key(thread)), thread.space, thread, self.now)
            for thread in dict.fromkeys(threads)
        ]

    def _queue(self) -> int | None:
        space = self.change.space
        thread = next((receipt.thread for receipt in self.change.receipts), None)
        due = queue_entry_jobs(self.connection, space, thread, self.change.extra_jobs, self.now)
        jobs = [
            file_job(ENTRIES, space, path, self.now + self.delays.get(path, 0))
            for path in sorted(self._touched)
        ]
        if self.change.deletions or (self.change.keep_deleted and self.change.remove):
            jobs.append(deletions_job(space, self.change.owner, self.now))
        jobs += self._transcripts()
        if self._deleted:
            due = earliest(
                due, queue_entry_jobs(self.connection, space, None, [self._forgetting()], self.now)
            )
        if jobs:
            due = earliest(due, queue_jobs(self.connection, jobs, self.now))
        return earliest(due, *self._announced())

    def _announced(self) -> list[int | None]:
        """To webhooks. What an agent learned is of no single user."""
        if not has_webhooks(self.connection):
            return []
        space, owner = self.change.space, self.change.owner
        user_id = None if is_agents(owner) else self._user_id([*self._made, *self._deleted])
        whose: JsonObject = {"user_id": user_id, "owner": owner_words(owner)}
        events: list[tuple[str, JsonObject]] = [
            (MEMORY_MADE, {"entry_id": known.entry_id, "kind": known.kind}) for known in self._made
        ]
        if self._deleted:
            gone = [known.entry_id for known in self._deleted]
            events.append((FORGOTTEN, {"what": "memories", "entry_ids": gone}))
        return [
            announce(self.connection, event, space, owner, whose | told, self.now) for event, told in events
        ]

    def _forgetting(self) -> JobSpec:
        """Prompts that held the words end now; what else may hold them is looked through by this job."""
        space, owner = self.change.space, self.change.owner
        ids = tuple(known.entry_id for known in self._deleted)
        paths = tuple(dict.fromkeys(known.path for known in self._deleted if known.path))
        quoting = end_quoting_epochs(self.connection, space, None, ids)
        derived = Derived({owner: ids}, paths)
        task = Task(space, self._user_id(self._deleted), "", (), derived, self.now, tuple(quoting))
        return settle_job(task, owner)

    def _user_id(self, entries: Sequence[KnownEntry]) -> str:
        """Whose words they were; by the folder's name where no source tells."""
        users = (source.user_id for known in entries for source in known.sources)
        return next(users, self.change.owner.rpartition("/")[2])


def deletions_job(space: str, owner: str, now: int) -> NewJob:
    """The job that writes down which of an owner's entries were deleted."""
    payload = json.dumps({"owner": owner}, ensure_ascii=False)
    return NewJob(
        DELETIONS, file_lane(ENTRIES, deletions_path(owner)), space, None, now, payload, owner=owner
    )


def record_deletions(connection: Connection, space: str, owner: str, deletions: Sequence[Deletion]) -> None:
    add_to_ledger(connection, *(entry_line(space, owner, deletion) for deletion in deletions))
    connection.many(ADD_DELETION, [deletion_row(space, owner, each) for each in deletions])


def deletion_row(space: str, owner: str, deletion: Deletion) -> tuple[object, ...]:
    """For ADD_DELETION."""
    turn_ids = json.dumps(deletion.turn_ids)
    row = (space, deletion.entry_id, owner, deletion.kind, deletion.cell, turn_ids)
    return (*row, deletion.statement, deletion.said)


def forget_entries_of(connection: Connection, space: str, owner: str) -> None:
    """Everything that is known of an owner's entries, and the work on them; their files are the caller's to remove."""
    held = "SELECT path FROM vault_files WHERE owner = ? AND kind = ?"
    paths = [path for (path,) in connection.all(held, (owner, ENTRIES))]
    for path in paths:
        forget_entry_file(connection, path)
    for table in ("entries", "buried_entries"):
        connection.run(f"DELETE FROM {table} WHERE space = ? AND owner = ?", (space, owner))
    connection.run("DELETE FROM strategy_counts WHERE owner = ?", (owner,))
    connection.run("DELETE FROM jobs WHERE owner = ? AND state != 'running'", (owner,))


def forget_entry_file(connection: Connection, path: str) -> None:
    """As `forget_file`, and of the sections that had to go from it."""
    forget_file(connection, path)
    connection.run("DELETE FROM leaving_entries WHERE path = ?", (path,))


def drop_leaving(connection: Connection, path: str, gone: Collection[str]) -> None:
    connection.many(
        "DELETE FROM leaving_entries WHERE path = ? AND entry_id = ?", [(path, entry_id) for entry_id in gone]
    )


def _is_same(before: KnownEntry, after: KnownEntry) -> bool:
    def told(known: KnownEntry) -> tuple[object, ...]:
        return known.kind, known.entry, known.sources, known.cell, known.strategy

    return told(before) == told(after) and after.path in ("", before.path)
