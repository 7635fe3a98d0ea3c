"""Whether a table that moves fits on its new group's disks: all that is missing is to fit, or nothing is copied."""

import math
from collections.abc import Iterable, Mapping

from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..planner.status import listed
from ..planner.view import Cluster, Room


def room_left(snapshot: Snapshot, planned: Plan) -> Room:
    """What the clones in flight, and those that the plan starts now, leave on the disks."""
    room = Cluster(snapshot).room_now()
    for group in planned.groups:
        for index in group.start_now:
            move = group.moves[index]
            room.take(move.to, move.bytes)
    return room


def reserve(room: Room, wanted: Mapping[str, int], headroom_fraction: float) -> str | None:
    """Take the bytes that are wanted of each node; where one has too few take nothing, and say what is short."""
    short = [node for node in sorted(wanted) if wanted[node] > room.available_bytes(node)]
    if short:
        return _shortage(room, wanted, short, headroom_fraction)
    for node, size_bytes in wanted.items():
        room.take(node, size_bytes)
    return None


def _shortage(room: Room, wanted: Mapping[str, int], short: Iterable[str], headroom_fraction: float) -> str:
    def words(node: str) -> str:
        free_bytes = max(0, math.floor(room.available_bytes(node)))
        return f"node {node} is to take {wanted[node]} bytes and has room for {free_bytes}"

    headroom = f" ({100 * headroom_fraction:g} % of a disk stays free)" if headroom_fraction else ""
    return f"{listed(map(words, short))}{headroom}; add nodes or disks, or take the change back"
