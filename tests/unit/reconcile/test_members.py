"""What a group remembers of its tables, and when it goes with the last of them."""

from dataclasses import replace

import pytest

from colocation.model.group import ColocationGroupStatus, RecycledTable
from colocation.model.table import TableSnapshot
from colocation.reconcile.actions import DeleteGroup
from colocation.reconcile.members import delete_after, next_members, next_recycled
from colocation.state.assemble import NEWS, assemble
from colocation.state.objects import DroppedTable, ObservedGroup, ObservedTable
from colocation.state.observation import Observation
from colocation.state.parse import format_time
from colocation.state.placement import member_of

from ..state.objects import NOW, group, remembering, seconds, table
from ..state.test_membership import placed
from .scenes import actions_of, decided

AN_HOUR_AGO = "2026-11-21T11:00:00Z"
ORDERS = placed("orders", "stock", "stock")
"""Its status reports that it has arrived in ``stock``."""
SALES, STOCK = group("sales"), group("stock")
STOCK = replace(STOCK, identity=replace(STOCK.identity, uid="cafebabe-group"))


def recycled_of(observation: Observation, of: ObservedGroup) -> tuple[RecycledTable, ...]:
    """The group's recycle bin after the pass."""
    cluster = assemble(observation)
    return next_recycled(cluster.groups[of.key], cluster)


def with_snapshot(table: ObservedTable, number: int) -> ObservedTable:
    snapshot = TableSnapshot(id=number, manifest=f"sha256:{number:064x}", committed_at="2026-11-21T00:00:00Z")
    return replace(table, status=table.status.model_copy(update={"snapshot": snapshot}))


@pytest.mark.parametrize(
    ("stock", "remembered"),
    [
        pytest.param(STOCK, [("orders", True)], id="its new group does not name it yet"),
        pytest.param(remembering(STOCK, ORDERS), [], id="its new group names it"),
    ],
)
def test_table_that_has_left_is_remembered_until_its_next_group_does(
    stock: ObservedGroup, remembered: list[tuple[str, bool]]
) -> None:
    """If it is dropped in between, somebody has to know that, and for how long its files are kept."""
    sales = remembering(SALES, ORDERS, leaving=True)
    cluster = assemble(Observation(NOW, groups=(sales, stock), tables=(ORDERS,)))
    assert cluster.tables[ORDERS.identity.uid].group == stock
    assert [(member.name, member.leaving) for member in next_members(cluster.groups[sales.key])] == remembered


def test_a_group_does_not_remember_what_made_a_snapshot() -> None:
    """Its object has room for a thousand tables."""
    snapshot = TableSnapshot(
        id=1, manifest=f"sha256:{0:064x}", committed_at="2026-11-21T00:00:00Z", operation="merge",
        rows_inserted=1, rows_updated=0, rows_deleted=0, files_added=1, files_removed=0,
    )
    loaded = replace(ORDERS, status=ORDERS.status.model_copy(update={"snapshot": snapshot}))
    member = member_of(loaded, leaving=False)
    assert member.snapshot == TableSnapshot(id=1, manifest=snapshot.manifest, committed_at=snapshot.committed_at)
    assert "operation" not in member.to_json_dict()["snapshot"]  # type: ignore[operator]


def test_group_of_which_a_table_has_just_left_is_not_deleted() -> None:
    """Its time was over when the table came and went; it alone remembers that table."""
    sales = group("sales", ColocationGroupStatus(delete_after=AN_HOUR_AGO), deletionPolicy="WithLastTable")
    assert [one.group.name for one in actions_of(decided(Observation(NOW, groups=(sales,))), DeleteGroup)] == ["sales"]
    remembers = remembering(sales, ORDERS, leaving=True)
    observation = Observation(NOW, groups=(remembers, STOCK), tables=(ORDERS,))
    assert not actions_of(decided(observation), DeleteGroup)


HERE = placed("orders", "sales", "sales")


@pytest.mark.parametrize(
    ("dropped", "dropped_at", "tables", "noticed"),
    [
        pytest.param(HERE, NOW - NEWS, (), True, id="a moment ago"),
        pytest.param(HERE, NOW - NEWS - seconds(1), (), False, id="long ago: it was noticed, and is purged since"),
        pytest.param(placed("orders", "sales", "stock"), NOW, (), False, id="its spec named another group"),
        pytest.param(HERE, NOW, (replace(table("orders"), recovers=HERE.identity.uid),), False, id="it has come back"),
    ],
)
def test_table_that_is_dropped_before_its_group_has_noticed_it_waits_in_the_bin(
    dropped: ObservedTable, dropped_at: object, tables: tuple[ObservedTable, ...], noticed: bool
) -> None:
    """As any other; else its folder would be one that no one can explain."""
    other = tuple(replace(one, identity=replace(one.identity, uid="99999999-new")) for one in tables)
    gone = {dropped.identity.uid: DroppedTable(dropped, dropped_at)}  # type: ignore[arg-type]
    observation = Observation(NOW, groups=(SALES, STOCK), tables=other, dropped_tables=gone)
    found = recycled_of(observation, SALES)
    assert [record.uid for record in found] == [dropped.identity.uid] * noticed


@pytest.mark.parametrize(
    ("known", "has_heir", "remembered"),
    [
        pytest.param(5, False, 5, id="the commit was heard of after the drop"),
        pytest.param(3, False, 4, id="the operator before knew more"),
        pytest.param(5, True, 4, id="it is being brought back as it was known"),
    ],
)
def test_dropped_table_is_remembered_with_its_last_commit(known: int, has_heir: bool, remembered: int) -> None:
    """In whatever order the operator hears of the commit and of the drop: `recover` brings back every row."""
    gone = {HERE.identity.uid: DroppedTable(with_snapshot(HERE, known), NOW)}
    record = RecycledTable(
        **member_of(with_snapshot(HERE, 4), leaving=False).model_dump(exclude={"leaving"}),
        deleted_at=format_time(NOW),
        purge_at=format_time(NOW + seconds(900)),
    )
    heir = replace(HERE, identity=replace(HERE.identity, uid="99999999-new"), recovers=HERE.identity.uid)
    heir = replace(heir, status=heir.status.model_copy(update={"snapshot": None}))
    sales = replace(SALES, status=SALES.status.model_copy(update={"recycled": (record,)}))
    observation = Observation(NOW, groups=(sales,), tables=(heir,) * has_heir, dropped_tables=gone)
    [found] = recycled_of(observation, sales)
    assert found.snapshot and found.snapshot.id == remembered


@pytest.mark.parametrize(
    ("stock", "was_seen", "where"),
    [
        pytest.param(remembering(STOCK, ORDERS), True, ["stock"], id="its new group names it"),
        pytest.param(remembering(STOCK, ORDERS), False, ["stock"], id="and the operator was away"),
        pytest.param(STOCK, True, ["stock"], id="its new group had not noticed it yet"),
        pytest.param(STOCK, False, ["sales"], id="only the group that it leaves knows of it"),
    ],
)
def test_table_that_is_dropped_while_it_moves_waits_in_one_bin(
    stock: ObservedGroup, was_seen: bool, where: list[str]
) -> None:
    """It comes back in the group that it had come to: a second record would bring it back in the one before."""
    sales = remembering(SALES, ORDERS, leaving=True)
    gone = {ORDERS.identity.uid: DroppedTable(ORDERS, NOW)} if was_seen else {}
    observation = Observation(NOW, groups=(sales, stock), dropped_tables=gone)
    bins = {one.identity.name: recycled_of(observation, one) for one in (sales, stock)}
    assert [name for name, found in bins.items() if found] == where


@pytest.mark.parametrize(
    ("policy", "tables", "before", "goes_at"),
    [
        pytest.param("WithLastTable", (), AN_HOUR_AGO, AN_HOUR_AGO, id="no one uses it"),
        pytest.param("Retain", (), AN_HOUR_AGO, None, id="it is to stay"),
        pytest.param("WithLastTable", (HERE,), AN_HOUR_AGO, None, id="it has a table"),
        pytest.param("WithLastTable", (placed("orders", "stock", "sales"),), AN_HOUR_AGO, None, id="one moves to it"),
        pytest.param("WithLastTable", (placed("orders", "sales", "stock"),), AN_HOUR_AGO, None, id="one has yet to go"),
        pytest.param("WithLastTable", (table("orders", key_type="string"),), AN_HOUR_AGO, None,
                     id="one names it, and is refused"),
        pytest.param("WithLastTable", (ORDERS,), AN_HOUR_AGO, AN_HOUR_AGO, id="a table of another group"),
    ],
)  # fmt: skip
def test_group_that_anybody_uses_does_not_go(
    policy: str, tables: tuple[ObservedTable, ...], before: str, goes_at: str | None
) -> None:
    """Whatever its status said before."""
    made = group("sales", ColocationGroupStatus(delete_after=before), deletionPolicy=policy)
    sales, stock = (
        remembering(one, *(table for table in tables if table.status.group == one.identity.name))
        for one in (made, STOCK)
    )
    cluster = assemble(Observation(NOW, groups=(sales, stock), tables=tables))
    assert delete_after(cluster.groups[sales.key], (), NOW) == goes_at
