"""Which tables are in which group."""

from dataclasses import replace

from colocation.kube.membership import memberships
from colocation.kube.observation import Observation
from colocation.model.conditions import Reason

from .objects import NOW, group, seconds, table


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
    assert found.orphans == {("shop", "missing"): (older, younger)}
    assert {uid: refusal.reason for uid, refusal in found.refusals.items()} == {
        other_type.identity.uid: Reason.SCHEMA_MISMATCH,
        unnamed.identity.uid: Reason.NO_GROUP,
        invalid.identity.uid: Reason.INVALID_SPEC,
    }
    assert "named twice: a" in found.refusals[invalid.identity.uid].message


def test_group_whose_spec_is_not_valid_takes_nobody() -> None:
    """Its tables say that the group has to be corrected."""
    broken = replace(group(), spec=None, spec_error="buckets: too many")
    orders = table("orders")
    found = memberships(Observation(NOW, groups=(broken,), tables=(orders,)))
    assert found.members == {("shop", "sales"): ()}
    assert found.refusals[orders.identity.uid].message == (
        "the spec of group sales is not valid (buckets: too many); correct the group"
    )
