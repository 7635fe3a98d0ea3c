"""``nodes``, ``drain``, ``undrain``, ``accept-disk``: the nodes that hold replicas.

The operator leaves groups out of its snapshot that it cannot decide about: a spec or status that is not valid, an error
of its own, a group without a map whose tables' files it still looks for. Nothing of such a group moves, so a drained
node may keep its replicas; ``nodes`` and ``drain --wait`` name these groups.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ...model.conditions import Reason
from ...model.group import BucketSequence, ColocationGroupStatus
from ...model.names import ANNOTATION_ACCEPTED_DISK, LABEL_DRAIN
from ...model.salvage import salvage
from ...model.snapshot import Node, Snapshot
from ...model.wording import counted, first_few
from ...planner import plan
from ...reconcile.evidence import READERS_LEARN_SECONDS
from ..cluster import Cluster
from ..errors import HTTP_FORBIDDEN, CommandFailed, WrongUsage, api_message, may_pass, said_by
from ..port_forward import fetch_snapshot
from ..terminal.live import Say, View, bar, moving_line, show_once_or_watch, watch_option
from ..terminal.options import complete_node, context_option, operator_namespace_option, output_option, timeout_option
from ..terminal.output import Format, columns, size, write

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a group."""
NO_STALLS: Mapping[Key, str] = {}
MAX_LISTED_GROUPS = 3
EMPTY = (
    f"a kubectl drain goes on {READERS_LEARN_SECONDS:.0f} s after the last replica went, when running executors know "
    "where it is now"
)
A_DISK = re.compile(r"[0-9a-f]{16}")
"""An id as agents make them."""


@dataclass(frozen=True)
class LeftOutGroup:
    """``name``: namespace/name. ``map``: None while it is not known which nodes hold its files. ``why``: one line."""

    name: str
    map: BucketSequence | None
    why: str

    def may_be_on(self, node: str) -> bool:
        """Whether the node may hold replicas of it."""
        return self.map is None or any(node in nodes for nodes in self.map)

    def describe(self) -> str:
        """For people."""
        where = "; it is not known yet which nodes hold its files" if self.map is None else ""
        return f"nothing moves of group {self.name} ({self.why}){where}"


def left_out_groups(cluster: Cluster, snapshot: Snapshot) -> tuple[LeftOutGroup, ...]:
    """The groups of all namespaces that are not in the snapshot, which was taken before.

    Raises:
        CommandFailed: one may not list them.
    """
    try:
        groups = cluster.all_groups()
    except ApiException as error:
        if error.status != HTTP_FORBIDDEN:
            raise
        raise CommandFailed(
            "it is not known whether all replicas are counted: the operator's snapshot leaves out groups that it "
            f"cannot decide about, which cannot be listed ({api_message(error)}); needed: list colocationgroups in all "
            "namespaces, which is part of the ClusterRole colocation-admin (bind it by a ClusterRoleBinding)"
        ) from error
    return left_out_of(snapshot, groups)


def left_out_of(snapshot: Snapshot, groups: Iterable[Json]) -> tuple[LeftOutGroup, ...]:
    """Those of the groups that are not in the snapshot."""
    planned = {(group.namespace, group.name) for group in snapshot.groups}
    return tuple(
        _left_out(group)
        for group in groups
        if (group["metadata"]["namespace"], group["metadata"]["name"]) not in planned
    )


def _left_out(group: Json) -> LeftOutGroup:
    metadata = group["metadata"]
    status, _ = salvage(ColocationGroupStatus, group.get("status"))
    rows = status.backends_per_bucket_seq
    has_unreadable_map = rows is None and bool((group.get("status") or {}).get("backendsPerBucketSeq"))
    if rows is None and not has_unreadable_map and status.reason not in (None, Reason.RECOVERING):
        rows = ()  # it never had a map, so no node was given files of it
    return LeftOutGroup(f"{metadata['namespace']}/{metadata['name']}", rows, _why(metadata, status))


def _why(metadata: Json, status: ColocationGroupStatus) -> str:
    """The reason and message of its first condition that is False, in the operator's words."""
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    said = next((one for one in status.conditions if one.status == "False" and one.message), None)
    if said is None:
        return f"the operator has not said why: colocation show {metadata['name']} -n {metadata['namespace']}"
    return f"{said.reason}: {said.message}"


def describe_left_out(groups: Sequence[LeftOutGroup]) -> str:
    """The first few for people, each with its reason; empty when there are none."""
    return _first_groups([group.describe() for group in groups])


def _first_groups(parts: Sequence[str]) -> str:
    return "; ".join(first_few(parts, MAX_LISTED_GROUPS, lambda more: f"{more} more groups like these"))


INTERVAL_SECONDS = 2.0
UNANSWERED_LOOKS_ALLOWED = 30
"""This many looks in a row may fail for a passing reason (a restarting API server or operator)."""


@dataclass(frozen=True)
class Clock:
    """A monotonic clock, and a way to wait by it."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


CLOCK = Clock(time.monotonic, time.sleep)


@dataclass(frozen=True)
class Remaining:
    """The replicas that a node still has to hand over, and their bytes less those that are copied already.

    ``held_up``: groups that may be on the node, of which nothing moves. Their bytes are not known.
    ``is_seen``: whether the operator knows of the drain; before, it may still give the node replicas.
    ``stalled``: why groups cannot leave the node until somebody acts.
    """

    replicas: int
    bytes: int
    held_up: tuple[LeftOutGroup, ...] = ()
    is_seen: bool = True
    stalled: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether the node may go."""
        return not self.replicas and not self.held_up and self.is_seen

    @property
    def obstacles(self) -> str:
        """What holds up the drain, after a semicolon; empty when nothing does."""
        unseen = [] if self.is_seen else ["the operator has not seen the drain yet"]
        held_up = [describe_left_out(self.held_up)] if self.held_up else []
        stalled = [_first_groups(self.stalled)] if self.stalled else []
        return "".join(f"; {one}" for one in (*unseen, *stalled, *held_up))


def remaining_on(
    snapshot: Snapshot, node: str, left_out: Sequence[LeftOutGroup] = (), stalled: Mapping[Key, str] = NO_STALLS
) -> Remaining:
    """The node's replicas in all groups' maps.

    Args:
        left_out: the groups that are not in the snapshot.
        stalled: of ``stalled_groups``, which plans: once for all nodes of a snapshot.
    """
    replicas = unsent = 0
    here: list[Key] = []
    for group in snapshot.groups:
        buckets = [bucket for bucket, nodes in enumerate(group.map or ()) if node in nodes]
        replicas += len(buckets)
        unsent += sum(map(group.bytes_of, buckets))
        here += [(group.namespace, group.name)] if buckets else []
    replicas += sum(node in nodes for group in left_out for nodes in group.map or ())
    copied = sum(clone.bytes_done for clone in snapshot.clones if clone.source == node)
    held_up = tuple(group for group in left_out if group.may_be_on(node))
    drains = [one.drain for one in snapshot.nodes if one.name == node]
    reasons = tuple(
        f"group {'/'.join(key)} cannot leave it: {stalled[key]}" for key in here if any(drains) and key in stalled
    )
    return Remaining(replicas, max(0, unsent - copied), held_up, all(drains), reasons)


def stalled_groups(snapshot: Snapshot) -> dict[Key, str]:
    """Why groups cannot become what they should be, in the operator's words; empty where no node is drained."""
    if not any(node.drain for node in snapshot.nodes):
        return {}
    return {
        (group.namespace, group.name): f"{group.stalled.reason}: {group.stalled.message}"
        for group in plan(snapshot).groups
        if group.stalled
    }


def wait_until_empty(
    look: Callable[[], Remaining], node: str, timeout_seconds: float | None, clock: Clock = CLOCK
) -> None:
    """Return when no group's map names the node. ``look``: what remains on it now.

    Raises:
        CommandFailed: it took longer, the wait was interrupted, or the cluster does not answer; the drain goes on.
    """
    advice = f"the drain goes on: colocation nodes; take it back: colocation undrain {node}"
    try:
        with moving_line() as say:
            _wait(look, node, timeout_seconds, clock, say)
    except KeyboardInterrupt:
        raise CommandFailed(f"interrupted; {advice}") from None
    except (ApiException, HTTPError, CommandFailed) as error:
        raise CommandFailed(f"{said_by(error)}; {advice}") from error


def _wait(
    look: Callable[[], Remaining], node: str, timeout_seconds: float | None, clock: Clock, say: Say
) -> None:
    begun, first, unanswered = clock.now(), None, 0
    while True:
        try:
            left = look()
        except (ApiException, HTTPError, CommandFailed) as error:
            unanswered += 1
            if unanswered > UNANSWERED_LOOKS_ALLOWED or not may_pass(error):
                raise
            elapsed = clock.now() - begun
            problem = f"it is not known what node {node} still holds: {said_by(error)}"
            shown = f"{problem}; asking again"
        else:
            if left.is_nothing:
                return
            unanswered, first, elapsed = 0, first or left, clock.now() - begun
            problem = _still_held(node, left, elapsed)
            shown = describe(first, left, elapsed)
        if timeout_seconds is not None and elapsed >= timeout_seconds:
            raise CommandFailed(problem)
        say(shown, "")
        clock.sleep(INTERVAL_SECONDS)


def _still_held(node: str, left: Remaining, elapsed_seconds: float) -> str:
    return f"node {node} still holds {counted(left.replicas, 'replica')} after {elapsed_seconds:.0f} s{left.obstacles}"


def describe(first: Remaining, left: Remaining, elapsed_seconds: float) -> str:
    """How far a drain is: a bar, replicas, bytes, the rate since it began to be watched, and what holds it up."""
    sent = max(0, first.bytes - left.bytes)
    share = sent / first.bytes if first.bytes else 1 - left.replicas / max(1, first.replicas)
    rate = f", {size(sent / elapsed_seconds)}/s" if elapsed_seconds > 0 and sent else ""
    return (
        f"{bar(share)} {left.replicas} of {counted(first.replicas, 'replica')} left, "
        f"{size(sent)} of {size(first.bytes)} copied{rate}{left.obstacles}"
    )


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
        matters = tuple(group.describe() for group in left_out if group.map != ())
    except CommandFailed as error:
        left_out, matters = (), (error.message,)
    stalled = stalled_groups(snapshot)
    left = {node.name: remaining_on(snapshot, node.name, left_out, stalled) for node in snapshot.nodes if node.drain}
    drains = [why for name, remaining in left.items() for why in _of_drain(name, remaining)]
    rows = [node.to_json_dict() for node in snapshot.nodes]
    return View(rows, render_nodes(snapshot, left_out), (*drains, *matters))


def _of_drain(node: str, left: Remaining) -> list[str]:
    """What keeps a drained node: groups, or the pause after the last replica."""
    return [f"node {node} is empty: {EMPTY}"] if left.is_nothing else [f"node {node}: {why}" for why in left.stalled]


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
    if reason is None and node.drain:
        reason, message = Reason.NODE_DRAINING, node.drain_message
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
    replicas after --timeout, or if that is not known; the drain goes on. --wait also counts groups that
    the operator cannot decide about, of which nothing moves, and names them.
    """
    if timeout_seconds is not None and not wait:
        raise click.UsageError("--timeout needs --wait: add --wait, or leave --timeout out")
    try:
        cluster = Cluster(context, None)
        cluster.set_drain(node, drain=True)
    except KeyboardInterrupt:
        advice = f"if the drain has begun, it goes on: colocation nodes; take it back: colocation undrain {node}"
        raise CommandFailed(f"interrupted; {advice}") from None
    if not wait:
        text = f"node {node} is marked for drain; watch its replicas go: colocation nodes --watch"
        write({"node": node, "drain": True}, text, output)
        return

    def look() -> Remaining:
        snapshot = fetch_snapshot(cluster.connection, operator_namespace)
        return remaining_on(snapshot, node, left_out_groups(cluster, snapshot), stalled_groups(snapshot))

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
    merely not mounted. DISK is the id that `colocation nodes` shows with DiskMissing.
    """
    if not A_DISK.fullmatch(disk):
        allowed = "the id that `colocation nodes` shows: 16 digits and letters from a to f"
        raise WrongUsage(f"DISK is {disk!r}; allowed: {allowed}")
    Cluster(context, None).annotate_node(node, ANNOTATION_ACCEPTED_DISK, disk)
    text = f"disk {disk} of node {node} is accepted; once the node has it, replicas are made on it: colocation nodes"
    write({"node": node, "acceptedDisk": disk}, text, output)


@click.command()
@click.argument("node", shell_complete=complete_node)
@context_option
@output_option
def undrain(node: str, context: str | None, output: Format) -> None:
    """Allow NODE to hold replicas again.

    This takes back `colocation drain`. A drain by `kubectl drain` is taken back by `kubectl uncordon`.
    """
    cluster = Cluster(context, None)
    found = cluster.find_node(node)
    cluster.set_drain(node, drain=False)
    write({"node": node, "drain": False}, _taken_back(node, found), output)


def _taken_back(node: str, found: Json | None) -> str:
    """What the end of a drain means for a Node as it was before; None = it is not known."""
    labels = (found or {"metadata": {}})["metadata"].get("labels") or {}
    was_marked = found is None or labels.get(LABEL_DRAIN) == "true"
    text = f"node {node} is no longer marked for drain" if was_marked else f"node {node} was not marked for drain"
    if found and (found.get("spec") or {}).get("unschedulable"):
        return f"{text}; it is cordoned: it takes no replicas, and a drain by kubectl goes on: kubectl uncordon {node}"
    return f"{text}; balancing gives it its share" if was_marked else f"{text}; nothing is changed"
