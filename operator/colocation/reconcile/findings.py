"""What a pass has found out about the whole cluster before it turns to single groups and tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.group import RecycledTable
from ..model.plan import Plan
from ..model.snapshot import Snapshot
from ..state.placement import GroupKey
from ..state.views import ClusterView
from .deletion import Leftover
from .evidence import Evidence
from .namespace_files import NamespaceFiles
from .policy import Policy
from .recovery import NodesOfFolders, Recovery
from .recycling import Recycling
from .transfers import Transfer


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
