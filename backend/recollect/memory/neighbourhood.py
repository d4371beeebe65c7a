"""What stands around each row: the messages before and after it in its session."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

KERNEL = (1.0, 0.75, 0.5, 0.25)
"""How much a neighbour counts that is one, two, three, four messages away, before or after."""
_FEW = 6
"""For a word that more than one row in so many holds, it is faster to look at all rows."""
STRETCH_REACH = 2
"""How many on each side make a stretch that is shown as one."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The surroundings of the first rows of a corpus, as many as there were when it was made."""

    steps: tuple[tuple[Rows, float], ...]
    """For each step away, the row there (-1 for none), and how much it counts; the nearest first."""
    near_lengths: Floats
    mean_length: float
    mean_near_length: float
    members: Floats
    with_assistant: Flags
    """Whether an assistant speaks in the row's thread."""
    of_user: Flags
    """Whether it is what the person said to an assistant."""
    answers: Flags
    """Whether it follows a question that another person asked."""
    replies: Flags
    """Whether it is what an assistant, or a tool, answered to the person."""

    def averaged(self, values: Floats) -> Floats:
        """Over each row and its neighbours."""
        return _gathered(values, self.steps) / self.members

    def spread(self, rows: Rows, counts: npt.NDArray[np.uint16]) -> tuple[npt.NDArray[np.int64], Floats]:
        """Where the counts of these rows are felt: the rows they are neighbours of, with the sums."""
        felt = counts.astype(np.float32)
        if len(rows) * _FEW > len(self.members):
            everywhere = np.zeros(len(self.members), np.float32)
            everywhere[rows] = felt
            everywhere = _gathered(everywhere, self.steps)
            around = np.nonzero(everywhere)[0]
            return around, everywhere[around]
        places = np.concatenate([rows, *(step[rows] for step, _ in self.steps)])
        weights = np.concatenate([felt, *(felt * np.float32(weight) for _, weight in self.steps)])
        there = places >= 0
        sums = np.bincount(places[there], weights[there], minlength=1)
        around = np.nonzero(sums)[0]
        return around, sums[around].astype(np.float32)


def neighbourhood(
    before: Rows,
    after: Rows,
    lengths: npt.NDArray[np.int32],
    head_lengths: npt.NDArray[np.int32],
    with_assistant: Flags,
    of_person: Flags,
    asks: Flags,
    senders: Rows,
) -> Neighbourhood:
    """From the links between rows; a link that leads beyond the last row leads nowhere."""
    steps = tuple(
        step for pair in zip(*(_steps(link) for link in (before, after)), strict=True) for step in pair
    )
    near_lengths = _gathered(head_lengths.astype(np.float32), steps)
    of_user = with_assistant & of_person
    follows = before >= 0
    return Neighbourhood(
        steps=steps,
        near_lengths=near_lengths,
        mean_length=max(1.0, float(lengths.mean())),
        mean_near_length=max(1.0, float(near_lengths.mean())),
        members=_gathered(np.ones(len(before), np.float32), steps),
        with_assistant=with_assistant,
        of_user=of_user,
        answers=follows & asks[before] & (senders[before] != senders) & ~with_assistant,
        replies=follows & ~of_user & of_user[before],
    )


def _steps(link: Rows) -> list[tuple[Rows, float]]:
    link = np.array(link)  # Of its own: rows that are added meanwhile are linked in the one that was given.
    link[link >= len(link)] = -1
    steps = [link]
    for _ in KERNEL[1:]:
        steps.append(np.where(steps[-1] >= 0, link[steps[-1]], -1).astype(np.int32))
    return list(zip(steps, KERNEL, strict=True))


def _gathered(values: Floats, steps: Iterable[tuple[Rows, float]]) -> Floats:
    total = values.copy()
    padded = np.append(values, np.float32(0))  # Where -1, for no row, points to.
    for step, weight in steps:
        total += np.float32(weight) * padded[step]
    return total
