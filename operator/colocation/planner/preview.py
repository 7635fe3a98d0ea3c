"""Plans to look at: what each node has of a group now, what it will have, and what it should have by its weight."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from colocation.model.plan import Expectation, GroupPlan, NodeLoad, Plan
from colocation.model.snapshot import Snapshot

from .approval import target_if_approved
from .cluster import Cluster
from .invariants import without_violations
from .planning import plan
from .view import GroupView


def preview(snapshot: Snapshot) -> Plan:
    """The plan that the operator would carry out, with what it comes to per group and node."""
    planned = without_violations(snapshot, plan(snapshot))
    cluster = Cluster(snapshot)
    views = (GroupView(cluster, group) for group in snapshot.groups)
    return Plan(
        groups=tuple(
            one.model_copy(update={"expected": _expectation(view, one)})
            for view, one in zip(views, planned.groups, strict=True)
        )
    )


def _expectation(view: GroupView, planned: GroupPlan) -> Expectation:
    target = target_if_approved(view, list(planned.target_map or ()), planned.proposal)
    may_hold = {*view.takers, *view.keepers, *view.pool.waiting}
    names = may_hold.union(chain.from_iterable(view.map), chain.from_iterable(target))
    shares = view.shares().by_node
    replicas_before, bytes_before = _counted(view, view.map)
    replicas_after, bytes_after = _counted(view, target)
    nodes = view.cluster.nodes
    return Expectation(
        bytes_to_copy=_bytes_to_copy(planned),
        nodes=tuple(
            NodeLoad(
                node=name,
                weight=nodes[name].weight if name in nodes else 0,
                share=round(shares.get(name, 0), 3),
                replicas_before=replicas_before[name],
                replicas_after=replicas_after[name],
                bytes_before=bytes_before[name],
                bytes_after=bytes_after[name],
            )
            for name in sorted(names)
        ),
    )


def _bytes_to_copy(planned: GroupPlan) -> int:
    proposal = planned.proposal
    waiting = proposal.bytes if proposal and not proposal.approved else 0
    return waiting + sum(move.bytes for move in planned.moves)


def _counted(view: GroupView, rows: Sequence[tuple[str, ...]]) -> tuple[Counter[str], Counter[str]]:
    """Replicas and bytes per node of a map."""
    replicas: Counter[str] = Counter()
    size_bytes: Counter[str] = Counter()
    for bucket, row in enumerate(rows):
        replicas.update(row)
        for name in row:
            size_bytes[name] += view.bytes_of(bucket)
    return replicas, size_bytes
