"""How a node is, for the matrix and for the list of nodes. Pure."""

from typing import NamedTuple

from ...model.conditions import Reason
from ...model.snapshot import Node

WELL = "ready"


class NodeState(NamedTuple):
    """One word, why, and since when (RFC 3339; None where nobody knows)."""

    word: str
    reason: str = ""
    since: str | None = None


def node_state(node: Node) -> NodeState:
    """What matters most about a node."""
    if not node.ready:
        since = node.not_ready_since.isoformat() if node.not_ready_since else None
        return NodeState("not ready", _because(node.not_ready_reason, node.not_ready_message), since)
    if node.disk_reason:
        since = node.disk_since.isoformat() if node.disk_since else None
        return NodeState("sick disk", _because(node.disk_reason, node.disk_message), since)
    if node.drain:
        return NodeState("draining", str(Reason.NODE_DRAINING))
    if not node.schedulable:
        return NodeState("takes no new data", "cordoned or tainted, or its disk or agent accepts no new data")
    return NodeState(WELL)


def _because(reason: str | None, message: str) -> str:
    return f"{reason}: {message}" if message else str(reason or "")
