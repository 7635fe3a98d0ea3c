"""The bucket sequence set by hand: checked in the words of Doris's ``bucketseq`` call, then honoured as the target."""

from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence
from colocation.model.limits import MAX_SEQUENCE_BYTES
from colocation.model.plan import BucketProblem, MoveKind

from .cluster import Standing
from .course import Course, in_place_moves, replacements
from .losses import waiting_message
from .map_size import map_bytes
from .view import GroupView


def sequence_problem(view: GroupView, sequence: BucketSequence) -> BucketProblem | None:
    """Why the sequence cannot be the group's map; None when it can."""
    expected, actual = view.spec.buckets, len(sequence)
    if actual != expected:
        return _problem(0, f"Invalid bucket num. expected: {expected}, actual: {actual}")
    for bucket, nodes in enumerate(sequence):
        expected, actual = view.spec.replicas, len(set(nodes))
        if actual != expected or len(nodes) != expected:
            return _problem(bucket, f"Invalid backend num per bucket. expected: {expected}, actual: {actual}")
        for node in nodes:
            # A node that is down for a while keeps its place; one that lost its replicas cannot be a target.
            if view.standing(node) not in (Standing.FIT, Standing.WAITING):
                return _problem(bucket, f"The backend {node} does not exist or not available")
    size_bytes = map_bytes(sequence)
    if size_bytes > MAX_SEQUENCE_BYTES:
        return _problem(0, f"a map set by hand may take {MAX_SEQUENCE_BYTES} bytes, and this one takes {size_bytes}")
    return None


def _problem(bucket: int, message: str) -> BucketProblem:
    return BucketProblem(bucket=bucket, reason=Reason.INVALID_BUCKET_SEQUENCE, message=message)


def follow_sequence(view: GroupView, sequence: BucketSequence) -> Course:
    """From the map to a valid sequence; what is damaged on the way is repaired in place."""
    wanted = [tuple(nodes) for nodes in sequence]
    target = [old if set(old) == set(new) else new for old, new in zip(view.map, wanted, strict=True)]
    is_first = view.group.map is None
    course = Course(target, at_once=is_first or view.spec.balancing.strict)
    course.moves = in_place_moves(view)
    kind: MoveKind = "place" if is_first else "balance"
    course.moves += replacements(view, target, kind, Reason.PLACING if is_first else Reason.BALANCING)
    for bucket, nodes in enumerate(view.map):
        for node in nodes:
            if view.standing(node) is Standing.WAITING:
                course.block(bucket, Reason.WITHIN_DOWN_TOLERANCE, waiting_message(view, node))
    course.pending = bool(course.moves) or target != view.map
    return course
