"""The commit of a load: manifest to the agents, verified there, then a compare-and-set of ``status.snapshot``.

Invariant: a snapshot is published only after a majority of each new file's bucket nodes hold it and the manifest. All that is
done before is garbage if the compare-and-set does not happen.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from colocation.agentclient import AgentError
from colocation.model.agent import TableReport
from colocation.model.group import BucketSequence
from colocation.model.table import ColocatedTableSpec, TableSnapshot
from colocation.model.table_manifest import DataFile, TableManifest, check_buckets, encode_manifest

from .agents import Agents
from .catalog import Catalog, TableObject, WriteConflict
from .upload import ReplicasMissing, majority

Mode = Literal["append", "overwrite", "overwrite-partitions"]
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
        LoadConflict: the files there are bucketed, partitioned or typed in another way, so new ones do not fit beside them.
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


def publish_manifest(
    agents: Agents, table: TableObject, manifest: TableManifest, buckets: BucketSequence, new_files: Sequence[DataFile]
) -> tuple[str, int]:
    """Give the manifest to all nodes of the group and check what they hold of the new files.

    Returns:
        (sha256 of the manifest, replicas of new files that are still missing).

    Raises:
        ReplicasMissing: a majority of a bucket's nodes does not hold the manifest and the bucket's new files.
    """
    sha256, stored = encode_manifest(manifest)
    nodes = sorted({node for bucket in buckets for node in bucket})
    reports: dict[str, TableReport] = {}
    failures: dict[str, str] = {}
    for node in nodes:
        if node not in agents.nodes:
            failures[node] = "its agent is not ready"
            continue
        try:
            agents.client(node).put_manifest(table.namespace, table.directory, stored, sha256)
            reports[node] = agents.client(node).verify(table.namespace, table.directory, sha256)
        except AgentError as error:
            failures[node] = str(error)
    missing = 0
    for bucket in sorted({file.bucket for file in new_files}):
        files = [file for file in new_files if file.bucket == bucket]
        holders = [node for node in buckets[bucket] if _holds(agents, table, reports.get(node), bucket, files, node)]
        if len(holders) < majority(len(buckets[bucket])):
            raise ReplicasMissing(
                f"bucket {bucket} of {table.namespace}.{table.name}: {len(holders)} of nodes {', '.join(buckets[bucket])} hold "
                f"the new files, at least {majority(len(buckets[bucket]))} must; "
                + ("; ".join(f"{node}: {failure}" for node, failure in failures.items()) or "all agents answered")
            )
        missing += (len(buckets[bucket]) - len(holders)) * len(files)
    if not reports:
        raise ReplicasMissing(f"no node of the group took the manifest: {failures}")
    return sha256, missing


def _holds(
    agents: Agents, table: TableObject, report: TableReport | None, bucket: int, files: Sequence[DataFile], node: str
) -> bool:
    """Whether a node holds all new files of a bucket. Files of earlier loads that it lacks are for the operator to repair."""
    if report is None or not report.manifest_present:
        return False
    held = report.buckets.get(bucket)
    if held is None or held.state == "complete":
        return held is not None
    try:
        return all(
            agents.client(node).head_file(table.namespace, table.directory, file.path).sha256 == file.sha256
            for file in files
        )
    except AgentError:
        return False


def commit(
    catalog: Catalog,
    table: TableObject,
    new: NewFiles,
    parent_of: Callable[[TableObject], TableManifest | None],
    publish: Callable[[TableObject, TableManifest], tuple[str, int]],
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
    while True:
        manifest = next_manifest(table, parent_of(table), new)
        sha256, missing = publish(table, manifest)
        snapshot = _snapshot(manifest, sha256, now())
        while True:
            try:
                catalog.commit(table, snapshot)
                return snapshot, missing
            except WriteConflict:
                current = catalog.get_table(table.namespace, table.name)
            if current.status.snapshot is not None and current.status.snapshot.manifest == snapshot.manifest:
                return current.status.snapshot, missing  # an answer was lost on its way, not the commit
            _refuse_overtaking(began_with, current, new.mode)
            overtaken = current.status.snapshot != table.status.snapshot
            table = current
            if overtaken:
                break


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
    name = f"{current.namespace}.{current.name}"
    if current.uid != began_with.uid:
        raise LoadConflict(f"table {name} was deleted and made anew during the load; load it again")
    if mode != "append" and current.status.snapshot != began_with.status.snapshot:
        before = began_with.status.snapshot.id if began_with.status.snapshot else 0
        after = current.status.snapshot.id if current.status.snapshot else 0
        raise LoadConflict(
            f"table {name}: this load ({mode}) lost: it began on snapshot {before}, and snapshot {after} was committed "
            "meanwhile. Nothing was changed; load again if it should replace that one"
        )
