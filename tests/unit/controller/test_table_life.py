"""Tables that move, are dropped, and come back: stories told through whole passes over a fake cluster."""

import pytest

from colocation.controller.reconciler import Reconciler
from colocation.controller.settings import Settings
from colocation.kube.actions import StartClone, WriteConfigMap
from colocation.model.table import TableSnapshot

from .fake_cluster import FakeCluster, minutes

SETTINGS = Settings(namespace="colocation", image="operator:1")
DAY = minutes(24 * 60)


class Story:
    """A cluster with an operator that may be restarted; clones end between passes."""

    def __init__(self, nodes: int = 3) -> None:
        self.cluster = FakeCluster()
        for number in range(1, nodes + 1):
            self.cluster.add_node(f"node-{number}")
        self.restart()

    def restart(self) -> None:
        self.operator = Reconciler(self.cluster, self.cluster, SETTINGS)

    async def passes(self, number: int = 8, restarting: bool = False) -> None:
        for _ in range(number):
            if restarting:
                self.restart()
            await self.operator.reconcile_once()
            self.cluster.end_clones()

    async def loaded(self, name: str, group: str = "sales", **spec: object) -> None:
        self.cluster.add_table(name, group, **spec)
        await self.passes()
        self.cluster.load(name)
        await self.passes()

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        found = {one.type: one for one in self.cluster.table(name).status.conditions}
        return (found[kind].status, found[kind].reason, found[kind].message) if kind in found else ("", "", "")

    def places_of(self, name: str) -> list[set[str]]:
        """The nodes that hold each bucket of the table."""
        directory = self.cluster.table(name).directory
        disks = self.cluster.disks.items()
        return [{node for node, disk in disks if bucket in disk.get(directory, ())} for bucket in range(4)]

    def map_of(self, group: str) -> list[set[str]]:
        return [set(row) for row in self.cluster.group(group).status.backends_per_bucket_seq or ()]


async def two_groups() -> Story:
    """Table ``orders`` beside ``customers`` in ``sales``; group ``stock`` with table ``items`` has another map."""
    story = Story(nodes=4)
    story.cluster.add_group("sales")
    story.cluster.add_group("stock", bucketSequence=[["node-3", "node-4"]] * 4)
    await story.loaded("orders")
    await story.loaded("customers")
    await story.loaded("items", "stock")
    return story


@pytest.mark.parametrize("restarting", [False, True], ids=["one operator", "restarted before every pass"])
async def test_table_moves_to_another_group(restarting: bool) -> None:
    """Its files are on every node of the new map before its status names the new group; nobody is ever unstable."""
    story = await two_groups()
    others = story.places_of("customers"), story.places_of("items")
    story.cluster.edit_table("orders", colocateWith="stock")
    for _ in range(20):
        if restarting:
            story.restart()
            await story.operator.reconcile_once()
        await story.operator.reconcile_once()
        table = story.cluster.table("orders")
        wanted = story.map_of(table.status.group or "")
        assert all(nodes >= row for nodes, row in zip(story.places_of("orders"), wanted, strict=True))
        assert story.cluster.group("sales").status.stable and story.cluster.group("stock").status.stable
        assert table.status.accepted
        story.cluster.end_clones()

    assert story.cluster.table("orders").status.group == "stock"
    assert story.places_of("orders") == story.map_of("stock")
    assert (story.places_of("customers"), story.places_of("items")) == others
    assert story.cluster.group("sales").status.tables == ("customers",)
    assert story.cluster.group("stock").status.tables == ("items", "orders")
    assert story.cluster.jobs == {}
    assert {"TableMoveStarted", "TableMoved"} <= set(story.cluster.events())


async def test_columns_that_files_do_not_fit_are_refused() -> None:
    """Whether the webhook is there or not; the table stays whole, and is well again when they are changed back."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    key = {"name": "k", "type": "bigint"}
    story.cluster.edit_table("orders", columns=[key, {"name": "n", "type": "int"}])
    await story.passes(2)
    assert story.cluster.table("orders").status.accepted
    story.cluster.edit_table("orders", columns=[key, {"name": "n", "type": "string"}])
    await story.passes(2)
    status, reason, message = story.condition("orders", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "column n has type int and should be string" in message
    story.cluster.remove_node(story.cluster.group().status.nodes[0])
    await story.passes(12)
    assert story.cluster.group().status.stable
    assert story.places_of("orders") == story.map_of("sales")
    story.cluster.edit_table("orders", columns=[key, {"name": "n", "type": "int"}])
    await story.passes(2)
    assert story.cluster.table("orders").status.accepted


async def test_change_that_does_not_fit_changes_nothing() -> None:
    """The table stays in its group, is repaired there, and says what it should be."""
    story = await two_groups()
    story.cluster.add_group("wide", buckets=8)
    before = story.places_of("orders")
    story.cluster.edit_table("orders", colocateWith="wide")
    await story.passes()
    status, reason, message = story.condition("orders", "Accepted")
    assert (status, reason) == ("False", "SchemaMismatch")
    assert "same bucket num: 4 should be 8, as in group wide" in message
    assert story.cluster.table("orders").status.group == "sales"
    assert story.cluster.group("sales").status.tables == ("customers", "orders")
    assert story.places_of("orders") == before

    lost = story.cluster.group("sales").status.nodes[0]
    story.cluster.remove_node(lost)
    await story.passes(12)
    assert story.cluster.group("sales").status.stable
    assert story.places_of("orders") == story.map_of("sales")

    story.cluster.edit_table("orders", colocateWith="sales")
    await story.passes(2)
    assert story.condition("orders", "Accepted")[0] == "True"


async def test_change_taken_back_leaves_no_trace() -> None:
    """What was copied so far is deleted, and the old group serves as before."""
    story = await two_groups()
    story.cluster.edit_table("orders", colocateWith="stock")
    await story.passes(3)
    story.cluster.edit_table("orders", colocateWith="sales")
    await story.passes(10)
    assert story.cluster.table("orders").status.group == "sales"
    assert story.places_of("orders") == story.map_of("sales")
    assert not any(member.leaving for member in story.cluster.group("sales").status.members)


async def test_table_leaves_all_groups_and_comes_back() -> None:
    """Alone it keeps its nodes without a copy, in a group of its own that is repaired like any, and goes after it."""
    story = await two_groups()
    before = story.places_of("orders")
    story.cluster.performed.clear()
    story.cluster.edit_table("orders", colocateWith="")
    await story.passes(10)
    alone = story.cluster.table("orders").status.group or ""
    assert story.cluster.group(alone).private
    assert story.cluster.group(alone).status.tables == ("orders",)
    assert story.places_of("orders") == before
    assert not any(isinstance(action, StartClone) for action in story.cluster.performed)

    story.cluster.remove_node(story.cluster.group(alone).status.nodes[0])
    await story.passes(12)
    assert story.places_of("orders") == story.map_of(alone)

    story.cluster.edit_table("orders", colocateWith="sales")
    await story.passes(14)
    assert story.cluster.table("orders").status.group == "sales"
    assert story.places_of("orders") == story.map_of("sales")
    assert ("shop", alone) not in story.cluster.groups


async def test_table_makes_a_new_group_for_itself() -> None:
    """What the spec leaves out is as it was; the new group begins where the files are."""
    story = await two_groups()
    before = story.places_of("orders")
    story.cluster.edit_table("orders", colocateWith="fresh")
    await story.passes(10)
    spec = story.cluster.group("fresh").spec
    assert spec is not None
    assert (spec.buckets, spec.replicas) == (4, 2)
    assert story.places_of("orders") == before == story.map_of("fresh")


async def test_table_is_made_in_no_group() -> None:
    """It gets a place of its own; without buckets and replicas it says that they are needed."""
    story = Story()
    story.cluster.add_table("alone", "", buckets=4, replicas=2)
    story.cluster.add_table("vague", "")
    await story.passes()
    assert story.condition("alone", "Ready")[0] == "True"
    assert story.condition("vague", "Accepted")[1] == "NoGroup"
    assert "give buckets and replicas" in story.condition("vague", "Accepted")[2]


@pytest.mark.parametrize("seen", [True, False], ids=["the operator is there", "the operator is away"])
async def test_dropped_table_comes_back_whole(seen: bool) -> None:
    """It waits in the bin with its mark; asked for, it is made anew with the same snapshot and files."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders", recycleAfterSeconds=7200, retention={"seconds": 5})
    snapshot = story.cluster.table("orders").status.snapshot
    story.cluster.drop_table("orders", seen)
    if not seen:
        story.restart()
    await story.passes(3)
    group = story.cluster.group().status
    assert (group.tables, group.table_count) == (("orders*",), 0)
    assert group.delete_after == group.recycled[0].purge_at
    assert not any(story.cluster.disks.values())
    assert any(story.cluster.bins.values())

    story.cluster.ask_for("orders")
    await story.passes(12, restarting=True)
    await story.passes(3)
    table = story.cluster.table("orders")
    assert table.status.snapshot == snapshot
    assert table.spec is not None
    assert (table.spec.recycle_after_seconds, table.spec.retention.seconds) == (7200, 5)
    assert story.places_of("orders") == story.map_of("sales")
    group = story.cluster.group().status
    assert (group.tables, group.recycled, group.delete_after, group.stable) == (("orders",), (), None, True)
    assert story.cluster.group().recover_requests == set()
    assert not any(story.cluster.bins.values())
    assert {"TableDropped", "TableRecovered"} <= set(story.cluster.events())


async def test_node_that_was_away_gives_its_files_back_too() -> None:
    """Its folder was never recycled; once a live replica of each bucket is back, the table is, and the rest follows."""
    story = Story()
    story.cluster.add_group("sales", relocation={"enabled": False})
    await story.loaded("orders")
    story.cluster.set_ready("node-1", False)
    story.cluster.silent_since["node-1"] = story.cluster.now
    story.cluster.drop_table("orders")
    await story.passes()
    story.cluster.ask_for("orders")
    await story.passes(10)
    assert story.cluster.table("orders").status.snapshot is not None
    story.cluster.set_ready("node-1", True)
    del story.cluster.silent_since["node-1"]
    await story.passes(14)
    assert story.cluster.group().status.stable
    assert story.places_of("orders") == story.map_of("sales")


async def test_recovery_asks_every_agent_that_answers() -> None:
    """One that is slow, on a busy machine, has its folder renamed like the others: nothing is cloned."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    places = story.places_of("orders")
    slow = story.cluster.group().status.nodes[0]
    story.cluster.set_slow(slow)
    story.cluster.drop_table("orders")
    await story.passes()
    story.cluster.ask_for("orders")
    await story.passes()
    assert story.condition("orders", "Accepted")[:2] == ("False", "Recovering")
    del story.cluster.last_words[slow]
    await story.passes()
    assert story.cluster.table("orders").status.snapshot is not None
    assert story.places_of("orders") == places
    assert not [one for one in story.cluster.performed if isinstance(one, StartClone)]


async def test_recovery_waits_for_the_last_live_replica() -> None:
    """A table without all of its rows is never shown: it says which buckets are missing, and goes on with them."""
    story = Story()
    story.cluster.add_group("sales", replicas=1, relocation={"enabled": False})
    await story.loaded("orders")
    away = story.cluster.group().status.nodes[0]
    story.cluster.set_ready(away, False)
    story.cluster.silent_since[away] = story.cluster.now
    story.cluster.drop_table("orders")
    await story.passes()
    story.cluster.ask_for("orders")
    await story.passes()
    assert story.cluster.table("orders").status.snapshot is None
    status, reason, message = story.condition("orders", "Accepted")
    assert (status, reason) == ("False", "Recovering")
    assert "no live node has buckets" in message
    story.cluster.set_ready(away, True)
    del story.cluster.silent_since[away]
    await story.passes(10)
    assert story.cluster.table("orders").status.snapshot is not None


@pytest.mark.parametrize("everywhere", [True, False], ids=["all files", "the files of one node"])
async def test_recovery_that_the_purge_overtakes_ends(everywhere: bool) -> None:
    """Asked for in time, purged before it was back: while a node is away it may still come; then it says so."""
    story = Story()
    story.cluster.add_group("sales", replicas=1, deletionPolicy="Retain", relocation={"enabled": False})
    await story.loaded("orders")
    purged = story.cluster.group().status.nodes[: None if everywhere else 1]
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    await story.passes(1)
    for node in purged:
        story.cluster.purge(node)
    story.cluster.silent_since[purged[0]] = story.cluster.now
    story.cluster.now += DAY + minutes(1)
    await story.passes(6)
    assert story.condition("orders", "Accepted")[:2] == ("False", "Recovering")
    assert len(story.cluster.group().status.recycled) == 1

    del story.cluster.silent_since[purged[0]]
    await story.passes(3)
    assert story.condition("orders", "Accepted")[:2] == ("False", "Purged")
    assert story.cluster.table("orders").status.snapshot is None
    assert story.cluster.group().status.recycled == ()
    assert "TablePurged" in story.cluster.events()
    assert "TableRecovered" not in story.cluster.events()


async def test_recovery_that_began_in_time_ends_well() -> None:
    """The time in the bin is over while a node is away that has the last files: they still come back."""
    story = Story()
    story.cluster.add_group("sales", replicas=1, deletionPolicy="Retain", relocation={"enabled": False})
    await story.loaded("orders")
    away = story.cluster.group().status.nodes[0]
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.silent_since[away] = story.cluster.now
    story.cluster.ask_for("orders")
    await story.passes(4)
    story.cluster.now += DAY + minutes(1)
    await story.passes(4)
    del story.cluster.silent_since[away]
    await story.passes(8)
    assert story.cluster.table("orders").status.snapshot is not None
    assert story.places_of("orders") == story.map_of("sales")


@pytest.mark.parametrize("case", ["exists", "purged"])
async def test_recovery_is_refused(case: str) -> None:
    """While another table has the name, and when it is too late: the event says so, and nothing changes."""
    story = Story()
    story.cluster.add_group("sales", deletionPolicy="Retain")
    await story.loaded("orders")
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    if case == "exists":
        story.cluster.add_table("orders")
    else:
        story.cluster.now += DAY + minutes(1)
    await story.passes(4)
    assert "RecoverRefused" in story.cluster.events()
    assert story.cluster.group().recover_requests == set()
    if case == "purged":
        assert ("shop", "orders") not in story.cluster.tables
        assert story.cluster.group().status.tables == ()
        assert "TablePurged" in story.cluster.events()
    else:
        assert story.cluster.table("orders").status.snapshot is None
        assert story.cluster.group().status.tables == ("orders", "orders*")


async def test_recovery_given_up_can_be_asked_for_again() -> None:
    """The table that was to take over the files is deleted half way: they wait under its name, and still come back."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders")
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    while not any(story.cluster.disks.values()):
        await story.passes(1)
    story.cluster.drop_table("orders")
    await story.passes(3)
    story.cluster.ask_for("orders")
    await story.passes(12)
    assert story.cluster.table("orders").status.snapshot is not None
    assert story.places_of("orders") == story.map_of("sales")


async def test_history_is_pruned_when_its_time_is_over() -> None:
    """Even when nothing else happens: the clock alone wakes the operator."""
    story = Story()
    story.cluster.add_group("sales")
    await story.loaded("orders", retention={"seconds": 3600, "snapshots": 2})
    table = story.cluster.table("orders")
    assert table.status.snapshot is not None

    def snapshot(number: int) -> TableSnapshot:
        time = f"2026-11-21T00:0{number}:00Z"
        return TableSnapshot(id=number, manifest=f"sha256:{number:064x}", committed_at=time)

    story.cluster.replace_history("orders", table.status.snapshot, (snapshot(3), snapshot(2), snapshot(1)))
    await story.passes(3)
    assert [one.id for one in story.cluster.table("orders").status.history] == [3, 2]
    story.cluster.now += minutes(61)
    await story.passes(2)
    assert story.cluster.table("orders").status.history == ()


async def test_group_of_another_namespace() -> None:
    """It lists the table by its full name, and keeps a ConfigMap where the table's pods run, which goes with it."""
    story = Story()
    story.cluster.add_group("sales", allowedNamespaces=["lake"])
    story.cluster.add_table("clicks", "shop/sales", namespace="lake")
    await story.passes(4)
    assert story.cluster.group().status.tables == ("lake/clicks",)
    assert story.cluster.tables["lake", "clicks"].status.group == "shop/sales"
    content = story.cluster.config_maps["lake", "sales.shop-spark-shared"]
    assert (content.placement.namespace, content.placement.group_namespace) == ("lake", "shop")
    writes = [one for one in story.cluster.performed if isinstance(one, WriteConfigMap)]
    [owner] = next(one.owners for one in writes if one.content.placement.namespace == "lake")
    assert (owner.kind, owner.name) == ("ColocatedTable", "clicks")
