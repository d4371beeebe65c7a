"""Figures for operators, in Prometheus' form. Each App has a registry of its own."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from recollect.domain.llm import Usage


class Metrics:
    """What the server counts as it runs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "recollect_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "recollect_request_seconds", "Time to answer a request.", ["route"], registry=self.registry
        )
        self.messages = Counter(
            "recollect_messages", "Messages by what happened to them.", ["status"], registry=self.registry
        )
        self.jobs = Gauge("recollect_jobs", "Jobs that are not done.", ["state"], registry=self.registry)
        self.jobs_finished = Gauge(
            "recollect_jobs_finished", "Jobs done since the start.", registry=self.registry
        )
        self.jobs_failed = Gauge(
            "recollect_jobs_failed", "Failed attempts since the start.", registry=self.registry
        )
        self.oldest_job = Gauge(
            "recollect_oldest_job_wait_seconds",
            "How long the oldest due job has waited.",
            registry=self.registry,
        )
        self.commits = Gauge("recollect_journal_commits", "Commits since the start.", registry=self.registry)
        self.writes = Gauge("recollect_journal_writes", "Writes since the start.", registry=self.registry)
        self.conflicts = Gauge(
            "recollect_vault_conflicts",
            "Hand-edited files kept beside ours since the start.",
            registry=self.registry,
        )

        self.searches = Counter(
            "recollect_searches", "Searches by mode and outcome.", ["mode", "outcome"], registry=self.registry
        )
        self.index_waiting = Gauge(
            "recollect_index_waiting", "Threads that wait to be indexed.", ["stage"], registry=self.registry
        )
        self.index_files = Gauge("recollect_index_files", "Files of the index.", registry=self.registry)
        self.index_bytes = Gauge("recollect_index_bytes", "Bytes of the index.", registry=self.registry)
        self.index_memory = Gauge(
            "recollect_index_memory_bytes", "Memory of the texts that are searched.", registry=self.registry
        )
        self.compaction_failures = Gauge(
            "recollect_index_compaction_failures",
            "Failed compactions since the start.",
            registry=self.registry,
        )
        self.index_damaged = Gauge(
            "recollect_index_damaged", "Owners whose index was damaged and made anew.", registry=self.registry
        )
        self.embedded = Gauge(
            "recollect_embedded_texts", "Texts embedded since the start.", registry=self.registry
        )
        self.hand_edits = Gauge(
            "recollect_hand_edits",
            "Hand edits since the start, by outcome.",
            ["outcome"],
            registry=self.registry,
        )

        self.prompt_tokens = Counter(
            "recollect_prompt_tokens",
            "Tokens of prompts as the backends told, by whether their cache held them.",
            ["backend", "kind"],
            registry=self.registry,
        )
        self.first_token = Histogram(
            "recollect_first_token_seconds",
            "From sending a prompt to the first piece of its answer.",
            ["backend"],
            registry=self.registry,
        )
        self.gate = Gauge(
            "recollect_gate",
            "At the gate: chats, running and waiting calls.",
            ["what"],
            registry=self.registry,
        )
        self.gate_oldest_wait = Gauge(
            "recollect_gate_oldest_wait_seconds",
            "How long the background call that has waited longest has waited.",
            registry=self.registry,
        )
        self.gate_preempted = Gauge(
            "recollect_gate_preempted",
            "Background calls that made way for a chat since the start.",
            registry=self.registry,
        )

        self._message_children = {
            status: self.messages.labels(status) for status in ("accepted", "duplicate", "forgotten")
        }
        self._request_children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        if key not in self._request_children:
            # Looked up once: finding a child by its labels costs more than counting.
            self._request_children[key] = (
                self.requests.labels(method, route, str(status)),
                self.seconds.labels(route),
            )
        counter, histogram = self._request_children[key]
        counter.inc()
        histogram.observe(seconds)

    def observe_search(self, mode: str, *, degraded: bool) -> None:
        self.searches.labels(mode, "degraded" if degraded else "ok").inc()

    def observe_messages(self, statuses: Iterable[str]) -> None:
        for status in statuses:
            self._message_children[status].inc()

    def observe_answer(self, backend: str, usage: Usage, first_token_ms: float | None) -> None:
        for kind, tokens in (("cached", usage.cached_tokens), ("evaluated", usage.evaluated_tokens)):
            if tokens is not None:
                self.prompt_tokens.labels(backend, kind).inc(tokens)
        if first_token_ms is not None:
            self.first_token.labels(backend).observe(first_token_ms / 1000)

    def render(self) -> bytes:
        return generate_latest(self.registry)
