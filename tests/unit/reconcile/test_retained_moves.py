"""A table's present snapshot is empty and a retained one is not: no move and no deletion may lose what that one has."""

from dataclasses import replace

from colocation.model.agent import TableReport
from colocation.model.names import LABEL_DRAIN
from colocation.model.table import TableSnapshot
from colocation.reconcile.actions import DropBucket, StartClone
from colocation.state.observation import Observation

from ..state.objects import MANIFEST, agent, node, table_report
from .scenes import NODES, actions_of, agent_view, decided, observe, settled_group, settled_table

OLDER = TableSnapshot(id=0, manifest=f"sha256:{'b' * 64}", committed_at="2026-11-21T00:00:00Z")
LOADED = settled_table("orders")
ORDERS = replace(LOADED, status=LOADED.status.model_copy(update={"history": (OLDER,)}))
WHOLE = replace(table_report(ORDERS, {}), retained_only=(0, 1))
LACKING = replace(WHOLE, retained_missing=(0, 1))
BARE = replace(table_report(ORDERS, {}), manifest_present=False, retained_present=False)


def emptied(on_node_1: TableReport, on_node_3: TableReport, drained: str | None = None) -> Observation:
    """Nodes 1 and 2 are the map's."""
    group = settled_group((ORDERS,), rows=(("node-1", "node-2"), ("node-1", "node-2")))
    shown = {"node-1": on_node_1, "node-2": LACKING, "node-3": on_node_3}
    views = {name: agent_view(group, (ORDERS,), [report]) for name, report in shown.items()}
    nodes = tuple(node(name, labels={LABEL_DRAIN: "true"} if name == drained else None) for name in NODES)
    sizes = {("shop", ORDERS.directory, MANIFEST): dict[int, int]()}
    return observe(group, (ORDERS,), views, nodes=nodes, bucket_bytes=sizes)


def test_a_drain_clones_what_only_a_retained_snapshot_has() -> None:
    """The map keeps the node until the clone is there; the group is stable all the while."""
    decision = decided(emptied(WHOLE, BARE, drained="node-1"))
    assert {(clone.spec.bucket, clone.spec.target) for clone in actions_of(decision, StartClone)} == {
        (0, "node-3"), (1, "node-3"),
    }  # fmt: skip
    for clone in actions_of(decision, StartClone):
        assert "node-1" in [source.node for source in clone.spec.sources]
        assert clone.spec.tables[0].retained_manifests == ("b" * 64,)
    [plan] = decision.plan.groups
    assert (plan.stable, plan.next_map) == (True, None)


def test_old_files_of_a_node_that_was_away_change_nothing() -> None:
    """They cannot be named there, and the present snapshot has none of their bucket."""
    late = replace(BARE, unnamed_buckets=(0,), surplus_bytes=1)
    decision = decided(emptied(WHOLE, late), collect=False)
    assert [plan.stable for plan in decision.plan.groups] == [True]
    assert decision.snapshot.groups[0].held == decided(emptied(WHOLE, BARE)).snapshot.groups[0].held
    assert not actions_of(decision, DropBucket)


def test_it_ends_once_the_clone_is_there() -> None:
    """And then only."""
    decision = decided(emptied(WHOLE, WHOLE, drained="node-1"))
    [plan] = decision.plan.groups
    assert {name for row in plan.next_map or () for name in row} == {"node-2", "node-3"}
    assert not actions_of(decision, StartClone)


def test_its_last_copy_is_not_deleted() -> None:
    """No node of the map has it, whether they lack its files or have nothing of the table."""
    for on_node_1 in (LACKING, BARE):
        assert not actions_of(decided(emptied(on_node_1, WHOLE)), DropBucket)
    assert actions_of(decided(emptied(WHOLE, WHOLE)), DropBucket)


def test_a_surplus_replica_that_lacks_it_is_deleted() -> None:
    """The map's nodes lack it; node-3 has it and stays, node-4 has the present files only and goes."""
    group = settled_group((ORDERS,), rows=(("node-1", "node-2"), ("node-1", "node-2")))
    whole = table_report(ORDERS, {0: "complete", 1: "complete"})
    lacking = replace(whole, retained_missing=(0, 1))
    shown = {"node-1": lacking, "node-2": lacking, "node-3": whole, "node-4": lacking}
    views = {name: agent_view(group, (ORDERS,), [report]) for name, report in shown.items()}
    nodes = {"nodes": tuple(map(node, shown)), "agents": tuple(map(agent, shown))}
    drops = actions_of(decided(observe(group, (ORDERS,), views, **nodes)), DropBucket)
    assert {drop.node for drop in drops} == {"node-4"}
