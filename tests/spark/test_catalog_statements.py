"""Statements about tables of the catalog, as users of Hive, Iceberg or Delta write them: nothing that they say is lost.

The operator is a thread that accepts tables; the agents and the API server are real.
"""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables

pytestmark = pytest.mark.spark

NAMESPACE = "said"
IN = f"{CATALOG}.{NAMESPACE}"
SALES = "TBLPROPERTIES ('colocate_with'='sales')"
EVERYTHING = """CREATE TABLE {t} (k BIGINT NOT NULL COMMENT 'the key', price DECIMAL(15,2) COMMENT 'it\\'s \\\\ 1',
  name VARCHAR(10), c CHAR(3), `we ird` STRUCT<a: INT, `b c`: ARRAY<STRING>>, dt DATE COMMENT 'day', p STRING)
PARTITIONED BY (dt, p) CLUSTERED BY (k) SORTED BY (price, k) INTO 6 BUCKETS COMMENT 'all orders'
TBLPROPERTIES ('colocate_with'='sales', 'replication_num'='2', 'recycle_after_seconds'='60', 'retention_seconds'='7',
  'retention_snapshots'='3', 'compaction_enabled'='true', 'compaction_max_files_per_bucket'='4')"""


def spec(tables: ClusterTables, name: str) -> dict[str, Any]:
    found: dict[str, Any] = tables.get(name)["spec"]
    return found


def described(session: SparkSession, table: str) -> list[tuple[Any, ...]]:
    """(name, type, comment) of each column."""
    rows = [tuple(row) for row in session.sql(f"DESCRIBE {table}").collect()]
    return rows[: rows.index(("", "", ""))]


def values(session: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in session.sql(statement).collect()), key=repr)


def test_show_create_table_makes_the_same_table(session: SparkSession, tables: ClusterTables) -> None:
    """Under another name, every field of the spec is the same; and once more after changes."""
    session.sql(EVERYTHING.format(t=f"{IN}.first"))
    for statement in (
        "ALTER TABLE {t} ADD COLUMNS (note STRING COMMENT 'n' FIRST, b INT AFTER price)",
        "ALTER TABLE {t} RENAME COLUMN b TO c2",
        "ALTER TABLE {t} UNSET TBLPROPERTIES ('retention_seconds')",
    ):
        [(shown,)] = values(session, f"SHOW CREATE TABLE {IN}.first")
        session.sql(shown.replace(f"{IN}.first", f"{IN}.second"))
        made, original = spec(tables, "second"), spec(tables, "first")
        for column in original["columns"]:
            column["storedAs"] = ""
        assert made == original
        session.sql(f"DROP TABLE {IN}.second")
        session.sql(statement.format(t=f"{IN}.first"))


def test_comments_and_places_of_columns(session: SparkSession, tables: ClusterTables) -> None:
    """They change while files stay; rows are found under the right names."""
    table = f"{IN}.described"
    session.sql(f"CREATE TABLE {table} (k BIGINT COMMENT 'key', v INT, dt DATE) PARTITIONED BY (dt) "
                f"CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")  # fmt: skip
    session.sql(f"INSERT INTO {table} VALUES (1, 10, DATE '2026-01-01')")
    session.sql(f"ALTER TABLE {table} ADD COLUMNS (a STRING COMMENT 'first' FIRST, b INT AFTER k)")
    session.sql(f"ALTER TABLE {table} ALTER COLUMN v COMMENT 'value'")
    session.sql(f"ALTER TABLE {table} ALTER COLUMN v FIRST")
    session.sql(f"COMMENT ON TABLE {table} IS 'about it'")
    assert described(session, table) == [
        ("v", "int", "value"), ("a", "string", "first"), ("k", "bigint", "key"), ("b", "int", None),
        ("dt", "date", None),
    ]  # fmt: skip
    session.sql(f"INSERT INTO {table} VALUES (20, 'x', 2, 3, DATE '2026-01-02')")
    assert values(session, f"SELECT k, v, a, b FROM {table}") == [(1, 10, None, None), (2, 20, "x", 3)]
    assert ("Comment", "about it", "") in values(session, f"DESCRIBE EXTENDED {table}")
    session.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT k, v, dt FROM {table}")
    assert spec(tables, "described")["comment"] == "about it"
    assert [row[2] for row in described(session, table)] == ["key", "value", None]


def test_a_new_column_takes_the_old_name_of_a_renamed_one(session: SparkSession, tables: ClusterTables) -> None:
    """Files keep the first name of a column that was renamed, so the new one has another name in files."""
    table = f"{IN}.named_again"
    session.sql(f"CREATE TABLE {table} (k BIGINT, v INT, v_2 INT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    session.sql(f"INSERT INTO {table} VALUES (1, 10, 100)")
    session.sql(f"ALTER TABLE {table} RENAME COLUMN v TO old")
    session.sql(f"ALTER TABLE {table} ADD COLUMN V STRING")
    session.sql(f"INSERT INTO {table} VALUES (2, 20, 200, 'new')")
    assert values(session, f"SELECT k, old, v_2, v FROM {table}") == [(1, 10, 100, None), (2, 20, 200, "new")]
    assert [column.get("storedAs", "") for column in spec(tables, "named-again")["columns"]] == ["", "v", "", "V_3"]
    session.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT k, old, v AS n FROM {table}")
    session.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT n AS v, k, old FROM {table}")
    assert values(session, f"SELECT k, old, v FROM {table}") == [(1, 10, None), (2, 20, "new")]
    assert values(session, f"SELECT k, v FROM {table} VERSION AS OF 1") == [(1, 10)]
    before = spec(tables, "named-again")
    for layout, field in (("CLUSTERED BY (k) SORTED BY (k, v)", "sortedBy"),
                          ("PARTITIONED BY (v) CLUSTERED BY (k)", "partitionedBy")):  # fmt: skip
        with pytest.raises(Exception, match=rf"v in {field}, since files hold it as v_2 .*: give it another name"):
            session.sql(f"CREATE OR REPLACE TABLE {table} {layout} INTO 6 BUCKETS AS SELECT k, old, v FROM {table}")
    assert spec(tables, "named-again") == before


def test_defaults_of_columns(session: SparkSession, tables: ClusterTables) -> None:
    """No column has one; so there is nothing to drop, as with Spark's own tables."""
    table = f"{IN}.valued"
    session.sql(f"CREATE TABLE {table} (k BIGINT, v INT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    before = spec(tables, "valued")
    session.sql(f"ALTER TABLE {table} ALTER COLUMN v DROP DEFAULT")
    with pytest.raises(Exception, match="ALTER COLUMN v SET DEFAULT; columns have no values but those of their rows"):
        session.sql(f"ALTER TABLE {table} ALTER COLUMN v SET DEFAULT 7")
    assert spec(tables, "valued") == before


def test_texts_have_their_length(session: SparkSession, tables: ClusterTables) -> None:
    """A longer text is refused, and that of a CHAR column is padded, as by every table of Spark's."""
    table = f"{IN}.short"
    session.sql(f"CREATE TABLE {table} (k BIGINT, v VARCHAR(3), c CHAR(3)) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    for wrong in ("'abcd', 'x'", "'x', 'abcd'"):
        with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
            session.sql(f"INSERT INTO {table} VALUES (1, {wrong})")
    session.sql(f"INSERT INTO {table} VALUES (1, 'abc', 'x')")
    session.sql(f"INSERT INTO {table} SELECT * FROM {table}")
    assert values(session, f"SELECT * FROM {table} WHERE c = 'x'") == [(1, "abc", "x  ")] * 2


def test_times_of_metadata_tables(session: SparkSession, tables: ClusterTables) -> None:
    """Instants, also where the driver's first session to ask means other times by TIMESTAMP."""
    table = f"{IN}.timed"
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    session.sql(f"CREATE TABLE {table} (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    session.sql(f"INSERT INTO {table} VALUES (1)")
    for name, column in (("snapshots", "committed_at"), ("replicas", "verified_at")):
        read = session.sql(f"SELECT {column} FROM {table}.{name}")
        assert read.schema[column].dataType.simpleString() == "timestamp"
        assert read.collect()


@pytest.mark.parametrize(("column", "fits", "long", "read"), [
    pytest.param("ARRAY<VARCHAR(3)>", "ARRAY('x', NULL)", "ARRAY('x', 'abcd')", '["x",null]', id="array"),
    pytest.param("ARRAY<CHAR(3)>", "ARRAY('x')", "ARRAY('abcd')", '["x  "]', id="fixed"),
    pytest.param("MAP<VARCHAR(3), INT>", "MAP('x', 1)", "MAP('abcd', 1)", '{"x":1}', id="key"),
    pytest.param("MAP<VARCHAR(3), CHAR(3)>", "MAP('x', 'y')", "MAP('x', 'abcd')", '{"x":"y  "}', id="value"),
    pytest.param("STRUCT<a: INT, b: STRUCT<c: CHAR(3)>>", "STRUCT(1, STRUCT('x'))", "STRUCT(1, STRUCT('abcd'))",
                 '{"a":1,"b":{"c":"x  "}}', id="struct"),
])  # fmt: skip
def test_texts_within_columns_have_their_length(
    column: str, fits: str, long: str, read: str, session: SparkSession, tables: ClusterTables
) -> None:
    """Of arrays, maps and structs, too; a compaction keeps them."""
    table = f"{IN}.nested"
    session.sql(f"DROP TABLE IF EXISTS {table}")
    session.sql(f"CREATE TABLE {table} (k BIGINT, v {column}) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
        session.sql(f"INSERT INTO {table} SELECT 1L, {long}")
    session.sql(f"INSERT INTO {table} SELECT 1L, {fits}")
    session.table(table).writeTo(table).append()
    session.sql(f"CALL {CATALOG}.system.compact('{NAMESPACE}.nested')")
    assert values(session, f"SELECT to_json(v) FROM {table}") == [(read,)] * 2
    assert "CHAR(3)" in values(session, f"SHOW CREATE TABLE {table}")[0][0]


def test_partitions(session: SparkSession, tables: ClusterTables) -> None:
    """SHOW, DROP and TRUNCATE, and the table of them."""
    table = f"{IN}.parts"
    session.sql(f"CREATE TABLE {table} (k BIGINT, a INT, p STRING) PARTITIONED BY (a, p) "
                f"CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")  # fmt: skip
    shown = f"SHOW PARTITIONS {table}"
    assert values(session, shown) == []
    session.sql(f"INSERT INTO {table} VALUES (1, 1, 'x/y'), (2, 1, 'z'), (3, 2, NULL), (4, NULL, 'z'), (5, 1, 'z')")
    assert values(session, shown) == [("a=1/p=x%2Fy",), ("a=1/p=z",), ("a=2/p=null",), ("a=null/p=z",)]
    assert values(session, f"{shown} PARTITION (a=1)") == [("a=1/p=x%2Fy",), ("a=1/p=z",)]
    counted = f"SELECT partition['a'], partition['p'], rows FROM {table}.partitions"
    assert values(session, counted) == [("1", "x/y", 1), ("1", "z", 2), ("2", None, 1), (None, "z", 1)]
    session.sql(f"ALTER TABLE {table} DROP PARTITION (a=1, p='x/y')")
    session.sql(f"ALTER TABLE {table} DROP IF EXISTS PARTITION (a=9, p='z')")
    session.sql(f"ALTER TABLE {table} ADD IF NOT EXISTS PARTITION (a=1, p='z')")
    session.sql(f"TRUNCATE TABLE {table} PARTITION (a=2, p=NULL)")
    assert values(session, f"SELECT k FROM {table}") == [(2,), (4,), (5,)]
    session.sql(f"TRUNCATE TABLE {table} PARTITION (a=1)")
    assert values(session, f"SELECT k FROM {table}") == [(4,)]
    snapshots = values(session, f"SELECT snapshot_id FROM {table}.snapshots")
    for nothing in ("a = 1", "a IN (7, 8)", "a > 1"):
        session.sql(f"DELETE FROM {table} WHERE {nothing}")
    assert values(session, f"SELECT snapshot_id FROM {table}.snapshots") == snapshots


TO_IS_NULL = "org.apache.spark.sql.catalyst.optimizer.NullPropagation"
CONDITIONS = [
    "year(dt) = 2025", "dt < DATE '2025-06-01'", "dt BETWEEN DATE '2025-01-01' AND DATE '2025-12-31'",
    "NOT (dt = DATE '2026-01-01')", "dt <> DATE '2026-01-01' OR p LIKE 'a%'", "upper(p) = 'B'", "dt IS NOT NULL",
    "p IN ('a', 'b') AND dt > DATE '2024-06-01'", "month(dt) = 13", "p = 'a' AND p = 'b'", "p = ''",
    "p IS NOT DISTINCT FROM ''",
]  # fmt: skip


def test_deletes_of_partitions_by_any_condition(session: SparkSession, tables: ClusterTables) -> None:
    """What goes is what DuckDB deletes."""
    table, columns = f"{IN}.cond", "k BIGINT, dt DATE, p VARCHAR(9)"
    session.sql(f"CREATE TABLE {table} ({columns}) PARTITIONED BY (dt, p) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    rows = "VALUES (1, DATE '2024-02-01', 'a'), (2, DATE '2025-01-01', 'b'), (3, DATE '2025-06-01', 'ab'), " \
        "(4, DATE '2026-01-01', NULL), (5, NULL, 'b'), (6, DATE '2026-01-01', 'a')"  # fmt: skip
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE cond ({columns})")
        for condition, excluded in [*((one, "") for one in CONDITIONS), ("p IS NOT DISTINCT FROM NULL", TO_IS_NULL)]:
            session.conf.set("spark.sql.optimizer.excludedRules", excluded)
            session.sql(f"INSERT OVERWRITE {table} {rows}")
            session.sql(f"DELETE FROM {table} WHERE {condition}")
            database.execute(f"DELETE FROM cond; INSERT INTO cond {rows}; DELETE FROM cond WHERE {condition}")
            expected = sorted(database.execute("SELECT * FROM cond").fetchall(), key=repr)
            assert values(session, f"SELECT * FROM {table}") == expected, condition


REFUSED = {
    "ALTER TABLE {t} ADD COLUMN z INT AFTER p": "a place by FIRST or AFTER for or behind p",
    "ALTER TABLE {t} ADD COLUMN s.z INT": r"ALTER TABLE of field s\.z; files hold s as it is",
    "ALTER TABLE {t} ADD COLUMN z STRUCT<a: INT NOT NULL>":
        "field a of column z is NOT NULL; only whole columns can: leave it out, or CAST to struct<a:int>",
    "ALTER TABLE {t} ADD COLUMN z INT NOT NULL": "ADD COLUMN z … NOT NULL; rows that are there have no value for it",
    "ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT": "files hold it as int: add a column .* with a CAST",
    "ALTER TABLE {t} DROP COLUMN v": "DROP COLUMN or REPLACE COLUMNS of v; .* AS SELECT",
    "ALTER TABLE {t} RENAME COLUMN p TO q": "RENAME COLUMN p, which is in partitionedBy",
    "ALTER TABLE {t} UNSET TBLPROPERTIES ('x')": "allowed: colocate_with, replication_num, recycle_after_seconds",
    "ALTER TABLE {t} SET LOCATION '/x'": "nodes keep the files",
    "ALTER TABLE {t} CLUSTER BY (v)": "ALTER TABLE CLUSTER BY; allowed: SET and UNSET TBLPROPERTIES",
    "ALTER TABLE {t} RENAME TO {t}2": "cannot be renamed.* CREATE TABLE … AS SELECT",
    "ALTER TABLE {t} ADD PARTITION (p=3)": "ADD PARTITION; a partition is there as soon as it has rows",
    "ALTER TABLE {t} PARTITION (p=1) RENAME TO PARTITION (p=4)": "does not take PARTITION … RENAME",
    "ALTER TABLE {t} RECOVER PARTITIONS": "RECOVER PARTITIONS; partitions are known",
    "MSCK REPAIR TABLE {t}": "does not take REPAIR TABLE; partitions are known",
    "ANALYZE TABLE {t} COMPUTE STATISTICS": "does not take ANALYZE TABLE; rows and bytes",
    f"ANALYZE TABLES IN {IN} COMPUTE STATISTICS": "does not take ANALYZE TABLES",
    "LOAD DATA INPATH '/x' INTO TABLE {t}": "LOAD DATA; use INSERT INTO",
    "DROP TABLE {t} PURGE": "recycle_after_seconds' = '0'",
    "INSERT INTO {t} REPLACE WHERE p > 0 SELECT * FROM {t}": r"takes equalities of its partition columns \(p\), IN",
    "SHOW CREATE TABLE {t} AS SERDE": "leave AS SERDE out",
    "SELECT * FROM {t}.history": "metadata tables of .*: snapshots, partitions, files, replicas",
    f"CREATE VIEW {IN}.shown AS SELECT 1":
        "catalog lake does not take CREATE VIEW; use CREATE VIEW spark_catalog.<database>.<view> AS …, or CREATE",
    f"CREATE OR REPLACE VIEW {IN}.shown AS SELECT * FROM {{t}}": "catalog lake does not take CREATE VIEW; use",
    f"DROP VIEW {IN}.refusing": "catalog lake does not take DROP VIEW; it has tables only .*DROP TABLE",
    f"SHOW TABLES IN {CATALOG}": "name the namespace: lake.<namespace>",
    f"CREATE TABLE {IN}.n (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS": "it names neither a group nor a number",
    f"CREATE TABLE {IN}.n (k BIGINT) CLUSTER BY (k) {SALES}": "CLUSTER BY, clusterBy or cluster_by; give CLUSTERED BY",
    f"CREATE TABLE {IN}.n (k BIGINT, s STRUCT<a: INT>) PARTITIONED BY (s) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}":
        r"partitionedBy is \[s\], and a column of these has a type whose values are no names of folders",
    "INSERT INTO {t} WITH ('idempotency_key'='day-1') VALUES (2, 2, NULL, 2)": "it is spelt 'idempotency-key'",
    "INSERT INTO {t} WITH ('idempotency-key'='') VALUES (2, 2, NULL, 2)": "idempotency-key is empty; allowed: 1 to 128",
    "INSERT INTO {t} WITH ('idempotency-version'='1') VALUES (2, 2, NULL, 2)": "idempotency-key is missing, which",
    "SELECT * FROM {t} TIMESTAMP AS OF (SELECT committed_at FROM {t}.snapshots WHERE false)":
        r"the subquery of TIMESTAMP AS OF gives no row; allowed: one time",
    f"CREATE TABLE {IN}.n CLUSTERED BY (k) INTO 6 BUCKETS {SALES} AS SELECT 1L AS k, NULL AS n":
        "column n has type 'void'; allowed: bigint, binary, boolean, date, decimal, double",
}  # fmt: skip
"""What no table takes, and words of the error."""


@pytest.fixture(scope="module")
def refusing(application: SparkSession, tables: ClusterTables) -> Iterator[str]:
    """A table with a row, which is there after all refusals."""
    session, table = tables.configure(application.newSession()), f"{IN}.refusing"
    session.sql(f"CREATE TABLE {table} (k BIGINT, v INT, s STRUCT<a: INT>, p INT) PARTITIONED BY (p) "
                f"CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")  # fmt: skip
    session.sql(f"INSERT INTO {table} VALUES (1, 1, NULL, 1)")
    yield table
    assert values(session, f"SELECT k FROM {table}") == [(1,)]


@pytest.mark.parametrize(("statement", "message"), REFUSED.items())
def test_what_is_refused(
    session: SparkSession, tables: ClusterTables, refusing: str, statement: str, message: str
) -> None:
    """Nothing changes, neither the spec nor the manifest of the rows, and the error names what to use."""
    before = tables.get("refusing")
    with pytest.raises(Exception, match=message):
        session.sql(statement.format(t=refusing)).collect()
    after = tables.get("refusing")
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])


def test_the_time_of_a_snapshot_by_a_query(session: SparkSession, tables: ClusterTables) -> None:
    """TIMESTAMP AS OF takes a subquery on the table's snapshots, also in a query with others, and in a view."""
    table = f"{IN}.travelled"
    session.sql(f"CREATE TABLE {table} (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    for key in (1, 2):
        session.sql(f"INSERT INTO {table} VALUES ({key})")
    last = f"TIMESTAMP AS OF (SELECT max(committed_at) FROM {table}.snapshots WHERE snapshot_id <= 2)"
    assert values(session, f"SELECT k FROM {table} {last}") == [(1,), (2,)]
    joined = f"WITH t AS (SELECT k FROM {table} {last}) SELECT t.k FROM t JOIN {table} n ON t.k = n.k WHERE t.k = 2"
    assert values(session, joined) == [(2,)]
    with pytest.raises(Exception, match=r"travelled keeps no snapshot of .* or before"):
        session.sql(f"SELECT * FROM {table} TIMESTAMP AS OF (SELECT min(committed_at) - INTERVAL 1 DAY "
                    f"FROM {table}.snapshots)")  # fmt: skip
    assert values(session, f"SELECT count_if(is_current) FROM {table}.snapshots VERSION AS OF 1") == [(1,)]


def test_partitions_of_doubles(session: SparkSession, tables: ClusterTables) -> None:
    """0.0 and -0.0 are equal, and two partitions; NaN equals itself."""
    table = f"{IN}.doubles"
    session.sql(f"CREATE TABLE {table} (k BIGINT, f DOUBLE) PARTITIONED BY (f) "
                f"CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")  # fmt: skip
    session.sql(f"INSERT INTO {table} VALUES (1, 0.0D), (2, -0.0D), (3, double('nan')), (4, 0.1D), (5, NULL)")
    with pytest.raises(Exception, match=r"which tells 0.0 and -0.0 apart: use ALTER TABLE … DROP PARTITION"):
        session.sql(f"DELETE FROM {table} WHERE CAST(f AS STRING) = '-0.0'")
    assert values(session, f"SELECT k FROM {table}") == [(1,), (2,), (3,), (4,), (5,)]
    session.sql(f"DELETE FROM {table} WHERE abs(f) < 0.01")
    session.sql(f"INSERT INTO {table} VALUES (1, 0.0D), (2, -0.0D)")
    session.sql(f"DELETE FROM {table} WHERE f = 0")
    assert values(session, f"SELECT k FROM {table}") == [(3,), (4,), (5,)]
    session.sql(f"DELETE FROM {table} WHERE f IN (double('nan'), 0.1D)")
    assert values(session, f"SELECT k FROM {table}") == [(5,)]


def test_a_table_that_cannot_be_read_is_shown_and_altered(session: SparkSession, tables: ClusterTables) -> None:
    """So lists of the namespace's tables stay whole, and the table can be put right by a statement."""
    table = f"{IN}.astray"
    session.sql(f"CREATE TABLE {table} (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    session.sql(f"INSERT INTO {table} VALUES (1)")
    session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('colocate_with'='nowhere')")
    for statement in (f"SELECT * FROM {table}", f"SHOW PARTITIONS {table}", f"SELECT * FROM {table}.files"):
        with pytest.raises(Exception, match=r"its ColocationGroup 'nowhere'.* does not exist|is not partitioned"):
            session.sql(statement).collect()
    assert described(session, table) == [("k", "bigint", None)]
    assert "astray" in [found.name for found in session.catalog.listTables(IN)]
    assert values(session, f"SELECT rows FROM {table}.snapshots") == [(1,)]
    session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('colocate_with'='sales')")
    assert values(session, f"SELECT * FROM {table}") == [(1,)]
    shown = dict(values(session, f"SHOW TBLPROPERTIES {table}"))
    assert (shown["recycle_after_seconds"], shown["compaction_enabled"]) == ("86400", "false")
    session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('recycle_after_seconds'='0')")
    assert ("recycle_after_seconds", "0") in values(session, f"SHOW TBLPROPERTIES {table}")


def test_create_table_like(session: SparkSession, tables: ClusterTables) -> None:
    """Before 4.3 Spark's own is of the session catalog, and would look for the table there."""
    session.sql(f"CREATE TABLE {IN}.one (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    session.sql(f"USE {IN}")
    with pytest.raises(Exception, match=r"does not take CREATE TABLE … LIKE; use the statement of SHOW CREATE TABLE"):
        session.sql("CREATE TABLE another LIKE one")


@pytest.mark.parametrize("statement", ["DROP TABLE {t}", "ALTER TABLE {t} ADD COLUMN v INT", "DESCRIBE {t}"])
def test_a_plan_names_the_catalog(session: SparkSession, tables: ClusterTables, statement: str) -> None:
    """Not the class of Java that it is."""
    session.sql(f"CREATE TABLE IF NOT EXISTS {IN}.planned (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS {SALES}")
    [(plan,)] = values(session, "EXPLAIN EXTENDED " + statement.format(t=f"{IN}.planned"))
    assert f"{CATALOG}, {NAMESPACE}.planned" in plan
    assert "dev.colocation" not in plan
