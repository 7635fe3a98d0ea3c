"""Each scene shows one finding of the review of the control plane: it fails on the code that was reviewed."""

import math

import pytest

from colocation.kube.api import GROUPS, TABLES

from .api import Event
from .disks import GIB, File
from .loads import APPEND_TO_SOME, EMPTY, OVERWRITE
from .scenes import MINUTE, Scene, play
from .users import HOSTILE_FIELDS, HOSTILE_VALUES, SHOP


def test_garbage_collection_keeps_the_files_of_a_table_that_is_being_recovered() -> None:
    """C3: a node that is needed is away for longer than the grace; meanwhile nothing of the rest may go."""

    async def story(scene: Scene) -> None:
        await scene.make(replicas=1, retention={"seconds": 0, "snapshots": 0})
        await scene.load(OVERWRITE)
        needed = scene.rows()[0][0]
        scene.users.drop_table(scene.table())
        await scene.until(lambda: scene.status().get("recycled"), MINUTE)
        await scene.sleep(30)
        scene.world.take_down(needed)
        scene.users.ask_back(scene.group(), scene.status()["recycled"][0])
        await scene.sleep(3 * scene.world.limits.garbage_grace)
        scene.world.bring_up(needed)
        await scene.until(scene.is_loaded, 5 * MINUTE)
        await scene.until_well()

    play(story, nodes=2)


def test_a_burst_of_commits_leaves_queries_their_files() -> None:
    """S1: on a table that was quiet for longer than the grace; afterwards they go."""

    async def story(scene: Scene) -> None:
        await scene.make(retention={"seconds": 86400, "snapshots": 1})
        grace_seconds = scene.world.limits.garbage_grace
        await scene.sleep(2 * grace_seconds)
        planned = scene.world.committed(scene.table())
        for _ in range(2):
            await scene.load(OVERWRITE)
        left_at = scene.world.loop.elapsed
        while scene.world.loop.elapsed < left_at + grace_seconds - 10:
            await scene.sleep(5)
            assert all(scene.world.holders(file) for file in planned)
        await scene.until(lambda: not any(map(scene.world.holders, planned)), 2 * grace_seconds)
        await scene.until_well()

    play(story)


def test_an_order_that_runs_late_deletes_nothing_that_is_wanted_by_then() -> None:
    """C4: the surplus copy that is to go is the only one of the map when the order arrives."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=1, replicas=1)
        first = scene.rows()[0][0]
        scene.world.network.hold_orders_to[first] = 400.0
        scene.users.drain_node(first, True)
        await scene.until(lambda: scene.rows()[0][0] != first, 5 * MINUTE)
        await scene.sleep(40)
        second = scene.rows()[0][0]
        scene.users.drain_node(first, False)
        scene.users.drain_node(second, True)
        await scene.sleep(15 * MINUTE)
        scene.world.network.hold_orders_to.clear()
        await scene.until_well()

    play(story, nodes=2)


@pytest.mark.parametrize("case", ["late", "late, agent restarted", "late, operator restarted", "again"])
def test_an_order_that_arrives_when_its_replica_is_wanted_again_is_refused(case: str) -> None:
    """C4, at the worst moment: just when the map names the replica again, before or after the agent learns of it."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=1, replicas=1)
        await scene.sleep(5 * MINUTE)
        network, first = scene.world.network, scene.rows()[0][0]
        delay = 2.0 if case == "again" else 0.0

        def deliver(event: Event) -> None:
            rows = event.body.get("status", {}).get("backendsPerBucketSeq")
            if event.resource == GROUPS and rows == [[first]]:
                scene.world.loop.call_later(delay, network.deliver_kept)

        if case == "again":
            network.repeat_orders_to = first
        else:
            network.hold_orders_to[first] = math.inf
        scene.users.drain_node(first, True)
        await scene.until(lambda: scene.rows()[0][0] != first, 5 * MINUTE, 0.1)
        second = scene.rows()[0][0]
        await scene.sleep(4)
        scene.world.api.watchers.append(deliver)
        if "agent" in case:
            scene.world.restart_agent(first)
        if "operator" in case:
            scene.operator.restart()
        scene.users.drain_node(first, False)
        scene.users.drain_node(second, True)
        await scene.until(lambda: scene.rows()[0][0] == first, 5 * MINUTE)
        await scene.sleep(MINUTE)
        network.repeat_orders_to = ""
        network.hold_orders_to.clear()
        await scene.until_well()

    play(story, nodes=2)


@pytest.mark.parametrize("phase_seconds", [step * 0.25 for step in range(24)])
def test_what_happens_while_agents_are_asked_is_not_missed(phase_seconds: float) -> None:
    """C5: a change of a table at any moment of a pass is heard within seconds, not with the next full list."""

    async def story(scene: Scene) -> None:
        await scene.make()
        scene.world.network.faults.slow_rate = 1.0
        scene.world.network.faults.slowest_seconds = 1.0
        await scene.sleep(20 + phase_seconds)
        scene.world.start_agent_pod(scene.rows()[0][0])
        await scene.sleep(1)
        scene.users.patch_table(scene.table(), {"recycleAfterSeconds": 4711})
        await scene.until(lambda: scene.status()["members"][0]["recycleAfterSeconds"] == 4711, 40)

    play(story)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("fault", ["sick", "holds_jobs"])
def test_a_node_that_takes_no_clone_does_not_block_a_repair_for_ever(fault: str, which: int) -> None:
    """C6: of two spare nodes one fails every clone, or starts none: the other one gets them."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=3, relocation={"downToleranceSeconds": 0}, balancing={"enabled": False})
        spare = [scene.world.add_node() for _ in range(2)]
        setattr(scene.world.machines[spare[which]], fault, True)
        await scene.sleep(20)
        scene.world.delete_node(scene.rows()[0][0])
        await scene.until(lambda: not scene.is_stable(), MINUTE)
        await scene.until(scene.is_stable, 60 * MINUTE)

    play(story, nodes=2)


def test_an_agent_that_falls_silent_is_lost_although_all_clocks_are_stepped_back() -> None:
    """C7: silence is timed by a clock that no step moves."""

    async def story(scene: Scene) -> None:
        await scene.make()
        scene.world.network.cut_off(scene.rows()[0][0])
        await scene.sleep(10)
        scene.operator.wall.step_seconds -= 3600
        scene.world.api_wall.step_seconds -= 3600
        await scene.until(lambda: not scene.is_stable(), 2 * MINUTE)

    play(story)


def test_a_verdict_stands_while_a_new_operator_waits_for_slow_agents() -> None:
    """C8: the group is stable all the time, and nothing is moved."""

    async def story(scene: Scene) -> None:
        await scene.make(relocation={"downToleranceSeconds": 0})
        rows = scene.rows()
        scene.world.network.faults.slow_rate = 1.0
        scene.world.network.faults.slowest_seconds = 9.0
        for _ in range(3):
            scene.operator.restart()
            for _ in range(40):
                await scene.sleep(1)
                assert scene.is_stable(), scene.status()
        assert scene.rows() == rows
        assert not scene.jobs()

    play(story)


def test_a_verdict_stands_while_slow_agents_are_asked_about_a_commit() -> None:
    """C8: no bucket is called incomplete, and no clone Job starts from a node to itself."""

    async def story(scene: Scene) -> None:
        await scene.make()
        scene.world.network.faults.slow_rate = 1.0
        scene.world.network.faults.slowest_seconds = 6.0
        for _ in range(3):
            await scene.load()
            for _ in range(30):
                await scene.sleep(1)
                assert scene.is_stable(), scene.status()
                assert not scene.jobs()

    play(story)


def test_the_restart_of_an_agent_rewrites_nothing_of_groups_elsewhere() -> None:
    """C9: a group's ConfigMap names the agents of its own nodes."""

    async def story(scene: Scene) -> None:
        await scene.make()
        elsewhere = scene.world.add_node()
        scene.world.label(elsewhere, "disks", "slow")
        scene.users.patch_group(scene.group(), {"nodeSelector": {"disks": "fast"}})
        await scene.sleep(30)
        before = scene.operator.writes
        scene.world.start_agent_pod(elsewhere)
        await scene.sleep(20)  # the ConfigMap is renewed once in a minute anyway
        assert scene.operator.writes == before, scene.world.timeline[-5:]

    play(story)


def test_a_status_that_etcd_refuses_blocks_no_repair() -> None:
    """C10: replicas of a lost node are made again, while the group's status cannot be written in full."""

    async def story(scene: Scene) -> None:
        await scene.make(relocation={"downToleranceSeconds": 0})
        key = (scene.group()["metadata"]["namespace"], "sales")
        scene.world.add_node()
        scene.world.api.refuse_status_of(key)
        scene.world.delete_node(scene.rows()[0][0])
        await scene.until(lambda: scene.jobs(), 2 * MINUTE)
        scene.world.api.refused.clear()
        await scene.until_well()

    play(story)


def test_a_table_that_is_emptied_does_not_make_its_group_unstable() -> None:
    """A manifest without files wants nothing of any node."""

    async def story(scene: Scene) -> None:
        await scene.make()
        await scene.load(EMPTY)
        await scene.sleep(2 * MINUTE)
        assert scene.is_stable(), scene.status()

    play(story)


@pytest.mark.parametrize("field", HOSTILE_FIELDS)
def test_what_a_tenant_writes_into_a_status_harms_its_own_table_only(field: str) -> None:
    """C1: the group stays stable, and the other table stays as it is, whatever stands in the field."""

    async def story(scene: Scene) -> None:
        await scene.make()
        scene.users.make_table("victim", "sales")
        await scene.until(lambda: scene.table("victim").get("status", {}).get("accepted"), MINUTE)
        await scene.load(table="victim")
        await scene.until_well()
        scene.world.hostile.add(scene.table("victim")["metadata"]["uid"])
        before = scene.table()["status"]
        for value in HOSTILE_VALUES:
            scene.world.api.merge(TABLES, SHOP, "victim", {"status": {field: value}}, "status")
            for _ in range(10):
                await scene.sleep(1)
                assert scene.is_stable(), (value, scene.status())
        assert scene.table()["status"] == before

    play(story)


def test_tables_that_vanish_all_at_once_are_not_recycled() -> None:
    """D8: after an etcd restore nothing goes from the disks, however long it lasts."""

    async def story(scene: Scene) -> None:
        await scene.make()
        others = [f"other-{number}" for number in range(5)]
        for name in others:
            scene.users.make_table(name, "sales")
        await scene.until(lambda: all(scene.table(name).get("status", {}).get("accepted") for name in others), MINUTE)
        for name in others:
            await scene.load(table=name)
        await scene.until_well()
        scene.operator.kill()
        for name in ("orders", *others):
            scene.world.api.remove(TABLES, SHOP, name)
        scene.world.api.remove(GROUPS, SHOP, "sales")
        scene.operator.start()
        await scene.sleep(120 * MINUTE)
        assert not any(one.disk.bin for one in scene.world.machines.values())

    play(story)


def test_an_operator_that_stood_still_does_nothing_in_its_successors_term() -> None:
    """C11: its orders and writes come late; it finds that another one leads, and ends."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=3, relocation={"downToleranceSeconds": 0})
        leader, other = sorted(scene.cluster.operators, key=lambda one: not one.is_leading)
        scene.world.add_node()
        leader.freeze(100)
        await scene.until(lambda: other.is_leading, 2 * MINUTE)
        scene.world.delete_node(scene.rows()[0][0])
        await scene.sleep(2 * MINUTE)
        assert not leader.is_leading
        await scene.until_well()

    play(story, operators=2)


def test_garbage_goes_and_retained_snapshots_stay() -> None:
    """Files of a snapshot that can no longer be read go after the grace; those of one that can, stay."""

    async def story(scene: Scene) -> None:
        await scene.make(retention={"seconds": 86400, "snapshots": 1})
        await scene.load(OVERWRITE)
        await scene.load(OVERWRITE)
        await scene.sleep(scene.world.limits.garbage_grace + 5 * MINUTE)
        live = scene.world.committed(scene.table()) | scene.world.retained(scene.table())
        held = {file for machine in scene.world.machines.values() for file in machine.disk.files()}
        assert held == live

    play(story)


def test_group_stays_stable_when_a_retained_snapshot_ages_out() -> None:
    """No agent's report changes: what is known of the live manifest has to stay known."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=8, change=APPEND_TO_SOME, retention={"seconds": 300, "snapshots": 10})
        await scene.load(APPEND_TO_SOME)
        await scene.until_well()
        assert len({file.bucket for file in scene.world.committed(scene.table())}) < 8
        await scene.until(lambda: not scene.table()["status"].get("history"), 20 * MINUTE)
        await scene.sleep(MINUTE)
        assert scene.is_stable()

    play(story, nodes=2)


def test_an_answer_that_was_long_on_its_way_does_not_stop_deletions_for_ever() -> None:
    """It tells an old uptime of the agent, and a quiet agent tells no other: orders that end by it are refused."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=1, replicas=1)
        first = scene.rows()[0][0]
        await scene.sleep(30)
        scene.operator.freeze(100)
        scene.world.machines[first].disk.foreign_bytes += 2 * GIB
        scene.world.machines[first].agent.ring()
        await scene.sleep(3 * MINUTE)
        scene.users.drain_node(first, True)
        await scene.until(lambda: scene.rows()[0][0] != first, 5 * MINUTE)
        await scene.until_well(5 * MINUTE)

    play(story, nodes=2)


def test_files_of_snapshots_stay_while_a_history_cannot_be_read() -> None:
    """A tenant's patch hides which snapshots are retained: nothing of the table is garbage until it is mended."""

    async def story(scene: Scene) -> None:
        await scene.make()
        await scene.load(OVERWRITE)
        history = scene.table()["status"]["history"]
        retained = scene.world.retained(scene.table())
        scene.world.hostile.add(scene.table()["metadata"]["uid"])
        scene.world.api.merge(TABLES, SHOP, "orders", {"status": {"history": "x"}}, "status")
        await scene.sleep(scene.world.limits.garbage_grace + 3 * MINUTE)
        scene.world.api.merge(TABLES, SHOP, "orders", {"status": {"history": history}}, "status")
        scene.world.hostile.clear()
        assert retained
        assert all(scene.world.holders(file) for file in retained)

    play(story)


def test_a_folder_that_no_one_knows_waits_before_it_goes() -> None:
    """Its table may be one that the operator has not heard of yet."""

    async def story(scene: Scene) -> None:
        await scene.make()
        disk = scene.world.machines[scene.rows()[0][0]].disk
        disk.put(File(SHOP, "ghost-12345678", 1, 0, 1))
        await scene.sleep(50)
        assert not disk.bin
        await scene.until(lambda: disk.bin, 5 * MINUTE)

    play(story)


def test_a_table_that_is_there_already_moves_once_its_old_group_lets_go() -> None:
    """Both groups lie on all nodes: nothing has to be copied, and an order for the old group may be under way yet."""

    async def story(scene: Scene) -> None:
        await scene.make(replicas=3)
        scene.users.make_group("parts", buckets=2, replicas=3)
        await scene.until(lambda: scene.rows("parts"), MINUTE)
        await scene.sleep(MINUTE)
        scene.users.patch_table(scene.table(), {"colocateWith": "parts"})
        await scene.until(lambda: scene.table()["status"].get("group") == "parts", 5 * MINUTE)
        await scene.until_well()

    play(story)


def test_a_table_leaves_a_group_that_cannot_be_placed() -> None:
    """There are too few nodes for the group that it names, and the user corrects that."""

    async def story(scene: Scene) -> None:
        scene.users.make_group("sales", buckets=2, replicas=5)
        scene.users.make_group("parts", buckets=2, replicas=2)
        scene.users.make_table("orders", "sales")
        await scene.until(lambda: scene.table().get("status", {}).get("group") == "sales", MINUTE)
        assert not scene.rows()
        scene.users.patch_table(scene.table(), {"colocateWith": "parts"})
        await scene.until(lambda: scene.table()["status"].get("group") == "parts", 5 * MINUTE)
        await scene.load()

    play(story)
