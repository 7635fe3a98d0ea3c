"""`colocation adopt`: tables are created again from the manifests on the disks, after their objects were lost."""

from colocation.kube.api import GROUPS, JOBS, TABLES
from colocation.model.names import ANNOTATION_ADOPTS

from .administrator import Administrator
from .loads import EVERY_BUCKET, takes_loads
from .scenes import MINUTE, Scene, play
from .users import SHOP
from .world import directory_of

TABLES_OF_SALES = ("orders", "lines")


async def two_tables(scene: Scene) -> None:
    """Loaded tables of one group; the group's object and theirs are lost then."""
    await scene.make(buckets=4, change=EVERY_BUCKET)
    scene.users.make_table("lines", "sales")
    await scene.until(lambda: takes_loads(scene.table("lines")), MINUTE)
    await scene.load(EVERY_BUCKET, "lines")
    await scene.until_well()


def lose_objects(scene: Scene) -> None:
    """While no operator runs."""
    scene.operator.kill()
    for name in TABLES_OF_SALES:
        scene.world.api.remove(TABLES, SHOP, name)
    scene.world.api.remove(GROUPS, SHOP, "sales")
    scene.operator.start()


async def adopt(scene: Scene, seconds: float, restarting: bool = False) -> None:
    """Run the command every few seconds, as the command itself looks again until nothing is left to do."""
    administrator = Administrator(scene.world, scene.cluster.operators)
    for step in range(int(seconds / 5)):
        administrator.adopt()
        await scene.sleep(5)
        if restarting and step % 3 == 2:
            scene.operator.restart()


def test_lost_tables_come_back_where_their_files_are() -> None:
    """With their snapshots, and without a copy, while operators restart: the new group's map follows the files."""

    async def story(scene: Scene) -> None:
        await two_tables(scene)
        before = {name: (scene.rows_held(name), scene.world.committed(scene.table(name))) for name in TABLES_OF_SALES}
        jobs = scene.recorded(JOBS)
        lose_objects(scene)
        await scene.sleep(MINUTE)
        await adopt(scene, 5 * MINUTE, restarting=True)
        for name, (held, files) in before.items():
            assert scene.is_loaded(name)
            assert {file.load for file in scene.world.committed(scene.table(name))} == {file.load for file in files}
            assert scene.rows_held(name) == held
        assert not jobs
        await scene.until_well()

    play(story, nodes=4)


def test_only_a_table_of_the_folders_own_name_takes_it_over() -> None:
    """Whatever the annotation names."""

    async def story(scene: Scene) -> None:
        await two_tables(scene)
        lost = directory_of(scene.table())
        disks = [machine.disk for machine in scene.world.machines.values()]
        lose_objects(scene)
        scene.users.make_table("mine", "", buckets=4, replicas=2)
        patch = {"metadata": {"annotations": {ANNOTATION_ADOPTS: lost.rpartition("-")[2]}}}
        scene.world.api.merge(TABLES, SHOP, "mine", patch)
        await scene.sleep(5 * MINUTE)
        assert not scene.is_loaded("mine")
        mine = directory_of(scene.table("mine"))
        assert all((SHOP, lost) in disk.folders or (SHOP, lost) in disk.bin for disk in disks if disk.files())
        assert not any((SHOP, mine) in disk.folders for disk in disks)
        scene.world.api.remove(TABLES, SHOP, "mine")

    play(story, nodes=4)


def test_a_group_does_not_wait_for_ever_for_the_files_of_one_table() -> None:
    """Its other tables are placed and serve."""

    async def story(scene: Scene) -> None:
        await two_tables(scene)
        lines = directory_of(scene.table("lines"))
        lose_objects(scene)
        await scene.sleep(MINUTE)
        administrator = Administrator(scene.world, scene.cluster.operators)
        administrator.adopt()
        for machine in scene.world.machines.values():  # between two steps of the command
            machine.disk.folders.pop((SHOP, lines), None)
        await scene.sleep(15 * MINUTE)
        administrator.adopt()
        await scene.until(scene.is_loaded, 15 * MINUTE)
        await scene.until(lambda: scene.table()["status"].get("group"), MINUTE)
        group = scene.table()["status"]["group"]
        await scene.until(lambda: scene.is_stable(group), 15 * MINUTE)
        assert scene.rows_held() == [sorted(row) for row in scene.rows(group)]
        assert not scene.is_loaded("lines")
        scene.world.api.remove(TABLES, SHOP, "lines")

    play(story, nodes=4)


def test_a_table_that_came_back_and_was_dropped_unnoticed_is_remembered_once() -> None:
    """By its newer uid: a request for the older one would wait for files that the newer one has."""

    async def story(scene: Scene) -> None:
        await scene.make()
        scene.users.drop_table(scene.table())
        await scene.until(lambda: scene.status().get("recycled"), MINUTE)
        scene.users.ask_back(scene.group(), scene.status()["recycled"][0])
        await scene.until(scene.is_loaded, 5 * MINUTE, 0.05)
        last = scene.table()["metadata"]["uid"]
        scene.users.drop_table(scene.table())
        await scene.sleep(2 * MINUTE)
        assert [record["uid"] for record in scene.status()["recycled"]] == [last]

    play(story)
