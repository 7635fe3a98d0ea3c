"""What the views of tables and groups hold."""

from dataclasses import replace

import pytest

from colocation.model.group import ColocationGroupStatus, RecycledTable
from colocation.model.table import TableSnapshot
from colocation.state.assemble import assemble
from colocation.state.clone_jobs import transfer_name
from colocation.state.objects import ObservedGroup, ObservedTable
from colocation.state.observation import Observation
from colocation.state.placement import member_of
from colocation.state.views import ClusterView, GroupView, TableView

from .objects import MANIFEST, NOW, clone_job, group, remembering, table
from .test_membership import STOCK, WIDE, foreign, placed

HERE, LINES = placed("orders", "sales", "sales"), placed("lines", "sales", "sales")
SALES = group("sales")


def cluster(*tables: ObservedTable, groups: tuple[ObservedGroup, ...] = (SALES,), **more: object) -> ClusterView:
    """Every object is understood."""
    errors: dict[str, Exception] = {}
    found = assemble(Observation(NOW, groups=groups, tables=tables, **more), None, errors)  # type: ignore[arg-type]
    assert errors == {}
    return found


def view_of(of: ObservedTable, *groups: ObservedGroup) -> TableView:
    return cluster(of, groups=groups).tables[of.identity.uid]


def sales_of(found: ClusterView) -> GroupView:
    return found.groups[SALES.key]


@pytest.mark.parametrize(
    ("wanted", "is_staying", "is_leaving"),
    [("sales", False, False), ("stock", False, True), ("wide", True, False), ("missing", True, False)],
)
def test_whether_a_table_stays_or_leaves(wanted: str, is_staying: bool, is_leaving: bool) -> None:
    """By the group that its spec names."""
    assert HERE.spec is not None
    of = placed("orders", "sales", wanted)
    of = replace(of, status=of.status.model_copy(update={"columns": HERE.spec.columns}))
    found = view_of(of, remembering(SALES, of), STOCK, WIDE)
    assert found.group is not None and found.group.key == SALES.key
    assert (found.is_staying, found.is_leaving) == (is_staying, is_leaving)
    assert found.rivals == ((of,) if wanted == "missing" else ())


def test_tables_that_are_there_are_not_gone() -> None:
    """Those that a group remembers and that are not there are, unless it has recorded them."""
    third = placed("extra", "sales", "sales")
    record = RecycledTable(
        **member_of(third, leaving=False).model_dump(exclude={"leaving"}),
        deleted_at="2026-11-21T12:00:00Z", purge_at="2026-11-22T12:00:00Z",
    )  # fmt: skip
    sales = remembering(SALES, HERE, LINES, third)
    sales = replace(sales, status=sales.status.model_copy(update={"recycled": (record,)}))
    found = sales_of(cluster(HERE, groups=(sales,)))
    assert [one.member.name for one in found.gone] == ["lines"]
    assert [(one.record.name, one.exists, one.heir) for one in found.dropped] == [("extra", False, None)]


def test_a_group_that_is_not_understood_has_no_tables_and_breaks_nothing() -> None:
    """Its status remembers one."""
    broken = replace(remembering(SALES, HERE), spec=None)
    found = cluster(HERE, groups=(broken,))
    assert (sales_of(found).tables, sales_of(found).departed) == ((), ())
    assert found.tables[HERE.identity.uid].group is None


def test_tables_that_take_over_lost_files_are_their_groups() -> None:
    """Of the group that they name, if that is open to them; no others."""
    wanted = {"a": "sales", "b": "bank/vault"}
    adopting = [replace(table(name, group_name), adopts="0a1b2c3d") for name, group_name in wanted.items()]
    found = cluster(*adopting, HERE, groups=(SALES, foreign("vault", ["treasury"])))
    assert {key: [one.table.identity.name for one in view.adopting] for key, view in found.groups.items()} == {
        SALES.key: ["a"], ("bank", "vault"): [],
    }  # fmt: skip


def test_the_clone_jobs_of_a_group() -> None:
    """Not those that are being deleted, nor those of a group of the same name before; and those of tables that come."""
    own, going = clone_job(), clone_job()
    going = replace(going, identity=replace(going.identity, deleting=True))
    before = replace(own, identity=replace(own.identity, name=own.identity.name.replace("deadbeef", "00000000")))
    coming = placed("coming", "stock", "sales")
    moving = replace(own, group=transfer_name(coming.identity.uid))
    name = own.identity.name.replace("deadbeef", coming.identity.uid[:8])
    moving = replace(moving, identity=replace(own.identity, name=name))
    found = cluster(
        coming, groups=(SALES, remembering(STOCK, coming)), clone_jobs=(own, going, before, moving)
    )
    assert sales_of(found).jobs == (own,)
    assert sales_of(found).arriving_jobs == (moving,)


def snapshot(mark: str) -> TableSnapshot:
    return TableSnapshot(id=1, manifest=f"sha256:{mark * 64}", committed_at="2026-11-21T00:00:00Z")


@pytest.mark.parametrize(
    ("committed", "dropped", "size"),
    [
        pytest.param(None, snapshot("a"), 1, id="it waits for the dropped one's snapshot"),
        pytest.param(snapshot("b"), snapshot("a"), 2, id="it was loaded since"),
        pytest.param(None, None, None, id="the dropped one was never loaded"),
    ],
)
def test_sizes_are_those_of_the_snapshot_that_a_table_has_or_gets(
    committed: TableSnapshot | None, dropped: TableSnapshot | None, size: int | None
) -> None:
    """Of one that is brought back."""
    record = RecycledTable(
        namespace="shop", name="orders", uid="old", snapshot=dropped, deleted_at="2026-11-21T12:00:00Z",
        purge_at="2026-11-22T12:00:00Z",
    )  # fmt: skip
    sales = replace(SALES, status=ColocationGroupStatus(recycled=(record,)))
    heir = replace(table("orders", files=None), recovers="old")
    heir = replace(heir, status=heir.status.model_copy(update={"snapshot": committed}))
    sizes = {("shop", heir.directory, mark * 64): {0: number} for number, mark in enumerate("ab", start=1)}
    assert MANIFEST == "a" * 64
    found = cluster(heir, groups=(sales,), bucket_bytes=sizes).tables[heir.identity.uid]
    assert found.files.bucket_bytes == (None if size is None else {0: size})
    assert found.dropped == record and found.dropped_by == sales
