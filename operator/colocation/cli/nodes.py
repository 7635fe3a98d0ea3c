"""``nodes``, ``drain``, ``undrain``: the nodes that hold replicas."""

from collections import Counter

import click

from ..model.names import ANNOTATION_ACCEPTED_DISK
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
    reason, message = node.not_ready_reason, node.not_ready_message
    if reason is None:
        reason, message = node.disk_reason, node.disk_message
    reason = f"{reason}: {message}" if message else reason
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


@click.command("accept-disk")
@click.argument("node")
@click.argument("disk")
@context_option
@output_option
def accept_disk(node: str, disk: str, context: str | None, output: Format) -> None:
    """Let DISK lie at the data root of NODE from now on. What was on the disk before counts as lost.

    Only after a disk was replaced for good: one that is merely not mounted is to be mounted. DISK is the id that
    `colocation nodes` shows in the reason DiskMissing.
    """
    Cluster(context, None).annotate_node(node, ANNOTATION_ACCEPTED_DISK, disk)
    text = f"node {node} may go on with disk {disk}; its replicas are made anew there: colocation nodes"
    write({"node": node, "acceptedDisk": disk}, text, output)


@click.command()
@click.argument("node")
@context_option
@output_option
def undrain(node: str, context: str | None, output: Format) -> None:
    """Let NODE hold replicas again."""
    Cluster(context, None).set_drain(node, drain=False)
    text = f"node {node} is not marked for drain any more; balancing gives it its share"
    write({"node": node, "drain": False}, text, output)
