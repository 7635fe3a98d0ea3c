"""Tables whose definition is that of rows which are still to be committed: what the operator reports and remembers."""

from dataclasses import replace

import pytest

from colocation.model.conditions import Reason
from colocation.model.names import ANNOTATION_REPLACES
from colocation.model.table import ColocatedTableSpec, Column
from colocation.reconcile.actions import WriteTableStatus
from colocation.reconcile.tables import TableFacts, table_actions
from colocation.state.assemble import assemble
from colocation.state.membership import Membership, memberships
from colocation.state.objects import ObservedTable
from colocation.state.observation import Observation
from colocation.state.parse import parse_table

from .objects import NOW, group, remembering, table

OLD = (Column(name="k", type="bigint"), Column(name="v", type="string"))
NEW = (Column(name="k", type="bigint"), Column(name="note", type="string", nullable=False))
WIDER = (*OLD, Column(name="more", type="int"))


def in_sales(columns: tuple[Column, ...]) -> ObservedTable:
    """A loaded table that its group took with these columns."""
    found = table("orders", columns=[column.to_json_dict() for column in columns])
    fields = {"group": "sales", "accepted": True, "buckets": 2, "replicas": 2, "columns": columns}
    return replace(found, status=found.status.model_copy(update=fields))


def redefined(before: ObservedTable, columns: tuple[Column, ...], replaces: str | None) -> ObservedTable:
    assert before.spec is not None
    spec = ColocatedTableSpec.model_validate({**before.spec.to_json_dict(), "columns": columns})
    return replace(before, spec=spec, replaces=replaces)


def seen(before: ObservedTable, now: ObservedTable) -> Observation:
    """``before``: as the group remembers it."""
    return Observation(NOW, groups=(remembering(group("sales"), before),), tables=(now,))


def sorted_of(before: ObservedTable, now: ObservedTable) -> Membership:
    return memberships(seen(before, now))


def manifest_of(of: ObservedTable) -> str:
    assert of.status.snapshot is not None
    return of.status.snapshot.manifest


@pytest.mark.parametrize("columns", [NEW, WIDER])
def test_files_that_will_go_need_not_fit(columns: tuple[Column, ...]) -> None:
    """What the operator knows of the files that are there stays, so the statement can still be taken back."""
    before = in_sales(OLD)
    now = redefined(before, columns, manifest_of(before))
    found = sorted_of(before, now)
    assert found.refusals == {}
    assert before.spec is not None
    assert found.memories[now.identity.uid].columns_digest == before.spec.columns_digest
    view = assemble(seen(before, now)).tables[now.identity.uid]
    facts = TableFacts(view, view.group, None, view.refusal, None, None, is_history_over=False)
    [written] = [one for one in table_actions(facts, NOW) if isinstance(one, WriteTableStatus)]
    assert [column["name"] for column in written.status["columns"]] == ["k", "v"]
    doing = next(one for one in written.status["conditions"] if one["type"] == "Reconciling")
    assert (doing["status"], doing["reason"]) == ("True", Reason.REPLACING) and ANNOTATION_REPLACES in doing["message"]
    assert sorted_of(now, redefined(now, OLD, None)).refusals == {}


def test_an_edit_and_a_statement_that_is_over_are_held_to_the_files() -> None:
    before = in_sales(OLD)
    for replaces in (None, "sha256:" + "b" * 64):
        [refusal] = sorted_of(before, redefined(before, NEW, replaces)).refusals.values()
        assert "column v (string) exists and is no longer in the spec" in refusal.message


@pytest.mark.parametrize("later", [NEW, (*NEW, Column(name="more", type="int"))])
def test_the_commit_tells_the_columns(later: tuple[Column, ...]) -> None:
    """The group remembers those of before until its status is written, and the spec may have changed again by then."""
    before = in_sales(OLD)
    now = redefined(before, later, manifest_of(before))
    assert now.status.snapshot is not None
    snapshot = now.status.snapshot.model_copy(update={"id": 2, "manifest": "sha256:" + "c" * 64})
    committed = replace(now, status=now.status.model_copy(update={"columns": NEW, "snapshot": snapshot}))
    found = sorted_of(before, committed)
    assert found.refusals == {} and not committed.is_being_replaced
    assert committed.spec is not None
    assert found.memories[now.identity.uid].columns_digest == committed.spec.columns_digest


def test_the_annotation_is_the_manifest_that_goes() -> None:
    body = {"metadata": {"name": "orders", "namespace": "shop", "annotations": {ANNOTATION_REPLACES: "sha256:x"}}}
    assert parse_table(body).replaces == "sha256:x"
    assert not parse_table(body).is_being_replaced
