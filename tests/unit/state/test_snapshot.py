"""What the planner gets: nodes, groups and clones."""

from dataclasses import replace
from datetime import datetime

import pytest

from colocation.model.agent import DiskReport
from colocation.model.conditions import Reason
from colocation.model.group import ColocationGroupStatus, UnstableBucket
from colocation.model.snapshot import Limits, Node, Snapshot
from colocation.state.agent_view import AgentView
from colocation.state.assemble import assemble
from colocation.state.objects import ObservedHolder, ObservedNode
from colocation.state.observation import Observation
from colocation.state.snapshot import snapshot_of

from .objects import GIB, MANIFEST, NOW, agent, group, node, remembering, seconds, table, table_report, view
from .test_membership import placed

GRACE_SECONDS = 30


def snapshot(**observed: object) -> Snapshot:
    observation = Observation(NOW, **observed)  # type: ignore[arg-type]
    return snapshot_of(assemble(observation), Limits(), GRACE_SECONDS)


def only_node(of: ObservedNode, agent_view: AgentView | None) -> Node:
    views = {of.name: agent_view} if agent_view else {}
    [found] = snapshot(nodes=(of,), agents=(agent(of.name),), agent_views=views).nodes
    return found


@pytest.mark.parametrize(
    ("ready", "silent_since", "reason", "since"),
    [
        pytest.param(True, None, None, None, id="all is well"),
        pytest.param(True, NOW - seconds(30), None, None, id="agent restarts, within the grace"),
        pytest.param(True, NOW - seconds(31), Reason.AGENT_NOT_READY, NOW - seconds(31), id="agent is silent"),
        pytest.param(False, None, Reason.NODE_NOT_READY, NOW - seconds(60), id="node, at once"),
        pytest.param(False, NOW - seconds(90), Reason.NODE_NOT_READY, NOW - seconds(60), id="node and agent"),
    ],
)
def test_node_is_ready(ready: bool, silent_since: datetime | None, reason: str | None, since: datetime | None) -> None:
    """Ready = the Node is Ready and its agent answers, or did so a moment ago."""
    found = only_node(node("node-1", ready), view(silent_since=silent_since))
    assert (found.ready, found.not_ready_reason, found.not_ready_since) == (reason is None, reason, since)


def test_agent_that_never_answered_gets_no_grace() -> None:
    """What it holds is not known, so nothing can be read from it."""
    found = only_node(node("node-1"), AgentView(silent_since=NOW))
    assert found.not_ready_reason == Reason.AGENT_NOT_READY


@pytest.mark.parametrize(
    ("labels", "capacity_bytes", "weight"),
    [
        pytest.param({"colocation.dev/weight": "2.5"}, 8 * GIB, 2.5, id="label"),
        pytest.param({"colocation.dev/weight": "0"}, 8 * GIB, 0, id="label that keeps buckets away"),
        pytest.param({}, 8 * GIB, 8, id="size of the disk in GiB"),
        pytest.param({"colocation.dev/weight": "heavy"}, 8 * GIB, 8, id="label that is no number"),
        pytest.param({"colocation.dev/weight": "-1"}, 8 * GIB, 8, id="label below zero"),
    ],
)
def test_weight(labels: dict[str, str], capacity_bytes: int, weight: float) -> None:
    """The label, else the disk."""
    found = only_node(node("node-1", labels=labels), view(capacity_bytes=capacity_bytes))
    assert (found.weight, found.is_weight_known) == (weight, True)


OTHER_DISK = view(capacity_bytes=9 * GIB, disk=DiskReport(id="other", reason=Reason.DISK_MISSING))


@pytest.mark.parametrize(
    ("shown", "labels", "weight"),
    [
        pytest.param(AgentView(silent_since=NOW), {}, (300, False), id="never heard of"),
        pytest.param(AgentView(silent_since=NOW), {"colocation.dev/weight": "7"}, (7, True), id="label"),
        pytest.param(AgentView(silent_since=NOW), {"colocation.dev/weight": "inf"}, (300, False), id="odd label"),
        pytest.param(OTHER_DISK, {}, (300, False), id="another disk, or none, is mounted"),
        pytest.param(view(capacity_bytes=9 * GIB, silent_since=NOW - seconds(99)), {}, (9, True), id="silent"),
    ],
)
def test_weight_that_is_not_known(shown: AgentView, labels: dict[str, str], weight: tuple[float, bool]) -> None:
    """The node counts as one in the middle of the others, and the planner knows that this is a guess."""
    others = {f"node-{size}": view(capacity_bytes=size * GIB) for size in (100, 300, 900)}
    names = ["node-1", *others]
    observed = snapshot(
        nodes=tuple(node(name, labels=labels if name == "node-1" else {}) for name in names),
        agents=tuple(map(agent, names)),
        agent_views={"node-1": shown, **others},
    )
    assert [(one.weight, one.is_weight_known) for one in observed.nodes if one.name == "node-1"] == [weight]


ADMIN_WEIGHT = "colocation.dev.node-restriction.kubernetes.io/weight"


@pytest.mark.parametrize(
    ("disks_gib", "labels", "weight"),
    [
        pytest.param((1_000_000, *[100] * 11), {}, 400, id="a node that claims a huge disk"),
        pytest.param((100, *[100] * 11), {"colocation.dev/weight": "1e9"}, 400, id="a label that a kubelet can set"),
        pytest.param((800, *[100] * 11), {ADMIN_WEIGHT: "800"}, 800, id="a label that only administrators set"),
        pytest.param((800, *[100] * 11), {ADMIN_WEIGHT: "heavy"}, 400, id="that label, but no number"),
        pytest.param((350, *[100] * 11), {}, 350, id="within the bound"),
        pytest.param((900, 100), {}, 400, id="two nodes"),
        pytest.param((900,), {}, 900, id="one node"),
        pytest.param((100, 0, 0, 0), {}, 100, id="the others have not reported"),
        pytest.param((100, 900, 900, 900), {}, 100, id="lighter than the others"),
        pytest.param((1000, 1000, 100), {}, 1000, id="as heavy as the median of the others"),
        pytest.param((400, 100, 100), {}, 400, id="just at the bound"),
    ],
)
def test_no_node_claims_much_more_than_the_others(
    disks_gib: tuple[int, ...], labels: dict[str, str], weight: float
) -> None:
    """At most four times the median of the other nodes' weights; an administrator's label has no bound."""
    names = [f"node-{number}" for number in range(len(disks_gib))]
    nodes = tuple(node(name, labels=labels if name == "node-0" else None) for name in names)
    views = {name: view(capacity_bytes=gib * GIB) for name, gib in zip(names, disks_gib, strict=True)}
    found = snapshot(nodes=nodes, agents=tuple(map(agent, names)), agent_views=views)
    assert found.nodes[0].weight == weight


def test_nodes_that_take_nothing_bound_no_weight() -> None:
    """A label keeps buckets away from all others."""
    names = ("node-0", "node-1", "node-2")
    nodes = tuple(node(name, labels={"colocation.dev/weight": "0"} if name != "node-0" else None) for name in names)
    views = {name: view(capacity_bytes=900 * GIB) for name in names}
    found = snapshot(nodes=nodes, agents=tuple(map(agent, names)), agent_views=views).nodes
    assert [one.weight for one in found] == [900, 0, 0]


@pytest.mark.parametrize("is_schedulable", [True, False])
def test_a_node_whose_holder_is_evicted_is_drained(is_schedulable: bool) -> None:
    """While it is cordoned; a cordoned node takes no new replicas."""
    holder = ObservedHolder("system", "holder", "uid", "node-1", NOW, deleting=True)
    of = replace(node("node-1"), schedulable=is_schedulable)
    [found] = snapshot(nodes=(of,), agents=(agent("node-1"),), agent_views={"node-1": view()}, holders=(holder,)).nodes
    assert (found.schedulable, found.drain) == (is_schedulable, not is_schedulable)
    assert found.drain_message == ("" if is_schedulable else "its holder pod was evicted")


@pytest.mark.parametrize(
    ("labels", "deleting", "drain"),
    [
        pytest.param({"colocation.dev/drain": "true"}, False, True, id="marked"),
        pytest.param({"colocation.dev/drain": "false"}, False, False, id="mark taken back"),
        pytest.param({}, True, True, id="being deleted"),
    ],
)
def test_drain(labels: dict[str, str], deleting: bool, drain: bool) -> None:
    """Marked for drain, or on its way out."""
    assert only_node(node("node-1", labels=labels, deleting=deleting), view()).drain is drain


def test_nodes_that_matter() -> None:
    """Nodes with an agent, and those that a map or a replica names; others are not data nodes."""
    status = ColocationGroupStatus(backends_per_bucket_seq=(("node-2", "gone"), ("node-2", "gone")))
    found = snapshot(
        groups=(group(status=status),),
        nodes=(node("node-1"), node("node-2"), node("control-plane")),
        agents=(agent("node-1"),),
    )
    assert [one.name for one in found.nodes] == ["node-1", "node-2"]


def test_group_is_unstable_since() -> None:
    """From the status, so that a restart forgets nothing; unlisted buckets since the condition changed."""
    first, later = "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"
    status = ColocationGroupStatus.model_validate({
        "unstableBuckets": [UnstableBucket(bucket=0, reason="NodeGone", since=later)], "unstableBucketCount": 2,
        "conditions": [{"type": "Stable", "status": "False", "reason": "NodeGone", "lastTransitionTime": first}],
    })  # fmt: skip
    [found] = snapshot(groups=(group(status=status),)).groups
    assert found.unstable_since == {0: datetime.fromisoformat(later), 1: datetime.fromisoformat(first)}


def test_group_that_was_made_again_takes_the_replicas_that_are_there() -> None:
    """Its map is read off the nodes; a bucket with too few holders is left for repair."""
    orders = table("orders")
    everywhere = {
        "node-0": {0: "corrupt", 1: "partial"},
        "node-1": {0: "complete", 1: "complete"},
        "node-2": {0: "complete"},
        "node-3": {0: "complete"},
    }
    views = {name: view(table_report(orders, states)) for name, states in everywhere.items()}
    [found] = snapshot(
        groups=(group(),),
        tables=(orders,),
        agent_views=views,
        bucket_bytes={("shop", orders.directory, MANIFEST): {0: 50, 1: 50}},
    ).groups
    assert found.map == (("node-1", "node-2"), ("node-1",))


@pytest.mark.parametrize("is_silent", [False, True], ids=["node is not ready", "agent is silent"])
def test_the_map_takes_replicas_on_nodes_that_answer_first(is_silent: bool) -> None:
    """A group that is made while a node is down would wait for that node, although others hold all buckets."""
    orders = table("orders")
    reported = table_report(orders, {0: "complete", 1: "complete"})
    views = {name: view(reported) for name in ("node-2", "node-3")}
    views["node-1"] = view(reported, silent_since=NOW - seconds(90) if is_silent else None)
    [found] = snapshot(
        groups=(group(),),
        tables=(orders,),
        nodes=(node("node-1", ready=is_silent), node("node-2"), node("node-3")),
        agents=tuple(map(agent, views)),
        agent_views=views,
        bucket_bytes={("shop", orders.directory, MANIFEST): {0: 50, 1: 50}},
    ).groups
    assert found.map == (("node-2", "node-3"), ("node-2", "node-3"))


def test_groups_that_go_or_make_no_sense_are_left_out() -> None:
    """Nothing is planned for them."""
    invalid = replace(group("invalid"), spec=None)
    going = replace(group("going"), identity=replace(group("going").identity, deleting=True))
    unread = replace(group("unread"), status_error="status.members: not a list")
    assert snapshot(groups=(invalid, going, unread)).groups == ()


@pytest.mark.parametrize(
    ("rows", "age_seconds", "waits"),
    [
        pytest.param(None, 0, True, id="new"),
        pytest.param(None, 599, True, id="the files may come"),
        pytest.param(None, 600, False, id="the files do not come"),
        pytest.param((("node-1",), ("node-2",)), 0, False, id="it has its map"),
    ],
)
def test_group_without_a_map_waits_for_the_files_of_tables_that_are_made_again(
    rows: tuple[tuple[str, ...], ...] | None, age_seconds: float, waits: bool
) -> None:
    """A map that does not follow them would have everything copied; nothing is planned until they are found."""
    made, lost = table("orders", files=None), table("orders").status.snapshot
    assert lost is not None
    identity = replace(made.identity, created_at=NOW - seconds(age_seconds))
    adopting = replace(made, identity=identity, adopts="0a1b2c3d")
    status = ColocationGroupStatus(backends_per_bucket_seq=rows, map_version=1 if rows else None)
    other = replace(group("other"), identity=replace(group().identity, name="other", uid="other"))
    found = snapshot(groups=(group(status=status), other), tables=(adopting,))
    assert [one.name for one in found.groups] == (["other"] if waits else ["sales", "other"])


@pytest.mark.parametrize(
    ("heard", "waits"), [((), True), (("node-1",), True), (("node-1", "node-2"), False)], ids=["no node", "one", "all"]
)
def test_the_map_waits_until_all_agents_have_reported_on_an_adopted_table(heard: tuple[str, ...], waits: bool) -> None:
    """It has its snapshot: its files may be on any of them."""
    names = ("node-1", "node-2")
    adopting = replace(table("orders"), adopts="0a1b2c3d")
    shown = {name: view(table_report(adopting, {0: "complete"})) if name in heard else view() for name in names}
    found = snapshot(
        groups=(group(),), tables=(adopting,), nodes=tuple(map(node, names)), agents=tuple(map(agent, names)),
        agent_views=shown,
    )  # fmt: skip
    assert (found.groups == ()) is waits


def test_balancing_waits_while_all_tables_leave() -> None:
    """Moves would be in vain; also for an empty group to which tables come where its map is now."""
    stays, leaves, comes = placed("a", "sales", "sales"), placed("b", "sales", "stock"), placed("c", "stock", "sales")
    other = replace(group("stock"), identity=replace(group().identity, name="stock", uid="stock"))
    for tables, enabled in (
        ((stays, leaves), True), ((leaves,), False), ((comes,), False), ((stays, comes), True), ((), True),
    ):  # fmt: skip
        here = [one for one in tables if one.status.group == "sales"]
        groups = (remembering(group(), *here), remembering(other, *(one for one in tables if one not in here)))
        [found] = [one for one in snapshot(groups=groups, tables=tables).groups if one.name == "sales"]
        assert found.spec.balancing.enabled is enabled


def test_a_map_is_read_off_tables_that_arrive_too() -> None:
    """The group was made again, and has no table yet."""
    comes = placed("c", "stock", "sales")
    other = replace(group("stock"), identity=replace(group().identity, name="stock", uid="stock"))
    views = {name: view(table_report(comes, {0: "complete", 1: "complete"})) for name in ("node-1", "node-2")}
    [found] = [
        one for one in snapshot(
            groups=(group(), remembering(other, comes)), tables=(comes,), agent_views=views,
            bucket_bytes={("shop", comes.directory, MANIFEST): {0: 50, 1: 50}},
        ).groups if one.name == "sales"
    ]  # fmt: skip
    assert found.map == (("node-1", "node-2"), ("node-1", "node-2"))


@pytest.mark.parametrize(
    ("listed", "count", "since"),
    [
        pytest.param({0: "11:00"}, 1, {0: "11:00"}, id="all are listed"),
        pytest.param({0: "11:00"}, 2, {0: "11:00", 1: "10:00"}, id="one is not"),
        pytest.param({0: "13:00"}, 1, {0: "12:00"}, id="a clock was ahead"),
        pytest.param({}, None, {}, id="none is"),
    ],
)
def test_since_when_buckets_are_unstable(listed: dict[int, str], count: int | None, since: dict[int, str]) -> None:
    """Never in the future."""
    status = ColocationGroupStatus.model_validate({
        "unstableBuckets": [
            UnstableBucket(bucket=number, reason="NodeGone", since=f"2026-11-21T{time}:00Z")
            for number, time in listed.items()
        ],
        "unstableBucketCount": count,
        "conditions": [
            {"type": kind, "status": "False", "reason": "NodeGone", "lastTransitionTime": f"2026-11-21T{time}:00Z"}
            for kind, time in (("Ready", "09:00"), ("Stable", "10:00"))
        ],
    })  # fmt: skip
    [found] = snapshot(groups=(group(status=status),)).groups
    assert {number: f"{time:%H:%M}" for number, time in found.unstable_since.items()} == since
