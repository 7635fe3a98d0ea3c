"""What a group remembers of its tables, and when it goes with the last of them."""

from dataclasses import replace
from typing import Any

import pytest

from colocation.model.group import ColocationGroupStatus, RecycledTable
from colocation.model.table import TableSnapshot
from colocation.reconcile.actions import DeleteGroup
from colocation.reconcile.members import delete_after, listed_tables, next_members, next_recycled
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


HERE, ORDERS_2 = placed("orders", "sales", "sales"), placed("lines", "stock", "stock")


def record_of(of: ObservedTable, **fields: Any) -> RecycledTable:
    """Of a table that was dropped an hour ago, and is kept for another one."""
    times = {"deleted_at": AN_HOUR_AGO, "purge_at": "2026-11-21T13:00:00Z"}
    return RecycledTable(**{**member_of(of, leaving=False).model_dump(exclude={"leaving"}), **times, **fields})


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


def test_of_several_tables_that_one_is_remembered_that_has_left() -> None:
    """Next to one that stays."""
    sales = remembering(remembering(SALES, HERE), ORDERS_2, leaving=True)
    cluster = assemble(Observation(NOW, groups=(sales, STOCK), tables=(HERE, ORDERS_2)))
    found = next_members(cluster.groups[sales.key])
    assert [(member.name, member.leaving) for member in found] == [("lines", True), ("orders", False)]


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


@pytest.mark.parametrize(
    ("dropped", "dropped_at", "tables", "noticed"),
    [
        pytest.param(HERE, NOW - NEWS, (), True, id="a moment ago"),
        pytest.param(HERE, NOW - NEWS - seconds(1), (), False, id="long ago: it was noticed, and is purged since"),
        pytest.param(placed("orders", "sales", "stock"), NOW, (), False, id="its spec named another group"),
        pytest.param(HERE, NOW, (replace(table("orders"), recovers=HERE.identity.uid),), False, id="it has come back"),
        pytest.param(HERE, NOW, (table("orders"),), True, id="another one was made under its name"),
        pytest.param(HERE, NOW, (replace(table("lines"), recovers=HERE.identity.uid),), True, id="one of another name"),
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
        pytest.param(remembering(STOCK, ORDERS, leaving=True), False, ["sales", "stock"], id="both call it leaving"),
        pytest.param(remembering(STOCK, placed("lines", "stock", "stock")), False, ["sales", "stock"],
                     id="its new group knows another one only, which is gone too"),
        pytest.param(replace(STOCK, status=ColocationGroupStatus(recycled=(record_of(ORDERS),))), False, ["stock"],
                     id="its new group has it in the bin"),
        pytest.param(replace(STOCK, status=ColocationGroupStatus(recycled=(record_of(placed("b", "stock", "stock")),))),
                     False, ["sales", "stock"], id="its new group has another one in the bin"),
        pytest.param(remembering(STOCK, ORDERS), True, ["stock"], id="its new group names it"),
        pytest.param(remembering(STOCK, ORDERS), False, ["stock"], id="and the operator was away"),
        pytest.param(STOCK, True, ["stock"], id="its new group had not noticed it yet"),
        pytest.param(STOCK, False, ["sales"], id="only the group that it leaves knows of it"),
    ],
)  # fmt: skip
def test_table_that_is_dropped_while_it_moves_waits_in_one_bin(
    stock: ObservedGroup, was_seen: bool, where: list[str]
) -> None:
    """It comes back in the group that it had come to: a second record would bring it back in the one before."""
    sales, third = remembering(SALES, ORDERS, leaving=True), replace(STOCK, identity=replace(STOCK.identity, name="a"))
    gone = {ORDERS.identity.uid: DroppedTable(ORDERS, NOW)} if was_seen else {}
    observation = Observation(NOW, groups=(third, sales, stock), dropped_tables=gone)
    bins = {one.identity.name: recycled_of(observation, one) for one in (sales, stock)}
    assert [name for name, found in bins.items() if found] == where


def test_table_that_two_groups_remember_as_theirs_is_lost_by_neither() -> None:
    """Two operators at once may have written both."""
    groups = (remembering(SALES, ORDERS), remembering(STOCK, ORDERS))
    observation = Observation(NOW, groups=groups)
    assert [[one.uid for one in recycled_of(observation, group)] for group in groups] == [[ORDERS.identity.uid]] * 2


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


def recycling(*records: RecycledTable) -> ObservedGroup:
    return replace(SALES, status=SALES.status.model_copy(update={"recycled": records}))


HEIR = replace(HERE, identity=replace(HERE.identity, uid="99999999-new"), recovers=HERE.identity.uid)
EMPTY_HEIR = replace(HEIR, status=HEIR.status.model_copy(update={"snapshot": None}))
OVER = format_time(NOW)


@pytest.mark.parametrize(
    ("record", "tables", "more", "is_kept"),
    [
        pytest.param(record_of(HERE), (), {}, True, id="its time is not over"),
        pytest.param(record_of(HERE, purge_at=OVER), (), {}, False, id="its time is over"),
        pytest.param(record_of(HERE, purge_at=OVER), (), {"etcd_restored": True}, True, id="but etcd was restored"),
        pytest.param(record_of(HERE), (HERE,), {}, False, id="it was not dropped after all"),
        pytest.param(record_of(HERE), (HEIR,), {}, False, id="it has come back"),
        pytest.param(record_of(HERE, purge_at=OVER), (EMPTY_HEIR,), {}, True, id="it is coming back"),
    ],
)
def test_how_long_a_dropped_table_is_remembered(
    record: RecycledTable, tables: tuple[ObservedTable, ...], more: dict[str, Any], is_kept: bool
) -> None:
    """With the tables that are made from it."""
    sales = recycling(record)
    found = recycled_of(Observation(NOW, groups=(sales,), tables=tables, **more), sales)
    made = tuple(one.identity.uid for one in tables if one.recovers)
    assert found == ((record.model_copy(update={"recovery_uids": made}),) if is_kept else ())


@pytest.mark.parametrize(
    ("heir", "was_seen", "names"),
    [
        pytest.param(HEIR, True, ["99999999-new"], id="it had its files again"),
        pytest.param(EMPTY_HEIR, True, [HERE.identity.uid, "99999999-new"], id="it had none yet"),
        pytest.param(HEIR, False, [HERE.identity.uid, "99999999-new"], id="the operator was away"),
    ],
)
def test_a_table_that_came_back_and_was_dropped_again_is_remembered_once(
    heir: ObservedTable, was_seen: bool, names: list[str]
) -> None:
    """The files are those of the later record."""
    sales = remembering(recycling(record_of(HERE)), heir)
    gone = {heir.identity.uid: DroppedTable(heir, NOW)} if was_seen else {}
    assert [one.uid for one in recycled_of(Observation(NOW, groups=(sales,), dropped_tables=gone), sales)] == names


@pytest.mark.parametrize("keep_seconds", [900, 1])
def test_a_dropped_table_is_remembered_as_it_was_last_seen(keep_seconds: int) -> None:
    """Since then, and to the end of the second in which its time is over; not, if that is over already."""
    later = replace(with_snapshot(HERE, 5), spec=table("orders", recycleAfterSeconds=keep_seconds).spec)
    sales = remembering(SALES, with_snapshot(HERE, 4))
    gone = {HERE.identity.uid: DroppedTable(later, NOW - seconds(9.5))}
    found = recycled_of(Observation(NOW, groups=(sales,), dropped_tables=gone), sales)
    if keep_seconds == 1:
        assert found == ()
        return
    [record] = found
    assert record.snapshot == later.status.snapshot
    assert (record.deleted_at, record.purge_at) == ("2026-11-21T11:59:50Z", "2026-11-21T12:14:51Z")


def test_of_a_table_that_was_dropped_unseen_the_time_is_now() -> None:
    """The operator was away."""
    sales = remembering(SALES, HERE)
    [record] = recycled_of(Observation(NOW, groups=(sales,)), sales)
    assert record.deleted_at == format_time(NOW)


def test_a_commit_that_its_group_did_not_know_is_remembered() -> None:
    """Of a table that was loaded for the first time just before."""
    sales = recycling(record_of(HERE, snapshot=None))
    gone = {HERE.identity.uid: DroppedTable(HERE, NOW)}
    [record] = recycled_of(Observation(NOW, groups=(sales,), dropped_tables=gone), sales)
    assert record.snapshot == HERE.status.snapshot


def test_tables_are_listed_and_remembered_in_order() -> None:
    """The dropped ones after the others, with a mark; those of other namespaces with theirs."""
    here, foreign = placed("b", "sales", "sales"), placed("a", "shop/sales", "shop/sales")
    foreign = replace(foreign, identity=replace(foreign.identity, namespace="bank"))
    sales = replace(group("sales", allowedNamespaces=["*"]), status=SALES.status)
    cluster = assemble(Observation(NOW, groups=(remembering(sales, here, foreign),), tables=(here, foreign)))
    view = cluster.groups[sales.key]
    dropped = tuple(record_of(replace(HERE, identity=replace(HERE.identity, name=name))) for name in ("z", "y", "x"))
    assert listed_tables(view, dropped) == ("bank/a", "b", "x*", "y*", "z*")
    assert [one.name for one in next_members(view)] == ["a", "b"]


SOON, LATER = record_of(HERE), record_of(HERE, purge_at="2026-11-21T14:00:00Z")


@pytest.mark.parametrize(
    ("status", "recycled", "private", "goes_at"),
    [
        pytest.param({}, (LATER, SOON), False, LATER.purge_at, id="with the last of the dropped tables"),
        pytest.param({"delete_after": AN_HOUR_AGO}, (SOON,), False, SOON.purge_at, id="one was dropped since"),
        pytest.param({"delete_after": OVER}, (), False, OVER, id="at the time that it has"),
        pytest.param({"delete_after": SOON.purge_at, "tables": ("orders*",)}, (), False, OVER, id="they are gone"),
        pytest.param({"tables": ("orders",)}, (), False, OVER, id="its tables are gone"),
        pytest.param({"members": (member_of(HERE, leaving=True),)}, (), False, OVER, id="its table has moved"),
        pytest.param({}, (), True, OVER, id="it was made for one table"),
        pytest.param({}, (), False, None, id="it had none yet"),
    ],
)  # fmt: skip
def test_when_a_group_goes(
    status: dict[str, Any], recycled: tuple[RecycledTable, ...], private: bool, goes_at: str | None
) -> None:
    """Once nothing of it can come back; a group that was made by hand waits for its first table."""
    made = group("sales", deletionPolicy="WithLastTable")
    made = replace(made, private=private, status=made.status.model_copy(update=status))
    cluster = assemble(Observation(NOW, groups=(made,)))
    assert delete_after(cluster.groups[made.key], recycled, NOW) == goes_at


def test_a_group_with_a_wrong_spec_does_not_go() -> None:
    """Its policy is not known."""
    made = replace(SALES, spec=None, status=ColocationGroupStatus(delete_after=AN_HOUR_AGO, tables=("orders",)))
    cluster = assemble(Observation(NOW, groups=(made,)))
    assert delete_after(cluster.groups[made.key], (), NOW) is None
