"""Deletion of a table's files: a bucket, garbage. Both may be repeated. Dropped tables: see ``recycling``."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from colocation.model.agent import Removed
from colocation.model.table_manifest import DATA_DIRECTORY, MANIFEST_DIRECTORY, bucket_of_file_name, manifest_path

from .errors import InvalidPath, ManifestMissing, NotHeld
from .inventory import Inventory
from .paths import TablePath, file_segments
from .root import DataRoot


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
                    root.note_change(table)
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
