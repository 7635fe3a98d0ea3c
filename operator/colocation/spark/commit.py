"""The commit of a change: manifest to the agents, verified there, then a compare-and-set of ``status.snapshot``.

Invariant: a snapshot is published only after a majority of each new file's bucket nodes hold it and the manifest. All
that is done before is garbage if the compare-and-set does not happen.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from colocation.model.retention import retained_history
from colocation.model.schema_evolution import refused_change
from colocation.model.table import TableSnapshot
from colocation.model.table_manifest import TableManifest, check_buckets

from .catalog import Catalog, TableObject, WriteConflict
from .changes import Change, Overtaken

MAX_ATTEMPTS = 50
"""Writers that change a table's object at once are few; more conflicts in a row mean that something is wrong."""


class LoadConflict(Exception):
    """Another load changed the table meanwhile, and this one may not go on top of it. Nothing was changed."""


@dataclass(frozen=True)
class Committed:
    """What a commit did.

    Attributes:
        snapshot: the table's new one.
        manifest: of that snapshot.
        parent: the manifest that it followed; None when there was none.
        replicas_missing: copies of new files that the operator has yet to make.
    """

    snapshot: TableSnapshot
    manifest: TableManifest
    parent: TableManifest | None
    replicas_missing: int


def next_manifest(table: TableObject, parent: TableManifest | None, change: Change) -> TableManifest:
    """The manifest after the change. Pure.

    Raises:
        LoadConflict: the files there are bucketed, partitioned, sorted or typed in another way, and new ones do not fit
            there; or files that the change began on are gone.
    """
    spec = table.spec
    committed = parent.files if parent is not None else ()
    buckets = change.buckets if change.buckets is not None else _buckets_of(table, parent)
    if parent is not None and parent.files and change.keeps_files:
        _refuse_other_layout(table, parent, buckets)
    try:
        files = change.kept(committed) + change.files
    except Overtaken as error:
        raise LoadConflict(
            f"table {table.namespace}.{table.name}: {change.name} lost: {error}. Nothing was changed; start it again"
        ) from error
    check_buckets(files, buckets)
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
        buckets=buckets,
        files=files,
    )


def _buckets_of(table: TableObject, parent: TableManifest | None) -> int:
    """Of a change without files of its own."""
    if parent is None:
        raise LoadConflict(f"table {table.namespace}.{table.name} holds no rows yet; nothing was changed")
    return parent.buckets


def _refuse_other_layout(table: TableObject, parent: TableManifest, buckets: int) -> None:
    spec = table.spec
    problems = [
        f"its files have {what} {there}, the table now says {wanted}"
        for what, there, wanted in (
            ("buckets", parent.buckets, buckets),
            ("bucketedBy", parent.bucketed_by, spec.bucketed_by),
            ("partitionedBy", parent.partitioned_by, spec.partitioned_by),
            ("sortedBy", parent.sorted_by, spec.sort_columns),
        )
        if there != wanted
    ]
    columns = refused_change(parent.columns, spec.columns)
    if columns:
        problems.append(f"its files do not fit the table's columns: {columns}")
    if problems:
        raise LoadConflict(
            f"table {table.namespace}.{table.name}: {'; '.join(problems)}. Change the table back, or load all of it "
            "anew with mode overwrite"
        )


def commit(
    catalog: Catalog,
    table: TableObject,
    change: Change,
    parent_of: Callable[[TableObject], TableManifest | None],
    publish: Callable[[TableManifest], tuple[str, int]],
    now: Callable[[], datetime.datetime],
) -> Committed:
    """Publish a change as the table's next snapshot; the one before becomes the newest of ``status.history``.

    A change that another one overtook goes on top of that one where it may (see ``Change.goes_on_top``), else it has
    lost.

    Args:
        catalog: for the compare-and-set.
        table: as it was when the change began.
        change: new files, and which of the old ones stay.
        parent_of: the committed manifest of a table.
        publish: see ``publish_manifest``.
        now: the clock.

    Raises:
        LoadConflict: overtaken, or the table was made anew meanwhile.
        ReplicasMissing: see ``publish_manifest``.
    """
    began_with = table
    prepared: Committed | None = None
    for _ in range(MAX_ATTEMPTS):
        if prepared is None:
            prepared = _prepare(table, change, parent_of, publish, now())
        current = _try_commit(catalog, table, prepared.snapshot, now())
        if current is None or _is_published(current, prepared.snapshot):
            return prepared
        if current.status.snapshot != table.status.snapshot:
            if not change.goes_on_top:
                _refuse_overtaking(began_with, current, change)
            prepared = None
        table = current
    raise LoadConflict(f"table {table.namespace}.{table.name} was changed {MAX_ATTEMPTS} times in a row; load it again")


def _prepare(
    table: TableObject,
    change: Change,
    parent_of: Callable[[TableObject], TableManifest | None],
    publish: Callable[[TableManifest], tuple[str, int]],
    now: datetime.datetime,
) -> Committed:
    parent = parent_of(table)
    manifest = next_manifest(table, parent, change)
    sha256, missing = publish(manifest)
    return Committed(_snapshot(manifest, sha256, now), manifest, parent, missing)


def _try_commit(
    catalog: Catalog, table: TableObject, snapshot: TableSnapshot, now: datetime.datetime
) -> TableObject | None:
    """None when it is done; else the table as it is now."""
    replaced = () if table.status.snapshot is None else (table.status.snapshot,)
    history = retained_history(snapshot, replaced + table.status.history, table.spec.retention, now)
    try:
        catalog.commit(table, snapshot, history)
    except WriteConflict:
        current = catalog.get_table(table.namespace, table.name)
        if current.uid != table.uid:
            raise LoadConflict(
                f"table {table.namespace}.{table.name} was deleted and made anew during the load; load it again"
            ) from None
        return current
    return None


def _is_published(table: TableObject, snapshot: TableSnapshot) -> bool:
    """Whether the snapshot is there after all: the answer was lost on its way, not the commit.

    Others may have gone on top of it since, so older snapshots count too.
    """
    committed = (table.status.snapshot, *table.status.history)
    return any(one is not None and one.manifest == snapshot.manifest for one in committed)


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


def _refuse_overtaking(began_with: TableObject, current: TableObject, change: Change) -> None:
    before = began_with.status.snapshot.id if began_with.status.snapshot else 0
    after = current.status.snapshot.id if current.status.snapshot else 0
    raise LoadConflict(
        f"table {current.namespace}.{current.name}: this load ({change.name}) lost: it began on snapshot {before}, and "
        f"snapshot {after} was committed meanwhile. Nothing was changed; load again if it should replace that one"
    )
