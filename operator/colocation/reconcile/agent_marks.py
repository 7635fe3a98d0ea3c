"""Decides about the marks by which autoscalers leave a node of a group alone.

The agent's pod of a node is marked while a group's map names the node, or a bucket moves there: each replica in a map
counts, and three nodes that go at once may take all replicas of a bucket. The mark goes when the node's replicas are
elsewhere, as after a drain. Marks are on pods, as the operator changes nothing of Nodes but its own labels.

A pod that has the annotation and not our label was annotated by somebody else, and is left alone.
"""

from collections.abc import Collection, Iterable, Iterator

from ..state.objects import ObservedAgent, ObservedNode
from .actions import MarkAgent


def holding_nodes(
    nodes: Iterable[ObservedNode], wanted: Iterable[Collection[str]], undecided: Collection[str]
) -> frozenset[str]:
    """The nodes of all groups.

    Args:
        nodes: as they are; their labels tell of groups about which nothing is known in this pass.
        wanted: the nodes of each group that is decided about.
        undecided: labels of the other groups.
    """
    remembered = {node.name for node in nodes if not node.group_labels.keys().isdisjoint(undecided)}
    return frozenset(remembered.union(*wanted))


def mark_actions(agents: Iterable[ObservedAgent], holding: Collection[str]) -> Iterator[MarkAgent]:
    """What differs, pod by pod."""
    for agent in agents:
        is_due = agent.node in holding
        is_foreign = agent.is_kept and not agent.is_marked
        is_right = (agent.is_marked and agent.is_kept) if is_due else not agent.is_marked
        if not (is_right or is_foreign or agent.deleting):
            yield MarkAgent(agent.namespace, agent.name, agent.uid, agent.node, is_due)
