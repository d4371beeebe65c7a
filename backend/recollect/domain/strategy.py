"""Strategies: which event sets off which work, and when."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from recollect.domain.entries.entry import CASES, FACTS
from recollect.domain.job import Job, JobSpec
from recollect.domain.model import JsonObject, ThreadRef
from recollect.domain.paths import owner_folder

STRATEGY = "strategy"
"""The kind of job that runs a strategy."""
HELD = 253_402_300_799_000
"""When a job is due that waits for more events of its kind: at the end of all times, unless they come."""

STRATEGIES_OF = "strategies"
"""In the payload of a memcell's job: which of them it runs."""
CAUSES = "causes"
"""In a job's payload: what set it off."""

Event = Literal["memcell closed", "facts changed", "case written"]


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a strategy runs after its event: at once, unless one of these says otherwise.

    Those that work on memcells always run at once: they share one job.
    """

    every: int = 1
    """Run once every N events, on all events since the last run."""
    idle_seconds: float = 0.0
    """Run after this long without a new event."""
    at: str | None = None
    """At this time of day, UTC: `03:30`."""

    def delay_ms(self, now: int) -> int:
        if self.at is not None:
            return _until(self.at, now)
        return int(self.idle_seconds * 1000)


@dataclass(frozen=True, slots=True)
class Strategy:
    """One kind of work on one kind of event."""

    name: str
    on: Event
    trigger: Trigger = Trigger()
    for_mode: Literal["chat", "agent"] = "chat"
    """Whose memory it makes: the user's, or the agent's."""


STRATEGIES: tuple[Strategy, ...] = (
    Strategy("episode", "memcell closed"),
    Strategy("facts", "memcell closed"),
    Strategy("foresight", "memcell closed"),
    Strategy("profile", "facts changed", Trigger(idle_seconds=2.0)),
    Strategy("case", "memcell closed", for_mode="agent"),
    Strategy("skill", "case written", for_mode="agent"),
)
"""All there are: whoever adds one adds it here."""
ON_CELLS = tuple(strategy for strategy in STRATEGIES if strategy.on == "memcell closed")
"""They share one job and one answer of the model."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Which strategies are on, and when they run."""

    triggers: Mapping[str, Trigger]
    """By name; those that are off are not among them."""

    def after(
        self, event: Event, space: str, owner: str, now: int, cause: "Cause | None" = None
    ) -> list[JobSpec]:
        """What a change of an owner's entries sets off. Its receipts go to the memcell that is the `cause`."""
        about: JsonObject = {} if cause is None else {CAUSES: [cause.as_json()]}
        return [
            _job(strategy, self.triggers[strategy.name], space, owner, about, now)
            for strategy in self._on(event)
        ]

    def after_cell(self, closed: "ClosedCell") -> list[JobSpec]:
        """What the closing of a memcell sets off: one job; an agent's memory only where it used tools."""
        names = [
            strategy.name
            for strategy in self._on("memcell closed")
            if strategy.for_mode == "chat" or closed.has_tools
        ]
        return [cell_job(closed.space, closed.user_id, closed.memcell_id, names)] if names else []

    def after_person(self, kinds: Collection[str], space: str, owner: str, now: int) -> list[JobSpec]:
        """What follows when a person changed an owner's entries of these kinds."""
        events: dict[str, Event] = {FACTS: "facts changed", CASES: "case written"}
        return [
            job
            for kind, event in events.items()
            if kind in kinds
            for job in self.after(event, space, owner, now)
        ]

    def _on(self, event: Event) -> list[Strategy]:
        return [each for each in STRATEGIES if each.on == event and each.name in self.triggers]


@dataclass(frozen=True, slots=True)
class Cause:
    """A memcell of which entries were made or changed, and which ones."""

    thread: ThreadRef
    cell: str
    entry_ids: tuple[str, ...] = ()

    def as_json(self) -> JsonObject:
        """Without the space, which is the job's."""
        user_id, thread_id = self.thread.user_id, self.thread.thread_id
        return {"user": user_id, "thread": thread_id, "cell": self.cell, "entries": list(self.entry_ids)}


def causes_of(job: Job) -> list[Cause]:
    """The memcells that set off a job, those included for which one that waited already does."""
    return [
        Cause(ThreadRef(job.space, each["user"], each["thread"]), each["cell"], tuple(each["entries"]))
        for each in job.payload.get(CAUSES, ())
    ]


@dataclass(frozen=True, slots=True)
class ClosedCell:
    """All that decides which work follows a memcell's closing."""

    space: str
    user_id: str
    agent_id: str | None
    memcell_id: str
    has_tools: bool


def tuning_of(triggers: Mapping[str, Trigger | None], mode: Literal["chat", "agent", "both"]) -> Tuning:
    """From the settings: None is off."""
    on = [each for each in STRATEGIES if mode in (each.for_mode, "both")]
    chosen = {each.name: triggers.get(each.name, each.trigger) for each in on}
    return Tuning({name: trigger for name, trigger in chosen.items() if trigger is not None})


def cell_job(
    space: str, user_id: str, memcell_id: str, strategies: Sequence[str], *, asked: bool = False
) -> JobSpec:
    """The job that makes all of a memcell's memories; `asked`: also those of strategies that are switched off."""
    owner = owner_folder(space, user_id)
    payload: JsonObject = {STRATEGIES_OF: list(strategies), "owner": owner, "cell": memcell_id}
    return JobSpec(
        kind=STRATEGY,
        lane=memory_lane(owner),
        payload={**payload, "asked": True} if asked else payload,
        dedupe=":".join([*strategies, memcell_id]),
    )


def strategies_of(job: Job) -> list[str]:
    """The names of the strategies that a job runs."""
    return [str(name) for name in job.payload.get(STRATEGIES_OF) or [job.payload["strategy"]]]


def _job(
    strategy: Strategy, trigger: Trigger, space: str, owner: str, causes: JsonObject, now: int
) -> JobSpec:
    return JobSpec(
        kind=STRATEGY,
        lane=own_lane(strategy.name, owner),
        payload={"strategy": strategy.name, "owner": owner, **causes},
        dedupe=strategy.name,
        delay_ms=trigger.delay_ms(now),
        restart=trigger.idle_seconds > 0,
        every=trigger.every,
    )


def skills_job(owner: str) -> JobSpec:
    """Looks through all skills of an agent, even where skills are off: one may hold words of a forgotten case."""
    payload = {"strategy": "skill", "owner": owner, "asked": True}
    return JobSpec(STRATEGY, own_lane("skill", owner), payload, "skill")


def lapse_job(owner: str, delay_ms: int) -> JobSpec:
    """Makes the profile's page again once a fact on it lapses. Nothing waits behind it in its lane."""
    payload: JsonObject = {STRATEGIES_OF: ["profile"], "owner": owner}
    return JobSpec(STRATEGY, own_lane("lapses", owner), payload, "lapses", delay_ms, restart=True)


def own_lane(strategy: str, owner: str) -> str:
    """The lane of a strategy that may wait."""
    return f"{strategy}:{owner}"


def memory_lane(owner: str) -> str:
    """The lane in which memories of one owner are made, one after another."""
    return f"memory:{owner}"


def _until(time_of_day: str, now: int) -> int:
    hours, minutes = map(int, time_of_day.split(":"))
    moment = datetime.fromtimestamp(now / 1000, UTC)
    due = moment.replace(hour=hours, minute=minutes, second=0, microsecond=0)
    if due <= moment:
        due += timedelta(days=1)
    return int((due - moment).total_seconds() * 1000)
