"""The manifests in a table's folder, in its place or in the recycle bin: from them a lost table can be re-created."""

import logging
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from colocation.model.agent import FolderManifests, ManifestSummary, RecycledSchema
from colocation.model.names import RECYCLE_DIRECTORY
from colocation.model.table_manifest import (
    MANIFEST_DIRECTORY,
    MAX_MANIFEST_BYTES,
    TableManifest,
    decode_manifest,
    manifest_path,
)

from .errors import InvalidPath, ManifestMissing, NotHeld
from .folders import names_in, open_regular_file
from .paths import TablePath, sha256_of_manifest_path
from .root import DataRoot

MAX_SUMMARIES = 100
MAX_READ_MANIFESTS = 200
"""The newest are read. Only a misuse fills a folder with more."""

_log = logging.getLogger(__name__)


class _Found(NamedTuple):
    """A manifest's file; ``modified_at`` in seconds since the epoch."""

    modified_at: float
    place: tuple[str, str]
    sha256: str


def folder_manifests(root: DataRoot, table: TablePath) -> FolderManifests:
    """The readable manifests of a table, wherever its folder is: in its place or in the recycle bin.

    Damaged or too large ones, and those of a newer format or another table, are left out: any loader of the table can
    put them there.
    """
    found = {one.sha256: one for place in places_of(root, table) for one in _manifests_in(root, place)}
    newest = sorted(found.values(), reverse=True)[:MAX_READ_MANIFESTS]
    summaries = [summary for one in newest if (summary := _summary(root, table, one)) is not None]
    summaries.sort(key=lambda summary: (summary.snapshot_id, summary.modified_at), reverse=True)
    return FolderManifests(manifests=tuple(summaries[:MAX_SUMMARIES]))


def read_manifest(root: DataRoot, place: Sequence[str], sha256: str) -> TableManifest:
    """A manifest in a table's folder.

    Raises:
        NotHeld, InvalidPath: it is missing, or no regular file.
        ValueError: it is damaged, too large or of a newer format.
        OSError: the disk fails.
    """
    directory, name = manifest_path(sha256).split("/")
    with root.folder((*place, directory)) as opened, os.fdopen(open_regular_file(opened, name), "rb") as file:
        return decode_manifest(file.read(MAX_MANIFEST_BYTES), sha256)


def schema_of(manifest: TableManifest) -> RecycledSchema:
    """The schema in a manifest."""
    return RecycledSchema(
        columns=manifest.columns,
        bucketed_by=manifest.bucketed_by,
        partitioned_by=manifest.partitioned_by,
        sorted_by=manifest.sorted_by,
        buckets=manifest.buckets,
        table_buckets=manifest.table_buckets,
    )


def places_of(root: DataRoot, table: TablePath) -> Iterator[tuple[str, str]]:
    """Where the table's folder may be: in its place, and in the recycle bin, there more than once."""
    yield table.namespace, table.directory
    for name in root.names((RECYCLE_DIRECTORY,)):
        if name.startswith(f"{table.namespace}.{table.directory}.") and name.rpartition(".")[2].isdigit():
            yield RECYCLE_DIRECTORY, name


def _manifests_in(root: DataRoot, place: tuple[str, str]) -> Iterator[_Found]:
    try:
        with root.folder((*place, MANIFEST_DIRECTORY)) as opened:
            for name in names_in(opened):
                sha256 = sha256_of_manifest_path(name)
                if sha256 is not None:
                    modified_at = os.stat(name, dir_fd=opened, follow_symlinks=False).st_mtime
                    yield _Found(modified_at, place, sha256)
    except (NotHeld, InvalidPath, FileNotFoundError):
        return


def _summary(root: DataRoot, table: TablePath, found: _Found) -> ManifestSummary | None:
    try:
        manifest = read_manifest(root, found.place, found.sha256)
    except (NotHeld, InvalidPath, ValueError, OSError) as error:
        _log.warning("manifest %s of %s cannot be read: %s", found.sha256, table, error)
        return None
    if (manifest.namespace, manifest.table) != (table.namespace, table.table):
        _log.warning("manifest %s of %s is of %s/%s", found.sha256, table, manifest.namespace, manifest.table)
        return None
    return ManifestSummary(
        sha256=found.sha256,
        table=manifest.table,
        uid=manifest.uid,
        snapshot_id=manifest.snapshot_id,
        partitions=manifest.partition_count,
        files=len(manifest.files),
        rows=sum(file.rows for file in manifest.files),
        bytes=sum(file.bytes for file in manifest.files),
        modified_at=_text_of(found.modified_at),
        table_schema=schema_of(manifest),
        parent=manifest.parent.removeprefix("sha256:") if manifest.parent else None,
    )


def _text_of(seconds: float) -> str:
    """A time as RFC 3339; empty if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return ""


def recycled_schema(root: DataRoot, table: TablePath, manifest: str) -> RecycledSchema:
    """The schema in a dropped table's manifest.

    Raises:
        ManifestMissing: the table or the manifest is not here, or the manifest is damaged.
    """
    for place in places_of(root, table):
        try:
            found = read_manifest(root, place, manifest)
        except (NotHeld, InvalidPath, ValueError) as error:
            _log.info("manifest %s in %s: %s", manifest, "/".join(place), error)
            continue
        return schema_of(found)
    raise ManifestMissing(f"manifest {manifest} of {table} is not on this node, recycled or not; ask another one")
