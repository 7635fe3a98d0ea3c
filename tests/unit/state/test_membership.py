"""Which tables are in which group."""

from dataclasses import replace

import pytest

from colocation.model.conditions import Reason
from colocation.model.names import private_group_name
from colocation.state.membership import memberships
from colocation.state.objects import ObservedGroup, ObservedTable
from colocation.state.observation import Observation

from .objects import NOW, group, remembering, seconds, table


def test_tables_are_sorted() -> None:
    """Members, refused ones, and those without a group; the first made is the parent of a missing group."""
    fits, other_type, unnamed = table("fits"), table("other-type", key_type="string"), table("none", "")
    younger = table("a-younger", "missing")
    older = table("older", "missing")
    older = replace(older, identity=replace(older.identity, created_at=NOW - seconds(9)))
    invalid = replace(table("invalid"), spec=None, spec_error="columns: named twice: a")
    observation = Observation(NOW, groups=(group(),), tables=(fits, other_type, unnamed, younger, older, invalid))

    found = memberships(observation)

    assert found.members == {("shop", "sales"): (fits,)}
    private = ("shop", private_group_name("none", unnamed.identity.uid))
    assert found.orphans == {("shop", "missing"): (older, younger), private: (unnamed,)}
    assert {uid: refusal.reason for uid, refusal in found.refusals.items()} == {
        other_type.identity.uid: Reason.SCHEMA_MISMATCH,
        invalid.identity.uid: Reason.INVALID_SPEC,
    }
    assert "named twice: a" in found.refusals[invalid.identity.uid].message


def test_group_whose_spec_is_not_valid_takes_no_one() -> None:
    """Its tables say that the group has to be corrected."""
    broken = replace(group(), spec=None, spec_error="buckets: too many")
    orders = table("orders")
    found = memberships(Observation(NOW, groups=(broken,), tables=(orders,)))
    assert found.members == {("shop", "sales"): ()}
    assert found.refusals[orders.identity.uid].message == (
        "the spec of group sales is not valid (buckets: too many); correct the group"
    )


def placed(name: str, group_name: str, wanted: str, **spec: object) -> ObservedTable:
    """A loaded table that ``group_name`` places and whose spec names ``wanted``."""
    made = table(name, wanted, **spec)
    return replace(made, status=made.status.model_copy(update={"group": group_name, "buckets": 2, "replicas": 2}))


@pytest.mark.parametrize(
    ("wanted", "spec", "reason"),
    [
        pytest.param("stock", {}, None, id="it fits"),
        pytest.param("wide", {}, Reason.SCHEMA_MISMATCH, id="other buckets than its files have"),
        pytest.param("wide", {"buckets": 4}, Reason.SCHEMA_MISMATCH, id="whatever the spec has"),
        pytest.param("stock", {"replicas": 3}, Reason.SCHEMA_MISMATCH, id="replicas"),
        pytest.param("strings", {}, Reason.SCHEMA_MISMATCH, id="type of the key"),
        pytest.param("lone", {}, Reason.PRIVATE_GROUP, id="a group of one table"),
        pytest.param("bank/vault", {}, Reason.NAMESPACE_NOT_ALLOWED, id="a namespace that does not allow it"),
        pytest.param("bank/open", {}, None, id="a namespace that allows all"),
        pytest.param("bank/missing", {}, Reason.NO_GROUP, id="no one makes a group in another namespace"),
    ],
)
def test_table_stays_where_it_is_until_it_may_go(wanted: str, spec: dict[str, object], reason: Reason | None) -> None:
    """A change of colocateWith is checked against the group that it names; refused or not, the old group places it."""
    orders = placed("orders", "sales", wanted, **spec)
    groups = (
        remembering(group("sales"), orders), group("stock"), group("wide", buckets=4),
        group("strings", bucketKey=["string"]), replace(group("lone"), private=True), foreign("vault", ["treasury"]),
        foreign("open", ["*"]),
    )  # fmt: skip
    found = memberships(Observation(NOW, groups=groups, tables=(orders,)))
    assert found.members["shop", "sales"] == (orders,)
    assert found.places == {orders.identity.uid: ("shop", "sales")}
    refusal = found.refusals.get(orders.identity.uid)
    assert (refusal.reason if refusal else None) == reason
    assert found.leaving == (set() if reason else {orders.identity.uid})


@pytest.mark.parametrize("remembers", [True, False], ids=["the group remembers it", "its own status claims it"])
def test_table_that_is_refused_stays_only_where_it_is_remembered(remembers: bool) -> None:
    """What a tenant may write into the status gives a refused table no place."""
    orders = placed("orders", "sales", "sales", replicas=3)
    sales = remembering(group("sales"), orders) if remembers else group("sales")
    found = memberships(Observation(NOW, groups=(sales,), tables=(orders,)))
    assert found.refusals[orders.identity.uid].reason == Reason.SCHEMA_MISMATCH
    assert found.members == {("shop", "sales"): (orders,) if remembers else ()}


@pytest.mark.parametrize(
    ("wanted", "stays"),
    [
        pytest.param("stock", False, id="it goes"),
        pytest.param("wide", True, id="it does not fit there"),
        pytest.param("missing", True, id="the group is not made yet"),
        pytest.param("bank/missing", True, id="no one makes it"),
    ],
)
def test_table_that_cannot_go_is_as_good_as_before(wanted: str, stays: bool) -> None:
    """It is ready where it is, since it fits its group in all but the name."""
    orders = placed("orders", "sales", wanted)
    assert orders.spec is not None
    orders = replace(orders, status=orders.status.model_copy(update={"columns": orders.spec.columns}))
    groups = (remembering(group("sales"), orders), group("stock"), group("wide", buckets=4))
    found = memberships(Observation(NOW, groups=groups, tables=(orders,)))
    assert found.staying == ({orders.identity.uid} if stays else set())


def foreign(name: str, allowed: list[str]) -> ObservedGroup:
    """A group of namespace ``bank``."""
    made = group(name, allowedNamespaces=allowed)
    return replace(made, identity=replace(made.identity, namespace="bank"))


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        pytest.param({"replicas": 2}, False, id="as it was accepted"),
        pytest.param({}, False, id="not said"),
        pytest.param({"replicas": 3}, False, id="as the group has it now"),
        pytest.param({"replicas": 4}, True, id="another"),
    ],
)
def test_replicas_of_a_group_may_be_raised_over_its_members(spec: dict[str, object], refused: bool) -> None:
    """Source: Doris' manual: only a table that asks for others than its group has is refused."""
    orders = placed("orders", "sales", "sales", **spec)
    sales = remembering(group("sales", replicas=3), orders)
    found = memberships(Observation(NOW, groups=(sales,), tables=(orders,)))
    assert bool(found.refusals) is refused
    assert len(found.members["shop", "sales"]) == 1


def test_group_made_again_with_another_schema_places_no_old_files() -> None:
    """Files of two buckets cannot be placed by a map of four; the table states what is wrong."""
    orders = placed("orders", "sales", "sales")
    found = memberships(Observation(NOW, groups=(group("sales", buckets=4),), tables=(orders,)))
    assert found.members["shop", "sales"] == ()
    assert "same bucket num: 2 should be 4" in found.refusals[orders.identity.uid].message


@pytest.mark.parametrize("claimed", ["sales", "stock"])
def test_of_two_groups_that_remember_a_table_its_status_chooses(claimed: str) -> None:
    """Two operators at once may have written both: the table stays where it was complete."""
    orders = placed("orders", claimed, claimed)
    groups = (remembering(group("sales"), orders), remembering(group("stock"), orders))
    assert memberships(Observation(NOW, groups=groups, tables=(orders,))).places == {
        orders.identity.uid: ("shop", claimed)
    }


def test_full_group_keeps_its_tables_and_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a new table nor one of another group; of two that come at once the older is in; who leaves makes room."""
    monkeypatch.setattr("colocation.state.membership.MAX_TABLES", 2)
    first, moving, new = placed("first", "sales", "sales"), placed("moving", "stock", "sales"), table("new")
    groups = (remembering(group("sales"), first), remembering(group("stock"), moving))
    older = replace(new, identity=replace(new.identity, name="older", uid="older", created_at=NOW - seconds(9)))
    found = memberships(Observation(NOW, groups=groups, tables=(new, moving, older, first)))
    assert {one.identity.name for one in found.members["shop", "sales"]} == {"first", "older"}
    assert found.arriving == {}
    assert {refusal.reason for refusal in found.refusals.values()} == {Reason.GROUP_FULL}
    assert set(found.refusals) == {moving.identity.uid, new.identity.uid}
    assert "group sales has 2 tables, and a group can have 2" in found.refusals[new.identity.uid].message

    alone = memberships(Observation(NOW, groups=groups, tables=(moving, first)))
    assert alone.arriving == {("shop", "sales"): (moving,)}
