"""Balance: evenness by weight, by the fewest replica moves, then the fewest bytes.

Runs when nothing is lost or damaged. A replica on a live node that may no longer hold it (selector, weight 0) has to
leave. No bucket comes to lie in fewer zones than before; that is a limit on the moves, not a reason for some.
"""

from collections import Counter, defaultdict
from functools import lru_cache
from itertools import chain

from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence

from .cluster import Standing
from .course import Course, replacements, too_few_nodes
from .evening import Problem
from .exchange import even_placement
from .quiet import is_settled
from .shares import Shares
from .view import GroupView, Placement
from .wording import listed


def balance(view: GroupView) -> Course:
    """The even map nearest to the present one; the present one when it is even or balancing is off."""
    course = Course(list(view.map), at_once=view.spec.balancing.strict)
    leaving = {node for node in set(chain.from_iterable(view.map)) if view.standing(node) is Standing.LEAVING}
    limits = view.cluster.limits
    if not view.spec.balancing.enabled or limits.disable_colocate_balance:
        _say_disabled(view, course, leaving)
        return course
    if len(view.pool.weights) < view.spec.replicas:
        for bucket in _buckets_on(view, leaving):
            course.hold_back("balance", bucket, Reason.INSUFFICIENT_NODES, too_few_nodes(view))
        return course
    if is_settled(view.pool, view.spec, Counter(chain.from_iterable(view.map))):
        return course
    course.target = _even_map(view)
    course.moves = replacements(view, course.target, "balance", Reason.BALANCING)
    _check_room(view, course)
    return course


def _say_disabled(view: GroupView, course: Course, leaving: set[str]) -> None:
    switch = "spec.balancing.enabled is false" if not view.spec.balancing.enabled else "disableColocateBalance is set"
    for bucket in _buckets_on(view, leaving):
        nodes = listed(sorted(leaving.intersection(view.map[bucket])))
        course.block(bucket, Reason.BALANCING_DISABLED, f"node {nodes} may not hold the bucket any more, but {switch}")


def _buckets_on(view: GroupView, nodes: set[str]) -> list[int]:
    return [bucket for bucket, holders in enumerate(view.map) if not nodes.isdisjoint(holders)]


def _even_map(view: GroupView) -> Placement:
    weights, replicas = view.pool.weights, view.spec.replicas
    zones = {node: view.zone(node) for node in sorted({*chain.from_iterable(view.map), *weights})}
    return list(
        even_rows(
            tuple(view.map),
            tuple(sorted(weights, key=view.cluster.loads.of)),
            view.pool.shares(len(view.map), replicas, by_weight_alone=True),
            tuple(zones.items()),
            tuple(view.bytes_of(bucket) for bucket in range(len(view.map))),
            tuple(replicas - len({zones[node] for node in nodes}) for nodes in view.map),
            frozenset(view.begun.items()),
        )
    )


@lru_cache(maxsize=2048)
def even_rows(
    rows: BucketSequence,
    takers: tuple[str, ...],
    shares: Shares,
    zones: tuple[tuple[str, str], ...],
    bucket_bytes: tuple[int, ...],
    spare: tuple[int, ...],
    begun: frozenset[tuple[tuple[int, str], bool]],
) -> BucketSequence:
    """The even map nearest to ``rows``; remembered, as moving the data takes many passes that all plan the same."""
    problem = Problem(
        holders=[set(nodes) for nodes in rows],
        takers=list(takers),
        shares=shares,
        zones=dict(zones),
        bucket_bytes=list(bucket_bytes),
        spare=list(spare),
        begun=dict(begun),
    )
    return tuple(in_order(old, new) for old, new in zip(rows, even_placement(problem), strict=True))


def in_order(old: tuple[str, ...], new: set[str]) -> tuple[str, ...]:
    """``new`` with the nodes that stay in their old places and the others, by name, in the places that became free."""
    arriving = iter(sorted(new.difference(old)))
    placed = [node if node in new else next(arriving, None) for node in old]
    return (*(node for node in placed if node is not None), *arriving)


def _check_room(view: GroupView, course: Course) -> None:
    """Nothing is started when a node lacks room for all that it is to take."""
    wanted: dict[str, int] = defaultdict(int)
    for move in course.moves:
        if (move.bucket, move.to) not in view.clones:
            wanted[move.to] += move.bytes
    room = view.cluster.room
    short = {node: need - room.available_bytes(node) for node, need in wanted.items() if need}
    for move in course.moves:
        missing = short.get(move.to, 0)
        if missing > 0:
            message = f"node {move.to} is {missing:.0f} bytes short of the {wanted[move.to]} that it would take"
            course.hold_back("balance", move.bucket, Reason.INSUFFICIENT_SPACE, message)
    if not course.held_back:
        for node, need in wanted.items():
            room.take(node, need)
