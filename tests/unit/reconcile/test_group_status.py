"""What a group's status, conditions and Events hold, field by field."""

from dataclasses import replace
from typing import Any

import pytest

from colocation.model.agent import CloneProgress
from colocation.model.conditions import APPLY_KINDS, Condition, ConditionType, Reason
from colocation.model.group import (
    MAX_LISTED_UNSTABLE_BUCKETS,
    CloneCounts,
    ColocationGroupStatus,
    FailingTargetStatus,
    Proposal,
    RecycledTable,
    approved_message,
    awaiting_message,
)
from colocation.model.plan import BucketProblem, Move
from colocation.reconcile.actions import MarkGroupUnstable, PostEvent, WriteGroupStatus
from colocation.reconcile.clones import ends_of
from colocation.reconcile.group_status import (
    ETCD_RESTORED,
    MAX_SHORT_MESSAGE,
    GroupFacts,
    kinds_message,
    next_status,
    status_actions,
    status_events,
    unstable_actions,
)
from colocation.reconcile.namespace_files import FilesProblem
from colocation.reconcile.recycling import Brake, Withheld
from colocation.state.assemble import assemble
from colocation.state.objects import ObservedCloneJob

from ..state.objects import NOW, clone_job, group, seconds
from .scenes import MAP, MAP_VERSION, NODES, POLICY, actions_of, decided, member_of, quiet_observation, settled_table

QUIET = quiet_observation("orders")
ORDERS, LINES = settled_table("orders"), settled_table("lines")
OTHER_MAP = (("node-1", "node-3"), ("node-2", "node-3"))


def facts(
    status: dict[str, Any] | None = None,
    plan: dict[str, Any] | None = None,
    state: dict[str, Any] | None = None,
    jobs: tuple[ObservedCloneJob, ...] = (),
    **changes: Any,
) -> GroupFacts:
    """Of a quiet group, but for these fields of its status, plan and state."""
    [known] = QUIET.groups
    known = replace(known, status=known.status.model_copy(update=status or {}))
    decision = decided(QUIET)
    [found], [planned] = decision.snapshot.groups, decision.plan.groups
    [view] = assemble(replace(QUIET, groups=(known,))).groups.values()
    made = GroupFacts(
        view=replace(view, jobs=jobs),
        state=found.model_copy(update=state or {}),
        plan=planned.model_copy(update=plan or {}),
        members=known.status.members,
        recycled=(),
        delete_after=None,
        ends=ends_of(jobs, NOW, POLICY.limits),
        progress={},
        failing_targets=(),
        disks=(),
        ready=frozenset(NODES),
        withheld=None,
        files_problem=None,
        lost_fields=(),
        etcd_restored=False,
    )
    return replace(made, **changes)


def condition(status: ColocationGroupStatus, kind: ConditionType) -> tuple[str, str, str]:
    [found] = [one for one in status.conditions if one.type == kind]
    return found.status, found.reason, found.message


STAYING, LEAVING = (member_of(ORDERS).model_copy(update={"leaving": leaving}) for leaving in (False, True))


@pytest.mark.parametrize(
    ("found", "rows", "version"),
    [
        pytest.param(facts(), MAP, MAP_VERSION, id="nothing changes"),
        pytest.param(facts(plan={"next_map": OTHER_MAP}), OTHER_MAP, MAP_VERSION + 1, id="a new map"),
        pytest.param(facts({"backends_per_bucket_seq": None, "map_version": None}), MAP, 1, id="the first map"),
        pytest.param(facts({"backends_per_bucket_seq": None, "map_version": None}, state={"map": None}), None, None,
                     id="no map"),
        pytest.param(facts({"backends_per_bucket_seq": None, "map_version": None}, state={"map": ((), ())}), None, None,
                     id="a map without nodes"),
        pytest.param(facts(plan={"next_map": (MAP[0], ())}), (MAP[0], ()), MAP_VERSION + 1, id="a bucket has no node"),
        pytest.param(facts(members=(LEAVING,)), MAP, MAP_VERSION + 1, id="a table begins to leave"),
        pytest.param(facts(members=(LEAVING, member_of(LINES))), MAP, MAP_VERSION + 1, id="another one stays"),
        pytest.param(facts({"backends_per_bucket_seq": None, "map_version": None}, state={"map": None},
                           members=(LEAVING,)), None, None, id="a table leaves a group without a map"),
        pytest.param(facts({"members": (LEAVING,)}), MAP, MAP_VERSION, id="a table is leaving"),
        pytest.param(facts({"members": (LEAVING,)}, members=(STAYING,)), MAP, MAP_VERSION, id="it stays after all"),
    ],
)  # fmt: skip
def test_the_version_of_a_map_grows_with_each_change(found: GroupFacts, rows: object, version: int | None) -> None:
    """Deletions that were decided before a change are void after it; also when a table leaves."""
    status = next_status(found, NOW)
    assert (status.backends_per_bucket_seq, status.map_version) == (rows, version)
    nodes = sorted({name for row in found.map or () for name in row})
    assert (list(status.nodes), status.node_count) == (nodes, len(nodes))


def test_a_group_is_described() -> None:
    """As Doris' SHOW PROC shows it."""
    status = next_status(facts({"group_id": "before"}), NOW)
    assert (status.observed_generation, status.dist_cols, status.tables, status.table_count) == (
        1, "bigint", ("orders",), 1,
    )  # fmt: skip
    assert status.group_id == f"12345678.{0xdeadbeef}"
    unknown = facts({"group_id": "before"})
    unknown = replace(unknown, view=replace(unknown.view, namespace_uid=None))
    assert next_status(unknown, NOW).group_id == "before"


@pytest.mark.parametrize(
    ("bucket", "changes", "replicas"),
    [
        pytest.param(0, {}, {"node-1": "complete", "node-2": "complete"}, id="complete"),
        pytest.param(0, {"state": {"held": {"node-1": {0: "partial", 1: "complete"}}}},
                     {"node-1": "partial", "node-2": "missing"}, id="a part, and nothing"),
        pytest.param(0, {"state": {"held": {}, "bucket_bytes": (0, 50)}},
                     {"node-1": "complete", "node-2": "complete"}, id="a bucket without files"),
        pytest.param(0, {"state": {"held": {}, "unconfirmed": {"node-2": (0,)}}},
                     {"node-1": "missing", "node-2": "complete"}, id="its agent has yet to report"),
        pytest.param(0, {"ready": frozenset({"node-2", "node-3"})}, {"node-1": "down", "node-2": "complete"},
                     id="a node is down"),
        pytest.param(1, {}, {"node-2": "complete", "node-3": "complete"}, id="another bucket"),
        pytest.param(2, {}, {}, id="no bucket of the map"),
        pytest.param(0, {"state": {"map": None}}, {}, id="no map"),
    ],
)  # fmt: skip
def test_what_each_node_holds_of_an_unstable_bucket(
    bucket: int, changes: dict[str, Any], replicas: dict[str, str]
) -> None:
    """By the map of before this pass."""
    problem = BucketProblem(bucket=bucket, reason="NodeGone", message="node is gone", since="2026-11-21T00:00:00Z")
    [found] = next_status(facts(plan={"unstable_buckets": (problem,)}, **changes), NOW).unstable_buckets
    assert found.replicas == replicas
    assert (found.bucket, found.reason, found.message, found.since) == tuple(problem.model_dump().values())


def test_the_first_unstable_buckets_are_listed_and_all_are_counted() -> None:
    """The status has to be short."""
    many = tuple(BucketProblem(bucket=number, reason="NodeGone") for number in range(25))
    status = next_status(facts(plan={"unstable_buckets": many}), NOW)
    assert [one.bucket for one in status.unstable_buckets] == list(range(MAX_LISTED_UNSTABLE_BUCKETS))
    assert status.unstable_bucket_count == 25


def job(number: int, phase: str, target: str = "node-3", bucket: int = 0) -> ObservedCloneJob:
    made = replace(clone_job(phase, finished_at=NOW - seconds(number)), bucket=bucket, target=target)
    return replace(made, identity=replace(made.identity, uid=f"job-{number}"))


def move(bucket: int, to: str, size: int = 50) -> Move:
    return Move.model_validate({
        "bucket": bucket, "from": None, "to": to, "kind": "repair", "reason": "NodeGone", "bytes": size,
    })  # fmt: skip


def progress(done: int, total: int) -> CloneProgress:
    return CloneProgress(
        namespace="shop", group="sales", bucket=0, bytes_done=done, bytes_total=total, updated_at="1970-01-01T00:00:00Z"
    )


def test_each_clone_is_counted_once() -> None:
    """Also by an operator that has just started; what runs is not waited for any more."""
    jobs = (
        job(9, "succeeded"), job(8, "succeeded"), job(7, "failed"), job(6, "failed"), job(5, "failed"),
        job(4, "running"), job(3, "pending", "node-1", 1),
    )  # fmt: skip
    before = CloneCounts(succeeded=5, failed=3, counted=("gone", "job-5", "job-9"))
    begun = (move(0, "node-3"), move(1, "node-1"))
    moves = (*begun, move(1, "node-3"), move(0, "node-1"), move(1, "node-2", 0), move(0, "a", 1))
    known = {"job-4": progress(3, 10), "job-3": progress(36, 90), "job-5": progress(7, 7)}
    found = next_status(facts({"clones": before}, {"moves": moves}, jobs=jobs, progress=known), NOW)
    assert found.clones == CloneCounts(
        pending=3, running=2, succeeded=6, failed=5, bytes_total=100, bytes_done=30,
        counted=("job-5", "job-6", "job-7", "job-8", "job-9"),
    )  # fmt: skip
    first = next_status(facts({"clones": None}, jobs=jobs[:1]), NOW)
    assert first.clones == CloneCounts(succeeded=1, counted=("job-9",))


@pytest.mark.parametrize(
    ("done", "total", "shown"), [(0, 0, 0), (9, 100, 0), (10, 100, 10), (99, 100, 90), (100, 100, 100), (200, 100, 100),
                                 (5, 7, 4), (1, 1, 1)],
)  # fmt: skip
def test_progress_is_shown_in_tenths(done: int, total: int, shown: int) -> None:
    """The whole status is written for each other value."""
    found = next_status(facts(jobs=(job(1, "running"),), progress={"job-1": progress(done, total)}), NOW).clones
    assert found and (found.bytes_done, found.bytes_total) == (shown, total)


PROPOSAL = Proposal(id="0a1b", made_at="2026-11-21T00:00:00Z", reason="Uneven", replicas=2, bytes=7)
STOPS = BucketProblem(bucket=0, reason="TargetFailing", message="clones fail")
WITHHELD = Withheld(Brake(12, 24, 0, 0), 1, ("shop/lost-0",))
NO_CLAIM = FilesProblem(Reason.DATA_CLAIM_TAKEN, "the claim is another's")
IN_THE_WAY: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
    ({"etcd_restored": True}, ("True", "EtcdRestored", ETCD_RESTORED)),
    ({"plan": {"stalled": STOPS}}, ("True", "TargetFailing", "clones fail")),
    ({"lost_fields": ("a", "b")}, ("True", "KindsOutdated", kinds_message(("a", "b")))),
    ({"withheld": WITHHELD}, ("True", "TooManyDeletions", WITHHELD.message)),
    ({"files_problem": NO_CLAIM}, ("True", "DataClaimTaken", NO_CLAIM.message)),
    ({}, ("False", "Reconciled", "nothing is in the way")),
]


@pytest.mark.parametrize("first", range(len(IN_THE_WAY)))
def test_of_all_that_is_in_the_way_the_worst_is_reported(first: int) -> None:
    """The next one, once that is mended."""
    changes: dict[str, Any] = {}
    for change, _ in IN_THE_WAY[first:]:
        changes |= change
    assert condition(next_status(facts(**changes), NOW), ConditionType.STALLED) == IN_THE_WAY[first][1]


GOES_ON: list[tuple[dict[str, Any], dict[str, Any], tuple[str, str, str]]] = [
    ({"start_now": (0,)}, {}, ("True", "Cloning", "1 replica to make")),
    ({"blocked": (STOPS,)}, {}, ("True", "TargetFailing", "clones fail")),
    ({}, {"backends_per_bucket_seq": None}, ("True", "Placing", "the group gets its first map")),
    ({"proposal": PROPOSAL}, {}, ("False", "AwaitingApproval", awaiting_message(("shop", "sales"), PROPOSAL))),
    ({"moves": (move(0, "node-3"),)}, {}, ("True", "Waiting", "the next pass continues")),
    ({}, {}, ("False", "Reconciled", "nothing is left to do")),
]


@pytest.mark.parametrize("first", range(len(GOES_ON)))
def test_what_goes_on_is_reported(first: int) -> None:
    """Of several the first."""
    plan: dict[str, Any] = {}
    status: dict[str, Any] = {}
    for of_plan, of_status, _ in GOES_ON[first:]:
        plan |= of_plan
        status |= of_status
    assert condition(next_status(facts(status, plan), NOW), ConditionType.RECONCILING) == GOES_ON[first][2]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(facts(jobs=(job(1, "running"),)), ("True", "Cloning", "0 replicas to make"), id="a clone runs"),
        pytest.param(facts(jobs=(job(1, "failed"),)), ("False", "Reconciled", "nothing is left to do"), id="it failed"),
        pytest.param(facts(plan={"start_now": (0,), "moves": (move(0, "a"), move(1, "a"))}),
                     ("True", "Cloning", "2 replicas to make"), id="two are to be made"),
        pytest.param(facts(plan={"proposal": PROPOSAL.model_copy(update={"approved": True})}),
                     ("False", "Reconciled", "nothing is left to do"), id="an approved proposal"),
        pytest.param(facts(plan={"next_map": OTHER_MAP}), ("True", "Waiting", "the next pass continues"), id="a map"),
        pytest.param(facts(plan={"blocked": (STOPS,)}), ("True", "TargetFailing", "bucket 0: clones fail"),
                     id="a bucket of the map"),
    ],
)  # fmt: skip
def test_more_that_goes_on(found: GroupFacts, expected: tuple[str, str, str]) -> None:
    """Each alone."""
    assert condition(next_status(found, NOW), ConditionType.RECONCILING) == expected


@pytest.mark.parametrize("stable", [True, False])
def test_the_verdict_is_the_plans(stable: bool) -> None:
    """Its reason and message reach the conditions unchanged."""
    status = next_status(facts(plan={"stable": stable, "reason": "NodeGone", "message": "node-9 is gone"}), NOW)
    assert (status.stable, status.reason) == (stable, "NodeGone")
    for kind in (ConditionType.READY, ConditionType.STABLE):
        assert condition(status, kind) == (str(stable), "NodeGone", "node-9 is gone")


@pytest.mark.parametrize(("fields", "named"), [("a", "a"), ("abc", "a, b, c"), ("abcde", "a, b, c and 2 more")])
def test_lost_fields_are_named(fields: str, named: str) -> None:
    """And how to get them."""
    message = kinds_message(tuple(fields))
    assert f"do not keep {named}: nothing is deleted" in message and message.endswith(APPLY_KINDS)


# What is written


GROUP = facts().group


def reduced(action: WriteGroupStatus | MarkGroupUnstable) -> set[str]:
    return set(action.status)


@pytest.mark.parametrize(
    ("was_stable", "stable", "rows", "marks", "fields"),
    [
        pytest.param(True, True, MAP, False, set(), id="it stays stable"),
        pytest.param(True, False, MAP, True, set(), id="it is not stable any more"),
        pytest.param(None, False, MAP, True, set(), id="its first verdict"),
        pytest.param(False, False, MAP, False, set(), id="it is unstable as before"),
        pytest.param(False, True, OTHER_MAP, False, {"backendsPerBucketSeq", "mapVersion", "nodes", "nodeCount"},
                     id="a new map"),
    ],
)  # fmt: skip
def test_what_is_written_when_the_status_is_refused(
    was_stable: bool | None, stable: bool, rows: object, marks: bool, fields: set[str]
) -> None:
    """The verdict and the map; at last that it is not stable, even if others write it meanwhile."""
    known = replace(GROUP, status=GROUP.status.model_copy(update={"stable": was_stable}))
    long = "x" * (MAX_SHORT_MESSAGE + 1)
    shown = [
        Condition(type=kind, status="False", reason="One", message=long, last_transition_time="2026-11-21T00:00:00Z")
        for kind in (ConditionType.STABLE, ConditionType.STALLED)
    ]
    update = {"stable": stable, "conditions": tuple(shown), "backends_per_bucket_seq": rows, "dist_cols": "bigint"}
    status = known.status.model_copy(update=update)
    first, *_ = status_actions(known, status)
    assert isinstance(first, WriteGroupStatus) and first.status == status.to_json_dict()
    smaller, *rest = first.fallbacks
    assert isinstance(smaller, WriteGroupStatus)
    assert (len(list(status_actions(known, status))) > 1) is (was_stable is not stable), "its Events"
    assert reduced(smaller) == {"stable", "reason", "conditions", "clones", "failingTargets", *fields}
    for mark in rest:
        assert [set(one) for one in mark.status["conditions"]] == [set(one) for one in smaller.status["conditions"]]  # type: ignore[attr-defined]
    assert [reduced(one) for one in rest if isinstance(one, MarkGroupUnstable)] == (
        [{"stable", "reason", "conditions"}] * marks
    )
    [kept, stalled] = smaller.status["conditions"]  # type: ignore[misc]
    assert (kept["type"], kept["message"]) == ("Stable", long[:-1])
    assert (stalled["type"], stalled["status"], stalled["reason"]) == ("Stalled", "True", "StatusNotWritten")
    assert (stalled["lastTransitionTime"], stalled["observedGeneration"]) == ("2026-11-21T00:00:00Z", 1)


def test_a_status_that_stays_is_not_written() -> None:
    """The operator does not write for nothing."""
    assert list(status_actions(GROUP, GROUP.status)) == []


def test_a_group_that_cannot_be_decided_about_is_marked_once() -> None:
    """Again when the reason is another one, or when somebody has called it stable."""
    long = "x" * (MAX_SHORT_MESSAGE + 1)
    mark, event = unstable_actions(GROUP, Reason.INTERNAL_ERROR, long, NOW)
    assert isinstance(mark, MarkGroupUnstable) and isinstance(event, PostEvent)
    assert reduced(mark) == {"stable", "reason", "conditions"}
    assert all("lastTransitionTime" in one for one in mark.status["conditions"])  # type: ignore[attr-defined]
    shown = ColocationGroupStatus.model_validate(mark.status)
    assert (shown.stable, shown.reason) == (False, "InternalError")
    assert [(one.type, one.status, one.reason, one.message) for one in shown.conditions] == [
        (kind, status, "InternalError", long[:-1])
        for kind, status in (("Ready", "False"), ("Stable", "False"), ("Reconciling", "False"), ("Stalled", "True"))
    ]
    assert (event.type, event.reason, event.message) == ("Warning", "Stalled", f"InternalError: {long[:-1]}")
    marked = GROUP.status.model_copy(update=dict(shown))
    for update, count in (
        ({}, 0), ({"stable": True}, 1), ({"stable": None}, 1), ({"reason": "NodeGone"}, 1), ({"conditions": ()}, 2),
    ):  # fmt: skip
        again = replace(GROUP, status=marked.model_copy(update=update))
        assert len(list(unstable_actions(again, Reason.INTERNAL_ERROR, long, NOW))) == count


@pytest.mark.parametrize("deleting", [False, True])
def test_a_group_with_a_wrong_spec_reports_it_and_keeps_its_map(deleting: bool) -> None:
    """Nothing else is done for it."""
    [known] = QUIET.groups
    wrong = replace(known, spec=None, spec_error="spec.buckets: too many")
    wrong = replace(wrong, identity=replace(wrong.identity, generation=7, deleting=deleting))
    written = actions_of(decided(replace(QUIET, groups=(wrong,))), WriteGroupStatus)
    assert len(written) == (not deleting)
    for one in written:
        status = ColocationGroupStatus.model_validate(one.status)
        assert (status.stable, status.reason, status.observed_generation) == (False, "InvalidSpec", 7)
        assert (status.backends_per_bucket_seq, status.map_version) == (MAP, MAP_VERSION)
        message = "spec.buckets: too many; correct the spec"
        assert condition(status, ConditionType.STALLED) == ("True", "InvalidSpec", message)
        assert condition(status, ConditionType.READY) == ("False", "InvalidSpec", message)


def test_a_group_that_waits_for_files_of_tables_that_are_made_again() -> None:
    """It has no map yet, and nothing is in its way."""
    made = group(status=ColocationGroupStatus(stable=True))
    adopting = replace(ORDERS, status=ORDERS.status.model_copy(update={"snapshot": None}), adopts="0a1b2c3d")
    decision = decided(replace(QUIET, groups=(made,), tables=(adopting,)))
    [one] = actions_of(decision, WriteGroupStatus)
    status = ColocationGroupStatus.model_validate(one.status)
    assert (status.stable, status.reason, status.observed_generation) == (False, "Recovering", 1)
    assert [(one.type, one.status, one.reason) for one in status.conditions] == [
        ("Ready", "False", "Recovering"), ("Stable", "False", "Recovering"), ("Reconciling", "True", "Recovering"),
        ("Stalled", "False", "Reconciled"),
    ]  # fmt: skip


# Events


def failing(failures: int) -> dict[str, Any]:
    target = FailingTargetStatus(node="node-3", failures=failures, retry_at="2026-11-21T12:01:00Z", message="disk full")
    return {"failing_targets": (target,)}


def dropped(*recovery_uids: str, name: str = "orders", uid: str = "old") -> RecycledTable:
    times = {"deleted_at": "2026-11-21T12:00:00Z", "purge_at": "2026-11-22T12:00:00Z"}
    return RecycledTable(namespace="shop", name=name, uid=uid, recovery_uids=recovery_uids, **times)


def loaded(uid: str) -> dict[str, Any]:
    return {"members": (member_of(ORDERS).model_copy(update={"uid": uid}),)}


EMPTY = member_of(ORDERS).model_copy(update={"uid": "new", "snapshot": None})
UNSTABLE = (Condition(type=ConditionType.STABLE, status="False", reason="NodeGone", message="node-9 is gone"),)
STALLED = tuple(
    (Condition(type=ConditionType.STALLED, status=status, reason=reason, message="why"),)
    for status, reason in (("True", "One"), ("True", "Two"), ("False", "Reconciled"))
)
READY = (Condition(type=ConditionType.READY, status="True", reason="Reconciled", message="well"),)
APPROVED = PROPOSAL.model_copy(update={"approved": True})
BACK = ("Normal", "TableRecovered", "table shop/orders is back from the recycle bin")
PURGED = ("Normal", "TablePurged", "table shop/orders, dropped at 2026-11-21T12:00:00Z, is purged")
TWENTY = ", ".join(map(str, range(20)))
AWAITS = ("Normal", "AwaitingApproval", awaiting_message(("shop", "sales"), PROPOSAL))
RETRY_AT, PURGE_AT = "2026-11-21T12:01:00Z", "2026-11-22T12:00:00Z"
FAILS = f"clones in a row to node node-3 failed, the last one because disk full; it takes none before {RETRY_AT}"


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"stable": True}, {"stable": False, "reason": "NodeGone", "conditions": (*STALLED[2], *UNSTABLE)},
                     [("Warning", "Unstable", "NodeGone: node-9 is gone")], id="it becomes unstable"),
        pytest.param({"stable": False, "reason": "One"}, {"reason": "NodeGone", "conditions": UNSTABLE},
                     [("Warning", "Unstable", "NodeGone: node-9 is gone")], id="for another reason"),
        pytest.param({"stable": False}, {"stable": True, "reason": "Complete"}, [("Normal", "Stable", "Complete: ")],
                     id="it becomes stable"),
        pytest.param({}, {"backends_per_bucket_seq": MAP, "map_version": 1, "nodes": NODES},
                     [("Normal", "MapCreated", "version 1: 2 buckets on 3 nodes")], id="its first map"),
        pytest.param({"backends_per_bucket_seq": MAP},
                     {"backends_per_bucket_seq": (MAP[0][::-1], ("node-1", "node-3")), "map_version": 4},
                     [("Normal", "MapChanged", "version 4: buckets 1 moved")], id="its map changes"),
        pytest.param({"backends_per_bucket_seq": MAP[:1]}, {"backends_per_bucket_seq": MAP, "map_version": 4},
                     [("Normal", "MapChanged", "version 4: buckets 1 moved")], id="its map grows"),
        pytest.param({"backends_per_bucket_seq": (("a",),) * 25},
                     {"backends_per_bucket_seq": (("b",),) * 25, "map_version": 4},
                     [("Normal", "MapChanged", f"version 4: buckets {TWENTY} moved")], id="all of it changes"),
        pytest.param({"backends_per_bucket_seq": MAP}, {"backends_per_bucket_seq": None}, [], id="its map goes"),
        pytest.param({"backends_per_bucket_seq": MAP}, {"backends_per_bucket_seq": MAP}, [], id="its map stays"),
        pytest.param({"conditions": STALLED[0]}, {"conditions": STALLED[0]}, [], id="it is stalled as before"),
        pytest.param({"conditions": STALLED[0]}, {"conditions": STALLED[1]}, [("Warning", "Stalled", "Two: why")],
                     id="it is stalled by something else"),
        pytest.param({"conditions": STALLED[2]}, {"conditions": STALLED[0]}, [("Warning", "Stalled", "One: why")],
                     id="it becomes stalled"),
        pytest.param({"conditions": STALLED[0]}, {"conditions": STALLED[2]}, [], id="it goes on"),
        pytest.param({}, {"conditions": UNSTABLE}, [], id="another condition"),
        pytest.param({"conditions": (*READY, *STALLED[0])}, {"conditions": (*READY, *STALLED[0])}, [], id="as before"),
        pytest.param({}, {"conditions": (*READY, *STALLED[2])}, [], id="one that is true"),
        pytest.param({}, {"proposal": PROPOSAL}, [AWAITS], id="a proposal"),
        pytest.param({"proposal": PROPOSAL}, {"proposal": PROPOSAL.model_copy(update={"bytes": 9})}, [], id="the same"),
        pytest.param({"proposal": PROPOSAL}, {"proposal": None}, [], id="it is over"),
        pytest.param({"proposal": PROPOSAL}, {"proposal": APPROVED},
                     [("Normal", "ProposalApproved", approved_message(APPROVED))], id="it is approved"),
        pytest.param({"proposal": PROPOSAL.model_copy(update={"id": "other"})}, {"proposal": PROPOSAL}, [AWAITS],
                     id="another proposal"),
        pytest.param(failing(1), failing(2), [], id="a clone fails again"),
        pytest.param({}, failing(3), [("Warning", "TargetFailing", f"3 {FAILS}")], id="a node is left out"),
        pytest.param(failing(3), failing(3), [], id="it is left out"),
        pytest.param(failing(3), failing(4), [("Warning", "TargetFailing", f"4 {FAILS}")], id="for longer"),
        pytest.param({"recycled": (dropped(),)}, {"recycled": (dropped(), dropped(uid="b", name="lines"))},
                     [("Normal", "TableDropped", f"table shop/lines waits in the recycle bin until {PURGE_AT}")],
                     id="a table is dropped"),
        pytest.param({"recycled": (dropped(),)}, {}, [PURGED], id="a table is purged"),
        pytest.param({"recycled": (dropped(),)}, loaded("other"), [PURGED], id="while another one is there"),
        pytest.param({"recycled": (dropped("new"),)}, loaded("new"), [BACK], id="a table is made again"),
        pytest.param({"recycled": (dropped("new"),)}, {"members": (EMPTY,)}, [PURGED], id="and did not get its files"),
        pytest.param({"recycled": (dropped(),)}, loaded("old"), [BACK], id="a table was not dropped after all"),
        pytest.param({"recycled": (dropped(uid="b"), dropped(name="lines", uid="a"))}, {},
                     [(*PURGED[:2], PURGED[2].replace("orders", "lines")), PURGED], id="several, in order"),
    ],
)  # fmt: skip
def test_one_event_for_each_change(
    before: dict[str, Any], after: dict[str, Any], events: list[tuple[str, str, str]]
) -> None:
    """With what a user has to know of it."""
    known = replace(GROUP, status=ColocationGroupStatus().model_copy(update=before))
    status = known.status.model_copy(update={"recycled": (), **after})
    found = list(status_events(known, status))
    assert [(one.type, one.reason, one.message) for one in found] == events
    assert {(one.kind, one.subject) for one in found} <= {("ColocationGroup", GROUP.identity)}
