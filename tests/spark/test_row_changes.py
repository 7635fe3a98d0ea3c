"""UPDATE, DELETE and MERGE of single rows; after each statement the table holds what DuckDB's does."""


import duckdb
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.cluster_tables import CATALOG, make_table

pytestmark = pytest.mark.spark

NAMESPACE = "changed"
IN = f"{CATALOG}.{NAMESPACE}"


STORY = [
    "DELETE FROM {t} WHERE v = 3",
    "DELETE FROM {t} WHERE k IN (SELECT k FROM {s} WHERE w > 10)",
    "UPDATE {t} SET v = v + 1, note = 'updated' WHERE k % 3 = 0",
    "UPDATE {t} SET note = NULL",
    "UPDATE {t} SET k = k + 100 WHERE v < 20",
    "UPDATE {t} SET dt = DATE '2026-02-01' WHERE k < 110 AND dt IS NULL",
    "UPDATE {t} SET v = (SELECT max(w) FROM {s}) WHERE k = 4",
    "MERGE INTO {t} t USING {s} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.w "
    "WHEN NOT MATCHED THEN INSERT (k, v, note, dt) VALUES (s.k, s.w, 'new', s.dt)",
    "MERGE INTO {t} t USING (SELECT k + 1 AS k, w, dt FROM {s}) s ON t.k = s.k AND t.v > 5 "
    "WHEN MATCHED AND s.w > 15 THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.w, dt = s.dt "
    "WHEN NOT MATCHED AND s.w > 12 THEN INSERT (k, v, note, dt) VALUES (s.k, s.w, 'more', s.dt)",
    "MERGE INTO {t} t USING {s} s ON t.k = s.k WHEN NOT MATCHED BY SOURCE AND t.k > 105 THEN DELETE "
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET note = 'alone'",
    "MERGE INTO {t} t USING {s} s ON t.k = s.k WHEN MATCHED THEN DELETE",
    "DELETE FROM {t} WHERE NOT EXISTS (SELECT 1 FROM {s} s WHERE s.k + 100 = {t}.k)",
    "DELETE FROM {t}",
]


def test_a_story_of_changes(session: SparkSession) -> None:
    """Rows stay, move, come and go."""
    target = make_table(session, f"{IN}.story", "k BIGINT, v BIGINT, note STRING, dt DATE", "PARTITIONED BY (dt)")
    source = make_table(session, f"{IN}.source", "k BIGINT, w BIGINT, dt DATE")
    days = "CASE WHEN id % 4 = 0 THEN NULL ELSE DATE '2026-01-01' + CAST(id % 3 AS INT) END"
    fill = [
        f"INSERT INTO {{t}} SELECT id, id * 2, 'old', {days} FROM {{ids}}",
        "INSERT INTO {t} VALUES (NULL, 3, 'null', NULL), (1, 3, 'twice', DATE '2026-01-01')",
        "INSERT INTO {s} SELECT id + 15, id, DATE '2026-01-02' FROM {ids} WHERE id % 2 = 0",
    ]
    with duckdb.connect() as database:
        database.execute("CREATE TABLE story (k BIGINT, v BIGINT, note VARCHAR, dt DATE)")
        database.execute("CREATE TABLE source (k BIGINT, w BIGINT, dt DATE)")
        for statement in fill:
            session.sql(statement.format(t=target, s=source, ids="range(30)"))
            database.execute(statement.format(t="story", s="source", ids="(SELECT range AS id FROM range(30))"))
        for statement in STORY:
            session.sql(statement.format(t=target, s=source))
            database.execute(statement.format(t="story", s="source"))
            found = [tuple(row) for row in session.table(target).collect()]
            expected = database.execute("SELECT * FROM story").fetchall()
            assert sorted(found, key=repr) == sorted(expected, key=repr), statement


def pairs(session: SparkSession, table: str) -> list[tuple[int, int]]:
    return sorted(tuple(row) for row in session.sql(f"SELECT k, v FROM {table}").collect())


def made(session: SparkSession, name: str, rows: str) -> str:
    """A table (k, v) with these rows."""
    table = make_table(session, f"{IN}.{name}")
    session.sql(f"INSERT INTO {table} VALUES {rows}")
    return table


UPSERT = "ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def test_an_upsert_leaves_one_file_per_bucket_and_partition(session: SparkSession) -> None:
    """Rows that stay and rows that are new come in one task, in order; also with other partitions, and NULL keys."""
    table = make_table(session, f"{IN}.upserted", "k BIGINT, v BIGINT, note STRING, dt DATE", "PARTITIONED BY (dt)")
    source = make_table(session, f"{IN}.upserts", "k BIGINT, v BIGINT, note STRING, dt DATE", "PARTITIONED BY (dt)")
    session.sql(f"INSERT INTO {table} SELECT id * 2, id, 'old', "
                "DATE '2026-01-01' + CAST(id * 2 % 3 AS INT) FROM range(3000)")  # fmt: skip
    session.sql(f"INSERT INTO {source} SELECT id * 5, -id, 'new', "
                "DATE '2026-01-01' + IF(id % 7 = 0, 3, CAST(id * 5 % 3 AS INT)) FROM range(1500)")  # fmt: skip
    session.sql(f"INSERT INTO {source} VALUES (NULL, 0, 'none', NULL)")
    expected = session.sql(
        f"SELECT * FROM {source} UNION ALL SELECT * FROM {table} t "
        f"WHERE NOT EXISTS (SELECT 1 FROM {source} s WHERE s.k = t.k AND s.dt = t.dt)"
    ).collect()
    session.sql(f"MERGE INTO {table} t USING {source} s ON t.k = s.k AND t.dt = s.dt "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    assert sorted(session.table(table).collect(), key=repr) == sorted(expected, key=repr)
    several = session.sql(f"SELECT partition, bucket FROM {table}.files GROUP BY ALL HAVING count(*) > 1").collect()
    assert several == []


def test_stars_drop_no_column(session: SparkSession) -> None:
    """Spark would; the statement is refused, or adds the column where it asks for that."""
    table = made(session, "starred", "(1, 1), (2, 2)")
    source = "(SELECT * FROM VALUES (2, 20, 'two'), (3, 30, 'three') AS s(k, v, note)) s"
    with pytest.raises(AnalysisException, match=r"lacks columns .*: note. Add them with MERGE WITH SCHEMA"):
        session.sql(f"MERGE INTO {table} t USING {source} {UPSERT}")
    assert pairs(session, table) == [(1, 1), (2, 2)]
    session.sql(f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING {source} {UPSERT}")
    found = sorted(tuple(row) for row in session.sql(f"SELECT k, v, note FROM {table}").collect())
    assert found == [(1, 1, None), (2, 20, "two"), (3, 30, "three")]


def test_a_repeated_statement(session: SparkSession) -> None:
    """By its key; the snapshot stays, too."""
    table = made(session, "repeated", "(1, 1), (2, 2)")
    session.conf.set("spark.colocation.write.idempotencyKey", "update-1")
    first = session.sql(f"UPDATE {table} SET v = v + 1").collect()[0]
    again = session.sql(f"UPDATE {table} SET v = v + 1").collect()[0]
    assert (first["num_updated_rows"], again["num_updated_rows"]) == (2, 0)
    assert first["snapshot_id"] == again["snapshot_id"]
    assert pairs(session, table) == [(1, 2), (2, 3)]


def test_a_source_is_read_once(session: SparkSession) -> None:
    """Each of its rows either matches or is inserted, although it would have other rows if it were read again."""
    table = made(session, "read_once", "(0, 0), (1000, 0), (2000, 0), (3000, 0), (4000, 0)")
    source = "(SELECT id * 1000 + CAST(rand() * 2 AS BIGINT) AS k, id AS v FROM range(40))"
    done = session.sql(f"MERGE INTO {table} t USING {source} s {UPSERT}").collect()[0]
    assert done["num_updated_rows"] + done["num_inserted_rows"] == 40
    assert len(pairs(session, table)) == 5 + done["num_inserted_rows"]


def test_forms_of_merge(session: SparkSession) -> None:
    """With common table expressions, by DataFrames, from the target itself, and on another column than the key."""
    table = made(session, "forms", "(1, 1), (2, 2), (3, 3)")
    several = "WITH u AS (SELECT 3 AS k, 33 AS v), s AS (SELECT * FROM u)"
    session.sql(f"{several} MERGE INTO {table} t USING s {UPSERT}")
    session.sql(f"WITH s AS (SELECT 2 AS k) DELETE FROM {table} WHERE k IN (SELECT k FROM s)")
    assert pairs(session, table) == [(1, 1), (3, 33)]
    frame = session.sql("SELECT 5L AS k, 5L AS v").alias("s")
    frame.mergeInto(table, F.expr(f"{table}.k = s.k")).whenMatched().updateAll().whenNotMatched().insertAll().merge()
    session.sql(f"MERGE INTO {table} t USING (SELECT k + 2 AS k, v FROM {table}) s {UPSERT}")
    assert pairs(session, table) == [(1, 1), (3, 1), (5, 33), (7, 5)]
    session.sql(f"MERGE INTO {table} t USING (SELECT 33 AS v) s ON t.v = s.v WHEN MATCHED THEN DELETE")
    assert pairs(session, table) == [(1, 1), (3, 1), (7, 5)]


def test_a_change_is_explained(session: SparkSession) -> None:
    """Both of its queries, without running them."""
    table = made(session, "explained", "(1, 1), (2, 2)")
    plan = session.sql(f"EXPLAIN MERGE INTO {table} t USING {table} s {UPSERT}").collect()[0][0]
    assert "RowChangeCommand merge" in plan and "InPlaceRows" in plan and "Exchange" not in plan
    assert pairs(session, table) == [(1, 1), (2, 2)]


def test_files_without_a_changed_row_stay(session: SparkSession) -> None:
    """A key opens one bucket."""
    table = make_table(session, f"{IN}.kept")
    session.sql(f"INSERT INTO {table} SELECT id, 0 FROM range(100)")
    before = {row["path"] for row in session.sql(f"SELECT path FROM {table}.files").collect()}
    done = session.sql(f"UPDATE {table} SET v = 1 WHERE k = 17").collect()[0]
    after = {row["path"] for row in session.sql(f"SELECT path FROM {table}.files").collect()}
    assert done["num_replaced_files"] == len(before - after) == len(after - before) == 1
    assert session.sql(f"UPDATE {table} SET v = 1 WHERE k = 1000").collect()[0]["snapshot_id"] == done["snapshot_id"]


def test_values_of_a_clause_are_computed_for_its_rows_only(session: SparkSession) -> None:
    """Also those of keys, which decide where a row goes: a division by zero in another row is no error."""
    target = make_table(session, f"{IN}.divided")
    source = make_table(session, f"{IN}.dividing")
    session.sql(f"INSERT INTO {target} VALUES (1, 0), (2, 5), (3, 0)")
    session.sql(f"INSERT INTO {source} VALUES (1, 0), (2, 7)")
    session.sql(f"MERGE INTO {target} t USING {source} s ON t.k = s.k "
                "WHEN MATCHED AND t.v <> 0 THEN UPDATE SET k = 100 DIV t.v")  # fmt: skip
    assert sorted(tuple(row) for row in session.table(target).collect()) == [(1, 0), (3, 0), (20, 5)]


def test_clauses_for_new_rows_are_computed_for_these_only(session: SparkSession) -> None:
    """Conditions and values of NOT MATCHED may fail for rows that match, and a clause's values for rows of another."""
    target = made(session, "inserted", "(1, 1), (2, 2)")
    source = made(session, "inserting", "(1, 0), (3, 5), (4, 50)")
    many = "CASE WHEN s.v = 0 THEN 1 / s.v ELSE s.v END"
    for place, rows in enumerate([source, f"(SELECT k, v FROM {source} ORDER BY k LIMIT 10)"]):
        session.sql(f"MERGE INTO {target} t USING {rows} s ON t.k = s.k "
                    "WHEN NOT MATCHED AND 100 DIV s.v > 10 THEN INSERT (k, v) VALUES (s.k, 1000 DIV s.v) "
                    f"WHEN NOT MATCHED AND {many} > 0 THEN INSERT (k, v) VALUES (s.k, 100 DIV (s.v - 5))")  # fmt: skip
        assert pairs(session, target) == [(1, 1), (2, 2), (3, 200), (4, 2)], place
        session.sql(f"DELETE FROM {target} WHERE k > 2")


def test_a_statement_that_changes_nothing_has_its_key(session: SparkSession) -> None:
    """Repeated when it would change rows, it changes none: not by UPDATE, DELETE, MERGE or INSERT … SELECT."""
    table = make_table(session, f"{IN}.unchanged", "k BIGINT, v BIGINT, p INT", "PARTITIONED BY (p)")
    session.sql(f"INSERT INTO {table} VALUES (1, 1, 1)")
    session.sql(f"CREATE OR REPLACE TEMP VIEW later AS SELECT k, v + 1 AS v, p FROM {table} WHERE k = 2")
    statements = {
        "update": f"UPDATE {table} SET v = 0 WHERE k = 2",
        "delete": f"DELETE FROM {table} WHERE k = 2",
        "partition": f"DELETE FROM {table} WHERE p = 2",
        "merge": f"MERGE INTO {table} t USING later s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *",
        "upsert": f"MERGE INTO {table} t USING later s ON t.k = s.k + 1 WHEN NOT MATCHED THEN INSERT *",
        "insert": f"INSERT INTO {table} SELECT * FROM later",
    }

    def run() -> None:
        for key, statement in statements.items():
            session.conf.set("spark.colocation.write.idempotencyKey", key)
            session.sql(statement)
        session.conf.unset("spark.colocation.write.idempotencyKey")

    run()
    session.sql(f"INSERT INTO {table} VALUES (2, 2, 2)")
    run()
    assert sorted(tuple(row) for row in session.table(table).collect()) == [(1, 1, 1), (2, 2, 2)]
