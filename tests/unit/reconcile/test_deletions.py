"""Every deletion names what stays and carries what it was decided from; where that is not known, nothing goes."""

from dataclasses import replace

import pytest

from colocation.model.agent import DeletionProof, TableReport
from colocation.model.group import Balancing, BucketSequence, RecycledTable
from colocation.model.table import ColocatedTableStatus, TableSnapshot
from colocation.reconcile.actions import CollectGarbage, DeleteGroup, DropBucket, RecycleTable, TableDrop
from colocation.reconcile.decide import decide
from colocation.reconcile.deletion import stray_clones
from colocation.reconcile.evidence import Evidence
from colocation.state.objects import ObservedGroup, ObservedTable
from colocation.state.observation import Observation

from ..state.objects import GROUP_UID, MANIFEST, NOW, agent, bucket, clone_job, node, seconds, table_report
from .scenes import (
    MAP_VERSION,
    NODES,
    POLICY,
    SETTLED,
    STRANGE,
    actions_of,
    agent_view,
    decided,
    held_by,
    member_of,
    observe,
    on_disk,
    quiet_observation,
    settled_group,
    settled_table,
)

OLD_MANIFEST = "b" * 64
ORDERS, LINES = settled_table("orders"), settled_table("lines")
PURGE_AT = "2026-11-22T00:00:00Z"


def surplus(of: ObservedTable, node: str, manifest: str | None = MANIFEST) -> TableReport:
    """With files that no live manifest names."""
    return replace(held_by(node, of), surplus_bytes=10, manifest=manifest)


def proof_of(of: ObservedTable) -> DeletionProof:
    return DeletionProof(
        instance="agent-process", not_after_seconds=1035.0, term=7, table_uid=of.identity.uid,
        group_uid=GROUP_UID, map_version=MAP_VERSION,
    )  # fmt: skip


def with_history(of: ObservedTable) -> ObservedTable:
    older = TableSnapshot(id=0, manifest=f"sha256:{OLD_MANIFEST}", committed_at="2026-11-21T00:00:00Z")
    return replace(of, status=of.status.model_copy(update={"history": (older,)}))


NOTHING_COMMITTED = replace(
    ORDERS, status=with_history(ORDERS).status.model_copy(update={"snapshot": None})
)


def recovering(of: ObservedTable, uid: str = "99999999-new") -> tuple[ObservedTable, RecycledTable]:
    """A table that is to bring back the dropped one, and the record of that one."""
    member = member_of(of).model_dump(exclude={"leaving"})
    record = RecycledTable(**member, deleted_at=PURGE_AT, purge_at=PURGE_AT, recovery_uids=(uid,))
    identity = replace(of.identity, uid=uid)
    return ObservedTable(identity, of.spec, "", ColocatedTableStatus(), recovers=of.identity.uid), record


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(replace(ORDERS, status=ORDERS.status.model_copy(update={"snapshot": None})), id="never loaded"),
        pytest.param(NOTHING_COMMITTED, id="nothing is committed, whatever the history has"),
        pytest.param(replace(ORDERS, status_error="status.history: not a list"), id="status is not readable"),
        pytest.param(recovering(ORDERS)[0], id="to be recovered, and no group remembers what"),
    ],
)
def test_nothing_is_deleted_of_a_table_without_known_manifests(table: ObservedTable) -> None:
    """An empty list of live manifests would call every file garbage."""
    group = settled_group((table, LINES))
    extra = dict.fromkeys((0, 1), "complete")
    views = {
        name: agent_view(
            group, (table, LINES), [surplus(table, name, table.reference.manifest), table_report(LINES, extra)]
        )
        for name in NODES
    }
    decision = decided(observe(group, (table, LINES), views))
    drops = actions_of(decision, DropBucket)
    assert drops, "the other table's surplus replicas go"
    assert {one.directory for drop in drops for one in drop.tables} == {LINES.directory}
    assert not [one for one in actions_of(decision, CollectGarbage) if one.directory == table.directory]


def surplus_replica() -> Observation:
    """Node 3 holds bucket 0, which is complete on the map's nodes."""
    observation = quiet_observation("orders", "lines")
    states = {0: "complete", 1: "complete"}
    reports = [table_report(one, states) for one in observation.tables]
    [group] = observation.groups
    views = {**observation.agent_views, "node-3": agent_view(group, observation.tables, reports)}
    return replace(observation, agent_views=views)


def test_drop_carries_a_proof_per_table() -> None:
    """Void 30 s after it was decided, by the clock of the agent's process; for this term, table, group and map."""
    observation = surplus_replica()
    [drop] = actions_of(decided(observation), DropBucket)
    assert (drop.node, drop.bucket) == ("node-3", 0)
    assert {one.directory: (one.manifests, one.proof) for one in drop.tables} == {
        one.directory: ((MANIFEST,), proof_of(one)) for one in observation.tables
    }


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"uid": "another"}, id="another table of the name"),
        pytest.param({"map_version": 2}, id="an older map"),
        pytest.param({"group_uid": None}, id="in no group"),
    ],
)
def test_no_drop_before_the_agent_knows_the_epoch(change: dict[str, object]) -> None:
    """Its newest question is about another map or table: it would refuse the order."""
    observation = surplus_replica()
    view = observation.agent_views["node-3"]
    asked = {key: one.model_copy(update=change) for key, one in view.asked.items()}
    views = {**observation.agent_views, "node-3": replace(view, asked=asked)}
    assert not actions_of(decided(replace(observation, agent_views=views)), DropBucket)


def test_collection_keeps_retained_snapshots_and_carries_a_proof() -> None:
    """And waits for the agent to be asked about the manifests that are live now."""
    table = with_history(ORDERS)
    group = settled_group((table,))
    views = {name: agent_view(group, (table,), [surplus(table, name)]) for name in NODES}
    found = actions_of(decided(observe(group, (table,), views)), CollectGarbage)
    assert [(one.manifests, one.proof) for one in found] == [((MANIFEST, OLD_MANIFEST), proof_of(table))] * 3
    stale = {name: agent_view(group, (ORDERS,), [surplus(table, name)]) for name in NODES}
    assert not actions_of(decided(observe(group, (table,), stale)), CollectGarbage)


@pytest.mark.parametrize("silent", [NODES, ("node-3",)], ids=["all", "the one that has what may go"])
def test_silent_agent_is_ordered_nothing(silent: tuple[str, ...]) -> None:
    """Its last word may be of long ago, even while its node still counts as ready."""
    observation = surplus_replica()
    views = dict(observation.agent_views)
    tables = {key: replace(one, surplus_bytes=10) for key, one in views["node-3"].tables.items()}
    views["node-3"] = replace(views["node-3"], tables=tables)
    heard = decided(replace(observation, agent_views=views))
    assert actions_of(heard, DropBucket) and actions_of(heard, CollectGarbage)
    views |= {name: replace(views[name], silent_since=NOW - seconds(1)) for name in silent}
    decision = decided(replace(observation, agent_views=views))
    assert decision.errors == {}
    assert not [one for kind in (DropBucket, CollectGarbage, RecycleTable) for one in actions_of(decision, kind)]


@pytest.mark.parametrize("address", [None, "10.0.0.1"])
def test_agent_without_an_address_is_ordered_nothing(address: str | None) -> None:
    """Its pod is just made; of several nodes with surplus replicas the others go on."""
    observation, names = surplus_replica(), (*NODES, "node-4")
    surplus = observation.agent_views["node-3"]
    tables = {key: replace(one, surplus_bytes=10) for key, one in surplus.tables.items()}
    views = {**observation.agent_views, **dict.fromkeys(("node-3", "node-4"), replace(surplus, tables=tables))}
    agents = tuple(agent(name, address if name == "node-3" else "10.0.0.1") for name in names)
    decision = decided(replace(observation, agent_views=views, agents=agents, nodes=tuple(map(node, names))))
    assert decision.errors == {}
    for kind in (DropBucket, CollectGarbage):
        assert {one.node for one in actions_of(decision, kind)} == {"node-4"} | ({"node-3"} if address else set())


def test_operator_that_has_just_begun_drops_nothing() -> None:
    """It does not know since when the map is what it is."""
    assert not actions_of(decide(surplus_replica(), Evidence(), POLICY, False), DropBucket)


def test_replica_that_was_ordered_away_does_not_count() -> None:
    """Neither for the verdict, nor as a reason to delete another: the order may still run."""
    observation = surplus_replica()
    group, [orders, _] = observation.groups[0], observation.tables
    part = TableDrop("shop", orders.directory, (MANIFEST,), proof_of(orders))
    order = DropBucket(group.identity, MAP_VERSION, "node-1", "https://1:8440", 0, (part,), 60)
    evidence = Evidence().after(replace(observation, now=NOW - seconds(3600)), ())
    decision = decide(observation, evidence.after(replace(observation, now=NOW - seconds(1)), (order,)), POLICY, False)
    assert not actions_of(decision, DropBucket)
    assert not decision.plan.groups[0].stable


def test_last_replica_of_a_retained_snapshot_stays() -> None:
    """No node of the map has the older snapshot's files: they would be lost."""
    orders = with_history(ORDERS)
    group = settled_group((orders,))
    views = {}
    for name in NODES:
        states = {0: "complete", 1: "complete"} if name == "node-3" else None
        shown = table_report(orders, states) if states else held_by(name, orders)
        lacking = () if name == "node-3" else (0,)
        views[name] = agent_view(group, (orders,), [replace(shown, retained_missing=lacking)])
    observation = observe(group, (orders,), views)
    assert not actions_of(decided(observation), DropBucket)
    for name, view in views.items():
        tables = {key: replace(one, retained_missing=()) for key, one in view.tables.items()}
        views[name] = replace(view, tables=tables)
    assert actions_of(decided(replace(observation, agent_views=views)), DropBucket)


LEFT = replace(held_by("node-3", ORDERS), manifest_present=False, buckets={}, surplus_bytes=10)
"""Of a node that was in the map before the last commit, and never got its manifest."""


TWO_NODES: BucketSequence = (("node-1", "node-2"), ("node-1", "node-2"))


def unbalanced(group: ObservedGroup) -> ObservedGroup:
    """The group, in which nothing moves for evenness."""
    assert group.spec is not None
    return replace(group, spec=group.spec.model_copy(update={"balancing": Balancing(enabled=False)}))


def left_behind(
    table: ObservedTable = ORDERS,
    rows: BucketSequence = TWO_NODES,
    balanced: bool = False,
    recycled: tuple[RecycledTable, ...] = (),
    **of_node_2: object,
) -> Observation:
    """Two nodes in the map, and what one that has left it still has."""
    group = settled_group((table,), recycled, rows)
    group = group if balanced else unbalanced(group)
    whole = {number: bucket("complete") for number in range(2)}
    shown = {
        "node-1": replace(held_by("node-1", table), buckets=whole),
        "node-2": replace(held_by("node-2", table), **{"buckets": whole, **of_node_2}),
        "node-3": replace(LEFT, directory=table.directory),
    }
    return observe(group, (table,), {node: agent_view(group, (table,), [shown[node]]) for node in NODES})


@pytest.mark.parametrize("recovers", [None, "88888888-old"], ids=["never dropped", "brought back once"])
def test_what_a_node_outside_of_the_map_cannot_tell_from_garbage_is_dropped(recovers: str | None) -> None:
    """It lacks the manifest, so a collection would be refused for ever; the map's nodes have everything."""
    table = replace(ORDERS, recovers=recovers, identity=replace(ORDERS.identity, created_at=SETTLED))
    actions = decided(left_behind(table))
    assert actions_of(actions, CollectGarbage) == []
    assert {(drop.node, drop.bucket) for drop in actions_of(actions, DropBucket)} == {("node-3", 0), ("node-3", 1)}


def test_what_only_retained_snapshots_name_is_dropped_there_too() -> None:
    """It has their manifests, so its agent calls none of it surplus (found by simulation, seed 7)."""
    table = with_history(ORDERS)
    observation = left_behind(table)
    [key] = observation.agent_views["node-3"].tables
    old = replace(LEFT, surplus_bytes=0, unnamed_buckets=(0, 1))
    views = {**observation.agent_views, "node-3": replace(observation.agent_views["node-3"], tables={key: old})}
    found = actions_of(decided(replace(observation, agent_views=views)), DropBucket)
    assert {(drop.node, drop.bucket) for drop in found} == {("node-3", 0), ("node-3", 1)}


@pytest.mark.parametrize(
    ("of_node_2", "buckets"),
    [
        pytest.param({"buckets": {0: bucket("complete"), 1: bucket("partial")}}, {0}, id="one is not whole"),
        pytest.param({"retained_missing": (0,)}, {1}, id="a retained snapshot's files may be there only"),
        pytest.param({"retained_present": False}, set(), id="a retained manifest is missing"),
        pytest.param({"manifest_present": False}, set(), id="the manifest is missing"),
    ],
)
def test_it_stays_while_it_may_be_needed(of_node_2: dict[str, object], buckets: set[int]) -> None:
    """Files that the map's nodes lack may be among it."""
    found = actions_of(decided(left_behind(**of_node_2)), DropBucket)
    assert {drop.bucket for drop in found if drop.node == "node-3"} == buckets


@pytest.mark.parametrize(
    ("shown", "goes"),
    [
        pytest.param({"surplus_bytes": 1}, True, id="files that it cannot name"),
        pytest.param({"surplus_bytes": 0}, False, id="nothing any more"),
        pytest.param({"manifest_present": True}, False, id="the manifest: it tells garbage by itself"),
    ],
)
def test_only_what_cannot_be_collected_is_dropped(shown: dict[str, object], goes: bool) -> None:
    """A drop that finds nothing would be ordered again with every pass."""
    observation = left_behind()
    view = observation.agent_views["node-3"]
    tables = {key: replace(one, **shown) for key, one in view.tables.items()}  # type: ignore[arg-type]
    views = {**observation.agent_views, "node-3": replace(view, tables=tables)}
    assert bool(actions_of(decided(replace(observation, agent_views=views)), DropBucket)) is goes


@pytest.mark.parametrize("node_2", [{}, {"manifest_present": False}, None], ids=["has it", "lacks it", "no report"])
def test_what_is_left_of_a_table_without_rows_goes_once_the_map_has_its_manifest(
    node_2: dict[str, bool] | None,
) -> None:
    """No node has to hold any file of it then."""
    observation = left_behind()
    view = observation.agent_views["node-2"]
    tables = {key: replace(one, buckets={}, **node_2) for key, one in view.tables.items() if node_2 is not None}
    views = {**observation.agent_views, "node-2": replace(view, tables=tables)}
    sizes = {("shop", ORDERS.directory, MANIFEST): dict[int, int]()}
    decision = decided(replace(observation, agent_views=views, bucket_bytes=sizes))
    assert decision.errors == {}
    assert [one.bucket for one in actions_of(decision, DropBucket)] == ([0, 1] if node_2 == {} else [])


def two_left_behind(first: ObservedTable) -> Observation:
    """Node 3 has files of two tables that it cannot name."""
    tables = (first, LINES)
    group = unbalanced(settled_group(tables, rows=TWO_NODES))
    whole = {number: bucket("complete") for number in range(2)}
    shown = {name: [replace(held_by(name, one), buckets=whole) for one in tables] for name in ("node-1", "node-2")}
    shown["node-3"] = [replace(LEFT, directory=one.directory) for one in tables]
    return observe(group, tables, {name: agent_view(group, tables, shown[name]) for name in NODES})


@pytest.mark.parametrize("case", ["goes", "leaves", "was brought back", "its agent is silent"])
def test_a_table_that_has_to_stay_holds_up_no_other(case: str) -> None:
    """Each is judged by itself."""
    observation = two_left_behind(replace(ORDERS, recovers="88888888-old") if case == "was brought back" else ORDERS)
    [group] = observation.groups
    first, *others = group.status.members
    members = (first.model_copy(update={"leaving": case == "leaves"}), *others)
    group = replace(group, status=group.status.model_copy(update={"members": members}))
    views = dict(observation.agent_views)
    if case == "its agent is silent":
        views["node-3"] = replace(views["node-3"], silent_since=NOW - seconds(1))
    decision = decided(replace(observation, groups=(group,), agent_views=views))
    found = {table.directory for drop in actions_of(decision, DropBucket) for table in drop.tables}
    assert all(drop.tables for drop in actions_of(decision, DropBucket))
    goes = {"goes": {ORDERS.directory, LINES.directory}, "its agent is silent": set()}
    assert found == goes.get(case, {LINES.directory})
    assert decision.errors == {}


@pytest.mark.parametrize("has_group", [True, False], ids=["its group has no map", "no group places it"])
def test_nothing_goes_of_a_table_without_a_place(has_group: bool) -> None:
    """Which nodes are to hold it is not known."""
    observation = left_behind()
    [group] = observation.groups
    nothing = {"backends_per_bucket_seq": None, "map_version": None}
    unplaced = replace(group, status=group.status.model_copy(update=nothing))
    decision = decided(replace(observation, groups=(unplaced,) if has_group else ()))
    assert (actions_of(decision, DropBucket), decision.errors) == ([], {})


def with_an_empty_bucket() -> Observation:
    """Node 3 is in the map for a bucket without files, so no move goes there."""
    observation = left_behind(rows=(("node-1", "node-2"), ("node-1", "node-3")))
    sizes = {("shop", ORDERS.directory, MANIFEST): {0: 50}}
    return replace(observation, bucket_bytes=sizes)


def with_a_leaving_table() -> Observation:
    """Its files may be on their way to another group."""
    observation = left_behind()
    [group] = observation.groups
    members = tuple(member.model_copy(update={"leaving": True}) for member in group.status.members)
    return replace(observation, groups=(replace(group, status=group.status.model_copy(update={"members": members})),))


def with_a_recovering_table() -> Observation:
    """Its status has no snapshot, so all of its buckets look empty; a tenant made it name the group."""
    table, record = recovering(ORDERS)
    return left_behind(replace(table, status=ColocatedTableStatus(group="sales")), recycled=(record,))


def on_a_strange_disk() -> Observation:
    """Another disk is at node 3's data root than the group remembers."""
    return on_disk(left_behind(), "node-3", STRANGE)


def with_an_unconfirmed_replica() -> Observation:
    """Node 2 has everything of the former commit, and was not asked about the last one yet."""
    observation = left_behind(manifest=OLD_MANIFEST)
    before = ORDERS.status.snapshot
    assert before is not None
    snapshot = before.model_copy(update={"manifest": f"sha256:{OLD_MANIFEST}"})
    former = replace(ORDERS, status=ORDERS.status.model_copy(update={"snapshot": snapshot}))
    shown = observation.agent_views["node-2"].tables.values()
    views = {**observation.agent_views, "node-2": agent_view(observation.groups[0], (former,), shown)}
    seen_at = {ORDERS.identity.uid: NOW - seconds(1)}
    found = replace(observation, agent_views=views, snapshots_seen_at=seen_at)
    assert decided(found).snapshot.groups[0].unconfirmed == {"node-2": (0, 1)}
    return found


def with_a_node_down() -> Observation:
    """Node 2 held everything when its agent was heard last; no one knows whether it will again."""
    observation = left_behind()
    nodes = tuple(replace(one, ready=one.name != "node-2") for one in observation.nodes)
    return replace(observation, nodes=nodes)


@pytest.mark.parametrize(
    "observation",
    [
        pytest.param(with_a_node_down(), id="a node of the map is down"),
        pytest.param(with_an_empty_bucket(), id="the map names the node"),
        pytest.param(left_behind(balanced=True), id="a move goes there"),
        pytest.param(replace(left_behind(), clone_jobs=(clone_job(),)), id="a clone runs there"),
        pytest.param(with_a_leaving_table(), id="the table leaves the group"),
        pytest.param(with_a_recovering_table(), id="the table is brought back"),
        pytest.param(left_behind(replace(ORDERS, recovers="88888888-old")), id="it was brought back just now"),
        pytest.param(on_a_strange_disk(), id="no one accepted the disk"),
        pytest.param(with_an_unconfirmed_replica(), id="a replica in the map is unconfirmed"),
    ],
)
def test_what_a_node_cannot_tell_from_garbage_stays_where_it_may_be_wanted(observation: Observation) -> None:
    """By its node, which tells garbage once it has the manifest; by another group; or as the last whole copy."""
    found = actions_of(decided(observation), DropBucket)
    assert [drop.bucket for drop in found if drop.node == "node-3"] == []


def leaving_with_a_surplus(names_of_others: tuple[str, ...], state: str | None = "complete") -> Observation:
    """Node 2 holds bucket 0 outside the map: of a table that leaves the group, and of these others in this state."""
    tables = (ORDERS, *(settled_table(name) for name in names_of_others))
    rows: BucketSequence = (("node-1", "node-3"), ("node-1", "node-3"))
    group = settled_group(tables, rows=rows)
    members = tuple(
        one.model_copy(update={"leaving": one.uid == ORDERS.identity.uid}) for one in group.status.members
    )
    group = unbalanced(replace(group, status=group.status.model_copy(update={"members": members})))
    views = {name: agent_view(group, tables, [held_by(name, one, rows) for one in tables]) for name in NODES}
    more = [replace(held_by("node-2", one), buckets={0: bucket(state)}) for one in tables]
    more[0] = replace(more[0], buckets={0: bucket("complete")})
    views["node-2"] = agent_view(group, tables, more)
    return observe(group, tables, views)


@pytest.mark.parametrize("others", [(), ("lines",)], ids=["alone", "with another table"])
def test_what_leaves_the_group_is_not_dropped_with_the_rest(others: tuple[str, ...]) -> None:
    """An order names the tables that stay; there is none where nothing of them is."""
    found = actions_of(decided(leaving_with_a_surplus(others)), DropBucket)
    named = {table.directory for drop in found for table in drop.tables}
    assert named == {settled_table(name).directory for name in others}


def test_an_order_names_only_tables_of_which_the_node_has_something() -> None:
    """One table leaves, one is there, and of one there is nothing."""
    observation = leaving_with_a_surplus(("lines", "more"))
    view = observation.agent_views["node-2"]
    tables = {key: one for key, one in view.tables.items() if "more" not in key[1]}
    views = {**observation.agent_views, "node-2": replace(view, tables=tables)}
    found = actions_of(decided(replace(observation, agent_views=views)), DropBucket)
    assert [[table.directory for table in drop.tables] for drop in found] == [[LINES.directory]]


def test_no_order_goes_where_only_what_leaves_the_group_is() -> None:
    """It would change nothing, and be given again with every pass."""
    assert actions_of(decided(leaving_with_a_surplus(("lines",), None)), DropBucket) == []


def test_a_replica_next_to_the_map_without_any_file_is_dropped_too() -> None:
    """No table leaves: the node may hold no more than a manifest, and then it is not surplus any more."""
    tables = (ORDERS, LINES)
    rows: BucketSequence = (("node-1", "node-3"), ("node-1", "node-3"))
    group = unbalanced(settled_group(tables, rows=rows))
    views = {name: agent_view(group, tables, [held_by(name, one, rows) for one in tables]) for name in NODES}
    damaged = replace(held_by("node-2", ORDERS), buckets={0: replace(bucket("corrupt"), files_held=0)})
    views["node-2"] = agent_view(group, tables, [damaged])
    found = actions_of(decided(observe(group, tables, views)), DropBucket)
    assert {(drop.node, drop.bucket) for drop in found} == {("node-2", 0)}


@pytest.mark.parametrize(
    ("job", "is_removed"),
    [
        pytest.param({}, False, id="of a group that is there"),
        pytest.param({"group": "gone"}, True, id="of a group that is gone"),
        pytest.param({"bucket": 1}, True, id="its name is not that of what it copies"),
    ],
)
@pytest.mark.parametrize("deleting", [False, True])
def test_clone_jobs_of_no_group_are_removed(job: dict[str, object], is_removed: bool, deleting: bool) -> None:
    """Once."""
    found = replace(clone_job(), **job)  # type: ignore[arg-type]
    found = replace(found, identity=replace(found.identity, deleting=deleting))
    assert [one.job for one in stray_clones(Observation(NOW, groups=(settled_group(()),), clone_jobs=(found,)))] == (
        [found.identity] if is_removed and not deleting else []
    )


DUE, LATER = "2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z"


@pytest.mark.parametrize(
    ("delete_after", "fields", "goes"),
    [
        pytest.param(DUE, {}, True, id="its time has come"),
        pytest.param(LATER, {}, False, id="later"),
        pytest.param(None, {}, False, id="no time is set"),
        pytest.param(DUE, {"tables": (ORDERS,)}, False, id="it has a table again"),
        pytest.param(DUE, {"etcd_restored": True}, False, id="etcd was restored"),
    ],
)
def test_a_group_goes_with_its_last_table(delete_after: str | None, fields: dict[str, object], goes: bool) -> None:
    """When its status has named the time, and nothing has happened since."""
    group = settled_group(())
    assert group.spec is not None
    spec = group.spec.model_copy(update={"deletion_policy": "WithLastTable"})
    group = replace(group, spec=spec, status=group.status.model_copy(update={"delete_after": delete_after}))
    views = {name: agent_view(group, (), ()) for name in NODES}
    decision = decided(replace(observe(group, (), views), **fields))  # type: ignore[arg-type]
    assert [one.group for one in actions_of(decision, DeleteGroup)] == [group.identity] * goes
