"""Maps that are asked for: by hand, by other numbers of replicas, by weights, by new groups."""

import json

import pytest

from colocation.model.base import MAX_SEQUENCE_BYTES
from colocation.model.conditions import Reason
from colocation.planner import plan
from colocation.planner.placement import map_bytes
from tests.property.worlds import make_group, make_node, make_snapshot

from .cases import nodes_of, planned


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        pytest.param([["node-1", "node-2"]] * 5, "Invalid bucket num. expected: 6, actual: 5", id="buckets"),
        pytest.param(
            [["node-1", "node-2"]] * 5 + [["node-1"]],
            "Invalid backend num per bucket. expected: 2, actual: 1",
            id="replicas",
        ),
        pytest.param(
            [["node-1", "node-1"]] * 6, "Invalid backend num per bucket. expected: 2, actual: 1", id="one node twice"
        ),
        pytest.param(
            [["node-1", "node-9"]] * 6, "The backend node-9 does not exist or not available", id="unknown node"
        ),
    ],
)
def test_an_invalid_bucket_sequence_is_refused_in_doris_words(sequence: list[list[str]], message: str) -> None:
    """The map stays as it is, and the group states what is wrong with the sequence."""
    group = planned(nodes_of(1, 2, 3), spec={"bucketSequence": sequence})
    assert (group.stable, group.moves, group.next_map) == (True, (), None)
    assert group.stalled is not None
    problem = group.blocked[0]
    assert (problem.reason, problem.message) == (Reason.INVALID_BUCKET_SEQUENCE, message)
    assert (group.stalled.reason, group.stalled.message) == (problem.reason, f"bucket {problem.bucket}: {message}")


def test_repairs_go_on_whatever_is_wrong_with_the_sequence() -> None:
    """It is named first: a user has to change it."""
    spec = {"bucketSequence": [["node-1", "node-2"]] * 5}
    held = {"node-1": {0: "complete"}, "node-2": {0: "corrupt"}}
    rows = (("node-1", "node-2"),)
    group = planned(nodes_of(1, 2, 3), spec=spec, buckets=1, bucket_map=rows, held=held)
    assert [(move.to, move.kind) for move in group.moves] == [("node-2", "repair")]
    short = planned(nodes_of(1), spec=spec, buckets=1, bucket_map=rows)
    assert {one.reason for one in short.blocked} == {Reason.INSUFFICIENT_NODES, Reason.INVALID_BUCKET_SEQUENCE}
    assert short.stalled is not None
    assert short.stalled.reason == Reason.INVALID_BUCKET_SEQUENCE


def test_a_cordoned_node_is_in_no_first_map() -> None:
    """Set by hand it keeps what it has, but a new group has nothing there."""
    nodes = [*nodes_of(1, 3), *nodes_of(2, schedulable=False)]
    spec = {"bucketSequence": [["node-1", "node-2"]] * 6}
    there = planned(nodes, spec=spec, bucket_map=(("node-1", "node-2"),) * 6)
    assert (there.stable, there.stalled) == (True, None)
    new = planned(nodes, spec=spec, bucket_map=None, bucket_bytes=(), held={})
    assert (new.next_map, [one.message for one in new.blocked]) == (
        None, ["The backend node-2 does not exist or not available"]
    )


def test_a_valid_bucket_sequence_is_the_target() -> None:
    """Make before break towards it; once there, no balance, however uneven it is."""
    wanted = (("node-1", "node-2"),) * 6
    spec = {"bucketSequence": [list(nodes) for nodes in wanted]}
    group = planned(nodes_of(1, 2, 3), spec=spec)
    assert group.target_map is not None
    assert [set(nodes) for nodes in group.target_map] == [{"node-1", "node-2"}] * 6
    assert all(move.source == "node-3" for move in group.moves)
    assert len(group.moves) == 4
    assert (group.stable, group.next_map) == (True, None)
    assert {(move.kind, move.reason) for move in group.moves} == {("balance", Reason.BALANCING)}
    there = {"node-3": {0: "complete"}}
    new = planned(nodes_of(1, 2, 3), spec=spec, bucket_map=None, bucket_bytes=(1,) * 6, held=there)
    assert new.next_map == wanted
    assert {(move.source, move.kind, move.reason) for move in new.moves} == {(None, "place", Reason.PLACING)}
    ahead = planned(nodes_of(1, 2, 3), spec=spec | {"balancing": {"strict": True}})
    assert ahead.next_map == ahead.target_map == group.target_map
    done = planned(nodes_of(1, 2, 3), spec=spec, bucket_map=wanted)
    assert (done.moves, done.next_map, done.stalled) == ((), None, None)


def test_replicas_raised_and_lowered() -> None:
    """One replica more per bucket is placed; one less leaves the map at once, and is dropped after."""
    raised = planned(nodes_of(1, 2, 3), replicas=3)
    assert [move.kind for move in raised.moves] == ["place"] * 6
    assert raised.next_map is None
    lowered = planned(nodes_of(1, 2, 3), replicas=1)
    assert lowered.next_map is not None
    assert [len(nodes) for nodes in lowered.next_map] == [1] * 6
    counts = [sum(node in nodes for nodes in lowered.next_map) for node in ("node-1", "node-2", "node-3")]
    assert counts == [2, 2, 2]


def test_a_group_starts_where_others_are_light() -> None:
    """Totals are even over all groups: the second one's extra replicas go elsewhere."""
    nodes = nodes_of(1, 2, 3)
    groups = [make_group(4, 1, name=f"group-{number}") for number in range(3)]
    maps = [group.next_map for group in plan(make_snapshot(nodes, *groups)).groups]
    totals = {node.name: sum(node.name in row for rows in maps for row in rows or ()) for node in nodes}
    assert totals == {"node-1": 4, "node-2": 4, "node-3": 4}


def test_weights_and_selectors_shape_a_new_map() -> None:
    """A node of double weight holds double; a node that the selector leaves out, or of weight 0, holds nothing."""
    labels = {"labels": {"disk": "fast"}}
    nodes = [*nodes_of(1, 2, **labels), *nodes_of(3, weight=2, **labels), *nodes_of(5, weight=0, **labels)]
    nodes += nodes_of(4)
    group = planned(nodes, buckets=8, replicas=1, bucket_map=None, spec={"nodeSelector": {"disk": "fast"}})
    held = [sum((f"node-{n}",) == row for row in group.next_map or ()) for n in range(1, 6)]
    assert held == [2, 2, 4, 0, 0]


def test_map_that_no_object_can_hold_is_not_made() -> None:
    """It would be refused with every write, for ever; the group states what is too large, and what to do."""
    nodes = [make_node(f"ip-10-100-200-{number}.eu-central-1.compute.internal") for number in range(3)]
    group = planned(nodes, buckets=65536, replicas=3, bucket_map=None)
    assert (group.target_map, group.moves) == (None, ())
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INVALID_SPEC
    assert "the map of 65536 buckets with 3 replicas each takes" in group.stalled.message
    made = planned(nodes, buckets=4096, replicas=3, bucket_map=None).next_map
    assert made is not None
    assert map_bytes(made) == len(json.dumps(made, separators=(",", ":"))) - 1


def test_a_map_set_by_hand_is_held_twice() -> None:
    """In the spec and in the status: it may take half as much."""
    nodes = nodes_of(1, 2)
    rows = (("node-1", "node-2"),) * 20_000
    group = planned(nodes, buckets=20_000, bucket_map=None, spec={"bucketSequence": rows})
    assert group.stalled is not None
    assert group.stalled.reason == Reason.INVALID_BUCKET_SEQUENCE
    assert f"may take {MAX_SEQUENCE_BYTES} bytes, and this one takes {map_bytes(rows)}" in group.stalled.message
