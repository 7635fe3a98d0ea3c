"""A table as the source of a stream: its rows, then those that commits append, each of them once."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from colocation.spark import compact, drop_partitions
from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table

pytestmark = pytest.mark.spark

NAMESPACE = "sources"
IN = f"{CATALOG}.{NAMESPACE}"


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    return tables.configure(application.newSession())


Query = Callable[[DataFrame], DataFrame]


class Reader:
    """A stream over a table that ends when it has read what is there; its checkpoint stays."""

    def __init__(self, session: SparkSession, table: str, folder: Path) -> None:
        self.session = session
        self.table = table
        self.checkpoint = folder / "at"
        self.batches: list[list[Any]] = []
        self.progress: list[int] = []
        self.meanwhile: Callable[[], object] = lambda: None
        """Runs with each micro-batch."""

    def stream(self, **options: Any) -> DataFrame:
        return self.session.readStream.options(**options).table(self.table)

    def read(
        self, query: Callable[[DataFrame], DataFrame] = lambda rows: rows.select("k"), **options: Any
    ) -> list[Any]:
        """The rows that are new since the last time, sorted."""
        self.batches.clear()

        def collect(rows: DataFrame, _: int) -> None:
            found = [tuple(row) if len(row) > 1 else row[0] for row in rows.collect()]
            self.batches += [found] if found else []
            self.meanwhile()

        writer = query(self.stream(**options)).writeStream.foreachBatch(collect)
        running = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        running.awaitTermination()
        self.progress = [one["numInputRows"] for one in running.recentProgress]
        return sorted(row for batch in self.batches for row in batch)


@pytest.fixture
def reader(session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Reader:
    name = f"{IN}.t{abs(hash(request.node.name)) % 10**9}"
    make_table(session, name, "k BIGINT, p INT", "PARTITIONED BY (p)")
    return Reader(session, name, tmp_path)


def append(reader: Reader, *keys: int, partition: int = 0) -> None:
    values = ", ".join(f"({key}, {partition})" for key in keys)
    reader.session.sql(f"INSERT INTO {reader.table} VALUES {values}")


def test_rows_then_appends(reader: Reader, session: SparkSession) -> None:
    """Each row once, over restarts, whatever compaction does between; numbers of rows are reported."""
    assert reader.read() == []
    append(reader, 1, 2)
    append(reader, 3, partition=1)
    assert reader.read() == [1, 2, 3]
    assert sum(reader.progress) == 3
    assert reader.read() == []
    append(reader, 4)
    compact(session, reader.table.rpartition(".")[2], namespace=NAMESPACE, catalog=CATALOG)
    append(reader, 5, partition=1)
    assert reader.read(lambda rows: rows.where("p = 1 OR k = 4").select("k", "p")) == [(4, 0), (5, 1)]
    append(reader, 6)
    assert reader.read(startingVersion=1) == [6]
    session.sql(f"ALTER TABLE {reader.table} ADD COLUMNS (note STRING)")
    session.sql(f"INSERT INTO {reader.table} VALUES (7, 'new', 0)")
    assert reader.read(lambda rows: rows.select("k", "note")) == [(7, "new")]


@pytest.mark.parametrize("whole", [True, False])
def test_limits(whole: bool, reader: Reader) -> None:
    """Of the first snapshot and of appends; each file once."""
    for key in range(0, 30, 10):
        append(reader, *range(key, key + 10))
    options = {} if whole else {"startingVersion": 1}
    assert reader.read(maxFilesPerTrigger=4, **options) == list(range(30))
    assert len(reader.batches) > 3
    append(reader, *range(30, 40))
    assert reader.read(maxBytesPerTrigger="1") == list(range(30, 40))
    assert len(reader.batches) > 3


def test_a_run_ends_with_the_rows_that_were_there(reader: Reader) -> None:
    """What is committed while it reads belongs to the next run."""
    append(reader, 1)
    later = iter([2])
    reader.meanwhile = lambda: [append(reader, key) for key in later]
    assert reader.read() == [1]
    assert reader.read() == [2]


def test_where_a_stream_begins(reader: Reader, session: SparkSession, tmp_path: Path) -> None:
    """At a commit, at a time, at the next commit; what is no place to begin at is refused."""
    for key in (1, 2, 3):
        append(reader, key)
    snapshots = session.table(f"{reader.table}.snapshots").orderBy("snapshot_id")
    times = [row[0] for row in snapshots.selectExpr("CAST(committed_at AS STRING)").collect()]

    def begins(**options: Any) -> list[Any]:
        reader.checkpoint = tmp_path / str(len(list(tmp_path.iterdir())))
        return reader.read(**options)

    assert begins(startingVersion=1) == [1, 2, 3]
    assert begins(startingVersion=3) == [3]
    assert begins(startingVersion=4) == []
    assert begins(startingTimestamp="2020-01-01") == [1, 2, 3]
    assert begins(startingTimestamp=times[2])[-1] == 3
    assert begins(startingVersion="latest") == []
    append(reader, 4)
    assert reader.read(startingVersion="latest") == [4]
    for options, error in [
        ({"startingVersion": "9"}, "startingVersion='9'; allowed: commits 1"),
        ({"startingVersion": "first"}, "startingVersion='first'; allowed: the id of a snapshot"),
        ({"startingTimestamp": "2999-01-01"}, "allowed: a time that has come"),
        ({"startingTimestamp": "soon"}, "startingTimestamp='soon'; allowed: a time"),
        ({"startingVersion": "1", "startingTimestamp": "2020-01-01"}, "allowed: one of them"),
        ({"maxFilesPerTrigger": "0"}, "maxFilesPerTrigger='0'; allowed: a whole number"),
        ({"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger='much'; allowed: bytes"),
        ({"skipChangeCommits": "yes"}, "skipChangeCommits='yes'; allowed: true or false"),
    ]:
        with pytest.raises((AnalysisException, StreamingQueryException), match=error):
            begins(**options)


CHANGES = {
    "overwrite": lambda reader: reader.session.sql(f"INSERT OVERWRITE {reader.table} VALUES (9, 9)"),
    "update": lambda reader: reader.session.sql(f"UPDATE {reader.table} SET p = 7 WHERE k = 1"),
    "delete": lambda reader: reader.session.sql(f"DELETE FROM {reader.table} WHERE k = 1"),
    "drop-partitions": lambda reader: drop_partitions(
        reader.session, reader.table.rpartition(".")[2], [{"p": 1}], namespace=NAMESPACE, catalog=CATALOG
    ),
    "roll-back": lambda reader: reader.session.sql(
        f"CALL {CATALOG}.system.roll_back(table => '{reader.table.partition('.')[2]}', snapshot_id => 1)"
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_commits_that_are_no_appends(change: str, reader: Reader) -> None:
    """What was appended before them is read; then they are refused by name, or passed over if the user asks for it."""
    append(reader, 1)
    append(reader, 2, partition=1)
    assert reader.read() == [1, 2]
    append(reader, 3)
    CHANGES[change](reader)
    append(reader, 4)
    with pytest.raises(StreamingQueryException, match=rf"NotAnAppend: snapshot 4 .*{change}.*skipChangeCommits"):
        reader.read()
    assert [row for batch in reader.batches for row in batch] == [3]
    assert reader.read(skipChangeCommits="true") == [4]


def test_a_merge_that_only_inserts_is_an_append(reader: Reader) -> None:
    """It removes no file; one that also updates is no append."""
    append(reader, 1)
    merge = f"""MERGE INTO {reader.table} t USING (SELECT * FROM VALUES (1, 9), (2, 0) AS v(k, p)) s ON t.k = s.k
        {{}} WHEN NOT MATCHED THEN INSERT *"""
    reader.session.sql(merge.format(""))
    assert reader.read() == [1, 2]
    reader.session.sql(merge.format("WHEN MATCHED THEN UPDATE SET *"))
    with pytest.raises(StreamingQueryException, match=r"NotAnAppend: snapshot 3 .*merge.*skipChangeCommits"):
        reader.read()


def test_partition_columns_of_older_snapshots(reader: Reader, session: SparkSession) -> None:
    """A stream has the table's columns as they are now; it begins after a replacement with others."""
    append(reader, 1, 2)
    clauses = "PARTITIONED BY (q) CLUSTERED BY (k) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='sales')"
    session.sql(f"CREATE OR REPLACE TABLE {reader.table} {clauses} AS SELECT 3L AS k, 0 AS p, 7 AS q")
    session.sql(f"INSERT INTO {reader.table} (k, p, q) VALUES (4, 0, 8)")
    error = r"snapshot 1 .*its partition columns are \(p\) and not \(q\); begin with a later snapshot: startingVersion"
    with pytest.raises(StreamingQueryException, match=error):
        reader.read(startingVersion=1)
    shutil.rmtree(reader.checkpoint)
    assert reader.read(lambda rows: rows.select("k", "q"), startingVersion=3) == [(4, 8)]


def test_rows_whose_snapshots_are_gone(reader: Reader, session: SparkSession) -> None:
    """The stream never goes on with rows missing: the error names what the table keeps."""
    append(reader, 1)
    assert reader.read() == [1]
    session.sql(f"ALTER TABLE {reader.table} SET TBLPROPERTIES ('retention_snapshots' = '1')")
    append(reader, 2)
    assert reader.read() == [2]
    append(reader, 3)
    append(reader, 4)
    with pytest.raises(StreamingQueryException, match=r"SnapshotExpired: .* snapshot 2, .*keeps: 3 to 4"):
        reader.read()
    with pytest.raises(StreamingQueryException, match=r"startingVersion='3'; allowed: commits 4 .* to 5, the next"):
        reader.checkpoint = reader.checkpoint.with_name("again")
        reader.read(startingVersion=3)


def test_a_micro_batch_that_is_run_again(reader: Reader) -> None:
    """The driver ends after a batch was planned, or before it is marked as done: the batch has the same rows again."""
    append(reader, 1, 2, 3)

    def kill_after(batch: int, step: str) -> None:
        for done in (reader.checkpoint / step).iterdir():
            if done.name.lstrip(".").split(".")[0].isdigit() and int(done.name.lstrip(".").split(".")[0]) >= batch:
                done.unlink()

    assert reader.read() == [1, 2, 3]
    append(reader, 4)
    kill_after(0, "commits")
    assert reader.read() == [1, 2, 3, 4]
    assert reader.batches == [reader.batches[0], [4]]
    append(reader, 5)
    assert reader.read() == [5]
    append(reader, 6)
    kill_after(2, "commits")
    assert reader.read() == [5, 6]
    kill_after(3, "commits")
    kill_after(3, "offsets")
    append(reader, 7)
    assert reader.read() == [6, 7]


def test_a_table_that_took_the_name_has_its_own_rows(reader: Reader, session: SparkSession) -> None:
    """They are not the stream's, neither after a micro-batch nor in one that is run again."""
    append(reader, 1)
    assert reader.read() == [1]
    session.sql(f"DROP TABLE {reader.table}")
    make_table(session, reader.table, "k BIGINT, p INT", "PARTITIONED BY (p)")
    append(reader, 2)
    error = "it is another table, or was dropped and recreated. Begin with a new checkpoint"
    with pytest.raises(StreamingQueryException, match=error):
        reader.read()
    for done in (reader.checkpoint / "commits").iterdir():
        done.unlink()
    with pytest.raises(StreamingQueryException, match=error):
        reader.read()


def test_a_stream_joins_its_group_without_a_shuffle(reader: Reader, session: SparkSession, tmp_path: Path) -> None:
    """A micro-batch is as bucketed as the table; the sink gets each row once."""
    target = make_table(session, f"{IN}.joined", "k BIGINT, v BIGINT")
    static = make_table(session, f"{IN}.static")
    session.sql(f"INSERT INTO {static} SELECT id, id * 10 FROM range(20)")
    append(reader, *range(10))
    plans = []

    def keep(rows: DataFrame, _: int) -> None:
        plans.append(rows.count())

    joined = reader.stream().join(session.table(static), "k").select("k", "v")
    query = joined.writeStream.option("checkpointLocation", str(tmp_path / "join")).trigger(availableNow=True)
    running = query.foreachBatch(keep).start()
    running.awaitTermination()
    assert plans == [10]
    assert "Exchange" not in running._jsq.streamingQuery().lastExecution().executedPlan().toString()
    query = joined.writeStream.option("checkpointLocation", str(tmp_path / "sink")).trigger(availableNow=True)
    query.toTable(target).awaitTermination()
    assert session.table(target).agg(F.count("*"), F.sum("v")).collect()[0] == (10, 450)


def test_values_of_texts_and_renamed_columns(session: SparkSession, tmp_path: Path) -> None:
    """Lengths and other names change nothing."""
    table = make_table(session, f"{IN}.texts", "k BIGINT, s VARCHAR(3), f CHAR(4), c STRING")
    session.sql(f"INSERT INTO {table} VALUES (1, 'abc', 'ab', 'x')")
    session.sql(f"ALTER TABLE {table} RENAME COLUMN c TO d")
    reader = Reader(session, table, tmp_path)
    assert reader.stream().schema == session.table(table).schema
    equal = "s = 'abc' AND f = 'ab' AND upper(f) = 'AB  '"
    assert reader.read(lambda rows: rows.where(equal).select("k", "s", "f", "d")) == [(1, "abc", "ab  ", "x")]
    session.sql(f"INSERT INTO {table} VALUES (2, 'd', 'e', NULL)")
    assert reader.read(lambda rows: rows.select("d", "k", "s")) == [(None, 2, "d")]


def test_a_checkpoint_that_cannot_be_written_is_named(reader: Reader, session: SparkSession, tmp_path: Path) -> None:
    """In one line, instead of a Java stack: in a stream's option, in the session's setting, over a table or to one."""
    (tmp_path / "file").touch()
    hint = "Give the option checkpointLocation a folder that driver and executors may write and that outlives them"
    places = {
        str(tmp_path / "file" / "at"): "Parent path is not a directory",
        "s3n://lake/at": 'No FileSystem for scheme "s3n"',
        "abfs://lake@none/at": "AzureBlobFileSystem",
    }
    for place, reason in places.items():
        target = make_table(session, f"{reader.table}_{len(list(tmp_path.iterdir()))}_{len(place)}")
        writer = reader.stream().selectExpr("k", "k AS v").writeStream.option("checkpointLocation", place)
        for start in (writer.foreachBatch(lambda *_: None).start, partial(writer.toTable, target)):
            with pytest.raises(AnalysisException) as refused:
                start()
            assert str(refused.value).startswith(f"the stream's checkpoint {place} cannot be written: ")
            assert reason in str(refused.value)
            assert hint in str(refused.value)
            assert len(str(refused.value)) < 600
    session.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "file" / "all"))
    with pytest.raises(AnalysisException, match=hint):
        reader.stream().writeStream.foreachBatch(lambda *_: None).start()
    session.conf.unset("spark.sql.streaming.checkpointLocation")
    reader.stream().writeStream.format("memory").queryName("rows").trigger(availableNow=True).start().awaitTermination()
