"""The state of each node, and of each bucket on each node of a group: rows of nodes, cells where something is. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

from ...model.conditions import Reason
from ...model.group import ColocationGroupStatus
from ...model.plan import GroupPlan
from ...model.snapshot import GroupState, Node, Snapshot

WELL = "ready"


class NodeState(NamedTuple):
    """One word, why, and since when (RFC 3339; None where it is not known)."""

    word: str
    reason: str = ""
    since: str | None = None


def node_state(node: Node) -> NodeState:
    """The most important state of a node."""
    if not node.ready:
        since = node.not_ready_since.isoformat() if node.not_ready_since else None
        return NodeState("not ready", _because(node.not_ready_reason, node.not_ready_message), since)
    if node.disk_reason:
        since = node.disk_since.isoformat() if node.disk_since else None
        return NodeState("sick disk", _because(node.disk_reason, node.disk_message), since)
    if node.drain:
        return NodeState("draining", _because(Reason.NODE_DRAINING, node.drain_message))
    if not node.schedulable:
        return NodeState("takes no new data", "cordoned or tainted, or its disk or agent accepts no new data")
    return NodeState(WELL)


def _because(reason: str | None, message: str) -> str:
    return f"{reason}: {message}" if message else str(reason or "")


State = Literal[
    "complete", "partial", "corrupt", "missing", "down", "copying", "failed", "planned", "proposed", "surplus",
    "unknown",
]
HELD: dict[str, tuple[State, str]] = {
    "complete": ("complete", ""),
    "partial": ("partial", "ReplicaIncomplete: some of the files are not there"),
    "corrupt": ("corrupt", "ReplicaCorrupt: files are damaged"),
    "missing": ("missing", "ReplicaMissing: none of the files is there"),
    "down": ("down", "the node cannot be read now"),
}


@dataclass(frozen=True)
class Cell:
    """A replica, or a planned one. ``since``: RFC 3339; None where it is not known. ``percent``: of a copy."""

    bucket: int
    state: State
    reason: str = ""
    since: str | None = None
    percent: int | None = None


@dataclass(frozen=True)
class Row:
    """A node with its cells, by bucket. ``state``: of the node, empty when it is well."""

    node: str
    state: str
    cells: tuple[Cell, ...]


def matrix_of(
    status: ColocationGroupStatus, snapshot: Snapshot | None, state: GroupState | None, planned: GroupPlan | None
) -> list[Row]:
    """All nodes that hold something of the group, or are to; by name."""
    cells: dict[str, dict[int, Cell]] = defaultdict(dict)
    nodes = {node.name: node for node in snapshot.nodes} if snapshot else {}
    if snapshot is None or state is None:
        found: Iterator[tuple[str, Cell]] = _reported(status)
        clones: Iterator[tuple[str, Cell]] = iter(())
    else:
        found = chain(_surplus(state), _planned(planned), _mapped(nodes, state))
        clones = _clones(snapshot, state)
    for name, cell in found:
        cells[name][cell.bucket] = cell  # later ones are more specific
    for name, cell in clones:
        known = cells[name].get(cell.bucket)
        if known is None or known.state != "complete":
            cells[name][cell.bucket] = cell
    names = sorted(cells, key=natural_order)
    return [Row(name, _node_word(nodes.get(name), snapshot), _by_bucket(cells[name])) for name in names]


def natural_order(name: str) -> list[tuple[int, str]]:
    """``node-2`` comes before ``node-10``."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]{1,18})", name)]


def last_replicas(snapshot: Snapshot) -> Counter[str]:
    """By node: of how many buckets it alone has a complete replica that can be read now."""
    ready = {node.name for node in snapshot.nodes if node.ready}
    found = Counter[str]()
    for group in snapshot.groups:
        holders = defaultdict[int, list[str]](list)
        for name in ready & group.held.keys():
            for bucket, held in group.held[name].items():
                if held == "complete":
                    holders[bucket].append(name)
        found.update(names[0] for names in holders.values() if len(names) == 1)
    return found


def _by_bucket(cells: dict[int, Cell]) -> tuple[Cell, ...]:
    return tuple(cells[bucket] for bucket in sorted(cells))


def _node_word(node: Node | None, snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return ""
    if node is None:
        return "gone"
    word = node_state(node).word
    return "" if word == WELL else word


def _reported(status: ColocationGroupStatus) -> Iterator[tuple[str, Cell]]:
    """By the status alone, which lists the first unstable buckets only."""
    problems = {one.bucket: one for one in status.unstable_buckets}
    all_listed = (status.unstable_bucket_count or 0) <= len(problems)
    for bucket, row in enumerate(status.backends_per_bucket_seq or ()):
        problem = problems.get(bucket)
        for node in row:
            if problem is None:
                yield node, Cell(bucket, "complete" if all_listed and status.stable is not None else "unknown")
                continue
            word, reason = HELD.get(problem.replicas.get(node, ""), ("unknown", ""))
            yield node, Cell(bucket, word, "" if word == "complete" else problem.message or reason, problem.since)


def _mapped(nodes: dict[str, Node], state: GroupState) -> Iterator[tuple[str, Cell]]:
    for bucket, row in enumerate(state.map or ()):
        moment = state.unstable_since.get(bucket)
        since = moment.isoformat() if moment else None
        for name in row:
            yield name, _replica(nodes.get(name), state, bucket, since)


def _replica(node: Node | None, state: GroupState, bucket: int, since: str | None) -> Cell:
    if node is None:
        return Cell(bucket, "down", "NodeGone: the node no longer exists", since)
    if not node.ready:
        at = node.not_ready_since.isoformat() if node.not_ready_since else since
        return Cell(bucket, "down", f"{node.not_ready_reason}: {node.not_ready_message}".strip(": "), at)
    if bucket in state.unconfirmed.get(node.name, ()):
        return Cell(bucket, "complete", "complete when its agent last spoke, which is asked again")
    held = state.held.get(node.name, {}).get(bucket, "missing" if state.bytes_of(bucket) else "complete")
    word, reason = HELD[held]
    return Cell(bucket, word, reason, None if word == "complete" else since)


def _surplus(state: GroupState) -> Iterator[tuple[str, Cell]]:
    for name, buckets in state.held.items():
        for bucket, held in buckets.items():
            yield name, Cell(bucket, "surplus", f"{held}; not in the map, deleted once it is safe")


def _clones(snapshot: Snapshot, state: GroupState) -> Iterator[tuple[str, Cell]]:
    for clone in snapshot.clones:
        if (clone.namespace, clone.group) != (state.namespace, state.name):
            continue
        since = clone.since.isoformat()
        if clone.retry_at is not None:
            reason = f"CloneFailed: {clone.failures} failed; next try at {clone.retry_at.isoformat()}"
            yield clone.to, Cell(clone.bucket, "failed", reason, since)
            continue
        size_bytes = state.bytes_of(clone.bucket)
        percent = min(100, 100 * clone.bytes_done // size_bytes) if size_bytes else None
        yield clone.to, Cell(clone.bucket, "copying", f"from {clone.source or 'any replica'}", since, percent)


def _planned(planned: GroupPlan | None) -> Iterator[tuple[str, Cell]]:
    if planned is None:
        return
    for move in planned.moves:
        yield move.to, Cell(move.bucket, "planned", f"{move.reason}: {move.kind}, in place of {move.source or 'none'}")
    if planned.proposal and not planned.proposal.approved:
        for one in planned.proposal.moves:
            reason = f"AwaitingApproval: in place of {one.source}"
            yield one.to, Cell(one.bucket, "proposed", reason)
