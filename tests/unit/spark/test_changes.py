"""What stays of a table's files after each kind of change."""

import datetime
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest
from colocation.spark.write.changes import Change, DropPartitions, NewFiles, Overtaken, Rewrite
from colocation.spark.write.compaction import RowsDiffer, crowded_files, refuse_other_rows
from colocation.spark.write.partition_path import chosen_partitions, parse_partition, partition_folder


def data_file(name: str, partition: Mapping[str, str | None], bucket: int = 0, rows: int = 1) -> DataFile:
    return DataFile(
        path=f"data/part-{name}_{bucket:05d}.parquet", bucket=bucket, partition=dict(partition), rows=rows, bytes=9,
        sha256="0" * 64,
    )  # fmt: skip


A1, A2, B, NULL = (
    data_file("1", {"p": "a"}), data_file("2", {"p": "a"}), data_file("3", {"p": "b"}), data_file("4", {"p": None}),
)  # fmt: skip
NEW = data_file("5", {"p": "a"})
COMMITTED = (A1, A2, B, NULL)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        pytest.param(NewFiles("append", (NEW,), 1), COMMITTED, id="append-keeps-all"),
        pytest.param(NewFiles("overwrite", (NEW,), 1), (), id="overwrite-keeps-none"),
        pytest.param(NewFiles("overwrite-partitions", (NEW,), 1), (B, NULL), id="overwrite-partitions-keeps-others"),
        pytest.param(Rewrite(frozenset({A1.path, A2.path}), (NEW,), 1), (B, NULL), id="rewrite-replaces-what-it-read"),
        pytest.param(DropPartitions(({"p": "b"}, {"p": None})), (A1, A2), id="dropped-partitions-go-null-too"),
        pytest.param(DropPartitions(({"p": "z"},)), COMMITTED, id="dropping-what-is-not-there"),
    ],
)
def test_kept(change: Change, kept: tuple[DataFile, ...]) -> None:
    """Each change names the files that stay, in their order."""
    assert change.kept(COMMITTED) == kept


def test_a_rewrite_needs_every_file_that_it_read() -> None:
    """Rows that were dropped or overwritten meanwhile must not come back."""
    with pytest.raises(Overtaken, match="1 of the 2 files that it read are no longer committed"):
        Rewrite(frozenset({A1.path, A2.path}), (NEW,), 1).kept((A2, B))


@pytest.mark.parametrize(
    ("most_files", "partitions", "crowded"),
    [(1, (), (A1, A2)), (2, (), ()), (1, ({"p": "b"},), ()), (1, ({"p": "a"},), (A1, A2))],
)
def test_crowded_files(most_files: int, partitions: tuple[dict[str, str | None], ...], crowded: object) -> None:
    """Only buckets of a partition with too many files are rewritten."""
    manifest = TableManifest(
        namespace="shop", table="t", uid="u", snapshot_id=1, columns=(Column(name="k", type="bigint"),),
        bucketed_by=("k",), buckets=2, files=(*COMMITTED, data_file("6", {"p": "b"}, bucket=1)),
    )  # fmt: skip
    assert crowded_files(manifest, most_files, partitions) == crowded


@pytest.mark.parametrize(
    "after", [(), (data_file("5", {"p": "a"}, rows=3),), (data_file("5", {"p": "a"}, bucket=1, rows=2),)],
    ids=["lost", "gained", "moved"],
)  # fmt: skip
def test_a_rewrite_with_other_rows_is_refused(after: tuple[DataFile, ...]) -> None:
    """A compaction that has lost, gained or moved rows commits nothing."""
    refuse_other_rows((A1, A2), (data_file("5", {"p": "a"}, rows=2),))
    with pytest.raises(RowsDiffer, match="the manifest says"):
        refuse_other_rows((A1, A2), after)


@given(st.dictionaries(st.text(min_size=1), st.none() | st.text(min_size=1), min_size=1))
def test_partitions_are_parsed_as_folders_are_named(partition: dict[str, str | None]) -> None:
    """Whatever is in names and values."""
    assert parse_partition(partition_folder(partition)) == partition


@pytest.mark.parametrize("text", ["", "dt", "=1", "dt=1/dt=2"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    """With what was given."""
    with pytest.raises(ValueError, match=f"partition '{text}'"):
        parse_partition(text)


def test_partition_values_of_programs() -> None:
    """Columns without regard to case, values in Spark's string form, an empty string as NULL."""
    given_values = [{"DT": datetime.date(2024, 1, 2), "n": 7}, {"n": ""}, {"n": True}]
    assert chosen_partitions(("dt", "N"), given_values) == ({"dt": "2024-01-02", "N": "7"}, {"N": None}, {"N": "true"})
    for wrong in ({"day": "x"}, {}):
        with pytest.raises(ValueError, match=r"the table is partitioned by \(dt\)"):
            chosen_partitions(("dt",), [wrong])
    with pytest.raises(ValueError, match="as Spark writes it"):
        chosen_partitions(("dt",), [{"dt": datetime.datetime(2024, 1, 2)}])
