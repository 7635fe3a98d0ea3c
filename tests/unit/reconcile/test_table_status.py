"""What a table's status, conditions and Events hold, field by field."""

from dataclasses import replace
from typing import Any

import pytest

from colocation.model.conditions import Condition, ConditionType, Reason
from colocation.model.schema_check import Refusal
from colocation.model.table import ColocatedTableStatus, Retention, TableSnapshot
from colocation.reconcile.actions import CreateGroup, PostEvent, WriteTableStatus
from colocation.reconcile.group_status import MAX_SHORT_MESSAGE
from colocation.reconcile.recovery import Recovery
from colocation.reconcile.tables import TableFacts, fault_actions, missing_groups, table_actions
from colocation.state.assemble import assemble
from colocation.state.objects import ObservedGroup, ObservedTable
from colocation.state.placement import TableMemory

from ..state.objects import NOW, group, table
from .scenes import actions_of, decided, quiet_observation, settled_group, settled_table
from .test_deletions import recovering
from .test_transfers import SPARE, TO_STOCK

QUIET = quiet_observation("orders")
ORDERS = settled_table("orders")
SALES = settled_group((ORDERS,))
WITHOUT_MAP = group()
REFUSED = Refusal(reason=Reason.SCHEMA_MISMATCH, message="another key")
MISSING = Refusal(reason=Reason.MANIFEST_MISSING, message="no node has it")
LOST, RECORD = recovering(ORDERS)
VAGUE, PARENT = table("a", "new"), table("b", "new", buckets=4, replicas=3)
STALLED_MOVE = replace(SPARE, shortage="no room")


def elsewhere() -> ObservedGroup:
    return replace(SALES, identity=replace(SALES.identity, namespace="bank"))


def recovery(homeless: tuple[int, ...] = ()) -> Recovery:
    return Recovery(LOST, RECORD, SALES, (), (), homeless, (), is_coming=False)


def facts(
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    view: dict[str, Any] | None = None,
    of: ObservedTable = ORDERS,
    **changes: Any,
) -> TableFacts:
    """Of a table that its group has taken, but for these fields."""
    assert of.spec is not None
    known = replace(of, status=of.status.model_copy(update=status or {}), spec=of.spec.model_copy(update=spec or {}))
    [found] = assemble(QUIET).tables.values()
    found = found._replace(**{"table": known, "memory": TableMemory(5, "", None), **(view or {})})
    made = TableFacts(found, SALES, "12345678.1", None, None, None, is_history_over=False)
    return replace(made, **changes)


def written(found: TableFacts) -> dict[str, Any]:
    [one] = [one for one in table_actions(found, NOW) if isinstance(one, WriteTableStatus)]
    return dict(one.status)


def snapshot(number: int, committed_at: str) -> TableSnapshot:
    return TableSnapshot(id=number, manifest=f"sha256:{number:064x}", committed_at=committed_at)


COLUMNS = [{"name": "k", "type": "bigint"}]


@pytest.mark.parametrize(
    ("found", "fields"),
    [
        pytest.param(facts({"buckets": None}),
                     {"accepted": True, "group": "sales", "groupId": "12345678.1", "buckets": 2, "replicas": 2,
                      "observedGeneration": 1}, id="it is in its group"),
        pytest.param(facts({"group_id": "before"}, group_id=None), {"groupId": "before"}, id="its id is not known"),
        pytest.param(facts(spec={"replicas": 3}), {"replicas": 3}, id="it asks for replicas"),
        pytest.param(facts(transfer=SPARE), {"accepted": True, "replicas": 5}, id="it moves: as its group remembers"),
        pytest.param(facts(group=elsewhere()), {"group": "bank/sales"}, id="its group is in another namespace"),
        pytest.param(facts(refusal=REFUSED), {"accepted": False, "group": "sales", "replicas": 5, "buckets": 2},
                     id="it is refused where it is"),
        pytest.param(facts(refusal=REFUSED, group=None), {"accepted": False, "group": None, "groupId": None},
                     id="it is refused, and nowhere"),
        pytest.param(facts(refusal=REFUSED, view={"memory": None}), {"replicas": None}, id="nothing is remembered"),
        pytest.param(facts(refusal=REFUSED, group=replace(SALES, spec=None)), {"group": None, "groupId": None},
                     id="its group's spec is not valid"),
    ],
)  # fmt: skip
def test_what_a_status_holds(found: TableFacts, fields: dict[str, Any]) -> None:
    """The snapshot is the loaders': it is not written."""
    status = written(found)
    assert {name: status[name] for name in fields} == fields
    assert "snapshot" not in status


@pytest.mark.parametrize(("refusal", "columns"), [(None, ["k"]), (REFUSED, [])])
def test_columns_are_those_that_were_accepted(refusal: Refusal | None, columns: list[str]) -> None:
    """Of a refused spec they stay as they were."""
    assert [one["name"] for one in written(facts({"columns": ()}, refusal=refusal))["columns"] or ()] == columns


@pytest.mark.parametrize(
    ("spec", "ids"),
    [
        pytest.param({"retention": Retention(seconds=3600, snapshots=10)}, [3], id="for an hour"),
        pytest.param({"retention": Retention(seconds=7200, snapshots=10)}, [3, 2], id="for two hours"),
        pytest.param({"retention": Retention(seconds=99999, snapshots=1)}, [3], id="one"),
    ],
)
def test_what_is_retained(spec: dict[str, Any], ids: list[int]) -> None:
    """By the clock of this pass."""
    times = ("2026-11-21T11:30:00Z", "2026-11-21T10:30:00Z", "2026-11-21T09:00:00Z", "2026-11-21T08:00:00Z")
    last, *history = (snapshot(4 - number, time) for number, time in enumerate(times))
    found = written(facts({"snapshot": last, "history": tuple(history)}, spec))
    assert [one["id"] for one in found["history"]] == ids


@pytest.mark.parametrize("homeless", [(), (0,)])
def test_a_table_that_is_brought_back_gets_its_snapshot_once_it_is_whole(homeless: tuple[int, ...]) -> None:
    """Not before: its rows would be missing."""
    found = facts(of=LOST, recovery=recovery(homeless))
    events = [one for one in table_actions(found, NOW) if isinstance(one, PostEvent)]
    assert RECORD.snapshot is not None
    assert written(found).get("snapshot", "") == ("" if homeless else RECORD.snapshot.to_json_dict())
    is_posted = ("TableRecovered", "snapshot 1, 0 rows") in [(one.reason, one.message) for one in events]
    assert is_posted is not bool(homeless)


STAYS = "it stays in group sales, where reads and loads go on"
ACCEPTED = ("Accepted", "True", "Accepted", "the table is in group sales")
REFUSED_READY, NOT_ACCEPTED = (
    (kind, "False", "SchemaMismatch", "another key") for kind in ("Ready", "Accepted")
)
NO_MAP = "group sales has no map yet; `colocation show sales -n shop` shows why"
HAS_MAP = ("Ready", "True", "Reconciled", "group sales has a map")
MOVES = f"{TO_STOCK}: 3 of 4 replicas"


@pytest.mark.parametrize(
    ("found", "conditions"),
    [
        pytest.param(facts(), [HAS_MAP, ACCEPTED], id="well"),
        pytest.param(facts(group=WITHOUT_MAP), [("Ready", "False", "NoMap", NO_MAP), ACCEPTED],
                     id="its group has no map"),
        pytest.param(facts(refusal=REFUSED), [REFUSED_READY, NOT_ACCEPTED], id="refused"),
        pytest.param(facts(refusal=REFUSED, view={"is_staying": True}),
                     [("Ready", "True", "Reconciled", STAYS), NOT_ACCEPTED], id="refused elsewhere, and as good here"),
        pytest.param(facts(refusal=REFUSED, group=WITHOUT_MAP, view={"is_staying": True}),
                     [REFUSED_READY, NOT_ACCEPTED], id="but its group has no map"),
        pytest.param(facts(refusal=REFUSED, group=None, view={"is_staying": True}), [REFUSED_READY, NOT_ACCEPTED],
                     id="but no group places it"),
        pytest.param(facts(view={"fault": MISSING}),
                     [("Ready", "False", "ManifestMissing", "no node has it"),
                      ("Stalled", "True", "ManifestMissing", "no node has it"), ACCEPTED], id="no manifest"),
        pytest.param(facts(transfer=SPARE), [HAS_MAP, ACCEPTED, ("Reconciling", "True", "Moving", MOVES)], id="moving"),
        pytest.param(facts(transfer=STALLED_MOVE),
                     [HAS_MAP, ACCEPTED, ("Reconciling", "True", "InsufficientSpace", f"{MOVES}; no room"),
                      ("Stalled", "True", "InsufficientSpace", f"{MOVES}; no room")], id="it cannot move on"),
    ],
)  # fmt: skip
def test_what_the_conditions_report(found: TableFacts, conditions: list[tuple[str, str, str, str]]) -> None:
    """Each reason with its message."""
    shown = written(found)["conditions"]
    assert [(one["type"], one["status"], one["reason"], one["message"]) for one in shown] == conditions


def condition(kind: ConditionType, status: str, reason: str) -> Condition:
    return Condition.model_validate({"type": kind, "status": status, "reason": reason, "message": "before"})


IN_SALES = {"accepted": True, "group": "sales"}
TAKEN = condition(ConditionType.ACCEPTED, "True", "Accepted")
MOVING = condition(ConditionType.RECONCILING, "True", "Moving")
WAS_ACCEPTED, WAS_MOVING = {**IN_SALES, "conditions": (TAKEN,)}, {**IN_SALES, "conditions": (TAKEN, MOVING)}
WAS_REFUSED, WAS_FULL = (
    {"accepted": False, "conditions": (condition(ConditionType.ACCEPTED, "False", reason),)}
    for reason in ("SchemaMismatch", "GroupFull")
)
IS_REFUSED = ("Warning", "TableRefused", "SchemaMismatch: another key")
IS_ACCEPTED = ("Normal", "TableAccepted", "the table is in group sales")


@pytest.mark.parametrize(
    ("found", "events"),
    [
        pytest.param(facts(WAS_ACCEPTED), [], id="accepted as before"),
        pytest.param(facts({"accepted": None, "group": None}), [IS_ACCEPTED], id="accepted"),
        pytest.param(facts(WAS_REFUSED), [IS_ACCEPTED], id="accepted after all"),
        pytest.param(facts(WAS_ACCEPTED, refusal=REFUSED), [IS_REFUSED], id="refused"),
        pytest.param(facts(WAS_ACCEPTED, refusal=REFUSED, group=None), [IS_REFUSED], id="refused, and nowhere"),
        pytest.param(facts(WAS_REFUSED, refusal=REFUSED), [], id="refused as before"),
        pytest.param(facts(WAS_FULL, refusal=REFUSED), [IS_REFUSED], id="refused for another reason"),
        pytest.param(facts({**WAS_ACCEPTED, "group": "stock"}),
                     [("Normal", "TableMoved", "from group stock to group sales")], id="moved"),
        pytest.param(facts({**WAS_ACCEPTED, "group": None}), [], id="its group was not known"),
        pytest.param(facts(WAS_ACCEPTED, transfer=SPARE), [("Normal", "TableMoveStarted", MOVES)], id="it begins"),
        pytest.param(facts(WAS_MOVING, transfer=SPARE), [], id="it moves as before"),
        pytest.param(facts(WAS_MOVING, transfer=STALLED_MOVE),
                     [("Warning", "Stalled", f"InsufficientSpace: {MOVES}; no room")], id="it is stalled"),
    ],
)  # fmt: skip
def test_one_event_for_each_change(found: TableFacts, events: list[tuple[str, str, str]]) -> None:
    """Of what a user has to know."""
    posted = [one for one in table_actions(found, NOW) if isinstance(one, PostEvent)]
    assert [(one.type, one.reason, one.message) for one in posted] == events
    assert {(one.kind, one.subject) for one in posted} <= {("ColocatedTable", ORDERS.identity)}


@pytest.mark.parametrize("found", [facts(), facts(refusal=REFUSED), facts(transfer=STALLED_MOVE)])
def test_a_status_is_written_once(found: TableFacts) -> None:
    """The next pass finds nothing to write."""
    status = found.table.status.to_json_dict() | written(found)
    after = replace(found.table, status=ColocatedTableStatus.model_validate(status))
    assert list(table_actions(replace(found, view=found.view._replace(table=after)), NOW)) == []


def test_a_table_waits_for_a_group_that_is_made_from_another_one() -> None:
    """It gives no buckets, and needs not."""
    view = {"wanted": ("shop", "new"), "rivals": (VAGUE, PARENT)}
    assert list(table_actions(facts(of=VAGUE, view=view, group=None), NOW)) == []


def test_a_table_whose_group_is_made_has_no_status_yet() -> None:
    """Nothing is wrong with it."""
    assert list(table_actions(facts(group=None), NOW)) == []


def test_a_fault_leaves_the_rest_of_the_status_as_it_is() -> None:
    """It is written once, and once more when it is another one."""
    long = "x" * (MAX_SHORT_MESSAGE + 1)
    fault = Refusal(reason=Reason.INVALID_STATUS, message=long)
    accepted = condition(ConditionType.ACCEPTED, "True", "Accepted")
    before = replace(ORDERS, status=ORDERS.status.model_copy(update={"conditions": (accepted,)}))
    write, event = fault_actions(before, fault, NOW)
    assert isinstance(write, WriteTableStatus) and isinstance(event, PostEvent)
    assert set(write.status) == {"conditions"}
    assert "lastTransitionTime" in write.status["conditions"][0]  # type: ignore[index]
    shown = tuple(map(Condition.model_validate, write.status["conditions"]))  # type: ignore[call-overload]
    assert [(one.type, one.status, one.reason, one.message) for one in shown] == [
        ("Ready", "False", "InvalidStatus", long[:-1]), ("Stalled", "True", "InvalidStatus", long[:-1]),
        ("Accepted", "True", "Accepted", "before"),
    ]  # fmt: skip
    assert all(one.last_transition_time for one in shown[:2])
    assert (event.type, event.reason, event.message) == ("Warning", "Stalled", f"InvalidStatus: {long[:-1]}")
    after = replace(before, status=before.status.model_copy(update={"conditions": shown}))
    assert list(fault_actions(after, fault, NOW)) == []
    assert len(list(fault_actions(after, MISSING, NOW))) == 2


@pytest.mark.parametrize("deleting", [False, True])
def test_a_table_that_goes_gets_no_status(deleting: bool) -> None:
    """It would be refused, or be in the way of its deletion."""
    going = replace(ORDERS, identity=replace(ORDERS.identity, deleting=deleting))
    found = actions_of(decided(replace(QUIET, tables=(going,))), WriteTableStatus)
    assert bool(found) is not deleting




@pytest.mark.parametrize(
    ("tables", "made"),
    [
        pytest.param((VAGUE, PARENT, table("c", "new", buckets=8, replicas=1)), [(4, False)], id="the first one"),
        pytest.param((VAGUE,), [], id="no one gives enough"),
        pytest.param((replace(VAGUE, spec=None), PARENT), [(4, False)], id="one is wrong"),
        pytest.param((table("a", "", buckets=4, replicas=3),), [(4, True)], id="for one table"),
    ],
)  # fmt: skip
def test_a_missing_group_is_made_from_a_table(tables: tuple[ObservedTable, ...], made: list[tuple[int, bool]]) -> None:
    """Its buckets are those of the parent table; a table in no group gets one for itself."""
    found: list[CreateGroup] = list(missing_groups({("shop", "new"): tables}))
    assert [(one.spec.buckets, one.private) for one in found] == made
    assert {(one.namespace, one.name) for one in found} <= {("shop", "new")}
