"""Which tables are in which group."""

from dataclasses import replace
from typing import Any

import pytest

from colocation.model.conditions import Reason
from colocation.model.group import RecycledTable
from colocation.model.names import private_group_name
from colocation.state.membership import memberships
from colocation.state.objects import ObservedGroup, ObservedTable
from colocation.state.observation import Observation
from colocation.state.placement import TableMemory

from .objects import MANIFEST, NOW, group, remembering, seconds, table


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


def remembered(of: ObservedTable, *groups: ObservedGroup) -> TableMemory:
    return memberships(Observation(NOW, groups=groups, tables=(of,))).memories[of.identity.uid]


WIDE = replace(group("wide", buckets=4), identity=replace(group().identity, name="wide", uid="wide"))
STOCK = replace(group("stock", replicas=2), identity=replace(group().identity, name="stock", uid="stock"))


def known(of: ObservedTable, **fields: object) -> ObservedGroup:
    """Group ``sales``, of three replicas, which remembers the table so."""
    made = remembering(group("sales", replicas=3), of)
    [member] = made.status.members
    return replace(made, status=made.status.model_copy(update={"members": (member.model_copy(update=fields),)}))


def changed(of: ObservedTable, **status: object) -> ObservedTable:
    return replace(of, status=of.status.model_copy(update=status))


HERE = placed("orders", "sales", "sales")
DIGEST = HERE.spec.columns_digest if HERE.spec else ""
UNREADABLE = replace(changed(HERE, snapshot=None), status_error="status.snapshot: not an object")


@pytest.mark.parametrize(
    ("of", "group_", "replicas", "digest"),
    [
        pytest.param(HERE, known(HERE), 3, DIGEST, id="the group's replicas"),
        pytest.param(placed("orders", "sales", "sales", replicas=2), known(HERE, replicas=2), 2, DIGEST, id="its own"),
        pytest.param(placed("orders", "sales", "stock"), known(HERE, replicas=2), 2, DIGEST, id="it moves: as before"),
        pytest.param(placed("orders", "sales", "wide"), known(HERE, replicas=2, columns_digest="before"), 2, "before",
                     id="it is refused: as before"),
        pytest.param(replace(HERE, spec=None), known(HERE, replicas=2, columns_digest="before"), 2, "before",
                     id="its spec is not valid: as before"),
        pytest.param(replace(HERE, replaces=f"sha256:{MANIFEST}"), known(HERE, columns_digest="before"), 3, "before",
                     id="its rows are being replaced: the columns of before"),
    ],
)  # fmt: skip
def test_what_a_group_remembers_of_a_table(
    of: ObservedTable, group_: ObservedGroup, replicas: int, digest: str
) -> None:
    """What it took last, and the committed snapshot."""
    found = remembered(of, group_, STOCK, WIDE)
    assert (found.replicas, found.columns_digest) == (replicas, digest)
    assert found.snapshot == HERE.status.snapshot


@pytest.mark.parametrize(
    ("of", "is_known"),
    [
        pytest.param(HERE, True, id="it is committed"),
        pytest.param(changed(HERE, snapshot=None), False, id="nothing is committed, whatever was"),
        pytest.param(UNREADABLE, True, id="its status cannot be read: as before"),
    ],
)
def test_which_snapshot_a_group_remembers(of: ObservedTable, is_known: bool) -> None:
    """A status that is spoilt does not make it forget."""
    assert (remembered(of, known(HERE)).snapshot is not None) is is_known


COMES_BACK = "its files are brought back from the recycle bin"
IS_PURGED = "the dropped table that it was to bring back is purged"


def dropped(uid: str = "old", name: str = "orders") -> RecycledTable:
    times = {"deleted_at": "2026-11-21T12:00:00Z", "purge_at": "2026-11-22T12:00:00Z"}
    return RecycledTable(namespace="shop", name=name, uid=uid, **times)


@pytest.mark.parametrize(
    ("made", "record", "reason", "message"),
    [
        pytest.param({"recovers": "old"}, dropped(), "Recovering", COMES_BACK, id="it waits"),
        pytest.param({"recovers": "old"}, dropped("other"), "Purged", IS_PURGED, id="no group remembers the other one"),
        pytest.param({"recovers": "old"}, dropped(name="lines"), "Purged", IS_PURGED, id="that had another name"),
        pytest.param({"adopts": "0a1b2c3d"}, dropped(), "Recovering", "`colocation adopt` has not", id="adopted"),
        pytest.param({"adopts": "0a1b2c3d", "recovers": "old"}, dropped(), "Recovering", COMES_BACK, id="both"),
    ],
)
def test_why_a_table_that_is_made_again_takes_no_loads(
    made: dict[str, str], record: RecycledTable, reason: str, message: str
) -> None:
    """Its files come first."""
    sales = replace(group("sales"), status=group().status.model_copy(update={"recycled": (record,)}))
    of = replace(table("orders", files=None), **made)  # type: ignore[arg-type]
    refusal = memberships(Observation(NOW, groups=(sales,), tables=(of,))).refusals[of.identity.uid]
    assert (refusal.reason, refusal.message[: len(message)]) == (reason, message)


@pytest.mark.parametrize(
    ("of", "is_wanted"),
    [
        pytest.param(HERE, True, id="its own"),
        pytest.param(placed("orders", "sales", "wide"), True, id="one that it does not fit"),
        pytest.param(placed("orders", "sales", "new"), True, id="one that is not there"),
        pytest.param(placed("orders", "sales", "bank/vault"), False, id="one that is closed to it"),
        pytest.param(placed("orders", "sales", "bank/open"), True, id="one that is open to it"),
        pytest.param(placed("orders", "sales", "bank/new"), False, id="one that is not there, in another namespace"),
        pytest.param(replace(HERE, spec=None), False, id="its spec is not valid"),
    ],
)
def test_a_table_keeps_the_group_that_it_names(of: ObservedTable, is_wanted: bool) -> None:
    """From being deleted, if that is open to it."""
    groups = (known(HERE), WIDE, foreign("vault", ["treasury"]), foreign("open", ["*"]))
    found = memberships(Observation(NOW, groups=groups, tables=(of,)))
    expected = {of.identity.uid: of.spec_group} if is_wanted else {}
    assert found.wanted == expected


@pytest.mark.parametrize(
    ("more", "is_remembered", "stays"),
    [
        pytest.param([], True, True, id="as it was accepted"),
        pytest.param([], False, False, id="no group remembers it"),
        pytest.param([{"name": "v", "type": "int"}], True, False, id="it has more columns"),
    ],
)
def test_a_refused_table_stays_only_as_it_was_accepted(more: list[Any], is_remembered: bool, stays: bool) -> None:
    """Reads and loads go on then."""
    assert HERE.spec is not None
    orders = placed("orders", "sales", "wide", columns=[{"name": "k", "type": "bigint"}, *more])
    orders = changed(orders, columns=HERE.spec.columns)
    sales = remembering(group("sales"), HERE) if is_remembered else group("sales")
    found = memberships(Observation(NOW, groups=(sales, WIDE), tables=(orders,)))
    assert found.refusals.keys() == {orders.identity.uid}
    assert bool(found.staying) is stays


@pytest.mark.parametrize(
    ("private", "members", "wanted", "refusal"),
    [
        pytest.param(True, (), "", None, id="its own group"),
        pytest.param(True, ("orders",), "", None, id="which remembers it"),
        pytest.param(True, ("lines",), "", "a table in no group gets a group of its own", id="which has another one"),
        pytest.param(True, ("orders", "lines"), "", None, id="it is in there with another one"),
        pytest.param(False, (), "", "a table in no group gets a group of its own", id="a group for all"),
        pytest.param(True, (), "named", "is of one table that is in no group", id="one names it"),
    ],
)  # fmt: skip
def test_a_private_group_is_of_one_table(
    private: bool, members: tuple[str, ...], wanted: str, refusal: str | None
) -> None:
    """Of the one that is in no group, and of no other."""
    orders = table("orders", wanted)
    name = private_group_name("orders", orders.identity.uid)
    orders = table("orders", name) if wanted else orders
    made = replace(group(name), private=private)
    made = remembering(made, *(orders if one == "orders" else table(one, name) for one in members))
    found = memberships(Observation(NOW, groups=(made,), tables=(orders,))).refusals.get(orders.identity.uid)
    assert (found is None) is (refusal is None)
    assert refusal is None or (found is not None and refusal in found.message and found.reason == Reason.PRIVATE_GROUP)


@pytest.mark.parametrize(
    ("of", "group_", "is_placed"),
    [
        pytest.param(HERE, group("sales"), True, id="its spec and its status name the group"),
        pytest.param(placed("orders", "sales", "other"), group("sales"), False, id="its spec names another one"),
        pytest.param(HERE, group("sales", buckets=4), False, id="its files are of other buckets"),
        pytest.param(changed(HERE, buckets=None), group("sales", buckets=4), True, id="it is not known of how many"),
        pytest.param(placed("orders", "sales", "sales", key_type="string"), group("sales"), False, id="of another key"),
        pytest.param(HERE, replace(group("sales"), spec=None), False, id="the group's spec is not valid"),
    ],
)
def test_a_group_places_a_table_that_it_does_not_remember_only_if_both_agree(
    of: ObservedTable, group_: ObservedGroup, is_placed: bool
) -> None:
    """A tenant may write any group into the status."""
    found = memberships(Observation(NOW, groups=(group_,), tables=(of,)))
    assert bool(found.places) is is_placed


@pytest.mark.parametrize(
    ("allowed", "is_placed"), [(["shop"], True), (["*"], True), (["treasury"], False), ([], False)]
)
def test_a_group_of_another_namespace_places_only_what_it_allows(allowed: list[str], is_placed: bool) -> None:
    """Whatever a status has."""
    of = placed("orders", "bank/vault", "bank/vault")
    assert bool(memberships(Observation(NOW, groups=(foreign("vault", allowed),), tables=(of,))).places) is is_placed


def test_a_table_in_no_group_stays_in_the_group_that_was_made_for_it() -> None:
    """Also when that has another name than it would get now."""
    orders = changed(placed("orders", "mine", ""), replicas=2)
    mine = remembering(replace(group("mine"), private=True), orders)
    found = memberships(Observation(NOW, groups=(mine,), tables=(orders,)))
    assert (found.places, found.refusals, found.arriving) == ({orders.identity.uid: ("shop", "mine")}, {}, {})
    assert found.wanted == found.places
    shared = replace(mine, private=False)
    assert memberships(Observation(NOW, groups=(shared,), tables=(orders,))).wanted != found.places
