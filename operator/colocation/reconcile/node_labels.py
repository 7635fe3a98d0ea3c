"""Decides about the labels by which Spark's executors find the nodes of a group (``names.node_label``).

They are on exactly the nodes of the group's map, and on those to which its buckets move. What somebody else changes is
changed back; a label of a group that is gone goes, whenever it was left behind. A group that is not decided about in a
pass, as its status cannot be understood, keeps its labels.

Safety invariant: an action changes labels with our prefix only, and is one for each node that differs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from ..model.names import NODE_LABEL_VALUE
from ..state.objects import ObservedNode
from .actions import LabelNode
from .group_status import GroupFacts


def group_nodes(facts: GroupFacts) -> frozenset[str]:
    """The nodes of a group's map after this pass, and those that get, or have just got, a replica for the next one."""
    placed = {node for row in facts.map or () for node in row}
    placed.update(facts.plan.moves[index].to for index in facts.plan.start_now)
    placed.update(job.target for job in facts.jobs)
    for bucket, row in enumerate(facts.plan.target_map or ()):
        placed.update(node for node in row if facts.state.held.get(node, {}).get(bucket) == "complete")
    return frozenset(placed)


def label_actions(
    nodes: Iterable[ObservedNode], wanted: Mapping[str, Collection[str]], undecided: Collection[str]
) -> Iterator[LabelNode]:
    """What differs, node by node.

    Args:
        nodes: as they are.
        wanted: label -> the nodes that should have it.
        undecided: labels of groups about which nothing is known in this pass.
    """
    of_nodes: dict[str, set[str]] = {}
    for label, names in wanted.items():
        for name in names:
            of_nodes.setdefault(name, set()).add(label)
    for node in nodes:
        due, there = of_nodes.get(node.name, set()), node.group_labels
        if node.deleting or (due == there.keys() and all(value == NODE_LABEL_VALUE for value in there.values())):
            continue
        changes: dict[str, str | None] = {
            label: NODE_LABEL_VALUE for label in sorted(due) if there.get(label) != NODE_LABEL_VALUE
        }
        changes |= dict.fromkeys(sorted(label for label in there if label not in due and label not in undecided))
        if changes:
            yield LabelNode(node.name, node.uid, changes)
