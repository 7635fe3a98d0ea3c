"""Observation -> Snapshot: pure, so that what the planner sees can be tested without a cluster."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from ..model.agent import ReplicaState
from ..model.conditions import ConditionType
from ..model.group import BucketSequence, ColocationGroupSpec, Proposal
from ..model.snapshot import FailingTarget, GroupState, Limits, Snapshot
from .clone_jobs import clones_of, transfer_clones
from .confirmation import doubtful_nodes, unconfirmed_replicas, unheard
from .held import GroupFiles, Holdings, TableFiles, holdings
from .memo import Memo
from .nodes import planner_nodes
from .objects import ObservedGroup, ObservedTable
from .observation import Observation
from .parse import parse_time
from .placement import GroupKey
from .views import ClusterView, GroupView, TableView

ADOPTION_GRACE = timedelta(minutes=10)


def snapshot_of(
    cluster: ClusterView,
    limits: Limits,
    agent_grace_seconds: float,
    memo: Memo | None = None,
    errors: dict[str, Exception] | None = None,
) -> Snapshot:
    """What the planner decides from.

    Groups that are being deleted, or whose spec or status is not valid, are left out: nothing is done for them.
    ``agent_grace_seconds``: an agent that is silent for less still counts as ready (it restarts).
    ``errors``: takes what a single group or node provokes, by its scope; the others go on.
    """
    memo, errors = memo or Memo(), {} if errors is None else errors
    observation = cluster.observation
    states: list[GroupState] = []
    for view in cluster.groups.values():
        group = view.group
        if group.spec is not None and not group.identity.deleting and not group.status_error:
            if awaits_files(view, observation):
                continue  # its map follows the files
            try:
                states.append(_group_state(view, observation, memo))
            except Exception as error:  # noqa: BLE001 - whatever one object provokes must not reach the others
                errors.setdefault(group.scope, error)
    groups = tuple(states)
    names = {agent.node for agent in observation.agents}
    for group_state in groups:
        names.update(group_state.held, *(group_state.map or ()))
    nodes = planner_nodes(observation, names, timedelta(seconds=agent_grace_seconds), errors)
    clones = (*clones_of(observation, groups), *transfer_clones(cluster))
    return Snapshot(now=observation.now, limits=limits, nodes=nodes, groups=groups, clones=clones)


def awaits_files(view: GroupView, agents: Observation) -> bool:
    """Whether the group has no map yet, and tables that are made again bring files that it should follow.

    For a while only: a table whose files do not come must not keep the others from being placed.
    """
    if view.group.status.backends_per_bucket_seq is not None:
        return False
    return any(_is_adopting(one.table, agents) for one in view.adopting)


def _is_adopting(table: ObservedTable, agents: Observation) -> bool:
    """Whether the table waits for its snapshot, or for agents to report what they hold of it."""
    if agents.now - table.identity.created_at >= ADOPTION_GRACE:
        return False
    return table.status.snapshot is None or any(unheard(agents, table))


def _group_state(view: GroupView, observation: Observation, memo: Memo) -> GroupState:
    group, spec = view.group, _spec_of(view)
    files, rows = _files_of(view.sound), group.status.backends_per_bucket_seq
    if rows is None:
        # The group or its status is new, or its tables have files already: its map starts from nodes that hold them.
        arriving = _files_of(one for one in view.arriving if one.fault is None)
        stored = holdings(GroupFiles((*files, *arriving), spec.buckets))
        ready = {node.name for node in observation.nodes if node.ready}
        answering = ready.intersection(agent.node for agent in observation.answering)
        rows = recovered_map(stored.held, spec.buckets, spec.replicas, answering)
    doubtful = doubtful_nodes(_files_of(one for one in view.sound if one.is_fresh), rows, observation.agent_views)
    found = memo.of(("holdings", view.key), GroupFiles(files, spec.buckets, rows, doubtful), holdings)
    described = _Described(
        key=view.key,
        spec=spec,
        rows=rows,
        holdings=found,
        unconfirmed=unconfirmed_replicas(group.status, found.pending),
        failing_targets=view.failing_targets,
        unstable_since=_unstable_since(group, spec.buckets, observation.now),
        marked_unstable=group.marked_unstable,
        proposal=group.status.proposal,
        approved_proposal=group.approved_proposal,
    )
    return memo.of(("group state", view.key), described, _described_state)


class _Described(NamedTuple):
    """What the planner is to know of a group; its GroupState costs more to make and to compare."""

    key: GroupKey
    spec: ColocationGroupSpec
    rows: BucketSequence | None
    holdings: Holdings
    unconfirmed: Mapping[str, tuple[int, ...]]
    failing_targets: Mapping[str, FailingTarget]
    unstable_since: Mapping[int, datetime]
    marked_unstable: str | None
    proposal: Proposal | None
    approved_proposal: str | None


def _described_state(described: _Described) -> GroupState:
    return GroupState(
        namespace=described.key[0],
        name=described.key[1],
        spec=described.spec,
        map=described.rows,
        bucket_bytes=described.holdings.bucket_bytes,
        held=described.holdings.held,
        unconfirmed=described.unconfirmed,
        failing_targets=described.failing_targets,
        unstable_since=described.unstable_since,
        marked_unstable=described.marked_unstable,
        proposal=described.proposal,
        approved_proposal=described.approved_proposal,
    )


def _spec_of(view: GroupView) -> ColocationGroupSpec:
    """The spec; without balancing, when moves would be in vain.

    All tables that the group places are leaving, or it is empty and tables come to where its map is now.
    """
    spec = view.group.spec
    assert spec is not None
    if not (view.arriving or view.tables) or not all(table.is_leaving for table in view.tables):
        return spec
    return spec.model_copy(update={"balancing": spec.balancing.model_copy(update={"enabled": False})})


def _files_of(tables: Iterable[TableView]) -> tuple[TableFiles, ...]:
    return tuple(view.files for view in tables)


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


def recovered_map(
    held: Mapping[str, Mapping[int, ReplicaState]], buckets: int, replicas: int, answering: Container[str]
) -> BucketSequence | None:
    """Per bucket up to ``replicas`` nodes that hold it complete: ``answering`` first, then those with fewest buckets.

    None when no node holds any bucket complete: then the group is placed like a new one. Buckets with fewer holders get
    fewer nodes, which the planner repairs.
    """
    counts: Counter[str] = Counter()
    rows: list[tuple[str, ...]] = []
    for bucket in range(buckets):
        holders = [node for node, states in held.items() if states.get(bucket) == "complete"]
        chosen = sorted(holders, key=lambda node: (node not in answering, counts[node], node))[:replicas]
        counts.update(chosen)
        rows.append(tuple(sorted(chosen)))
    return tuple(rows) if counts else None
