"""The ways to keep changing rows: ours, Iceberg, Delta, and plain Parquet tables whose partitions are overwritten.

Each has the same rows in the same partitions, in as many files per partition as there are buckets, sorted by key.
"""

import shutil
from abc import ABC, abstractmethod
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables

from .tables import BUCKETS, KEY, PARTITION, Table
from .workloads import TARGETS, Workload

APPENDS = 8
"""In so many writes come the rows of a table that a compaction is to merge."""
ICEBERG_CATALOG = "ice"
DATABASE = "peers"


class Variant(ABC):
    """One copy of all tables.

    Attributes:
        name: in the report.
        folders: where its files are.
        sources: the variant whose tables its statements read, where they change only their target; mostly itself.
    """

    conf: dict[str, str] = {}

    def __init__(
        self, name: str, spark: SparkSession, folders: tuple[Path, ...], sources: "Variant | None" = None
    ) -> None:
        self.name = name
        self.folders = folders
        self.spark = spark
        self.sources = sources or self
        self._versions: dict[str, int] = {}
        self._changed: set[str] = set()

    def make(self, table: Table, rows: DataFrame) -> None:
        """Create a table and load its rows, for a compaction in many appends; not those of another variant."""
        if table.name not in TARGETS and self.sources is not self:
            return
        self.create(table)
        for part in _parts(table, rows):
            if not part.isEmpty():
                self.append(table, part)
        self._versions[table.name] = self.version(table.name)

    def restore(self) -> None:
        """Give a changed table its loaded rows, files and layout again."""
        for name in self._changed:
            self.go_back(name, self._versions[name])
            self._versions[name] = self.version(name)
        self._changed.clear()

    def run(self, workload: Workload) -> None:
        """Run the statement of a workload."""
        self._changed.add(workload.target)
        self.spark.sql(self.statement(workload))

    def statement(self, workload: Workload) -> str:
        """The statement of a workload in this variant."""
        if not workload.statement:
            return self.compaction(workload.target)
        return self.with_names(workload.statement)

    def with_names(self, text: str) -> str:
        """The text with the tables' names."""
        return text.format_map(_Names(self))

    @abstractmethod
    def table(self, name: str) -> str:
        """The name in SQL."""

    @abstractmethod
    def create(self, table: Table) -> None:
        """Make an empty table."""

    @abstractmethod
    def append(self, table: Table, rows: DataFrame) -> None:
        """Write rows in the layout that suits the format best."""

    @abstractmethod
    def version(self, name: str) -> int:
        """The number of the current snapshot."""

    @abstractmethod
    def go_back(self, name: str, version: int) -> None:
        """Make an older snapshot the current one."""

    @abstractmethod
    def compaction(self, name: str) -> str:
        """The statement that merges small files."""


class Colocated(Variant):
    """Tables of one group."""

    def __init__(self, spark: SparkSession, tables: ClusterTables, roots: tuple[Path, ...]) -> None:
        super().__init__("colocated", spark, roots)
        self._tables = tables

    def table(self, name: str) -> str:
        return f"{CATALOG}.{self._tables.namespace}.{name}"

    def create(self, table: Table) -> None:
        empty = self.spark.createDataFrame([], ", ".join(table.columns))
        self._tables.add_table(table.name, empty, [KEY], (PARTITION,))

    def append(self, table: Table, rows: DataFrame) -> None:
        rows.writeTo(self.table(table.name)).append()

    def version(self, name: str) -> int:
        snapshot = self._tables.get(name)["status"].get("snapshot")
        return int(snapshot["id"]) if snapshot else 0

    def go_back(self, name: str, version: int) -> None:
        if version:
            named = f"table => '{self._tables.namespace}.{name}', snapshot_id => {version}L"
            self.spark.sql(f"CALL {CATALOG}.system.roll_back({named})")
        else:
            self.spark.sql(f"TRUNCATE TABLE {self.table(name)}")

    def compaction(self, name: str) -> str:
        return f"CALL {CATALOG}.system.compact(table => '{self._tables.namespace}.{name}')"


class Iceberg(Variant):
    """Tables in buckets, with storage-partitioned joins; ``mode`` is copy-on-write or merge-on-read."""

    conf = {
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    }

    def __init__(self, mode: str, spark: SparkSession, folder: Path, sources: Variant | None = None) -> None:
        self._mode = mode
        self._database = mode.replace("-", "_")
        super().__init__(f"iceberg_{self._database}", spark, (folder / self._database,), sources)

    def table(self, name: str) -> str:
        return f"{ICEBERG_CATALOG}.{self._database}.{name}"

    def create(self, table: Table) -> None:
        # Format 3 has deletion vectors.
        properties = {"format-version": "3", "write.parquet.compression-codec": "zstd"}
        properties |= {f"write.{change}.mode": self._mode for change in ("update", "delete", "merge")}
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {ICEBERG_CATALOG}.{self._database}")
        self.spark.sql(f"CREATE TABLE {self.table(table.name)} ({', '.join(table.columns)}) USING iceberg "
                       f"PARTITIONED BY ({PARTITION}, bucket({BUCKETS}, {KEY})) "
                       f"TBLPROPERTIES ({_properties(properties)})")  # fmt: skip
        order = f"WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY {KEY}"
        self.spark.sql(f"ALTER TABLE {self.table(table.name)} {order}")

    def append(self, table: Table, rows: DataFrame) -> None:
        rows.writeTo(self.table(table.name)).append()

    def version(self, name: str) -> int:
        row = self.spark.sql(f"SELECT snapshot_id FROM {self.table(name)}.refs").first()
        return int(row[0]) if row else 0

    def go_back(self, name: str, version: int) -> None:
        if version:
            named = f"table => '{self._database}.{name}', snapshot_id => {version}L"
            self.spark.sql(f"CALL {ICEBERG_CATALOG}.system.set_current_snapshot({named})")
        else:
            self.spark.sql(f"TRUNCATE TABLE {self.table(name)}")

    def compaction(self, name: str) -> str:
        return f"CALL {ICEBERG_CATALOG}.system.rewrite_data_files(table => '{self._database}.{name}')"


class Delta(Variant):
    """Tables in partitions, with or without deletion vectors; Delta has no buckets."""

    # The default of 50 tasks for a table's log is for large tables.
    conf = {"spark.databricks.delta.snapshotPartitions": "2"}

    def __init__(self, vectors: bool, spark: SparkSession, folder: Path, sources: Variant | None = None) -> None:
        name = "delta_deletion_vectors" if vectors else "delta_copy_on_write"
        super().__init__(name, spark, (folder / name,), sources)
        self._vectors = vectors

    def table(self, name: str) -> str:
        return f"{DATABASE}.{self.name}_{name}"

    def create(self, table: Table) -> None:
        self.spark.sql(f"CREATE TABLE {self.table(table.name)} ({', '.join(table.columns)}) USING delta "
                       f"PARTITIONED BY ({PARTITION}) LOCATION '{self.folders[0] / table.name}' "
                       f"TBLPROPERTIES ('delta.enableDeletionVectors'='{str(self._vectors).lower()}')")  # fmt: skip

    def append(self, table: Table, rows: DataFrame) -> None:
        rows = rows.repartitionByRange(BUCKETS, KEY).sortWithinPartitions(PARTITION, KEY)
        rows.write.format("delta").mode("append").saveAsTable(self.table(table.name))

    def version(self, name: str) -> int:
        row = self.spark.sql(f"DESCRIBE HISTORY {self.table(name)} LIMIT 1").first()
        assert row is not None
        return int(row["version"])

    def go_back(self, name: str, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE {self.table(name)} TO VERSION AS OF {version}")

    def compaction(self, name: str) -> str:
        return f"OPTIMIZE {self.table(name)}"


class Overwritten(Variant):
    """Spark's own tables in buckets; a change overwrites the partitions in which rows change."""

    conf = {
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        # Else tasks that are no longer buckets write one file per bucket each.
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    }

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__("overwrite_partitions", spark, (folder / "plain",))
        self._loaded = folder / "plain-loaded"

    def table(self, name: str) -> str:
        return f"{DATABASE}.plain_{name}"

    def statement(self, workload: Workload) -> str:
        if not workload.overwrite:
            return super().statement(workload)
        return self.with_names(f"INSERT OVERWRITE {{{workload.target}}} {workload.overwrite}")

    def create(self, table: Table) -> None:
        (self.folders[0] / table.name).mkdir(parents=True)
        self.spark.sql(f"CREATE TABLE {self.table(table.name)} ({', '.join(table.columns)}) USING parquet "
                       f"PARTITIONED BY ({PARTITION}) CLUSTERED BY ({KEY}) SORTED BY ({KEY}) INTO {BUCKETS} BUCKETS "
                       f"LOCATION '{self.folders[0] / table.name}'")  # fmt: skip

    def append(self, table: Table, rows: DataFrame) -> None:
        rows.repartition(BUCKETS, rows[KEY]).write.insertInto(self.table(table.name))

    def version(self, name: str) -> int:
        kept = self._loaded / name
        if not kept.exists():
            shutil.copytree(self.folders[0] / name, kept)
        return 0

    def go_back(self, name: str, version: int) -> None:
        shutil.rmtree(self.folders[0] / name)
        shutil.copytree(self._loaded / name, self.folders[0] / name)
        self.spark.sql(f"REFRESH TABLE {self.table(name)}")

    def compaction(self, name: str) -> str:
        raise NotImplementedError


class _Names(dict[str, str]):
    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self._variant = variant

    def __missing__(self, name: str) -> str:
        return (self._variant if name in TARGETS else self._variant.sources).table(name)


def _parts(table: Table, rows: DataFrame) -> list[DataFrame]:
    if table.name != "small":
        return [rows]
    # Not by the key's hash, which is the bucket: each append has rows of all buckets.
    return [rows.where(f"pmod(hash(note), {APPENDS}) = {part}") for part in range(APPENDS)]


def _properties(properties: dict[str, str]) -> str:
    return ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
