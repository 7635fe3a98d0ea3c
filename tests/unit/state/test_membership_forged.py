"""Anyone who may write a table's status places no table anywhere by it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.conditions import Reason
from colocation.model.group import RecycledTable
from colocation.model.names import private_group_name
from colocation.reconcile.members import next_recycled
from colocation.state.assemble import assemble
from colocation.state.membership import Membership, memberships
from colocation.state.objects import DroppedTable, ObservedGroup, ObservedTable
from colocation.state.observation import Observation
from colocation.state.parse import parse_table

from .objects import NOW, group, identity, remembering, table
from .test_membership import foreign, placed

NAMES = ("sales", "stock", "wide", "bank/open", "bank/vault", "missing", "")
OTHER_COLUMNS = [{"name": "k", "type": "string"}, {"name": "new", "type": "int", "nullable": False}]
SNAPSHOT = {"id": 9, "manifest": f"sha256:{9:064x}", "committedAt": "2026-11-21T00:00:00Z"}
OPERATORS_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "group": st.sampled_from([*NAMES, None, "bank/", "/", "a/b/c", "lone-00000000", 7]),
    "buckets": st.sampled_from([1, 2, 4, None, 0, 10**9, "x"]),
    "replicas": st.sampled_from([1, 2, 3, None, 0, 10**9]),
    "columns": st.sampled_from([[], OTHER_COLUMNS, [{"name": "k"}], None]),
    "accepted": st.sampled_from([True, False, None, "perhaps"]),
    "groupId": st.sampled_from(["", "1.1", None, 3]),
    "observedGeneration": st.sampled_from([0, 10**9, -1]),
    "conditions": st.sampled_from([[], [{"type": "Accepted"}], "x"]),
}
LOADERS_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "snapshot": st.sampled_from([None, SNAPSHOT, {"id": 1, "manifest": "x", "committedAt": "soon"}]),
    "history": st.sampled_from([[], [SNAPSHOT], [{"id": 3}], 4]),
}


def groups_of(tables: dict[str, list[ObservedTable]], leaving: dict[str, list[ObservedTable]]) -> list[ObservedGroup]:
    """All groups there are; ``tables``: whom each remembers."""
    made = {
        "sales": group("sales"), "stock": group("stock"), "wide": group("wide", buckets=4),
        "bank/open": foreign("open", ["shop"]), "bank/vault": foreign("vault", ["treasury"]),
    }  # fmt: skip
    return [
        remembering(remembering(one, *tables.get(name, ())), *leaving.get(name, ()), leaving=True)
        for name, one in made.items()
    ]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Observation, ObservedTable]:
    """Groups and tables in every state of a table's life; and one of the tables."""
    remembered: dict[str, list[ObservedTable]] = {}
    leaving: dict[str, list[ObservedTable]] = {}
    tables = []
    for number in range(draw(st.integers(1, 4))):
        wanted = draw(st.sampled_from(NAMES))
        life = draw(st.sampled_from(["new", "placed", "leaving", "accepted"]))
        placed_in = draw(st.sampled_from(["sales", "stock", "bank/open"]))
        name = f"table-{number}"
        if life == "new" or (life == "accepted" and wanted not in ("sales", "stock", "bank/open")):
            made = table(name, wanted, files=None)
        else:
            replicas = draw(st.sampled_from([2, 3]))
            made = placed(name, wanted if life == "accepted" else placed_in, wanted, replicas=replicas)
            shown = {"columns": made.spec.columns if made.spec else (), "replicas": replicas}
            made = replace(made, status=made.status.model_copy(update=shown))
        if life in ("placed", "leaving"):
            (remembered if life == "placed" else leaving).setdefault(placed_in, []).append(made)
        tables.append(made)
    observation = Observation(NOW, groups=tuple(groups_of(remembered, leaving)), tables=tuple(tables))
    return observation, draw(st.sampled_from(tables))


@st.composite
def patches(draw: st.DrawFn, victim: ObservedTable, fields: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    """Of a table's status; often it names the group that the spec names."""
    patch = draw(st.fixed_dictionaries({}, optional=fields))
    if victim.spec and draw(st.booleans()):
        patch["group"] = victim.spec.colocate_with
    return patch


def forge(victim: ObservedTable, patch: dict[str, Any]) -> ObservedTable:
    """The table as it is read after this patch of its status."""
    status = {**victim.status.model_dump(mode="json", by_alias=True), **patch}
    read = parse_table({"metadata": {}, "spec": {}, "status": status})
    return replace(victim, status=read.status, status_error=read.status_error)


def with_table(observation: Observation, changed: ObservedTable) -> Observation:
    uid = changed.identity.uid
    return replace(observation, tables=tuple(changed if one.identity.uid == uid else one for one in observation.tables))


def members(found: Membership) -> dict[tuple[str, str], set[str]]:
    return {key: {table.identity.uid for table in tables} for key, tables in found.members.items()}


def is_leaving(observation: Observation, uid: str) -> bool:
    return any(one.uid == uid and one.leaving for group in observation.groups for one in group.status.members)


def is_remembered(observation: Observation, uid: str) -> bool:
    return any(one.uid == uid and not one.leaving for group in observation.groups for one in group.status.members)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_forged_status_changes_nothing_of_others(data: st.DataObject) -> None:
    """Not where they are, nor whether they are accepted; and no group that the spec does not name, but the table's."""
    observation, victim = data.draw(clusters())
    uid = victim.identity.uid
    patch = data.draw(patches(victim, {**OPERATORS_FIELDS, **LOADERS_FIELDS}))
    before, after = memberships(observation), memberships(with_table(observation, forge(victim, patch)))

    def of_others(found: Membership) -> Any:
        return [
            {key: value for key, value in part.items() if key != uid}
            for part in (found.places, found.refusals, found.wanted, found.memories)
        ]

    assert of_others(before) == of_others(after)
    changed = {key for key, uids in members(before).items() if uids != members(after)[key]}
    if is_leaving(observation, uid):  # its last group lets it go: only for the one that its spec names
        changed -= {key for key in changed if uid in members(before)[key]}
    assert changed <= {victim.spec_group} - {("bank", "vault")}
    if is_remembered(observation, uid):
        assert after.places.get(uid) == before.places.get(uid)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_forged_words_of_the_operator_are_not_heard(data: st.DataObject) -> None:
    """The group remembers what was accepted; and the operator's own fields are written again, so they are no fault."""
    observation, victim = data.draw(clusters())
    uid = victim.identity.uid
    if not is_remembered(observation, uid):
        return
    forged = forge(victim, data.draw(patches(victim, OPERATORS_FIELDS)))
    before = memberships(observation)
    assert forged.status_error == ""
    after = memberships(with_table(observation, forged))
    assert after.refusals.get(uid) == before.refusals.get(uid)
    assert after.memories[uid] == before.memories[uid]


def test_status_names_no_group_of_another_namespace() -> None:
    """Neither one that allows it nor one that does not, as long as the spec does not name it."""
    orders = placed("orders", "bank/vault", "sales")
    groups = (group("sales"), foreign("vault", ["treasury"]))
    found = memberships(Observation(NOW, groups=groups, tables=(orders,)))
    assert members(found) == {("shop", "sales"): {orders.identity.uid}, ("bank", "vault"): set()}


def test_table_on_its_way_does_not_arrive_in_a_closed_group() -> None:
    """Neither by its spec nor by its status, nor by both."""
    orders = placed("orders", "bank/vault", "bank/vault")
    groups = (remembering(group("sales"), orders, leaving=True), foreign("vault", ["treasury"]))
    found = memberships(Observation(NOW, groups=groups, tables=(orders,)))
    assert found.places == {orders.identity.uid: ("shop", "sales")}
    assert found.arriving == {}


@pytest.mark.parametrize("forged", [None, 1, 3])
def test_replicas_are_those_that_were_accepted(forged: int | None) -> None:
    """The group's were raised since; the table said 2 then and now, whatever its status claims."""
    orders = placed("orders", "sales", "sales", replicas=2)
    sales = remembering(group("sales", replicas=3), orders)
    found = memberships(Observation(NOW, groups=(sales,), tables=(forge(orders, {"replicas": forged}),)))
    assert found.refusals == {}
    assert found.memories[orders.identity.uid].replicas == 2


def test_closed_group_is_not_kept_by_tables_that_name_it() -> None:
    """A group of another namespace goes with its last table, even if others name it."""
    orders = table("orders", "bank/vault")
    found = memberships(Observation(NOW, groups=(foreign("vault", ["treasury"]),), tables=(orders,)))
    assert found.wanted == {}
    assert found.refusals[orders.identity.uid].reason == Reason.NAMESPACE_NOT_ALLOWED


def test_table_stays_when_its_group_closes() -> None:
    """It is refused, and its files stay where the group remembers them."""
    orders = placed("orders", "bank/vault", "bank/vault")
    closed = remembering(foreign("vault", []), orders)
    found = memberships(Observation(NOW, groups=(closed,), tables=(orders,)))
    assert found.places == {orders.identity.uid: ("bank", "vault")}
    assert found.refusals[orders.identity.uid].reason == Reason.NAMESPACE_NOT_ALLOWED


def test_table_that_has_just_arrived_is_placed_by_its_new_group() -> None:
    """The old group still remembers that it leaves, the new one does not know it yet."""
    orders = placed("orders", "stock", "stock")
    old = remembering(group("sales"), orders, leaving=True)
    found = memberships(Observation(NOW, groups=(old, group("stock")), tables=(orders,)))
    assert found.places == {orders.identity.uid: ("shop", "stock")}
    on_the_way = replace(orders, status=orders.status.model_copy(update={"group": "sales"}))
    found = memberships(Observation(NOW, groups=(old, group("stock")), tables=(on_the_way,)))
    assert found.places == {orders.identity.uid: ("shop", "sales")}
    assert found.arriving == {("shop", "stock"): (on_the_way,)}


def test_group_that_has_the_name_of_a_private_one_takes_no_table_of_its_own_accord() -> None:
    """It was made for others, so a table in no group does not come into it."""
    orders = table("orders", "")
    name = private_group_name("orders", orders.identity.uid)
    found = memberships(Observation(NOW, groups=(group(name),), tables=(orders,)))
    assert found.places == {}
    assert found.refusals[orders.identity.uid].reason == Reason.PRIVATE_GROUP
    other = remembering(replace(group(name), private=True), replace(orders, identity=identity("orders", "other")))
    found = memberships(Observation(NOW, groups=(other,), tables=(orders,)))
    assert found.refusals[orders.identity.uid].reason == Reason.PRIVATE_GROUP


def test_bad_status_is_refused_and_the_good_snapshot_named() -> None:
    """The group remembers it, also while the table's own word cannot be read."""
    orders = placed("orders", "sales", "sales")
    sales = remembering(group("sales"), orders)
    forged = forge(orders, {"snapshot": {"id": 2, "manifest": "x", "committedAt": "2026-11-21T00:00:00Z"}})
    found = memberships(Observation(NOW, groups=(sales,), tables=(forged,)))
    assert orders.status.snapshot is not None
    assert found.refusals[orders.identity.uid].reason == Reason.INVALID_STATUS
    assert found.refusals[orders.identity.uid].message == (
        'status.snapshot.manifest is "x": allowed is sha256: followed by 64 hexadecimal digits in lower case; '
        "load the table again with mode overwrite, or correct the status by kubectl edit --subresource=status; "
        f"its group remembers snapshot 1, manifest {orders.status.snapshot.manifest}"
    )
    assert found.memories[orders.identity.uid].snapshot == orders.status.snapshot
    assert found.members["shop", "sales"] == (forged,)


def recycled_of(observation: Observation, of: ObservedGroup) -> tuple[RecycledTable, ...]:
    cluster = assemble(observation)
    return next_recycled(cluster.groups[of.key], cluster)


WIDER = [{"name": "k", "type": "bigint"}, {"name": "new", "type": "int"}]
WIDEST = [*WIDER, {"name": "newer", "type": "int"}]


@pytest.mark.parametrize(
    ("remembered", "status", "spec", "refused"),
    [
        pytest.param(WIDER, WIDER, WIDEST, False, id="a change of the spec"),
        pytest.param(WIDEST, WIDER, WIDEST, False, id="the operator died before it wrote the table's status"),
        pytest.param(WIDER, WIDEST, WIDEST, False, id="the operator died before it wrote the group's status"),
        pytest.param(WIDER, OTHER_COLUMNS, WIDER, False, id="forged"),
        pytest.param(WIDER, [], WIDER, False, id="removed"),
        pytest.param(WIDER, OTHER_COLUMNS, WIDEST, True, id="forged, and the spec changed"),
        pytest.param(WIDER, [], WIDEST, True, id="removed, and the spec changed"),
        pytest.param(WIDER, [{"name": "k", "type": "nonsense"}], WIDEST, True, id="unreadable, and the spec changed"),
        pytest.param(None, WIDER, WIDEST, False, id="remembered by an older release"),
    ],
)
def test_columns_are_compared_with_those_that_were_accepted(
    remembered: list[Any] | None, status: list[Any], spec: list[Any], refused: bool
) -> None:
    """However far the operator came with its writes; a refusal ends once the spec is as it was."""
    accepted = placed("orders", "sales", "sales", columns=remembered or WIDER)
    sales = remembering(group("sales"), accepted)
    if remembered is None:
        old = sales.status.members[0].model_copy(update={"columns_digest": ""})
        sales = replace(sales, status=sales.status.model_copy(update={"members": (old,)}))
    now = forge(replace(accepted, spec=placed("orders", "sales", "sales", columns=spec).spec), {"columns": status})
    found = memberships(Observation(NOW, groups=(sales,), tables=(now,)))
    assert (accepted.identity.uid in found.refusals) is refused
    if refused:
        again = forge(accepted, {"columns": status})
        assert memberships(Observation(NOW, groups=(sales,), tables=(again,))).refusals == {}


@pytest.mark.parametrize("recovers", [True, False], ids=["of the same name", "of another name"])
def test_only_a_table_of_the_same_name_takes_over_dropped_files(recovers: bool) -> None:
    """An annotation that anybody writes with another table's uid neither ends nor prolongs its time in the bin."""
    dropped = table("orders", "sales")
    sales = remembering(group("sales"), dropped)
    recycled = recycled_of(Observation(NOW, groups=(sales,)), sales)
    sales = replace(sales, status=sales.status.model_copy(update={"members": (), "recycled": recycled}))
    heir = replace(table("orders" if recovers else "mine", "sales"), recovers=dropped.identity.uid)
    heir = replace(heir, identity=replace(heir.identity, uid="heir-uid"))
    left = recycled_of(Observation(NOW, groups=(sales,), tables=(heir,)), sales)
    assert [one.uid for one in left] == ([] if recovers else [dropped.identity.uid])
    assert all(not one.recovery_uids for one in left)


def test_dropped_table_waits_in_no_group_that_it_only_claimed() -> None:
    """A forged group remembers nothing of a table that was dropped before any group had taken notice."""
    forged = placed("orders", "bank/vault", "sales")
    observation = Observation(
        NOW, groups=(group("sales"), foreign("vault", [])),
        dropped_tables={forged.identity.uid: DroppedTable(forged, NOW)},
    )  # fmt: skip
    assert [recycled_of(observation, one) for one in observation.groups] == [(), ()]
