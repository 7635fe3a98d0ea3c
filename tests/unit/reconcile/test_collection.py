"""Garbage is collected of tables whose live snapshot is known to be wanted, and is whole; of no others."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import pytest

from colocation.model.agent import BucketReport, TableReport
from colocation.reconcile.actions import CollectGarbage
from colocation.reconcile.deletion import is_whole
from colocation.state.assemble import assemble
from colocation.state.objects import ObservedTable
from colocation.state.observation import Observation

from ..state.objects import MANIFEST, NOW, bucket, seconds
from .scenes import (
    BUCKET_BYTES,
    NODES,
    OWN,
    POLICY,
    STRANGE,
    actions_of,
    agent_view,
    decided,
    held_by,
    observe,
    on_disk,
    settled_group,
    settled_table,
)
from .test_deletions import ORDERS, recovering, surplus

GRACE = seconds(POLICY.garbage_grace_seconds)
WHOLE, NONE = bucket("complete"), bucket(None)
FIRST_HALF, SECOND_HALF = (
    BucketReport("partial", files_wanted=2, files_held=1, bytes_wanted=50, bytes_held=25, held_files=held)
    for held in ("1", "2")
)


def collecting(observation: Observation) -> list[str]:
    """The nodes that are asked to collect."""
    return [one.node for one in actions_of(decided(observation), CollectGarbage)]


def lying(table: ObservedTable = ORDERS, **reports: TableReport) -> Observation:
    """Every node has files of the table that no live manifest names; ``reports``: by node, e.g. ``node_1``."""
    group = settled_group((table,))
    shown = {name: reports.get(name.replace("-", "_"), surplus(table, name)) for name in NODES}
    return observe(group, (table,), {name: agent_view(group, (table,), [shown[name]]) for name in NODES})


def test_nothing_is_collected_of_a_table_that_is_being_brought_back() -> None:
    """What it is to have may never have been committed, or not be whole: the rest may be all that there is."""
    table, record = recovering(ORDERS)
    table = replace(table, identity=replace(table.identity, created_at=NOW - 2 * GRACE))
    group = settled_group((), (record,))
    views = {name: agent_view(group, (table,), [surplus(table, name)]) for name in NODES}
    assert collecting(observe(group, (table,), views)) == []


@pytest.mark.parametrize(
    ("made", "created_at", "nodes"),
    [
        pytest.param({}, NOW, NODES, id="never dropped"),
        pytest.param({"recovers": "88888888-old"}, NOW - GRACE + seconds(1), (), id="somebody may compare its rows"),
        pytest.param({"adopts": "88888888"}, NOW - GRACE + seconds(1), (), id="its objects were lost"),
        pytest.param({"recovers": "88888888-old"}, NOW - GRACE, NODES, id="brought back long ago"),
    ],
)
def test_a_table_that_was_brought_back_keeps_its_other_snapshots_for_the_grace(
    made: dict[str, str], created_at: datetime, nodes: tuple[str, ...]
) -> None:
    """Adoption may have taken a snapshot that was never committed."""
    identity = replace(ORDERS.identity, created_at=created_at)
    assert tuple(collecting(lying(replace(ORDERS, identity=identity, **made)))) == nodes  # type: ignore[arg-type]


def held(**buckets: BucketReport) -> TableReport:
    """Of orders, with garbage; ``buckets``: ``b0`` and ``b1``."""
    return replace(surplus(ORDERS, "node-1"), buckets={int(name[1:]): one for name, one in buckets.items()})


ALL = ("node_1", "node_2", "node_3")
LOST = held(b0=NONE, b1=NONE)
OLD = BucketReport(None, files_wanted=0, files_held=1, bytes_wanted=0, bytes_held=10)
"""Files of a retained snapshot, of a bucket of which the present one has none."""
NO_MANIFEST = replace(held_by("node-1", ORDERS), manifest_present=False, buckets={}, surplus_bytes=10)


@pytest.mark.parametrize(
    ("reports", "nodes"),
    [
        pytest.param({"node_1": LOST, "node_2": NO_MANIFEST, "node_3": NO_MANIFEST}, (), id="etcd was restored"),
        pytest.param({"node_1": held(), "node_2": NO_MANIFEST, "node_3": NO_MANIFEST}, (), id="it has none of them"),
        pytest.param(dict.fromkeys(ALL, held(b0=WHOLE, b1=FIRST_HALF)), (), id="in part"),
        pytest.param(
            {"node_1": held(b0=WHOLE), "node_2": held(b1=FIRST_HALF), "node_3": held(b1=SECOND_HALF)}, NODES,
            id="the nodes have it together",
        ),
        pytest.param({"node_1": held(b0=WHOLE, b1=WHOLE), "node_2": LOST, "node_3": LOST}, NODES, id="one has it all"),
        pytest.param(dict.fromkeys(ALL, held(b0=WHOLE, b1=SECOND_HALF)), (), id="the first file is nowhere"),
        pytest.param({"node_1": replace(held(b0=WHOLE, b1=WHOLE), manifest="b" * 64), "node_2": LOST, "node_3": LOST},
                     (), id="one has all of an older snapshot"),
        pytest.param(dict.fromkeys(ALL, held(b0=WHOLE, b1=WHOLE, b2=OLD)), NODES, id="a bucket has old files only"),
    ],
)  # fmt: skip
def test_nothing_is_collected_of_a_table_that_is_nowhere_whole(
    reports: Mapping[str, TableReport], nodes: tuple[str, ...]
) -> None:
    """After a restore of etcd, what no live manifest names may be the only whole copy."""
    assert tuple(collecting(lying(**reports))) == nodes


@pytest.mark.parametrize(
    ("sizes", "bucket_1", "nodes"),
    [
        pytest.param({**BUCKET_BYTES, 2: 1}, WHOLE, (), id="no node reports a bucket that has files"),
        pytest.param({**BUCKET_BYTES, 2: 0}, WHOLE, NODES, id="no node reports a bucket that has none"),
        pytest.param(None, WHOLE, NODES, id="sizes are not known"),
        pytest.param(None, SECOND_HALF, (), id="sizes are not known, and a file is nowhere"),
    ],
)
def test_a_table_is_whole_by_its_manifest_and_by_reports(
    sizes: dict[int, int] | None, bucket_1: BucketReport, nodes: tuple[str, ...]
) -> None:
    """Of all buckets of which either names files."""
    known = {("shop", ORDERS.directory, MANIFEST): sizes} if sizes else {}
    observation = lying(**dict.fromkeys(ALL, held(b0=WHOLE, b1=bucket_1)))
    assert tuple(collecting(replace(observation, bucket_bytes=known))) == nodes


def test_a_snapshot_of_which_no_agent_has_the_manifest_is_not_whole() -> None:
    """Also when nothing is known that it lacks."""
    observation = replace(lying(node_1=NO_MANIFEST, node_2=NO_MANIFEST, node_3=NO_MANIFEST), bucket_bytes={})
    [view] = assemble(observation).tables.values()
    assert not is_whole(view.files, frozenset())


def test_each_table_is_judged_by_itself() -> None:
    """Here one that is nowhere whole, and one that is; what is left of a table that is gone is not collected."""
    lines, gone = settled_table("lines"), settled_table("gone")
    known = (ORDERS, lines, gone)
    group = settled_group((ORDERS, lines))
    shown = [LOST, surplus(lines, "node-2"), surplus(gone, "node-2")]
    views = {"node-1": agent_view(group, known, shown), "node-2": agent_view(group, known, shown[::-1])}
    views = {name: replace(one, tables=dict(sorted(one.tables.items(), reverse=True))) for name, one in views.items()}
    whole = [replace(surplus(lines, "node-2"), buckets={0: WHOLE, 1: WHOLE})]
    views["node-3"] = agent_view(group, (ORDERS, lines), whole)
    found = actions_of(decided(observe(group, (ORDERS, lines), views)), CollectGarbage)
    assert {(one.node, one.directory) for one in found} == {(name, lines.directory) for name in NODES}


def test_an_agent_that_was_not_asked_about_a_table_collects_nothing_of_it() -> None:
    """It could not know which files are wanted."""
    observation = lying()
    views = {name: replace(one, asked={}) for name, one in observation.agent_views.items()}
    assert collecting(replace(observation, agent_views=views)) == []


def test_one_byte_of_garbage_is_collected() -> None:
    """And no order is given where there is none."""
    observation = lying(node_1=replace(held_by("node-1", ORDERS), surplus_bytes=1), node_2=held_by("node-2", ORDERS))
    assert collecting(observation) == ["node-1", "node-3"]


@pytest.mark.parametrize(
    ("silent", "nodes"),
    [
        pytest.param("node-1", ("node-2", "node-3"), id="the others have all of it"),
        pytest.param("node-2", (), id="it alone has a bucket"),
    ],
)
def test_collection_goes_on_while_a_node_is_away(silent: str, nodes: tuple[str, ...]) -> None:
    """What it said before does not count; if the others have everything, it need not."""
    whole = held(b0=WHOLE, b1=WHOLE) if silent == "node-1" else held(b0=WHOLE, b1=NONE)
    observation = lying(node_1=held(b0=WHOLE, b1=NONE), node_2=held(b0=NONE, b1=WHOLE), node_3=whole)
    views = dict(observation.agent_views)
    views[silent] = replace(views[silent], silent_since=NOW - seconds(1))
    assert tuple(collecting(replace(observation, agent_views=views))) == nodes


def test_an_empty_table_is_whole() -> None:
    """All rows were deleted: its manifest names no file."""
    observation = lying(node_1=held(), node_2=held(), node_3=held())
    sizes = {("shop", ORDERS.directory, MANIFEST): dict[int, int]()}
    assert tuple(collecting(replace(observation, bucket_bytes=sizes))) == NODES


@pytest.mark.parametrize(
    ("disk", "nodes"), [(OWN, NODES), (STRANGE, ("node-1", "node-2"))], ids=["its own", "no one accepted it"]
)
def test_nothing_is_collected_on_a_disk_that_no_one_accepted(disk: str, nodes: tuple[str, ...]) -> None:
    """It may be put back where it belongs."""
    whole = held(b0=WHOLE, b1=WHOLE)
    assert tuple(collecting(on_disk(lying(node_1=whole), "node-3", disk))) == nodes


def test_what_is_on_a_strange_disk_makes_no_table_whole() -> None:
    """The disk may be taken away again."""
    reports = {"node_1": LOST, "node_2": LOST, "node_3": held(b0=WHOLE, b1=WHOLE)}
    assert collecting(on_disk(lying(**reports), "node-3", STRANGE)) == []
