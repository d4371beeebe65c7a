"""What is wrong with the index, in words for an operator. Names no user."""

from recollect.service.indexer import Indexer

_UNTIL = "search finds every message by reading the journal meanwhile"


def index_problem(indexer: Indexer) -> str | None:
    """Why the index does not keep up by words."""
    if indexer.words_problem is not None:
        return f"the index cannot be written: {indexer.words_problem}; {_UNTIL}, but no notes"
    if indexer.notes_problem is not None:
        return f"notes are missing from search: {indexer.notes_problem}"
    if indexer.remaking:
        threads, owners = indexer.waiting[0], indexer.notes_waiting
        left = f"{threads} threads and the notes of {owners} users are left"
        return f"the index is being made anew, {left}; {_UNTIL}"
    return None


def meaning_problem(indexer: Indexer) -> str | None:
    """Why search goes by words alone."""
    if indexer.model_mismatch is not None:
        return indexer.model_mismatch
    if indexer.meaning_problem is not None:
        return f"search goes by words alone for what is new: {indexer.meaning_problem}"
    if indexer.refused:
        return (
            f"{indexer.refused} texts are found by words alone: the embedding model refuses them, and is asked again "
            "every hour"
        )
    return None


def compaction_problem(failure: str | None) -> str | None:
    """Why the index grows more than it should."""
    return None if failure is None else f"the index cannot be compacted and grows: {failure}"
