"""Decides about the marks by which autoscalers leave a node of a group alone.

The agent's pod of a node is marked while a group's map names the node, or a bucket moves there: each replica in a map
counts, and three nodes that go at once may take all replicas of a bucket. The mark goes when the node's replicas are
elsewhere, as after a drain. Marks are on pods, as the operator changes nothing of Nodes but its own labels.

A pod that has the annotation and not our label was annotated by somebody else, and is left alone.
"""

from ..state.objects import ObservedAgent
from .actions import MarkAgent
from .node_labels import Marked


def mark_actions(marked: Marked) -> tuple[MarkAgent, ...]:
    """What differs, pod by pod. Of groups that are not decided about, the labels of nodes tell."""
    remembered = {node.name for node in marked.nodes if not node.group_labels.keys().isdisjoint(marked.undecided)}
    holding = remembered.union(*marked.wanted.values())
    return tuple(
        MarkAgent(agent.namespace, agent.name, agent.uid, agent.node, agent.node in holding)
        for agent in marked.agents
        if not _is_right(agent, agent.node in holding)
    )


def _is_right(agent: ObservedAgent, is_due: bool) -> bool:
    is_foreign = agent.is_kept and not agent.is_marked
    is_as_due = (agent.is_marked and agent.is_kept) if is_due else not agent.is_marked
    return is_as_due or is_foreign or agent.deleting
