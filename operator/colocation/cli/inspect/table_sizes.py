"""How large a table is, for ``advise``: by its snapshot, or by the files below a folder."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from ...model.salvage import salvage
from ...model.table import ColocatedTableStatus
from ..errors import CommandFailed, WrongUsage

Json = dict[str, Any]


@dataclass(frozen=True)
class TableSize:
    """Bytes of one replica as Parquet, and the partitions that they are in; 1 = not partitioned."""

    bytes: int
    partitions: int


def size_of_table(item: Json) -> TableSize:
    """What the table's newest snapshot says.

    Raises:
        CommandFailed: nothing was loaded yet.
    """
    status, _ = salvage(ColocatedTableStatus, item.get("status"))
    if status.snapshot is None or not status.snapshot.bytes:
        raise CommandFailed(f"table {item['metadata']['name']} holds no rows yet: give --from or --size instead")
    return TableSize(status.snapshot.bytes, max(1, status.snapshot.partitions))


def size_of_files(path: str) -> TableSize:
    """The files below a folder as Spark sees them: names that begin with ``_`` or ``.`` are none.

    Raises:
        WrongUsage: there is no such file or folder on this machine, or nothing is in it.
    """
    if "://" in path:
        raise WrongUsage(f"{path} is not on this machine: look up its size there, and give it by --size")
    if not Path(path).exists():
        raise WrongUsage(f"there is no file or folder {path}")
    found = [Path(path)] if Path(path).is_file() else list(_data_files(path))
    total = sum(file.stat().st_size for file in found)
    if not total:
        raise WrongUsage(f"no data files are in {path}")
    return TableSize(total, len({file.parent for file in found}))


def _data_files(folder: str) -> Sequence[Path]:
    files: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        files += [Path(parent, name) for name in names if not name.startswith(("_", "."))]
    return files


def cores_of(nodes: Sequence[Json]) -> int:
    """All cores that pods may have on these Nodes; 1 at least."""
    cores = sum(parse_quantity(node.get("status", {}).get("allocatable", {}).get("cpu", 0)) for node in nodes)
    return max(1, int(cores))
