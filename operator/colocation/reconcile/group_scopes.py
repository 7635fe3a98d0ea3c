"""Decides about each group: its status, clones, ConfigMaps and deletions, each in a scope of its own.

What does not build on the status is apart from it: a status that cannot be written stops no repair.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from ..model.conditions import Reason
from ..model.names import node_label
from ..model.plan import GroupPlan
from ..model.snapshot import GroupState
from ..state.clone_jobs import next_failing_targets
from ..state.memo import Memo
from ..state.nodes import next_disks
from ..state.snapshot import awaits_files
from ..state.views import GroupView
from .actions import Action, DropBucket
from .clones import clone_actions, ends_of
from .deletion import delete_group, drop_actions, leftover_drops
from .findings import Findings
from .group_status import (
    GroupFacts,
    invalid_status,
    next_status,
    status_actions,
    uncounted,
    unstable_actions,
    waiting_status,
)
from .members import delete_after, next_members
from .recovery import request_actions
from .scopes import Containment, Scope, each
from .spark_access import SparkAccess, agents_of, config_maps, group_nodes

Decided = tuple[list[Scope], frozenset[str]]
"""What is done about a group, and the nodes that are to have its label."""


def group_scopes(
    found: Findings, memo: Memo, containment: Containment
) -> tuple[list[Scope], dict[str, frozenset[str]]]:
    """What is done about all groups; label of each group that is decided about -> the nodes that are to have it.

    A group that cannot be decided about is marked unstable, and nothing else is done for it.
    """
    states = {(one.namespace, one.name): one for one in found.snapshot.groups}
    plans = {(one.namespace, one.name): one for one in found.plan.groups}
    scopes: list[Scope] = []
    nodes: dict[str, frozenset[str]] = {}
    for key, view in found.cluster.groups.items():
        name = view.group.scope
        if view.group.identity.deleting:
            continue
        waiting = _status_only(view, found)
        if waiting is not None:
            scopes.append(Scope(name, waiting))
            continue
        decided: Decided | None = None
        if key in states and plans[key].is_judged and name not in containment.errors:
            decided = containment.run(name, _decide, view, states[key], plans[key], found, memo)
        if decided is None:
            scopes.append(_failed(view, found, containment))
        else:
            scopes += decided[0]
            nodes[node_label(*key)] = decided[1]
    return scopes, nodes


def _status_only(view: GroupView, found: Findings) -> tuple[Action, ...] | None:
    """For a group for which nothing can be done now: the status that reports why. None = it can be decided about."""
    group, now = view.group, found.snapshot.now
    if group.status_error:
        return tuple(unstable_actions(group, Reason.INVALID_STATUS, f"{group.status_error}; correct the status", now))
    if group.spec is None:
        return tuple(status_actions(group, invalid_status(group, now)))
    if awaits_files(view, found.cluster.observation):
        return tuple(status_actions(group, waiting_status(group, found.recycled[view.key], now)))
    return None


def _failed(view: GroupView, found: Findings, containment: Containment) -> Scope:
    """A group that provoked an exception is not stable, and reports that."""
    name = view.group.scope
    error = containment.errors.get(name) or containment.errors.get(f"plan of {name}")
    message = f"deciding about the group failed: {error!r}; the operator's log has more"
    return Scope(name, tuple(unstable_actions(view.group, Reason.INTERNAL_ERROR, message, found.snapshot.now)))


def _decide(view: GroupView, state: GroupState, plan: GroupPlan, found: Findings, memo: Memo) -> Decided:
    facts = _facts(view, state, plan, found, memo)
    name, agents, now = view.group.scope, found.cluster.observation, found.snapshot.now
    written, maps = _status(facts, memo, now), _config_maps(facts, found, memo)
    if plan.next_map:
        written, maps = (*written, *maps), ()  # they name the nodes of a map that has to be there first
    requested = (*request_actions(view, found.cluster, found.unclaimed), *delete_group(facts, now))
    scopes = [
        Scope(name, (*written, *requested)),
        Scope(f"clones of {name}", tuple(clone_actions(facts, found.snapshot, agents))),
        *each(f"ConfigMaps of {name}", maps),
        *each("drop", _drops(facts, found)),
    ]
    return scopes, group_nodes(facts, memo)


def _facts(view: GroupView, state: GroupState, plan: GroupPlan, found: Findings, memo: Memo) -> GroupFacts:
    group, seen, now = view.group, found.cluster.observation, found.snapshot.now
    recycled, withheld = found.recycled[view.key], found.recycling.withheld
    ends = ends_of((*view.jobs, *view.arriving_jobs), now, found.snapshot.limits)
    progress = {job.identity.uid: one for job in view.jobs if (one := seen.clone_progress.get(job.place))}
    placed = set(chain.from_iterable(plan.next_map or state.map or ()))
    return GroupFacts(
        view=view,
        state=state,
        plan=plan,
        members=memo.of(("members", view.key), view, next_members),
        recycled=recycled,
        delete_after=delete_after(view, recycled, now),
        ends=ends,
        progress=progress,
        failing_targets=next_failing_targets(
            group.status.failing_targets, uncounted(group, ends).values(), seen.nodes_by_name, now
        ),
        disks=next_disks(group.status.disks, placed, seen, found.disk_missing),
        ready=found.ready.intersection(chain.from_iterable(state.map or ())),
        withheld=withheld.within(group.identity.namespace) if withheld else None,
        files_problem=found.files.problem_of_group(view),
        lost_fields=seen.lost_fields,
        etcd_restored=seen.etcd_restored,
    )


def _status(facts: GroupFacts, memo: Memo, now: datetime) -> tuple[Action, ...]:
    """The write of the status. The clock has a part in what changes, none in what stays as it is."""
    is_busy = facts.view.jobs or facts.ends or facts.group.status.failing_targets

    def written(facts: GroupFacts) -> tuple[Action, ...]:
        return tuple(status_actions(facts.group, next_status(facts, now)))

    return memo.of(("status", facts.view.key), facts, written, is_lasting=lambda actions: not (actions or is_busy))


def _config_maps(facts: GroupFacts, found: Findings, memo: Memo) -> tuple[Action, ...]:
    seen, placed = found.cluster.observation, set(chain.from_iterable(facts.map or ()))
    access = SparkAccess(
        group=facts.group,
        tables=tuple(view.table for view in facts.view.tables),
        has_map=facts.map is not None,
        executor_affinity=facts.state.spec.executor_affinity,
        agents=agents_of(placed, facts.state, seen.readers_urls, found.ready, found.disk_missing),
        ca_certificate=seen.ca_certificate,
        policy=found.policy,
    )
    return memo.of(("ConfigMaps", facts.view.key), access, config_maps)


def _drops(facts: GroupFacts, found: Findings) -> Iterator[DropBucket]:
    """Drops that are known to be safe now; the others wait for newer reports, or until readers know the map's nodes."""
    agents, grace_seconds = found.cluster.observation, found.policy.garbage_grace_seconds
    left, tables = found.leftovers.get(facts.view.key, ()), [view.table for view in facts.view.tables]
    drops = drop_actions(facts, agents, grace_seconds)
    more = leftover_drops(facts, left, found.ready, found.cluster, grace_seconds)
    for drop in chain(drops, more):
        if found.evidence.allows_drop(facts.group, tables, drop.bucket, agents):
            yield drop
