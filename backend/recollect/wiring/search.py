"""Everything that indexes and finds."""

from collections.abc import Callable
from dataclasses import dataclass

from recollect.failpoints import FailPoints
from recollect.infra.embedding.onnx import OnnxEmbedder
from recollect.infra.embedding.openai import OpenAiEmbedder
from recollect.infra.lance.index import LanceIndex
from recollect.infra.sql.coverage import SqlCoverage
from recollect.infra.sql.index_ledger import SqlIndexLedger
from recollect.infra.sql.note_store import SqlNoteStore
from recollect.infra.sql.thread_store import SqlThreadStore
from recollect.infra.sql.transcript_store import SqlTranscriptStore
from recollect.infra.vault import Vault
from recollect.service.corpora import Corpora
from recollect.service.forget_index import IndexForgetter
from recollect.service.index_meaning import MeaningIndexer
from recollect.service.index_words import WordIndexer
from recollect.service.indexer import Indexer
from recollect.service.owner_locks import OwnerLocks
from recollect.service.recall import Recall
from recollect.service.reindex import Reindexer
from recollect.service.verify_index import IndexVerifier
from recollect.settings import Settings
from recollect.wiring.models import embedder_of


@dataclass(frozen=True, slots=True)
class Engines:
    """What search stands on."""

    index: LanceIndex
    ledger: SqlIndexLedger
    threads: SqlThreadStore
    transcripts: SqlTranscriptStore
    coverage: SqlCoverage
    notes: SqlNoteStore
    vault: Vault
    fail_points: FailPoints
    clock: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Search:
    """The parts of an App that keep the index and search it."""

    embedder: OnnxEmbedder | OpenAiEmbedder | None
    corpora: Corpora
    indexer: Indexer
    verifier: IndexVerifier
    recall: Recall
    reindexer: Reindexer
    forgetter: IndexForgetter

    @property
    def embedded_texts(self) -> int:
        """Since the start."""
        return self.reindexer.meaning.embedded


def build_search(settings: Settings, engines: Engines, on_damage: Callable[[str, str, str], None]) -> Search:
    """A new embedder for every start: one that was closed stays closed."""
    embedder = embedder_of(settings)
    locks = OwnerLocks()
    corpora = Corpora(
        engines.index,
        engines.ledger,
        engines.transcripts,
        locks,
        budget_bytes=settings.index.cache_mb * 1024 * 1024,
        on_damage=on_damage,
    )
    words = WordIndexer(
        engines.index,
        engines.ledger,
        engines.transcripts,
        engines.notes,
        engines.vault,
        locks,
        corpora,
        engines.fail_points,
    )
    meaning = MeaningIndexer(
        engines.index,
        engines.ledger,
        engines.transcripts,
        words,
        locks,
        corpora,
        embedder,
        engines.fail_points,
    )
    indexer = Indexer(
        engines.index,
        engines.ledger,
        words,
        meaning,
        corpora,
        embedder,
        delay_seconds=settings.index.delay_ms / 1000,
    )
    verifier = IndexVerifier(
        engines.index,
        engines.ledger,
        engines.transcripts,
        engines.threads,
        engines.coverage,
        engines.notes,
        engines.vault,
    )
    recall = Recall(
        indexer,
        corpora,
        engines.ledger,
        engines.threads,
        engines.transcripts,
        embedder,
        clock=engines.clock,
        embed_seconds=settings.embedding.query_seconds,
    )
    reindexer = Reindexer(
        indexer,
        engines.index,
        engines.ledger,
        words,
        meaning,
        embedder,
        verifier.problems,
        engines.fail_points,
    )
    forgetter = IndexForgetter(words, indexer, indexer.generations)
    return Search(embedder, corpora, indexer, verifier, recall, reindexer, forgetter)
