"""Which disk a node has, what is wrong with it, and what that makes of the node (D1, D2)."""

from dataclasses import replace
from datetime import datetime

import pytest

from colocation.model.agent import DiskReport
from colocation.model.conditions import Reason
from colocation.model.group import ColocationGroupStatus, RememberedDisk
from colocation.state.agent_view import AgentView
from colocation.state.nodes import next_disks, nodes_without_their_disk
from colocation.state.objects import ObservedGroup, ObservedNode
from colocation.state.observation import Observation

from .objects import GIB, NOW, agent, group, node, seconds, view
from .test_snapshot import snapshot

OURS, OTHER = "0" * 16, "1" * 16
NODE = replace(node("node-1"), uid="12345678-9abc")


def telling(disk: DiskReport | None, uptime_seconds: float = 100.0) -> AgentView:
    """An agent's last word, just now."""
    shown = view()
    assert shown.report is not None
    return replace(shown, report=shown.report.model_copy(update={"disk": disk, "uptime_seconds": uptime_seconds}))


def remembering(disk: str = OURS, node_uid: str = "12345678") -> ObservedGroup:
    """A group that remembers node-1's disk."""
    disks = (RememberedDisk(node="node-1", node_uid=node_uid, disk=disk),)
    return group(status=ColocationGroupStatus(disks=disks))


WELL = DiskReport(id=OURS)
NEW = DiskReport(id=OTHER)
FULL = DiskReport(id=OURS, reason="DiskFull", since_uptime_seconds=40)
READ_ONLY = DiskReport(id=OURS, reason="DiskReadOnly", since_uptime_seconds=40)
FAILING = DiskReport(id=OURS, reason="DiskFailing", since_uptime_seconds=40)
UNKNOWN = DiskReport(id=OURS, reason="DiskOnFire", since_uptime_seconds=40)
GONE = DiskReport(id=OURS, reason="DiskMissing", since_uptime_seconds=40)
ACCEPTED = replace(NODE, accepted_disk=OTHER)
MADE_AGAIN = replace(NODE, uid="abcdef00-1234")
BEGAN, BROKE = NOW - seconds(100), NOW - seconds(60)


@pytest.mark.parametrize(
    ("of", "disk", "ready", "takes_more", "reason", "since"),
    [
        pytest.param(NODE, WELL, True, True, None, None, id="well"),
        pytest.param(NODE, None, True, True, None, None, id="an agent of the release before"),
        pytest.param(NODE, DiskReport(), True, True, None, None, id="no marker yet"),
        pytest.param(NODE, FULL, True, False, "DiskFull", BROKE, id="full"),
        pytest.param(NODE, READ_ONLY, True, False, "DiskReadOnly", BROKE, id="read-only"),
        pytest.param(NODE, FAILING, True, False, "DiskFailing", BROKE, id="failing"),
        pytest.param(NODE, UNKNOWN, True, False, "DiskFailing", BROKE, id="a word of a later release"),
        pytest.param(NODE, GONE, False, True, "DiskMissing", BROKE, id="unmounted under the agent"),
        pytest.param(NODE, NEW, False, True, "DiskMissing", BEGAN, id="another disk, since the agent began"),
        pytest.param(ACCEPTED, NEW, True, True, None, None, id="another disk, accepted"),
        pytest.param(replace(NODE, accepted_disk="2" * 16), NEW, False, True, "DiskMissing", BEGAN, id="a third one"),
        pytest.param(MADE_AGAIN, NEW, True, True, None, None, id="another machine of that name"),
    ],
)
def test_what_a_disk_makes_of_its_node(
    of: ObservedNode, disk: DiskReport | None, ready: bool, takes_more: bool, reason: str | None, since: datetime | None
) -> None:
    """A missing disk is a node that is away, where nothing is deleted; a sick one takes nothing more."""
    views = {"node-1": telling(disk)}
    [found] = snapshot(groups=(remembering(),), nodes=(of,), agents=(agent("node-1"),), agent_views=views).nodes
    without = nodes_without_their_disk(Observation(NOW, groups=(remembering(),), nodes=(of,), agent_views=views))
    assert bool(without) == (reason == "DiskMissing")
    assert (found.ready, found.schedulable) == (ready, takes_more)
    assert (found.not_ready_reason or found.disk_reason) == reason
    assert (found.not_ready_since or found.disk_since) == since


@pytest.mark.parametrize(
    ("remembered", "silent", "away"),
    [
        pytest.param((), (), {"node-1", "node-2"}, id="before any replica: none of them may have it"),
        pytest.param(("node-2",), (), {"node-1"}, id="a node that came later"),
        pytest.param(("node-1", "node-2"), (), {"node-1", "node-2"}, id="both held replicas there"),
        pytest.param((), ("node-1",), set(), id="moved from a node whose agent is silent"),
    ],
)
def test_nodes_that_share_a_data_root(remembered: tuple[str, ...], silent: tuple[str, ...], away: set[str]) -> None:
    """Each would delete what the others keep, so they count as away, and say what to do."""
    names = ("node-1", "node-2")
    disks = tuple(RememberedDisk(node=name, node_uid="12345678", disk=OURS) for name in remembered)
    views = {name: replace(telling(WELL), silent_since=NOW if name in silent else None) for name in names}
    groups = (group(status=ColocationGroupStatus(disks=disks)),)
    nodes = tuple(replace(node(name), uid="12345678-9abc") for name in names)
    agents = tuple(agent(name) for name in names)
    found = snapshot(groups=groups, nodes=nodes, agents=agents, agent_views=views).nodes
    assert {one.name for one in found if one.not_ready_reason == "DiskMissing"} == away
    assert nodes_without_their_disk(Observation(NOW, groups=groups, nodes=nodes, agent_views=views)) == away
    for one in found:
        if one.name in away:
            assert "Give each node a data root of its own" in one.not_ready_message


def test_what_a_missing_disk_reports() -> None:
    """Which disk is there, which was, and the command for one that is there to stay."""
    views = {"node-1": telling(NEW)}
    [found] = snapshot(groups=(remembering(),), nodes=(NODE,), agents=(agent("node-1"),), agent_views=views).nodes
    assert OURS in found.not_ready_message
    assert f"colocation accept-disk node-1 {OTHER}" in found.not_ready_message


def test_an_agent_that_kubernetes_calls_unready_takes_no_replicas() -> None:
    """It keeps what it has: its probes may fail for a moment."""
    unready = replace(agent("node-1"), ready=False)
    [found] = snapshot(nodes=(NODE,), agents=(unready,), agent_views={"node-1": telling(WELL)}).nodes
    assert (found.ready, found.schedulable) == (True, False)


@pytest.mark.parametrize(
    ("of", "before", "disk", "after"),
    [
        pytest.param(NODE, None, WELL, OURS, id="seen for the first time"),
        pytest.param(NODE, None, None, None, id="not known"),
        pytest.param(NODE, OURS, NEW, OURS, id="another disk is not taken for it"),
        pytest.param(NODE, OURS, None, OURS, id="a silent agent changes nothing"),
        pytest.param(ACCEPTED, OURS, NEW, OTHER, id="accepted"),
        pytest.param(ACCEPTED, OURS, WELL, OURS, id="accepted, but the old one is back"),
        pytest.param(MADE_AGAIN, OURS, NEW, OTHER, id="another machine"),
        pytest.param(MADE_AGAIN, OURS, None, None, id="another machine, not heard yet"),
    ],
)
def test_what_a_group_remembers(
    of: ObservedNode, before: str | None, disk: DiskReport | None, after: str | None
) -> None:
    """The disk of each node of its map."""
    known = remembering(before).status.disks if before else ()
    observation = Observation(NOW, nodes=(of,), agent_views={"node-1": telling(disk)})
    found = next_disks(known, {"node-1"}, observation, ())
    assert [one.disk for one in found] == ([after] if after else [])


def test_it_is_remembered_after_the_map_has_left() -> None:
    """Else the empty folder of a disk that is not mounted would be filled as soon as the replicas are elsewhere."""
    observation = Observation(NOW, nodes=(NODE,), agent_views={"node-1": telling(NEW)})
    assert next_disks(remembering().status.disks, frozenset(), observation, {"node-1"}) == remembering().status.disks
    assert next_disks(remembering().status.disks, frozenset(), replace(observation, nodes=()), ()) == ()


def test_a_new_group_does_not_take_a_missing_disk_for_its_own() -> None:
    """Another group knows which one was here."""
    observation = Observation(NOW, nodes=(NODE,), agent_views={"node-1": telling(NEW)})
    assert next_disks((), {"node-1"}, observation, {"node-1"}) == ()


@pytest.mark.parametrize("reason", [Reason.DISK_FULL, Reason.DISK_FAILING])
def test_times_that_make_no_sense(reason: Reason) -> None:
    """What agents write is not believed: a fault is never of the future, and no number breaks a pass."""
    for since in (1e300, -1e300, 101.0):
        views = {"node-1": telling(DiskReport(id=OURS, reason=reason, since_uptime_seconds=since))}
        [found] = snapshot(nodes=(NODE,), agents=(agent("node-1"),), agent_views=views).nodes
        assert found.disk_since is not None
        assert found.disk_since <= NOW


def test_a_node_that_is_down_is_so_whatever_disk_it_has() -> None:
    """The first cause is reported."""
    down = replace(NODE, ready=False, not_ready_message="kubelet is silent")
    views = {"node-1": telling(NEW)}
    [found] = snapshot(groups=(remembering(),), nodes=(down,), agents=(agent("node-1"),), agent_views=views).nodes
    assert (found.not_ready_reason, found.not_ready_message) == ("NodeNotReady", "kubelet is silent")


def test_nodes_without_a_marker_share_nothing() -> None:
    """Their agents have just begun."""
    names = ("node-1", "node-2")
    views = {name: telling(DiskReport()) for name in names}
    assert nodes_without_their_disk(Observation(NOW, nodes=tuple(map(node, names)), agent_views=views)) == frozenset()


def test_a_disk_without_a_marker_is_not_the_known_one() -> None:
    """Nor another one: it may be the known one, whose marker cannot be read for the moment."""
    views = {"node-1": telling(DiskReport())}
    observation = Observation(NOW, groups=(remembering(),), nodes=(NODE,), agent_views=views)
    assert nodes_without_their_disk(observation) == frozenset()


def test_what_the_planner_learns_of_a_disk() -> None:
    """Its size, what is free, which it is, and what is wrong with it."""
    fault = DiskReport(id=OURS, reason="DiskFull", message="no space left", since_uptime_seconds=40)
    for disk, expected in ((fault, (OURS, "no space left")), (WELL, (OURS, "")), (None, ("", ""))):
        [found] = snapshot(nodes=(NODE,), agents=(agent("node-1"),), agent_views={"node-1": telling(disk)}).nodes
        assert (found.disk_id, found.disk_message) == expected
        assert (found.capacity_bytes, found.free_bytes) == (GIB, GIB // 2)
    [silent] = snapshot(nodes=(NODE,), agents=(agent("node-1"),)).nodes
    assert (silent.capacity_bytes, silent.free_bytes, silent.disk_id) == (0, 0, "")


def test_of_several_known_disks_one_is_named() -> None:
    """Groups may remember different ones of one node; the message is the same in each pass."""
    disks, views = ("9" * 16, OURS), {"node-1": telling(NEW)}
    groups = tuple(replace(remembering(disk), identity=replace(group().identity, name=disk)) for disk in disks)
    for known in (groups, groups[::-1]):
        [found] = snapshot(groups=known, nodes=(NODE,), agents=(agent("node-1"),), agent_views=views).nodes
        assert f"instead of {OURS};" in found.not_ready_message


def test_disks_are_remembered_in_order_and_without_nodes_that_are_gone() -> None:
    """Else the status would be written with each pass."""
    names = [f"node-{number}" for number in range(1, 9)]
    nodes = tuple(replace(NODE, name=name) for name in names)
    views = {name: telling(DiskReport(id=name[-1] * 16)) for name in names[1:]}
    gone = RememberedDisk(node="a-node", node_uid="12345678", disk=OURS)
    observation = Observation(NOW, nodes=nodes, agent_views={**views, "node-1": AgentView()})
    found = next_disks((gone,), {"a-node", *names}, observation, ())
    assert [one.node for one in found] == names[1:]


@pytest.mark.parametrize(("seconds_ago", "since"), [(0, BROKE), (30, BROKE - seconds(30))])
def test_a_fault_is_as_old_as_the_answer_makes_it(seconds_ago: float, since: datetime) -> None:
    """An agent tells by its own clock how long before its answer it began."""
    views = {"node-1": replace(telling(FULL), answered_at=NOW - seconds(seconds_ago))}
    [found] = snapshot(nodes=(NODE,), agents=(agent("node-1"),), agent_views=views).nodes
    assert found.disk_since == since
