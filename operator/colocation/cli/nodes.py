"""``nodes``, ``drain``, ``undrain``: the nodes that hold replicas."""

from collections import Counter

import click

from ..model.snapshot import Node, Snapshot
from .cluster import Cluster
from .operator_port import fetch_snapshot
from .options import context_option, operator_namespace_option, output_option
from .output import Format, columns, size, write


@click.command()
@context_option
@operator_namespace_option
@output_option
def nodes(context: str | None, operator_namespace: str, output: Format) -> None:
    """The nodes as the operator sees them: ready or why not, drained, weight, replicas, disk."""
    snapshot = fetch_snapshot(Cluster(context, None).connection, operator_namespace)
    value = [node.to_json_dict() for node in snapshot.nodes]
    write(value, render_nodes(snapshot), output)


def render_nodes(snapshot: Snapshot) -> str:
    """One row per node; REPLICAS counts the places in all groups' maps."""
    places = Counter(node for group in snapshot.groups for bucket in group.map or () for node in bucket)
    header = ["NAME", "READY", "DRAIN", "ZONE", "WEIGHT", "REPLICAS", "FREE", "CAPACITY", "REASON"]
    ordered = sorted(snapshot.nodes, key=lambda node: node.name)
    return columns(header, [_row(node, places[node.name]) for node in ordered])


def _row(node: Node, replicas: int) -> list[object]:
    reason = f"{node.not_ready_reason}: {node.not_ready_message}" if node.not_ready_message else node.not_ready_reason
    return [
        node.name, node.ready, node.drain, node.zone, f"{node.weight:g}", replicas, size(node.free_bytes),
        size(node.capacity_bytes), reason,
    ]


@click.command()
@click.argument("node")
@context_option
@output_option
def drain(node: str, context: str | None, output: Format) -> None:
    """Move all replicas away from NODE. It serves until their successors are complete."""
    Cluster(context, None).set_drain(node, drain=True)
    text = f"node {node} is marked for drain; watch its replicas go: colocation nodes"
    write({"node": node, "drain": True}, text, output)


@click.command()
@click.argument("node")
@context_option
@output_option
def undrain(node: str, context: str | None, output: Format) -> None:
    """Let NODE hold replicas again."""
    Cluster(context, None).set_drain(node, drain=False)
    text = f"node {node} is not marked for drain any more; balancing gives it its share"
    write({"node": node, "drain": False}, text, output)
