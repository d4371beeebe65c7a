"""After a failure that may pass, background calls leave a backend alone for a while."""

import pytest

from recollect.domain.model import ThreadRef
from recollect.errors import BackendDown, ModelUnavailable, RateLimited, StreamBroken
from recollect.service.models.backend_priority import Gate
from recollect.service.models.background import Answer, BackgroundModel, CallBudget, ThreadModel
from recollect.service.models.call_failures import LONGEST_SECONDS, PAUSES, Rests
from tests.standins.background import answering, backend_of, model_on, saying

THREAD = ThreadRef("default", "me", "t1")


class Seconds:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def put(model: BackgroundModel) -> Answer:
    return await model.ask([], thread=THREAD, max_tokens=50, budget=CallBudget(3))


async def once(model: BackgroundModel) -> float | None:
    """How long the job of a failed call is to wait."""
    with pytest.raises(ModelUnavailable) as caught:
        await put(model)
    return caught.value.retry_after


async def test_after_a_failure_that_may_pass_the_backend_rests_longer_each_time() -> None:
    backend, clock = answering(saying(ModelUnavailable("it failed (500)"))), Seconds()
    model = model_on(backend, rests=Rests(clock))
    for number, pause in enumerate((*PAUSES, PAUSES[-1]), 1):
        assert await once(model) == pause
        clock.now += pause - 1
        assert await once(model) == 1
        assert len(backend.calls) == number
        clock.now += 1
    backend.answer = saying("here")
    assert (await put(model)).text == "here"
    backend.answer = saying(StreamBroken("broke off"))
    assert await once(model) == PAUSES[0]


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (RateLimited(retry_after=0), PAUSES[0]),
        (RateLimited(retry_after=120), 120),
        (ModelUnavailable("it failed (503)", retry_after=30), 30),
        (RateLimited(retry_after=86_400), LONGEST_SECONDS),
    ],
)
async def test_a_server_that_says_when_is_left_alone_until_then(
    error: ModelUnavailable, seconds: float
) -> None:
    assert await once(model_on(answering(saying(error)), rests=Rests(Seconds()))) == seconds


async def test_nobody_at_the_address_makes_no_rest() -> None:
    backend = answering(saying(BackendDown("nobody")))
    model = model_on(backend)
    assert [await once(model), await once(model)] == [None, None]
    assert len(backend.calls) == 2


async def test_a_rest_is_one_backends_and_ends_when_somebody_asks() -> None:
    failing, well = backend_of(name="failing"), backend_of(name="well")
    failing.answer = saying(ModelUnavailable("it failed (500)"))
    chosen = failing

    async def model_for(thread: ThreadRef) -> ThreadModel:
        return ThreadModel(chosen)

    model = BackgroundModel(model_for, Gate(), rests=Rests(Seconds()))
    await once(model)
    chosen = well
    assert (await put(model)).text == "yes"
    chosen = failing
    await once(model)
    assert len(failing.calls) == 1
    model.rests.end_all()
    await once(model)
    assert len(failing.calls) == 2


def test_calls_that_fail_together_count_once_and_a_rest_ends_with_one_call() -> None:
    clock = Seconds()
    rests = Rests(clock)
    began = clock.now
    clock.now += 2
    assert [rests.failed("a", began, None) for _ in range(4)] == [PAUSES[0]] * 4
    clock.now += PAUSES[0]
    assert [rests.wait_before_call("a") > 0 for _ in range(3)] == [False, True, True]
    assert rests.failed("a", clock.now, None) == PAUSES[1]
    clock.now -= 3_600  # The clock was set back.
    assert rests.wait_before_call("a") == 0
