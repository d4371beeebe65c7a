"""What waits for the journal's writer: urgent ones first, by turns, and nothing is lost or overtaken by its like."""

import asyncio
from collections.abc import Iterator

import pytest

from recollect.infra.journal.group_commit import GROUP_LIMIT, Pending, WriteQueue


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Filled:
    """A queue whose operations are known by their names: in capitals where they are urgent."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *names: str) -> None:
        self.queue = WriteQueue()
        self._loop = loop
        self.put(*names)

    def put(self, *names: str) -> None:
        for name in names:
            pending = Pending(
                lambda connection: None,
                self._loop.create_future(),
                self._loop,
                alone=name.startswith("alone"),
                urgent=name.isupper(),
                result=name,
            )
            self.queue.put(pending)

    def taken(self) -> list[str] | None:
        group = self.queue.next_group()
        return None if group is None else [str(pending.result) for pending in group]

    def rest(self) -> list[list[str]]:
        self.queue.close()
        groups = []
        while (group := self.taken()) is not None:
            groups.append(group)
        return groups


def test_those_that_wait_are_one_group_in_the_order_of_their_arrival(loop: asyncio.AbstractEventLoop) -> None:
    assert Filled(loop, "a", "b", "c").rest() == [["a", "b", "c"]]


def test_urgent_ones_go_ahead_of_others(loop: asyncio.AbstractEventLoop) -> None:
    assert Filled(loop, "a", "b", "U", "c", "V").rest() == [["U", "V"], ["a", "b", "c"]]


def test_urgent_ones_and_others_take_turns(loop: asyncio.AbstractEventLoop) -> None:
    """However many urgent ones come, some other is written after each group of them."""
    filled = Filled(loop, "a", "U")
    assert filled.taken() == ["U"]
    filled.put("V", "b")
    assert filled.taken() == ["a", "b"]
    filled.put("c", "W")
    assert filled.rest() == [["V", "W"], ["c"]]


def test_what_is_put_back_keeps_its_place(loop: asyncio.AbstractEventLoop) -> None:
    filled = Filled(loop, "a", "b", "c")
    group = filled.queue.next_group()
    assert group is not None
    assert not filled.queue.is_any_urgent()
    filled.put("d", "U")
    assert filled.queue.is_any_urgent()
    filled.queue.put_back(group[1:])
    assert filled.rest() == [["U"], ["b", "c", "d"]]


def test_what_runs_outside_a_transaction_is_alone_and_in_its_place(loop: asyncio.AbstractEventLoop) -> None:
    assert Filled(loop, "a", "alone 1", "b", "alone 2", "alone 3").rest() == [
        ["a"], ["alone 1"], ["b"], ["alone 2"], ["alone 3"],
    ]  # fmt: skip


def test_a_group_is_bounded(loop: asyncio.AbstractEventLoop) -> None:
    names = [f"n{number}" for number in range(GROUP_LIMIT + 2)]
    assert Filled(loop, *names).rest() == [names[:GROUP_LIMIT], names[GROUP_LIMIT:]]


def test_one_that_is_closed_gives_out_what_it_holds_and_then_nothing(loop: asyncio.AbstractEventLoop) -> None:
    filled = Filled(loop, "a", "U")
    assert filled.rest() == [["U"], ["a"]]
    assert filled.taken() is None
