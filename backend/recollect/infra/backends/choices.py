"""Several answers asked one by one, told as one call's."""

from collections.abc import Sequence

from recollect.context.llm import Finished, Usage


def merged(ends: Sequence[Finished]) -> Finished:
    """The prompt counts once, as when one request asks for all; what was written adds up."""
    first = ends[0]
    written = [end.usage.completion_tokens for end in ends]
    total = (
        sum(count for count in written if count is not None) if any(w is not None for w in written) else None
    )
    return Finished(
        {choice: next(iter(end.reasons.values()), "stop") for choice, end in enumerate(ends)},
        Usage(first.usage.prompt_tokens, total, first.usage.cached_tokens, first.usage.evaluated_tokens),
        first.model,
    )
