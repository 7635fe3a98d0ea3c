"""Deletes files of a table: a bucket, or garbage. Both may be repeated. For dropped tables see ``recycling``."""

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from colocation.model.agent import Removed
from colocation.model.table_manifest import DATA_DIRECTORY, MANIFEST_DIRECTORY, bucket_of_file_name, manifest_path

from .ages import older
from .errors import ManifestMissing, NotHeld
from .inventory import Inventory
from .ledger import FileIdentity, identity_of
from .paths import TablePath, is_file_path, sha256_of_manifest_path
from .quarantine import forget_bucket
from .root import DataRoot

_log = logging.getLogger(__name__)


class LiveManifests(NamedTuple):
    """What a deletion depends on: the live manifests, and the grace for files that none of them names.

    ``manifests`` is never empty: without a live manifest nothing is known to be garbage. The grace counts from when
    this node first saw that no live manifest names a file, not from when the file was written: a query planned on an
    earlier snapshot may still read it.
    """

    manifests: tuple[str, ...]
    grace_seconds: int


Published = Mapping[str, FileIdentity]
"""Files in the table's folder, by path."""


def delete_bucket(inventory: Inventory, table: TablePath, bucket: int, live: LiveManifests) -> Removed:
    """Delete data files of one bucket: those named by a live manifest that is held here, and those unnamed for the
    grace.

    Other nodes hold the former. Files that are neither may belong to a load that commits later or committed after the
    order was given: if they were deleted with a moved replica, they would be lost. Or queries read them.

    Raises:
        ManifestMissing: no live manifest is given. Nothing is deleted.
    """
    root = inventory.root
    _check_given(table, live)
    with root.lock_of(table):
        held = [inventory.table(table).wanted(sha256) for sha256 in live.manifests]
        named = {path for files in held for path in files or ()}
        here = _published(root, table, lambda path: _is_manifest(path) or bucket_of_file_name(path) == bucket)
        of_bucket = {path: identity for path, identity in here.items() if not _is_manifest(path)}
        garbage = _garbage(inventory, table, _unnamed(here, named, live), live, is_all=False)
        forget_bucket(root, table, bucket)
        return _remove(root, table, {path: one for path, one in of_bucket.items() if path in named or path in garbage})


def collect_garbage(inventory: Inventory, table: TablePath, live: LiveManifests) -> Removed:
    """Delete data files and manifests that no live manifest has named for the grace.

    Raises:
        ManifestMissing: no live manifest is given, or one is not held, so it is unknown which files are garbage.
            Nothing is deleted.
    """
    root = inventory.root
    _check_given(table, live)
    with root.lock_of(table):
        held = [inventory.table(table).wanted(sha256) for sha256 in live.manifests]
        missing = [sha256 for sha256, files in zip(live.manifests, held, strict=True) if files is None]
        if missing:
            names = ", ".join(missing)
            raise ManifestMissing(f"manifests {names} of {table} are not held here; put them, then collect")
        named = {path for files in held for path in files or ()}
        unnamed = _unnamed(_published(root, table, lambda path: path not in named), named, live)
        return _remove(root, table, _garbage(inventory, table, unnamed, live, is_all=True))


def _check_given(table: TablePath, live: LiveManifests) -> None:
    if not live.manifests:
        raise ManifestMissing(f"no live manifest of {table} is given, so nothing is known to be garbage; name them all")


def _unnamed(here: Published, named: Collection[str], live: LiveManifests) -> Published:
    """Files that no live manifest names, without the live manifests themselves."""
    manifests = {manifest_path(sha256) for sha256 in live.manifests}
    return {path: identity for path, identity in here.items() if path not in named and path not in manifests}


def _garbage(
    inventory: Inventory, table: TablePath, unnamed: Published, live: LiveManifests, is_all: bool
) -> Published:
    """The files unnamed for the grace, without those that a younger manifest names.

    A manifest not known to be live may be live by now: a load publishes and verifies it, which makes it young, and then
    commits it. Or it was live, and queries planned on it still run. ``is_all``: see ``Ages.of``.
    """
    old = older(inventory.root.ages.of(str(table), unnamed, is_all), live.grace_seconds)
    spared: set[str] = set()
    for path in unnamed.keys() - old:
        sha256 = sha256_of_manifest_path(path)
        if sha256 is None:
            continue
        files = inventory.table(table).wanted(sha256)
        if files is None:
            _log.warning("manifest %s of %s is young and unreadable; nothing counts as garbage", sha256, table)
            return {}
        spared |= files.keys()
    return {path: identity for path, identity in unnamed.items() if path in old and path not in spared}


def _is_manifest(path: str) -> bool:
    return path.startswith(f"{MANIFEST_DIRECTORY}/")


def _published(root: DataRoot, table: TablePath, is_wanted: Callable[[str], bool]) -> Published:
    """The published files with a wanted path."""
    return {
        found.path: identity_of(found.status)
        for top in (DATA_DIRECTORY, MANIFEST_DIRECTORY)
        for _, files in _folders_bottom_up(root, table, top)
        for found in files
        if is_wanted(found.path)
    }


def _remove(root: DataRoot, table: TablePath, doomed: Published) -> Removed:
    """Unlink these files unless another has taken their place, and remove empty partition folders.

    Data goes before manifests: after a kill the manifests still tell what is left.
    """
    freed_bytes, gone = 0, []
    for top in (DATA_DIRECTORY, MANIFEST_DIRECTORY):
        for folder, files in _folders_bottom_up(root, table, top):
            for path, status in files:
                if doomed.get(path) == identity_of(status):
                    os.unlink(path.rpartition("/")[2], dir_fd=folder.descriptor)
                    root.note_change(table)
                    freed_bytes += status.st_size
                    gone.append(path)
            for name in folder.subfolders:
                with contextlib.suppress(OSError):  # not empty, or a link
                    os.rmdir(name, dir_fd=folder.descriptor)
    root.ledger.forget(table, gone)
    root.ages.forget(str(table), gone)
    return Removed(files=len(gone), bytes=freed_bytes)


class _Folder(NamedTuple):
    descriptor: int
    subfolders: list[str]


class _Found(NamedTuple):
    path: str
    status: os.stat_result


def _folders_bottom_up(root: DataRoot, table: TablePath, top: str) -> Iterator[tuple[_Folder, list[_Found]]]:
    """Every folder of ``top``, leaves first, with its published files."""
    try:
        with root.folder((*table, top)), root.folder(table) as folder:
            for path, subfolders, names, descriptor in os.fwalk(
                top, topdown=False, follow_symlinks=False, dir_fd=folder
            ):
                found = [
                    _Found(f"{path}/{name}", os.stat(name, dir_fd=descriptor, follow_symlinks=False)) for name in names
                ]
                files = [one for one in found if stat.S_ISREG(one.status.st_mode) and is_file_path(one.path)]
                yield _Folder(descriptor, subfolders), files
    except NotHeld:
        return
