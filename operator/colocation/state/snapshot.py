"""Observation -> Snapshot: pure, so that what the planner sees can be tested without a cluster."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from ..model.agent import ReplicaState
from ..model.conditions import ConditionType, Reason
from ..model.group import BucketSequence, ColocationGroupSpec
from ..model.names import LABEL_DRAIN, LABEL_ZONE
from ..model.snapshot import GroupState, Limits, Node, Snapshot
from .agent_view import AgentView
from .clone_jobs import clones_of, transfer_clones
from .confirmation import doubtful_nodes, unconfirmed_replicas
from .containment import Containment, group_scope
from .disks import KnownDisks, disk_fault, known_disks
from .failing_targets import failing_targets_of
from .held import TableReports, held_of_group, said_of
from .index import TableIndex
from .objects import ObservedGroup, ObservedNode, ObservedTable
from .observation import Observation
from .parse import parse_time
from .weights import settled_weights, weight_of

ADOPTION_GRACE = timedelta(minutes=10)


def snapshot_of(
    index: TableIndex,
    reports: TableReports,
    limits: Limits,
    agent_grace_seconds: float,
    containment: Containment | None = None,
) -> Snapshot:
    """What the planner decides from.

    Groups that are being deleted, or whose spec or status is not valid, are left out: nothing is done for them.
    ``agent_grace_seconds``: an agent that is silent for less still counts as ready (it restarts).
    ``containment``: keeps what is wrong with one group or node from the others.
    """
    containment = containment or Containment()
    observation = index.observation
    states: list[GroupState] = []
    for group in observation.groups:
        if group.spec is not None and not group.identity.deleting and not group.status_error:
            if awaits_files(index, group):
                continue  # its map follows the files
            state = containment.run(group_scope(group), partial(_group_state, index, reports, group, group.spec))
            states += [state] if state else []
    groups = tuple(states)
    names = {agent.node for agent in observation.agents}
    for group_state in groups:
        names.update(group_state.held, *(group_state.map or ()))
    grace = timedelta(seconds=agent_grace_seconds)
    disks = known_disks(observation)
    nodes = settled_weights(
        _contained_node(observation, node, grace, disks, containment)
        for node in observation.nodes
        if node.name in names
    )
    clones = (*clones_of(observation, groups), *transfer_clones(observation))
    return Snapshot(now=observation.now, limits=limits, nodes=nodes, groups=groups, clones=clones)


def awaits_files(index: TableIndex, group: ObservedGroup) -> bool:
    """Whether the group has no map yet, and tables that are made again bring files that it should follow.

    For a while only: a table whose files do not come must not keep the others from being placed.
    """
    if group.status.backends_per_bucket_seq is not None:
        return False
    return any(_is_adopting(index.observation, table) for table in index.adopting(group.key))


def _is_adopting(observation: Observation, table: ObservedTable) -> bool:
    """Whether the table waits for its snapshot, or for agents to report what they hold of it."""
    if observation.now - table.identity.created_at >= ADOPTION_GRACE:
        return False
    return table.status.snapshot is None or any(observation.unheard(table))


def _group_state(
    index: TableIndex, reports: TableReports, group: ObservedGroup, spec: ColocationGroupSpec
) -> GroupState:
    observation, membership, rows = index.observation, index.membership, group.status.backends_per_bucket_seq
    placed, arriving = membership.members[group.key], membership.arriving.get(group.key, ())
    if (arriving or placed) and index.leaving.issuperset(table.identity.uid for table in placed):
        # All that it places is leaving, or it is empty and tables come to where its map is now: moves would be in vain.
        spec = spec.model_copy(update={"balancing": spec.balancing.model_copy(update={"enabled": False})})
    tables = index.sound(placed)
    if rows is None:
        # Made anew, or for tables that lie somewhere already: it begins with the nodes that hold them.
        lying = held_of_group(observation, reports, (*tables, *index.sound(arriving)), spec.buckets, None)
        rows = recovered_map(lying.held, spec.buckets, spec.replicas)
    doubtful = doubtful_nodes(observation, reports, tables, rows)
    holdings = index.memo.of(
        ("holdings", group.key),
        (rows, spec.buckets, doubtful, *said_of(observation, reports, tables)),
        lambda: held_of_group(observation, reports, tables, spec.buckets, rows, doubtful),
    )
    unconfirmed = unconfirmed_replicas(group.status, holdings.pending)
    unstable_since = _unstable_since(group, spec.buckets, observation.now)
    failing_targets = failing_targets_of(group.status.failing_targets, observation.now)
    return index.memo.of(
        ("group state", group.key),
        (
            *(spec, rows, holdings, unconfirmed, failing_targets, unstable_since, group.marked_unstable),
            *(group.status.proposal, group.approved_proposal),
        ),
        lambda: GroupState(
            namespace=group.identity.namespace,
            name=group.identity.name,
            spec=spec,
            map=rows,
            bucket_bytes=holdings.bucket_bytes,
            held=holdings.held,
            unconfirmed=unconfirmed,
            failing_targets=failing_targets,
            unstable_since=unstable_since,
            marked_unstable=group.marked_unstable,
            proposal=group.status.proposal,
            approved_proposal=group.approved_proposal,
        ),
    )


def _unstable_since(group: ObservedGroup, buckets: int, now: datetime) -> dict[int, datetime]:
    """From the status, so that a restarted operator goes on counting.

    The status lists the first unstable buckets only; the others are unstable since the group is, at the earliest.
    """
    status = group.status
    since: dict[int, datetime] = {}
    if (status.unstable_bucket_count or 0) > len(status.unstable_buckets):
        stable = next((one for one in status.conditions if one.type == ConditionType.STABLE), None)
        time = parse_time(stable.last_transition_time) if stable else None
        since = dict.fromkeys(range(buckets), time) if time else {}
    listed = {entry.bucket: time for entry in status.unstable_buckets if (time := parse_time(entry.since))}
    return {bucket: min(moment, now) for bucket, moment in {**since, **listed}.items()}


def _contained_node(
    observation: Observation, node: ObservedNode, grace: timedelta, disks: KnownDisks, containment: Containment
) -> Node:
    """What an agent says that cannot be understood harms no other node: it counts as one that never answered."""
    view = observation.agent_views.get(node.name, AgentView())
    found = containment.run(f"node {node.name}", _node, observation, node, grace, disks, view)
    return found or _node(observation, node, grace, disks, AgentView())


def _node(
    observation: Observation, node: ObservedNode, grace: timedelta, disks: KnownDisks, view: AgentView
) -> Node:
    now = observation.now
    answers = view.answered_at is not None and (view.silent_since is None or now - view.silent_since <= grace)
    reason, message, since = None, "", None
    if not node.ready:
        reason, message, since = Reason.NODE_NOT_READY, node.not_ready_message, node.ready_changed_at
    elif not answers:
        since = view.silent_since or now
        reason, message = Reason.AGENT_NOT_READY, "it does not answer"
    fault = disk_fault(disks, node, view, now)
    has_its_disk = fault is None or fault.reason is not Reason.DISK_MISSING
    capacity_bytes = view.report.capacity_bytes if view.report and has_its_disk else 0
    if fault and fault.reason is Reason.DISK_MISSING:
        if reason is None:
            reason, message, since = fault.reason, fault.message, fault.since
        fault = None
    weight = weight_of(node.labels, capacity_bytes)
    return Node(
        name=node.name,
        zone=node.labels.get(LABEL_ZONE),
        weight=1.0 if weight is None else weight,
        is_weight_known=weight is not None,
        ready=reason is None,
        not_ready_since=min(since, now) if since else None,
        not_ready_reason=reason,
        not_ready_message=message,
        drain=node.deleting or node.labels.get(LABEL_DRAIN) == "true",
        schedulable=node.schedulable and not fault and node.name not in observation.unready_nodes,
        capacity_bytes=capacity_bytes,
        free_bytes=view.report.free_bytes if view.report else 0,
        labels=dict(node.labels),
        disk_id=view.report.disk.id if view.report and view.report.disk else "",
        disk_reason=fault.reason if fault else None,
        disk_message=fault.message if fault else "",
        disk_since=fault.since if fault else None,
    )


def recovered_map(
    held: Mapping[str, Mapping[int, ReplicaState]], buckets: int, replicas: int
) -> BucketSequence | None:
    """Per bucket up to ``replicas`` nodes that hold it complete, those with fewest buckets first.

    None when no node holds any bucket complete: then the group is placed like a new one. Buckets with fewer holders get
    fewer nodes, which the planner repairs.
    """
    counts: Counter[str] = Counter()
    rows: list[tuple[str, ...]] = []
    for bucket in range(buckets):
        holders = [node for node, states in held.items() if states.get(bucket) == "complete"]
        chosen = sorted(holders, key=lambda node: (counts[node], node))[:replicas]
        counts.update(chosen)
        rows.append(tuple(sorted(chosen)))
    return tuple(rows) if counts else None
