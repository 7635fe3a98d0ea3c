"""One pass, decided: observation in, actions out. Pure; the same observation gives the same actions.

Actions come in scopes. Within a scope their order matters: a later one builds on the earlier ones (clones on the map,
drops on both), so when one fails, the rest of its scope waits for the next pass. Scopes do not touch each other: a
refused table or a failing group never harms the others.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from ..model.group import ColocationGroupStatus
from ..model.members import RecycledTable
from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..planner import plan, without_violations
from ..state.clone_jobs import group_uids, is_current
from ..state.held import TableReports
from ..state.index import TableIndex
from ..state.membership import GroupKey, memberships
from ..state.observation import Observation, ObservedCloneJob, ObservedGroup
from ..state.snapshot import snapshot_of
from .actions import Action, WriteGroupStatus
from .clones import clone_actions
from .config_maps import config_maps
from .deletion import collect_actions, delete_group, drop_actions, recycle_actions, stray_clones
from .evidence import Evidence
from .group_status import GroupFacts, invalid_status, next_status, status_events
from .members import delete_after, next_members, next_recycled
from .policy import Policy
from .recovery import recoveries_of, request_actions
from .tables import TableFacts, missing_groups, table_actions
from .transfers import Transfer, TransferClones, transfers_of


@dataclass(frozen=True)
class Scope:
    """Actions that are performed in order, up to the first that fails. ``name`` is for logs and metrics."""

    name: str
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Decision:
    """What a pass found and wants done. ``is_waiting``: tables are on their way, or being brought back."""

    snapshot: Snapshot
    plan: Plan
    scopes: tuple[Scope, ...]
    is_waiting: bool = False


def decide(observation: Observation, evidence: Evidence, policy: Policy, collect: bool) -> Decision:
    """What to do about this observation.

    ``evidence``: how far to trust it. ``collect``: whether it is time to collect garbage.
    """
    observation = evidence.trusted(observation)
    membership, reports = memberships(observation), TableReports(observation)
    index = TableIndex(observation, membership)
    grace_seconds = policy.garbage_grace_seconds
    snapshot = snapshot_of(index, reports, policy.limits, policy.agent_grace_seconds)
    planned = without_violations(snapshot, plan(snapshot))
    recycled = {group.key: next_recycled(index, reports, group) for group in observation.groups}
    groups = tuple(_facts(index, snapshot, planned, recycled))
    transfers = list(transfers_of(index, reports, snapshot, planned, evidence))
    scopes = [
        Scope("missing groups", tuple(missing_groups(membership))),
        *(_group_scope(index, snapshot, facts, policy) for facts in groups),
        *_invalid_group_scopes(observation),
        *_table_scopes(index, reports, snapshot, transfers),
        *_transfer_scopes(index, snapshot, planned, transfers),
        *(scope for facts in groups for scope in _drop_scopes(index, evidence, reports, facts, grace_seconds)),
        *_single("stray clone", stray_clones(observation)),
        *_single("recycle", recycle_actions(index, chain.from_iterable(recycled.values()))),
        *_single("collect", collect_actions(index, grace_seconds) if collect else ()),
    ]
    is_waiting = bool(transfers) or any(table.is_recovering for table in observation.tables)
    return Decision(snapshot, planned, tuple(scope for scope in scopes if scope.actions), is_waiting)


def _facts(
    index: TableIndex, snapshot: Snapshot, planned: Plan, recycled: Mapping[GroupKey, tuple[RecycledTable, ...]]
) -> Iterator[GroupFacts]:
    """The groups that the planner planned."""
    jobs: dict[GroupKey, list[ObservedCloneJob]] = {}
    uids = group_uids(index.observation)
    for job in index.observation.clone_jobs:
        if is_current(uids, job) and not job.identity.deleting:
            jobs.setdefault((job.group_namespace, job.group), []).append(job)
    for state, group_plan in zip(snapshot.groups, planned.groups, strict=True):
        key = (state.namespace, state.name)
        group = index.groups[key]
        yield GroupFacts(
            group=group,
            spec=state.spec,
            state=state,
            plan=group_plan,
            tables=index.membership.members[key],
            jobs=tuple(jobs.get(key, ())),
            members=next_members(index, group),
            recycled=recycled[key],
            delete_after=delete_after(index, group, state.spec, recycled[key]),
        )


def _group_scope(index: TableIndex, snapshot: Snapshot, facts: GroupFacts, policy: Policy) -> Scope:
    observation, identity = index.observation, facts.group.identity
    nodes = {node.name: node for node in snapshot.nodes}
    status = next_status(observation, facts, {name for name, node in nodes.items() if node.ready})
    actions = (
        *_status_actions(facts.group, status),
        *clone_actions(index, snapshot, facts),
        *config_maps(observation, facts, nodes, policy),
        *request_actions(index, facts.group),
        *delete_group(facts, observation.now),
    )
    return Scope(f"group {identity.namespace}/{identity.name}", actions)


def _invalid_group_scopes(observation: Observation) -> Iterator[Scope]:
    for group in observation.groups:
        if group.spec is None and not group.identity.deleting:
            name = f"group {group.identity.namespace}/{group.identity.name}"
            yield Scope(name, tuple(_status_actions(group, invalid_status(observation, group))))


def _status_actions(group: ObservedGroup, status: ColocationGroupStatus) -> Iterator[Action]:
    """At most one write of a status per group and pass."""
    if status != group.status:
        yield WriteGroupStatus(group.identity, status.to_json_dict())
        yield from status_events(group, status)


def _table_scopes(
    index: TableIndex, reports: TableReports, snapshot: Snapshot, transfers: Iterable[Transfer]
) -> Iterator[Scope]:
    observation, membership, groups, places = index.observation, index.membership, index.groups, index.places
    moving = {transfer.table.identity.uid: transfer for transfer in transfers}
    recoveries = {one.table.identity.uid: one for one in recoveries_of(index, reports, snapshot)}
    for table in observation.tables:
        if table.identity.deleting:
            continue
        uid = table.identity.uid
        transfer, recovery = moving.get(uid), recoveries.get(uid)
        group, refusal = groups.get(places[uid]) if uid in places else None, membership.refusals.get(uid)
        if transfer and transfer.is_done:
            group, transfer = transfer.target, None
        orders: tuple[Action, ...] = ()
        if recovery:
            orders = recovery.orders
            group, refusal = (recovery.group, None) if recovery.is_whole else (None, recovery.refusal)
        facts = TableFacts(table, group, refusal, transfer, recovery)
        name = f"table {table.identity.namespace}/{table.identity.name}"
        yield Scope(name, tuple(table_actions(observation, membership, facts)))
        yield from _single("restore", orders)


def _transfer_scopes(
    index: TableIndex, snapshot: Snapshot, planned: Plan, transfers: list[Transfer]
) -> Iterator[Scope]:
    """Clones of tables that move to another group, after those that the groups themselves need."""
    receiving = Counter(clone.to for clone in snapshot.clones if clone.retry_at is None)
    receiving.update(one.moves[index].to for one in planned.groups for index in one.start_now)
    clones = TransferClones(index, snapshot, receiving)
    for transfer in transfers:
        identity = transfer.table.identity
        yield Scope(f"transfer {identity.namespace}/{identity.name}", tuple(clones.actions(transfer)))
    yield from _single("arrived", clones.strays(transfers))


def _drop_scopes(
    index: TableIndex, evidence: Evidence, reports: TableReports, facts: GroupFacts, grace_seconds: int
) -> Iterator[Scope]:
    """Drops that are known to be safe now; the others wait for newer reports."""
    views = index.observation.agent_views
    drops = drop_actions(index, reports, facts, grace_seconds)
    allowed = (drop for drop in drops if evidence.allows_drop(facts.group, facts.tables, drop.bucket, views))
    return _single("drop", allowed)


def _single(name: str, actions: Iterable[Action]) -> Iterator[Scope]:
    """Actions that do not build on each other."""
    return (Scope(name, (action,)) for action in actions)
