"""The life of a group: its map, its tables, a lost node, an added node, and its end."""

from typing import Any

import pytest

from colocation.kube.api import CLAIMS, CONFIG_MAPS, EVENTS, GROUPS, JOBS, TABLES, VOLUMES
from colocation.model.conditions import Reason

from .api import JsonObject
from .loads import EVERY_BUCKET
from .scenes import MINUTE, Scene, created, play, spec_of
from .users import SHOP

RECYCLE_SECONDS = 1800


async def at_rest(scene: Scene, **fields: Any) -> None:
    """`Scene.make`, and everything that follows from the first load has happened."""
    await scene.make(**fields)
    await scene.sleep(MINUTE)


def test_a_new_group_gets_an_even_map_and_accepts_its_table() -> None:
    """Group and table have all fields and conditions of a healthy object, and the events for it."""

    async def story(scene: Scene) -> None:
        scene.users.make_group("sales", buckets=4, replicas=2)
        scene.users.make_table("orders", "sales")
        await scene.until(scene.is_stable, MINUTE)
        await scene.until(lambda: scene.status().get("tables"), MINUTE)
        status = scene.status()
        assert (status["tables"], status["tableCount"], status["distCols"]) == (["orders"], 1, "bigint")
        assert (status["nodeCount"], [len(set(row)) for row in scene.rows()]) == (3, [2, 2, 2, 2])
        assert sorted(sum(row.count(node) for row in scene.rows()) for node in status["nodes"]) == [2, 3, 3]
        shown = {
            kind: scene.condition(kind, scene.group())[:2] for kind in ("Ready", "Stable", "Reconciling", "Stalled")
        }
        assert shown == {
            "Ready": ("True", "AllReplicasComplete"),
            "Stable": ("True", "AllReplicasComplete"),
            "Reconciling": ("False", "Reconciled"),
            "Stalled": ("False", "Reconciled"),
        }
        table = scene.table()
        assert table["status"]["accepted"] and table["status"]["groupId"] == status["groupId"]
        assert scene.condition("Ready", table)[:2] == ("True", "Reconciled")
        assert scene.condition("Accepted", table)[:2] == ("True", "Accepted")
        assert {event["reason"] for event in scene.events()} >= {"MapCreated", "Stable", "TableAccepted"}

    play(story)


def test_a_group_at_rest_is_not_written() -> None:
    """Also not by a new operator, which writes the ConfigMaps again and nothing else."""

    async def story(scene: Scene) -> None:
        await at_rest(scene)
        written = [scene.recorded(resource) for resource in (GROUPS, TABLES, JOBS, EVENTS)]
        await scene.sleep(5 * MINUTE)
        scene.operator.restart()
        await scene.sleep(5 * MINUTE)
        assert not any(written), written

    play(story)


def test_a_lost_node_makes_its_group_unstable_within_seconds() -> None:
    """The status names the buckets; nothing is copied within the tolerance."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4)
        lost = scene.rows()[0][0]
        scene.world.take_down(lost)
        scene.world.show_ready(lost, ready=False)
        await scene.until(lambda: not scene.is_stable(), 5)
        held = [bucket for bucket, row in enumerate(scene.rows()) if lost in row]
        assert scene.status()["reason"] == Reason.NODE_NOT_READY
        assert [one["bucket"] for one in scene.status()["unstableBuckets"]] == held
        assert scene.condition("Reconciling", scene.group())[:2] == ("True", Reason.WITHIN_DOWN_TOLERANCE)
        await scene.sleep(10 * MINUTE)
        assert not scene.jobs()
        scene.world.bring_up(lost)
        await scene.until(scene.is_stable, MINUTE)

    play(story)


def test_replicas_of_a_node_that_stays_away_are_copied_after_the_tolerance() -> None:
    """Each enters the map; the Jobs go, and every one is counted once."""

    async def story(scene: Scene) -> None:
        await at_rest(scene, buckets=4)
        jobs = scene.recorded(JOBS)
        lost = scene.rows()[0][0]
        scene.world.take_down(lost)
        await scene.until(lambda: not scene.is_stable(), 2 * MINUTE)
        await scene.until(scene.is_stable, 60 * MINUTE)
        assert not any(lost in row for row in scene.rows())
        await scene.until(lambda: not scene.jobs(), MINUTE)
        assert scene.status()["clones"]["succeeded"] == len(created(jobs))
        assert scene.events("CloneSucceeded")

    play(story)


def test_clones_know_their_budgets() -> None:
    """The Job's own share of the cluster's bandwidth, and what all that write to its node share."""
    settings = {
        "clone_mib_per_second_per_node": 50.0,
        "clone_mib_per_second_per_cluster": 6.0,
        "max_concurrent_clones_per_node": 8,
    }

    async def story(scene: Scene) -> None:
        balancing = {"maxConcurrentClones": 8, "maxBandwidthMiBPerSecond": 80}
        await scene.make(buckets=8, change=EVERY_BUCKET, balancing=balancing)
        jobs = scene.recorded(JOBS)
        scene.world.delete_node(scene.rows()[0][0])
        await scene.until(lambda: jobs, 2 * MINUTE)
        await scene.sleep(1)
        specs = [spec_of(job) for job in scene.jobs()]
        assert len(specs) == 4
        budgets = {(one.max_bandwidth_mib_per_second, one.max_node_bandwidth_mib_per_second) for one in specs}
        assert budgets == {(1.5, 50.0)}
        await scene.until_well()

    play(story, nodes=4, settings=settings)


def test_a_failed_clone_is_tried_again_from_another_replica() -> None:
    """After a back-off; each failure is counted once."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=1, replicas=3, change=EVERY_BUCKET)
        jobs = scene.recorded(JOBS)
        spare = (scene.world.machines.keys() - set(scene.rows()[0])).pop()
        scene.world.machines[spare].sick = True
        scene.world.delete_node(scene.rows()[0][0])
        await scene.until(lambda: scene.status().get("clones", {}).get("failed") == 1, 5 * MINUTE)
        scene.world.machines[spare].sick = False
        await scene.until_well()
        first, second = (spec_of(job) for job in created(jobs))
        assert first.sources[0] != second.sources[0] and set(first.sources) == set(second.sources)
        assert scene.status()["clones"]["failed"] == 1

    play(story, nodes=4)


def test_an_added_node_gets_its_share_while_the_group_stays_stable() -> None:
    """Make before break: the map changes when the new replicas are complete; then the old ones go."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=4, change=EVERY_BUCKET)
        added = scene.world.add_node()
        verdicts = scene.recorded(GROUPS)
        await scene.until(lambda: sum(added in row for row in scene.rows()) >= 2, 10 * MINUTE)
        await scene.until_well()
        assert sum(added in row for row in scene.rows()) in (2, 3)
        assert scene.rows_held() == [sorted(row) for row in scene.rows()]
        assert all(event.body["status"]["stable"] for event in verdicts)

    play(story, nodes=2)


def test_tables_create_the_group_that_they_name() -> None:
    """From the first of them; the second one joins it."""

    async def story(scene: Scene) -> None:
        for name in ("first", "second"):
            scene.users.make_table(name, "sales", buckets=4, replicas=2)
        await scene.until(lambda: scene.world.api.find(GROUPS, SHOP, "sales"), MINUTE)
        await scene.until(lambda: scene.status().get("tables") == ["first", "second"], MINUTE)
        spec = scene.group()["spec"]
        assert (spec["bucketKey"], spec["buckets"], spec["replicas"]) == (["bigint"], 4, 2)

    play(story, nodes=2)


MISFITS: dict[str, tuple[JsonObject, str]] = {
    "buckets": ({"buckets": 9}, "same bucket num: 9 should be 2 or a multiple of it"),
    "type": ({"columns": [{"name": "key", "type": "int"}]}, "same data type: int should be bigint (column key)"),
    "replicas": ({"replicas": 3}, "same replication num: 3 should be 2"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_table_that_does_not_fit_is_refused_alone(case: str) -> None:
    """The refusal names both values and the group; the group and its other table stay as they are."""
    fields, message = MISFITS[case]

    async def story(scene: Scene) -> None:
        await at_rest(scene)
        written = scene.recorded(GROUPS)
        scene.users.make_table("bad", "sales", **fields)
        await scene.until(lambda: scene.events("TableRefused"), MINUTE)
        assert scene.table("bad")["status"]["accepted"] is False
        for kind in ("Accepted", "Ready"):
            status, reason, shown = scene.condition(kind, scene.table("bad"))
            assert (status, reason) == ("False", "SchemaMismatch")
            assert message in shown and "group sales" in shown
        assert not written
        scene.world.api.remove(TABLES, SHOP, "bad")

    play(story)


def test_a_table_of_a_missing_group_needs_buckets_and_replicas() -> None:
    """Without them no group can be created."""

    async def story(scene: Scene) -> None:
        scene.users.make_table("orders", "sales")
        await scene.until(lambda: scene.condition("Accepted", scene.table())[:2] == ("False", "NoGroup"), MINUTE)
        assert not scene.world.api.peek(GROUPS)

    play(story, nodes=2)


def test_a_group_that_is_created_again_keeps_the_replicas_where_they_are() -> None:
    """Deleting the group's object loses nothing: its table creates it again."""

    async def story(scene: Scene) -> None:
        await scene.make()
        scene.users.patch_table(scene.table(), {"buckets": 2, "replicas": 2})
        await scene.sleep(10)
        before, jobs = scene.rows(), scene.recorded(JOBS)
        scene.world.api.remove(GROUPS, SHOP, "sales")
        await scene.until(lambda: scene.world.api.find(GROUPS, SHOP, "sales") and scene.is_stable(), 5 * MINUTE)
        assert [set(row) for row in scene.rows()] == [set(row) for row in before]
        assert not jobs
        await scene.until_well()

    play(story)


def test_a_group_goes_with_its_last_table_after_the_recycle_time() -> None:
    """Doris, "Delete": the group waits for the recycle bin of its last table."""

    async def story(scene: Scene) -> None:
        await scene.make(deletionPolicy="WithLastTable")
        scene.users.patch_table(scene.table(), {"recycleAfterSeconds": RECYCLE_SECONDS})
        await scene.sleep(10)
        scene.users.drop_table(scene.table())
        await scene.until(lambda: scene.status().get("deleteAfter"), MINUTE)
        await scene.until(lambda: not any(one.disk.folders for one in scene.world.machines.values()), 5 * MINUTE)
        await scene.sleep(RECYCLE_SECONDS - 10 * MINUTE)
        assert scene.world.api.find(GROUPS, SHOP, "sales")
        await scene.until(lambda: not scene.world.api.peek(GROUPS), 20 * MINUTE)

    play(story)


@pytest.mark.parametrize("policy", ["WithLastTable", "Retain"])
def test_a_group_that_is_wanted_outlives_its_tables(policy: str) -> None:
    """Because another table names it, or its policy keeps it."""

    async def story(scene: Scene) -> None:
        await scene.make(deletionPolicy=policy)
        scene.users.patch_table(scene.table(), {"recycleAfterSeconds": RECYCLE_SECONDS})
        await scene.sleep(10)
        scene.users.drop_table(scene.table())
        await scene.until(lambda: scene.status().get("recycled"), MINUTE)
        if policy == "WithLastTable":
            scene.users.make_table("customers", "sales")
        await scene.sleep(2 * RECYCLE_SECONDS)
        assert scene.world.api.find(GROUPS, SHOP, "sales")
        assert "deleteAfter" not in scene.status()

    play(story)


def test_clone_jobs_of_a_group_that_is_gone_are_removed() -> None:
    """Also when a new group has its name."""

    async def story(scene: Scene) -> None:
        await scene.make(relocation={"downToleranceSeconds": 0})
        for machine in scene.world.machines.values():
            machine.holds_jobs = True
        scene.world.delete_node(scene.rows()[0][0])
        await scene.until(scene.jobs, 2 * MINUTE)
        before = {job["metadata"]["uid"] for job in scene.jobs()}
        scene.world.api.remove(TABLES, SHOP, "orders")
        scene.world.api.remove(GROUPS, SHOP, "sales")
        scene.users.make_group("sales", buckets=2, replicas=2)
        await scene.until(lambda: not before & {job["metadata"]["uid"] for job in scene.jobs()}, MINUTE)

    play(story, nodes=3)


def test_an_agent_that_is_silent_for_less_than_its_grace_changes_nothing() -> None:
    """A longer silence makes its groups unstable, with the reason."""

    async def story(scene: Scene) -> None:
        await at_rest(scene)
        node = scene.rows()[0][0]
        scene.world.network.cut_off(node)
        await scene.sleep(20)
        assert scene.is_stable()
        await scene.until(lambda: not scene.is_stable(), 40)
        assert scene.status()["reason"] == Reason.AGENT_NOT_READY
        scene.world.network.reconnect()
        await scene.until_well()

    play(story)


def test_a_claim_that_a_quota_refuses_is_reported_and_asked_for_again() -> None:
    """Once a minute, not with every pass; the group stays stable, and the message goes with the cause."""

    async def story(scene: Scene) -> None:
        scene.world.api.denied[CLAIMS] = "exceeded quota: no-claims"
        scene.users.make_group("sales", buckets=2, replicas=2)
        scene.users.make_table("orders", "sales")
        refused = Reason.DATA_CLAIM_REFUSED
        await scene.until(lambda: scene.condition("Stalled", scene.group())[:2] == ("True", refused), 2 * MINUTE)
        assert "exceeded quota: no-claims" in scene.condition("Stalled", scene.group())[2]
        assert scene.is_stable()
        attempts = scene.operator.writes
        await scene.sleep(10 * MINUTE)
        assert scene.operator.writes - attempts < 40, "claim and ConfigMap once a minute"
        scene.world.api.denied.clear()
        await scene.until(lambda: scene.condition("Stalled", scene.group())[0] == "False", 3 * MINUTE)
        assert scene.world.api.peek(CLAIMS) and scene.world.api.peek(VOLUMES)

    play(story)


def test_refusals_of_a_namespace_end_with_its_groups() -> None:
    """Nothing is asked for any longer."""

    async def story(scene: Scene) -> None:
        scene.world.api.denied[CLAIMS] = "exceeded quota: no-claims"
        scene.users.make_group("sales", buckets=2, replicas=2)
        await scene.until(lambda: scene.condition("Stalled", scene.group())[0] == "True", 2 * MINUTE)
        scene.world.api.remove(GROUPS, SHOP, "sales")
        await scene.sleep(2 * MINUTE)
        before = scene.operator.writes
        await scene.sleep(10 * MINUTE)
        assert scene.operator.writes == before

    play(story)


def test_a_config_map_names_the_agents_that_answer() -> None:
    """Spark finds agents, CA, pod templates and confs; an agent on a node that is not ready is listed apart."""

    async def story(scene: Scene) -> None:
        await scene.make(buckets=6)

        def data() -> JsonObject:
            return scene.world.api.read(CONFIG_MAPS, SHOP, "sales-spark")["data"]  # type: ignore[no-any-return]

        nodes, lost = sorted(scene.world.machines), scene.rows()[0][0]
        assert all(node in data()["agents.json"] for node in nodes)
        scene.world.take_down(lost)
        await scene.until(lambda: lost in data()["agents-not-ready.json"], 2 * MINUTE)
        assert lost not in data()["agents.json"]
        assert all(node in data()["agents.json"] for node in nodes if node != lost)

    play(story)
