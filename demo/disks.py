"""The files on the embedded cluster's node disks, read from outside, not from any report."""

from collections.abc import Iterable
from pathlib import Path

from devcluster import disks, paths

from . import workload


def nodes() -> list[str]:
    """Names of all nodes that have a disk here."""
    return sorted(folder.name for folder in paths.NODES.iterdir())


def data_root(node: str) -> Path:
    """The node's data root, as this machine sees it."""
    return paths.NODES / node / disks.DATA


def data_files(node: str, tables: str = "*", namespace: str = workload.NAMESPACE) -> list[Path]:
    """The committed and uncommitted data files on a node, of the tables' folders that match."""
    return sorted((data_root(node) / namespace).glob(f"{tables}/data/**/*.parquet"))


def data_bytes(names: Iterable[str]) -> int:
    """Bytes of the data files on these nodes."""
    return sum(file.stat().st_size for node in names for file in data_files(node))
