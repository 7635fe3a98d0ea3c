"""Rows, sorted by bucket and partition, into one zstd Parquet file per bucket and partition.

Runs in executors' Python workers (``mapInArrow``). One writer is open at a time, however many partitions a load has.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from colocation.model.table_manifest import DATA_DIRECTORY, DataFile

from .load_schema import SchemaMismatch
from .partition_path import partition_folder

BUCKET_COLUMN = "__colocation_bucket"
STORED_COLUMN_PREFIX = "__colocation_column_"
PARTITION_COLUMN_PREFIX = "__colocation_partition_"

ROW_GROUP_BYTES = 128 << 20
ZSTD_LEVEL = 3


@dataclass(frozen=True)
class FileLayout:
    """How a load's files are written.

    Attributes:
        load_id: 8 hex digits, new for each load.
        buckets: of the table.
        stored_columns: columns in the files: all but the partition columns.
        partition_columns: in the order of the folders.
        required_columns: those that may not be NULL.
        spark_version: stands in the files, so that Spark reads old dates and times without rebasing them.
    """

    load_id: str
    buckets: int
    stored_columns: tuple[str, ...]
    partition_columns: tuple[str, ...]
    required_columns: tuple[str, ...]
    spark_version: str


@dataclass(frozen=True)
class _FileKey:
    bucket: int
    partition: tuple[str | None, ...]


def write_files(
    batches: Iterable[pa.RecordBatch], layout: FileLayout, attempt: int, folder: Path
) -> Iterator[tuple[DataFile, Path]]:
    """Each file as soon as it is complete, with its temporary place; the caller removes it.

    Args:
        batches: rows sorted by bucket and partition; columns are the prefixes above with a position in the layout's
            stored or partition columns, and the bucket.
        layout: of the load.
        attempt: the task attempt's id, which no other attempt of this application has.
        folder: for temporary files.

    Raises:
        SchemaMismatch: NULL in a column that does not allow it.
        ValueError: rows are not sorted by bucket and partition, or a bucket is out of range.
    """
    finished: set[_FileKey] = set()
    open_file: _OpenFile | None = None
    for batch in batches:
        _refuse_nulls(batch, layout)
        for key, rows in _runs(batch, layout):
            if open_file is None or open_file.key != key:
                if open_file is not None:
                    finished.add(open_file.key)
                    yield open_file.finish()
                if key in finished:
                    raise ValueError(f"rows of {key} come in two places; they must be sorted by bucket and partition")
                open_file = _OpenFile(key, layout, attempt, folder / f"{len(finished)}.parquet")
            open_file.write(rows)
    if open_file is not None:
        yield open_file.finish()


def _refuse_nulls(batch: pa.RecordBatch, layout: FileLayout) -> None:
    for name in layout.required_columns:
        if name in layout.partition_columns:
            column = batch.column(f"{PARTITION_COLUMN_PREFIX}{layout.partition_columns.index(name)}")
        else:
            column = batch.column(f"{STORED_COLUMN_PREFIX}{layout.stored_columns.index(name)}")
        if column.null_count:
            raise SchemaMismatch(
                f"column {name} holds NULL (or an empty partition value); the table says nullable: false. "
                "Filter those rows, or declare the column nullable"
            )


def _runs(batch: pa.RecordBatch, layout: FileLayout) -> Iterator[tuple[_FileKey, pa.RecordBatch]]:
    """The batch cut wherever the bucket or a partition value changes."""
    names = [BUCKET_COLUMN, *(f"{PARTITION_COLUMN_PREFIX}{index}" for index in range(len(layout.partition_columns)))]
    columns = [batch.column(name) for name in names]
    stored = [f"{STORED_COLUMN_PREFIX}{index}" for index in range(len(layout.stored_columns))]
    rows = batch.select(stored).rename_columns(list(layout.stored_columns))
    changes = pa.array([False] * max(batch.num_rows - 1, 0), pa.bool_())
    for column in columns:
        before, after = column.slice(0, len(changes)), column.slice(1)
        same = pc.fill_null(pc.equal(before, after), False)
        both_null = pc.and_(pc.is_null(before), pc.is_null(after))
        changes = pc.or_(changes, pc.invert(pc.or_(same, both_null)))
    starts = [0, *(index + 1 for index in pc.indices_nonzero(changes).to_pylist())] if batch.num_rows else []
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        bucket, *partition = (column[start].as_py() for column in columns)
        if not 0 <= bucket < layout.buckets:
            raise ValueError(f"a row hashes to bucket {bucket}; allowed: 0 to {layout.buckets - 1}")
        yield _FileKey(bucket, tuple(partition)), rows.slice(start, end - start)


class _HashedFile:
    """A file whose digest is known when it is written: it need not be read again. What pyarrow needs of a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._digest = hashlib.sha256()

    def write(self, block: bytes) -> int:
        self._digest.update(block)
        return self._file.write(block)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class _OpenFile:
    """A Parquet file being written; rows are gathered into row groups of about ``ROW_GROUP_BYTES`` of Arrow memory."""

    def __init__(self, key: _FileKey, layout: FileLayout, attempt: int, file: Path) -> None:
        self.key = key
        self._layout = layout
        self._name = f"part-{layout.load_id}-{attempt}_{key.bucket:05d}.c000.zstd.parquet"
        self._file = file
        self._content = _HashedFile(file)
        self._writer: pq.ParquetWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes
        self._rows += rows.num_rows
        if self._gathered_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._gathered:
            return
        table = pa.Table.from_batches(self._gathered)
        if self._writer is None:
            schema = table.schema.with_metadata({"org.apache.spark.version": self._layout.spark_version})
            self._writer = pq.ParquetWriter(
                self._content, schema, compression="zstd", compression_level=ZSTD_LEVEL,
                store_schema=False, store_decimal_as_integer=True, write_page_index=True,
                write_page_checksum=True,
            )
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._gathered, self._gathered_bytes = [], 0

    def finish(self) -> tuple[DataFile, Path]:
        self._flush()
        assert self._writer is not None, "a file is opened by its first row"
        self._writer.close()
        self._content.close()
        partition = dict(zip(self._layout.partition_columns, self.key.partition, strict=True))
        folder = partition_folder(partition)
        data_file = DataFile(
            path="/".join(part for part in (DATA_DIRECTORY, folder, self._name) if part),
            bucket=self.key.bucket,
            partition=partition,
            rows=self._rows,
            bytes=self._file.stat().st_size,
            sha256=self._content.sha256,
        )
        return data_file, self._file
