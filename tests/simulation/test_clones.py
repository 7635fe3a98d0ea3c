"""Clone Jobs that do not start, hang, fail again and again, or find no room: given up, left out, named."""

import pytest

from colocation.controller.metrics import Metrics
from colocation.kube.api import GROUPS, JOBS

from .disks import GIB
from .loads import APPEND, EVERY_BUCKET
from .scenes import MINUTE, Scene, created, play, spec_of
from .test_tables import group_of, move, two_groups
from .users import SHOP


async def repairing(scene: Scene, loads: int = 1) -> None:
    """The only bucket has lost a replica for good, and its clone Job has just been created."""
    await scene.make(buckets=1, change=EVERY_BUCKET)
    for _ in range(loads - 1):
        await scene.load(EVERY_BUCKET)
    await scene.until_well()
    await scene.sleep(MINUTE)
    scene.world.delete_node(scene.rows()[0][0])
    await scene.until(scene.jobs, 2 * MINUTE)


def targets(scene: Scene) -> list[str]:
    """Of the clone Jobs that exist."""
    return [spec_of(job).target for job in scene.jobs()]


STANDSTILLS = {
    "its pod does not start": ("holds_jobs", 120, "type=Warning): ImagePullBackOff: Back-off"),
    "it hangs": ("hangs", 180, "it has not advanced for 180 s"),
}


@pytest.mark.parametrize("case", STANDSTILLS)
def test_a_clone_that_makes_no_progress_is_given_up(case: str) -> None:
    """Not before its time; the failure is counted, reported with its cause, and followed by the next attempt."""
    kind, seconds, cause = STANDSTILLS[case]

    async def story(scene: Scene) -> None:
        scene.world.kubelet.files_per_look = 0 if kind == "hangs" else 2
        for machine in scene.world.machines.values():
            machine.holds_jobs = kind == "holds_jobs"
        await repairing(scene)
        jobs = scene.recorded(JOBS)
        await scene.sleep(seconds - 20)
        assert not any(event.deleted for event in jobs)
        await scene.until(lambda: scene.events("CloneFailed"), MINUTE)
        await scene.until(lambda: any(event.deleted for event in jobs), MINUTE)
        assert cause in scene.events("CloneFailed")[0]["message"]
        assert scene.status()["clones"]["failed"] == 1
        assert [one["failures"] for one in scene.status()["failingTargets"]] == [1]
        scene.world.kubelet.files_per_look = 2
        for machine in scene.world.machines.values():
            machine.holds_jobs = False
        await scene.until_well()
        assert len(created(jobs)) == 1, "one more attempt was enough"

    play(story, settings={"clone_deadline_seconds": 180})


def test_a_slow_clone_goes_on() -> None:
    """It may take many times its deadline, as long as its bytes grow."""

    async def story(scene: Scene) -> None:
        kubelet = scene.world.kubelet
        kubelet.files_per_look = 1
        await repairing(scene, loads=8)
        jobs, began_at = scene.recorded(JOBS), scene.world.loop.elapsed
        while scene.jobs():
            kubelet.files_per_look = 0
            await scene.sleep(100)
            kubelet.files_per_look = 1
            await scene.sleep(4)
        assert scene.world.loop.elapsed - began_at > 3 * 180
        assert not created(jobs) and not scene.events("CloneFailed")
        await scene.until_well()

    play(story, settings={"clone_deadline_seconds": 180})


def test_progress_is_written_in_tenths_and_measured_exactly() -> None:
    """P8: each write of a status is a new revision of the whole map in etcd."""

    async def story(scene: Scene) -> None:
        scene.world.kubelet.files_per_look = 1
        await repairing(scene, loads=40)
        writes, metrics = scene.recorded(GROUPS), Metrics()
        measured: set[float | None] = set()
        while scene.jobs():
            await scene.sleep(1)
            assert scene.operator.last is not None
            metrics.show(scene.operator.last)
            labels = {"namespace": SHOP, "group": "sales", "part": "done"}
            measured.add(metrics.registry.get_sample_value("colocation_group_clone_bytes", labels))
        shown = {event.body["status"].get("clones", {}).get("bytesDone") for event in writes}
        assert len(measured) > 15
        assert len(writes) <= 10 + 5, "ten steps, and the end of the repair"
        assert len(shown) <= 12

    play(story)


@pytest.mark.parametrize("restarting", [False, True], ids=["one operator", "restarted all the time"])
def test_a_node_on_which_clones_fail_again_and_again_is_left_out(restarting: bool) -> None:
    """After three failures the replica goes elsewhere, and the repair ends; an event names node and cause."""

    async def story(scene: Scene) -> None:
        for machine in scene.world.machines.values():
            machine.holds_jobs = True
        await repairing(scene)
        [sick] = targets(scene)
        jobs = scene.recorded(JOBS)
        for name, machine in scene.world.machines.items():
            machine.holds_jobs, machine.sick = False, name == sick
        while not scene.is_stable():
            if restarting:
                scene.operator.restart()
            await scene.sleep(15)
        assert [spec_of(job).target for job in created(jobs)].count(sick) == 2, "after the first one"
        assert not any(sick in row for row in scene.rows())
        [event] = scene.events("TargetFailing")
        assert f"3 clones in a row to node {sick} failed" in event["message"]
        cause = "CloneFailed: the disk does not take it"
        assert {one["message"].partition("failed: ")[2] for one in scene.events("CloneFailed")} == {cause}
        assert cause in event["message"]
        failing = [(one["node"], one["failures"], one["message"]) for one in scene.status()["failingTargets"]]
        assert failing == [(sick, 3, cause)]

    play(story, nodes=4)


def test_a_group_reports_that_only_a_failing_node_is_left() -> None:
    """The node is tried again when its time is over."""

    async def story(scene: Scene) -> None:
        await repairing_on_a_sick_node(scene)
        await scene.until(lambda: scene.condition("Stalled", scene.group())[1] == "TargetFailing", 10 * MINUTE)
        [sick] = [name for name in scene.world.machines if name not in scene.rows()[0]]
        assert sick in scene.condition("Stalled", scene.group())[2]
        scene.world.machines[sick].sick = False
        await scene.until_well()
        assert not scene.status().get("failingTargets")

    play(story, nodes=3)


async def repairing_on_a_sick_node(scene: Scene) -> None:
    await scene.make(buckets=1, change=EVERY_BUCKET)
    await scene.sleep(MINUTE)
    for name, machine in scene.world.machines.items():
        machine.sick = name not in scene.rows()[0]
    scene.world.delete_node(scene.rows()[0][0])
    await scene.until(scene.jobs, 2 * MINUTE)


def test_a_table_that_moves_leaves_failing_nodes_out() -> None:
    """Its clones are counted like a group's, and it names what it waits for."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        arrival = scene.rows("stock")[0]
        for node in arrival:
            scene.world.machines[node].sick = True
        move(scene, "stock")
        await scene.until(lambda: scene.condition("Stalled", scene.table())[1] == "TargetFailing", 20 * MINUTE)
        assert "it is tried again at" in scene.condition("Stalled", scene.table())[2]
        failing = scene.status("stock")["failingTargets"]
        assert {one["node"] for one in failing} <= set(arrival) and any(one["failures"] >= 3 for one in failing)
        for node in arrival:
            scene.world.machines[node].sick = False
        await scene.until(lambda: group_of(scene) == "stock", 60 * MINUTE)
        await scene.until_well()

    play(story, nodes=4)


def wanted_bytes(scene: Scene, node: str, table: str = "orders") -> int:
    """What the table lacks on a node that is to hold all of its buckets."""
    files = scene.world.committed(scene.table(table))
    return sum(file.size_bytes for file in files if not scene.world.machines[node].disk.holds(file))


def leave_room(scene: Scene, node: str, size_bytes: int) -> None:
    """The node's disk has so much room for clones: a tenth of it stays free, and agents round what they report."""
    disk = scene.world.machines[node].disk
    disk.foreign_bytes += disk.free_bytes - (disk.capacity_bytes // 10 + 1) - size_bytes
    scene.world.machines[node].agent.ring()


def test_a_move_without_room_starts_nothing_and_reports_what_is_short() -> None:
    """Node, bytes wanted and bytes free, in the same words in conditions and event. With room it goes on by itself."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        await scene.sleep(MINUTE)
        node, jobs = scene.rows("stock")[0][0], scene.recorded(JOBS)
        wanted = wanted_bytes(scene, node)
        leave_room(scene, node, wanted // 2)
        await scene.sleep(10)
        move(scene, "stock")
        await scene.until(lambda: scene.condition("Stalled", scene.table())[1] == "InsufficientSpace", MINUTE)
        shown = scene.condition("Stalled", scene.table())
        assert f"node {node} is to take {wanted} bytes and has room for " in shown[2]
        assert "(10 % of a disk stays free)" in shown[2]
        assert scene.condition("Reconciling", scene.table()) == shown
        assert f"InsufficientSpace: {shown[2]}" in [event["message"] for event in scene.events("Stalled")]
        await scene.sleep(2 * MINUTE)
        assert not jobs and group_of(scene) == "sales"
        scene.world.machines[node].disk.foreign_bytes -= 20 * GIB
        scene.world.machines[node].agent.ring()
        await scene.until(lambda: group_of(scene) == "stock", 10 * MINUTE)
        assert scene.condition("Stalled", scene.table()) == ("", "", "")
        await scene.until_well()

    play(story, nodes=4)


def test_every_node_without_room_is_named() -> None:
    """A full disk has room for 0 bytes, never for less."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        arrival = scene.rows("stock")[0]
        for node in arrival:
            scene.world.machines[node].disk.foreign_bytes = scene.world.machines[node].disk.capacity_bytes
            scene.world.machines[node].agent.ring()
        await scene.sleep(10)
        move(scene, "stock")
        await scene.until(lambda: scene.condition("Stalled", scene.table())[1] == "InsufficientSpace", MINUTE)
        message = scene.condition("Stalled", scene.table())[2]
        assert all(f"node {node} is to take {wanted_bytes(scene, node)} bytes and has room for 0" in message
                   for node in arrival)  # fmt: skip
        move(scene, "sales")
        await scene.sleep(MINUTE)

    play(story, nodes=4)


def test_two_moves_do_not_share_the_same_room() -> None:
    """The second waits until there is room for both."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        await scene.sleep(MINUTE)
        node = scene.rows("stock")[0][0]
        first, second = (wanted_bytes(scene, node, table) for table in ("customers", "orders"))
        leave_room(scene, node, max(first, second) + min(first, second) // 2)
        for machine in scene.world.machines.values():
            machine.holds_jobs = True
        await scene.sleep(10)
        for table in ("customers", "orders"):
            scene.users.patch_table(scene.table(table), {"colocateWith": "stock"})
        await scene.until(lambda: scene.condition("Reconciling", scene.table())[1] == "InsufficientSpace", MINUTE)
        assert scene.condition("Reconciling", scene.table("customers"))[1] == "Moving"
        copied = {table.directory.rpartition("-")[0] for job in scene.jobs() for table in spec_of(job).tables}
        assert copied == {"customers"}
        for machine in scene.world.machines.values():
            machine.holds_jobs = False
        scene.world.machines[node].disk.foreign_bytes -= 20 * GIB
        await scene.until(lambda: group_of(scene) == "stock", 20 * MINUTE)
        await scene.until_well()

    play(story, nodes=4)


def test_moves_keep_to_the_clusters_bandwidth() -> None:
    """They leave a share of it to repairs."""
    settings = {"clone_mib_per_second_per_cluster": 8.0, "max_concurrent_clones_per_node": 9}

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        await scene.sleep(MINUTE)
        move(scene, "stock")
        await scene.until(lambda: len(scene.jobs()) == 3, MINUTE)
        assert [spec_of(job).max_bandwidth_mib_per_second for job in scene.jobs()] == [2.0] * 3
        await scene.until(lambda: group_of(scene) == "stock", 10 * MINUTE)
        await scene.until_well()

    play(story, nodes=4, settings=settings)


def test_a_move_to_a_group_without_a_map_waits_for_it() -> None:
    """Why the group has no map is in its own status."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        scene.users.make_table("empty", "sales")
        await scene.sleep(20)
        scene.users.make_group("wide", buckets=4, replicas=5)
        scene.users.patch_table(scene.table("empty"), {"colocateWith": "wide"})
        message = "from group sales, which places it until then, to group wide, which has no map yet"
        expected = ("True", "Moving", message)
        await scene.until(lambda: scene.condition("Reconciling", scene.table("empty")) == expected, MINUTE)
        assert group_of(scene, "empty") == "sales"

    play(story, nodes=4)


def test_a_verdict_is_written_although_etcd_refuses_the_whole_status() -> None:
    """The verdict alone is short. What was written before stays, and the map follows the repair."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4, change=APPEND, relocation={"downToleranceSeconds": 120})
        await scene.sleep(MINUTE)
        members, lost = scene.status()["members"], scene.rows()[0][0]
        scene.world.api.refuse_status_of((SHOP, "sales"))
        scene.world.take_down(lost)
        await scene.until(lambda: not scene.is_stable(), 2 * MINUTE)
        assert scene.status()["reason"] in ("NodeNotReady", "AgentNotReady")
        assert scene.condition("Stable", scene.group())[0] == "False"
        assert scene.condition("Stalled", scene.group())[:2] == ("True", "StatusNotWritten")
        assert scene.status()["members"] == members
        await scene.until(scene.is_stable, 20 * MINUTE)
        assert not any(lost in row for row in scene.rows())
        scene.world.api.refused.clear()
        scene.world.bring_up(lost)
        await scene.until_well()

    play(story, nodes=4)
