"""When a dropped table has its files back, what nodes are given until then, and when it is lost for good."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from colocation.model.agent import BucketReport, DiskReport
from colocation.model.group import RecycledTable
from colocation.reconcile.members import next_recycled
from colocation.reconcile.recovery import Recovery, is_lost, lacks_manifest, recoveries_of, unclaimed_folders
from colocation.reconcile.scopes import Containment
from colocation.state.agent_view import AgentView
from colocation.state.assemble import assemble
from colocation.state.objects import ObservedTable
from colocation.state.observation import Observation

from ..state.objects import MANIFEST, NOW, bucket, seconds
from .scenes import MAP, NODES, STRANGE, agent_view, decided, held_by, observe, on_disk, settled_group
from .test_deletions import ORDERS, recovering

TABLE, RECORD = recovering(ORDERS)
OLD_FOLDER = f"shop/{ORDERS.directory}"
AN_HOUR_AGO, IN_AN_HOUR = "2026-11-21T11:00:00Z", "2026-11-21T13:00:00Z"


def shown(
    node: str,
    table: ObservedTable = TABLE,
    record: RecycledTable = RECORD,
    bin_: tuple[str, ...] = (),
    unknown: tuple[str, ...] = (),
    **held: object,
) -> AgentView:
    """What an agent reports of a table that is brought back: all that its map wants is there, but for ``held``."""
    group = settled_group((), (record,))
    report = replace(held_by(node, table), **held)  # type: ignore[arg-type]
    view = agent_view(group, (table,), (report,))
    assert view.report is not None
    folders = {"recycled_directories": bin_, "unknown_directories": unknown}
    return replace(view, report=view.report.model_copy(update=folders))


def coming_back(record: RecycledTable = RECORD, **views: AgentView) -> Observation:
    """The table that is made again is where the group's map wants it; ``views``: of other nodes."""
    found = {name: shown(name, record=record) for name in NODES}
    found |= {name.replace("_", "-"): view for name, view in views.items()}
    observation = observe(settled_group((), (record,)), (TABLE,), found)
    return replace(observation, tables_seen_at={TABLE.identity.uid: NOW - seconds(60)})


def recovery(observation: Observation) -> Recovery:
    snapshot = decided(observation).snapshot
    [found] = recoveries_of(assemble(observation), snapshot, unclaimed_folders(observation), Containment())
    return found


def holding(files: str, files_wanted: int = 2, **held: object) -> AgentView:
    """A node that has some of two files of each bucket; ``files``: a digit for each, the last one first."""
    part = BucketReport("partial", files_wanted, 1, 100, 50, held_files=f"{int(files, 2):x}" if files else "")
    return shown("node-x", buckets=dict.fromkeys(range(len(MAP)), part), **held)


def without_node_2(observation: Observation) -> Observation:
    """Its Node is not ready; what its agent said last is known."""
    nodes = tuple(replace(one, ready=one.name != "node-2") for one in observation.nodes)
    return replace(observation, nodes=nodes)


NOTHING = shown("node-x", buckets={})
WHOLE, SIZES = bucket("complete"), ("shop", TABLE.directory, MANIFEST)
HALF = shown("node-x", buckets={0: WHOLE})
NAMELESS = shown("node-x", buckets={}, manifest_present=False, surplus_bytes=100)
"""It has files, and not the manifest that names them."""
BINNED = shown("node-x", bin_=(OLD_FOLDER,), buckets={})
SICK = replace(BINNED, report=BINNED.report.model_copy(update={"disk": DiskReport(id="d3", reason="DiskFailing")}))  # type: ignore[union-attr]
UNASKED = AgentView(report=shown("node-3").report, answered_at=NOW - seconds(61))


@pytest.mark.parametrize(
    ("observation", "missing"),
    [
        pytest.param(coming_back(), set(), id="all nodes have its files"),
        pytest.param(coming_back(node_3=shown("node-3", buckets={})), set(), id="one has none: a clone makes them"),
        pytest.param(coming_back(node_1=shown("node-1", buckets={}), node_2=shown("node-2", buckets={})), {"homeless"},
                     id="no node has a bucket"),
        pytest.param(coming_back(node_1=holding("01"), node_2=holding("10")), set(), id="two have a bucket together"),
        pytest.param(coming_back(node_1=holding("01"), node_2=holding("01")), {"homeless"}, id="a file is nowhere"),
        pytest.param(coming_back(node_1=holding("01"), node_2=holding("")), {"homeless"}, id="one does not say which"),
        pytest.param(coming_back(node_1=holding("01"), node_2=holding("10", files_wanted=10**12)), {"homeless"},
                     id="one reports nonsense"),
        pytest.param(without_node_2(coming_back(node_1=holding("01"), node_2=holding("10"), node_3=NOTHING)),
                     {"homeless"}, id="the other half is on a node that is down"),
        pytest.param(coming_back(node_1=holding("01"), node_2=holding("10", manifest="b" * 64), node_3=NOTHING),
                     {"homeless"}, id="the other half is of another snapshot"),
        pytest.param(coming_back(node_1=holding("01"), node_2=holding("10", manifest_present=False), node_3=NOTHING),
                     {"homeless"}, id="the other half is on a node without the manifest"),
        pytest.param(coming_back(node_1=holding("01"), node_2=NAMELESS, node_3=NOTHING), set(),
                     id="one cannot name its files: it comes back as it was, to be repaired"),
        pytest.param(coming_back(node_1=holding("01"), node_2=NAMELESS, node_3=replace(NOTHING, silent_since=NOW)),
                     {"homeless"}, id="one cannot name its files, and another may bring more"),
        pytest.param(coming_back(node_1=NAMELESS, node_2=NAMELESS, node_3=NAMELESS), {"homeless"},
                     id="no one has the manifest"),
        pytest.param(coming_back(node_3=shown("node-3", bin_=(OLD_FOLDER,), buckets={})), {"orders"},
                     id="one has it in its bin"),
        pytest.param(coming_back(node_3=UNASKED), {"unheard"}, id="one was not asked since the table was made"),
        pytest.param(replace(coming_back(**dict.fromkeys(("node_1", "node_2", "node_3"), HALF)),
                             bucket_bytes={SIZES: {0: 50}}), set(), id="its snapshot has no files of the other bucket"),
        pytest.param(coming_back(RECORD.model_copy(update={"snapshot": None})), set(), id="it was never loaded"),
        pytest.param(coming_back(node_3=replace(UNASKED, silent_since=NOW)), set(), id="one is silent"),
    ],
)  # fmt: skip
def test_table_has_its_snapshot_again_when_all_that_answer_gave_its_files_back(
    observation: Observation, missing: set[str]
) -> None:
    """Earlier its rows would be missing, or files would be cloned that lie on the node already."""
    found = recovery(observation)
    assert {name for name in ("homeless", "orders", "unheard") if getattr(found, name)} == missing
    assert found.is_whole is not bool(missing)


@pytest.mark.parametrize(
    ("reason", "is_whole"), [("DiskFailing", True), ("DiskReadOnly", True), ("DiskFull", False), ("", False)]
)
def test_disk_that_takes_no_writes_holds_up_no_table(reason: str, is_whole: bool) -> None:
    """It may keep its folder for good, and the others have all files; a full one takes a rename."""
    late = shown("node-3", bin_=(OLD_FOLDER,), buckets={})
    assert late.report is not None
    sick = late.report.model_copy(update={"disk": DiskReport(id="d3", reason=reason, since_uptime_seconds=1)})
    found = recovery(coming_back(node_3=replace(late, report=sick)))
    assert [order.node for order in found.orders] == ["node-3"]
    assert found.is_whole is is_whole


@pytest.mark.parametrize(
    ("record", "view", "is_reported"),
    [
        pytest.param(RECORD, shown("node-3", bin_=(OLD_FOLDER,), buckets={}), True, id="it has the old folder"),
        pytest.param(RECORD, shown("node-3", bin_=(OLD_FOLDER,)), False, id="it has the files under the new name too"),
        pytest.param(RECORD, shown("node-3", bin_=("shop/lines-00000001",), buckets={}), False, id="of another table"),
        pytest.param(RECORD.model_copy(update={"recovery_uids": ()}), shown("node-3", bin_=(OLD_FOLDER,), buckets={}),
                     False, id="the group does not remember the new name yet"),
        pytest.param(RECORD, replace(shown("node-3", bin_=(OLD_FOLDER,), buckets={}), silent_since=NOW), False,
                     id="it is silent"),
    ],
)  # fmt: skip
def test_a_node_is_asked_to_rename_a_folder(record: RecycledTable, view: AgentView, is_reported: bool) -> None:
    """Only what the group would find again under the new name, if the recovery is given up half way."""
    found = recovery(coming_back(record, node_3=view))
    assert [(order.node, order.directory, order.successor) for order in found.orders] == (
        [("node-3", ORDERS.directory, TABLE.directory)] if is_reported else []
    )


@pytest.mark.parametrize(
    ("observation", "is_coming"),
    [
        pytest.param(coming_back(node_1=NOTHING, node_2=NOTHING), False, id="all have reported"),
        pytest.param(coming_back(node_1=NOTHING, node_2=NOTHING, node_3=UNASKED), True, id="one was not asked yet"),
        pytest.param(coming_back(node_1=NOTHING, node_2=NOTHING, node_3=BINNED), True, id="one has it in its bin"),
        pytest.param(coming_back(node_1=NOTHING, node_2=BINNED, node_3=SICK), True, id="one of two that can give it"),
        pytest.param(coming_back(node_1=NOTHING, node_2=NOTHING, node_3=SICK), False, id="on a disk that fails"),
        pytest.param(without_node_2(coming_back(node_1=NOTHING, node_2=BINNED, node_3=NOTHING)), False,
                     id="on a node that is down"),
    ],
)  # fmt: skip
def test_what_is_missing_may_be_on_its_way(observation: Observation, is_coming: bool) -> None:
    """Nothing is called missing for good before all nodes have given what they can give."""
    found = recovery(observation)
    assert found.homeless and found.is_coming is is_coming
    assert found.refusal.reason == "Recovering"
    words = "the live nodes lack files of buckets 0" if not is_coming else "the nodes bring back its files"
    assert found.refusal.message.startswith(words)


@pytest.mark.parametrize(
    ("others", "hint"),
    [
        ((), ""),
        (("a", "b", "c"), "; no table has and no group remembers a, b, c, of the same name: `colocation adopt -n shop"),
        (("a", "b", "c", "d"), "; no table has and no group remembers a, b, c, …, of the same name: "),
    ],
)
def test_a_user_reads_what_is_missing(others: tuple[str, ...], hint: str) -> None:
    """The first buckets, and folders that may have them."""
    whole = recovery(coming_back())
    lacking = replace(whole, homeless=tuple(range(21)), others=others)
    listed = ", ".join(map(str, range(20)))
    message = f"the live nodes lack files of buckets {listed}, or have not verified them; "
    message += "nodes that are away must come back"
    assert lacking.refusal.message.startswith(f"{message}{hint}")
    assert (lacking.refusal.message == message) is (not hint)
    assert whole.refusal.message == "the nodes bring back its files"


OTHERS = ("shop/orders-77777777", "shop/orders-66666666", "shop/orders2-77777777", OLD_FOLDER)


def test_folders_of_its_name_that_no_one_knows_are_listed() -> None:
    """In order; not that of the dropped table itself, which its group remembers."""
    found = recovery(coming_back(node_3=shown("node-3", unknown=OTHERS)))
    assert found.others == ("orders-66666666", "orders-77777777")
    assert recovery(coming_back(node_3=shown("node-3", unknown=OTHERS[2:3]))).others == ()


@pytest.mark.parametrize(
    ("changes", "is_brought_back"),
    [
        ({}, True),
        ({"identity": replace(TABLE.identity, deleting=True)}, False),
        ({"status": ORDERS.status}, False),
        ({"recovers": "no one"}, False),
        ({"recovers": None, "adopts": "0a1b2c3d"}, False),
    ],
    ids=["it is to have the dropped one's files", "it goes", "it has them", "no group remembers that", "it is adopted"],
)
def test_which_tables_are_brought_back(changes: dict[str, object], is_brought_back: bool) -> None:
    """Those that wait for the files of a table that a group remembers."""
    observation = replace(coming_back(), tables=(replace(TABLE, **changes),))  # type: ignore[arg-type]
    containment = Containment()
    found = list(recoveries_of(assemble(observation), decided(observation).snapshot, {}, containment))
    assert (bool(found), containment.errors) == (is_brought_back, {})


@pytest.mark.parametrize(
    ("table", "shown_", "lacks"),
    [
        pytest.param(ORDERS, {}, False, id="it has the manifest"),
        pytest.param(ORDERS, {"manifest_present": False}, True, id="it has not"),
        pytest.param(ORDERS, None, True, id="it has nothing of the table"),
        pytest.param(TABLE, {}, True, id="the table has no snapshot"),
    ],
)
def test_a_node_without_the_manifest_needs_the_folder_now(
    table: ObservedTable, shown_: dict[str, bool] | None, lacks: bool
) -> None:
    """Others are asked now and then."""
    group = settled_group((table,))
    reports = [] if shown_ is None else [replace(held_by("node-1", table), **shown_)]
    views = {"node-1": agent_view(group, (table,), reports)}
    assert lacks_manifest(observe(group, (table,), views), table, "node-1") is lacks


def purged(view: Mapping[str, object] | None = None, **of_node_3: object) -> Observation:
    """The time in the bin was over an hour ago; no node has anything of the table, as agents said since."""
    record = RECORD.model_copy(update={"purge_at": AN_HOUR_AGO})
    nothing = {name: shown(name, record=record, buckets={}) for name in NODES}
    nothing["node-3"] = replace(shown("node-3", record=record, **{"buckets": {}, **of_node_3}), **(view or {}))  # type: ignore[arg-type]
    observation = observe(settled_group((), (record,)), (TABLE,), nothing)
    return replace(observation, tables_seen_at={TABLE.identity.uid: NOW - seconds(60)})


@pytest.mark.parametrize(
    ("observation", "lost"),
    [
        pytest.param(purged(), True, id="no one has anything"),
        pytest.param(replace(purged(), agent_views={}), False, id="there are no agents to ask"),
        pytest.param(purged({"asked_at": NOW - seconds(3601)}), False, id="one was asked before it was purged"),
        pytest.param(purged({"silent_since": NOW}), False, id="one is silent: it may come back with it"),
        pytest.param(purged({"report": None}), False, id="one never answered"),
        pytest.param(purged(bin_=(OLD_FOLDER,)), False, id="one has it in its bin still"),
        pytest.param(purged(surplus_bytes=10, manifest_present=False), False, id="one has files and no manifest"),
        pytest.param(on_disk(purged(), "node-3", STRANGE), False, id="one runs on another disk than its node's"),
        pytest.param(purged({"asked": {}, "asked_at": NOW - seconds(61)}), False, id="one was not asked about it"),
        pytest.param(purged({"asked": {}}, unknown=(f"shop/{TABLE.directory}",)), False, id="one has its folder"),
        pytest.param(purged(buckets={0: WHOLE}), True, id="one has a bucket, and no one the other"),
        pytest.param(purged(buckets={0: WHOLE, 1: WHOLE}), False, id="one has all of it"),
        pytest.param(purged(surplus_bytes=10), True, id="one has other files, which it can name"),
        pytest.param(replace(purged(buckets={0: WHOLE}), bucket_bytes={SIZES: {0: 50, 1: 0}}), False,
                     id="the other bucket has no files"),
    ],
)  # fmt: skip
def test_table_is_lost_only_with_proof(observation: Observation, lost: bool) -> None:
    """Until then the group remembers the dropped table, whatever the time."""
    cluster = assemble(observation)
    [group] = cluster.groups.values()
    [dropped] = group.dropped
    assert dropped.heir is not None
    assert is_lost(dropped.record, dropped.heir, group, cluster) is lost
    assert (next_recycled(group, cluster) == ()) is lost


def test_table_that_no_one_asks_for_goes_with_its_time() -> None:
    """There is nothing to wait for."""
    observation = purged(bin_=(OLD_FOLDER,))
    [group] = observation.groups
    alone = replace(observation, tables=())
    assert recycled_of(alone) == ()
    early = group.status.recycled[0].model_copy(update={"purge_at": IN_AN_HOUR})
    waiting = replace(group, status=group.status.model_copy(update={"recycled": (early,)}))
    assert recycled_of(replace(alone, groups=(waiting,))) == (early,)


def recycled_of(observation: Observation) -> tuple[RecycledTable, ...]:
    """The recycle bin of the only group after the pass."""
    cluster = assemble(observation)
    [group] = cluster.groups.values()
    return next_recycled(group, cluster)
