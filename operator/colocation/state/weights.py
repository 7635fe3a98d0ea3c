"""Weights of nodes: by the size of the disk, or by a label; no node can claim a great part of all data for itself.

Root on a node can let its agent report any size, and its kubelet may set labels of its own Node. A node of a great
weight gets a replica of nearly every bucket, and root there can read them all. So a weight counts for at most
`MOST_TIMES_MEDIAN` times the median of the other nodes' weights. The label `LABEL_ADMIN_WEIGHT` has no such bound: the
API server (admission plugin NodeRestriction) lets no kubelet set it.
"""

from collections.abc import Iterable, Mapping
from math import inf
from statistics import median_high

from ..model.names import LABEL_ADMIN_WEIGHT, LABEL_WEIGHT
from ..model.snapshot import Node

BYTES_PER_GIB = 1 << 30
MOST_TIMES_MEDIAN = 4.0


def weight_of(labels: Mapping[str, str], capacity_bytes: int) -> float | None:
    """An administrator's label, else the other one, else the disk's GiB; None while that is not known."""
    for label in (LABEL_ADMIN_WEIGHT, LABEL_WEIGHT):
        weight = _weight(labels.get(label))
        if weight is not None:
            return weight
    return capacity_bytes / BYTES_PER_GIB if capacity_bytes else None


def _weight(text: str | None) -> float | None:
    try:
        weight = float(text) if text else -1.0
    except ValueError:
        return None
    return weight if 0 <= weight < inf else None


def settled_weights(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes with the weights that count.

    A node of unknown weight counts as one in the middle of the others. No node weighs much more than the others unless
    an administrator says so.
    """
    found = tuple(nodes)
    known = sorted(node.weight for node in found if node.is_weight_known)
    if not known:
        return found
    positive = [weight for weight in known if weight]
    # The median of all others for each node that is heavier than it.
    most = MOST_TIMES_MEDIAN * positive[(len(positive) - 1) // 2] if len(positive) > 1 else inf
    guess = min(median_high(known), most)
    return tuple(_settled(node, guess, most) for node in found)


def _settled(node: Node, guess: float, most: float) -> Node:
    if not node.is_weight_known:
        return node.model_copy(update={"weight": guess})
    if node.weight <= most or _weight(node.labels.get(LABEL_ADMIN_WEIGHT)) is not None:
        return node
    return node.model_copy(update={"weight": most})
