"""Whether every bucket of a group can be read now, as far as the operator's words tell. Pure.

Files are immutable and readers go to any replica, so a bucketed plan is right and shuffle-free as long as every bucket
has a live one. Counted as live: a replica on a node of the bucket's row whose agent is ready, unless the status says
that it is not complete there. Java decides the same (``ReadDecision.java``).
"""

from collections.abc import Collection

from .base import Frozen
from .conditions import Reason
from .group import ColocationGroupStatus

MAX_NAMED_BUCKETS = 3
COMPLETE = "complete"


class Liveness(Frozen):
    """``is_whole``: every bucket has a live replica. ``message``: which have none, e.g. ``NoLiveReplica: bucket 3``;
    empty when all have one, or when the group's own reason says enough.
    """

    is_whole: bool = False
    message: str = ""


def liveness(status: ColocationGroupStatus, ready: Collection[str]) -> Liveness:
    """Whether every bucket of the group has a live replica.

    A group that the operator has not judged, that has no map, or that somebody marked unstable by hand is not whole:
    nobody knows its replicas, or an administrator does not want them used.

    Args:
        status: of the group, from an operator whose words hold.
        ready: nodes whose agents are ready.
    """
    rows = status.backends_per_bucket_seq
    if status.stable is None or not rows or status.reason == Reason.MARKED_UNSTABLE:
        return Liveness()
    dead = dead_buckets(status, ready)
    return Liveness(message=f"{Reason.NO_LIVE_REPLICA}: {_listed(dead)}") if dead else Liveness(is_whole=True)


def dead_buckets(status: ColocationGroupStatus, ready: Collection[str]) -> list[int]:
    """The buckets of the group's map that have no live replica; see ``liveness``."""
    told = {one.bucket: one.replicas for one in status.unstable_buckets}
    return [
        bucket
        for bucket, row in enumerate(status.backends_per_bucket_seq or ())
        if not any(node in ready and told.get(bucket, {}).get(node, COMPLETE) == COMPLETE for node in row)
    ]


def _listed(buckets: list[int]) -> str:
    """``bucket 3``, ``buckets 0, 3, 5``, or ``buckets 0, 1, 2 and 7 more``."""
    shown = ", ".join(map(str, buckets[:MAX_NAMED_BUCKETS]))
    more = f" and {len(buckets) - MAX_NAMED_BUCKETS} more" if len(buckets) > MAX_NAMED_BUCKETS else ""
    return f"bucket{'' if len(buckets) == 1 else 's'} {shown}{more}"
