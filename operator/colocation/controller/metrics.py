"""Prometheus metrics of the operator: what it did is counted here, what it found is in ``pass_metrics``."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from ..common.collectors import counter, gauge, histogram
from ..kube.errors import StaleDecision
from ..model import metrics as table
from ..state.observation import Observation
from .pass_metrics import families_of
from .reconciler import InternalError, PassResult

PASS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper ends of the histogram's buckets: from a quiet pass to a first one over many thousand tables."""
CLONE_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)


class Metrics(Collector):
    """All metrics of one operator, in a registry of their own. ``render`` may run in another thread than the rest.

    Args:
        api_failures: (verb, status) -> failed requests to the API server so far.
    """

    def __init__(self, api_failures: Mapping[tuple[str, int], int] | None = None) -> None:
        registry = self.registry = CollectorRegistry()
        self._api_failures: Mapping[tuple[str, int], int] = {} if api_failures is None else api_failures
        self._pass_seconds = histogram(table.PASS_SECONDS, PASS_SECONDS, registry)
        self.failed_passes = counter(table.FAILED_PASSES, registry)
        self._actions = counter(table.ACTIONS, registry)
        self._failures = counter(table.ACTION_FAILURES, registry)
        for stale in ("true", "false"):
            self._failures.labels(stale)  # from 0 on: increase() would not count the first one
        self._internal_errors = counter(table.INTERNAL_ERRORS, registry)
        self.leading = gauge(table.LEADING, registry)
        self.etcd_restored = gauge(table.ETCD_RESTORED, registry)
        self.last_pass = gauge(table.LAST_PASS, registry)
        self._clone_seconds = histogram(table.CLONE_SECONDS, CLONE_SECONDS, registry)
        self.certificate_answers = counter(table.CERTIFICATE_ANSWERS, registry)
        self.authority_end: Gauge = gauge(table.AUTHORITY_END, registry)
        self.server_certificate_end: Gauge = gauge(table.SERVER_CERTIFICATE_END, registry)
        self._missing_fields = gauge(table.MISSING_FIELDS, registry)
        self._shown: PassResult | None = None
        self._ended_jobs: frozenset[str] | None = None
        registry.register(self)

    def time_pass(self) -> AbstractContextManager[object]:
        """Measures one pass."""
        return self._pass_seconds.time()

    def show(self, result: PassResult) -> None:
        """Take a pass's result; one that was shown already changes nothing."""
        if result is self._shown:
            return
        self._shown = result
        for action in result.performed:
            self._actions.labels(type(action).__name__).inc()
        for error in result.failures.values():
            if isinstance(error, InternalError):
                self._internal_errors.inc()
            self._failures.labels(str(isinstance(error, StaleDecision)).lower()).inc()
        self._internal_errors.inc(len(result.decision.errors))
        self._take_clones(result.observation)

    def show_kinds(self, missing: Mapping[str, tuple[str, ...]]) -> None:
        """Plural of a kind -> fields that its CRD lacks."""
        for plural, fields in missing.items():
            self._missing_fields.labels(plural).set(len(fields))

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Family]:
        """For the registry: what is not counted here."""
        errors = CounterMetricFamily(
            table.API_ERRORS.base_name, table.API_ERRORS.meaning, labels=table.API_ERRORS.labels
        )
        for (verb, status), number in sorted(self._api_failures.items()):
            errors.add_metric((verb, str(status)), number)
        yield errors
        shown = self._shown
        if shown is not None:
            yield from families_of(shown)

    def _take_clones(self, observation: Observation) -> None:
        """Each Job that has succeeded counts once; those that had ended before this operator began do not."""
        jobs = {job.identity.uid: job for job in observation.clone_jobs if job.phase == "succeeded"}
        before = self._ended_jobs
        self._ended_jobs = frozenset(jobs)
        for job in (jobs[uid] for uid in self._ended_jobs - (before if before is not None else self._ended_jobs)):
            if job.started_at and job.finished_at:
                self._clone_seconds.observe(max(0.0, (job.finished_at - job.started_at).total_seconds()))
