"""Which moves may start now: repairs before balance, fewest live replicas first, within all limits.

Limits: clones per group, clones per node (as a target, and separately as a source), clones in the cluster (as many as
its bandwidth allows; one of them is kept for repairs), room on the target's disk. Clones in flight count and are not
started twice; a failed one waits for its time. A node on which a group's clones failed again and again takes none
before its time, and then one at a time. A cordoned or tainted node takes only what makes its own replicas whole.
"""

from collections import Counter
from dataclasses import dataclass

from colocation.model.conditions import Reason
from colocation.model.plan import BucketProblem, Move
from colocation.model.snapshot import Clone
from colocation.model.wording import counted

from .cluster import Cluster, Standing
from .status import failing_message, timestamp
from .transitions import CORDONED, MovePlan
from .view import GroupView

ORDER = {"repair": 0, "place": 1, "drain": 2, "balance": 3}


@dataclass(slots=True)
class Candidate:
    """One group with its move_plan, and the moves chosen to start (indexes into ``move_plan.moves``)."""

    view: GroupView
    move_plan: MovePlan
    chosen: list[int]


def sort_moves(view: GroupView, move_plan: MovePlan) -> None:
    """The order in which moves start: kind, then fewest live replicas, then bucket."""
    move_plan.moves.sort(key=lambda move: (ORDER[move.kind], view.live_replicas(move.bucket), move.bucket, move.to))


class Starter:
    """Hands out the clones that limits allow, over all groups."""

    def __init__(self, cluster: Cluster, candidates: list[Candidate]) -> None:
        self.cluster = cluster
        self.candidates = candidates
        self.room = cluster.room_now()
        self.per_node = cluster.limits.max_concurrent_clones_per_node
        self.per_group: Counter[tuple[str, str]] = Counter()
        self.receiving: Counter[str] = Counter()
        self.receiving_of_group: Counter[tuple[str, str, str]] = Counter()
        self.sending: Counter[str] = Counter()
        views = {candidate.view.key: candidate.view for candidate in candidates}
        for clone in cluster.snapshot.clones:
            if is_running(clone, cluster):
                self._count(clone.namespace, clone.group, clone.to)
                view = views.get((clone.namespace, clone.group))
                source = self._source(view, clone.bucket, clone.to) if view else None
                if source:
                    self.sending[source] += 1

    def _count(self, namespace: str, group: str, to: str) -> None:
        self.per_group[namespace, group] += 1
        self.receiving[to] += 1
        self.receiving_of_group[namespace, group, to] += 1

    def _source(self, view: GroupView, bucket: int, to: str) -> str | None:
        """The live replica that the fewest clones read from; without a whole one, a node that holds part of the bucket:
        what is missing on one node may be on another.
        """
        whole = view.sources.get(bucket) or view.fragments(bucket)
        sources = [node for node in whole if node != to]
        return min(sources, key=lambda node: (self.sending[node], node), default=None)

    def run(self) -> None:
        queue = [
            (ORDER[move.kind], candidate.view.live_replicas(move.bucket), position, index)
            for position, candidate in enumerate(self.candidates)
            for index, move in enumerate(candidate.move_plan.moves)
        ]
        for _, _, position, index in sorted(queue):
            candidate = self.candidates[position]
            if self._may_start(candidate, candidate.move_plan.moves[index]):
                candidate.chosen.append(index)

    def _may_start(self, candidate: Candidate, move: Move) -> bool:
        view, move_plan = candidate.view, candidate.move_plan
        if move.bucket in move_plan.without_room or view.is_presumed_complete(move.bucket, move.to):
            return False
        if move.to not in self.cluster.ready:
            move_plan.block(
                move.bucket, Reason.NODE_NOT_READY, f"node {move.to}, which is to take the bucket, is not ready"
            )
            return False
        if not self._may_take(view, move_plan, move) or not self._may_try(view, move_plan, move):
            return False
        source = self._source(view, move.bucket, move.to)
        if source is None:
            if any(view.is_unconfirmed(move.bucket, node) for node in view.group.unconfirmed):
                return False  # it is heard of again within the grace
            move_plan.stall(move.bucket, Reason.NO_LIVE_REPLICA, f"no live node holds the bucket; node {move.to} waits")
            return False
        full = (
            not self.cluster.limits.clone_bandwidth.allows_another(self.receiving.total(), move.kind == "repair")
            or self.per_group[view.key] >= view.spec.balancing.max_concurrent_clones
            or self.receiving[move.to] >= self.per_node
            or self.sending[source] >= self.per_node
        )
        if full or not self._take_room(view, move_plan, move):
            return False
        self._count(*view.key, move.to)
        self.sending[source] += 1
        return True

    def _take_room(self, view: GroupView, move_plan: MovePlan, move: Move) -> bool:
        """Whether the target's disk has room now; a repair in place writes over what it has."""
        if move.source == move.to or (move.bucket, move.to) in view.clones:
            return True
        missing = move.bytes - self.room.available_bytes(move.to)
        if missing > 0:
            message = f"node {move.to} is {missing:.0f} bytes short of the {move.bytes} of bucket {move.bucket}"
            move_plan.stall(move.bucket, Reason.INSUFFICIENT_SPACE, message)
            return False
        self.room.take(move.to, move.bytes)
        return True

    def _may_take(self, view: GroupView, move_plan: MovePlan, move: Move) -> bool:
        """Whether the target takes clones; one on which the last ones failed takes one at a time, and not too soon."""
        if view.standing(move.to) is Standing.KEEPING and move.to not in view.map[move.bucket]:
            move_plan.block(move.bucket, Reason.INSUFFICIENT_NODES, f"node {move.to} is {CORDONED}; the bucket waits")
            return False
        if move.to in view.failing:
            move_plan.stall(move.bucket, Reason.TARGET_FAILING, failing_message(view, [move.to]))
            return False
        return move.to not in view.group.failing_targets or not self.receiving_of_group[(*view.key, move.to)]

    def _may_try(self, view: GroupView, move_plan: MovePlan, move: Move) -> bool:
        """False while a clone of this replica runs, or failed and has to wait."""
        known = view.clones.get((move.bucket, move.to))
        if known is None:
            return True
        clone = known[1]
        if clone.retry_at is None:
            return False
        if clone.retry_at <= self.cluster.now:
            return True
        times = counted(clone.failures, "time")
        message = f"the clone to node {move.to} failed {times}; next try at {timestamp(clone.retry_at)}"
        move_plan.block(move.bucket, Reason.CLONE_FAILED, message)
        return False


def is_running(clone: Clone, cluster: Cluster) -> bool:
    """Whether the clone takes part of the limits: one that has failed, or whose node is down, does not."""
    return clone.retry_at is None and clone.to in cluster.ready


def stalled_clone(view: GroupView) -> BucketProblem | None:
    """The clone that has not advanced for longest, when that is beyond the deadline."""
    cluster = view.cluster
    running = [clone for _, clone in view.clones.values() if clone.retry_at is None]
    late = [c for c in running if (cluster.now - c.since).total_seconds() >= cluster.limits.clone_deadline_seconds]
    if not late:
        return None
    clone = min(late, key=lambda clone: (clone.since, clone.bucket))
    node = cluster.nodes.get(clone.to)
    cause = "" if node is not None and node.ready else "; the node is not ready"
    message = (
        f"the clone of bucket {clone.bucket} to node {clone.to} has not advanced since {timestamp(clone.since)} "
        f"({clone.bytes_done} of {view.bytes_of(clone.bucket)} bytes, {counted(clone.failures, 'failure')}){cause}"
    )
    since = timestamp(clone.since)
    return BucketProblem(bucket=clone.bucket, reason=Reason.CLONE_NOT_ADVANCING, message=message, since=since)
