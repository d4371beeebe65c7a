"""What the verbs need of the world. One contract suite per port holds for every implementation and its fake."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from recollect.domain.access import ApiKey
from recollect.domain.chat import (
    Accepted,
    AnswerText,
    Asked,
    Conversation,
    PromptCost,
    PromptReceipt,
    SentPrompt,
)
from recollect.domain.entries.entry import (
    BY_HAND,
    Actor,
    Buried,
    EntryChange,
    EntryFileState,
    EntryJob,
    EntryVersion,
    FiledEntry,
    KeptAnswer,
    KnownEntry,
    PastSkill,
    SeenSkill,
    Wording,
)
from recollect.domain.extraction.draft import StoredCell
from recollect.domain.job import Job, JobSpec, JobState
from recollect.domain.llm import BackendFacts, ChatCall, StreamEvent
from recollect.domain.model import (
    Append,
    Coverage,
    JsonObject,
    Memcell,
    NewTurn,
    Note,
    Receipt,
    Status,
    Thread,
    ThreadPlace,
    Turn,
)
from recollect.domain.people import PeopleFile, Preferences, Preset
from recollect.domain.recall.rows import Expected, Generation, IndexRow, StoredRows, ThreadProgress, Vectors
from recollect.domain.vault_file import (
    FileStamp,
    KnownPart,
    PlacedTurn,
    StoredPart,
    TranscriptState,
    VaultFile,
)

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""


def no_progress(done: int, total: int) -> None:
    """For callers that do not watch."""


class Clock(Protocol):
    """Now, in UTC milliseconds."""

    def __call__(self) -> int: ...


class ThreadStore(Protocol):
    """`THREADS`. Readers never create or change anything; what was added is visible to the next reader."""

    async def get_thread(self, thread_id: str, *, space: str = ...) -> Thread | None: ...
    async def list_threads(
        self,
        *,
        space: str = ...,
        user_id: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Thread]: ...
    async def recent_threads(
        self,
        *,
        space: str = ...,
        user_id: str | None = None,
        words: str | None = None,
        limit: int,
        after: ThreadPlace | None = None,
    ) -> list[Thread]:
        """Pinned ones first, then the last used first. With `words`, those whose title holds them, in any case."""
        ...

    async def get_history(
        self, thread_id: str, max_turns: int | None = None, *, space: str = ..., before: str | None = None
    ) -> list[Turn]: ...
    async def turns_around(
        self, thread_id: str, place: int, before: int, onwards: int, *, space: str = ...
    ) -> list[Turn]:
        """Up to `before` turns before a place and up to `onwards` from it on, oldest first."""
        ...

    async def get_turn(self, thread_id: str, turn_id: str, *, space: str = ...) -> Turn | None: ...
    async def idle_incognito(self, before: int) -> list[Thread]: ...
    async def create_thread(self, thread: Thread) -> Thread: ...
    async def update_thread(self, thread_id: str, changes: dict[str, Any], *, space: str = ...) -> Thread: ...
    async def replace_title(self, thread_id: str, old: str | None, new: str, *, space: str = ...) -> bool: ...
    async def append(self, append: Append) -> list[Receipt]: ...
    async def add_turn(
        self, thread_id: str, turn: NewTurn, *, space: str = ..., user_id: str | None = None
    ) -> Turn: ...
    async def clear_thread(self, thread_id: str, *, space: str = ...) -> int: ...
    async def delete_thread(self, thread_id: str, *, space: str = ...) -> int: ...


class CellStore(Protocol):
    """The buffer and the memcells: a turn is in exactly one of them."""

    async def look(self, space: str, thread_id: str, limit: int) -> list[Turn]: ...
    async def count_buffered(self, space: str, thread_id: str) -> int: ...
    async def close(self, space: str, thread_id: str, cells: Sequence[Memcell], decided_by: str) -> None: ...
    async def request_flush(self, space: str, thread_id: str) -> int: ...
    async def list_cells(self, space: str, thread_id: str) -> list[tuple[Memcell, tuple[str, ...]]]: ...
    async def receipts(
        self, space: str, thread_id: str, subjects: Sequence[str]
    ) -> dict[str, dict[str, JsonObject]]:
        """What happened to memcells or turns: by subject and stage, the newest of each."""
        ...


class TranscriptStore(Protocol):
    """What of each thread stands in the vault already."""

    async def state(self, space: str, thread_id: str) -> TranscriptState | None: ...
    async def turns(
        self, space: str, thread_id: str, first: int, last: int | None = None, limit: int = -1
    ) -> list[PlacedTurn]: ...
    async def cells(self, space: str, thread_id: str, first: int, last: int) -> list[Memcell]: ...
    async def parts(self, space: str, thread_id: str) -> list[StoredPart]: ...
    async def announce(self, space: str, thread_id: str, part: StoredPart) -> None: ...
    async def record(
        self, space: str, thread_id: str, part: StoredPart, cells: Sequence[Memcell]
    ) -> None: ...
    async def forget_part(self, space: str, thread_id: str, part: int) -> None: ...
    async def forget_parts(self, space: str, user_id: str, thread_id: str) -> None: ...
    async def known_parts(self) -> list[KnownPart]: ...
    async def revise(
        self, space: str, thread_id: str, turns: Sequence[Turn], header: Mapping[str, Any]
    ) -> int: ...
    async def queue_take_in(
        self, space: str, thread_id: str, part: int, now: int, *, gone: bool = False
    ) -> None: ...
    async def tombstones(self, space: str, user_id: str, thread_key: str) -> list[tuple[int, str]]: ...
    async def fold_log(self) -> None: ...


class CoverageStore(Protocol):
    """Counts every accepted message."""

    async def spaces(self) -> list[str]: ...
    async def coverage(
        self, *, space: str, thread_id: str | None = None, user_id: str | None = None
    ) -> Coverage: ...
    async def inconsistencies(self) -> list[str]: ...


class Vault(Protocol):
    """Markdown files, replaced whole or not at all. Paths are relative and safe."""

    def is_there(self) -> bool: ...
    def problem(self) -> str | None: ...
    async def read(self, path: str) -> str | None: ...
    async def look(self, path: str, limit: int | None = None) -> VaultFile | None: ...
    async def stamps(self, folder: str = "") -> dict[str, FileStamp]:
        """What cannot be looked at has a mark of memory/vault_marks.py in its stamp's place."""
        ...

    def is_own(self, path: str, digest: str) -> bool: ...
    async def write(self, path: str, text: str, ours: frozenset[str]) -> str | None: ...
    async def write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None: ...
    async def keep_copy(self, path: str, digest: str) -> str | None: ...
    async def remove_folder(self, path: str) -> None: ...
    async def remove_empty_folder(self, path: str) -> None: ...
    async def remove_file(self, path: str, ours: frozenset[str]) -> str | None: ...
    async def list_files(self, folder: str = "") -> list[str]: ...


class JobRunner(Protocol):
    """Durable jobs, run one at a time per lane."""

    async def list_jobs(
        self,
        *,
        space: str | None,
        user_id: str | None = None,
        thread_id: str | None = None,
        lane: str | None = None,
        state: JobState | None = None,
        limit: int = 100,
        after: int = 0,
    ) -> list[Job]: ...
    async def get(self, job_id: int) -> Job | None: ...
    async def retry(self, job_id: int) -> Job: ...
    async def hasten(self, job_ids: Sequence[int]) -> None:
        """These are due now, and so is whatever is before them in their lanes; but not what waits after a failure."""
        ...

    async def wait_for(self, job_id: int, seconds: float) -> bool: ...
    async def counts(self) -> dict[str, int]: ...
    async def in_trouble(self) -> int: ...
    async def oldest_wait_ms(self) -> int: ...
    def paused(self, kinds: Sequence[str] | None = None) -> AbstractAsyncContextManager[None]: ...


class Backend(Protocol):
    """A model's server. Raises the kinds of ModelUnavailable, in words a user understands."""

    @property
    def name(self) -> str:
        """The name it has in the settings."""
        ...

    @property
    def server(self) -> str:
        """The host and port that it is reached at: backends of different names may be one server."""
        ...

    @property
    def label(self) -> str | None:
        """What people are told of its answers; None for a model that they chose."""
        ...

    @property
    def gate_group(self) -> str:
        """Backends on the same hardware share one."""
        ...

    async def facts(self) -> BackendFacts:
        """Asked once, then remembered until the backend goes away."""
        ...

    def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        """Closing it drops the request at once."""
        ...

    async def count_tokens(self, text: str) -> int:
        """By its own tokenizer where it has one, else a careful guess."""
        ...

    def problem(self) -> str | None:
        """What is wrong with it, as far as its last call showed; None when that went well."""
        ...


class Backends(Protocol):
    """Every backend by its name."""

    def get(self, name: str | None = None) -> Backend:
        """The default without a name. Raises InvalidInput, which names those there are."""
        ...


class ChatStore(Protocol):
    """The journal of chats. Turns get their places when they arrive; what was accepted is durable."""

    async def requested(self, space: str, thread_id: str, key: str) -> tuple[bytes, Turn] | None: ...
    async def accept(self, asked: Asked) -> Accepted: ...
    async def accept_next(self, asked: Asked, most_turns: int) -> tuple[Accepted, Conversation]:
        """Accept what is answered at once, nothing being answered before it, with what its prompt is made of."""
        ...

    async def begin(
        self, space: str, thread_id: str, accepted: Accepted, prompt: SentPrompt | None
    ) -> None: ...
    async def save(self, space: str, thread_id: str, answer: Turn, text: AnswerText) -> None: ...
    async def finish(
        self,
        space: str,
        thread_id: str,
        accepted: Accepted,
        texts: Sequence[AnswerText],
        *,
        status: Status,
        model: str | None = None,
        prompt: SentPrompt | None = None,
        payload: JsonObject | None = None,
        detail: JsonObject | None = None,
        jobs: Sequence[JobSpec] = (),
    ) -> Turn:
        """`prompt` is what was sent, where `begin` has not written it down. `payload` is the request on the wire; its messages are None where they are the prompt's.

        `detail` is the whole receipt; None leaves it as it was when the answer began.
        """
        ...

    async def conversation(
        self, space: str, thread_id: str, accepted: Accepted, most_turns: int
    ) -> Conversation: ...
    async def tip(self, space: str, thread_id: str) -> list[Turn]: ...
    async def prompt(self, space: str, thread_id: str, turn_id: str) -> PromptReceipt | None: ...
    async def prompt_costs(self, space: str, user_id: str | None, limit: int) -> list[PromptCost]:
        """Of the last so many answers, oldest first."""
        ...

    async def receipts(self, space: str, thread_id: str, first: str, last: str) -> dict[str, JsonObject]:
        """What came of the prompts that were sent for the turns from `first` to `last`, by turn id."""
        ...

    async def recover(self) -> int: ...


class SummaryStore(Protocol):
    """Summaries of what leaves a thread's window, by the epoch whose end they are for."""

    async def opening(self, space: str, thread_id: str, epoch: int) -> str | None:
        """The summary that this epoch began with."""
        ...

    async def keep(self, space: str, thread_id: str, epoch: int, cut: int, digest: str, text: str) -> None:
        """For the epoch's end, of all before `cut`. One that comes too late, or whose thread is gone, is dropped."""
        ...


class ImageStore(Protocol):
    """Images by their owner and name. What was kept is durable, and its bytes come back exactly."""

    async def keep(self, space: str, user_id: str, name: str, content: bytes) -> None: ...
    async def read(self, space: str, user_id: str, name: str) -> bytes | None: ...
    async def names(self, space: str, user_id: str) -> set[str]: ...
    async def remove(self, space: str, user_id: str, names: set[str]) -> None: ...


class ImageReferences(Protocol):
    """Knows which images are shown by any turn of a user's threads."""

    async def referred(self, space: str, user_id: str) -> set[str]: ...


class KeyStore(Protocol):
    """API keys, by the hash of their secret."""

    def any_in_force(self) -> bool: ...
    def find(self, secret_hash: str) -> ApiKey | None: ...
    async def add(self, key: ApiKey, secret_hash: str) -> None: ...
    async def list_keys(self) -> list[ApiKey]: ...
    async def revoke(self, key_id: str, now: int) -> ApiKey: ...


class Embedder(Protocol):
    """Turns texts into vectors of meaning. Raises EmbedderUnavailable."""

    @property
    def name(self) -> str:
        """The model: vectors of different models cannot be compared."""
        ...

    def problem(self) -> str | None:
        """What is wrong with it, as far as its last call showed; None when that went well."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector a text, all of the same length."""
        ...


class IndexStore(Protocol):
    """Searchable rows, by generation and owner (its folder in the vault). Raises IndexUnavailable.

    One process writes. What a call wrote is durable and seen by the next; a call that was cut short changed
    nothing, or can be made again with the same outcome.
    """

    async def live(self) -> Generation | None: ...
    async def generations(self) -> list[Generation]: ...
    async def create(self, generation: Generation) -> None: ...
    async def adopt_model(self, generation: str, model: str, dimensions: int) -> Generation: ...
    async def promote(self, generation: str) -> None: ...
    async def discard(self, generation: str) -> None: ...
    async def owners(self, generation: str) -> list[str]: ...
    async def load(self, generation: str, owner: str) -> StoredRows: ...

    async def load_files(
        self, generation: str, owner: str, paths: Collection[str], row_ids: Collection[str] = ()
    ) -> StoredRows:
        """The rows of these files, and those with these ids; in the order of `load`."""
        ...

    async def count(self, generation: str, owner: str) -> int:
        """Rows, without reading their texts. Raises where they stand there twice, or are another owner's."""
        ...

    async def put(
        self, generation: str, owner: str, rows: Sequence[IndexRow], words: Sequence[str]
    ) -> None: ...
    async def set_vectors(
        self, generation: str, owner: str, row_ids: Sequence[str], vectors: Vectors
    ) -> None: ...
    async def remove(self, generation: str, owner: str, row_ids: Sequence[str]) -> None: ...
    async def drop(self, generation: str, owner: str) -> None: ...
    async def compact(self, generation: str, owner: str) -> None: ...
    async def size(self) -> tuple[int, int]: ...


class IndexLedger(Protocol):
    """Which turns and notes each generation of the index holds. What is recorded is in the index."""

    async def knows(self, generation: str) -> bool: ...
    async def add_generation(self, generation: str) -> None: ...
    async def keep_only(self, generation: str) -> None: ...
    async def behind(self, generation: str, after: int = 0, limit: int = ...) -> list[ThreadProgress]: ...
    async def progress(self, generation: str, space: str, thread_id: str) -> ThreadProgress | None: ...
    async def owner_progress(self, generation: str, space: str, user_id: str) -> list[ThreadProgress]: ...
    async def record_words(
        self, generation: str, seen: ThreadProgress, words_to: int, vectors_to: int
    ) -> bool: ...
    async def record_vectors(
        self, generation: str, seen: ThreadProgress, vectors_to: int, refused: int = 0
    ) -> bool: ...
    async def reset_thread(self, generation: str, thread_pk: int) -> None: ...
    async def reset_owner(self, generation: str, owner: str, space: str, user_id: str) -> None: ...
    async def count_indexed(self, generation: str, space: str, user_id: str) -> int: ...
    async def buried(self, space: str, row_ids: Sequence[str]) -> set[str]:
        """Of these entries, those that a person deleted."""
        ...

    async def existing(
        self, space: str, user_id: str, places: Sequence[tuple[str, int]]
    ) -> set[tuple[str, int]]: ...
    async def parts_holding(
        self, space: str, places: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], int]: ...
    async def notes(self, generation: str, owner: str) -> dict[str, tuple[str, bool]]: ...
    async def notes_behind(self, generation: str, owner: str) -> tuple[list[Note], list[str]]:
        """An owner's notes that are not indexed as they are, and the paths of those that are indexed and gone."""
        ...

    async def unembedded_notes(self, generation: str, owner: str) -> list[Note]:
        """An owner's notes that are indexed as they are, by their words alone."""
        ...

    async def is_unembedded(self, generation: str, note: Note) -> bool:
        """Whether just this text of the note is indexed, by its words alone."""
        ...

    async def note_owners(self, generation: str) -> list[str]: ...
    async def owners(self, generation: str) -> dict[str, tuple[str, str]]:
        """All who have something indexed, with their space and user; both empty for one who has notes alone."""
        ...

    async def expected(self, generation: str, owner: str, space: str, user_id: str) -> Expected: ...
    async def record_notes(
        self,
        generation: str,
        owner: str,
        put: Sequence[Note],
        removed: Sequence[str],
        *,
        embedded: bool = False,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """`counts` says how many rows, or with `embedded` how many vectors, each note has, by its path."""
        ...


class JobQueue(Protocol):
    """Puts work for memories into the queue."""

    async def queue(self, space: str, thread_id: str | None, jobs: Sequence[EntryJob]) -> None: ...


class CellTexts(Protocol):
    """Memcells with their turns, and where these stand in the vault."""

    async def cell(self, space: str, thread_id: str, memcell_id: str) -> StoredCell | None: ...
    async def stretch(self, space: str, thread_id: str, turn_ids: Sequence[str]) -> StoredCell | None: ...
    async def cells_of(
        self, space: str, user_id: str | None = None, thread_id: str | None = None
    ) -> list[tuple[str, str]]: ...


class SkillFileStore(Protocol):
    """The skills' files as we wrote them: what differs from that, a person changed."""

    async def last_written(self, path: str, current: str | None) -> str | None:
        """What we last put there; of two that we may have put there, the one that stands there now."""
        ...

    async def announce(self, path: str, text: str) -> None: ...
    async def record(self, path: str, text: str) -> None: ...
    async def see(self, path: str, text: str, actor: Actor = "person", cause: str = BY_HAND) -> None:
        """The file as it stands, and who made it so."""
        ...

    async def seen(self, below: str = "") -> list[SeenSkill]:
        """The files that should be there; with `below`, those in that folder."""
        ...

    async def versions(self, below: str) -> list[PastSkill]:
        """What a file, or all in a folder, held before; the oldest first."""
        ...

    async def forget_versions(self, space: str, below: str) -> None:
        """Those in a folder that name a case which was here and is forgotten; of files that we wrote, any that is gone."""
        ...

    async def gone_cases(self) -> frozenset[str]:
        """The ids of all that were here and are forgotten."""
        ...

    async def move(self, path: str, to: str) -> None:
        """A person gave the file another place: all that is known of it is known of that one."""
        ...

    async def forget(self, path: str) -> None:
        """The file and all that it held before."""
        ...


class EntryStore(Protocol):
    """Entries in the journal. A change is durable when it returns; the files that it touches follow by jobs."""

    async def get(self, space: str, entry_id: str) -> KnownEntry | None: ...
    async def some(self, space: str, owner: str, entry_ids: Sequence[str]) -> list[KnownEntry]:
        """Those of an owner that have one of these ids, in the order of the ids."""
        ...

    async def list_entries(
        self,
        space: str,
        owner: str | None = None,
        *,
        kinds: Sequence[str] = (),
        since: int | None = None,
        until: int | None = None,
        holding: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[KnownEntry]:
        """The newest first, by when they happened, then by id. `after` is the id that the last page ended with."""
        ...

    async def of_cell(self, space: str, owner: str, cell: str, strategy: str) -> list[KnownEntry]: ...
    async def of_subject(
        self,
        space: str,
        owner: str,
        kind: str,
        subject: str,
        attribute: str,
        newest: int | None = None,
        *,
        holding: bool = False,
    ) -> list[KnownEntry]:
        """Those about the same attribute of the same subject (compared without case), oldest first.

        With `newest`, only the last so many; with `holding`, only of those that hold.
        """
        ...

    async def wordings(
        self, space: str, owner: str, kind: str, subject: str, attribute: str, newest: int
    ) -> list[Wording]:
        """What the newest about the same attribute of the same subject say, oldest first."""
        ...

    async def of_matter(
        self, space: str, owner: str, matter_key: str, newest: int | None = None
    ) -> list[KnownEntry]:
        """Those whose `matter_key` (memory/matters.py) is this one, oldest first; none have an empty one."""
        ...

    async def of_person(self, space: str, owner: str, kind: str) -> list[KnownEntry]:
        """Those that a person wrote or pinned, oldest first."""
        ...

    async def with_text(self, space: str, owner: str, kind: str, text_key: str) -> list[KnownEntry]:
        """Those whose `text_key` (memory/text_key.py) is this one."""
        ...

    async def citing(self, space: str, thread_id: str, turn_ids: Sequence[str] | None) -> list[KnownEntry]:
        """Whatever came from any of these turns, or from any turn of the thread; of whatever owner."""
        ...

    async def buried(self, space: str, owner: str, cell: str | None = None) -> list[Buried]: ...
    async def bury(self, space: str, owner: str, graves: Sequence[Buried]) -> None:
        """These were deleted, and are never derived again."""
        ...

    async def history(self, space: str, entry_id: str) -> list[EntryVersion]:
        """Oldest first; empty for an entry that never changed."""
        ...

    async def apply(self, change: EntryChange) -> None:
        """All of it or nothing. An entry's revision must be the one that is stored, else Conflict."""
        ...

    async def forget_owner(self, space: str, owner: str) -> None: ...


class EntryFileStore(Protocol):
    """What of entries stands in the vault already, by the paths of their files."""

    async def file(self, path: str) -> EntryFileState | None: ...
    async def files(self) -> list[EntryFileState]: ...
    async def entries_in(self, path: str) -> list[FiledEntry]: ...
    async def leaving(self, path: str) -> frozenset[str]: ...
    async def announce(self, path: str, writing: str, filing: Mapping[str, str]) -> None: ...
    async def record(self, path: str, revision: int, digest: str, gone: Collection[str]) -> None: ...
    async def removed(self, path: str) -> bool: ...
    async def take_in(
        self,
        path: str,
        digest: str,
        change: EntryChange,
        filed: Mapping[str, str],
        *,
        settled_at: int | None = None,
        delay_ms: int = 0,
    ) -> None:
        """What a person wrote is known, and their file is known to hold it.

        `filed` are the digests of its sections. The file is written in `delay_ms`, unless with this change it holds
        all that it did not hold at the revision `settled_at`.
        """
        ...

    async def write_anew(self, path: str) -> None: ...
    async def queue(self, path: str, *, delay_ms: int = 0, **about: str) -> None: ...
    async def space_of(self, owner: str) -> str | None: ...
    async def thread_of(self, space: str, thread_folder: str) -> str | None: ...
    async def is_forgotten(self, space: str, thread_folder: str, turn_id: str) -> bool: ...


class ModelAnswers(Protocol):
    """What models answered about memcells, kept before it is used: a retry costs no second call."""

    async def answer(self, space: str, cell: str, name: str, digest: str) -> KeptAnswer | None: ...
    async def keep(
        self, space: str, thread_id: str, cell: str, name: str, digest: str, answer: KeptAnswer
    ) -> None: ...
    async def forget_cells(self, space: str, cells: Iterable[str]) -> None: ...
    async def forget_thread(self, space: str, thread_id: str) -> None: ...


class JournalCopier(Protocol):
    """Makes a consistent copy of the journal while it is in use."""

    async def copy_to(self, path: Path) -> None: ...


class Archiver(Protocol):
    """Packs files with their digests, and proves that an archive holds what was packed."""

    async def pack(self, target: Path, files: Mapping[str, Path], progress: Progress) -> int: ...
    async def check(self, archive: Path, progress: Progress) -> int: ...
    async def unpack(self, archive: Path, folder: Path, progress: Progress) -> int: ...


class NoteStore(Protocol):
    """The notes that are known to be in the vault, by their path."""

    async def known(self, owner: str | None = None) -> list[Note]: ...
    async def at(self, paths: Collection[str]) -> list[Note]:
        """Those of these that are known, by path."""
        ...

    async def seen(self, note: Note) -> None: ...
    async def gone(self, paths: Iterable[str]) -> None: ...


class VaultWatcher(Protocol):
    """Tells at once what changes in the vault; what it misses, a sweep finds."""

    def problem(self) -> str | None: ...
    def changes(self) -> AsyncIterator[set[str]]: ...
    def stop(self) -> None: ...


class PeopleStore(Protocol):
    """Presets of spaces and preferences of users. Reading is cheap: a chat does it at every turn.

    A change is durable when it returns, and its file in the vault follows by a job.
    """

    async def preset(self, space: str, name: str) -> Preset | None: ...
    async def presets(
        self, space: str, *, limit: int | None = None, after: str | None = None
    ) -> list[Preset]: ...
    async def change_preset(
        self, space: str, name: str, change: Callable[[Preset | None], Preset]
    ) -> tuple[Preset, bool]: ...
    async def delete_preset(self, space: str, name: str) -> bool: ...
    async def preferences(self, space: str, user_id: str) -> Preferences: ...
    async def change_preferences(
        self, space: str, user_id: str, change: Callable[[Preferences], Preferences]
    ) -> Preferences: ...
    async def forget_user(self, space: str, user_id: str) -> None: ...


class PeopleFileStore(Protocol):
    """What of presets and preferences stands in the vault already, by the paths of their files."""

    async def file(self, path: str) -> PeopleFile | None: ...
    async def files(self) -> list[PeopleFile]: ...
    async def path_of(self, holds: Preset | Preferences) -> str | None: ...
    async def announce(self, path: str, writing: str) -> None: ...
    async def record(self, path: str, revision: int, digest: str) -> None: ...
    async def removed(self, path: str) -> None: ...
    async def take_in(self, path: str, holds: Preset | Preferences, digest: str) -> None: ...
    async def let_go(self, path: str) -> bool: ...
    async def write_anew(self, path: str) -> None: ...
    async def queue(self, path: str) -> None: ...
