"""The recycle bin: dropped tables wait there, come back, or go for good. All may be repeated.

A folder of the bin is named ``<namespace>.<directory>.<unix time>``; a file of that name with ``.json`` says how long
it is kept.
"""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from colocation.model.agent import RecycledSchema
from colocation.model.names import RECYCLE_DIRECTORY
from colocation.model.table_manifest import MANIFEST_DIRECTORY, decode_manifest

from .errors import InvalidPath, ManifestMissing, NotHeld
from .folders import FILE_MODE, names_in, open_regular_file
from .inventory import Inventory
from .paths import TablePath, is_namespace, is_table_directory
from .root import DataRoot

DEFAULT_KEEP_SECONDS = 86400
"""For a recycled folder whose retention cannot be read."""

_RETENTION_SUFFIX = ".json"
_log = logging.getLogger(__name__)


class Recycled(NamedTuple):
    """A folder in the bin; ``name`` is its own."""

    table: TablePath
    recycled_at: int
    name: str


def recycle(root: DataRoot, inventory: Inventory, table: TablePath, keep_seconds: int) -> None:
    """Move a table's folder into the recycle bin; nothing there is no error."""
    name = f"{table.namespace}.{table.directory}.{int(root.clock())}"
    with root.folder((RECYCLE_DIRECTORY,), create=True) as recycled, root.lock_of(table):
        try:
            with root.folder((table.namespace,)) as namespace:
                os.stat(table.directory, dir_fd=namespace, follow_symlinks=False)
                _write_retention(recycled, name, keep_seconds)
                os.rename(table.directory, name, src_dir_fd=namespace, dst_dir_fd=recycled)
                os.fsync(namespace)
            os.fsync(recycled)
        except (FileNotFoundError, NotHeld):
            _log.info("table %s is not on this node; nothing to recycle", table)
    inventory.forget(table)


def restore(root: DataRoot, inventory: Inventory, dropped: TablePath, successor: TablePath) -> None:
    """Make a dropped table's folder that of the table that brings it back, in one rename.

    It may lie in the bin, or still in its place (the node was away when the table was dropped). Nothing there, or a
    successor that has a folder already, is no error.

    Raises:
        InvalidPath: the successor is a table of another name: nobody gets at another table's files.
    """
    if (dropped.namespace, dropped.table) != (successor.namespace, successor.table):
        raise InvalidPath(f"{successor} cannot take over the files of {dropped}; allowed: a table of the same name")
    with root.folder((RECYCLE_DIRECTORY,), create=True) as bin_folder, root.lock_of(dropped), root.lock_of(successor):
        with root.folder((dropped.namespace,), create=True) as namespace:
            names = names_in(namespace)
            found = [one for one in recycled_tables(root) if one.table == dropped]
            if successor.directory in names or not (found or dropped.directory in names):
                return
            if dropped.directory in names:
                os.rename(dropped.directory, successor.directory, src_dir_fd=namespace, dst_dir_fd=namespace)
            else:
                newest = max(found, key=lambda one: one.recycled_at).name
                os.rename(newest, successor.directory, src_dir_fd=bin_folder, dst_dir_fd=namespace)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(newest + _RETENTION_SUFFIX, dir_fd=bin_folder)
            os.fsync(namespace)
        os.fsync(bin_folder)
    inventory.forget(dropped)
    inventory.forget(successor)


def recycled_tables(root: DataRoot) -> Iterator[Recycled]:
    """Every folder in the bin, by name."""
    with root.folder((RECYCLE_DIRECTORY,), create=True) as recycled:
        names = names_in(recycled)
    for name in names:
        namespace, _, rest = name.partition(".")
        directory, _, seconds = rest.rpartition(".")
        if seconds.isdigit() and is_namespace(namespace) and is_table_directory(directory):
            yield Recycled(TablePath(namespace, directory), int(seconds), name)


def recycled_schema(root: DataRoot, table: TablePath, manifest: str) -> RecycledSchema:
    """The schema that a dropped table's manifest holds.

    Raises:
        ManifestMissing: the table is not in the bin, or the manifest is not with it, or is damaged.
    """
    for one in recycled_tables(root):
        if one.table != table:
            continue
        try:
            with (
                root.folder((RECYCLE_DIRECTORY, one.name, MANIFEST_DIRECTORY)) as folder,
                os.fdopen(open_regular_file(folder, f"{manifest}.json.zst"), "rb") as file,
            ):
                found = decode_manifest(file.read(), manifest)
        except (NotHeld, InvalidPath, ValueError) as error:
            _log.warning("recycled %s: %s", one.name, error)
            continue
        return RecycledSchema(
            columns=found.columns,
            bucketed_by=found.bucketed_by,
            partitioned_by=found.partitioned_by,
            sorted_by=found.sorted_by,
            buckets=found.buckets,
        )
    raise ManifestMissing(f"manifest {manifest} of {table} is not in the recycle bin of this node; ask another one")


def purge_expired(root: DataRoot) -> int:
    """Delete recycled tables whose retention is over; how many. The retention goes last, so a kill loses nothing."""
    purged = 0
    with root.folder((RECYCLE_DIRECTORY,), create=True) as recycled:
        names = names_in(recycled)
        for name in names:
            if name.endswith(_RETENTION_SUFFIX):
                if name.removesuffix(_RETENTION_SUFFIX) not in names:
                    _remove_old_orphan(root, recycled, name)
            elif _recycled_at(recycled, name) + _read_retention(recycled, name) <= root.clock():
                purged += _purge(root, recycled, name)
    return purged


def _purge(root: DataRoot, recycled: int, name: str) -> bool:
    """Delete one folder, unless it was just brought back."""
    namespace, _, rest = name.partition(".")
    with root.lock_of(TablePath(namespace, rest.rpartition(".")[0])):
        try:
            shutil.rmtree(name, dir_fd=recycled)
        except FileNotFoundError:
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name + _RETENTION_SUFFIX, dir_fd=recycled)
    return True


def _write_retention(recycled: int, name: str, keep_seconds: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name + _RETENTION_SUFFIX, flags, FILE_MODE, dir_fd=recycled), "w") as file:
        json.dump({"keepSeconds": keep_seconds}, file)
        file.flush()
        os.fsync(file.fileno())


def _remove_old_orphan(root: DataRoot, recycled: int, name: str) -> None:
    """Remove a retention whose folder never came (a kill in between); a young one's may still come."""
    written_at = os.stat(name, dir_fd=recycled, follow_symlinks=False).st_mtime
    if written_at < root.clock() - DEFAULT_KEEP_SECONDS:
        os.unlink(name, dir_fd=recycled)


def _read_retention(recycled: int, name: str) -> int:
    try:
        with os.fdopen(open_regular_file(recycled, name + _RETENTION_SUFFIX)) as file:
            return int(json.load(file)["keepSeconds"])
    except (NotHeld, InvalidPath, ValueError, KeyError, TypeError) as error:
        _log.warning("recycled %s has no retention (%s); it is kept for %d s", name, error, DEFAULT_KEEP_SECONDS)
        return DEFAULT_KEEP_SECONDS


def _recycled_at(recycled: int, name: str) -> float:
    """When a table was recycled, seconds since the epoch: the end of the folder's name."""
    seconds = name.rpartition(".")[2]
    return float(seconds) if seconds.isdigit() else os.stat(name, dir_fd=recycled, follow_symlinks=False).st_ctime
