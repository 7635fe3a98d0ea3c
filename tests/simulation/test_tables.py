"""Tables that move between groups, change, and keep older snapshots."""

from typing import Any

import pytest

from colocation.kube.api import CONFIG_MAPS, GROUPS, JOBS, TABLES
from colocation.model.names import LABEL_PRIVATE

from .api import JsonObject
from .loads import EVERY_BUCKET, OVERWRITE, takes_loads
from .scenes import MINUTE, Scene, play
from .users import SHOP, STOCK

KEY = {"name": "key", "type": "bigint"}


async def two_groups(scene: Scene) -> None:
    """``sales`` with ``orders`` and ``customers``; ``stock``, on two other nodes, with ``items``."""
    nodes = sorted(scene.world.machines)
    scene.users.make_group("sales", buckets=4, replicas=2)
    scene.users.make_group("stock", buckets=4, replicas=2, bucketSequence=[nodes[2:4]] * 4)
    for name, group in (("orders", "sales"), ("customers", "sales"), ("items", "stock")):
        scene.users.make_table(name, group)
        await scene.until(lambda name=name: takes_loads(scene.table(name)), MINUTE)
        await scene.load(EVERY_BUCKET, name)
    await scene.until_well()


def group_of(scene: Scene, table: str = "orders") -> str:
    group: str = scene.table(table)["status"].get("group", "")
    return group


def rows_of(scene: Scene, group: str) -> list[list[str]]:
    return [sorted(row) for row in scene.rows(group)]


def move(scene: Scene, group: str, **spec: Any) -> None:
    scene.users.patch_table(scene.table(), {"colocateWith": group, **spec})


@pytest.mark.parametrize("restarting", [False, True], ids=["one operator", "restarted all the time"])
def test_a_table_moves_to_another_group(restarting: bool) -> None:
    """Its files are on every node of the new map before its status names the new group; both groups stay stable."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        others = scene.rows_held("customers"), scene.rows_held("items")
        move(scene, "stock")
        for step in range(600):
            if restarting and step % 7 == 0:
                scene.operator.restart()
            await scene.sleep(1)
            wanted = rows_of(scene, group_of(scene))
            assert all(set(row) <= set(held) for row, held in zip(wanted, scene.rows_held(), strict=True))
            assert scene.is_stable("sales") and scene.is_stable("stock")
            assert scene.table()["status"]["accepted"]
            if group_of(scene) == "stock" and not scene.jobs():
                break
        assert group_of(scene) == "stock"
        await scene.until_well()
        assert scene.rows_held() == rows_of(scene, "stock")
        assert (scene.rows_held("customers"), scene.rows_held("items")) == others
        assert scene.status("sales")["tables"] == ["customers"]
        assert scene.status("stock")["tables"] == ["items", "orders"]
        assert scene.events("TableMoveStarted") and scene.events("TableMoved")

    play(story, nodes=4)


def test_a_change_of_columns_that_files_do_not_fit_is_refused() -> None:
    """Also without the webhook. The table is repaired meanwhile, and is well again when they are changed back."""
    columns = {kind: [KEY, {"name": "n", "type": kind}] for kind in ("int", "string")}

    def is_accepted(scene: Scene) -> bool:
        return scene.condition("Accepted", scene.table())[0] == "True"

    async def story(scene: Scene) -> None:
        await scene.make(relocation={"downToleranceSeconds": 0}, change=EVERY_BUCKET)
        scene.users.patch_table(scene.table(), {"columns": columns["int"]})
        await scene.sleep(20)
        assert is_accepted(scene)
        scene.users.patch_table(scene.table(), {"columns": columns["string"]})
        await scene.until(lambda: not is_accepted(scene), MINUTE)
        _, reason, message = scene.condition("Accepted", scene.table())
        assert reason == "InvalidSpec" and "column n has type int and should be string" in message
        scene.world.delete_node(scene.rows()[0][0])
        await scene.until(lambda: not scene.is_stable(), MINUTE)
        await scene.until(scene.is_stable, 10 * MINUTE)
        scene.users.patch_table(scene.table(), {"columns": columns["int"]})
        await scene.until(lambda: is_accepted(scene), MINUTE)
        await scene.until_well()

    play(story)


def test_a_table_stays_in_its_group_when_it_does_not_fit_the_next_one() -> None:
    """Reads, loads and repairs go on where it is; its conditions name both values."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        scene.users.make_group("wide", buckets=8, replicas=2)
        move(scene, "wide")
        await scene.until(lambda: scene.condition("Accepted", scene.table())[0] == "False", MINUTE)
        _, reason, message = scene.condition("Accepted", scene.table())
        assert reason == "SchemaMismatch" and "same bucket num: 4 should be 8, as in group wide" in message
        assert group_of(scene) == "sales" and scene.status("sales")["tables"] == ["customers", "orders"]
        status, _, message = scene.condition("Ready", scene.table())
        assert status == "True" and "stays in group sales, where reads and loads go on" in message
        await scene.load(OVERWRITE)
        scene.world.delete_node(scene.rows()[0][0])
        await scene.until(lambda: not scene.is_stable(), MINUTE)
        await scene.until(scene.is_stable, 10 * MINUTE)
        move(scene, "sales")
        await scene.until(lambda: scene.condition("Accepted", scene.table())[0] == "True", MINUTE)
        await scene.until_well()

    play(story, nodes=5)


def test_a_move_that_is_taken_back_leaves_nothing_behind() -> None:
    """What was copied is deleted, and the old group serves as before."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        move(scene, "stock")
        await scene.until(scene.jobs, MINUTE)
        await scene.sleep(5)
        move(scene, "sales")
        await scene.sleep(MINUTE)
        await scene.until_well()
        assert group_of(scene) == "sales"
        assert not any(member.get("leaving") for member in scene.status("sales")["members"])

    play(story, nodes=4)


def test_a_table_leaves_all_groups_and_comes_back() -> None:
    """Alone it keeps its nodes, in a private group that is repaired like any other and goes with its table."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        before, jobs = scene.rows_held(), scene.recorded(JOBS)
        move(scene, "")
        await scene.until(lambda: group_of(scene) not in ("", "sales"), 5 * MINUTE)
        alone = group_of(scene)
        assert scene.group(alone)["metadata"]["labels"][LABEL_PRIVATE] == "true"
        await scene.until(lambda: scene.status(alone).get("tables") == ["orders"], MINUTE)
        await scene.until_well()
        assert scene.rows_held() == before and not jobs
        scene.world.delete_node(scene.rows(alone)[0][0])
        await scene.until_well()
        assert scene.rows_held() == rows_of(scene, alone)
        move(scene, "sales")
        await scene.until(lambda: group_of(scene) == "sales", 10 * MINUTE)
        await scene.until(lambda: not scene.world.api.find(GROUPS, SHOP, alone), 10 * MINUTE)
        await scene.until_well()

    play(story, nodes=5)


def test_a_table_creates_a_new_group_where_its_files_are() -> None:
    """What the spec leaves out is as it was."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        before, jobs = scene.rows_held(), scene.recorded(JOBS)
        move(scene, "fresh")
        await scene.until(lambda: group_of(scene) == "fresh", 5 * MINUTE)
        spec = scene.group("fresh")["spec"]
        assert (spec["buckets"], spec["replicas"]) == (4, 2)
        assert before == rows_of(scene, "fresh") and not jobs
        await scene.until_well()

    play(story, nodes=4)


def test_a_table_without_a_group_needs_buckets_and_replicas() -> None:
    """With them it gets a private group."""

    async def story(scene: Scene) -> None:
        scene.users.make_table("alone", "", buckets=4, replicas=2)
        scene.users.make_table("vague", "")
        await scene.until(lambda: scene.condition("Ready", scene.table("alone"))[0] == "True", MINUTE)
        await scene.until(lambda: scene.condition("Accepted", scene.table("vague"))[1] == "NoGroup", MINUTE)
        assert "give buckets and replicas" in scene.condition("Accepted", scene.table("vague"))[2]
        scene.world.api.remove(TABLES, SHOP, "vague")

    play(story)


def test_snapshots_leave_the_history_by_number_and_by_age() -> None:
    """The clock alone wakes the operator. The idempotency keys of writers stay."""

    async def story(scene: Scene) -> None:
        await scene.make(retention={"seconds": 3600, "snapshots": 10})
        for _ in range(3):
            await scene.load(OVERWRITE)
        commits = [{"writer": "stream", "version": 7, "snapshotId": scene.table()["status"]["snapshot"]["id"]}]
        scene.world.api.merge(TABLES, SHOP, "orders", {"status": {"commits": commits}}, "status")
        scene.users.patch_table(scene.table(), {"retention": {"seconds": 3600, "snapshots": 2}})
        await scene.until(lambda: len(scene.table()["status"]["history"]) == 2, MINUTE)
        assert [one["id"] for one in scene.table()["status"]["history"]] == [3, 2]
        await scene.sleep(55 * MINUTE)
        assert scene.table()["status"]["history"]
        await scene.until(lambda: not scene.table()["status"]["history"], 15 * MINUTE)
        assert scene.table()["status"]["commits"] == commits

    play(story)


def test_a_group_takes_tables_of_the_namespaces_that_it_allows() -> None:
    """It lists such a table by its full name; a ConfigMap in the table's namespace is owned by the table."""

    async def story(scene: Scene) -> None:
        scene.users.make_group("sales", buckets=2, replicas=2, allowedNamespaces=[STOCK])
        scene.users.make_table("clicks", f"{SHOP}/sales", STOCK)
        await scene.until(lambda: scene.status().get("tables") == [f"{STOCK}/clicks"], MINUTE)
        table = scene.world.api.read(TABLES, STOCK, "clicks")
        assert table["status"]["group"] == f"{SHOP}/sales"
        name = f"sales.{SHOP}-spark-shared"
        await scene.until(lambda: scene.world.api.find(CONFIG_MAPS, STOCK, name), MINUTE)
        [owner] = scene.world.api.read(CONFIG_MAPS, STOCK, name)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("ColocatedTable", "clicks", table["metadata"]["uid"])

    play(story)


UNFIT: dict[str, JsonObject] = {
    "columns": {"columns": [KEY, {"name": "more", "type": "int"}]},
    "replicas that its own group does not have": {"replicas": 3},
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_table_that_fits_neither_group_takes_no_loads(case: str) -> None:
    """Files may only have the columns that were accepted."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        scene.users.make_group("wide", buckets=8, replicas=2)
        await scene.until(lambda: scene.rows("wide"), MINUTE)
        move(scene, "wide", **UNFIT[case])
        await scene.until(lambda: scene.condition("Accepted", scene.table())[0] == "False", MINUTE)
        assert scene.condition("Ready", scene.table())[0] == "False", scene.table()
        assert group_of(scene) == "sales"
        scene.world.api.remove(TABLES, SHOP, "orders")

    play(story, nodes=4)


STAYS: dict[str, JsonObject] = {
    "the group does not exist": {"colocateWith": "nowhere/group"},
    "the group has fewer replicas than the table asks for": {"colocateWith": "narrow", "replicas": 2},
}


@pytest.mark.parametrize("case", STAYS)
def test_loads_go_on_where_a_table_cannot_move(case: str) -> None:
    """N11: also when a table that had left its group is moved by ``colocateWith`` alone."""

    async def story(scene: Scene) -> None:
        await two_groups(scene)
        scene.users.make_group("narrow", buckets=4, replicas=1)
        scene.users.patch_table(scene.table(), STAYS[case])
        await scene.until(lambda: scene.condition("Accepted", scene.table())[0] == "False", MINUTE)
        assert scene.condition("Ready", scene.table())[0] == "True"
        await scene.load(OVERWRITE)
        assert group_of(scene) == "sales"

    play(story, nodes=4)
