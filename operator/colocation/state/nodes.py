"""Nodes as the planner sees them: whether they are ready, whether their disk is well, and how much they weigh.

Disks: each group remembers, for the nodes of its map, which disk (``storage.root``) of which Node held its replicas.
An agent that reports another one has lost it: the mount failed, or another disk was put in. Nothing is copied there
until the disk is back, an admin accepts the new one (an annotation of the Node), or the Node is replaced by a new one.
Nodes that report one disk share a data root (a network file system), where each would delete what another one keeps;
they count as away, except the one that held replicas there before.

Weights: by the size of the disk, or by a label. Root on a node can let its agent report any size, and its kubelet may
set labels of its own Node. A node of a great weight gets a replica of nearly every bucket, and root there can read them
all. So a weight counts for at most `MOST_TIMES_MEDIAN` times the median of the other nodes' weights. The label
`LABEL_ADMIN_WEIGHT` has no such bound: the API server (admission plugin NodeRestriction) lets no kubelet set it.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from datetime import datetime, timedelta
from math import inf
from statistics import median_high
from typing import NamedTuple

from ..model.agent import MARKER_FILE
from ..model.conditions import DISK_REASONS, Reason
from ..model.group import RememberedDisk
from ..model.names import LABEL_ADMIN_WEIGHT, LABEL_DRAIN, LABEL_WEIGHT, LABEL_ZONE
from ..model.snapshot import Node
from .agent_view import AgentView
from .objects import ObservedNode
from .observation import Observation

UID_CHARACTERS = 8
MAX_MESSAGE_CHARACTERS = 300
MAX_NAMED_NODES = 3
BYTES_PER_GIB = 1 << 30
MOST_TIMES_MEDIAN = 4.0


class DiskFault(NamedTuple):
    """What is wrong with a node's disk, and since when as far as its agent knows."""

    reason: Reason
    message: str
    since: datetime


class Unready(NamedTuple):
    """Why a node cannot serve its replicas, and since when."""

    reason: Reason | None
    message: str
    since: datetime | None


READY = Unready(None, "", None)


class KnownDisks(NamedTuple):
    """``remembered``: node -> (disk, beginning of the Node's uid), over all groups. ``reported``: disk -> the nodes
    whose agents answer and report it as theirs.
    """

    remembered: Mapping[str, frozenset[tuple[str, str]]]
    reported: Mapping[str, tuple[str, ...]]


def planner_nodes(
    observation: Observation, names: Collection[str], grace: timedelta, errors: dict[str, Exception]
) -> tuple[Node, ...]:
    """The nodes of these names as the planner sees them.

    ``grace``: an agent that is silent for less still counts as ready. ``errors``: takes what a single node's report
    provokes; the node then counts as one whose agent never answered.
    """
    disks = known_disks(observation)
    found: list[Node] = []
    for node in observation.nodes:
        if node.name in names:
            view = observation.agent_views.get(node.name, AgentView())
            try:
                found.append(_node(observation, node, grace, disks, view))
            except Exception as error:  # noqa: BLE001 - whatever one object provokes must not reach the others
                errors.setdefault(f"node {node.name}", error)
                found.append(_node(observation, node, grace, disks, AgentView()))
    return settled_weights(found)


def _node(
    observation: Observation, node: ObservedNode, grace: timedelta, disks: KnownDisks, view: AgentView
) -> Node:
    now = observation.now
    fault = disk_fault(disks, node, view, now)
    missing = fault if fault and fault.reason is Reason.DISK_MISSING else None
    sick = None if missing else fault
    unready = _unready(node, view, grace, now) or (Unready(*missing) if missing else READY)
    capacity_bytes = view.report.capacity_bytes if view.report and not missing else 0
    weight = weight_of(node.labels, capacity_bytes)
    drain_message = _drain_message(observation, node)
    return Node(
        name=node.name,
        zone=node.labels.get(LABEL_ZONE),
        weight=1.0 if weight is None else weight,
        is_weight_known=weight is not None,
        ready=unready.reason is None,
        not_ready_since=min(unready.since, now) if unready.since else None,
        not_ready_reason=unready.reason,
        not_ready_message=unready.message,
        drain=bool(drain_message),
        drain_message=drain_message,
        schedulable=node.schedulable and not sick and node.name not in observation.unready_nodes,
        capacity_bytes=capacity_bytes,
        free_bytes=view.report.free_bytes if view.report else 0,
        labels=dict(node.labels),
        disk_id=view.report.disk.id if view.report and view.report.disk else "",
        disk_reason=sick.reason if sick else None,
        disk_message=sick.message if sick else "",
        disk_since=sick.since if sick else None,
    )


def _unready(node: ObservedNode, view: AgentView, grace: timedelta, now: datetime) -> Unready | None:
    """Why the node or its agent cannot serve; None = both can."""
    if not node.ready:
        return Unready(Reason.NODE_NOT_READY, node.not_ready_message, node.ready_changed_at)
    if view.answered_at is None or (view.silent_since is not None and now - view.silent_since > grace):
        return Unready(Reason.AGENT_NOT_READY, "it does not answer", view.silent_since or now)
    return None


def _drain_message(observation: Observation, node: ObservedNode) -> str:
    """Why the node is drained; empty = it is not."""
    if node.labels.get(LABEL_DRAIN) == "true":
        return "marked by colocation drain"
    if node.name in observation.evicted_nodes:
        return "its holder pod was evicted"
    return "its Node is being deleted" if node.deleting else ""


def known_disks(observation: Observation) -> KnownDisks:
    """What the groups remember, and what the agents report."""
    remembered: dict[str, list[tuple[str, str]]] = {}
    for group in observation.groups:
        for one in group.status.disks:
            remembered.setdefault(one.node, []).append((one.disk, one.node_uid))
    reported: dict[str, list[str]] = {}
    for name in sorted(observation.nodes_by_name):
        view = observation.agent_views.get(name, AgentView())
        if view.report and view.report.disk and view.silent_since is None:
            reported.setdefault(view.report.disk.id, []).append(name)
    return KnownDisks(
        {node: frozenset(known) for node, known in remembered.items()},
        {disk: tuple(nodes) for disk, nodes in reported.items() if disk},
    )


def disk_fault(known: KnownDisks, node: ObservedNode, view: AgentView, now: datetime) -> DiskFault | None:
    """What is wrong with the disk by its agent's report, or that it is not the one that groups know; None = nothing."""
    disk = view.report.disk if view.report else None
    if view.report is None or disk is None:
        return None
    sharing = _sharing(known, node.name, disk.id)
    if sharing:
        message = (
            f"disk {disk.id} is also the disk of {', '.join(sharing[:MAX_NAMED_NODES])}: these nodes share a root, "
            f"or a disk was copied with its {MARKER_FILE}. Give each node a data root of its own (chart value "
            f"dataRoot), or remove that file from the copy and restart its agent"
        )
        return DiskFault(Reason.DISK_MISSING, message, _moment(view, view.report.uptime_seconds, now))
    expected = _other_disk(known, node, disk.id)
    if expected is not None:
        message = (
            f"disk {disk.id} is at the data root instead of {expected}; mount that disk and restart the agent, or, "
            f"if the new disk is to stay: colocation accept-disk {node.name} {disk.id}"
        )
        return DiskFault(Reason.DISK_MISSING, message, _moment(view, view.report.uptime_seconds, now))
    if not disk.reason:
        return None
    reason = next((one for one in DISK_REASONS if one == disk.reason), Reason.DISK_FAILING)
    lasted_seconds = max(0.0, view.report.uptime_seconds - disk.since_uptime_seconds)
    return DiskFault(reason, disk.message[:MAX_MESSAGE_CHARACTERS], _moment(view, lasted_seconds, now))


def nodes_without_their_disk(observation: Observation) -> frozenset[str]:
    """Nodes whose data root is not on the disk that groups know there, or on one that several nodes report.

    The files there are not this node's replicas; nothing of them may be deleted.
    """
    known, nodes = known_disks(observation), observation.nodes_by_name.items()
    return frozenset(
        name for name, node in nodes if _is_without_its_disk(known, node, observation.agent_views.get(name))
    )


def _is_without_its_disk(known: KnownDisks, node: ObservedNode, view: AgentView | None) -> bool:
    disk = view.report.disk if view and view.report else None
    if disk is None:
        return False
    is_other = _sharing(known, node.name, disk.id) or _other_disk(known, node, disk.id)
    return disk.reason == Reason.DISK_MISSING or bool(is_other)


def next_disks(
    before: Iterable[RememberedDisk], placed: Set[str], observation: Observation, faulty: Collection[str]
) -> tuple[RememberedDisk, ...]:
    """What a group is to remember after this pass.

    Args:
        before: what it remembers.
        placed: the nodes of its map.
        observation: the cluster.
        faulty: nodes whose disk is missing.
    """
    known = {one.node: one for one in before}
    found = []
    for name in sorted(known.keys() | placed):
        node = observation.nodes_by_name.get(name)
        if node is None:
            continue
        last = known.get(name)
        if last is not None and not _is_same_node(last.node_uid, node):
            last = None
        report = observation.agent_views.get(name, AgentView()).report
        disk_id = report.disk.id if report and report.disk else ""
        if disk_id and (node.accepted_disk == disk_id or (last is None and name not in faulty)):
            last = RememberedDisk(node=name, node_uid=node.uid[:UID_CHARACTERS], disk=disk_id)
        if last is not None:
            found.append(last)
    return tuple(found)


def _sharing(known: KnownDisks, name: str, disk_id: str) -> tuple[str, ...]:
    """Other nodes that report the same disk. Empty for the node that groups remember it of, if only one."""
    nodes = known.reported.get(disk_id, ())
    owners = [node for node in nodes if any(disk == disk_id for disk, _ in known.remembered.get(node, ()))]
    if name not in nodes or owners == [name]:
        return ()
    return tuple(node for node in nodes if node != name)


def _other_disk(known: KnownDisks, node: ObservedNode, disk_id: str) -> str | None:
    """The disk that groups remember on this node, if it reports another one."""
    disks = {disk for disk, uid in known.remembered.get(node.name, ()) if _is_same_node(uid, node)}
    if not disk_id or disk_id in disks or disk_id == node.accepted_disk:
        return None
    return min(disks, default=None)


def _is_same_node(node_uid: str, node: ObservedNode) -> bool:
    return node.uid.startswith(node_uid)


def _moment(view: AgentView, seconds_before: float, now: datetime) -> datetime:
    """The moment this long before the agent's answer; never in the future."""
    answered_at = view.answered_at or now
    try:
        since = answered_at - timedelta(seconds=max(0.0, seconds_before))
        return min(since.replace(microsecond=0), now)
    except (OverflowError, ValueError):
        return now


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
    """The nodes with the weights that the planner uses.

    A node of unknown weight gets the median. Weights are limited to a multiple of the median, unless an administrator
    has set them.
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
