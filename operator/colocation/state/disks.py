"""Whether a node's disk is the one that the groups know, and whether it is well.

Each group remembers, for the nodes of its map, which disk (``storage.marker``) of which Node held its replicas. An
agent that reports another one has lost it: the mount failed, or somebody put in another disk. Nothing is copied there
until the disk is back, an admin accepts the new one (an annotation of the Node), or the Node itself is made anew.
Nodes that report one disk share a data root (a network file system), where each would delete what another one keeps;
they count as away, except the one that held replicas there before.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from datetime import datetime, timedelta
from typing import NamedTuple

from ..model.agent import MARKER_FILE
from ..model.conditions import Reason
from ..model.group import RememberedDisk
from .agent_view import AgentView
from .objects import ObservedNode
from .observation import Observation

UID_CHARACTERS = 8
MAX_MESSAGE_CHARACTERS = 300
MAX_NAMED_NODES = 3
SICK = (Reason.DISK_MISSING, Reason.DISK_FAILING, Reason.DISK_READ_ONLY, Reason.DISK_FULL)


class DiskFault(NamedTuple):
    """What is wrong with a node's disk, and since when as far as its agent knows."""

    reason: Reason
    message: str
    since: datetime


class KnownDisks(NamedTuple):
    """``remembered``: node -> (disk, beginning of the Node's uid), over all groups. ``told``: disk -> the nodes whose
    agents answer and say that it is theirs."""

    remembered: Mapping[str, frozenset[tuple[str, str]]]
    told: Mapping[str, tuple[str, ...]]


def known_disks(observation: Observation) -> KnownDisks:
    """What the groups remember, and what the agents say."""
    remembered: dict[str, set[tuple[str, str]]] = {}
    for group in observation.groups:
        for one in group.status.disks:
            remembered.setdefault(one.node, set()).add((one.disk, one.node_uid))
    told: dict[str, list[str]] = {}
    for name in sorted(observation.nodes_by_name):
        view = observation.agent_views.get(name, AgentView())
        if view.report and view.report.disk and view.silent_since is None:
            told.setdefault(view.report.disk.id, []).append(name)
    return KnownDisks(
        {node: frozenset(known) for node, known in remembered.items()},
        {disk: tuple(nodes) for disk, nodes in told.items() if disk},
    )


def disk_fault(known: KnownDisks, node: ObservedNode, view: AgentView, now: datetime) -> DiskFault | None:
    """What the agent says is wrong with its disk, or that it is another one than the groups know; None = nothing."""
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
    reason = next((one for one in SICK if one == disk.reason), Reason.DISK_FAILING)
    lasted_seconds = max(0.0, view.report.uptime_seconds - disk.since_uptime_seconds)
    return DiskFault(reason, disk.message[:MAX_MESSAGE_CHARACTERS], _moment(view, lasted_seconds, now))


def nodes_without_their_disk(observation: Observation) -> frozenset[str]:
    """Nodes at whose data root another disk lies than the groups know, or one that others have, too, or none.

    What agents say of the files there is not about the node's replicas: nothing of it is to be deleted.
    """
    known, found = known_disks(observation), set[str]()
    for name, node in observation.nodes_by_name.items():
        report = observation.agent_views.get(name, AgentView()).report
        disk = report.disk if report else None
        if disk is not None and (
            disk.reason == Reason.DISK_MISSING or _sharing(known, name, disk.id) or _other_disk(known, node, disk.id)
        ):
            found.add(name)
    return frozenset(found)


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
    """The other nodes whose disk this is, too. Empty for the only one of them of which groups remember it."""
    nodes = known.told.get(disk_id, ())
    owners = [node for node in nodes if any(disk == disk_id for disk, _ in known.remembered.get(node, ()))]
    if name not in nodes or owners == [name]:
        return ()
    return tuple(node for node in nodes if node != name)


def _other_disk(known: KnownDisks, node: ObservedNode, disk_id: str) -> str | None:
    """The disk that is known to have been here, when this is another one."""
    disks = {disk for disk, uid in known.remembered.get(node.name, ()) if _is_same_node(uid, node)}
    if not disk_id or disk_id in disks or disk_id == node.accepted_disk:
        return None
    return min(disks, default=None)


def _is_same_node(node_uid: str, node: ObservedNode) -> bool:
    return node.uid.startswith(node_uid)


def _moment(view: AgentView, seconds_before: float, now: datetime) -> datetime:
    """So long before the agent's answer; never in the future."""
    answered_at = view.answered_at or now
    try:
        since = answered_at - timedelta(seconds=max(0.0, seconds_before))
        return min(since.replace(microsecond=0), now)
    except (OverflowError, ValueError):
        return now
