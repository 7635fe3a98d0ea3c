"""Rows become one file per bucket and partition, whatever the batches; what must not be written is not."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.table_manifest import DataFile, check_buckets
from colocation.spark.write.bucket_files import BUCKET_COLUMN, FileLayout, write_files
from colocation.spark.write.load_schema import SchemaMismatch
from colocation.spark.write.partition_path import partition_folder

LAYOUT = FileLayout(
    load_id="0badcafe",
    buckets=4,
    stored_columns=("id",),
    partition_columns=("day",),
    required_columns=("id",),
    spark_version="4.1.4",
)
SCHEMA = pa.schema(
    [("__colocation_column_0", pa.int64()), (BUCKET_COLUMN, pa.int32()), ("__colocation_partition_0", pa.string())]
)

Row = tuple[int | None, int, str | None]


def batches(rows: list[Row], size: int) -> list[pa.RecordBatch]:
    table = pa.Table.from_arrays([pa.array(column) for column in zip(*rows, strict=True)] if rows else
                                 [pa.array([], field.type) for field in SCHEMA], names=SCHEMA.names).cast(SCHEMA)
    return table.to_batches(max_chunksize=size)


def write(rows: list[Row], folder: Path, size: int = 3, layout: FileLayout = LAYOUT) -> list[tuple[DataFile, Path]]:
    return list(write_files(iter(batches(rows, size)), layout, 7, folder))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 3), st.sampled_from([None, "a", "b=1/2", "ü"])), max_size=40
    ),
    size=st.integers(1, 10),
)
def test_no_row_is_lost_or_moved(
    rows: list[Row], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each bucket and partition has one file with exactly its rows, and the file says so itself."""
    rows = sorted(rows, key=lambda row: (row[1], row[2] is not None, row[2] or ""))
    written = write(rows, tmp_path_factory.mktemp("files"), size)
    check_buckets([file for file, _ in written], LAYOUT.buckets)
    found: Counter[tuple[int, str | None, int]] = Counter()
    for file, path in written:
        ids = pq.read_table(path, partitioning=None).column("id").to_pylist()
        assert (file.rows, file.bytes) == (len(ids), path.stat().st_size)
        found.update((file.bucket, file.partition["day"], number) for number in ids)
    assert found == Counter((bucket, day, number) for number, bucket, day in rows)
    assert len(written) == len({(bucket, day) for _, bucket, day in rows})


def test_names_are_of_one_attempt(tmp_path: Path) -> None:
    """Load, attempt and bucket are in a file's name; the partition is in its folder, escaped."""
    [(file, _)] = write([(1, 2, "b=1/2")], tmp_path)
    assert file.path == "data/day=b%3D1%2F2/part-0badcafe-7_00002.c000.zstd.parquet"


def test_null_in_a_required_column_is_refused(tmp_path: Path) -> None:
    """``nullable: false`` is checked row by row: Spark's own schema does not know it of files."""
    with pytest.raises(SchemaMismatch, match="column id holds NULL"):
        write([(1, 0, "a"), (None, 0, "a")], tmp_path)


def test_null_in_a_required_partition_column_is_refused(tmp_path: Path) -> None:
    """A partition column that may not be NULL has no default partition."""
    layout = FileLayout(**{**LAYOUT.__dict__, "required_columns": ("day",)})
    with pytest.raises(SchemaMismatch, match="column day holds NULL"):
        write([(1, 0, None)], tmp_path, layout=layout)


def test_unsorted_rows_are_refused(tmp_path: Path) -> None:
    """One writer at a time needs rows in order; otherwise a bucket would get two files of one name."""
    with pytest.raises(ValueError, match="must be sorted"):
        write([(1, 0, "a"), (2, 1, "a"), (3, 0, "a")], tmp_path)


@pytest.mark.parametrize("bucket", [-1, 4])
def test_a_bucket_out_of_range_is_refused(bucket: int, tmp_path: Path) -> None:
    """Spark would silently drop such rows in joins."""
    with pytest.raises(ValueError, match="allowed: 0 to 3"):
        write([(1, bucket, "a")], tmp_path)


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        ({}, ""),
        ({"day": "2024-01-01"}, "day=2024-01-01"),
        ({"a": None, "b": "x y"}, "a=__HIVE_DEFAULT_PARTITION__/b=x y"),
        ({"t": "2024-01-01 00:00:00"}, "t=2024-01-01 00%3A00%3A00"),
        ({"p": "100%"}, "p=100%25"),
    ],
)
def test_partition_folders(values: dict[str, str | None], folder: str) -> None:
    """Folders are named as Spark names and reads them."""
    assert partition_folder(values) == folder
