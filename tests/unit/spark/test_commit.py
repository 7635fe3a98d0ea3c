"""All of a load or none: compare-and-set against every kind of interruption."""

import datetime
import uuid
from dataclasses import dataclass, field, replace

import pytest

from colocation.model.table import ColocatedTableSpec, Column, Retention, TableSnapshot
from colocation.model.table_manifest import DataFile, TableManifest, encode_manifest
from colocation.spark.catalog import InvalidObject, TableObject, WriteConflict
from colocation.spark.write.changes import DropPartitions, Mode, NewFiles, Rewrite
from colocation.spark.write.commit import LoadConflict, commit, next_manifest
from colocation.spark.write.publication import Published

from .fake_catalog import FakeCatalog

SPEC = ColocatedTableSpec(
    colocate_with="sales",
    columns=(Column(name="id", type="bigint"), Column(name="day", type="string")),
    bucketed_by=("id",),
    partitioned_by=("day",),
)
NOW = datetime.datetime(2026, 11, 21, 4, 0, tzinfo=datetime.UTC)


def data_file(load: str, day: str = "a") -> DataFile:
    path = f"data/day={day}/part-{load}-1_00000.c000.zstd.parquet"
    return DataFile(path=path, bucket=0, partition={"day": day}, rows=10, bytes=100, sha256="0" * 64)


@dataclass
class Storage:
    """Manifests by digest, as the agents keep them."""

    manifests: dict[str, TableManifest] = field(default_factory=dict)

    def publish(self, manifest: TableManifest) -> Published:
        sha256, _ = encode_manifest(manifest)
        self.manifests[sha256] = manifest
        return Published(sha256, 0, ())

    def parent_of(self, table: TableObject) -> TableManifest | None:
        snapshot = table.status.snapshot
        return self.manifests[snapshot.manifest_sha256] if snapshot else None


@pytest.fixture
def catalog() -> FakeCatalog:
    catalog = FakeCatalog()
    catalog.add_table("orders", SPEC, str(uuid.uuid4()))
    return catalog


@pytest.fixture
def storage() -> Storage:
    return Storage()


def run(
    catalog: FakeCatalog, storage: Storage, mode: Mode, *files: DataFile, table: TableObject | None = None
) -> TableSnapshot:
    table = table or catalog.tables["orders"]
    new = NewFiles(mode, files, buckets=2)
    return commit(catalog, table, new, storage.parent_of, storage.publish, lambda: NOW).snapshot


def committed_paths(catalog: FakeCatalog, storage: Storage) -> set[str]:
    manifest = storage.parent_of(catalog.tables["orders"])
    return {file.path for file in manifest.files} if manifest else set()


A, B, C = data_file("0000000a"), data_file("0000000b"), data_file("0000000c", day="b")
D = data_file("0000000d")


def test_first_load(catalog: FakeCatalog, storage: Storage) -> None:
    """The snapshot counts what the manifest holds."""
    snapshot = run(catalog, storage, "append", A, C)
    assert catalog.tables["orders"].status.snapshot == snapshot
    assert (snapshot.id, snapshot.files, snapshot.rows, snapshot.bytes, snapshot.partitions) == (1, 2, 20, 200, 2)
    assert snapshot.committed_at == "2026-11-21T04:00:00Z"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("append", {A.path, C.path, B.path}, id="append"),
        pytest.param("overwrite", {B.path}, id="overwrite"),
        pytest.param("overwrite-partitions", {C.path, B.path}, id="overwrite-partitions"),
    ],
)
def test_modes(mode: Mode, expected: set[str], catalog: FakeCatalog, storage: Storage) -> None:
    """Append keeps all, overwrite none, overwrite-partitions what is in other partitions."""
    run(catalog, storage, "append", A, C)
    snapshot = run(catalog, storage, mode, B)
    assert snapshot.id == 2
    assert committed_paths(catalog, storage) == expected


def test_replaced_snapshots_become_history(catalog: FakeCatalog, storage: Storage) -> None:
    """The newest first, in the same write; no more than the table's retention says."""
    table = catalog.tables["orders"]
    few = table.spec.model_copy(update={"retention": Retention(snapshots=2)})
    catalog.tables["orders"] = replace(table, spec=few)
    snapshots = [run(catalog, storage, "append", data_file(f"0000000{number}")) for number in range(4)]
    status = catalog.tables["orders"].status
    assert status.snapshot == snapshots[3]
    assert status.history == (snapshots[2], snapshots[1])


def test_an_overtaken_commit_keeps_what_overtook_it_in_history(catalog: FakeCatalog, storage: Storage) -> None:
    """The history is made from the table as it is at the compare-and-set."""
    first = run(catalog, storage, "append", A)
    catalog.before_commit = lambda: run(catalog, storage, "append", C)
    run(catalog, storage, "append", B)
    history = catalog.tables["orders"].status.history
    assert [entry.id for entry in history] == [2, 1]
    assert history[1] == first


def test_dropped_partitions_go_on_top(catalog: FakeCatalog, storage: Storage) -> None:
    """What was loaded into a partition before the commit goes with it."""
    run(catalog, storage, "append", A, C)
    catalog.before_commit = lambda: run(catalog, storage, "append", B)
    drop = DropPartitions(({"day": "a"},))
    committed = commit(
        catalog, catalog.tables["orders"], drop, storage.parent_of, storage.publish, lambda: NOW
    )
    assert committed.snapshot.id == 3
    assert committed_paths(catalog, storage) == {C.path}


def test_a_rewrite_of_files_that_are_gone_has_lost(catalog: FakeCatalog, storage: Storage) -> None:
    """Rows that were overwritten meanwhile do not come back."""
    run(catalog, storage, "append", A)
    catalog.before_commit = lambda: run(catalog, storage, "overwrite", B)
    rewrite = Rewrite(frozenset({A.path}), (C,), buckets=2)
    with pytest.raises(LoadConflict, match="compact lost: 1 of the 1 files"):
        commit(catalog, catalog.tables["orders"], rewrite, storage.parent_of, storage.publish, lambda: NOW)
    assert committed_paths(catalog, storage) == {B.path}


def test_an_overtaken_append_lands_on_top(catalog: FakeCatalog, storage: Storage) -> None:
    """Two appends at once both land."""
    catalog.before_commit = lambda: run(catalog, storage, "append", A)
    snapshot = run(catalog, storage, "append", B, table=catalog.tables["orders"])
    assert snapshot.id == 2
    assert committed_paths(catalog, storage) == {A.path, B.path}


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("overwrite", "lost: it began on snapshot 0, and snapshot 1"),
        ("overwrite-partitions", "lost: 1 of the partitions that it replaces were changed meanwhile, e.g. day=a"),
    ],
)
def test_an_overtaken_overwrite_says_it_lost(
    mode: Mode, message: str, catalog: FakeCatalog, storage: Storage
) -> None:
    """An overwrite never removes rows that it has not seen."""
    catalog.before_commit = lambda: run(catalog, storage, "append", A)
    with pytest.raises(LoadConflict, match=message):
        run(catalog, storage, mode, B)
    assert committed_paths(catalog, storage) == {A.path}


@pytest.mark.parametrize(
    ("meanwhile", "overtaking", "outcome"),
    [
        pytest.param("append", C, {B.path, C.path}, id="an append to another partition"),
        pytest.param("overwrite-partitions", C, {B.path, C.path}, id="another partition is replaced"),
        pytest.param("append", D, None, id="an append to the same partition"),
        pytest.param("overwrite-partitions", D, None, id="the same partition is replaced"),
        pytest.param("overwrite", C, None, id="all is replaced, and its files are gone with the rest"),
    ],
)
def test_conflicts_are_those_of_a_partition(
    meanwhile: Mode, overtaking: DataFile, outcome: set[str] | None, catalog: FakeCatalog, storage: Storage
) -> None:
    """A backfill of one partition goes beside today's appends to another one."""
    run(catalog, storage, "append", A)
    catalog.before_commit = lambda: run(catalog, storage, meanwhile, overtaking)
    if outcome is None:
        with pytest.raises(LoadConflict, match=r"overwrite-partitions lost: 1 of the partitions .* day=a"):
            run(catalog, storage, "overwrite-partitions", B)
    else:
        run(catalog, storage, "overwrite-partitions", B)
        assert committed_paths(catalog, storage) == outcome


def test_an_overwrite_overtaken_before_its_commit_lost_too(catalog: FakeCatalog, storage: Storage) -> None:
    """What counts is the snapshot on which the load began, not the one it finds in the end."""
    began_with = catalog.tables["orders"]
    run(catalog, storage, "append", A)
    with pytest.raises(LoadConflict, match="lost"):
        run(catalog, storage, "overwrite", B, table=began_with)


def test_other_writers_of_the_object_do_not_matter(catalog: FakeCatalog, storage: Storage) -> None:
    """The operator writes conditions into the same object at any time."""
    catalog.before_commit = lambda: catalog.change("orders", observed_generation=2)
    run(catalog, storage, "overwrite", A)
    assert committed_paths(catalog, storage) == {A.path}


def test_a_table_made_anew_is_not_loaded(catalog: FakeCatalog, storage: Storage) -> None:
    """Files of the old table lie in the old table's folder."""
    catalog.before_commit = lambda: catalog.add_table("orders", SPEC, str(uuid.uuid4()))
    with pytest.raises(LoadConflict, match="made anew"):
        run(catalog, storage, "append", A)
    assert catalog.tables["orders"].status.snapshot is None


def test_a_failed_publication_commits_nothing(catalog: FakeCatalog, storage: Storage) -> None:
    """Whatever breaks before the compare-and-set leaves the old snapshot."""
    run(catalog, storage, "append", A)

    def fail(_: TableManifest) -> tuple[str, int]:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        commit(
            catalog, catalog.tables["orders"], NewFiles("append", (B,), 2), storage.parent_of, fail, lambda: NOW
        )
    assert committed_paths(catalog, storage) == {A.path}


def test_endless_conflicts_end(catalog: FakeCatalog, storage: Storage) -> None:
    """A compare-and-set that never succeeds is an error, not a loop."""

    def refuse(table: TableObject, snapshot: TableSnapshot, history: object) -> None:
        raise WriteConflict("changed")

    catalog.commit = refuse  # type: ignore[method-assign]
    with pytest.raises(LoadConflict, match="times in a row"):
        run(catalog, storage, "append", A)


def test_files_of_another_layout_are_not_mixed(catalog: FakeCatalog, storage: Storage) -> None:
    """After a change of the table's key or buckets an append is refused, with both values; an overwrite goes."""
    run(catalog, storage, "append", A)
    table = catalog.tables["orders"]
    parent = storage.parent_of(table)
    with pytest.raises(LoadConflict, match="its files have buckets 2, the table now says 4"):
        next_manifest(table, parent, NewFiles("append", (B,), buckets=4))
    assert next_manifest(table, parent, NewFiles("overwrite", (B,), buckets=4)).buckets == 4


def test_files_of_another_order_are_not_mixed(catalog: FakeCatalog, storage: Storage) -> None:
    """Readers rely on every file being sorted as the manifest says."""
    run(catalog, storage, "append", A)
    table = catalog.tables["orders"]
    sorted_anew = replace(table, spec=table.spec.model_copy(update={"sorted_by": ("day", "id")}))
    with pytest.raises(LoadConflict, match=r"its files have sortedBy \('id',\), the table now says \('day', 'id'\)"):
        next_manifest(sorted_anew, storage.parent_of(table), NewFiles("append", (B,), buckets=2))


def test_only_an_overwrite_replaces_a_spoiled_status(catalog: FakeCatalog, storage: Storage) -> None:
    """Nothing says which files are there; the new snapshot's id is larger than any that is still legible."""
    run(catalog, storage, "append", A)
    catalog.change("orders", snapshot=None)
    spoiled = replace(catalog.tables["orders"], status_error='status.snapshot.manifest is "x"', lost_id=7)
    catalog.tables["orders"] = spoiled
    with pytest.raises(InvalidObject, match=r'InvalidStatus: .* status.snapshot.manifest is "x"; restore it, or load'):
        run(catalog, storage, "append", B)
    assert run(catalog, storage, "overwrite", B).id == 8
    assert committed_paths(catalog, storage) == {B.path}


def test_a_table_without_files_takes_any_layout(catalog: FakeCatalog, storage: Storage) -> None:
    """After an overwrite with no rows nothing is left that new files could differ from."""
    run(catalog, storage, "append", A)
    run(catalog, storage, "overwrite")
    table = catalog.tables["orders"]
    columns = (*SPEC.columns, Column(name="x", type="int", nullable=False))
    other = replace(table, spec=table.spec.model_copy(update={"columns": columns}))
    assert len(next_manifest(other, storage.parent_of(table), NewFiles("append", (B,), buckets=2)).columns) == 3
