"""Background work on fake backends."""

import asyncio
from collections.abc import Callable
from typing import Any

from recollect.domain.llm import BackendFacts, ChatCall
from recollect.domain.model import ThreadRef
from recollect.infra.backends.configured import Backend
from recollect.service.models.backend_priority import Gate
from recollect.service.models.background import BackgroundModel, ModelFor, ThreadModel
from recollect.setting_groups import BackendKind
from tests.fakes import FakeBackend

Script = Callable[[ChatCall], str]


def backend_of(
    kind: BackendKind = "llama.cpp", *, local: bool = True, name: str = "default", group: str = "here"
) -> FakeBackend:
    """One of that kind, whose answer is 'yes'."""
    facts = BackendFacts(kind, local, models=("fake",))
    return FakeBackend(name, group, told=facts, answer=saying("yes"))


def answering(script: Script) -> FakeBackend:
    """A local one that answers what the script says, and raises what it raises."""
    backend = backend_of()
    backend.answer = script
    return backend


def silent() -> FakeBackend:
    """A local one that takes calls, and answers when it is told to `release`."""
    backend = backend_of()
    backend.pace = asyncio.Semaphore(0)
    return backend


def saying(*steps: str | Exception) -> Script:
    """One step a call, the last one again and again."""
    left = list(steps)

    def script(call: ChatCall) -> str:
        step = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(step, Exception):
            raise step
        return step

    return script


def always(backend: Backend) -> ModelFor:
    """Every thread's background work goes there."""

    async def model_for(thread: ThreadRef) -> ThreadModel:
        return ThreadModel(backend)

    return model_for


def model_on(backend: Backend, gate: Gate | None = None, **choices: Any) -> BackgroundModel:
    """A background model that does not sleep between its tries."""
    return BackgroundModel(always(backend), gate or Gate(), **{"pause": _no_pause, **choices})


async def _no_pause(seconds: float) -> None:
    await asyncio.sleep(0)
