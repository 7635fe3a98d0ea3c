"""One pass, decided: observation in, actions out. Pure; the same observation gives the same actions.

Actions come in scopes. Within a scope their order matters: a later one builds on the earlier ones (clones on the map,
drops on both), so when one fails, the rest of its scope waits for the next pass. Scopes do not touch each other: a
refused table or a failing group never harms the others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..kube.actions import Action, WriteGroupStatus
from ..kube.clones import group_uids, is_current
from ..kube.membership import Membership, memberships
from ..kube.observation import Observation, ObservedCloneJob, ObservedGroup
from ..kube.snapshot import snapshot_of
from ..model.group import ColocationGroupStatus
from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..planner import plan
from .clones import clone_actions
from .evidence import Evidence
from .group_status import GroupFacts, invalid_status, next_status, status_events
from .settings import Settings
from .tables import missing_groups, table_actions
from .upkeep import collect_actions, config_map, delete_group, drop_actions, recycle_actions, stray_clones


@dataclass(frozen=True)
class Scope:
    """Actions that are performed in order, up to the first that fails. ``name`` is for logs and metrics."""

    name: str
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Decision:
    """What a pass found and wants done."""

    snapshot: Snapshot
    plan: Plan
    scopes: tuple[Scope, ...]


def decide(observation: Observation, evidence: Evidence, settings: Settings, collect: bool) -> Decision:
    """What to do about this observation.

    ``evidence``: how far to trust it. ``collect``: whether it is time to collect garbage.
    """
    membership = memberships(observation)
    grace_seconds = settings.garbage_grace_seconds
    told = snapshot_of(observation, membership, settings.limits, settings.agent_grace_seconds)
    snapshot = evidence.correct(told, observation)
    planned = plan(snapshot)
    groups = tuple(_facts(observation, membership, snapshot, planned))
    scopes = [
        Scope("missing groups", tuple(missing_groups(membership))),
        *(_group_scope(observation, snapshot, facts, settings) for facts in groups),
        *_invalid_group_scopes(observation),
        *_table_scopes(observation, membership),
        *(scope for facts in groups for scope in _drop_scopes(observation, evidence, facts, grace_seconds)),
        *_single("stray clone", stray_clones(observation)),
        *_single("recycle", recycle_actions(observation)),
        *_single("collect", collect_actions(observation, grace_seconds) if collect else ()),
    ]
    return Decision(snapshot, planned, tuple(scope for scope in scopes if scope.actions))


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
        yield GroupFacts(
            groups[key], state.spec, state, group_plan, membership.members[key], tuple(jobs.get(key, ()))
        )


def _group_scope(observation: Observation, snapshot: Snapshot, facts: GroupFacts, settings: Settings) -> Scope:
    identity = facts.group.identity
    status = next_status(observation, facts)
    nodes = {node.name: node for node in snapshot.nodes}
    actions = (
        *_status_actions(facts.group, status),
        *clone_actions(observation, snapshot, facts),
        config_map(observation, facts, nodes, settings),
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


def _table_scopes(observation: Observation, membership: Membership) -> Iterator[Scope]:
    for table in observation.tables:
        if not table.identity.deleting:
            name = f"table {table.identity.namespace}/{table.identity.name}"
            yield Scope(name, tuple(table_actions(observation, membership, table)))


def _drop_scopes(
    observation: Observation, evidence: Evidence, facts: GroupFacts, grace_seconds: int
) -> Iterator[Scope]:
    """Drops that are known to be safe now; the others wait for newer reports."""
    views = observation.agent_views
    drops = drop_actions(observation, facts, grace_seconds)
    return _single("drop", (drop for drop in drops if evidence.allows_drop(facts.group, drop.bucket, views)))


def _single(name: str, actions: Iterable[Action]) -> Iterator[Scope]:
    """Actions that do not build on each other."""
    return (Scope(name, (action,)) for action in actions)
