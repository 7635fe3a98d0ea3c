"""Prometheus metrics of the operator; reasons are the words of conditions and events."""

from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ..kube.errors import StaleDecision
from ..state.disks import SICK
from .reconciler import InternalError, PassResult

GROUP_LABELS = ("namespace", "group")
PASS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper ends of the histogram's buckets: from a quiet pass to a first one over many thousand tables."""


class Metrics:
    """All metrics of one operator, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._pass_seconds = Histogram(
            "colocation_pass_seconds", "Duration of a pass.", registry=registry, buckets=PASS_SECONDS
        )
        self.failed_passes = Counter(
            "colocation_failed_passes", "Passes that could not observe the cluster.", registry=registry
        )
        self._actions = Counter("colocation_actions", "Actions performed.", ("action",), registry=registry)
        self._failures = Counter(
            "colocation_action_failures", "Scopes cut short by a failed action.", ("stale",), registry=registry
        )
        self._internal_errors = Counter(
            "colocation_internal_errors", "Errors that nobody foresaw, by the scope they ended.", ("scope",),
            registry=registry,
        )  # fmt: skip
        self.leading = Gauge("colocation_leading", "1 = this operator holds the Lease.", registry=registry)
        self.last_pass = Gauge(
            "colocation_last_pass_timestamp_seconds", "When the last pass ended; Unix time.", registry=registry
        )
        self._stable = Gauge("colocation_group_stable", "1 = stable.", GROUP_LABELS, registry=registry)
        self._unstable_buckets = Gauge(
            "colocation_group_unstable_buckets", "By reason.", (*GROUP_LABELS, "reason"), registry=registry
        )
        self._moves = Gauge(
            "colocation_group_moves", "Replicas still to be made.", GROUP_LABELS, registry=registry
        )
        self._clones = Gauge("colocation_clones", "Clones that have not ended.", registry=registry)
        self._nodes = Gauge("colocation_nodes", "Data nodes.", ("ready",), registry=registry)
        self._disk_faults = Gauge(
            "colocation_disk_faults", "Nodes by what is wrong with their disks.", ("reason",), registry=registry
        )
        self._withheld = Gauge(
            "colocation_withheld_folders", "Table folders that are not recycled: TooManyDeletions.", registry=registry
        )
        self.certificate_answers = Counter(
            "colocation_certificate_answers", "Agents' requests for certificates: approved, signed, refused.",
            ("answer",), registry=registry,
        )  # fmt: skip
        self.authority_end = Gauge(
            "colocation_agent_authority_end_timestamp_seconds",
            "When the CA ends that signs the agents' certificates; Unix time.", registry=registry,
        )  # fmt: skip
        self._shown: PassResult | None = None

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
        for name, error in result.failures.items():
            if isinstance(error, InternalError):
                self._internal_errors.labels(name).inc()
            self._failures.labels(str(isinstance(error, StaleDecision)).lower()).inc()
        for name in result.decision.errors:
            self._internal_errors.labels(name).inc()
        self._withheld.set(result.decision.withheld.folders if result.decision.withheld else 0)
        self._show_groups(result)
        snapshot = result.decision.snapshot
        self._clones.set(len(snapshot.clones))
        ready = sum(node.ready for node in snapshot.nodes)
        self._nodes.labels("true").set(ready)
        self._nodes.labels("false").set(len(snapshot.nodes) - ready)
        for reason in SICK:
            nodes = [node for node in snapshot.nodes if reason in (node.disk_reason, node.not_ready_reason)]
            self._disk_faults.labels(reason).set(len(nodes))

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)

    def _show_groups(self, result: PassResult) -> None:
        for gauge in (self._stable, self._unstable_buckets, self._moves):
            gauge.clear()
        for group in result.decision.plan.groups:
            labels = (group.namespace, group.name)
            self._stable.labels(*labels).set(group.stable)
            self._moves.labels(*labels).set(len(group.moves))
            for problem in group.unstable_buckets:
                self._unstable_buckets.labels(*labels, problem.reason).inc()
