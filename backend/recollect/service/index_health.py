"""What is wrong with the index, in words for an operator. Names no user."""

from recollect.service.indexer import Indexer

_UNTIL = "search finds everything by reading the journal meanwhile"


def index_problem(indexer: Indexer) -> str | None:
    """Why the index does not keep up by words."""
    if indexer.words_problem is not None:
        return f"the index cannot be written: {indexer.words_problem}; {_UNTIL}"
    if indexer.remaking:
        return f"the index is being made anew, {indexer.waiting[0]} threads are left; {_UNTIL}"
    return None


def meaning_problem(indexer: Indexer) -> str | None:
    """Why search goes by words alone."""
    if indexer.model_mismatch is not None:
        return indexer.model_mismatch
    if indexer.meaning_problem is not None:
        return f"search goes by words alone for what is new: {indexer.meaning_problem}"
    if indexer.refused:
        return f"{indexer.refused} texts are found by words alone: the embedding model refuses them"
    return None


def compaction_problem(failure: str | None) -> str | None:
    """Why the index grows more than it should."""
    return None if failure is None else f"the index cannot be compacted and grows: {failure}"
