"""From a snapshot to a plan: status, then repair or balance per group, then what may start over all groups.

Most groups in most passes need nothing: `needs_nothing` looks at them quickly, and such a group costs next to nothing.
"""

from collections import Counter
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.plan import BucketProblem, Evenness, GroupPlan, Plan
from colocation.model.snapshot import GroupState, Snapshot

from .approval import approved_plan, hold_for_approval, needs_approval, target_if_approved, waits_for_approval
from .balance import CrossGroupBalance, balance, is_balanced
from .cluster import Cluster, GroupKey, Pool
from .evenness.shares import least_of
from .placement import follow_sequence, place, sequence_problem
from .repair import repair
from .start import Candidate, Starter, sort_moves, stalled_clone
from .status import Status, first_cause, group_status, stable_message
from .transitions import MovePlan, drops, next_map, unwanted_clones
from .view import GroupView


def plan(snapshot: Snapshot) -> Plan:
    """What is true of every group, where it should go, and which steps may be taken now.

    Pure: equal snapshots give equal plans. Groups are in the snapshot's order.
    """
    return _plan(Cluster(snapshot))


def _plan(cluster: Cluster) -> Plan:
    views = [GroupView(cluster, group) for group in cluster.groups.values() if not needs_nothing(cluster, group)]
    statuses = {view.key: group_status(view) for view in views}
    # What is lost takes room before what is only drained.
    views.sort(key=lambda view: statuses[view.key].stable)
    candidates = {view.key: Candidate(view, _move_plan(view), []) for view in views}
    _balance_in_turn(cluster, candidates)
    for candidate in candidates.values():
        hold_for_approval(candidate.view, candidate.move_plan)
        sort_moves(candidate.view, candidate.move_plan)
    Starter(cluster, list(candidates.values())).run()
    return Plan(
        groups=tuple(
            _group_plan(candidates[key], statuses.get(key)) if key in candidates else _unchanged_plan(cluster, group)
            for key, group in cluster.groups.items()
        )
    )


def plan_contained(snapshot: Snapshot) -> tuple[Plan, dict[GroupKey, Exception]]:
    """`plan`, but that a group on which it fails does nothing and harms no other; with the failures, to be logged.

    Such a group is stalled, with reason InternalError; its verdict is made apart from its plan (see
    `GroupPlan.is_judged`). Of groups that fail only together, none is planned.

    Raises:
        Exception: the planner fails even without groups.
    """
    try:
        return plan(snapshot), {}
    except Exception:  # noqa: BLE001 - the last line of defence: one group's fault must not stop the others
        groups = {(group.namespace, group.name): group for group in snapshot.groups}
        failures = _failures(snapshot, list(groups.values()))
    sound = [group for key, group in groups.items() if key not in failures]
    while (error := _failure(snapshot, sound)) is not None:
        for culprit in _failing_together(snapshot, sound):
            failures[culprit.namespace, culprit.name] = error
            sound.remove(culprit)
    planned = {(one.namespace, one.name): one for one in _plan(_part(snapshot, sound)).groups}
    plans = (
        planned[key] if key in planned else _failed_plan(snapshot, group, failures[key])
        for key, group in groups.items()
    )
    return Plan(groups=tuple(plans)), failures


def _part(snapshot: Snapshot, groups: list[GroupState]) -> Cluster:
    """The cluster as if it had these groups alone; the clones of the others count still, and shares are as ever."""
    return Cluster(snapshot.model_copy(update={"groups": tuple(groups)}), has_several=len(snapshot.groups) > 1)


def _failure(snapshot: Snapshot, groups: list[GroupState]) -> Exception | None:
    try:
        _plan(_part(snapshot, groups))
    except Exception as error:
        if not groups:
            raise
        return error
    return None


def _failures(snapshot: Snapshot, groups: list[GroupState]) -> dict[GroupKey, Exception]:
    """The groups that fail by themselves: every half that fails is looked at by halves."""
    error = _failure(snapshot, groups)
    if error is None:
        return {}
    if len(groups) < 2:
        return {(group.namespace, group.name): error for group in groups}
    middle = len(groups) // 2
    return _failures(snapshot, groups[:middle]) | _failures(snapshot, groups[middle:])


def _failing_together(snapshot: Snapshot, groups: list[GroupState]) -> list[GroupState]:
    """A smallest set of groups that fails, though no part of it does.

    The last group of the shortest beginning that fails belongs to it; so does the last of the shortest beginning that
    fails with that one; and so on.
    """
    found: list[GroupState] = []
    while groups and (not found or _failure(snapshot, found) is None):
        works, fails = 0, len(groups)
        while fails - works > 1:
            middle = (works + fails) // 2
            if _failure(snapshot, [*found, *groups[:middle]]) is None:
                works = middle
            else:
                fails = middle
        found.append(groups[fails - 1])
        groups = groups[: fails - 1]
    return found


def _failed_plan(snapshot: Snapshot, group: GroupState, error: Exception) -> GroupPlan:
    message = (
        f"nothing is done, as the planner failed on this group ({type(error).__name__}: {error}); please report this, "
        "with the traceback in the operator's log"
    )
    problem = BucketProblem(bucket=0, reason=Reason.INTERNAL_ERROR, message=message)
    try:
        status = group_status(GroupView(_part(snapshot, [group]), group))
    except Exception:  # noqa: BLE001 - no verdict either; the failure that is reported came first
        status = Status(False, Reason.INTERNAL_ERROR, message)
    return GroupPlan(
        namespace=group.namespace,
        name=group.name,
        stable=status.stable,
        reason=status.reason,
        message=status.message,
        unstable_buckets=status.problems,
        target_map=group.map,
        blocked=(problem,),
        stalled=problem,
        proposal=group.proposal,
        is_judged=status.reason is not Reason.INTERNAL_ERROR,
    )


def _move_plan(view: GroupView) -> MovePlan:
    """A valid map set by hand, else a first map, else repairs."""
    sequence = view.spec.bucket_sequence
    if sequence is not None:
        problem = sequence_problem(view, sequence)
        if problem is None:
            return follow_sequence(view, sequence)
        move_plan = MovePlan(list(view.map)) if view.group.map is None else repair(view)
        move_plan.pending = True
        move_plan.blocked.append(problem)
        move_plan.stalls.insert(0, problem)
        return move_plan
    return place(view) if view.group.map is None else repair(view)


def _balance_in_turn(cluster: Cluster, candidates: dict[GroupKey, Candidate]) -> None:
    """Balance the groups that may move now, then those whose moves will wait for approval.

    So what waits is no load and takes no room for the others: they are planned against what is there and what is being
    made. Those that wait are planned as if all of them were approved.
    """
    first_to_last = (False, True) if any(map(needs_approval, cluster.groups.values())) else (False,)
    waiting = {key: waits_for_approval(candidate.view) for key, candidate in candidates.items()}
    for waits in first_to_last:
        for key, candidate in list(candidates.items()):
            if waiting.get(key, False) == waits:
                _go_on_to_balance(candidate)
        _balance_across_groups(cluster, candidates, waits=waits)


def _go_on_to_balance(candidate: Candidate) -> None:
    """Balance the groups that have nothing to repair. A map set by hand is the wanted one and is not balanced."""
    view = candidate.view
    if not candidate.move_plan.pending and view.spec.bucket_sequence is None:
        candidate.move_plan = approved_plan(view) or balance(view)
        _count(view.cluster, candidate.move_plan)


def _count(cluster: Cluster, move_plan: MovePlan) -> None:
    """Let what moves count as the load of where it goes."""
    for move in move_plan.moves:
        cluster.loads.add(move.to, 1, move.bytes)
        if move.source in cluster.nodes:
            cluster.loads.add(move.source, -1, -move.bytes)


def _balance_across_groups(cluster: Cluster, candidates: dict[GroupKey, Candidate], *, waits: bool) -> None:
    """Let groups that need nothing for themselves move a replica for the evenness of all.

    ``waits``: those whose moves will wait for approval, else the others.
    """
    if cluster.limits.disable_colocate_balance or not cluster.has_several:
        return
    across_groups = CrossGroupBalance(cluster)
    if across_groups.is_within_tolerance():
        return
    views: dict[GroupKey, GroupView] = {}
    for key, group in cluster.groups.items():
        candidate = candidates.get(key)
        busy = candidate is not None and (candidate.move_plan.pending or candidate.move_plan.moves)
        if not busy and group.spec.balancing.enabled and group.spec.bucket_sequence is None:
            view = candidate.view if candidate else GroupView(cluster, group)
            if waits_for_approval(view) == waits:
                views[key] = view
    for key, move_plan in across_groups.even_out(list(views.values())).items():
        candidates[key] = Candidate(views[key], move_plan, [])
        _count(cluster, move_plan)


def _unchanged_plan(cluster: Cluster, group: GroupState) -> GroupPlan:
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


def _group_plan(candidate: Candidate, status: Status | None) -> GroupPlan:
    view, move_plan = candidate.view, candidate.move_plan
    status = _with_cause(status or group_status(view), move_plan)
    following, has_map = next_map(view, move_plan), view.group.map is not None
    counts = Counter(chain.from_iterable(view.map))
    after = Counter(chain.from_iterable(target_if_approved(view, move_plan.target, move_plan.proposal)))
    return GroupPlan(
        namespace=view.group.namespace,
        name=view.group.name,
        stable=status.stable,
        reason=status.reason,
        message=status.message,
        unstable_buckets=status.problems,
        target_map=tuple(move_plan.target) if has_map or any(move_plan.target) else None,
        next_map=tuple(following) if tuple(following) != view.group.map and any(following) else None,
        moves=tuple(move_plan.moves),
        start_now=tuple(candidate.chosen),
        blocked=tuple(move_plan.blocked),
        drops=drops(view, move_plan),
        cancel=unwanted_clones(view, move_plan),
        stalled=_stalled(move_plan, len(view.map) if has_map else 0) or stalled_clone(view),
        evenness=Evenness(before=evenness(counts, view.pool), after=evenness(after, view.pool)),
        proposal=move_plan.proposal,
    )


def _stalled(move_plan: MovePlan, buckets: int) -> BucketProblem | None:
    """``buckets``: of the map; 0 = it has none, and what is in the way concerns all."""
    return first_cause(move_plan.stalls, buckets) if buckets else next(iter(move_plan.stalls), None)


def _with_cause(status: Status, move_plan: MovePlan) -> Status:
    """Of a group without a map, what is in its way; ``kubectl get`` shows the reason."""
    if status.reason != Reason.NO_MAP or not move_plan.stalls:
        return status
    cause = move_plan.stalls[0]
    return Status(False, Reason(cause.reason), f"{status.message}: {cause.message}")


def evenness(counts: Counter[str], pool: Pool) -> float:
    """Most minus least replicas per unit of weight over the nodes that may take replicas, or keep some.

    Weights are divided by their mean, so that the unit is replicas of a node of mean weight; 1 or less is even when
    all weights are equal.
    """
    if not pool.weights:
        return 0.0
    if pool.are_weights_equal and counts.keys() <= pool.weights.keys():
        return float(max(counts.values(), default=0) - least_of(counts, pool.weights))
    weights = pool.weights | {node: weight for node, weight in pool.unschedulable.items() if counts[node]}
    loads = [count / weights[node] for node, count in counts.items() if node in weights]
    least = min(loads) if len(loads) == len(weights) else 0.0
    return (max(loads, default=0.0) - least) * pool.mean_weight


def needs_nothing(cluster: Cluster, group: GroupState) -> bool:
    """Whether the group is stable, where it should be, and holds nothing beyond its map.

    A False costs time, never correctness: the group is then looked at in full.
    """
    spec = group.spec
    if group.map is None or group.marked_unstable is not None or spec.bucket_sequence is not None:
        return False
    if group.proposal is not None:
        return False
    if len(group.map) != spec.buckets or cluster.clones.get((group.namespace, group.name)):
        return False
    if cluster.sick_disks and not cluster.sick_disks.isdisjoint(chain.from_iterable(group.map)):
        return False
    pool = cluster.pool(spec)
    if not _all_complete(group, pool):
        return False
    if cluster.limits.disable_colocate_balance or not spec.balancing.enabled:
        return True
    counts = Counter(chain.from_iterable(group.map))
    failing = (node for node, target in group.failing_targets.items() if cluster.now < target.retry_at)
    return is_balanced(pool, spec, counts, frozenset(failing))


def _all_complete(group: GroupState, pool: Pool) -> bool:
    """Whether every replica of the map is complete on a node that may hold it, and no node holds another one."""
    assert group.map is not None
    fit, held, sizes, replicas = pool.weights, group.held, group.bucket_bytes, group.spec.replicas
    if pool.unschedulable:
        fit = fit | pool.unschedulable
    empty: dict[int, str] = {}
    found = 0
    for bucket, nodes in enumerate(group.map):
        if len(nodes) != replicas or len(set(nodes)) != replicas:
            return False
        for node in nodes:
            if node not in fit:
                return False
            if held.get(node, empty).get(bucket) == "complete":
                found += 1
            elif bucket < len(sizes) and sizes[bucket]:
                return False
    return found == sum(map(len, held.values()))
