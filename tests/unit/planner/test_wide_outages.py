"""A whole zone, or most nodes, down at once: only buckets at risk are made again soon, and the group reports it."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from colocation.model.conditions import Reason
from colocation.model.snapshot import Node
from colocation.planner.cluster import Cluster
from tests.property.worlds import NOW, make_node, make_snapshot

from .cases import planned, reasons

TOLERANCE_SECONDS = 1800
ZONES = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b", 7: "c", 8: "c", 9: "c"}
ROWS = (("node-1", "node-4", "node-7"), ("node-4", "node-5", "node-8"), ("node-2", "node-3", "node-9"))
"""Zone b has one replica of the first bucket, two of the second, and none of the third."""


def nodes(down: tuple[int, ...], seconds: int, zones: Mapping[int, str | None] | None = ZONES) -> list[Node]:
    since = NOW - timedelta(seconds=seconds)
    return [
        make_node(
            f"node-{number}",
            zone=zones[number] if zones else None,
            ready=number not in down,
            not_ready_since=since if number in down else None,
        )
        for number in ZONES
    ]


@pytest.mark.parametrize(
    ("down", "seconds", "zones", "made"),
    [
        pytest.param((4, 5), TOLERANCE_SECONDS, ZONES, {0, 1}, id="two of a zone's three nodes: as ever"),
        pytest.param((4, 5, 6), TOLERANCE_SECONDS - 1, ZONES, set(), id="a zone, within the tolerance"),
        pytest.param((4, 5, 6), TOLERANCE_SECONDS, ZONES, {1}, id="a zone: the bucket with one live replica"),
        pytest.param((4, 5, 6), 12 * TOLERANCE_SECONDS - 1, ZONES, {1}, id="a zone, almost for twelve tolerances"),
        pytest.param((4, 5, 6), 12 * TOLERANCE_SECONDS, ZONES, {0, 1}, id="a zone, for good"),
        pytest.param((4, 5, 6), TOLERANCE_SECONDS, None, {0, 1}, id="as many nodes, and no zones"),
        pytest.param((4, 5, 6), TOLERANCE_SECONDS, dict.fromkeys(ZONES, "a"), {0, 1}, id="one zone only"),
        pytest.param((4, 5), TOLERANCE_SECONDS, ZONES | {6: "a"}, {1}, id="a zone of two nodes"),
        pytest.param((4,), TOLERANCE_SECONDS, ZONES | {4: "d"}, {0, 1}, id="a zone's only node: as ever"),
        pytest.param((1, 4, 5, 6, 8), TOLERANCE_SECONDS, None, {0}, id="most nodes"),
    ],
)
def test_what_is_made_again(down: tuple[int, ...], seconds: int, zones: dict[int, str] | None, made: set[int]) -> None:
    """In the last case no live node has the second bucket, of the third nothing is lost."""
    group = planned(nodes(down, seconds, zones), buckets=3, replicas=3, bucket_map=ROWS)
    assert {group.moves[index].bucket for index in group.start_now} == made


def test_the_group_reports_what_it_waits_for() -> None:
    """The same words in the plan as in the condition: they come from here."""
    group = planned(nodes((4, 5, 6), TOLERANCE_SECONDS), buckets=3, replicas=3, bucket_map=ROWS)
    assert reasons(group) == {Reason.WITHIN_DOWN_TOLERANCE}
    assert [problem.bucket for problem in group.blocked] == [0]
    assert "after 21600 s, as all nodes of zone b are down" in group.blocked[0].message
    unknown = planned(nodes((4, 5, 6), TOLERANCE_SECONDS, ZONES | {4: None, 5: None, 6: None}), buckets=3, replicas=3,
                      bucket_map=ROWS)  # fmt: skip
    assert "as all nodes of zone (none) are down" in unknown.blocked[0].message


def test_a_zone_whose_nodes_are_deleted_or_drained_is_not_waited_for() -> None:
    """Anyone who deletes Nodes, or marks them for drain, declares that they do not come back."""
    alive = [node for node in nodes((), 0) if node.zone != "b"]
    drained = [node.model_copy(update={"drain": node.zone == "b"}) for node in nodes((4, 5, 6), 5)]
    for some in (alive, drained):
        group = planned(some, buckets=3, replicas=3, bucket_map=ROWS)
        assert {group.moves[index].bucket for index in group.start_now} == {0, 1}


@pytest.mark.parametrize(
    ("number", "down", "waits"),
    [(4, (3, 4), False), (4, (2, 3, 4), True), (3, (2, 3), True), (1, (1,), False)],
    ids=["half of them", "most of them", "two of three", "the only one"],
)
def test_half_of_the_nodes_are_not_most(number: int, down: tuple[int, ...], waits: bool) -> None:
    """Without zones: only when most are down is it hardly a fault of nodes."""
    found = [make_node(f"node-{one}", ready=one not in down) for one in range(1, number + 1)]
    assert set(Cluster(make_snapshot(found)).wide_outage) == ({f"node-{number}" for number in down} if waits else set())
    marked = [node.model_copy(update={"drain": node.name == f"node-{down[0]}"}) for node in found]
    assert Cluster(make_snapshot(marked)).wide_outage == {}, "one of them is drained"
