"""From a snapshot to a plan: status, then repair or balance per group, then what may start over all groups."""

from collections import Counter
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.plan import Evenness, GroupPlan, Plan
from colocation.model.snapshot import GroupState, Snapshot

from .balance import balance
from .cluster import Cluster, GroupKey, Pool
from .course import Course
from .overall import Overall
from .placement import place
from .quiet import is_quiet
from .repair import repair
from .sequence import follow_sequence, sequence_problem
from .shares import least_of
from .start import Candidate, Starter, sort_moves, stalled_clone
from .status import group_status, stable_message
from .transitions import drops, next_map, unwanted_clones
from .view import GroupView


def plan(snapshot: Snapshot) -> Plan:
    """What is true of every group, where it should go, and which steps may be taken now.

    Pure: equal snapshots give equal plans. Groups are in the snapshot's order.
    """
    cluster = Cluster(snapshot)
    candidates: dict[GroupKey, Candidate] = {}
    for key, group in cluster.groups.items():
        if not is_quiet(cluster, group):
            view = GroupView(cluster, group)
            candidates[key] = Candidate(view, _course(view), [])
    for candidate in candidates.values():
        _go_on_to_balance(candidate)
    _even_overall(cluster, candidates)
    for candidate in candidates.values():
        sort_moves(candidate.view, candidate.course)
    Starter(cluster, list(candidates.values())).run()
    return Plan(
        groups=tuple(
            _group_plan(candidates[key]) if key in candidates else _quiet_plan(cluster, group)
            for key, group in cluster.groups.items()
        )
    )


def _course(view: GroupView) -> Course:
    """A valid map set by hand, else a first map, else repairs."""
    sequence = view.spec.bucket_sequence
    if sequence is not None:
        problem = sequence_problem(view, sequence)
        if problem is None:
            return follow_sequence(view, sequence)
        course = Course(list(view.map)) if view.group.map is None else repair(view)
        course.pending = True
        course.blocked.append(problem)
        course.stalled = problem
        return course
    return place(view) if view.group.map is None else repair(view)


def _go_on_to_balance(candidate: Candidate) -> None:
    """Balance the groups that have nothing to repair. A map set by hand is the wanted one and is not balanced."""
    view = candidate.view
    if not candidate.course.pending and view.spec.bucket_sequence is None:
        candidate.course = balance(view)
        for move in candidate.course.moves:
            view.cluster.loads.add(move.to, 1, move.bytes)
            if move.source in view.cluster.nodes:
                view.cluster.loads.add(move.source, -1, -move.bytes)


def _even_overall(cluster: Cluster, candidates: dict[GroupKey, Candidate]) -> None:
    """Let groups that need nothing for themselves move a replica for the evenness of all."""
    if cluster.limits.disable_colocate_balance or len(cluster.groups) < 2:
        return
    overall = Overall(cluster)
    if overall.is_within_tolerance():
        return
    views: dict[GroupKey, GroupView] = {}
    for key, group in cluster.groups.items():
        candidate = candidates.get(key)
        busy = candidate is not None and (candidate.course.pending or candidate.course.moves)
        if not busy and group.map is not None and group.spec.balancing.enabled and group.spec.bucket_sequence is None:
            views[key] = candidate.view if candidate else GroupView(cluster, group)
    for key, course in overall.even_out(list(views.values())).items():
        candidates[key] = Candidate(views[key], course, [])


def _quiet_plan(cluster: Cluster, group: GroupState) -> GroupPlan:
    spec = group.spec
    assert group.map is not None
    even = evenness(Counter(chain.from_iterable(group.map)), cluster.pool(spec))
    return GroupPlan(
        namespace=group.namespace,
        name=group.name,
        stable=True,
        reason=Reason.ALL_REPLICAS_COMPLETE,
        message=stable_message(spec.buckets, spec.buckets * spec.replicas),
        target_map=group.map,
        evenness=Evenness(before=even, after=even),
    )


def _group_plan(candidate: Candidate) -> GroupPlan:
    view, course = candidate.view, candidate.course
    status = group_status(view)
    following, has_map = next_map(view, course), view.group.map is not None
    counts = Counter(chain.from_iterable(view.map))
    after = Counter(chain.from_iterable(course.target))
    return GroupPlan(
        namespace=view.group.namespace,
        name=view.group.name,
        stable=status.stable,
        reason=status.reason,
        message=status.message,
        unstable_buckets=status.problems,
        target_map=tuple(course.target) if has_map or any(course.target) else None,
        next_map=tuple(following) if tuple(following) != view.group.map and any(following) else None,
        moves=tuple(course.moves),
        start_now=tuple(candidate.chosen),
        blocked=tuple(course.blocked),
        drops=drops(view, course),
        cancel=unwanted_clones(view, course),
        stalled=course.stalled or stalled_clone(view),
        evenness=Evenness(before=evenness(counts, view.pool), after=evenness(after, view.pool)),
    )


def evenness(counts: Counter[str], pool: Pool) -> float:
    """Most minus least replicas per unit of weight over the nodes that may take replicas.

    Weights are divided by their mean, so that the unit is replicas of a node of mean weight; 1 or less is even when
    all weights are equal.
    """
    if not pool.weights:
        return 0.0
    if pool.are_weights_equal and counts.keys() <= pool.weights.keys():
        return float(max(counts.values(), default=0) - least_of(counts, pool.weights))
    weights = pool.weights
    loads = [count / weights[node] for node, count in counts.items() if node in weights]
    least = min(loads) if len(loads) == len(weights) else 0.0
    return (max(loads, default=0.0) - least) * pool.mean_weight
