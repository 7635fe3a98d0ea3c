"""The page's data: replicas with state, age and reason; moves, clones, nodes, tables, events."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from colocation.cli.ui.content import Findings, group_page, overview
from colocation.cli.ui.queries import SeenQueries
from colocation.model.group import ColocationGroupStatus
from colocation.model.reader_rules import Freshness
from tests.property.worlds import GIB, NOW

from . import scenes

SEVEN_MINUTES_AGO = (NOW - timedelta(minutes=7)).isoformat()
SALES = ("shop", "sales")


def page(findings: Findings) -> dict[str, Any]:
    found = group_page(findings, SALES)
    assert found is not None
    return found


def cell(found: dict[str, Any], node: str, bucket: int) -> list[Any]:
    """[state, reason, since, percent] of one replica."""
    (row,) = [one for one in found["rows"] if one["node"] == node]
    return next(one[1:] for one in row["cells"] if one[0] == bucket)


def states(found: dict[str, Any], node: str) -> set[str]:
    return {one[1] for row in found["rows"] if row["node"] == node for one in row["cells"]}


def without_operator(findings: Findings) -> Findings:
    return replace(findings, snapshot=None, plan=None, problems=("nodes, clones and plan cannot be shown",))


def test_a_quiet_group_is_complete_everywhere_and_moves_nothing() -> None:
    """Cells only where there are replicas: 16 buckets x 3."""
    found = page(scenes.stable())
    assert [one["node"] for one in found["rows"]] == [f"node-{number}" for number in range(1, 6)]
    cells = [one for row in found["rows"] for one in row["cells"]]
    assert (len(cells), {one[1] for one in cells}) == (48, {"complete"})
    assert (found["stable"], found["moves"], found["running"]) == (True, [], [])


@pytest.mark.parametrize(
    ("node", "bucket", "expected"),
    [
        ("node-1", 0, ["complete", "", None, None]),
        ("node-1", 4, ["corrupt", "ReplicaCorrupt: files are damaged", SEVEN_MINUTES_AGO, None]),
        ("node-5", 9, ["copying", "from any replica", (NOW - timedelta(seconds=4)).isoformat(), 33]),
        (
            "node-3", 0,
            ["down", "NodeNotReady: Kubelet stopped posting node status", SEVEN_MINUTES_AGO, None],
        ),
    ],
)  # fmt: skip
def test_each_replica_has_state_reason_and_since_when(node: str, bucket: int, expected: list[Any]) -> None:
    """Damaged, being made whole, and on a node that is away."""
    assert cell(page(scenes.unstable()), node, bucket) == expected


def test_moves_say_whether_they_run_start_now_or_later() -> None:
    """Three of eight are copied; the others wait, and stand in the matrix as planned."""
    found = page(scenes.moving())
    assert [move["start"] for move in found["moves"]].count("under way") == 3
    assert (found["moveCount"], found["moveBytes"]) == (8, 8 * GIB)
    assert [one["bytesDone"] * 4 // GIB for one in found["running"]] == [1, 2, 3]
    assert states(found, "node-6") == {"copying", "planned"}


def test_what_awaits_approval_is_shown_as_such() -> None:
    """In the matrix and among the moves, with the proposal."""
    found = page(scenes.proposing())
    assert {move["start"] for move in found["moves"]} == {"once approved"}
    assert states(found, "node-6") == {"proposed"}
    assert found["proposal"]["replicas"] == len(found["moves"]) > 0


def test_without_the_operator_the_status_has_to_do() -> None:
    """A user who may not ask the operator sees the map and the listed problems, and what is missing."""
    findings = without_operator(scenes.stable())
    assert {one[1] for row in page(findings)["rows"] for one in row["cells"]} == {"complete"}
    assert (page(findings)["isPlanKnown"], overview(findings)["nodes"]) == (False, None)
    assert overview(findings)["problems"] == ["nodes, clones and plan cannot be shown"]


def test_replicas_of_buckets_that_the_status_does_not_list_are_not_known() -> None:
    """It lists 20 at most; the others are not called complete."""
    findings = without_operator(scenes.unstable())
    status = ColocationGroupStatus.model_validate(findings.groups[0]["status"])
    findings.groups[0]["status"] = status.model_copy(update={"unstable_bucket_count": 30}).to_json_dict()
    assert {one[1] for row in page(findings)["rows"] for one in row["cells"]} == {"unknown"}


def test_a_verdict_that_is_too_old_is_unknown() -> None:
    """As the commands say it."""
    findings = replace(scenes.stable(), freshness=Freshness(message="silent since noon"))
    found = overview(findings)
    assert (found["groups"][0]["stable"], found["groups"][0]["reason"]) == (None, "OperatorSilent")
    assert found["problems"] == ["OperatorSilent: silent since noon"]


@pytest.mark.parametrize(
    ("findings", "joins"),
    [
        pytest.param(scenes.stable, (False, ""), id="stable"),
        pytest.param(scenes.unstable, (False, "group is not stable: NodeNotReady"), id="live replicas"),
        pytest.param(scenes.dead, (True, "NoLiveReplica: bucket"), id="a bucket has none"),
        pytest.param(lambda: replace(scenes.stable(), freshness=Freshness(message="silent since noon")),
                     (True, "OperatorSilent: silent since noon"), id="the operator is silent"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ask", [lambda one: one, without_operator], ids=["all rights", "without the operator"])
def test_the_first_question_is_whether_joins_shuffle(
    findings: Callable[[], Findings], joins: tuple[bool, str], ask: Callable[[Findings], Findings]
) -> None:
    """As `colocation submit` decides, in its words."""
    found = overview(ask(findings()))["groups"][0]["joins"]
    assert found["shuffle"] is joins[0]
    assert joins[1] in found["why"]


def test_tables_nodes_and_events() -> None:
    """Snapshots newest first, disks and weights, the newest event first."""
    found = overview(scenes.unstable())
    assert [one["id"] for one in found["tables"][0]["snapshots"]] == [20, 19]
    node = found["nodes"][2]
    assert (node["name"], node["state"], node["weight"], node["replicas"]) == ("node-3", "not ready", 1.0, 10)
    assert [one["reason"] for one in found["events"]] == ["Unstable", "MapCreated"]


def test_the_matrix_and_the_nodes_call_a_sick_disk_the_same() -> None:
    """A node that answers, with a disk that fails."""
    findings = scenes.stable()
    assert findings.snapshot
    sick = {"disk_reason": "DiskFailing", "disk_message": "5 reads failed", "disk_since": NOW}
    first, *others = findings.snapshot.nodes
    nodes = (first.model_copy(update=sick), *others)
    findings = replace(findings, snapshot=findings.snapshot.model_copy(update={"nodes": nodes}))
    assert [row["state"] for row in page(findings)["rows"]] == ["sick disk", "", "", "", ""]
    node = overview(findings)["nodes"][0]
    assert (node["state"], node["reason"]) == ("sick disk", "DiskFailing: 5 reads failed")


def test_a_group_that_is_not_there() -> None:
    """None, for the server to say so."""
    assert group_page(scenes.stable(), ("shop", "none")) is None


def test_objects_that_cannot_be_understood_are_named_and_harm_no_others() -> None:
    """A status of another shape is a problem of that group."""
    findings = scenes.stable()
    findings.groups[0]["status"] = {"stable": "perhaps", "conditions": 7}
    found = overview(findings)
    assert found["problems"][0].startswith("shop/sales: ")
    assert found["groups"][1]["stable"] is True
    assert page(findings)["rows"]


def test_queries_of_the_last_hour_are_listed_newest_first() -> None:
    """A query shuffled if one of its verdicts is false; older ones are left out."""
    others = (
        scenes.seen_query(61, 1, {}),
        scenes.seen_query(59, 2, {}, driver="etl-driver"),
        scenes.seen_query(1, 8, {"a join: colocate: true": True, "a group-by: colocate: false, reason: r": False}),
    )
    seen = SeenQueries((*scenes.QUERIES.queries, *others), "2 older drivers")
    found = overview(replace(scenes.stable(), queries=seen))
    listed = [(one["driver"], one["execution"], one["shuffled"]) for one in found["queries"]]
    report = "report-7f3a-driver"
    assert listed == [(report, 8, True), (report, 7, True), (report, 3, False), ("etl-driver", 2, False)]
    assert found["queriesGap"] == "2 older drivers"


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        pytest.param(scenes.stable, {}, id="each bucket is elsewhere, too"),
        pytest.param(scenes.dead, {"node-1": 1, "node-4": 1}, id="two nodes are away, and a bucket is on both"),
    ],
)
def test_who_holds_a_last_replica_is_counted(findings: Callable[[], Findings], expected: dict[str, int]) -> None:
    """Of buckets that only one node can serve now."""
    nodes = overview(findings())["nodes"]
    assert {one["name"]: one["lastReplicas"] for one in nodes if one["lastReplicas"]} == expected
