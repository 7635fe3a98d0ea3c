"""Findings of made-up clusters: quiet, unstable, moving, awaiting approval, large, and of somebody who means harm."""

from datetime import timedelta
from typing import Any

from colocation.cli.ui.content import Findings
from colocation.cli.ui.queries import SeenQueries, SeenQuery
from colocation.model.conditions import Condition, ConditionType
from colocation.model.group import BucketSequence, CloneCounts, ColocationGroupStatus, awaiting_message
from colocation.model.plan import GroupPlan
from colocation.model.query_line import QueryLine, QueryVerdict
from colocation.model.snapshot import Clone, GroupState, Node, Snapshot
from colocation.planner import preview
from colocation.reconcile.conditions import Verdict, conditions
from tests.property.worlds import GIB, NOW, make_group, make_node, make_snapshot

HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>\u202e&amp;\x00'
TIME = NOW.isoformat().replace("+00:00", "Z")


def seen_query(
    minutes_ago: float, execution: int, verdicts: dict[str, bool], driver: str = "report-7f3a-driver"
) -> SeenQuery:
    """A join of both tables that ended so long ago."""
    ended = (NOW - timedelta(minutes=minutes_ago)).isoformat().replace("+00:00", "Z")
    found = tuple(QueryVerdict(colocate=colocate, text=text) for text, colocate in verdicts.items())
    tables = ("shop.orders", "shop.lineitem")
    line = QueryLine(execution=execution, ended_at=ended, seconds=12.25, tables=tables, verdicts=found)
    return SeenQuery("shop", driver, line)


JOIN = "SortMergeJoin Inner (o_orderkey = l_orderkey) of shop.orders, shop.lineitem"
SHUFFLED = f"{JOIN}: colocate: false, reason: Session disabled"
QUERIES = SeenQueries((seen_query(12, 3, {f"{JOIN}: colocate: true": True}), seen_query(4, 7, {SHUFFLED: False})))


def nodes_of(number: int, **fields: object) -> list[Node]:
    return [
        make_node(f"node-{one}", zone="abc"[one % 3], disk_id=f"7f3a{one:04x}", **fields)
        for one in range(1, number + 1)
    ]


def spread(buckets: int, nodes: list[Node], replicas: int = 3, stride: int = 1) -> BucketSequence:
    names = [node.name for node in nodes]
    steps = [step * stride for step in range(replicas)]
    return tuple(tuple(names[(bucket + step) % len(names)] for step in steps) for bucket in range(buckets))


def findings_of(snapshot: Snapshot, names: tuple[str, ...] = ("orders", "lineitem"), **more: Any) -> Findings:
    """What would be found where this snapshot is true."""
    plan = preview(snapshot)
    pairs = zip(snapshot.groups, plan.groups, strict=True)
    groups = [_group_object(state, planned, snapshot) for state, planned in pairs]
    tables = [_table_object(one) for one in names]
    return Findings(TIME, groups, tables, _events(plan.groups[0]), snapshot, plan, queries=QUERIES, **more)


def _group_object(state: GroupState, planned: GroupPlan, snapshot: Snapshot) -> dict[str, Any]:
    since = _conditions(planned)
    running = [clone for clone in snapshot.clones if clone.group == state.name]
    status = ColocationGroupStatus(
        stable=planned.stable,
        reason=planned.reason,
        tables=("orders", "lineitem"),
        table_count=2,
        backends_per_bucket_seq=state.map,
        map_version=12,
        clones=CloneCounts(running=len(running)),
        proposal=planned.proposal,
        conditions=since,
    )
    metadata = {"namespace": state.namespace, "name": state.name, "uid": f"uid-of-{state.name}"}
    return {"metadata": metadata, "spec": state.spec.to_json_dict(), "status": status.to_json_dict()}


def _conditions(planned: GroupPlan) -> tuple[Condition, ...]:
    moves = len(planned.moves)
    doing = ("Cloning", f"{moves} replicas to make") if moves else ("Reconciled", "nothing is left to do")
    if planned.proposal:
        doing = ("AwaitingApproval", awaiting_message((planned.namespace, planned.name), planned.proposal))
    verdicts = [
        Verdict(ConditionType.STABLE, planned.stable, planned.reason, planned.message),
        Verdict(ConditionType.RECONCILING, bool(moves), *doing),
    ]
    return conditions((), verdicts, 1, NOW - timedelta(hours=3))


def _table_object(name: str) -> dict[str, Any]:
    counts = {"partitions": 31, "files": 496, "rows": 150_000_000, "bytes": 24 * GIB}
    snapshots = [
        {"id": number, "manifest": f"sha256:{number:064x}", "committedAt": f"2026-11-{number:02}T18:00:00Z", **counts}
        for number in (20, 19)
    ]
    status = {"accepted": True, "snapshot": snapshots[0], "history": snapshots[1:]}
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {"colocateWith": "sales"}, "status": status}


def _events(planned: GroupPlan) -> list[dict[str, Any]]:
    subject = {"namespace": planned.namespace, "name": planned.name}
    said = [("MapCreated", "Normal", "version 1: 16 buckets on 5 nodes", 9000)]
    kind = ("Stable", "Normal") if planned.stable else ("Unstable", "Warning")
    said.append((*kind, f"{planned.reason}: {planned.message}", 600))
    return [
        {
            "lastTimestamp": (NOW - timedelta(seconds=ago)).isoformat(),
            "type": level, "reason": reason, "message": message, "involvedObject": subject,
        }
        for reason, level, message, ago in said
    ]  # fmt: skip


def stable() -> Findings:
    nodes = nodes_of(5)
    other = make_group(8, 2, spread(8, nodes, 2), name="returns")
    return findings_of(make_snapshot(nodes, make_group(16, 3, spread(16, nodes)), other))


def unstable() -> Findings:
    """One node is away, a replica is damaged, and another is being made whole."""
    nodes = nodes_of(5)
    away = {"ready": False, "not_ready_since": NOW - timedelta(minutes=7), "not_ready_reason": "NodeNotReady"}
    away["not_ready_message"] = "Kubelet stopped posting node status"
    nodes[2] = nodes[2].model_copy(update=away)
    group = make_group(16, 3, spread(16, nodes))
    held = {node: dict(states) for node, states in group.held.items()}
    held["node-1"][4], held["node-5"][9] = "corrupt", "partial"
    since = dict.fromkeys(range(16), NOW - timedelta(minutes=7))
    clone = Clone(
        namespace="shop", group="sales", bucket=9, source=None, to="node-5", since=NOW - timedelta(seconds=4),
        bytes_done=GIB // 3,
    )  # fmt: skip
    group = group.model_copy(update={"held": held, "unstable_since": since})
    return findings_of(make_snapshot(nodes, group, clones=(clone,)))


def dead() -> Findings:
    """Two nodes are away, and with them both replicas of one bucket: joins shuffle."""
    nodes = nodes_of(5)
    for place in (1, 2):
        nodes[place] = nodes[place].model_copy(update={"ready": False, "not_ready_reason": "NodeNotReady"})
    group = make_group(5, 2, spread(5, nodes, 2))
    found = findings_of(make_snapshot(nodes, group))
    down = {node.name for node in nodes if not node.ready}
    replicas = {bucket: {node: "down" for node in row if node in down} for bucket, row in enumerate(group.map or ())}
    found.groups[0]["status"]["unstableBuckets"] = [
        {"bucket": bucket, "reason": "NodeNotReady", "replicas": one} for bucket, one in replicas.items() if one
    ]
    return found


def empty() -> Findings:
    """An installation without a group."""
    return Findings(TIME, [], [], [])


def in_a_cloud() -> Findings:
    """Names as EKS gives them."""
    nodes = [make_node(f"ip-10-0-1-{number}.eu-central-1.compute.internal") for number in range(101, 106)]
    return findings_of(make_snapshot(nodes, make_group(16, 3, spread(16, nodes))))


def moving() -> Findings:
    """A node has joined; the first copies to it run."""
    nodes = nodes_of(5)
    group = make_group(16, 3, spread(16, nodes))
    joined = [*nodes, make_node("node-6", zone="a", disk_id="7f3a0006")]
    moves = preview(make_snapshot(joined, group)).groups[0].moves[:3]
    clones = tuple(
        Clone(
            namespace="shop", group="sales", bucket=move.bucket, source=move.source, to=move.to,
            since=NOW - timedelta(seconds=2 + number), bytes_done=GIB * (number + 1) // 4,
        )
        for number, move in enumerate(moves)
    )  # fmt: skip
    return findings_of(make_snapshot(joined, group, clones=clones))


def proposing() -> Findings:
    """A node has joined a group whose moves have to be approved."""
    nodes = nodes_of(5)
    group = make_group(16, 3, spread(16, nodes), spec={"balancing": {"approval": "manual"}})
    return findings_of(make_snapshot([*nodes, make_node("node-6", zone="a")], group))


def hostile() -> Findings:
    """Names and messages of somebody who would like the page to run them."""
    nodes = [*nodes_of(3), make_node(HOSTILE, disk_id=HOSTILE, zone=HOSTILE)]
    found = findings_of(make_snapshot(nodes, make_group(6, 2, spread(6, nodes, 2))), (HOSTILE,))
    for event in found.events:
        event.update(message=HOSTILE, reason=HOSTILE)
    return Findings(**{**vars(found), "problems": (HOSTILE,)})


def large() -> Findings:
    """1,000 nodes, and a group of 128 buckets with as many replicas as there may be."""
    nodes = nodes_of(1000)
    return findings_of(make_snapshot(nodes, make_group(128, 7, spread(128, nodes, 7, stride=149))))
