"""What must hold of every plan, checked against its snapshot and apart from the code that made the plan.

Tests call `violations` after every step. The operator lets `without_violations` take out what is unsafe before it
carries a plan out: a mistake in the planner then stops one group, and costs no data. The cost is that of the moves,
drops and changed buckets, not of the group.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence
from colocation.model.plan import BucketProblem, GroupPlan, Plan
from colocation.model.snapshot import GroupState, Snapshot
from colocation.model.wording import listed

from .approval import standing_proposal
from .cluster import Cluster, GroupKey
from .start import is_running
from .transitions import CORDONED
from .view import GroupView


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that the plan of a group breaks, with the bucket where it does; ``message`` is a sentence."""

    group: GroupKey
    bucket: int
    message: str


Finding = tuple[int, str]
"""Bucket and sentence."""


def violations(snapshot: Snapshot, plan: Plan) -> tuple[Violation, ...]:
    """All that the plan would do and must not; empty for a safe plan."""
    cluster = Cluster(snapshot)
    found = []
    for group, planned in zip(snapshot.groups, plan.groups, strict=True):
        if planned.next_map is None and not planned.drops and not planned.start_now:
            continue
        view = GroupView(cluster, group)
        for check in (_map_violations, _drop_violations, _start_violations, _approval_violations):
            found += [Violation(view.key, bucket, message) for bucket, message in check(view, planned)]
    found += _limit_violations(cluster, plan)
    return tuple(found)


def without_violations(snapshot: Snapshot, plan: Plan) -> Plan:
    """The plan, but that groups whose part is unsafe do nothing and say why."""
    first = {violation.group: violation for violation in reversed(violations(snapshot, plan))}
    if not first:
        return plan
    return Plan(
        groups=tuple(
            _stopped(planned, first[key]) if (key := (planned.namespace, planned.name)) in first else planned
            for planned in plan.groups
        )
    )


def _stopped(planned: GroupPlan, violation: Violation) -> GroupPlan:
    message = f"nothing is done, as the plan is not safe: {violation.message}; please report this"
    problem = BucketProblem(bucket=violation.bucket, reason=Reason.UNSAFE_PLAN, message=message)
    nothing = {"next_map": None, "start_now": (), "drops": (), "cancel": ()}
    return planned.model_copy(update={**nothing, "blocked": (problem, *planned.blocked), "stalled": problem})


def _map_violations(view: GroupView, plan: GroupPlan) -> Iterator[Finding]:
    """Never two replicas of a bucket on one node; make before break; never fewer live replicas because of us."""
    if plan.next_map is None:
        return
    if len(plan.next_map) != view.spec.buckets:
        yield 0, f"the map to write has {len(plan.next_map)} buckets, not {view.spec.buckets}"
        return
    for bucket, (old, new) in enumerate(zip(view.map, plan.next_map, strict=True)):
        if old == new:
            continue
        if len(set(new)) < len(new):
            yield bucket, f"bucket {bucket} would have two replicas on one node: {new}"
        if view.group.map is None or _is_ahead(view.group, plan, bucket):
            continue
        for node in set(new) - set(old):
            if not view.is_complete(bucket, node):
                yield (
                    bucket,
                    f"bucket {bucket} would be mapped to node {node}, which does not hold it complete and live",
                )
        live_before = sum(view.is_complete(bucket, node) for node in old)
        live_after = sum(view.is_complete(bucket, node) for node in new)
        if live_after < min(live_before, view.spec.replicas):
            yield bucket, f"bucket {bucket} would go from {live_before} to {live_after} live replicas"
        elif live_after < view.spec.replicas:
            yield from _rest_on_unconfirmed(view, bucket, set(old) - set(new), set(new) - set(old))


def _rest_on_unconfirmed(view: GroupView, bucket: int, leaving: set[str], arriving: set[str]) -> Iterator[Finding]:
    """No replica leaves the map because others are taken for complete that have not been heard of since."""
    given_up = sum(view.is_presumed_complete(bucket, node) for node in leaving)
    if given_up > sum(view.is_complete(bucket, node) for node in arriving):
        names = listed(sorted(leaving))
        yield bucket, f"bucket {bucket} would leave node {names} before its other replicas are known to be complete"


def _is_ahead(group: GroupState, plan: GroupPlan, bucket: int) -> bool:
    """Whether the bucket's map may change before its data: Doris' order, on request."""
    return group.spec.balancing.strict and _bucket(plan.next_map, bucket) == _bucket(plan.target_map, bucket)


def _drop_violations(view: GroupView, plan: GroupPlan) -> Iterator[Finding]:
    """No delete before the successor is verified."""
    arriving = {(move.bucket, move.to) for move in plan.moves}
    for drop in plan.drops:
        if drop.bucket >= len(view.map):
            continue
        nodes = view.map[drop.bucket]
        if drop.node in nodes or drop.node in _bucket(plan.next_map, drop.bucket):
            yield drop.bucket, f"bucket {drop.bucket} would be deleted from node {drop.node}, which is in its map"
        if (drop.bucket, drop.node) in arriving:
            yield (
                drop.bucket,
                f"bucket {drop.bucket} would be deleted from node {drop.node}, to which it is being moved",
            )
        complete = sum(view.is_complete(drop.bucket, node) for node in nodes)
        if complete < len(nodes) or complete < view.spec.replicas:
            yield (
                drop.bucket,
                f"bucket {drop.bucket} would be deleted from node {drop.node} with {complete} complete replicas",
            )


def _bucket(sequence: BucketSequence | None, bucket: int) -> tuple[str, ...]:
    return sequence[bucket] if sequence is not None else ()


def _start_violations(view: GroupView, plan: GroupPlan) -> Iterator[Finding]:
    """Clones start once, to live nodes with room, from live nodes that hold the bucket or part of it."""
    started = [plan.moves[index] for index in plan.start_now]
    if len(set(plan.start_now)) < len(started):
        yield started[0].bucket, "a move would start twice"
    for move in started:
        node = view.cluster.nodes.get(move.to)
        if node is None or not node.ready:
            yield move.bucket, f"bucket {move.bucket} would be cloned to node {move.to}, which is not live"
        elif not node.schedulable and move.to not in view.map[move.bucket]:
            yield move.bucket, f"bucket {move.bucket} would be cloned to node {move.to}, which is {CORDONED}"
        if move.to in view.failing:
            yield move.bucket, f"bucket {move.bucket} would be cloned to node {move.to}, which fails and is to wait"
        if view.is_unconfirmed(move.bucket, move.to):
            yield move.bucket, f"bucket {move.bucket} would be cloned to node {move.to}, which may have it"
        clone = view.clones.get((move.bucket, move.to))
        if clone is not None and clone[1].retry_at is None:
            yield move.bucket, f"bucket {move.bucket} would be cloned to node {move.to} twice"
        if not view.fragments(move.bucket):
            yield move.bucket, f"bucket {move.bucket} would be cloned to node {move.to} from nowhere"


def _approval_violations(view: GroupView, plan: GroupPlan) -> Iterator[Finding]:
    """A group that wants its moves approved makes none for evenness that was not; in place it is no move."""
    if view.spec.balancing.approval == "automatic":
        return
    approved = standing_proposal(view)
    allowed = approved.keys if approved is not None and approved.approved else frozenset()
    for move in (plan.moves[index] for index in plan.start_now):
        is_allowed = move.source == move.to or (move.bucket, move.source, move.to) in allowed
        if move.kind == "balance" and not is_allowed:
            yield move.bucket, f"bucket {move.bucket} would be moved to node {move.to}, which has not been approved"


def _limit_violations(cluster: Cluster, plan: Plan) -> Iterator[Violation]:
    """Clones per group, per node and in the cluster, and the headroom of disks hold, clones in flight counted."""
    per_group: Counter[GroupKey] = Counter()
    per_node: Counter[str] = Counter()
    for clone in cluster.snapshot.clones:
        if is_running(clone, cluster):
            per_group[clone.namespace, clone.group] += 1
            per_node[clone.to] += 1
    started_bytes: Counter[str] = Counter()
    starts: dict[str, list[tuple[GroupKey, int]]] = defaultdict(list)
    for planned in plan.groups:
        key = (planned.namespace, planned.name)
        in_flight = {(clone.bucket, clone.to) for _, clone in cluster.clones.get(key, ())}
        for move in (planned.moves[index] for index in planned.start_now):
            per_group[key] += 1
            per_node[move.to] += 1
            starts[move.to].append((key, move.bucket))
            if (move.bucket, move.to) not in in_flight and move.source != move.to:
                started_bytes[move.to] += move.bytes
            limit = cluster.groups[key].spec.balancing.max_concurrent_clones
            if per_group[key] > limit:
                yield Violation(key, move.bucket, f"{per_group[key]} clones at one time, {limit} allowed")
    limit = cluster.limits.max_concurrent_clones_per_node
    most, total = cluster.limits.clone_bandwidth.max_clones, per_node.total()
    for node, started in starts.items():
        messages = []
        if most is not None and total > most:
            messages.append(f"{total} clones in the cluster at one time, {most} allowed")
        if per_node[node] > limit:
            messages.append(f"{per_node[node]} clones to node {node} at one time, {limit} allowed")
        if started_bytes[node] > max(0, cluster.room.available_bytes(node)):
            messages.append(f"clones would write {started_bytes[node]} bytes to node {node}, which lacks room")
        yield from (Violation(key, bucket, message) for message in messages for key, bucket in started)
