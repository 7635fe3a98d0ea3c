"""Tables that come back, and what is left behind when they do."""

import pytest

from colocation.kube.api import GROUPS, NODES, TABLES
from colocation.model.names import ANNOTATION_DISCARDED_FOLDERS

from .administrator import Administrator
from .etcd import Etcd
from .loads import OVERWRITE, Change
from .scenes import MINUTE, Scene, play
from .users import SHOP
from .world import directory_of


@pytest.mark.parametrize("came_back", [False, True])
def test_leftovers_go_from_a_node_that_left_the_map_while_it_was_away(came_back: bool) -> None:
    """Also those of a table that was dropped and brought back once."""

    async def story(scene: Scene) -> None:
        replaceable = {"seconds": 0, "snapshots": 0}
        await scene.make(relocation={"downToleranceSeconds": 0}, balancing={"enabled": False}, retention=replaceable)
        if came_back:
            await drop_and_bring_back(scene)
            await scene.until_well()
        away = scene.rows()[0][0]
        disk, key = scene.world.machines[away].disk, (SHOP, directory_of(scene.table()))
        assert disk.files_of(key)
        scene.world.take_down(away)
        await scene.until(lambda: not any(away in row for row in scene.rows()), 5 * MINUTE)
        await scene.load(OVERWRITE)
        await scene.until(scene.is_stable, MINUTE)
        scene.world.bring_up(away)
        await scene.until(lambda: not disk.files_of(key), 2 * scene.world.limits.garbage_grace + 10 * MINUTE)
        await scene.until_well()

    play(story, nodes=4)


async def drop_and_bring_back(scene: Scene) -> None:
    """The table is dropped, noticed, asked for, and loaded again."""
    scene.users.drop_table(scene.table())
    await scene.until(lambda: scene.status().get("recycled"), MINUTE)
    scene.users.ask_back(scene.group(), scene.status()["recycled"][0])
    await scene.until(scene.is_loaded, 5 * MINUTE)


def lose_objects(scene: Scene) -> None:
    """As CRDs that are applied again; the folders were recycled before anybody noticed."""
    scene.operator.kill()
    for machine in scene.world.machines.values():
        for key in list(machine.disk.folders):
            machine.disk.recycle(key, scene.world.loop.elapsed + 86400)
    scene.world.api.remove(TABLES, SHOP, "orders")
    scene.world.api.remove(GROUPS, SHOP, "sales")
    scene.operator.start()


@pytest.mark.parametrize("away", [False, True])
def test_a_drop_that_an_older_copy_of_etcd_has_undone_is_undone_on_the_disks(away: bool) -> None:
    """The table exists, and its folders are in the bins (found by chaos): no one could read it."""

    async def story(scene: Scene) -> None:
        await scene.make()
        files, key = scene.world.committed(scene.table()), (SHOP, directory_of(scene.table()))
        late = scene.rows()[0][0]
        scene.operator.kill()
        for machine in scene.world.machines.values():
            machine.disk.recycle(key, scene.world.loop.elapsed + 86400)
        if away:
            scene.world.take_down(late)
        scene.operator.start()
        await scene.sleep(MINUTE)
        if away:
            scene.world.bring_up(late)
        await scene.until(lambda: not any(one.disk.bin for one in scene.world.machines.values()), 5 * MINUTE)
        await scene.until_well(5 * MINUTE)
        assert scene.world.committed(scene.table()) == files

    play(story)


def test_a_drop_that_etcd_has_undone_is_undone_on_disks_to_which_a_load_has_sent_since() -> None:
    """The load brought the new manifest before the operator looked, and the files of before lie in the bins only."""

    async def story(scene: Scene) -> None:
        await scene.make()
        files, key = scene.world.committed(scene.table()), (SHOP, directory_of(scene.table()))
        scene.operator.kill()
        for machine in sorted(scene.world.machines.values(), key=lambda one: one.name)[1:]:
            machine.disk.recycle(key, scene.world.loop.elapsed + 86400)
        await scene.load()
        scene.operator.start()
        await scene.until_well(10 * MINUTE)
        assert scene.world.committed(scene.table()) > files
        assert not any(one.disk.bin for one in scene.world.machines.values())

    play(story)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_files_of_nodes_that_lack_the_newest_manifest_come_back(is_dropped: bool) -> None:
    """A load went on without the nodes that hold the rest; then the table was dropped before it was repaired (found by
    chaos): it comes back as it was, and is repaired as it would have been.
    """

    async def story(scene: Scene) -> None:
        await scene.make(balancing={"enabled": False})
        await scene.load()
        scene.operator.kill()
        leave_out(scene, scene.rows()[0])
        files = {file.load for file in scene.world.committed(scene.table())}
        scene.operator.start()
        if is_dropped:
            await drop_and_bring_back(scene)
        await scene.until_well()
        assert {file.load for file in scene.world.committed(scene.table())} == files

    play(story, nodes=4)


def test_the_last_copy_counts_though_its_node_lacks_the_newest_manifest() -> None:
    """It was away when rows were deleted, and the node with the other copy was lost before anybody repaired it (found
    by simulation).
    """

    async def story(scene: Scene) -> None:
        await scene.make(balancing={"enabled": False}, retention={"seconds": 0, "snapshots": 0})
        away, lost = scene.rows()[0]
        await scene.load(Change("keep bucket 0", lambda files: (file for file in files if not file.bucket), False))
        scene.operator.kill()
        table = scene.table()
        manifest = table["status"]["snapshot"]["manifest"].removeprefix("sha256:")
        scene.world.machines[away].disk.remove_manifests((SHOP, directory_of(table)), [manifest])
        scene.world.delete_node(lost)
        scene.operator.start()
        await scene.until_well()

    play(story)


def leave_out(scene: Scene, nodes: list[str]) -> None:
    """As if the last load had sent nothing to these nodes, and their part to all others."""
    table = scene.table()
    key, manifest = (SHOP, directory_of(table)), table["status"]["snapshot"]["manifest"].removeprefix("sha256:")
    files = scene.world.committed(table)
    newest = {file for file in files if file.load == max(one.load for one in files)}
    for name, machine in scene.world.machines.items():
        if name in nodes:
            machine.disk.remove_manifests(key, [manifest])
            machine.disk.remove(newest & set(machine.disk.folders[key].files))
        else:
            machine.disk.put_manifest(key, manifest)
            for file in newest:
                machine.disk.put(file)


def test_a_folder_in_the_recycle_bins_is_adopted() -> None:
    """`colocation adopt --recycled`: its files are brought back and verified, and the snapshot is committed."""

    async def story(scene: Scene) -> None:
        await scene.make()
        files = scene.world.committed(scene.table())
        lose_objects(scene)
        await scene.sleep(MINUTE)
        administrator = Administrator(scene.world, scene.cluster.operators)
        assert administrator.adopt() == []
        await adopt_until_done(scene, administrator)
        assert {file.load for file in scene.world.committed(scene.table())} == {file.load for file in files}
        await scene.until_well()

    play(story)


async def adopt_until_done(scene: Scene, administrator: Administrator) -> None:
    """As the command does: carry out, look again."""
    for _ in range(60):
        administrator.adopt(recycled=True)
        await scene.sleep(5)
        if scene.world.api.find(TABLES, SHOP, "orders") and scene.is_loaded():
            return
    raise AssertionError("the table has no snapshot after 5 minutes")


@pytest.mark.parametrize("then", ["it was there until the end", "it was dropped again"])
def test_files_that_are_under_a_uid_which_etcd_has_lost_are_taken_over(then: str) -> None:
    """The table came back from the bins after the copy, so its folder has another name."""

    async def story(scene: Scene) -> None:
        await scene.make()
        etcd = Etcd(scene.world, scene.cluster.operators, Administrator(scene.world, scene.cluster.operators))
        etcd.copy_or_restore()
        files = {file.load for file in scene.world.committed(scene.table())}
        await drop_and_bring_back(scene)
        if then == "it was dropped again":
            scene.users.drop_table(scene.table())
            await scene.until(lambda: not any(one.disk.folders for one in scene.world.machines.values()), 5 * MINUTE)
        etcd.copy_or_restore()
        await scene.sleep(MINUTE)
        etcd.put_back()
        scene.world.loses_etcd = True
        await scene.sleep(2 * MINUTE)
        reasons = {one["reason"] for one in scene.table()["status"]["conditions"]}
        assert "ManifestMissing" in reasons
        administrator = Administrator(scene.world, scene.cluster.operators)
        for _ in range(12):
            administrator.adopt()
            await scene.sleep(5)
        await scene.until_well()
        assert {file.load for file in scene.world.committed(scene.table())} == files

    play(story)


def test_nothing_is_deleted_after_a_restore_until_an_administrator_accepts_it() -> None:
    """Not the folder of a table that the copy lacks, and not what its time is over for in the bins."""

    async def story(scene: Scene) -> None:
        await scene.make()
        etcd = Etcd(scene.world, scene.cluster.operators, Administrator(scene.world, scene.cluster.operators))
        scene.users.make_table("dropped", "sales", recycleAfterSeconds=1500)
        await scene.until(lambda: scene.table("dropped").get("status", {}).get("accepted"), MINUTE)
        await scene.load(table="dropped")
        scene.users.drop_table(scene.table("dropped"))
        await scene.until(lambda: any(one.disk.bin for one in scene.world.machines.values()), MINUTE)
        await scene.sleep(2 * MINUTE)
        etcd.copy_or_restore()
        await scene.sleep(2 * MINUTE)
        scene.users.make_table("late", "sales")
        await scene.until(lambda: scene.table("late").get("status", {}).get("accepted"), MINUTE)
        await scene.load(table="late")
        etcd.copy_or_restore()
        await scene.sleep(MINUTE)
        etcd.put_back()
        await scene.until(lambda: "EtcdRestored" in reasons(scene), 3 * MINUTE)
        assert scene.is_stable()
        before = [set(one.disk.files()) for one in scene.world.machines.values()]
        bins = [set(one.disk.bin) for one in scene.world.machines.values()]
        scene.operator.restart()
        await scene.sleep(60 * MINUTE)
        assert before == [set(one.disk.files()) for one in scene.world.machines.values()]
        assert bins == [set(one.disk.bin) for one in scene.world.machines.values()]
        assert [one["name"] for one in scene.status()["recycled"]] == ["dropped"]
        administrator = Administrator(scene.world, scene.cluster.operators)
        for _ in range(12):
            administrator.adopt()
            await scene.sleep(10)
        assert scene.table("late")["status"]["snapshot"]
        assert "EtcdRestored" not in reasons(scene)
        await scene.until(lambda: not any(one.disk.bin for one in scene.world.machines.values()), 2 * MINUTE)
        await scene.until_well()

    play(story)


def reasons(scene: Scene) -> set[str]:
    return {one["reason"] for one in scene.status()["conditions"] if one["status"] == "True"}


@pytest.mark.parametrize("is_loaded_since", [False, True])
def test_commits_that_etcd_has_lost_are_adopted_unless_others_followed_the_copy(is_loaded_since: bool) -> None:
    """What was acknowledged after the restore is never replaced."""

    async def story(scene: Scene) -> None:
        await scene.make()
        etcd = Etcd(scene.world, scene.cluster.operators, Administrator(scene.world, scene.cluster.operators))
        etcd.copy_or_restore()
        await scene.sleep(MINUTE)  # so that agents hear of a newer Lease, and commits are of different seconds
        await scene.load()
        await scene.load()
        lost = {file.load for file in scene.world.committed(scene.table())}
        etcd.copy_or_restore()
        await scene.sleep(MINUTE)
        etcd.put_back()
        await scene.sleep(2 * MINUTE)
        if is_loaded_since:
            await scene.load()
        wanted = {file.load for file in scene.world.committed(scene.table())} if is_loaded_since else lost
        administrator = Administrator(scene.world, scene.cluster.operators)
        for _ in range(3):
            administrator.adopt()
            await scene.sleep(10)
        assert {file.load for file in scene.world.committed(scene.table())} == wanted
        await scene.until_well()

    play(story)


def test_the_files_of_a_namespace_that_was_deleted_stay_until_somebody_discards_them() -> None:
    """With the group goes what it remembers. `colocation adopt --discard` names the folders, which go to the bins."""

    async def story(scene: Scene) -> None:
        await scene.make()
        path, disks = f"{SHOP}/{directory_of(scene.table())}", [one.disk for one in scene.world.machines.values()]
        scene.operator.kill()  # no one sees the table go before its group
        scene.world.api.remove(TABLES, SHOP, "orders")
        scene.world.api.remove(GROUPS, SHOP, "sales")
        scene.operator.start()
        await scene.sleep(2 * 60 * MINUTE)
        assert any(disk.folders for disk in disks)
        for node in scene.world.machines:
            patch = {"metadata": {"annotations": {ANNOTATION_DISCARDED_FOLDERS: path}}}
            scene.world.api.merge(NODES, "", node, patch)
        await scene.until(lambda: not any(disk.folders for disk in disks), MINUTE)
        assert any(disk.bin for disk in disks)

    play(story)


def test_a_table_whose_object_came_back_is_recovered_from_the_bins() -> None:
    """etcd's older state has the table, and its folders lie in the bins: dropped once more, it comes back."""

    async def story(scene: Scene) -> None:
        await scene.make()
        for machine in scene.world.machines.values():
            for key in list(machine.disk.folders):
                machine.disk.recycle(key, scene.world.loop.elapsed + 86400)
        await scene.sleep(30)
        await drop_and_bring_back(scene)
        await scene.until_well()

    play(story)


@pytest.mark.parametrize("without", range(3))
def test_a_dropped_table_comes_back_though_a_node_lacks_its_last_manifest(without: int) -> None:
    """The node was away at the last commit, and the table was dropped before the manifest was brought to it."""

    async def story(scene: Scene) -> None:
        await scene.make()
        manifest = scene.table()["status"]["snapshot"]["manifest"].removeprefix("sha256:")
        disk = scene.world.machines[sorted(scene.world.machines)[without]].disk
        key = (SHOP, directory_of(scene.table()))
        scene.users.drop_table(scene.table())
        await scene.until(lambda: scene.status().get("recycled"), MINUTE)
        await scene.until(lambda: all(key in one.disk.bin for one in scene.world.machines.values()), MINUTE)
        disk.bin[key].folder.manifests.pop(manifest)
        scene.users.ask_back(scene.group(), scene.status()["recycled"][0])
        await scene.until(scene.is_loaded, 5 * MINUTE)
        await scene.until_well()

    play(story)
