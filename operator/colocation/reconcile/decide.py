"""One pass, decided: observation in, actions out. Pure; the same observation gives the same actions.

Actions come in scopes. Within a scope their order matters: a later one builds on the earlier ones, so when one fails,
the rest of its scope waits for the next pass. Scopes do not touch each other: a refused table or a failing group never
harms the others, and neither does an exception that one object provokes (``Decision.errors``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..model.conditions import Reason
from ..model.group import RecycledTable
from ..model.names import node_label
from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..planner import plan_contained, without_violations
from ..state.assemble import assemble
from ..state.memo import Memo
from ..state.observation import Observation
from ..state.parse import parse_time
from ..state.snapshot import snapshot_of
from ..state.views import ClusterView, GroupView
from .actions import CollectGarbage, DropBucket, RecycleTable
from .deletion import collect_actions, leftovers, stray_clones
from .evidence import Evidence
from .findings import Findings
from .group_scopes import group_scopes
from .holders import Holders, holders_of
from .members import next_recycled
from .namespace_files import NamespaceFiles
from .policy import Policy
from .recovery import bins_of, recoveries_of, unclaimed_folders
from .recycling import Withheld, recycling
from .scopes import Containment, Scope, each
from .spark_access import Labelled, label_actions, needed_nodes
from .tables import missing_groups, table_scopes
from .transfers import TransferClones, transfers_of

CHECK_OF_PLANS = "check of plans"
DELETIONS = (DropBucket, RecycleTable, CollectGarbage)
"""From disks; each is a scope of its own."""


@dataclass(frozen=True)
class Decision:
    """What a pass found and wants done.

    ``is_waiting``: tables are on their way or being brought back, or a grace ends with the clock alone.
    ``holders``: what is done about holder pods, which is in the scopes, too.
    ``errors``: scope -> what deciding about it raised; the group or table reports it (``InternalError``), and all
    others are decided about as usual. ``withheld``: folders that are not recycled, as they would be too many together.
    """

    snapshot: Snapshot
    plan: Plan
    scopes: tuple[Scope, ...]
    holders: Holders
    is_waiting: bool = False
    errors: Mapping[str, Exception] = field(default_factory=dict)
    withheld: Withheld | None = None


def decide(
    observation: Observation, evidence: Evidence, policy: Policy, collect: bool, memo: Memo | None = None
) -> Decision:
    """What to do about this observation.

    ``evidence``: how far to trust it. ``collect``: whether it is time to collect garbage. ``memo``: of the decisions
    before, which saves work and changes nothing.
    """
    memo, containment = memo or Memo(), Containment()
    memo.begin()
    trusted = evidence.trusted(observation)
    cluster = assemble(trusted, memo, containment.errors)
    snapshot = snapshot_of(cluster, policy.limits, policy.agent_grace_seconds, memo, containment.errors)
    found = _find(cluster, snapshot, evidence, policy, collect, containment)
    groups, nodes = group_scopes(found, memo, containment)
    labelled = _labelled(cluster, nodes)
    needed = memo.of("needed nodes", labelled, needed_nodes)
    holders = holders_of(trusted, needed, evidence.unneeded_since)
    of_nodes = tuple(_node_scopes(labelled, holders, memo))
    scopes = tuple(_scopes(found, (*groups, *table_scopes(found, memo, containment)), of_nodes, collect, containment))
    errors, withheld = containment.errors, found.recycling.withheld
    is_waiting = bool(errors) or holders.is_waiting or _is_waiting(found)
    return Decision(snapshot, found.plan, scopes, holders, is_waiting, errors, withheld)


def _find(
    cluster: ClusterView,
    snapshot: Snapshot,
    evidence: Evidence,
    policy: Policy,
    collect: bool,
    containment: Containment,
) -> Findings:
    """Look at the cluster as a whole."""
    plan, unclaimed = _planned(snapshot, containment), unclaimed_folders(cluster.observation)
    recycled = {view.key: _recycled(view, cluster, containment) for view in cluster.groups.values()}
    records = [record for records in recycled.values() for record in records]
    missing = (node.name for node in snapshot.nodes if node.not_ready_reason == Reason.DISK_MISSING)
    return Findings(
        cluster=cluster,
        snapshot=snapshot,
        plan=plan,
        evidence=evidence,
        policy=policy,
        recycled=recycled,
        recycling=recycling(cluster, records, evidence, policy),
        transfers=tuple(transfers_of(cluster, snapshot, plan, evidence, containment)),
        recoveries={one.table.identity.uid: one for one in recoveries_of(cluster, snapshot, unclaimed, containment)},
        leftovers=leftovers(cluster) if collect else {},
        files=NamespaceFiles(cluster, policy.data_root),
        bins=bins_of(cluster.observation),
        unclaimed=unclaimed,
        ready=frozenset(node.name for node in snapshot.nodes if node.ready),
        disk_missing=frozenset(missing),
    )


def _recycled(view: GroupView, cluster: ClusterView, containment: Containment) -> tuple[RecycledTable, ...]:
    found = containment.run(view.group.scope, next_recycled, view, cluster)
    return view.group.status.recycled if found is None else found


def _planned(snapshot: Snapshot, containment: Containment) -> Plan:
    """The plan of all groups; one that cannot be planned does nothing, and is remembered in ``containment``."""
    made, failures = plan_contained(snapshot)
    for (namespace, name), error in failures.items():
        containment.errors.setdefault(f"plan of group {namespace}/{name}", error)
    checked = containment.run(CHECK_OF_PLANS, lambda: without_violations(snapshot, made))
    return _idle(made) if checked is None else checked


def _idle(plan: Plan) -> Plan:
    """The verdicts alone: what could not be checked is not carried out."""
    nothing: dict[str, object] = {"start_now": (), "next_map": None, "drops": (), "cancel": ()}
    return Plan(groups=tuple(group.model_copy(update=nothing) for group in plan.groups))


def _is_waiting(found: Findings) -> bool:
    """Whether there is something to do soon, although nothing may change until then."""
    return (
        bool(found.transfers or found.evidence.ordered)
        or found.recycling.is_waiting
        or any(view.table.is_recovering for view in found.cluster.tables.values())
        or any(group.unconfirmed for group in found.snapshot.groups)
    )


def _scopes(
    found: Findings, groups: Iterable[Scope], nodes: Iterable[Scope], collect: bool, containment: Containment
) -> Iterator[Scope]:
    """All that is done, except for deletions from disks while the API server does not keep all that operators remember
    in statuses, or has forgotten it.
    """
    is_withheld = found.cluster.observation.etcd_restored or bool(found.cluster.observation.lost_fields)
    for scope in _all_scopes(found, groups, nodes, collect, containment):
        if scope.actions and not (is_withheld and isinstance(scope.actions[0], DELETIONS)):
            yield scope


def _all_scopes(
    found: Findings, groups: Iterable[Scope], nodes: Iterable[Scope], collect: bool, containment: Containment
) -> Iterator[Scope]:
    cluster, grace_seconds = found.cluster, found.policy.garbage_grace_seconds
    yield Scope("missing groups", tuple(missing_groups(cluster.missing_groups)))
    yield from (Scope(f"files of namespace {name}", actions) for name, actions in found.files.actions())
    yield from groups
    yield from _transfer_scopes(found, containment)
    yield from each("stray clone", stray_clones(cluster.observation))
    yield from each("recycle", found.recycling.actions)
    yield from each("collect", collect_actions(cluster, grace_seconds) if collect else ())
    yield from nodes


def _transfer_scopes(found: Findings, containment: Containment) -> Iterator[Scope]:
    """Clones of tables that move to another group, after those that the groups themselves need."""
    receiving = Counter(clone.to for clone in found.snapshot.clones if clone.retry_at is None)
    receiving.update(one.moves[number].to for one in found.plan.groups for number in one.start_now)
    clones = TransferClones(found.cluster, found.snapshot, receiving)
    for transfer in found.transfers:
        name = f"transfer of {transfer.table.scope}"
        yield Scope(name, containment.run(name, clones.actions, transfer) or ())
    yield from each("arrived", clones.strays(found.transfers))


def _labelled(cluster: ClusterView, nodes: Mapping[str, frozenset[str]]) -> Labelled:
    """For all groups together, so that a node is written once. ``nodes``: label -> its nodes."""
    known = (view.key for view in cluster.groups.values() if not view.group.identity.deleting)
    undecided = frozenset(node_label(*key) for key in known) - nodes.keys()
    return Labelled(cluster.observation.nodes, nodes, undecided)


def _node_scopes(labelled: Labelled, holders: Holders, memo: Memo) -> Iterator[Scope]:
    for label in memo.of("node labels", labelled, label_actions):
        yield Scope(f"labels of node {label.node}", (label,))
    for action in holders.actions:
        yield Scope(f"holder of node {action.node}", (action,))


def next_deadline(observation: Observation) -> datetime | None:
    """When the clock alone makes a pass find something to do; None when nothing waits for it.

    Snapshots and dropped tables end then, and what the API server refused is asked for again.
    """
    return min(_deadlines(observation), default=None)


def _deadlines(observation: Observation) -> Iterator[datetime]:
    for group in observation.groups:
        times = [group.status.delete_after, *(record.purge_at for record in group.status.recycled)]
        yield from (time for text in times if (time := parse_time(text)))
    for table in observation.tables:
        if table.history_ends_at is not None:
            yield table.history_ends_at
    yield from (refused.retry_at for refused in observation.refused_files.values())
