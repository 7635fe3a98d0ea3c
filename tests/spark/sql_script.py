"""One script of SQL for every client: what it runs in Spark, and what DuckDB, or we, expect of each statement.

``{c}`` is the catalog, ``{n}`` its namespace, and a database of Hive's in which ``FOREIGN`` makes tables of the same
names.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A statement.

    Attributes:
        other: DuckDB's statement, where it needs other words.
        rows: expected, where DuckDB has nothing like it.
        error: a pattern of the words in which it is refused.
        names: texts that must be among the values that are shown, and ``hides``: that must not.
    """

    sql: str
    other: str | None = None
    rows: tuple[tuple[str | None, ...], ...] | None = None
    error: str | None = None
    names: tuple[str, ...] | None = None
    hides: tuple[str, ...] = ()


FOREIGN = [
    "CREATE DATABASE spark_catalog.{n}",
    "CREATE TABLE spark_catalog.{n}.orders STORED AS PARQUET TBLPROPERTIES ('of'='others') "
    "AS SELECT id AS k FROM range(42)",
    "CREATE TABLE spark_catalog.{n}.lines USING parquet PARTITIONED BY (p) "
    "AS SELECT id AS k, id % 3 AS p FROM range(10)",
]
FOREIGN_STATE = [
    "SHOW TABLES IN spark_catalog.{n}",
    *(f"{asked} spark_catalog.{{n}}.{table}" for table in ("orders", "lines")
      for asked in ("SELECT * FROM", "SHOW TBLPROPERTIES", "SHOW CREATE TABLE")),
]  # fmt: skip
"""What must be the same before and after the script."""
NOTHING = "SELECT 1 WHERE false"
LAYOUT = "CLUSTERED BY (k) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='sales')"
ORDERS = "k BIGINT, total DECIMAL(10,2), note STRING, dt DATE"
SCRIPT = [
    # Definitions
    Step(f"CREATE TABLE {{c}}.{{n}}.orders ({ORDERS}) PARTITIONED BY (dt) {LAYOUT}", f"CREATE TABLE orders ({ORDERS})"),
    Step(f"CREATE TABLE {{c}}.{{n}}.orders (k BIGINT) {LAYOUT}", error="TABLE_OR_VIEW_ALREADY_EXISTS"),
    Step(f"CREATE TABLE {{c}}.{{n}}.wrong (k BIGINT) {LAYOUT.replace('6', '4')}",
         error="SchemaMismatch: group sales has 6 buckets"),
    Step("USE {c}.{n}", NOTHING),
    Step("SHOW TABLES", names=("orders",), hides=("wrong",)),
    # Writes
    Step("INSERT INTO orders VALUES (1, 10, 'a', DATE '2026-01-01'), (2, 20.5, NULL, DATE '2026-01-02')"),
    Step("INSERT INTO orders (dt, note, total, k) SELECT DATE '2026-01-02', 'no total', NULL, 3"),
    # Times of snapshots are of whole seconds.
    Step("SELECT reflect('java.lang.Thread', 'sleep', 1100L) IS NULL", rows=(("false",),)),
    Step("INSERT INTO orders PARTITION (dt = '2026-01-03') SELECT 4, 40, 'd'",
         "INSERT INTO orders SELECT 4, 40, 'd', DATE '2026-01-03'"),
    Step("INSERT OVERWRITE orders PARTITION (dt = '2026-01-01') SELECT id, id * 1.5, 'over' FROM range(100, 120)",
         "DELETE FROM orders WHERE dt = DATE '2026-01-01'; "
         "INSERT INTO orders SELECT range, range * 1.5, 'over', DATE '2026-01-01' FROM range(100, 120)"),
    Step("SET spark.sql.sources.partitionOverwriteMode = dynamic", NOTHING, names=()),
    Step("INSERT OVERWRITE orders SELECT k + 50, total, 'moved', dt FROM orders WHERE dt = DATE '2026-01-02'",
         "UPDATE orders SET k = k + 50, note = 'moved' WHERE dt = DATE '2026-01-02'"),
    Step("RESET spark.sql.sources.partitionOverwriteMode", NOTHING),
    Step("SELECT * FROM orders"),
    Step(f"CREATE TABLE lines {LAYOUT} AS SELECT k, n, CAST(total * n AS DECIMAL(12,2)) AS price FROM orders "
         "LATERAL VIEW explode(sequence(1, 3)) AS n WHERE k % 2 = 0",
         "CREATE TABLE lines AS SELECT k, n::INT AS n, (total * n)::DECIMAL(12,2) AS price "
         "FROM orders, range(1, 4) r(n) WHERE k % 2 = 0"),
    # Queries
    Step("SELECT o.note, count(*), sum(l.price) FROM orders o JOIN lines l ON o.k = l.k GROUP BY o.note"),
    Step("SELECT o.k, l.price FROM orders o LEFT JOIN lines l ON o.k = l.k AND l.n = 2 WHERE o.k > 110 OR o.k < 60"),
    Step("SELECT k FROM orders WHERE k NOT IN (SELECT k FROM lines) AND total IS NOT NULL"),
    Step("SELECT k, rank() OVER (PARTITION BY k ORDER BY price DESC) FROM lines WHERE k > 112"),
    # Older snapshots, metadata
    Step("SELECT snapshot_id, is_current, rows FROM orders.snapshots ORDER BY snapshot_id",
         rows=(("1", "false", "2"), ("2", "false", "3"), ("3", "false", "4"), ("4", "false", "23"),
               ("5", "true", "23"))),
    Step("SELECT k FROM orders VERSION AS OF 3", rows=(("1",), ("2",), ("3",), ("4",))),
    Step("SELECT n.k FROM orders n JOIN orders VERSION AS OF 1 o ON n.k = o.k + 50", rows=(("52",),)),
    Step("DECLARE VARIABLE query STRING", NOTHING),
    Step("SET VAR query = (SELECT 'SELECT k, total FROM orders TIMESTAMP AS OF \"' || committed_at || '\"' "
         "FROM {c}.{n}.orders.snapshots WHERE snapshot_id = 2)", NOTHING),
    Step("EXECUTE IMMEDIATE query", rows=(("1", "10.00"), ("2", "20.50"), ("3", None))),
    Step("SELECT * FROM orders VERSION AS OF 99", error=r"orders keeps no snapshot 99; it keeps: 5 \("),
    Step("SELECT * FROM orders TIMESTAMP AS OF '2020-01-01'", error="orders keeps no snapshot of 2020-01-01"),
    Step("SELECT partition['dt'], sum(rows) FROM {c}.{n}.orders.files GROUP BY 1",
         "SELECT dt, count(*) FROM orders GROUP BY 1"),
    Step("SELECT count(*), count(DISTINCT bucket), max(state) FROM {c}.{n}.orders.replicas",
         rows=(("12", "6", "complete"),)),
    # Changes
    Step("ALTER TABLE orders ADD COLUMN weight INT", "ALTER TABLE orders ADD COLUMN weight INT"),
    Step("ALTER TABLE orders RENAME COLUMN note TO remark"),
    Step("ALTER TABLE orders SET TBLPROPERTIES ('recycle_after_seconds'='60')", NOTHING),
    Step("SHOW TBLPROPERTIES orders", names=("colocate_with", "sales")),
    Step("INSERT INTO orders (k, weight, total, remark, dt) VALUES (9, 90, NULL, NULL, DATE '2026-01-09')"),
    Step("SELECT k, total, remark, weight, dt FROM orders WHERE k < 105"),
    Step("SELECT note FROM orders", error=r"UNRESOLVED_COLUMN"),
    Step("SELECT count(note) FROM orders VERSION AS OF 5", rows=(("23",),)),
    # Exactly once
    Step("INSERT INTO lines WITH ('idempotency-key'='day-1', 'write-id'='first') VALUES (1, 1, 1)",
         "INSERT INTO lines VALUES (1, 1, 1)"),
    Step("CALL {c}.system.write_result(id => 'first')", names=('"rows":1', '"snapshot_id":2')),
    Step("INSERT INTO lines WITH ('idempotency-key'='day-1') VALUES (1, 1, 1)", NOTHING),
    Step("SET spark.colocation.write.idempotencyKey = day-1", NOTHING, names=()),
    Step("INSERT INTO lines VALUES (1, 1, 1)", NOTHING),
    Step("RESET spark.colocation.write.idempotencyKey", NOTHING),
    Step("SELECT count(*) FROM lines"),
    # Procedures
    Step("INSERT INTO lines VALUES (2, 2, 2)"),
    Step("CALL {c}.system.compact(table => '{n}.lines')", names=("4",)),
    Step("CALL {c}.system.drop_partitions(table => '{n}.orders', partitions => array(map('dt', '2026-01-01')))",
         "DELETE FROM orders WHERE dt = DATE '2026-01-01'", names=("20",)),
    Step("CALL {c}.system.vacuum(table => '{n}.orders')", error=r"there is no procedure \S+system.vacuum; allowed: "),
    Step("SELECT l.*, o.dt FROM lines l FULL OUTER JOIN orders o ON l.k = o.k"),
    # Changes of rows
    *(Step(statement, statement, names=()) for statement in (
        "UPDATE orders SET total = 1 WHERE k = 4",
        "MERGE INTO lines USING orders ON lines.k = orders.k WHEN MATCHED AND lines.k > 3 THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (k) VALUES (orders.k)",
        "DELETE FROM orders WHERE k = 3")),
    Step("SELECT l.*, o.dt, o.total FROM lines l FULL OUTER JOIN orders o ON l.k = o.k"),
    # Failures
    Step("INSERT INTO lines SELECT 'text', 1, 1", error="CAST_INVALID_INPUT|INCOMPATIBLE_DATA_FOR_TABLE"),
    Step(f"CREATE TABLE strict (k BIGINT NOT NULL) {LAYOUT}", NOTHING),
    Step("INSERT INTO strict SELECT IF(id > 3, NULL, id) FROM range(9)",
         error="SchemaMismatch: column k holds NULL"),
    Step("SELECT * FROM strict", NOTHING),
    Step("DROP TABLE strict", NOTHING),
    Step("INSERT OVERWRITE lines SELECT IF(ASSERT_TRUE(id < 5) IS NULL, id, 0), 1, 1 FROM range(9)",
         error="is not true"),
    Step("SELECT * FROM lines"),
    Step("DELETE FROM orders WHERE dt = '2026-01-03' OR dt IS NULL", "DELETE FROM orders WHERE dt = DATE '2026-01-03'"),
    Step("SELECT k, dt FROM orders"),
    Step("TRUNCATE TABLE lines", "DELETE FROM lines"),
    Step(f"CREATE OR REPLACE TABLE lines {LAYOUT} AS SELECT k, remark FROM orders",
         "DROP TABLE lines; CREATE TABLE lines AS SELECT k, remark FROM orders"),
    Step("SELECT k, l.remark, o.remark, weight FROM lines l JOIN orders o USING (k)"),
    Step("DROP TABLE orders"),
    Step("DROP TABLE orders", error="TABLE_OR_VIEW_NOT_FOUND"),
    Step("SELECT * FROM {c}.{n}.orders", error="TABLE_OR_VIEW_NOT_FOUND"),
    Step("SHOW TABLES", names=("lines",), hides=("orders",)),
]  # fmt: skip
