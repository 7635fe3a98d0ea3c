"""What must have happened by now: faults that never heal leave every repair done that is possible next to them.

Judged by what nodes and disks are, not by what the operator thinks of them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .api import JsonObject
from .disks import Disk

if TYPE_CHECKING:
    from .world import Machine, World

HEADROOM_FRACTION = 0.1


def repairs_left(world: "World", group: JsonObject, bad_node: str | None = None) -> list[str]:
    """Replicas of the map that are not whole although a node could give them and their node, or another, take them.

    Nodes that are not usable now count as lost: ask when the group's tolerance is over. Nothing is asked of
    ``bad_node``.
    """
    return list(_repairs_left(world, group, bad_node))


def _repairs_left(world: "World", group: JsonObject, bad_node: str | None) -> Iterator[str]:
    metadata, rows = group["metadata"], group.get("status", {}).get("backendsPerBucketSeq") or []
    tables = world.tables_of((metadata["namespace"], metadata["name"]))
    for bucket, row in enumerate(rows):
        files = {file for table in tables for file in world.committed(table) if file.bucket == bucket}
        whole = {name for name, machine in world.machines.items() if machine.disk.holds_all(files)}
        if not files or not any(_is_usable(world, name) and _is_readable(world, name) for name in whole):
            continue
        for node in set(row) - {bad_node}:
            if _is_usable(world, node) and _takes_writes(world, node):
                if node not in whole:
                    yield f"{metadata['name']}: bucket {bucket} could be mended on {node}"
            elif not _is_usable(world, node):
                able = _with_room(world, [*row, bad_node], sum(file.size_bytes for file in files))
                if able:
                    yield f"{metadata['name']}: bucket {bucket} could go from {node} to {able}"


def _with_room(world: "World", row: list[str | None], size_bytes: int) -> list[str]:
    return [
        name
        for name, machine in world.machines.items()
        if name not in row
        and _is_usable(world, name)
        and _takes_writes(world, name)
        and _room(machine.disk) >= size_bytes
    ]


def _room(disk: Disk) -> float:
    return disk.free_bytes - HEADROOM_FRACTION * disk.capacity_bytes


def _machine(world: "World", node: str) -> "Machine | None":
    return world.machines.get(node)


def _is_usable(world: "World", node: str) -> bool:
    """Whether the node runs, its agent is heard, and its disk is there."""
    machine = _machine(world, node)
    return machine is not None and machine.is_up and not world.network.is_cut(node) and machine.disk.is_readable


def _is_readable(world: "World", node: str) -> bool:
    machine = _machine(world, node)
    return machine is not None and machine.disk.is_readable


def _takes_writes(world: "World", node: str) -> bool:
    machine = _machine(world, node)
    return machine is not None and machine.disk.takes_writes and not machine.sick and not machine.holds_jobs
