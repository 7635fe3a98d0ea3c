"""A group's replicas are raised and lowered while it is in use."""

from collections import Counter
from itertools import chain

import pytest

from colocation.model.base import MAX_MAP_BYTES
from colocation.model.conditions import Reason
from colocation.model.group import BucketSequence
from tests.property.worlds import make_node

from .cases import SIX, nodes_of, planned


def complete(rows: BucketSequence) -> dict[str, dict[int, str]]:
    """Every replica of the map."""
    found: dict[str, dict[int, str]] = {}
    for bucket, row in enumerate(rows):
        for node in row:
            found.setdefault(node, {})[bucket] = "complete"
    return found


def test_raised_replicas_enter_the_map_bucket_by_bucket() -> None:
    """The old replicas serve; a bucket's new one enters its row when it is complete, and nothing is given up."""
    group = planned(nodes_of(1, 2, 3), replicas=3)
    assert group.stable
    assert {(move.kind, move.reason, move.source) for move in group.moves} == {("place", "ReplicasRaised", None)}
    assert len(group.moves) == 6
    done = group.moves[0]
    held = complete(SIX)
    held[done.to][done.bucket] = "complete"
    following = planned(nodes_of(1, 2, 3), replicas=3, held=held).next_map
    assert following is not None
    assert [len(row) for row in following] == [3 if bucket == done.bucket else 2 for bucket in range(6)]


def test_lowered_replicas_leave_evenly_and_only_while_enough_others_are_complete() -> None:
    """From three to two on three nodes: two leave each node; a bucket whose others are damaged waits."""
    full = (("node-1", "node-2", "node-3"),) * 6
    group = planned(nodes_of(1, 2, 3), bucket_map=full)
    assert (group.stable, group.moves) == (True, ())
    assert group.next_map is not None
    counts = Counter(chain.from_iterable(group.next_map))
    assert counts == {"node-1": 4, "node-2": 4, "node-3": 4}
    held = complete(full)
    held["node-1"][0] = held["node-2"][0] = "corrupt"
    following = planned(nodes_of(1, 2, 3), bucket_map=full, held=held).next_map
    assert following is not None
    assert len(following[0]) == 3


def test_a_lost_replica_is_given_up_before_a_damaged_one() -> None:
    """Also where the damaged one's node is in the zone of another: it is mended in place, and the map is whole then."""
    row = ("node-1", "node-2", "node-9")
    nodes = [make_node(f"node-{number}", zone=zone) for number, zone in enumerate("aab", 1)]
    held: dict[str, dict[int, str]] = {"node-1": {0: "complete"}, "node-2": {0: "corrupt"}}
    group = planned(nodes, buckets=1, bucket_map=(row,), held=held)
    assert [(move.bucket, move.to, move.kind) for move in group.moves] == [(0, "node-2", "repair")]
    assert (group.target_map or group.next_map) == (("node-1", "node-2"),)


def test_a_damaged_replica_that_is_given_up_is_not_waited_for() -> None:
    """It is not mended where it leaves: with a full disk its group would be unstable for good (found by simulation)."""
    full = (("node-1", "node-2", "node-3", "node-4"),) * 6
    held = complete(full)
    del held["node-2"][0]
    group = planned(nodes_of(1, 2, 3, 4), bucket_map=full, held=held)
    assert not [move for move in group.moves if move.bucket == 0]
    assert group.next_map is not None
    assert len(group.next_map[0]) == 2 and "node-2" not in group.next_map[0]


def test_lowered_replicas_stay_in_different_zones() -> None:
    """Of two replicas in one zone and one in another, one of the two goes."""
    nodes = [make_node("node-1", zone="a"), make_node("node-2", zone="a"), make_node("node-3", zone="b")]
    target = planned(nodes, bucket_map=(("node-1", "node-2", "node-3"),) * 6).target_map
    assert target is not None
    assert all("node-3" in row for row in target)


@pytest.mark.parametrize("size_bytes", [0, 100], ids=["empty", "with files"])
def test_replicas_are_not_raised_beyond_what_an_object_can_hold(size_bytes: int) -> None:
    """The map stays as it is and serves; a lost replica is still made good, and the group states what is too large."""
    buckets = 30_000
    rows = (("node-1", "node-2"),) * (buckets - 1) + (("node-1", "node-9"),)
    held, sizes = complete(rows), (size_bytes,) * buckets
    del held["node-9"]
    group = planned(nodes_of(1, 2, 3), buckets=buckets, replicas=3, bucket_map=rows, bucket_bytes=sizes, held=held)
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INVALID_SPEC
    assert f"has room for {MAX_MAP_BYTES}" in group.stalled.message
    assert [(move.bucket, move.source) for move in group.moves if move.kind == "repair"] == [(buckets - 1, "node-9")]
    assert group.target_map is not None
    assert {len(row) for row in group.target_map} == {2}
