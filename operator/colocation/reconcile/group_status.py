"""Decides the status of a group: its conditions, and the Events of its changes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..model.agent import CloneProgress
from ..model.conditions import APPLY_KINDS, Condition, ConditionType, EventReason, Reason
from ..model.group import (
    MAX_LISTED_UNSTABLE_BUCKETS,
    BucketSequence,
    CloneCounts,
    ColocationGroupStatus,
    FailingTargetStatus,
    GroupMember,
    RecycledTable,
    RememberedDisk,
    UnstableBucket,
    approved_message,
    awaiting_message,
)
from ..model.names import GROUP_KIND
from ..model.plan import GroupPlan
from ..model.snapshot import GroupState
from ..model.wording import listed
from ..state.clone_jobs import FAILURES_BEFORE_LEFT_OUT, EndedClone
from ..state.objects import ObservedGroup
from ..state.views import GroupView
from .actions import Action, EventKind, MarkGroupUnstable, PostEvent, WriteGroupStatus
from .conditions import Verdict, conditions, stalled_event
from .members import listed_tables
from .namespace_files import FilesProblem
from .recycling import Withheld

MAX_SHORT_MESSAGE = 1024
"""Characters of a message where the status has to be short."""
PROGRESS_STEPS = 10
MAX_NAMED_FIELDS = 3
ETCD_RESTORED = (
    "etcd was restored from an older copy, so tables, commits and drops since then may be missing. Nothing is deleted "
    "until an administrator has run `colocation adopt -A`, which shows what the nodes hold, and again with --yes"
)
VERDICT_FIELDS = frozenset({"stable", "reason", "conditions"})
REDUCED_FIELDS = VERDICT_FIELDS | {"clones", "failing_targets"}
MAP_FIELDS = frozenset({"backends_per_bucket_seq", "map_version", "nodes", "node_count"})


@dataclass(frozen=True)
class GroupFacts:
    """What a pass knows of one group; its status follows from this.

    ``ends``: uid of each Job that has ended or is given up -> how that came out; those of tables that move here too.
    ``progress``: uid of a Job -> what its node reports of it. ``members``, ``recycled``, ``disks``,
    ``failing_targets``: what the group is to remember of its tables, of those that were dropped, of its nodes' disks,
    and of the nodes on which clones fail. ``ready``: nodes of its map that can be read now. ``withheld``: folders
    of its namespace that are not recycled, as they would be too many at one time. ``files_problem``: why its Spark pods
    cannot start somewhere. ``lost_fields``: of statuses, which the cluster's CRDs lack. ``etcd_restored``: see
    ``Observation``.
    """

    view: GroupView
    state: GroupState
    plan: GroupPlan
    members: tuple[GroupMember, ...]
    recycled: tuple[RecycledTable, ...]
    delete_after: str | None
    ends: Mapping[str, EndedClone]
    progress: Mapping[str, CloneProgress]
    failing_targets: tuple[FailingTargetStatus, ...]
    disks: tuple[RememberedDisk, ...]
    ready: frozenset[str]
    withheld: Withheld | None
    files_problem: FilesProblem | None
    lost_fields: tuple[str, ...]
    etcd_restored: bool

    @property
    def group(self) -> ObservedGroup:
        """The group itself."""
        return self.view.group

    @property
    def new_ends(self) -> Mapping[str, EndedClone]:
        """Ends of clones that the group's status has not counted yet."""
        return uncounted(self.group, self.ends)

    @property
    def map(self) -> BucketSequence | None:
        """The group's map after this pass; one that names no node is none."""
        following = self.plan.next_map or self.state.map
        return following if following and any(following) else None


def uncounted(group: ObservedGroup, ends: Mapping[str, EndedClone]) -> Mapping[str, EndedClone]:
    """The ends of clones that the group's status has not counted yet."""
    counted = set(group.status.clones.counted) if group.status.clones else set()
    return {uid: end for uid, end in ends.items() if uid not in counted}


def next_status(facts: GroupFacts, now: datetime) -> ColocationGroupStatus:
    """The group's status after this pass, its map included."""
    group, spec, plan, before = facts.group, facts.state.spec, facts.plan, facts.group.status
    new_map = facts.map
    changed = new_map is not None and (new_map != before.backends_per_bucket_seq or _begins_to_leave(facts))
    nodes = tuple(sorted({node for row in new_map or () for node in row}))
    unstable = tuple(
        UnstableBucket(
            bucket=one.bucket,
            reason=one.reason,
            message=one.message,
            since=one.since,
            replicas=_replicas(facts, one.bucket),
        )
        for one in plan.unstable_buckets[:MAX_LISTED_UNSTABLE_BUCKETS]
    )
    clones = _clone_counts(facts)
    return ColocationGroupStatus(
        observed_generation=group.identity.generation,
        group_id=facts.view.id or before.group_id,
        stable=plan.stable,
        reason=plan.reason,
        dist_cols=", ".join(spec.bucket_key),
        tables=listed_tables(facts.view, facts.recycled),
        table_count=len(facts.view.tables),
        nodes=nodes,
        node_count=len(nodes),
        backends_per_bucket_seq=new_map,
        map_version=(before.map_version or 0) + 1 if changed else before.map_version,
        unstable_buckets=unstable,
        unstable_bucket_count=len(plan.unstable_buckets),
        clones=clones,
        proposal=plan.proposal,
        failing_targets=facts.failing_targets,
        disks=facts.disks,
        members=facts.members,
        recycled=facts.recycled,
        delete_after=facts.delete_after,
        conditions=conditions(before.conditions, _verdicts(facts, clones), group.identity.generation, now),
    )


def _replicas(facts: GroupFacts, bucket: int) -> dict[str, str]:
    """What each node of the map holds of a bucket. One that awaits its agent's report counts as complete."""
    state = facts.state
    row = state.map[bucket] if state.map and bucket < len(state.map) else ()
    nothing = "missing" if state.bytes_of(bucket) else "complete"

    def held(node: str) -> str:
        known = state.held.get(node, {}).get(bucket, nothing)
        return "complete" if bucket in state.unconfirmed.get(node, ()) else known

    return {node: held(node) if node in facts.ready else "down" for node in row}


def _begins_to_leave(facts: GroupFacts) -> bool:
    """Whether a member is first recorded as leaving now: deletions decided before must not happen any more."""
    known = {member.uid for member in facts.group.status.members if member.leaving}
    return any(member.leaving and member.uid not in known for member in facts.members)


def invalid_status(group: ObservedGroup, now: datetime) -> ColocationGroupStatus:
    """The status of a group whose spec cannot be understood: nothing is done for it but to report that."""
    message = f"{group.spec_error}; correct the spec"
    return group.status.model_copy(
        update={
            "observed_generation": group.identity.generation,
            "stable": False,
            "reason": Reason.INVALID_SPEC.value,
            "conditions": _stopped(group, Reason.INVALID_SPEC, message, now),
        }
    )


def waiting_status(
    group: ObservedGroup, recycled: tuple[RecycledTable, ...], now: datetime
) -> ColocationGroupStatus:
    """The status of a group without a map whose tables are being recovered: the map waits for their files."""
    message = "its tables are made again from the files on the nodes, which its map will follow; wait"
    verdicts = (
        Verdict(ConditionType.READY, False, Reason.RECOVERING, message),
        Verdict(ConditionType.STABLE, False, Reason.RECOVERING, message),
        Verdict(ConditionType.RECONCILING, True, Reason.RECOVERING, message),
        Verdict(ConditionType.STALLED, False, Reason.RECONCILED, "nothing is in the way"),
    )
    generation = group.identity.generation
    return group.status.model_copy(
        update={
            "observed_generation": generation,
            "stable": False,
            "reason": Reason.RECOVERING.value,
            "recycled": recycled,
            "conditions": conditions(group.status.conditions, verdicts, generation, now),
        }
    )


def _stopped(group: ObservedGroup, reason: Reason, message: str, now: datetime) -> tuple[Condition, ...]:
    """The conditions of a group for which nothing can be done."""
    verdicts = (
        Verdict(ConditionType.READY, False, reason, message),
        Verdict(ConditionType.STABLE, False, reason, message),
        Verdict(ConditionType.RECONCILING, False, reason, message),
        Verdict(ConditionType.STALLED, True, reason, message),
    )
    return conditions(group.status.conditions, verdicts, group.identity.generation, now)


def status_actions(group: ObservedGroup, status: ColocationGroupStatus) -> Iterator[Action]:
    """At most one write of a status per group and pass, and the Events of what it changes."""
    if status != group.status:
        yield WriteGroupStatus(group.identity, status.to_json_dict(), tuple(_fallbacks(group, status)))
        yield from status_events(group, status)


def _fallbacks(group: ObservedGroup, status: ColocationGroupStatus) -> Iterator[WriteGroupStatus | MarkGroupUnstable]:
    """Smaller statuses to write, in this order, when the status is refused, such as one that is too large for etcd.

    First the verdict and the map, from which repairs continue. Last the verdict alone, even if another client has
    changed the group meanwhile: a failed write must not leave an outdated ``Stable``.
    """
    stalled = Condition(
        type=ConditionType.STALLED,
        status="True",
        reason=Reason.STATUS_NOT_WRITTEN,
        message="the API server refuses the group's status: it may be too large; see the operator's log",
        last_transition_time=next((one.last_transition_time for one in status.conditions), None),
        observed_generation=group.identity.generation,
    )
    kept = (_shortened(one) for one in status.conditions if one.type != ConditionType.STALLED)
    shown = status.model_copy(update={"conditions": (*kept, stalled)})
    fields = REDUCED_FIELDS
    if status.backends_per_bucket_seq != group.status.backends_per_bucket_seq:
        fields = REDUCED_FIELDS | MAP_FIELDS
    yield WriteGroupStatus(group.identity, shown.model_dump(mode="json", by_alias=True, include=set(fields)))
    if not status.stable and group.status.stable is not False:
        verdict = shown.model_dump(mode="json", by_alias=True, include=set(VERDICT_FIELDS))
        yield MarkGroupUnstable(group.identity, verdict)


def _shortened(condition: Condition) -> Condition:
    return condition.model_copy(update={"message": condition.message[:MAX_SHORT_MESSAGE]})


def unstable_actions(group: ObservedGroup, reason: Reason, message: str, now: datetime) -> Iterator[Action]:
    """Say that the group is not stable and that nothing goes on, and leave the rest of its status as it is."""
    before, after = group.status, _stopped(group, reason, message[:MAX_SHORT_MESSAGE], now)
    if before.stable is not False or before.reason != reason or before.conditions != after:
        shown = ColocationGroupStatus(stable=False, reason=reason, conditions=after)
        verdict = shown.model_dump(mode="json", by_alias=True, include=set(VERDICT_FIELDS))
        yield MarkGroupUnstable(group.identity, verdict)
        yield from stalled_event(GROUP_KIND, group.identity, before.conditions, after)


def _verdicts(facts: GroupFacts, clones: CloneCounts) -> Iterable[Verdict]:
    plan = facts.plan
    yield Verdict(ConditionType.READY, plan.stable, plan.reason, plan.message)
    yield Verdict(ConditionType.STABLE, plan.stable, plan.reason, plan.message)
    yield _reconciling(facts, clones)
    if facts.etcd_restored:
        yield Verdict(ConditionType.STALLED, True, Reason.ETCD_RESTORED, ETCD_RESTORED)
    elif plan.stalled:
        yield Verdict(ConditionType.STALLED, True, plan.stalled.reason, plan.stalled.message)
    elif facts.lost_fields:
        yield Verdict(ConditionType.STALLED, True, Reason.KINDS_OUTDATED, kinds_message(facts.lost_fields))
    elif facts.withheld:
        yield Verdict(ConditionType.STALLED, True, Reason.TOO_MANY_DELETIONS, facts.withheld.message)
    elif facts.files_problem:
        yield Verdict(ConditionType.STALLED, True, facts.files_problem.reason, facts.files_problem.message)
    else:
        yield Verdict(ConditionType.STALLED, False, Reason.RECONCILED, "nothing is in the way")


def kinds_message(lost_fields: tuple[str, ...]) -> str:
    """What it means that CRDs lack fields of statuses, and what to do."""
    named = listed(lost_fields, MAX_NAMED_FIELDS)
    return (
        f"the cluster's CRDs are older than the operator and do not keep {named}: nothing is deleted from disks. "
        f"Apply this release's: {APPLY_KINDS}"
    )


def _reconciling(facts: GroupFacts, clones: CloneCounts) -> Verdict:
    plan, has_map = facts.plan, facts.group.status.backends_per_bucket_seq is not None
    if clones.running or plan.start_now:
        left = f"{len(plan.moves)} replica{'' if len(plan.moves) == 1 else 's'} to make"
        return Verdict(ConditionType.RECONCILING, True, Reason.CLONING, left)
    if plan.blocked:
        first = plan.blocked[0]
        where = f"bucket {first.bucket}: " if has_map else ""  # of a group without a map it concerns all
        return Verdict(ConditionType.RECONCILING, True, first.reason, f"{where}{first.message}")
    if not has_map:
        return Verdict(ConditionType.RECONCILING, True, Reason.PLACING, "the group gets its first map")
    if plan.proposal and not plan.proposal.approved:
        message = awaiting_message((plan.namespace, plan.name), plan.proposal)
        return Verdict(ConditionType.RECONCILING, False, Reason.AWAITING_APPROVAL, message)
    if plan.moves or plan.next_map:
        return Verdict(ConditionType.RECONCILING, True, Reason.WAITING, "the next pass continues")
    return Verdict(ConditionType.RECONCILING, False, Reason.RECONCILED, "nothing is left to do")


def _clone_counts(facts: GroupFacts) -> CloneCounts:
    before = facts.group.status.clones or CloneCounts()
    running = [job for job in facts.view.jobs if job.identity.uid not in facts.ends]
    new = [end for job in facts.view.jobs if (end := facts.new_ends.get(job.identity.uid))]
    progress = [one for job in running if (one := facts.progress.get(job.identity.uid))]
    bytes_total = sum(one.bytes_total for one in progress)
    under_way = {(job.bucket, job.target) for job in running}
    return CloneCounts(
        pending=sum(move.bytes > 0 and (move.bucket, move.to) not in under_way for move in facts.plan.moves),
        running=len(running),
        succeeded=before.succeeded + sum(end.cause is None for end in new),
        failed=before.failed + sum(end.cause is not None for end in new),
        bytes_total=bytes_total,
        bytes_done=_in_steps(sum(one.bytes_done for one in progress), bytes_total),
        counted=tuple(sorted(facts.ends)),
    )


def _in_steps(bytes_done: int, bytes_total: int) -> int:
    """A number rounded down to tenths of the total, since each change of it writes the whole status with its map.

    Metrics and the snapshot of the operator have the exact numbers.
    """
    steps = PROGRESS_STEPS * min(bytes_done, bytes_total) // max(bytes_total, 1)
    return steps * bytes_total // PROGRESS_STEPS


def status_events(group: ObservedGroup, after: ColocationGroupStatus) -> Iterator[PostEvent]:
    """One Event per change of state."""
    before = group.status
    if (before.stable, before.reason) != (after.stable, after.reason):
        stable = next((one for one in after.conditions if one.type == ConditionType.STABLE), None)
        message = f"{after.reason}: {stable.message if stable else ''}"
        kind: EventKind = "Normal" if after.stable else "Warning"
        yield _event(group, kind, EventReason.STABLE if after.stable else EventReason.UNSTABLE, message)
    if before.backends_per_bucket_seq != after.backends_per_bucket_seq and after.backends_per_bucket_seq is not None:
        reason = EventReason.MAP_CHANGED if before.backends_per_bucket_seq else EventReason.MAP_CREATED
        yield _event(group, "Normal", reason, _map_change(before, after))
    yield from stalled_event(GROUP_KIND, group.identity, before.conditions, after.conditions)
    yield from _proposal_events(before, group, after)
    yield from _failing_events(before, group, after)
    yield from _recycled_events(group, after)


def _proposal_events(
    before: ColocationGroupStatus, group: ObservedGroup, after: ColocationGroupStatus
) -> Iterator[PostEvent]:
    proposal, known = after.proposal, before.proposal
    if proposal is None or (known is not None and (known.id, known.approved) == (proposal.id, proposal.approved)):
        return
    if proposal.approved:
        yield _event(group, "Normal", EventReason.PROPOSAL_APPROVED, approved_message(proposal))
    else:
        message = awaiting_message(group.key, proposal)
        yield _event(group, "Normal", EventReason.AWAITING_APPROVAL, message)


def _failing_events(
    before: ColocationGroupStatus, group: ObservedGroup, after: ColocationGroupStatus
) -> Iterator[PostEvent]:
    known = {one.node: one.failures for one in before.failing_targets}
    for one in after.failing_targets:
        if one.failures >= FAILURES_BEFORE_LEFT_OUT and one.failures > known.get(one.node, 0):
            message = (
                f"{one.failures} clones in a row to node {one.node} failed, the last one because {one.message}; "
                f"it takes none before {one.retry_at}"
            )
            yield _event(group, "Warning", EventReason.TARGET_FAILING, message)


def _recycled_events(group: ObservedGroup, after: ColocationGroupStatus) -> Iterator[PostEvent]:
    before = {record.uid: record for record in group.status.recycled}
    for record in after.recycled:
        if record.uid not in before:
            message = f"table {record.namespace}/{record.name} waits in the recycle bin until {record.purge_at}"
            yield _event(group, "Normal", EventReason.TABLE_DROPPED, message)
    gone = before.keys() - {record.uid for record in after.recycled}
    loaded = {member.uid for member in after.members if member.snapshot}
    for uid in sorted(gone):
        record = before[uid]
        if uid in loaded or not loaded.isdisjoint(record.recovery_uids):
            message = f"table {record.namespace}/{record.name} is back from the recycle bin"
            yield _event(group, "Normal", EventReason.TABLE_RECOVERED, message)
        else:
            message = f"table {record.namespace}/{record.name}, dropped at {record.deleted_at}, is purged"
            yield _event(group, "Normal", EventReason.TABLE_PURGED, message)


def _map_change(before: ColocationGroupStatus, after: ColocationGroupStatus) -> str:
    rows = after.backends_per_bucket_seq or ()
    old = before.backends_per_bucket_seq or ()
    changed = [bucket for bucket, row in enumerate(rows) if bucket >= len(old) or set(old[bucket]) != set(row)]
    if not old:
        return f"version {after.map_version}: {len(rows)} buckets on {len(after.nodes)} nodes"
    return f"version {after.map_version}: buckets {', '.join(map(str, changed[:MAX_LISTED_UNSTABLE_BUCKETS]))} moved"


def _event(group: ObservedGroup, kind: EventKind, reason: EventReason, message: str) -> PostEvent:
    return PostEvent(GROUP_KIND, group.identity, kind, reason, message)
