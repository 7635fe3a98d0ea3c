"""The commit of a load: manifest to the agents, verified there, then a compare-and-set of ``status.snapshot``.

Invariant: a snapshot is published only after a majority of each new file's bucket nodes hold it and the manifest. All
that is done before is garbage if the compare-and-set does not happen.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from colocation.model.table import ColocatedTableSpec, TableSnapshot
from colocation.model.table_manifest import DataFile, TableManifest, check_buckets

from .catalog import Catalog, TableObject, WriteConflict

Mode = Literal["append", "overwrite", "overwrite-partitions"]
MAX_ATTEMPTS = 50
"""Writers that change a table's object at once are few; more conflicts in a row mean that something is wrong."""
MODES: tuple[Mode, ...] = ("append", "overwrite", "overwrite-partitions")


class LoadConflict(Exception):
    """Another load changed the table meanwhile, and this one may not go on top of it. Nothing was changed."""


@dataclass(frozen=True)
class NewFiles:
    """What a load wants to publish.

    Attributes:
        mode: how it goes together with what is there.
        files: all of it.
        buckets: number of buckets that the files were made for.
    """

    mode: Mode
    files: tuple[DataFile, ...]
    buckets: int


def next_manifest(table: TableObject, parent: TableManifest | None, new: NewFiles) -> TableManifest:
    """The manifest after the load. Pure.

    Raises:
        LoadConflict: the files there are bucketed, partitioned or typed in another way; new ones do not fit there.
    """
    spec = table.spec
    kept: tuple[DataFile, ...] = ()
    if parent is not None and new.mode != "overwrite":
        _refuse_other_layout(table, spec, parent, new.buckets)
        kept = parent.files
        if new.mode == "overwrite-partitions":
            replaced = {_partition(file) for file in new.files}
            kept = tuple(file for file in kept if _partition(file) not in replaced)
    files = kept + new.files
    check_buckets(files, new.buckets)
    snapshot = table.status.snapshot
    return TableManifest(
        namespace=table.namespace,
        table=table.name,
        uid=table.uid,
        snapshot_id=snapshot.id + 1 if snapshot else 1,
        parent=snapshot.manifest_sha256 if snapshot else None,
        columns=spec.columns,
        bucketed_by=spec.bucketed_by,
        partitioned_by=spec.partitioned_by,
        sorted_by=spec.sort_columns,
        buckets=new.buckets,
        files=files,
    )


def _partition(file: DataFile) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(file.partition.items(), key=lambda item: item[0]))


def _refuse_other_layout(table: TableObject, spec: ColocatedTableSpec, parent: TableManifest, buckets: int) -> None:
    for what, there, wanted in (
        ("buckets", parent.buckets, buckets),
        ("bucketedBy", parent.bucketed_by, spec.bucketed_by),
        ("partitionedBy", parent.partitioned_by, spec.partitioned_by),
        ("columns", parent.columns, spec.columns),
    ):
        if there != wanted:
            raise LoadConflict(
                f"table {table.namespace}.{table.name}: its files have {what} {there}, the table now says {wanted}; "
                "load all of it anew with mode overwrite"
            )


def commit(
    catalog: Catalog,
    table: TableObject,
    new: NewFiles,
    parent_of: Callable[[TableObject], TableManifest | None],
    publish: Callable[[TableManifest], tuple[str, int]],
    now: Callable[[], datetime.datetime],
) -> tuple[TableSnapshot, int]:
    """Publish the load as the table's next snapshot.

    An append that another load overtook goes on top of that load; an overwrite that was overtaken has lost.

    Args:
        catalog: for the compare-and-set.
        table: as it was when the load began.
        new: the load's files.
        parent_of: the committed manifest of a table.
        publish: see ``publish_manifest``.
        now: the clock.

    Returns:
        (the snapshot, replicas that are still missing).

    Raises:
        LoadConflict: overtaken, or the table was made anew meanwhile.
        ReplicasMissing: see ``publish_manifest``.
    """
    began_with = table
    manifest: TableManifest | None = None
    for _ in range(MAX_ATTEMPTS):
        if manifest is None:
            manifest = next_manifest(table, parent_of(table), new)
            sha256, missing = publish(manifest)
            snapshot = _snapshot(manifest, sha256, now())
        current = _try_commit(catalog, table, snapshot)
        if current is None or _is_published(current, snapshot):
            return snapshot, missing
        if current.status.snapshot != table.status.snapshot:
            _refuse_overtaking(began_with, current, new.mode)
            manifest = None
        table = current
    raise LoadConflict(f"table {table.namespace}.{table.name} was changed {MAX_ATTEMPTS} times in a row; load it again")


def _try_commit(catalog: Catalog, table: TableObject, snapshot: TableSnapshot) -> TableObject | None:
    """None when it is done; else the table as it is now."""
    try:
        catalog.commit(table, snapshot)
    except WriteConflict:
        current = catalog.get_table(table.namespace, table.name)
        if current.uid != table.uid:
            raise LoadConflict(
                f"table {table.namespace}.{table.name} was deleted and made anew during the load; load it again"
            ) from None
        return current
    return None


def _is_published(table: TableObject, snapshot: TableSnapshot) -> bool:
    """Whether the snapshot is there after all: the answer was lost on its way, not the commit."""
    return table.status.snapshot is not None and table.status.snapshot.manifest == snapshot.manifest


def _snapshot(manifest: TableManifest, sha256: str, now: datetime.datetime) -> TableSnapshot:
    return TableSnapshot(
        id=manifest.snapshot_id,
        manifest=f"sha256:{sha256}",
        committed_at=now.astimezone(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        partitions=manifest.partition_count,
        files=len(manifest.files),
        rows=sum(file.rows for file in manifest.files),
        bytes=sum(file.bytes for file in manifest.files),
    )


def _refuse_overtaking(began_with: TableObject, current: TableObject, mode: Mode) -> None:
    if mode == "append":
        return
    before = began_with.status.snapshot.id if began_with.status.snapshot else 0
    after = current.status.snapshot.id if current.status.snapshot else 0
    raise LoadConflict(
        f"table {current.namespace}.{current.name}: this load ({mode}) lost: it began on snapshot {before}, and "
        f"snapshot {after} was committed meanwhile. Nothing was changed; load again if it should replace that one"
    )
