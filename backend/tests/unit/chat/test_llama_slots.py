"""Slots: pinned while a thread's place is certain, left to the server as soon as it is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.llm import BackendFacts, Usage
from recollect.service.models.llama_slots import (
    IDLE_SECONDS,
    LlamaSlots,
    ServerSlots,
    wants_thread_tag,
)
from tests.fakes import FakeBackend, FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(0)


@pytest.fixture
def slots(clock: FakeClock) -> ServerSlots:
    return ServerSlots(2, clock=clock)


def call(slots: ServerSlots, thread: str, usage: Usage | None = None, *, begins: bool = False) -> int | None:
    """One chat call, from its start to its end."""
    slot = slots.take(thread, begins=begins)
    slots.done(thread, usage)
    return slot


def evaluated(prompt: int, cached: int) -> Usage:
    return Usage(prompt_tokens=prompt, cached_tokens=cached)


def test_with_more_threads_than_slots_the_server_chooses_for_all(slots: ServerSlots) -> None:
    for thread in "ab":
        call(slots, thread, begins=True)
    assert call(slots, "c", begins=True) is None
    assert [call(slots, thread) for thread in "abc"] == [None, None, None]


def test_a_thread_that_the_server_may_hold_somewhere_is_not_pinned_elsewhere(slots: ServerSlots) -> None:
    assert call(slots, "known to the server before", begins=False) is None
    assert call(slots, "new", begins=True) is None


def test_after_a_call_with_a_prompt_of_its_own_nobody_is_pinned(slots: ServerSlots) -> None:
    call(slots, "a", begins=True)
    slots.disturbed()
    assert call(slots, "a") is None


def test_a_pin_that_did_not_hold_is_the_last_one(slots: ServerSlots, clock: FakeClock) -> None:
    call(slots, "a", evaluated(700, 0), begins=True)
    assert call(slots, "a", evaluated(810, 0)) is not None
    assert call(slots, "a", evaluated(920, 0)) is None
    clock.now += IDLE_SECONDS + 1
    assert call(slots, "b", begins=True) is None


def test_a_new_epoch_is_no_sign_that_a_pin_does_not_hold(slots: ServerSlots) -> None:
    first = call(slots, "a", evaluated(700, 0), begins=True)
    assert call(slots, "a", evaluated(400, 100), begins=True) == first
    assert call(slots, "a") == first


def test_a_backend_that_tells_nothing_of_its_cache_is_trusted(slots: ServerSlots) -> None:
    call(slots, "a", Usage(prompt_tokens=700), begins=True)
    call(slots, "a", Usage(prompt_tokens=810))
    assert call(slots, "a") is not None


def test_an_idle_thread_no_longer_counts(slots: ServerSlots, clock: FakeClock) -> None:
    for thread in "ab":
        call(slots, thread, begins=True)
    clock.now += IDLE_SECONDS
    call(slots, "b")
    clock.now += 1
    assert call(slots, "c", begins=True) is not None


def test_a_thread_that_came_back_after_a_long_time_is_not_pinned(
    slots: ServerSlots, clock: FakeClock
) -> None:
    call(slots, "a", begins=True)
    clock.now += IDLE_SECONDS + 1
    assert call(slots, "a", begins=False) is None


def test_another_number_of_slots_empties_the_map(slots: ServerSlots) -> None:
    call(slots, "a", begins=True)
    slots.disturbed()
    slots.resize(4)
    assert sorted(call(slots, thread, begins=True) or 0 for thread in "bcde") == [0, 1, 2, 3]


def test_a_thread_that_is_gone_keeps_its_slot_until_its_call_has_ended(slots: ServerSlots) -> None:
    first = slots.take("a", begins=True)
    slots.release("a")
    assert call(slots, "b", begins=True) not in (first, None)
    slots.done("a")
    assert call(slots, "c", begins=True) == first


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["take", "done", "release", "begin"]), st.sampled_from("abcde")),
        st.tuples(st.sampled_from(["disturbed", "long pause"]), st.just("")),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 3))
def test_no_slot_is_ever_pinned_for_two_calls_at_a_time(steps: list[tuple[str, str]], number: int) -> None:
    clock = FakeClock(0)
    slots = ServerSlots(number, clock=clock)
    running: dict[str, int | None] = {}
    for what, thread in steps:
        if what in ("take", "begin") and thread not in running:
            slot = slots.take(thread, begins=what == "begin")
            assert slot is None or (slot < number and slot not in running.values())
            running[thread] = slot
        elif what == "done" and thread in running:
            del running[thread]
            slots.done(thread)
        elif what == "release":
            slots.release(thread)
        elif what == "disturbed":
            slots.disturbed()
        elif what == "long pause":
            clock.now += IDLE_SECONDS + 1


@pytest.mark.parametrize(("kind", "tagged"), [("llama.cpp", True), ("lmstudio", False), ("openai", False)])
def test_only_llama_cpp_wants_the_tag(kind: str, tagged: bool) -> None:
    assert wants_thread_tag(BackendFacts(kind=kind, local=True)) is tagged  # type: ignore[arg-type]


# --- servers and the names of their backends --------------------------------------------------------------------

FACTS = BackendFacts("llama.cpp", local=True, slots=4)


def named(name: str, server: str = "127.0.0.1:8080") -> FakeBackend:
    return FakeBackend(name=name, server=server)


def test_servers_have_slots_of_their_own_and_backends_of_one_server_share_them() -> None:
    maps = LlamaSlots()
    names = ("default", "same", "samehost")
    taken = [maps.take(named(name), FACTS, f"thread of {name}", begins=True) for name in names]
    assert sorted(slot for slot in taken if slot is not None) == [0, 1, 2]
    assert maps.take(named("other", "127.0.0.1:8081"), FACTS, "b", begins=True) == 0


@pytest.mark.parametrize(("server", "slot"), [("127.0.0.1:8080", None), ("127.0.0.1:8081", 0)])
def test_background_work_disturbs_the_chats_of_its_server_whatever_its_backend_is_called(
    server: str, slot: int | None
) -> None:
    maps, chats = LlamaSlots(), named("default")
    assert maps.take(chats, FACTS, "a", begins=True) == 0
    maps.done(chats, "a", Usage(10, 2, 0, 10))
    maps.disturbed(named("tasks", server))
    assert maps.take(chats, FACTS, "a", begins=False) == slot


def test_a_chat_ends_where_it_began_though_its_backend_stands_for_another_server_by_then() -> None:
    maps, found, one_slot = LlamaSlots(), named("default"), BackendFacts("llama.cpp", local=True, slots=1)
    assert maps.take(found, one_slot, "a", begins=True) == 0
    found.server = "127.0.0.1:8081"
    maps.done(found, "a", None)
    maps.release("a")
    found.server = "127.0.0.1:8080"
    assert maps.take(found, one_slot, "b", begins=True) == 0
