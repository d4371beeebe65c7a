"""Slots belong to a server, by whatever names its backends go."""

from recollect.domain.llm import BackendFacts, Usage
from recollect.service.models.llama_slots import SlotMaps
from tests.fakes import FakeBackend

FACTS = BackendFacts("llama.cpp", local=True, slots=4)


def named(name: str, server: str = "127.0.0.1:8080") -> FakeBackend:
    return FakeBackend(name=name, server=server)


def test_threads_on_one_server_never_share_a_slot_whatever_their_backends_are_called() -> None:
    maps = SlotMaps()
    names = ("default", "same", "samehost")
    taken = [maps.take(named(name), FACTS, f"thread of {name}", begins=True) for name in names]
    assert sorted(slot for slot in taken if slot is not None) == [0, 1, 2]


def test_servers_have_slots_of_their_own() -> None:
    maps = SlotMaps()
    assert maps.take(named("one"), FACTS, "a", begins=True) == 0
    assert maps.take(named("other", "127.0.0.1:8081"), FACTS, "b", begins=True) == 0


def test_background_work_under_another_name_disturbs_the_chats_of_the_same_server() -> None:
    maps, chats, tasks = SlotMaps(), named("default"), named("tasks")
    assert maps.take(chats, FACTS, "a", begins=True) == 0
    maps.done(chats, "a", Usage(10, 2, 0, 10))
    maps.disturbed(tasks)
    assert maps.take(chats, FACTS, "a", begins=False) is None


def test_background_work_on_another_server_disturbs_nobody() -> None:
    maps, chats = SlotMaps(), named("default")
    assert maps.take(chats, FACTS, "a", begins=True) == 0
    maps.disturbed(named("tasks", "127.0.0.1:8081"))
    assert maps.take(chats, FACTS, "a", begins=False) == 0


def test_a_chat_ends_where_it_began_though_its_backend_stands_for_another_server_by_then() -> None:
    maps, found, one_slot = SlotMaps(), named("default"), BackendFacts("llama.cpp", local=True, slots=1)
    assert maps.take(found, one_slot, "a", begins=True) == 0
    found.server = "127.0.0.1:8081"
    maps.done(found, "a", None)
    maps.release("a")
    found.server = "127.0.0.1:8080"
    assert maps.take(found, one_slot, "b", begins=True) == 0


def test_slots_that_hold_a_thread_are_counted() -> None:
    maps, chats = SlotMaps(), named("default")
    assert maps.pinned(chats) == 0
    maps.take(chats, FACTS, "a", begins=True)
    maps.take(chats, FACTS, "b", begins=True)
    assert (maps.pinned(chats), maps.pinned(named("other", "127.0.0.1:8081"))) == (2, 0)
