"""Deletion: a bucket, garbage, a dropped table (to the recycle bin, later for good). All may be repeated."""

import contextlib
import json
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from colocation.model.agent import Removed
from colocation.model.names import RECYCLE_DIRECTORY
from colocation.model.table_manifest import DATA_DIRECTORY, MANIFEST_DIRECTORY, bucket_of_file_name, manifest_path

from .errors import InvalidPath, ManifestMissing, NotHeld
from .folders import FILE_MODE, names_in, open_regular_file
from .inventory import Inventory
from .paths import TablePath, file_segments
from .root import DataRoot

DEFAULT_KEEP_SECONDS = 86400
"""For a recycled folder whose retention cannot be read."""

_RETENTION_SUFFIX = ".json"
_log = logging.getLogger(__name__)


class Spared(NamedTuple):
    """What a deletion leaves alone: files younger than the grace that none of the live manifests names."""

    live_manifests: tuple[str, ...]
    grace_seconds: int


def delete_bucket(
    root: DataRoot, inventory: Inventory, table: TablePath, bucket: int, spared: Spared
) -> Removed:
    """Delete the data files of one bucket of a table, but for the young ones that no live manifest names.

    Those may be of a load that commits later: were they deleted with a replica that was moved, they would be lost.
    """
    live = {path for sha256 in spared.live_manifests for path in inventory.table(table).wanted(sha256) or ()}
    oldest = root.clock() - spared.grace_seconds
    with root.lock_of(table):
        return _remove(
            root,
            table,
            lambda file: bucket_of_file_name(file.path) == bucket and (file.path in live or file.modified_at < oldest),
        )


def collect_garbage(
    root: DataRoot, inventory: Inventory, table: TablePath, live_manifests: tuple[str, ...], grace_seconds: int
) -> Removed:
    """Delete the data files and manifests that no live manifest names and that are older than the grace.

    Raises:
        ManifestMissing: a live manifest is not held, so it is not known which files are garbage. Nothing is deleted.
    """
    wanted = [inventory.table(table).wanted(sha256) for sha256 in live_manifests]
    missing = [sha256 for sha256, files in zip(live_manifests, wanted, strict=True) if files is None]
    if missing:
        raise ManifestMissing(f"manifests {', '.join(missing)} of {table} are not held here; put them, then collect")
    live = {path for files in wanted for path in files or ()} | {manifest_path(sha256) for sha256 in live_manifests}
    oldest = root.clock() - grace_seconds
    with root.lock_of(table):
        return _remove(root, table, lambda file: file.path not in live and file.modified_at < oldest)


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
                shutil.rmtree(name, dir_fd=recycled)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name + _RETENTION_SUFFIX, dir_fd=recycled)
                purged += 1
    return purged


class _Candidate(NamedTuple):
    path: str
    modified_at: float


def _remove(root: DataRoot, table: TablePath, is_removed: Callable[[_Candidate], bool]) -> Removed:
    """Unlink the published files for which ``is_removed`` holds, and the partition folders left empty."""
    freed_bytes, gone = 0, []
    for top in (DATA_DIRECTORY, MANIFEST_DIRECTORY):
        for path, folders, names, folder in _folders_bottom_up(root, table, top):
            for name in names:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                candidate = _Candidate(f"{path}/{name}", status.st_mtime)
                if stat.S_ISREG(status.st_mode) and _is_allowed(candidate.path) and is_removed(candidate):
                    os.unlink(name, dir_fd=folder)
                    freed_bytes += status.st_size
                    gone.append(candidate.path)
            for name in folders:
                with contextlib.suppress(OSError):  # not empty, or a link: it stays
                    os.rmdir(name, dir_fd=folder)
    root.ledger.forget(table, gone)
    return Removed(files=len(gone), bytes=freed_bytes)


def _folders_bottom_up(
    root: DataRoot, table: TablePath, top: str
) -> Iterator[tuple[str, list[str], list[str], int]]:
    """(path below the table's folder, its folders, its files, descriptor) of ``top`` and all below it, leaves first."""
    try:
        with root.folder((*table, top)), root.folder(table) as folder:
            yield from os.fwalk(top, topdown=False, follow_symlinks=False, dir_fd=folder)
    except NotHeld:
        return


def _is_allowed(path: str) -> bool:
    try:
        file_segments(path)
    except InvalidPath:
        return False
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
