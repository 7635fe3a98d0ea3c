"""Tables that are dropped and recovered: whole or not at all, in time or not at all."""

import pytest

from colocation.kube.api import JOBS, TABLES

from .api import Event
from .loads import EVERY_BUCKET
from .scenes import MINUTE, Scene, play
from .users import SHOP

RECYCLE_SECONDS = 1800


async def loaded(scene: Scene, **group: object) -> None:
    """A table whose folders stay in the bins for half an hour."""
    await scene.make(change=EVERY_BUCKET, **group)
    fields = {"recycleAfterSeconds": RECYCLE_SECONDS, "retention": {"seconds": 5, "snapshots": 3}}
    scene.users.patch_table(scene.table(), fields)
    await scene.sleep(MINUTE)


async def drop(scene: Scene) -> None:
    """Until the group remembers it, and every agent that answers has recycled its folder."""
    scene.users.drop_table(scene.table())
    await scene.until(lambda: scene.status().get("recycled"), MINUTE)
    await scene.sleep(MINUTE)


def ask_back(scene: Scene) -> None:
    """`colocation recover`."""
    scene.users.ask_back(scene.group(), scene.status()["recycled"][-1])


def accepted(scene: Scene) -> tuple[str, str, str]:
    table = scene.world.api.find(TABLES, SHOP, "orders")
    return scene.condition("Accepted", table) if table else ("", "", "")


def nodes_in_use(scene: Scene) -> list[str]:
    return sorted({node for row in scene.rows() for node in row})


@pytest.mark.parametrize("seen", [True, False], ids=["the operator sees the drop", "the operator is away"])
def test_a_dropped_table_comes_back_whole(seen: bool) -> None:
    """With its snapshot, its fields and its files, on the nodes where they are."""

    async def story(scene: Scene) -> None:
        await loaded(scene, deletionPolicy="WithLastTable")
        snapshot, spec = scene.table()["status"]["snapshot"], scene.table()["spec"]
        if not seen:
            scene.operator.kill()
        scene.users.drop_table(scene.table())
        if not seen:
            await scene.sleep(20)
            scene.operator.start()
        await scene.until(lambda: scene.status().get("recycled"), 2 * MINUTE)
        await scene.until(lambda: not any(one.disk.folders for one in scene.world.machines.values()), 2 * MINUTE)
        status = scene.status()
        assert (status["tables"], status["tableCount"]) == (["orders*"], 0)
        assert status["deleteAfter"] == status["recycled"][0]["purgeAt"]
        ask_back(scene)
        await scene.until(scene.is_loaded, 5 * MINUTE)
        assert scene.table()["status"]["snapshot"] == snapshot
        kept = ("recycleAfterSeconds", "retention", "columns", "bucketedBy")
        assert {name: scene.table()["spec"].get(name) for name in kept} == {name: spec.get(name) for name in kept}
        await scene.until_well()
        await scene.until(lambda: scene.status()["tables"] == ["orders"], MINUTE)
        assert not scene.status().get("recycled") and "deleteAfter" not in scene.status()
        assert scene.events("TableDropped") and scene.events("TableRecovered")

    play(story)


@pytest.mark.parametrize("slow", [True, False], ids=["agents are slow", "agents are quick"])
def test_the_recovery_of_a_whole_table_raises_no_alarm(slow: bool) -> None:
    """No message on the way names files that are missing, and nothing is copied."""

    async def story(scene: Scene) -> None:
        await loaded(scene)
        messages, jobs = set[str](), scene.recorded(JOBS)

        def hear(event: Event) -> None:
            if event.resource == TABLES:
                messages.add(scene.condition("Accepted", event.body)[2])

        await drop(scene)
        scene.world.api.watchers.append(hear)
        scene.world.network.faults.slow_rate = 0.5 if slow else 0.0
        ask_back(scene)
        await scene.until(scene.is_loaded, 5 * MINUTE)
        await scene.until_well()
        assert not jobs
        assert not [message for message in messages if "lack" in message]

    play(story)


def test_a_node_that_was_away_gives_its_files_back_too() -> None:
    """Its folder was never recycled. The table is back once a live replica of each bucket is."""

    async def story(scene: Scene) -> None:
        await loaded(scene, relocation={"enabled": False})
        away = nodes_in_use(scene)[0]
        scene.world.take_down(away)
        await drop(scene)
        ask_back(scene)
        await scene.until(scene.is_loaded, 5 * MINUTE)
        scene.world.bring_up(away)
        await scene.until_well()

    play(story)


def test_recovery_waits_for_the_last_replica() -> None:
    """A table without all of its rows is never shown: it names the buckets that are missing, and waits."""

    async def story(scene: Scene) -> None:
        await loaded(scene, replicas=1, relocation={"enabled": False})
        away = nodes_in_use(scene)[0]
        scene.world.take_down(away)
        await drop(scene)
        ask_back(scene)
        await scene.until(lambda: accepted(scene)[1] == "Recovering", 2 * MINUTE)
        await scene.until(lambda: "the live nodes lack files of buckets" in accepted(scene)[2], 2 * MINUTE)
        assert not scene.is_loaded()
        scene.world.bring_up(away)
        await scene.until(scene.is_loaded, 5 * MINUTE)
        await scene.until_well()

    play(story)


def purge(scene: Scene, nodes: list[str]) -> None:
    """Their bins are emptied before the time."""
    for node in nodes:
        disk = scene.world.machines[node].disk
        for key in list(disk.bin):
            disk.purge(key)
    scene.world.checks.dropped.clear()


@pytest.mark.parametrize("everywhere", [True, False], ids=["all files", "the files of one node"])
def test_a_recovery_whose_files_are_purged_ends(everywhere: bool) -> None:
    """While a node is away it may still bring them; then the table reports that it was purged."""

    async def story(scene: Scene) -> None:
        await loaded(scene, replicas=1, relocation={"enabled": False})
        nodes = nodes_in_use(scene)
        away = nodes[0]
        await drop(scene)
        scene.world.network.cut_off(away)
        ask_back(scene)
        await scene.until(lambda: accepted(scene)[1] == "Recovering", 2 * MINUTE, 0.1)
        purge(scene, nodes if everywhere else nodes[:1])
        await scene.sleep(RECYCLE_SECONDS + 5 * MINUTE)
        assert accepted(scene)[:2] == ("False", "Recovering")
        assert len(scene.status()["recycled"]) == 1
        scene.world.network.reconnect()
        await scene.until(lambda: accepted(scene)[:2] == ("False", "Purged"), 5 * MINUTE)
        assert not scene.is_loaded() and not scene.status().get("recycled")
        assert scene.events("TablePurged") and not scene.events("TableRecovered")
        scene.world.api.remove(TABLES, SHOP, "orders")

    play(story)


def test_a_recovery_that_began_in_time_ends_well() -> None:
    """The time in the bin is over while a node is away that has the last files: they still come back."""

    async def story(scene: Scene) -> None:
        await loaded(scene, replicas=1, relocation={"enabled": False})
        away = nodes_in_use(scene)[0]
        await drop(scene)
        scene.world.network.cut_off(away)
        ask_back(scene)
        await scene.sleep(RECYCLE_SECONDS - 2 * MINUTE)
        scene.world.network.reconnect()
        await scene.until(scene.is_loaded, 5 * MINUTE)
        await scene.until_well()

    play(story)


def requests(scene: Scene) -> list[str]:
    """Those for a dropped table that the group has not answered."""
    return [name for name in scene.group()["metadata"].get("annotations", {}) if "recover" in name]


@pytest.mark.parametrize("case", ["its name is taken", "it is too late"])
def test_a_recovery_that_cannot_be_is_refused(case: str) -> None:
    """An event gives the reason, and nothing changes."""

    async def story(scene: Scene) -> None:
        await loaded(scene)
        await drop(scene)
        record = scene.status()["recycled"][0]
        if case == "it is too late":
            await scene.until(lambda: not scene.status().get("recycled"), RECYCLE_SECONDS + 5 * MINUTE)
            scene.users.ask_back(scene.group(), record)
        else:
            scene.users.make_table("orders", "sales")
            ask_back(scene)
        await scene.until(lambda: scene.events("RecoverRefused"), 2 * MINUTE)
        await scene.until(lambda: not requests(scene), MINUTE)
        if case == "it is too late":
            assert not scene.world.api.find(TABLES, SHOP, "orders")
            assert scene.status()["tables"] == [] and scene.events("TablePurged")
        else:
            assert not scene.is_loaded()
            await scene.until(lambda: scene.status()["tables"] == ["orders", "orders*"], MINUTE)

    play(story)


def test_a_recovery_that_was_given_up_can_be_asked_for_again() -> None:
    """The table that takes the files over is deleted half way; the files wait under its name."""

    async def story(scene: Scene) -> None:
        await loaded(scene)
        await drop(scene)
        ask_back(scene)
        await scene.until(lambda: any(one.disk.folders for one in scene.world.machines.values()), 2 * MINUTE, 0.05)
        scene.users.drop_table(scene.table())
        await scene.sleep(2 * MINUTE)
        ask_back(scene)
        await scene.until(scene.is_loaded, 5 * MINUTE)
        await scene.until_well()

    play(story)
