"""What a real llama.cpp had to evaluate of long chats, and the table that shows it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.standins.llama_cpp import Exchange

REMARK = "remark"
"""The property of a test that is shown below the tables."""
PROMPTS = "tokens of prompts on llama.cpp"
"""The table of these rows."""
HEADINGS = (
    "prompts",
    "cached %",
    "with first turns",
    "evaluated a turn",
    "new a turn",
    "first turns, evaluated",
)


@dataclass(slots=True)
class Run:
    """The turns of one thread, as they were evaluated."""

    turns: list[Exchange] = field(default_factory=list)

    @property
    def later(self) -> list[Exchange]:
        """All but the first, which nothing can have been cached of."""
        return self.turns[1:]

    @property
    def new_tokens(self) -> list[int]:
        """What each later prompt has beyond the one before and its answer."""
        pairs = zip(self.turns, self.later, strict=False)
        return [now.prompt_tokens - before.prompt_tokens - before.answer_tokens for before, now in pairs]

    @property
    def only_grows(self) -> bool:
        return all(tokens > 0 for tokens in self.new_tokens)


def cached_percent(runs: Sequence[Run], *, with_first: bool = False) -> float:
    turns = [turn for run in runs for turn in (run.turns if with_first else run.later)]
    return 100 * sum(turn.cached for turn in turns) / sum(turn.prompt_tokens for turn in turns)


def evaluated_per_turn(runs: Sequence[Run]) -> float:
    turns = [turn for run in runs for turn in run.later]
    return sum(turn.evaluated for turn in turns) / len(turns)


def new_per_turn(runs: Sequence[Run]) -> float:
    new = [tokens for run in runs for tokens in run.new_tokens]
    return sum(new) / len(new)


def more_than_new(run: Run) -> list[tuple[int, int]]:
    """The later turns that evaluated more than 1.05 times their new tokens and 8: (evaluated, new)."""
    figures = zip((turn.evaluated for turn in run.later), run.new_tokens, strict=True)
    return [(evaluated, new) for evaluated, new in figures if evaluated > 1.05 * new + 8]


def table_row(prompts: str, runs: Sequence[Run]) -> list[str]:
    """One line of the table. Where a prompt is no longer than the one before, nobody can tell what of it is new."""
    new = f"{new_per_turn(runs):.0f}" if all(run.only_grows for run in runs) else "-"
    return [
        prompts,
        f"{cached_percent(runs):.1f}",
        f"{cached_percent(runs, with_first=True):.1f}",
        f"{evaluated_per_turn(runs):.0f}",
        new,
        " ".join(str(run.turns[0].evaluated) for run in runs),
    ]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, with its headings."""
    first, *others = (max(map(len, column)) for column in zip(headings, *rows, strict=True))
    return [
        "  ".join(
            [name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]
        )
        for name, *cells in (headings, *rows)
    ]
