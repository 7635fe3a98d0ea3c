"""What must hold of every plan, checked against its snapshot and apart from the code that made the plan.

Tests call `violations` after every step; the controller calls it before it carries a plan out, and does not carry out
one that is unsafe. The cost is that of the moves, drops and changed buckets, not of the group.
"""

from collections import Counter
from collections.abc import Iterator

from colocation.model.group import BucketSequence
from colocation.model.plan import GroupPlan, Plan
from colocation.model.snapshot import GroupState, Snapshot

from .cluster import Cluster
from .start import is_running
from .view import GroupView


def violations(snapshot: Snapshot, plan: Plan) -> tuple[str, ...]:
    """Sentences that say which invariant the plan breaks for which group; empty for a safe plan."""
    cluster = Cluster(snapshot)
    found = []
    for group, planned in zip(snapshot.groups, plan.groups, strict=True):
        if planned.next_map is None and not planned.drops and not planned.start_now:
            continue
        view = GroupView(cluster, group)
        for check in (_map_violations, _drop_violations, _start_violations):
            found += [f"{group.namespace}/{group.name}: {text}" for text in check(view, planned)]
    found += _limit_violations(cluster, plan)
    return tuple(found)


def _map_violations(view: GroupView, plan: GroupPlan) -> Iterator[str]:
    """Never two replicas of a bucket on one node; make before break; never fewer live replicas because of us."""
    if plan.next_map is None:
        return
    if len(plan.next_map) != view.spec.buckets:
        yield f"the map to write has {len(plan.next_map)} buckets, not {view.spec.buckets}"
        return
    for bucket, (old, new) in enumerate(zip(view.map, plan.next_map, strict=True)):
        if old == new:
            continue
        if len(set(new)) < len(new):
            yield f"bucket {bucket} would have two replicas on one node: {new}"
        if view.group.map is None or _is_ahead(view.group, plan):
            continue
        for node in set(new) - set(old):
            if not view.is_complete(bucket, node):
                yield f"bucket {bucket} would be mapped to node {node}, which does not hold it complete and live"
        live_before = sum(view.is_complete(bucket, node) for node in old)
        live_after = sum(view.is_complete(bucket, node) for node in new)
        if live_after < min(live_before, view.spec.replicas):
            yield f"bucket {bucket} would go from {live_before} to {live_after} live replicas"


def _is_ahead(group: GroupState, plan: GroupPlan) -> bool:
    """Whether the map may change before the data: the seeds' order, on request."""
    return group.spec.balancing.strict and plan.next_map == plan.target_map


def _drop_violations(view: GroupView, plan: GroupPlan) -> Iterator[str]:
    """No delete before the successor is verified."""
    arriving = {(move.bucket, move.to) for move in plan.moves}
    for drop in plan.drops:
        if drop.bucket >= len(view.map):
            continue
        nodes = view.map[drop.bucket]
        if drop.node in nodes or drop.node in _bucket(plan.next_map, drop.bucket):
            yield f"bucket {drop.bucket} would be deleted from node {drop.node}, which is in its map"
        if (drop.bucket, drop.node) in arriving:
            yield f"bucket {drop.bucket} would be deleted from node {drop.node}, to which it is to be moved"
        complete = sum(view.is_complete(drop.bucket, node) for node in nodes)
        if complete < len(nodes) or complete < view.spec.replicas:
            yield f"bucket {drop.bucket} would be deleted from node {drop.node} with {complete} complete replicas"


def _bucket(sequence: BucketSequence | None, bucket: int) -> tuple[str, ...]:
    return sequence[bucket] if sequence is not None else ()


def _start_violations(view: GroupView, plan: GroupPlan) -> Iterator[str]:
    """Clones start once, to live nodes with room, from live nodes that hold the bucket or part of it."""
    started = [plan.moves[index] for index in plan.start_now]
    if len(set(plan.start_now)) < len(started):
        yield "a move would start twice"
    for move in started:
        node = view.cluster.nodes.get(move.to)
        if node is None or not node.ready:
            yield f"bucket {move.bucket} would be cloned to node {move.to}, which is not live"
        clone = view.clones.get((move.bucket, move.to))
        if clone is not None and clone[1].retry_at is None:
            yield f"bucket {move.bucket} would be cloned to node {move.to} twice"
        if not view.fragments(move.bucket):
            yield f"bucket {move.bucket} would be cloned to node {move.to} from nowhere"


def _limit_violations(cluster: Cluster, plan: Plan) -> Iterator[str]:
    """Clones per group, clones per node and the headroom of disks hold, clones in flight counted."""
    per_group: Counter[tuple[str, str]] = Counter()
    per_node: Counter[str] = Counter()
    for clone in cluster.snapshot.clones:
        if is_running(clone, cluster):
            per_group[clone.namespace, clone.group] += 1
            per_node[clone.to] += 1
    before_group, before_node = per_group.copy(), per_node.copy()
    started_bytes: Counter[str] = Counter()
    for planned in plan.groups:
        in_flight = {(clone.bucket, clone.to) for _, clone in cluster.clones.get((planned.namespace, planned.name), ())}
        for move in (planned.moves[index] for index in planned.start_now):
            per_group[planned.namespace, planned.name] += 1
            per_node[move.to] += 1
            if (move.bucket, move.to) not in in_flight and move.source != move.to:
                started_bytes[move.to] += move.bytes
    for key, clones in per_group.items():
        limit = cluster.groups[key].spec.balancing.max_concurrent_clones if key in cluster.groups else clones
        if clones > max(limit, before_group[key]):
            yield f"{key[0]}/{key[1]}: {clones} clones at one time, {limit} allowed"
    for node, clones in per_node.items():
        if clones > max(cluster.limits.max_concurrent_clones_per_node, before_node[node]):
            yield f"{clones} clones to node {node} at one time"
    for node, size_bytes in started_bytes.items():
        if size_bytes > cluster.room.available_bytes(node):
            yield f"clones would write {size_bytes} bytes to node {node}, which lacks room"
