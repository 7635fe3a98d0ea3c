"""``nodes``, ``drain``, ``undrain``: the nodes that hold replicas."""

from collections import Counter
from collections.abc import Sequence

import click

from ...model.names import ANNOTATION_ACCEPTED_DISK
from ...model.snapshot import Node, Snapshot
from ..cluster import Cluster
from ..errors import CommandFailed
from ..operator_port import fetch_snapshot
from ..terminal.completed_names import complete_node
from ..terminal.options import context_option, operator_namespace_option, output_option, timeout_option
from ..terminal.output import Format, columns, size, write
from ..terminal.watching import View, show_once_or_watch, watch_option
from .draining import CLOCK, Remaining, remaining_on, wait_until_empty
from .left_out import LeftOutGroup, left_out_groups


@click.command()
@context_option
@operator_namespace_option
@watch_option
@output_option
def nodes(context: str | None, operator_namespace: str, watch: bool, output: Format) -> None:
    """List nodes: readiness, weight, replicas, disk.

    The command shows each node as the operator sees it, and why it is not ready.
    """
    cluster = Cluster(context, None)
    show_once_or_watch(lambda: _nodes_view(cluster, operator_namespace), watch, output)


def _nodes_view(cluster: Cluster, operator_namespace: str) -> View:
    snapshot = fetch_snapshot(cluster.connection, operator_namespace)
    try:
        left_out = left_out_groups(cluster, snapshot)
        matters = tuple(group.said() for group in left_out if group.map != ())
    except CommandFailed as error:
        left_out, matters = (), (error.message,)
    return View([node.to_json_dict() for node in snapshot.nodes], render_nodes(snapshot, left_out), matters)


def render_nodes(snapshot: Snapshot, left_out: Sequence[LeftOutGroup] = ()) -> str:
    """One row per node; REPLICAS counts the places in all groups' maps, also of those that are not in the snapshot."""
    maps = [*(group.map or () for group in snapshot.groups), *(group.map or () for group in left_out)]
    places = Counter(node for rows in maps for bucket in rows for node in bucket)
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
@click.argument("node", shell_complete=complete_node)
@click.option("--wait", is_flag=True, help="Wait until no group's map names NODE.")
@timeout_option
@context_option
@operator_namespace_option
@output_option
def drain(
    node: str, wait: bool, timeout_seconds: float | None, context: str | None, operator_namespace: str, output: Format
) -> None:
    """Move all replicas away from NODE.

    The replicas on NODE serve until their successors are complete. With --wait the exit code is 1 if NODE still holds
    replicas after --timeout, or if nobody can say whether it does; the drain goes on. --wait also counts groups that
    the operator cannot decide about, of which nothing moves, and names them.
    """
    if timeout_seconds is not None and not wait:
        raise click.UsageError("--timeout needs --wait: add --wait, or leave --timeout out")
    cluster = Cluster(context, None)
    cluster.set_drain(node, drain=True)
    if not wait:
        text = f"node {node} is marked for drain; watch its replicas go: colocation nodes --watch"
        write({"node": node, "drain": True}, text, output)
        return

    def look() -> Remaining:
        snapshot = fetch_snapshot(cluster.connection, operator_namespace)
        return remaining_on(snapshot, node, left_out_groups(cluster, snapshot))

    wait_until_empty(look, node, timeout_seconds, CLOCK)
    write({"node": node, "drain": True, "empty": True}, f"node {node} no longer holds replicas", output)


@click.command("accept-disk")
@click.argument("node", shell_complete=complete_node)
@click.argument("disk")
@context_option
@output_option
def accept_disk(node: str, disk: str, context: str | None, output: Format) -> None:
    """Accept DISK as the data disk of NODE.

    Replicas on the old disk then count as lost. Use this only after a disk was replaced for good; mount a disk that is
    merely not mounted. DISK is the id that `colocation nodes` shows beside DiskMissing.
    """
    Cluster(context, None).annotate_node(node, ANNOTATION_ACCEPTED_DISK, disk)
    text = f"disk {disk} of node {node} is accepted; once the node has it, replicas are made on it: colocation nodes"
    write({"node": node, "acceptedDisk": disk}, text, output)


@click.command()
@click.argument("node", shell_complete=complete_node)
@context_option
@output_option
def undrain(node: str, context: str | None, output: Format) -> None:
    """Allow NODE to hold replicas again."""
    Cluster(context, None).set_drain(node, drain=False)
    text = f"node {node} is no longer marked for drain; balancing gives it its share"
    write({"node": node, "drain": False}, text, output)
