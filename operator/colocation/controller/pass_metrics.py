"""What a pass found, as metrics: made from its result when they are asked for, so nothing of an earlier pass stays."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family

from ..model import metrics as table
from ..model.conditions import DISK_REASONS, ConditionType
from ..model.group import CloneCounts
from ..model.metrics import Kind, Metric, known_reason
from ..model.plan import BucketProblem, GroupPlan
from ..model.reader_rules import dead_buckets
from ..model.snapshot import Node
from ..state.membership import GroupKey
from ..state.objects import ObservedGroup, ObservedTable
from ..state.observation import Observation
from .reconciler import PassResult

Values = Iterable[tuple[tuple[str, ...], float]]
"""Label values, in the metric's order -> value."""


def families_of(result: PassResult) -> Iterator[Family]:
    """All metrics that show the state of the cluster."""
    decision, observation = result.decision, result.observation
    yield from _node_families(decision.snapshot.nodes)
    yield _family(table.SILENT_AGENTS, [((), len(observation.silent_nodes))])
    yield _family(table.WITHHELD_FOLDERS, [((), decision.withheld.folders if decision.withheld else 0)])
    yield _family(table.CLONES, [((), len(decision.snapshot.clones))])
    yield from _table_families(observation.tables)
    yield from _plan_families(decision.plan.groups)
    yield from _status_families(observation.groups)
    yield _family(table.GROUP_CLONE_BYTES, _clone_bytes(observation))
    ready = frozenset(node.name for node in decision.snapshot.nodes if node.ready)
    yield _family(table.DEAD_BUCKETS, ((one.key, _dead_buckets(one, ready)) for one in observation.groups))
    states = decision.snapshot.groups
    targets = (((one.namespace, one.name), len(one.failing_targets)) for one in states)
    yield _family(table.FAILING_TARGETS, targets)
    yield _family(table.GROUP_BYTES, (((one.namespace, one.name), sum(one.bucket_bytes)) for one in states))


def _family(metric: Metric, values: Values) -> Family:
    kind = CounterMetricFamily if metric.kind == Kind.COUNTER else GaugeMetricFamily
    family: Family = kind(metric.base_name, metric.meaning, labels=metric.labels)
    for labels, value in values:
        family.add_metric(labels, value)  # type: ignore[attr-defined]
    return family


def _node_families(nodes: Iterable[Node]) -> Iterator[Family]:
    ready = Counter(node.ready for node in nodes)
    yield _family(table.NODES, [(("true",), ready[True]), (("false",), ready[False])])
    faults = [
        (node.name, known_reason(reason))
        for node in nodes
        for reason in dict.fromkeys((node.not_ready_reason if not node.ready else None, node.disk_reason))
        if reason
    ]
    yield _family(table.NODE_FAULT, ((labels, 1) for labels in faults))
    sick = Counter(reason for _, reason in faults)
    yield _family(table.DISK_FAULTS, (((reason,), sick[reason]) for reason in DISK_REASONS))


def _table_families(tables: Iterable[ObservedTable]) -> Iterator[Family]:
    counts: Counter[tuple[str, ...]] = Counter()
    refused: list[tuple[str, ...]] = []
    for one in tables:
        condition = next((found for found in one.status.conditions if found.type == ConditionType.ACCEPTED), None)
        status = condition.status if condition else "Unknown"
        reason = known_reason(condition.reason) if condition else "Waiting"
        counts[status, reason] += 1
        if status == "False" and len(refused) < table.MAX_REFUSED_TABLES:
            refused.append((one.identity.namespace, one.identity.name, reason))
    yield _family(table.TABLES, counts.items())
    yield _family(table.TABLE_REFUSED, ((labels, 1) for labels in refused))


def _plan_families(plans: Iterable[GroupPlan]) -> Iterator[Family]:
    """The planner's word, which is the newest."""
    keys = {(one.namespace, one.name): one for one in plans if one.is_judged}
    yield _family(table.GROUP_STABLE, ((key, one.stable) for key, one in keys.items()))
    yield _family(table.MOVES, ((key, len(one.moves)) for key, one in keys.items()))
    yield _family(table.UNSTABLE_BUCKETS, _by_reason({key: one.unstable_buckets for key, one in keys.items()}))
    yield _family(table.BLOCKED_BUCKETS, _by_reason({key: one.blocked for key, one in keys.items()}))


def _by_reason(problems: Mapping[tuple[str, str], Iterable[BucketProblem]]) -> Values:
    for key, found in problems.items():
        for reason, buckets in Counter(known_reason(one.reason) for one in found).items():
            yield (*key, reason), buckets


def _status_families(groups: Iterable[ObservedGroup]) -> Iterator[Family]:
    """What users read in the groups' statuses."""
    clones = {one.key: one.status.clones or CloneCounts() for one in groups}
    yield _family(table.GROUP_CONDITION, _conditions(groups))
    proposals = ((one.key, one.status.proposal) for one in groups)
    waiting_moves = ((key, one.replicas) for key, one in proposals if one and not one.approved)
    yield _family(table.PROPOSED_MOVES, waiting_moves)
    yield _family(table.GROUP_TABLES, ((one.key, one.status.table_count or 0) for one in groups))
    yield _family(table.CLONES_SUCCEEDED, ((key, one.succeeded) for key, one in clones.items()))
    yield _family(table.CLONES_FAILED, ((key, one.failed) for key, one in clones.items()))
    waiting = (((*key, "pending"), one.pending) for key, one in clones.items())
    running = (((*key, "running"), one.running) for key, one in clones.items())
    yield _family(table.GROUP_CLONES, (*waiting, *running))


def _clone_bytes(observation: Observation) -> Values:
    """As the agents report it: statuses have it in steps only."""
    keys = [group.key for group in observation.groups]
    done, left = Counter[GroupKey](), Counter[GroupKey]()
    for job in observation.clone_jobs:
        progress = observation.clone_progress.get(job.place) if job.phase in ("pending", "running") else None
        if progress is not None:
            done[job.group_namespace, job.group] += progress.bytes_done
            left[job.group_namespace, job.group] += max(0, progress.bytes_total - progress.bytes_done)
    yield from (((*key, "done"), done[key]) for key in keys)
    yield from (((*key, "left"), left[key]) for key in keys)


def _dead_buckets(group: ObservedGroup, ready: Collection[str]) -> int:
    """Of which files are, or may be, lost for now: without tables there are none."""
    return len(dead_buckets(group.status, ready)) if group.status.table_count else 0


def _conditions(groups: Iterable[ObservedGroup]) -> Values:
    for group in groups:
        known = {one.type: one for one in group.status.conditions}
        for condition in (known[type_] for type_ in ConditionType if type_ in known):
            yield (*group.key, condition.type, condition.status, known_reason(condition.reason)), 1
