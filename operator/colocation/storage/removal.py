"""Deletion of a table's files: a bucket, garbage. Both may be repeated. Dropped tables: see ``recycling``."""

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from colocation.model.agent import Removed
from colocation.model.table_manifest import DATA_DIRECTORY, MANIFEST_DIRECTORY, bucket_of_file_name, manifest_path

from .errors import InvalidPath, ManifestMissing, NotHeld
from .folders import names_in
from .inventory import Inventory
from .paths import TablePath, is_file_path, sha256_of_manifest_path
from .quarantine import forget_bucket
from .root import DataRoot

_log = logging.getLogger(__name__)


class Live(NamedTuple):
    """What a deletion goes by: the manifests that are live, and for how long it spares what none of them names.

    ``manifests`` is never empty: without a live manifest it is not known what is garbage.
    """

    manifests: tuple[str, ...]
    grace_seconds: int


def delete_bucket(root: DataRoot, inventory: Inventory, table: TablePath, bucket: int, live: Live) -> Removed:
    """Delete the data files of one bucket of a table: those that a live manifest names which is held here, since
    other nodes hold them; and those that are older than the grace.

    The others may be of a load that commits later, or that has committed since the order was given: were they deleted
    with a replica that was moved, they would be lost.

    Raises:
        ManifestMissing: no live manifest is given. Nothing is deleted.
    """
    _check_given(table, live)
    with root.lock_of(table):
        held = [inventory.table(table).wanted(sha256) for sha256 in live.manifests]
        named = {path for files in held for path in files or ()}
        spared = _of_young_manifests(root, inventory, table, live)

        def goes(file: _Candidate) -> bool:
            if bucket_of_file_name(file.path) != bucket:
                return False
            return file.path in named or _is_garbage(root, file, spared, live)

        forget_bucket(root, table, bucket)
        return _remove(root, table, goes)


def collect_garbage(root: DataRoot, inventory: Inventory, table: TablePath, live: Live) -> Removed:
    """Delete the data files and manifests that no live manifest names and that are older than the grace.

    Raises:
        ManifestMissing: no live manifest is given, or one is not held, so it is not known which files are garbage.
            Nothing is deleted.
    """
    _check_given(table, live)
    with root.lock_of(table):
        held = [inventory.table(table).wanted(sha256) for sha256 in live.manifests]
        missing = [sha256 for sha256, files in zip(live.manifests, held, strict=True) if files is None]
        if missing:
            names = ", ".join(missing)
            raise ManifestMissing(f"manifests {names} of {table} are not held here; put them, then collect")
        named = {path for files in held for path in files or ()} | {manifest_path(one) for one in live.manifests}
        spared = _of_young_manifests(root, inventory, table, live)
        return _remove(root, table, lambda file: file.path not in named and _is_garbage(root, file, spared, live))


def _check_given(table: TablePath, live: Live) -> None:
    if not live.manifests:
        raise ManifestMissing(f"no live manifest of {table} is given, so nothing is known to be garbage; name them all")


def _is_garbage(root: DataRoot, file: "_Candidate", spared: Collection[str] | None, live: Live) -> bool:
    """Whether a file that no live manifest names may go. ``spared`` None: it is not known what to spare."""
    return (
        spared is not None
        and file.path not in spared
        and root.ages.is_older(file.modified_at, live.grace_seconds)
    )


def _of_young_manifests(
    root: DataRoot, inventory: Inventory, table: TablePath, live: Live
) -> frozenset[str] | None:
    """The files, and the paths, of manifests here that are not known to be live but may be by now: those that were
    published or verified within the grace. A load publishes and verifies its manifest, then commits it.

    None when one of them cannot be read.
    """
    spared: set[str] = set()
    for sha256, modified_at in _manifests(root, table):
        is_used = root.was_used_within(table, sha256, live.grace_seconds)
        if sha256 in live.manifests or (not is_used and root.ages.is_older(modified_at, live.grace_seconds)):
            continue
        files = inventory.table(table).wanted(sha256)
        if files is None:
            _log.warning("manifest %s of %s is young and cannot be read; nothing counts as garbage", sha256, table)
            return None
        spared |= {manifest_path(sha256), *files}
    return frozenset(spared)


def _manifests(root: DataRoot, table: TablePath) -> list[tuple[str, float]]:
    """Digest and modification time of every manifest of a table."""
    try:
        with root.folder((*table, MANIFEST_DIRECTORY)) as folder:
            return [
                (sha256, os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime)
                for name in names_in(folder)
                if (sha256 := sha256_of_manifest_path(name)) is not None
            ]
    except (NotHeld, InvalidPath):
        return []


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
                if stat.S_ISREG(status.st_mode) and is_file_path(candidate.path) and is_removed(candidate):
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
