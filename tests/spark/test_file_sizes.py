"""Files end at a size; those that follow each other by key are read as one, and a change rewrites few of them."""

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table

pytestmark = pytest.mark.spark

NAMESPACE = "sized"
IN = f"{CATALOG}.{NAMESPACE}"
ROWS = 60_000
IN_ORDER, MERGED = "files in order", "files merged"
JOIN = "SELECT a.k, b.v FROM {t} a JOIN {t} b ON a.k = b.k WHERE b.v >= 0"


@pytest.fixture
def small_files(session: SparkSession, tables: ClusterTables) -> SparkSession:
    session.conf.set("spark.colocation.write.targetFileSize", "4k")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session


def most_files(session: SparkSession, table: str) -> int:
    """Of a bucket."""
    counts = f"SELECT count(*) AS files FROM {table}.files GROUP BY bucket"
    return int(session.sql(f"SELECT max(files) FROM ({counts})").collect()[0][0])


def joined(session: SparkSession, table: str) -> tuple[str, int]:
    """The plan of a join of a table with itself, and how many rows it has."""
    query = session.sql(JOIN.format(t=table))
    return query._jdf.queryExecution().executedPlan().toString(), query.count()


def test_files_of_a_bucket_follow_each_other(small_files: SparkSession) -> None:
    """So a join reads them one after the other, also where Spark reads row by row as it generates no code."""
    table = make_table(small_files, f"{IN}.large", "k BIGINT, v BIGINT")
    small_files.sql(f"INSERT INTO {table} SELECT id, id FROM range({ROWS})")
    assert most_files(small_files, table) > 2
    plan, count = joined(small_files, table)
    assert (plan.count(IN_ORDER), plan.count(MERGED), "Sort [" in plan, count) == (2, 0, False, ROWS)
    small_files.conf.set("spark.sql.codegen.wholeStage", "false")
    assert len(small_files.sql(JOIN.format(t=table)).collect()) == ROWS


@pytest.mark.parametrize(("kind", "value"), [
    ("INT", "CAST(id AS INT)"), ("STRING", "STRING(id)"), ("DATE", "DATE '2020-01-01' + CAST(id AS INT)"),
    ("DECIMAL(12,2)", "CAST(id / 100 AS DECIMAL(12,2))"), ("TIMESTAMP", "TIMESTAMP_SECONDS(id)"),
])  # fmt: skip
def test_manifests_have_first_and_last_keys(small_files: SparkSession, kind: str, value: str) -> None:
    """Whatever the type of the first sort column, files end at the size."""
    table = f"{IN}.by_{kind.partition('(')[0].lower()}"
    small_files.sql(f"CREATE TABLE {table} (k BIGINT, v {kind}) CLUSTERED BY (k) SORTED BY (v) INTO 6 BUCKETS "
                    "TBLPROPERTIES ('colocate_with'='sales')")  # fmt: skip
    small_files.sql(f"INSERT INTO {table} SELECT id, {value} FROM range({ROWS})")
    assert most_files(small_files, table) > 2
    found = f"SELECT _metadata.file_path AS file, STRING(min(v)) AS low, STRING(max(v)) AS high FROM {table} GROUP BY 1"
    read = {row["file"].rpartition("/")[2]: [row["low"], row["high"]] for row in small_files.sql(found).collect()}
    files = small_files.sql(f"SELECT path, first_key[0] AS low, last_key[0] AS high FROM {table}.files").collect()
    assert {row["path"].rpartition("/")[2]: [row["low"], row["high"]] for row in files} == read


def test_keys_without_a_range_have_one_file(small_files: SparkSession) -> None:
    """Nothing would tell in which order to read several."""
    table = f"{IN}.fractions"
    small_files.sql(f"CREATE TABLE {table} (k BIGINT, v DOUBLE) CLUSTERED BY (k) SORTED BY (v) INTO 6 BUCKETS "
                    "TBLPROPERTIES ('colocate_with'='sales')")  # fmt: skip
    small_files.sql(f"INSERT INTO {table} SELECT id, id FROM range({ROWS})")
    assert most_files(small_files, table) == 1
    assert small_files.sql(f"SELECT DISTINCT first_key FROM {table}.files").collect() == [(None,)]


@pytest.mark.parametrize(
    ("condition", "most"),
    [
        ("v = DATE '2020-02-01'", 6),
        ("DATE '2020-02-01' >= v", 6),
        ("DATE '2020-02-01' > v AND k > 5", 6),
        ("v BETWEEN DATE '2100-01-01' AND DATE '2100-01-05'", 6),
        ("v IN (DATE '2020-02-01', DATE '2101-01-01')", 12),
        ("v > DATE '2184-01-01' OR v IS NULL", 12),
        ("v <=> NULL", 6),
        ("v IS NULL", 6),
        ("v < DATE '2019-01-01'", 6),
        ("v IS NOT NULL", 100),
        ("v <> DATE '2020-02-01'", 100),
        ("year(v) = 2050", 100),
        ("v + INTERVAL '1' DAY > DATE '2184-01-01'", 100),
    ],
)
def test_files_are_left_out_by_their_keys(small_files: SparkSession, condition: str, most: int) -> None:
    """Before they are opened; what conditions do not understand reads all files."""
    table, same = f"{IN}.dated", "dated_rows"
    rows = f"SELECT id AS k, IF(id < 50, NULL, DATE '2020-01-01' + CAST(id AS INT)) AS v FROM range({ROWS})"
    if not small_files.catalog.tableExists(table):
        small_files.sql(f"CREATE TABLE {table} (k BIGINT, v DATE) CLUSTERED BY (k) SORTED BY (v) INTO 6 BUCKETS "
                        "TBLPROPERTIES ('colocate_with'='sales')")  # fmt: skip
        small_files.sql(f"INSERT INTO {table} {rows}")
    small_files.sql(f"CREATE OR REPLACE TEMP VIEW {same} AS {rows}")
    query = small_files.sql(f"SELECT sum(k), count(v), count(*) FROM {table} WHERE {condition}")
    assert (
        query.collect() == small_files.sql(f"SELECT sum(k), count(v), count(*) FROM {same} WHERE {condition}").collect()
    )
    scan = query._jdf.queryExecution().executedPlan().collectLeaves().head()
    read, all_files = scan.metrics().apply("numFiles").value(), small_files.table(f"{table}.files").count()
    assert read <= most and all_files > 20 and (most < 100 or read == all_files)


def test_appends_of_growing_keys_are_one_order(small_files: SparkSession) -> None:
    """More files than can be merged need neither a merge nor a sort; one that overlaps them is merged with them."""
    table = make_table(small_files, f"{IN}.growing", "k BIGINT, v BIGINT")
    small_files.conf.set("spark.sql.adaptive.enabled", "true")  # it splits a bucket's rows between tasks of the query
    days = small_files.range(0, 66 * 90, numPartitions=66).selectExpr("id AS k", "id AS v")
    days.where("pmod(hash(k), 6) = 1").writeTo(table).option("target-file-size", "1").append()
    small_files.conf.set("spark.sql.adaptive.enabled", "false")
    assert most_files(small_files, table) == 66
    for day in range(66, 70):
        rows = f"SELECT /*+ COALESCE(1) */ id, id FROM range({day * 90}, {day * 90 + 90})"
        small_files.sql(f"INSERT INTO {table} {rows}")
    rows = small_files.table(table).count()
    plan, count = joined(small_files, table)
    assert (most_files(small_files, table), plan.count(IN_ORDER), "Sort [" in plan, count) == (70, 2, False, rows)
    small_files.sql(f"INSERT INTO {table} SELECT k, v FROM {table} WHERE k % 70 = 0")
    again = small_files.table(table).count() - rows
    plan, count = joined(small_files, table)
    assert (plan.count(MERGED), "Sort [" in plan, count) == (2, False, rows + 3 * again) and again > 9


def test_keys_in_common_are_in_one_file_or_merged(small_files: SparkSession) -> None:
    """A file ends between two keys; one key of more rows than a file should have makes a longer file."""
    table = make_table(small_files, f"{IN}.repeated", "k BIGINT, v BIGINT")
    small_files.sql(f"INSERT INTO {table} SELECT id % 2, id FROM range({ROWS // 10})")
    plan, count = joined(small_files, table)
    assert ("Sort [" in plan, count) == (False, 2 * (ROWS // 20) ** 2)


def test_a_change_rewrites_the_files_it_touches(small_files: SparkSession) -> None:
    """Not all of the bucket; the files still follow each other."""
    table = make_table(small_files, f"{IN}.changed", "k BIGINT, v BIGINT")
    small_files.sql(f"INSERT INTO {table} SELECT id, id FROM range({ROWS})")
    before = small_files.table(f"{table}.files").count()
    small_files.sql(f"UPDATE {table} SET v = -v - 1 WHERE k BETWEEN 100 AND 102")
    last = small_files.sql(f"SELECT * FROM {table}.snapshots ORDER BY snapshot_id DESC LIMIT 1").collect()[0]
    assert last["files_removed"] <= 3 < before / 6
    plan, _ = joined(small_files, table)
    assert plan.count(IN_ORDER) == 2
    assert small_files.table(table).where("v < 0").count() == 3


def test_an_upsert_leaves_files_that_follow_each_other(small_files: SparkSession) -> None:
    """Rows that stay and rows that are new are merged; files end at the size, each with its own first and last key."""
    table = make_table(small_files, f"{IN}.upserted", "k BIGINT, v BIGINT")
    source = make_table(small_files, f"{IN}.upserts", "k BIGINT, v BIGINT")
    small_files.sql(f"INSERT INTO {table} SELECT id * 2, id FROM range({ROWS // 2})")
    small_files.sql(f"INSERT INTO {source} SELECT id * 3, -id - 1 FROM range({ROWS // 3})")
    before = most_files(small_files, table)
    small_files.sql(f"MERGE INTO {table} t USING {source} s ON t.k = s.k "
                    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    assert most_files(small_files, table) > before > 2
    plan, _ = joined(small_files, table)
    assert (plan.count(IN_ORDER), plan.count(MERGED), "Sort [" in plan) == (2, 0, False)
    found = f"SELECT _metadata.file_name AS file, STRING(min(k)), STRING(max(k)), count(*) FROM {table} GROUP BY 1"
    files = small_files.sql(f"SELECT path, first_key[0], last_key[0], rows FROM {table}.files").collect()
    assert sorted((row["path"].rpartition("/")[2], *row[1:]) for row in files) == sorted(
        tuple(row) for row in small_files.sql(found).collect()
    )
    new = f"SELECT id * 3, -id - 1 FROM range({ROWS // 3})"
    old = f"SELECT id * 2, id FROM range({ROWS // 2}) WHERE id % 3 <> 0"
    assert small_files.sql(f"SELECT * FROM {table} EXCEPT ALL ({new} UNION ALL {old})").count() == 0
    assert small_files.table(table).count() == ROWS // 3 + ROWS // 3


def test_a_compaction_leaves_full_files(small_files: SparkSession) -> None:
    """What is small or overlaps is merged; files that are large enough and follow each other stay."""
    table = make_table(small_files, f"{IN}.compacted", "k BIGINT, v BIGINT")
    small_files.sql(f"INSERT INTO {table} SELECT id, id FROM range({ROWS})")
    small_files.sql(f"CALL {CATALOG}.system.compact(table => '{NAMESPACE}.compacted')")
    full = {row["path"] for row in small_files.table(f"{table}.files").collect()}
    for part in range(3):
        small_files.sql(
            f"INSERT INTO {table} SELECT id, id FROM range({ROWS} + {part} * 60, {ROWS} + {part} * 60 + 60)"
        )
    done = small_files.sql(f"CALL {CATALOG}.system.compact(table => '{NAMESPACE}.compacted')").collect()[0]
    assert 18 <= done["files_before"] <= 30 and done["rows"] < ROWS / 2
    assert len(full & {row["path"] for row in small_files.table(f"{table}.files").collect()}) >= len(full) - 6
    again = small_files.sql(f"CALL {CATALOG}.system.compact(table => '{NAMESPACE}.compacted')").collect()[0]
    assert again["files_before"] == 0
    plan, count = joined(small_files, table)
    assert (plan.count(IN_ORDER), count) == (2, ROWS + 180)
