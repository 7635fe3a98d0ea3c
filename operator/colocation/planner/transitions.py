"""The next safe step towards a target: which map to write now, which replicas to delete, which clones to end.

Safety invariants (checked by `colocation.planner.invariants`):

- a replica enters the map only when it is complete on a live node, and the one that it succeeds leaves in the same
  step (make before break); only new groups and strict balancing change the map first;
- no bucket has two replicas on one node;
- a replica is deleted only when it is not in the map, not on its way into it, and every replica in the map is complete
  on a live node.
"""

from colocation.model.plan import Drop

from .cluster import Standing
from .course import Course, replaced
from .view import GroupView, Placement

LOST_FOR_GOOD = (Standing.GONE, Standing.LOST, Standing.DRAINING)


def next_map(view: GroupView, course: Course) -> Placement:
    """The map as it may be written now: all moves that are complete, each with the replica that it succeeds."""
    if course.at_once and not course.held_back:
        return list(course.target)
    result = list(view.map)
    for move in course.moves:
        if view.is_complete(move.bucket, move.to):
            result[move.bucket] = replaced(result[move.bucket], move.source, move.to)
    arriving = {(move.bucket, move.source) for move in course.moves}
    for bucket, nodes in enumerate(result):
        surplus = [node for node in nodes if node not in course.target[bucket] and (bucket, node) not in arriving]
        kept = tuple(node for node in nodes if node not in surplus)
        safe = len(kept) >= view.spec.replicas and all(view.is_complete(bucket, node) for node in kept)
        if surplus and (safe or not any(view.is_complete(bucket, node) for node in surplus)):
            result[bucket] = kept
    return result


def drops(view: GroupView, course: Course) -> tuple[Drop, ...]:
    """Replicas that are safe to delete now, against the current map."""
    if view.group.map is None:
        return ()
    wanted = {(move.bucket, move.to) for move in course.moves}
    wanted |= {key for key in view.clones if not _is_unwanted(view, course, *key)}
    found = []
    for node, states in sorted(view.group.held.items()):
        if node not in view.cluster.ready:
            continue
        for bucket in sorted(states):
            outside = bucket >= len(view.map) or node not in view.map[bucket]
            if outside and (bucket, node) not in wanted and _is_whole(view, course, bucket, node):
                message = "not in the map, and every replica in the map is complete"
                found.append(Drop(bucket=bucket, node=node, reason=message))
    return tuple(found)


def _is_whole(view: GroupView, course: Course, bucket: int, node: str) -> bool:
    """Whether the bucket can do without the node."""
    if bucket >= len(view.map):
        return True
    nodes = view.map[bucket]
    if len(nodes) < view.spec.replicas or node in course.target[bucket]:
        return False
    return all(view.is_complete(bucket, holder) for holder in nodes)


def unwanted_clones(view: GroupView, course: Course) -> tuple[int, ...]:
    """Indexes of the clones that no move needs."""
    return tuple(index for key, (index, _) in view.clones.items() if _is_unwanted(view, course, *key))


def _is_unwanted(view: GroupView, course: Course, bucket: int, to: str) -> bool:
    if bucket >= len(view.map):
        return True
    if any(move.bucket == bucket and move.to == to for move in course.moves):
        return False
    clone = view.clones[bucket, to][1]
    if to in view.map[bucket]:
        # A running one ends by itself; one that waits for another attempt, or for a lost node, would wait for ever.
        return clone.retry_at is not None or view.standing(to) in LOST_FOR_GOOD
    # Balance is not planned while repairs are pending; what it has begun goes on as long as its target may hold it.
    began_to_balance = clone.source is not None and clone.source in course.target[bucket]
    return not (course.pending and began_to_balance and to in view.pool.weights)
