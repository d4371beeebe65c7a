"""Statistics in the format of Prometheus. Each App has a registry of its own."""

from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from recollect.domain.llm import Usage


class Metrics:
    """What the server counts as it runs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter("recollect_requests", "Requests answered.", ["method", "route", "status"])
        self.seconds = histogram("recollect_request_seconds", "Time to answer a request.", ["route"])
        self.refused = counter(
            "recollect_connections_refused",
            "Connections closed before a request was understood or an answer was read.",
            ["why"],
        )
        self.over_quota = counter(
            "recollect_over_quota", "Requests and background model calls that a quota refused.", ["quota"]
        )
        self.leads = gauge(
            "recollect_leads", "1 where this server leads those on its journal, 0 where it stands by."
        )
        self.forwarded = counter("recollect_forwarded", "Requests passed on to the server that leads.")
        self.quotas = gauge("recollect_quota", "The quota of each user or key; 0: no limit.", ["quota"])
        self.messages = counter("recollect_messages", "Messages by what happened to them.", ["status"])
        self.jobs = gauge("recollect_jobs", "Jobs that are not done.", ["state"])
        self.jobs_finished = gauge("recollect_jobs_finished", "Jobs done since the start.")
        self.jobs_failed = gauge("recollect_jobs_failed", "Failed attempts since the start.")
        self.oldest_job = gauge(
            "recollect_oldest_job_wait_seconds", "How long the oldest due job has waited."
        )
        self.commits = gauge("recollect_journal_commits", "Commits since the start.")
        self.writes = gauge("recollect_journal_writes", "Writes since the start.")
        self.conflicts = gauge("recollect_vault_conflicts", "Conflict files of hand edits since the start.")
        self.searches = counter("recollect_searches", "Searches by mode and outcome.", ["mode", "outcome"])
        self.index_waiting = gauge("recollect_index_waiting", "Threads that wait to be indexed.", ["stage"])
        self.index_files = gauge("recollect_index_files", "Files of the index.")
        self.index_bytes = gauge("recollect_index_bytes", "Bytes of the index.")
        self.index_memory = gauge("recollect_index_memory_bytes", "Memory used by rows that are searched.")
        self.compaction_failures = gauge(
            "recollect_index_compaction_failures", "Failed compactions since the start."
        )
        self.index_damaged = gauge("recollect_index_damaged", "Owners whose index was damaged and rebuilt.")
        self.embedded = gauge("recollect_embedded_texts", "Texts embedded since the start.")
        self.transcript_edits = gauge(
            "recollect_transcript_edits",
            "Hand edits of transcripts since the start, by outcome.",
            ["outcome"],
        )
        self.prompt_tokens = counter(
            "recollect_prompt_tokens",
            "Prompt tokens as reported by the backends, cached or evaluated.",
            ["backend", "kind"],
        )
        self.first_token = histogram(
            "recollect_first_token_seconds",
            "From sending a prompt to the first token of its answer.",
            ["backend"],
        )
        self.gate = gauge("recollect_gate", "At the gate: chats, running and waiting calls.", ["what"])
        self.gate_oldest_wait = gauge(
            "recollect_gate_oldest_wait_seconds", "How long the oldest waiting background call has waited."
        )
        self.gate_preempted = gauge(
            "recollect_gate_preempted", "Background calls preempted by a chat since the start."
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
