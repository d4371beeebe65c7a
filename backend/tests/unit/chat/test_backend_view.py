"""Backends are shown with what they told; one that is down is shown with what is wrong."""

from recollect.errors import BackendDown
from recollect.service.models.llama_slots import LlamaSlots
from recollect.service.operations import look_at_backends
from tests.fakes import FakeBackend


async def test_a_backend_shows_what_it_is_and_how_many_of_its_slots_are_held() -> None:
    backend, slots = FakeBackend(), LlamaSlots()
    slots.take(backend, backend.told, "a", begins=True)
    (view,) = await look_at_backends([backend], slots)
    assert (view.facts, view.pinned, view.problem) == (backend.told, 1, None)


async def test_one_that_is_down_says_so_and_hides_no_other() -> None:
    down, up = FakeBackend(name="down", fail=BackendDown("nobody answers")), FakeBackend(name="up")
    found = await look_at_backends([down, up], LlamaSlots())
    assert [(view.backend.name, view.facts is None, view.problem) for view in found] == [
        ("down", True, "nobody answers"),
        ("up", False, None),
    ]
