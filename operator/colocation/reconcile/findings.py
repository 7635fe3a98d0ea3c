"""What a pass has found out about the whole cluster before it turns to single groups and tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.conditions import Reason
from ..model.group import RecycledTable
from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..planner import plan_contained, without_violations
from ..state.placement import GroupKey
from ..state.views import ClusterView, GroupView
from .deletion import Leftover, leftovers
from .evidence import Evidence
from .members import next_recycled
from .namespace_files import NamespaceFiles
from .policy import Policy
from .recovery import NodesOfFolders, Recovery, bins_of, recoveries_of, unclaimed_folders
from .recycling import Recycling, recycling
from .scopes import Containment
from .transfers import Transfer, transfers_of

CHECK_OF_PLANS = "check of plans"


@dataclass(frozen=True)
class Findings:
    """The cluster, what is planned for it, and what concerns several groups or tables together.

    ``recycled``: each group's recycle bin after this pass. ``recycling``: the folders that go into the bins of nodes.
    ``transfers``: tables that move to another group, in the order of their turns. ``recoveries``: by uid, tables that
    are brought back. ``leftovers``: by group, when it is time to collect garbage. ``ready``: nodes whose agents answer;
    ``disk_missing``: nodes that are not ready, as their disk is not the one that groups know.
    """

    cluster: ClusterView
    snapshot: Snapshot
    plan: Plan
    evidence: Evidence
    policy: Policy
    recycled: Mapping[GroupKey, tuple[RecycledTable, ...]]
    recycling: Recycling
    transfers: tuple[Transfer, ...]
    recoveries: Mapping[str, Recovery]
    leftovers: Mapping[GroupKey, list[Leftover]]
    files: NamespaceFiles
    bins: NodesOfFolders
    unclaimed: NodesOfFolders
    ready: frozenset[str]
    disk_missing: frozenset[str]


def find(
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
