"""One pass, decided: observation in, actions out. Pure; the same observation gives the same actions.

Actions come in scopes. Within a scope their order matters: a later one builds on the earlier ones (clones on the map,
drops on both), so when one fails, the rest of its scope waits for the next pass. Scopes do not touch each other: a
refused table or a failing group never harms the others.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..model.group import ColocationGroupStatus
from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..planner import plan, without_violations
from ..state.clone_jobs import group_uids, is_current
from ..state.held import TableReports
from ..state.membership import Membership, memberships
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
    membership = memberships(observation)
    grace_seconds = policy.garbage_grace_seconds
    told = snapshot_of(observation, membership, policy.limits, policy.agent_grace_seconds)
    snapshot = evidence.correct(told, observation)
    planned = without_violations(snapshot, plan(snapshot))
    groups = tuple(_facts(observation, membership, snapshot, planned))
    transfers = list(transfers_of(observation, membership, snapshot, planned, evidence))
    reports = TableReports(observation)
    scopes = [
        Scope("missing groups", tuple(missing_groups(membership))),
        *(_group_scope(observation, snapshot, facts, policy) for facts in groups),
        *_invalid_group_scopes(observation),
        *_table_scopes(observation, membership, snapshot, transfers),
        *_transfer_scopes(observation, snapshot, planned, transfers),
        *(scope for facts in groups for scope in _drop_scopes(observation, evidence, reports, facts, grace_seconds)),
        *_single("stray clone", stray_clones(observation)),
        *_single("recycle", recycle_actions(observation)),
        *_single("collect", collect_actions(observation, grace_seconds) if collect else ()),
    ]
    is_waiting = bool(transfers) or any(table.is_recovering for table in observation.tables)
    return Decision(snapshot, planned, tuple(scope for scope in scopes if scope.actions), is_waiting)


def _facts(
    observation: Observation, membership: Membership, snapshot: Snapshot, planned: Plan
) -> Iterator[GroupFacts]:
    """The groups that the planner planned."""
    jobs: dict[tuple[str, str], list[ObservedCloneJob]] = {}
    uids = group_uids(observation)
    for job in observation.clone_jobs:
        if is_current(uids, job) and not job.identity.deleting:
            jobs.setdefault((job.group_namespace, job.group), []).append(job)
    groups = {group.key: group for group in observation.groups}
    for state, group_plan in zip(snapshot.groups, planned.groups, strict=True):
        key = (state.namespace, state.name)
        recycled = next_recycled(observation, groups[key])
        yield GroupFacts(
            group=groups[key],
            spec=state.spec,
            state=state,
            plan=group_plan,
            tables=membership.members[key],
            jobs=tuple(jobs.get(key, ())),
            members=next_members(observation, membership, groups[key]),
            recycled=recycled,
            delete_after=delete_after(observation, membership, groups[key], state.spec, recycled),
        )


def _group_scope(observation: Observation, snapshot: Snapshot, facts: GroupFacts, policy: Policy) -> Scope:
    identity = facts.group.identity
    nodes = {node.name: node for node in snapshot.nodes}
    status = next_status(observation, facts, {name for name, node in nodes.items() if node.ready})
    actions = (
        *_status_actions(facts.group, status),
        *clone_actions(observation, snapshot, facts),
        *config_maps(observation, facts, nodes, policy),
        *request_actions(observation, facts.group),
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
    observation: Observation, membership: Membership, snapshot: Snapshot, transfers: Iterable[Transfer]
) -> Iterator[Scope]:
    groups, places = {group.key: group for group in observation.groups}, membership.places
    moving = {transfer.table.identity.uid: transfer for transfer in transfers}
    recoveries = {one.table.identity.uid: one for one in recoveries_of(observation, snapshot)}
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
    observation: Observation, snapshot: Snapshot, planned: Plan, transfers: list[Transfer]
) -> Iterator[Scope]:
    """Clones of tables that move to another group, after those that the groups themselves need."""
    receiving = Counter(clone.to for clone in snapshot.clones if clone.retry_at is None)
    receiving.update(one.moves[index].to for one in planned.groups for index in one.start_now)
    clones = TransferClones(observation, snapshot, receiving)
    for transfer in transfers:
        identity = transfer.table.identity
        yield Scope(f"transfer {identity.namespace}/{identity.name}", tuple(clones.actions(transfer)))
    yield from _single("arrived", clones.strays(transfers))


def _drop_scopes(
    observation: Observation, evidence: Evidence, reports: TableReports, facts: GroupFacts, grace_seconds: int
) -> Iterator[Scope]:
    """Drops that are known to be safe now; the others wait for newer reports."""
    views = observation.agent_views
    drops = drop_actions(observation, reports, facts, grace_seconds)
    allowed = (drop for drop in drops if evidence.allows_drop(facts.group, facts.tables, drop.bucket, views))
    return _single("drop", allowed)


def _single(name: str, actions: Iterable[Action]) -> Iterator[Scope]:
    """Actions that do not build on each other."""
    return (Scope(name, (action,)) for action in actions)
