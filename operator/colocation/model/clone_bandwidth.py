"""The budgets of clones, and what one clone Job gets of them."""

import math

from pydantic import Field

from .base import Frozen
from .group import Balancing

MIN_CLONE_MIB_PER_SECOND = 1.0
"""Less would not be a budget but a standstill: a repair has to end."""
MIN_CLUSTER_CLONES = 4
FAST_CLONE_MIB_PER_SECOND = 64.0
"""A clone with so much is quick enough: a larger budget of the cluster is for more clones at a time."""
RESERVED_FOR_REPAIRS = 1
"""Of the cluster's clones: a repair does not wait for large clones that only balance."""


class CloneBandwidth(Frozen):
    """How much all clones together may copy, over all groups; None = as much as they can.

    The node's is shared by those that run there now: each Job that writes to a node (``storage.node_schedule``), and
    the node's agent that answers those that read from it (``agent.clone_pace``). The cluster's is divided into shares
    of one size, as many as clones run at a time at most.
    """

    per_node_mib_per_second: float | None = Field(
        None, alias="perNodeMiBPerSecond", ge=MIN_CLONE_MIB_PER_SECOND,
        description="What clones may write to one node; as much may they read from it.",
    )
    per_cluster_mib_per_second: float | None = Field(
        None, alias="perClusterMiBPerSecond", ge=MIN_CLONE_MIB_PER_SECOND, description="What all clones may copy."
    )

    @property
    def max_clones(self) -> int | None:
        """Clones in the cluster at one time; None = no limit."""
        if self.per_cluster_mib_per_second is None:
            return None
        fast = min(self.per_node_mib_per_second or FAST_CLONE_MIB_PER_SECOND, FAST_CLONE_MIB_PER_SECOND)
        return max(MIN_CLUSTER_CLONES, math.ceil(self.per_cluster_mib_per_second / fast))

    def allows_another(self, clones: int, is_repair: bool) -> bool:
        """Whether one more clone may start beside those that run."""
        most = self.max_clones
        return most is None or clones < most - (0 if is_repair else RESERVED_FOR_REPAIRS)

    def of_clone(self, balancing: Balancing) -> float | None:
        """MiB per second of one clone of a group: the least of its shares; None = no limit.

        The node's budget is one of them, so that one clone keeps to it also where pods do not share a kernel's clock.
        """
        of_group, of_cluster = balancing.max_bandwidth_mib_per_second, self.per_cluster_mib_per_second
        shares = [
            None if of_group is None else of_group / balancing.max_concurrent_clones,
            None if of_cluster is None else of_cluster / (self.max_clones or 1),
            self.per_node_mib_per_second,
        ]
        return min((share for share in shares if share is not None), default=None)
