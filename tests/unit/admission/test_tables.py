"""Tables under review: refused exactly when, and as, the operator would refuse them."""

from typing import Any

import pytest

from colocation.admission.tables import judge_table
from colocation.model.conditions import Reason

from .reviews import JsonObject, creation, deletion, group, known, table, update

SNAPSHOT = {"id": 1, "manifest": f"sha256:{0:064x}", "committedAt": "2026-11-21T00:00:00Z"}
COLUMNS = table()["spec"]["columns"]
LOADED = {"snapshot": SNAPSHOT, "columns": COLUMNS}

REFUSED = [
    pytest.param(table("new", buckets=3), Reason.SCHEMA_MISMATCH, "same bucket num: 3 should be 2", id="buckets"),
    pytest.param(table("new", bucketedBy=["k", "day"]), Reason.SCHEMA_MISMATCH, "size must be same: 2 should be 1",
                 id="number of columns"),
    pytest.param(table("new", bucketedBy=["day"]), Reason.SCHEMA_MISMATCH, "date should be bigint", id="type"),
    pytest.param(table("new", replicas=3), Reason.SCHEMA_MISMATCH, "3 should be 2", id="replicas"),
    pytest.param(table("new", columns=[{"name": "k", "type": "decimal(39,0)"}]), Reason.INVALID_SPEC, "decimal",
                 id="a spec that the model refuses"),
    pytest.param(table("new", colocateWith="accounts/ledger"), Reason.NAMESPACE_NOT_ALLOWED, "allowedNamespaces",
                 id="a group that does not let its namespace in"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "reason", "message"), REFUSED)
def test_a_table_that_no_group_takes_is_refused(body: JsonObject, reason: str, message: str) -> None:
    """With the operator's reason and words."""
    cluster = known(groups=[group(), group("ledger", "accounts", allowedNamespaces=["bank"])])
    verdict = judge_table(creation(body), cluster)
    assert not verdict.allowed
    assert verdict.reason == reason
    assert message in verdict.message


@pytest.mark.parametrize(("body", "reason", "message"), REFUSED)
def test_the_words_are_those_of_the_operators_next_pass(body: JsonObject, reason: str, message: str) -> None:
    """Let in, it would be refused with the very same refusal: both ask the same function."""
    groups = [group(), group("ledger", "accounts", allowedNamespaces=["bank"])]
    verdict = judge_table(creation(body), known(groups=groups))
    refusal = known(groups=groups, tables=[table(), body]).membership.refusals["uid-of-new"]
    assert (verdict.reason, verdict.message) == (refusal.reason, refusal.message)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(table("new"), id="fits"),
        pytest.param(table("new", buckets=2, replicas=2, partitionedBy=["day"]), id="it states what the group has"),
        pytest.param(table("new", colocateWith="other", buckets=8, replicas=1), id="makes its group"),
        pytest.param(table("new", colocateWith="accounts/ledger"), id="group of another namespace that lets it in"),
        pytest.param(table("new", colocateWith="", buckets=8, replicas=1), id="in no group"),
    ],
)
def test_a_table_that_a_group_takes_passes(body: JsonObject) -> None:
    """Without a word."""
    groups = [group(), group("ledger", "accounts", allowedNamespaces=["shop"])]
    verdict = judge_table(creation(body), known(groups=groups))
    assert verdict.allowed and verdict.warnings == ()


def test_a_table_whose_group_is_not_there_yet_passes_with_a_warning() -> None:
    """The group may be the next object of the same file; till then the table waits."""
    verdict = judge_table(creation(table("new", colocateWith="later")), known())
    assert verdict.allowed
    assert "group shop/later does not exist" in verdict.warnings[0]


def test_what_an_earlier_table_makes_of_a_missing_group_binds_no_one_yet() -> None:
    """There is no group to compare with until the operator has made it; then the operator judges."""
    first = table("first", colocateWith="new", buckets=8, replicas=2)
    second = table("second", colocateWith="new", buckets=16, replicas=2)
    assert judge_table(creation(second), known(tables=[first])).allowed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(table(buckets=4), {**table(buckets=4), "metadata": {**table()["metadata"], "labels": {"a": "b"}}},
                     id="metadata of a refused table"),
        pytest.param(table(), table(recycleAfterSeconds=5), id="what no group cares about"),
        pytest.param(table(), table(columns=[*COLUMNS, {"name": "new", "type": "int"}]), id="new column"),
    ],
)  # fmt: skip
def test_harmless_changes_pass(old: JsonObject, new: JsonObject) -> None:
    """A table that is refused can still be labelled, and freed of finalizers."""
    assert judge_table(update(old, new), known(tables=[old])).allowed


def test_a_table_may_not_turn_to_a_group_with_another_schema() -> None:
    """Changes of colocateWith are judged as creations."""
    cluster = known(groups=[group(), group("daily", bucketKey=["date"])])
    verdict = judge_table(update(table(), table(colocateWith="daily")), cluster)
    assert (verdict.allowed, verdict.reason) == (False, Reason.SCHEMA_MISMATCH)


@pytest.mark.parametrize(
    ("status", "columns", "message"),
    [
        pytest.param(LOADED, COLUMNS[:1], "column day (date) exists and is no longer", id="gone"),
        pytest.param(LOADED, [*COLUMNS, {"name": "n", "type": "int", "nullable": False}],
                     "column n (int) is new and would have to be nullable", id="new, not nullable"),
        pytest.param({"columns": COLUMNS}, COLUMNS[:1], "", id="no files yet"),
    ],
)  # fmt: skip
def test_columns_of_loaded_tables_change_by_the_loads_rules(
    status: dict[str, Any], columns: list[JsonObject], message: str
) -> None:
    """Files that are there must fit: the same rule as when they are read."""
    old = table(status=status)
    verdict = judge_table(update(old, {**table(columns=columns), "status": status}), known(tables=[old]))
    assert verdict.allowed is (message == "")
    assert message in verdict.message


def test_a_statement_that_replaces_all_rows_may_change_the_columns() -> None:
    """Only of the rows that are there now; the operator's next pass reports it, too."""
    before = table(status=LOADED)
    spec = {**before["spec"], "columns": [*COLUMNS, {"name": "more", "type": "int", "nullable": False}]}

    def allows(manifest: str) -> bool:
        metadata = {**before["metadata"], "annotations": {"colocation.dev/replaces": manifest}}
        after = {**before, "metadata": metadata, "spec": spec}
        return judge_table(update(before, after), known(tables=[before])).allowed

    assert allows(str(SNAPSHOT["manifest"]))
    assert not allows(f"sha256:{1:064x}")


def test_a_table_may_always_be_deleted() -> None:
    """Its data waits in the recycle bin."""
    assert judge_table(deletion(table()), known()).allowed


RECOVERING = table()
RECOVERING = {**RECOVERING, "metadata": {**RECOVERING["metadata"], "annotations": {"colocation.dev/recovers": "gone"}}}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(RECOVERING, Reason.PURGED, id="what it was to bring back is purged"),
        pytest.param(table(status={"snapshot": {"id": "x"}}), Reason.INVALID_STATUS, id="its status is not readable"),
    ],
)
def test_a_table_whose_state_is_bad_can_be_changed(body: JsonObject, reason: Reason) -> None:
    """The operator refuses it, for what its author did not ask for and cannot avoid."""
    there = known(tables=[body])
    assert [refusal.reason for refusal in there.membership.refusals.values()] == [reason]
    assert judge_table(update(body, {**body, "spec": {**body["spec"], "recycleAfterSeconds": 5}}), there).allowed


def test_a_new_table_takes_no_other_ones_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the youngest of all: in a group that is full, those that are there stay."""
    monkeypatch.setattr("colocation.state.membership.MAX_TABLES", 2)
    there = known(tables=[table("first"), table("second")])
    verdict = judge_table(creation(table("a-new")), there)
    assert (verdict.allowed, verdict.reason) == (False, Reason.GROUP_FULL)
