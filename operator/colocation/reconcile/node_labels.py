"""Decides about the labels by which Spark's executors find the nodes of a group (``names.node_label``).

They are on exactly the nodes of the group's map, and on those to which its buckets move. What somebody else changes is
changed back; a label of a group that is gone goes, whenever it was left behind. A group that is not decided about in a
pass, as its status cannot be understood, keeps its labels.

Safety invariant: an action changes labels with our prefix only, and is one for each node that differs.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..model.group import BucketSequence
from ..model.names import NODE_LABEL_VALUE
from ..model.plan import GroupPlan
from ..state.held import Held
from ..state.memo import Memo
from ..state.objects import ObservedAgent, ObservedNode
from .actions import LabelNode
from .group_status import GroupFacts


class Marked(NamedTuple):
    """Which nodes are to be marked, and how they and the agents' pods are marked now.

    ``wanted``: label of each group that is decided about -> its nodes. ``undecided``: labels of the other groups.
    """

    nodes: tuple[ObservedNode, ...]
    agents: tuple[ObservedAgent, ...]
    wanted: Mapping[str, frozenset[str]]
    undecided: frozenset[str]


class _Placed(NamedTuple):
    rows: BucketSequence | None
    target: BucketSequence | None
    held: Held


def group_nodes(facts: GroupFacts, memo: Memo) -> frozenset[str]:
    """The nodes of a group's map after this pass, and those that get, or have just got, a replica for the next one."""
    plan: GroupPlan = facts.plan
    placed = memo.of(("nodes", facts.view.key), _Placed(facts.map, plan.target_map, facts.state.held), _nodes_of)
    getting = {plan.moves[index].to for index in plan.start_now} | {job.target for job in facts.view.jobs}
    return placed | getting if getting else placed


def _nodes_of(placed: _Placed) -> frozenset[str]:
    nodes = {node for row in placed.rows or () for node in row}
    for bucket, row in enumerate(placed.target or ()):
        nodes.update(node for node in row if placed.held.get(node, {}).get(bucket) == "complete")
    return frozenset(nodes)


def label_actions(marked: Marked) -> tuple[LabelNode, ...]:
    """What differs, node by node."""
    return tuple(_label_actions(marked))


def _label_actions(marked: Marked) -> Iterator[LabelNode]:
    of_nodes: dict[str, set[str]] = {}
    for label, names in marked.wanted.items():
        for name in names:
            of_nodes.setdefault(name, set()).add(label)
    for node in marked.nodes:
        due, there = of_nodes.get(node.name, set()), node.group_labels
        if node.deleting or (due == there.keys() and all(value == NODE_LABEL_VALUE for value in there.values())):
            continue
        changes: dict[str, str | None] = {
            label: NODE_LABEL_VALUE for label in sorted(due) if there.get(label) != NODE_LABEL_VALUE
        }
        changes |= dict.fromkeys(sorted(label for label in there if label not in due and label not in marked.undecided))
        if changes:
            yield LabelNode(node.name, node.uid, changes)
