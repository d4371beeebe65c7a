"""Which backend a model's name means where there are several."""

import pytest

from recollect.domain.llm import BackendFacts
from recollect.errors import BackendDown
from recollect.infra.backends.configured import Backends
from recollect.service.models.choice import chosen_model
from tests.fakes import FakeBackend


class Several(Backends):
    """Backends by their names, the default first."""

    def __init__(self, **models: tuple[str, ...]) -> None:
        self.backends = {
            name: FakeBackend(
                name=name,
                told=BackendFacts("llama.cpp" if name == "default" else "vllm", True, models=listed),
            )
            for name, listed in models.items()
        }
        self.models_in_settings: dict[str, tuple[str, ...]] = {}

    @property
    def names(self) -> list[str]:
        return list(self.backends)

    def get(self, name: str | None = None) -> FakeBackend:  # type: ignore[override]
        return self.backends[name or "default"]

    def configured_models(self, name: str) -> tuple[str, ...]:
        return self.models_in_settings.get(name, ())


@pytest.fixture
def backends() -> Several:
    return Several(default=("tiny",), gpu=("Qwen/Qwen3-32B", "shared"), cloud=("gpt-5", "shared"))


@pytest.mark.parametrize("name", ["Qwen/Qwen3-32B", "qwen3-32b", "QWEN/qwen3-32b", "Qwen3-32B.gguf"])
async def test_a_name_goes_to_the_one_backend_that_lists_it_in_whatever_spelling(
    backends: Several, name: str
) -> None:
    assert await chosen_model(backends, name) == ("gpu", name)


async def test_a_name_that_is_listed_as_it_is_written_comes_before_another_spelling() -> None:
    backends = Several(default=("tiny",), one=("vendor/Big",), two=("big",))
    assert await chosen_model(backends, "big") == ("two", "big")


@pytest.mark.parametrize("name", ["tiny", "Tiny.gguf"])
async def test_the_defaults_own_models_stay_with_it(backends: Several, name: str) -> None:
    assert await chosen_model(backends, name) == ("default", name)


async def test_of_several_that_list_a_name_the_first_is_meant_and_another_can_be_named(
    backends: Several,
) -> None:
    assert await chosen_model(backends, "shared") == ("gpu", "shared")
    assert await chosen_model(backends, "cloud/shared") == ("cloud", "shared")


async def test_a_name_that_nobody_lists_is_left_to_the_default(backends: Several) -> None:
    assert await chosen_model(backends, "gpt-4o") == (None, "gpt-4o")


async def test_a_model_of_a_backend_that_is_down_is_not_answered_by_another_one(backends: Several) -> None:
    backends.get("gpu").fail = BackendDown("nobody answers for the backend 'gpu'")
    backends.models_in_settings = {"gpu": ("qwen3-32b",)}
    assert await chosen_model(backends, "Qwen3-32B") == ("gpu", "Qwen3-32B")
