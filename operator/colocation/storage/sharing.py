"""Files that a table shares with a dropped one's folder: links, so that the folder can still come back itself."""

import contextlib
import logging
import os
from collections.abc import Iterable, Sequence

from colocation.model.table_manifest import TableManifest, manifest_path

from .errors import InvalidPath, NotHeld
from .folder_manifests import read_manifest
from .folders import names_in
from .paths import TablePath
from .quarantine import quarantined
from .root import DataRoot

_log = logging.getLogger(__name__)
_Place = tuple[str, ...]


def share(
    root: DataRoot, places: Iterable[_Place], successor: TablePath, manifests: Sequence[str], uid: str
) -> bool:
    """Give a table what it lacks of these snapshots: manifests, and the files that they name; whether any was given.

    The caller holds the tables' locks. What was found damaged stays in the quarantine. One file that cannot be had
    keeps no other back.

    Args:
        root: the data root.
        places: folders, in the bin or in their place; what is not there is passed over.
        successor: whose folder gets the files.
        manifests: digests, without "sha256:".
        uid: of the table that has to have written a manifest; empty = whichever. Digests in a status are its writers',
            who might ask for what another table left.
    """
    damaged, given = quarantined(root, successor), False
    for place in places:
        for sha256 in manifests:
            manifest = _manifest(root, (successor, place), sha256)
            if manifest is None or (uid and manifest.uid != uid):
                continue
            paths = [one.path for one in manifest.files if one.path not in damaged]
            given |= _link(root, place, successor, [manifest_path(sha256), *paths])
    if given:
        root.note_change(successor)
    return given


def _manifest(root: DataRoot, places: Iterable[_Place], sha256: str) -> TableManifest | None:
    for place in places:
        try:
            return read_manifest(root, place, sha256)
        except (NotHeld, InvalidPath, ValueError, OSError) as error:
            _log.debug("manifest %s in %s: %s", sha256, "/".join(place), error)
    return None


def _link(root: DataRoot, place: _Place, successor: TablePath, paths: Iterable[str]) -> bool:
    by_folder: dict[_Place, list[str]] = {}
    for path in paths:
        *folders, name = path.split("/")
        by_folder.setdefault(tuple(folders), []).append(name)
    given = False
    for segments, names in by_folder.items():
        with contextlib.suppress(NotHeld, InvalidPath), root.folder((*place, *segments)) as source:
            there = set(names_in(source))
            if wanted := [name for name in names if name in there]:
                with root.folder((*successor, *segments), create=True) as target:
                    given |= _link_all(wanted, source, target)
    return given


def _link_all(names: Iterable[str], source: int, target: int) -> bool:
    given = False
    for name in names:
        try:
            os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            given = True
        except FileExistsError:
            continue
        except OSError as error:
            _log.warning("%s of a dropped table cannot be linked: %s", name, error)
    if given:
        os.fsync(target)
    return given
