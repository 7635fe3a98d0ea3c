"""Tables that move, change and keep older snapshots."""

import pytest

from colocation.model.table import TableSnapshot
from colocation.reconcile.actions import StartClone, WriteConfigMap

from .fake_cluster import minutes
from .story import Story, two_groups


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
    ready = story.condition("orders", "Ready")
    assert ready[0] == "True" and "stays in group sales, where reads and loads go on" in ready[2]

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


async def test_history_is_pruned_when_its_time_is_over() -> None:
    """Even when nothing else happens: the clock alone wakes the operator. Writers' keys stay."""
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
    status = story.cluster.table("orders").status
    assert (status.history, [one.version for one in status.commits]) == ((), [7])


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


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"columns": [{"name": "k", "type": "bigint"}, {"name": "more", "type": "int"}]}, id="columns"),
        pytest.param({"replicas": 3}, id="replicas that its own group does not have"),
    ],
)
async def test_change_that_does_not_fit_its_own_group_either_stops_loads(spec: dict[str, object]) -> None:
    """Files may only have the columns that were accepted."""
    story = await two_groups()
    story.cluster.add_group("wide", buckets=8)
    story.cluster.edit_table("orders", colocateWith="wide", **spec)
    await story.passes()
    assert story.condition("orders", "Accepted")[0] == story.condition("orders", "Ready")[0] == "False"
    assert story.cluster.table("orders").status.group == "sales"


async def test_loads_go_on_where_the_group_that_is_named_does_not_exist() -> None:
    """It is of another namespace, so no table makes it."""
    story = await two_groups()
    story.cluster.edit_table("orders", colocateWith="nowhere/group")
    await story.passes()
    assert story.cluster.table("orders").status.group == "sales"
    assert (story.condition("orders", "Accepted")[0], story.condition("orders", "Ready")[0]) == ("False", "True")


async def test_a_table_that_says_more_replicas_than_the_group_it_is_to_move_to_stays_and_takes_loads() -> None:
    """N11: it had left its group, which makes it say them, and was moved later by colocateWith alone."""
    story = await two_groups()
    story.cluster.add_group("narrow", replicas=1)
    replicas = story.cluster.group("sales").spec.replicas
    story.cluster.edit_table("orders", colocateWith="narrow", replicas=replicas)
    await story.passes()
    assert story.condition("orders", "Accepted")[:2] == ("False", "SchemaMismatch")
    assert (story.condition("orders", "Ready")[0], story.cluster.table("orders").status.group) == ("True", "sales")
