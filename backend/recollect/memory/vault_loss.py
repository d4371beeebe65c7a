"""When files that are gone are no deletion: a disk that is not mounted, a folder that was moved, a sync gone wrong."""

_FEWEST = 3
_SHARE = 5


def loss_in_words(transcripts: int, notes: int, gone_transcripts: int, gone_notes: int) -> str | None:
    """Why what is gone must be asked about first; None where it may be restored or let go, file by file.

    Counted are the files that are known to have been there. A fifth of them gone at once is too many, unless
    that is only one or two; no transcript left where there were some always is.
    """
    known, gone = transcripts + notes, gone_transcripts + gone_notes
    emptied = transcripts > 0 and gone == known
    if not emptied and (gone < _FEWEST or gone * _SHARE < known):
        return None
    return (
        f"{gone:,} of {known:,} files vanished from the vault at once; nothing was deleted. Bring them back, or run "
        "'recollect verify --repair' to write the transcripts anew and to let the notes go"
    )
