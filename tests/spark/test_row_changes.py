"""UPDATE, DELETE and MERGE of single rows; after each statement the table holds what DuckDB's does."""

from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from colocation.spark import compact, explain, explain_json
from tests.spark.cluster_tables import CATALOG, make_table
from tests.spark.executions import run_after

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


@pytest.mark.parametrize("statement", [
    "UPDATE {view} SET v = 0 WHERE k = 1", "DELETE FROM {view} WHERE k = 1", "DELETE FROM {view}",
    "MERGE INTO {view} t USING {table} s ON t.k = s.k WHEN MATCHED THEN DELETE",
    "WITH some AS (SELECT 1 AS k) MERGE INTO {view} t USING some s ON t.k = s.k WHEN MATCHED THEN DELETE",
])  # fmt: skip
def test_a_view_names_its_table(session: SparkSession, statement: str) -> None:
    """A tool that sees views, as over JDBC, learns which table it may change."""
    table = made(session, "viewed", "(1, 1)")
    try:
        for view in ("spark_catalog.default.viewed", "viewed_now"):
            kind = "VIEW" if "." in view else "TEMPORARY VIEW"
            session.sql(f"CREATE OR REPLACE {kind} {view} AS SELECT * FROM {table} WHERE k > 0")
            with pytest.raises(Exception, match=f"this is a view of {table}: name that table"):
                session.sql(statement.format(view=view, table=table))
        assert pairs(session, table) == [(1, 1)]
    finally:
        session.sql(f"DROP TABLE {table}")


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
    session.sql(f"USE {IN}")
    source = "(SELECT * FROM VALUES (2, 20, 'two', 4) AS s(k, v, note, size)) s"
    session.sql(f"MERGE WITH SCHEMA EVOLUTION INTO starred t USING {source} {UPSERT}")
    assert session.sql("SELECT size FROM starred WHERE k = 2").collect() == [(4,)]


def test_a_repeated_statement(session: SparkSession) -> None:
    """By its key; the snapshot stays, too."""
    table = made(session, "repeated", "(1, 1), (2, 2)")
    session.conf.set("spark.colocation.write.idempotencyKey", "update-1")
    first = session.sql(f"UPDATE {table} SET v = v + 1").collect()[0]
    again = session.sql(f"UPDATE {table} SET v = v + 1").collect()[0]
    assert (first["num_updated_rows"], again["num_updated_rows"]) == (2, 0)
    assert first["snapshot_id"] == again["snapshot_id"]
    assert pairs(session, table) == [(1, 2), (2, 3)]


def test_the_driver_forgets_statements_that_ended(session: SparkSession) -> None:
    """Done or failed. Else a driver of many statements would keep the lists of all files that they replaced."""
    table = made(session, "ended", "(1, 1), (2, 2)")
    java: Any = session.sparkContext._jvm
    loader = java.Thread.currentThread().getContextClassLoader()
    field = loader.loadClass("dev.colocation.spark.write.FileReplacement$Running").getDeclaredField("BY_ID")
    field.setAccessible(True)
    running = field.get(None)
    before = running.size()  # of statements of other tests, which were interrupted
    session.sql(f"UPDATE {table} SET v = v + 1")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        session.sql(f"UPDATE {table} SET v = v div (k - 2)")
    session.sql(f"CALL {CATALOG}.system.compact(table => '{table.partition('.')[2]}')")
    assert running.size() == before
    assert pairs(session, table) == [(1, 2), (2, 3)]


def test_a_source_is_read_once(session: SparkSession) -> None:
    """Each of its rows either matches or is inserted, although it would have other rows if it were read again."""
    table = made(session, "read_once", "(0, 0), (1000, 0), (2000, 0), (3000, 0), (4000, 0)")
    source = "(SELECT id * 1000 + CAST(rand() * 2 AS BIGINT) AS k, id AS v FROM range(40))"
    done = session.sql(f"MERGE INTO {table} t USING {source} s {UPSERT}").collect()[0]
    assert done["num_updated_rows"] + done["num_inserted_rows"] == 40
    assert len(pairs(session, table)) == 5 + done["num_inserted_rows"]


def test_a_source_without_rows(session: SparkSession) -> None:
    """Spark plans it with fewer partitions than the target has buckets; it matches no row."""
    table = made(session, "no_source", "(1, 1), (2, 2), (3, 3), (4, 4)")
    alone = "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.k"
    for source in ("VALUES (1L, 1L) AS s (k, v) WHERE k > 1", "(SELECT 1L AS k, 1L AS v LIMIT 0)"):
        using = f"MERGE INTO {table} t USING (SELECT * FROM {source}) s"
        session.sql(f"{using} {UPSERT}")
        session.sql(f"{using} ON t.k = s.k {alone} < 3 THEN UPDATE SET v = v + 1")
        session.sql(f"{using} ON t.v = s.v {alone} > 3 THEN DELETE")
    assert pairs(session, table) == [(1, 3), (2, 4), (3, 3)]


def test_a_source_that_is_compared_by_another_column(session: SparkSession) -> None:
    """Its rows are not in the target's buckets, even if it has as many partitions."""
    table = made(session, "by_value", ", ".join(f"({key}, {key})" for key in range(40)))
    source = "(SELECT id AS v FROM range(0, 40, 1, 6))"
    done = session.sql(f"MERGE INTO {table} t USING {source} s ON t.v = s.v WHEN MATCHED THEN UPDATE SET v = t.v + 100 "
                       "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (0, s.v)").collect()[0]  # fmt: skip
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (40, 0)


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


def test_a_row_that_matches_twice(session: SparkSession) -> None:
    """In any task: rows of one file are joined in several where the condition is not on the key."""
    table = made(session, "matched", ", ".join(f"(1, {value})" for value in range(8)))
    session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    for twice in range(8):
        source = f"(SELECT id AS v FROM range(8) UNION ALL SELECT {twice}L)"
        with pytest.raises(SparkRuntimeException, match="MERGE_CARDINALITY_VIOLATION"):
            session.sql(f"MERGE INTO {table} t USING {source} s ON t.v = s.v WHEN MATCHED THEN UPDATE SET v = 9")
    assert pairs(session, table) == [(1, value) for value in range(8)]
    using = f"MERGE INTO {table} t USING (SELECT 3 AS v FROM range(2)) s ON t.v = s.v"
    session.sql(f"{using} WHEN NOT MATCHED BY SOURCE AND t.v > 4 THEN DELETE")
    assert pairs(session, table) == [(1, value) for value in range(5)], "whether it matches counts, not how often"


def test_a_condition_of_the_sources_partition(session: SparkSession) -> None:
    """It chooses rows of the source, whose column has the name of the target's."""
    target, source = (
        make_table(session, f"{IN}.{name}", "k BIGINT, v BIGINT, p INT", "PARTITIONED BY (p)")
        for name in ("parted", "of_parted")
    )
    session.sql(f"INSERT INTO {target} VALUES (1, 1, 0), (2, 2, 1)")
    session.sql(f"INSERT INTO {source} VALUES (1, 10, 1), (2, 20, 0)")
    for other in (source, f"(SELECT * FROM {source} LIMIT 9)"):
        session.sql(f"MERGE INTO {target} t USING {other} s ON t.k = s.k AND s.p = 1 "
                    "WHEN MATCHED THEN UPDATE SET v = s.v + t.v")  # fmt: skip
    assert pairs(session, target) == [(1, 21), (2, 2)]


def test_a_condition_that_chooses_other_rows_when_they_are_written(session: SparkSession, tmp_path: Path) -> None:
    """As many rows of the table as before, but others of each bucket: nothing is committed."""
    table = made(session, "unsure", "(1, 0), (1, 1), (2, 0), (2, 1)")

    def goes(key: int, value: int) -> bool:
        seen = tmp_path / f"{key}-{value}"
        if seen.exists():
            return key == 1
        seen.touch()
        return value == 0

    session.udf.register("goes", goes, "boolean")
    with pytest.raises(SparkRuntimeException, match=r"1 rows should stay in bucket \d .*; nothing was changed"):
        session.sql(f"DELETE FROM {table} WHERE goes(k, v)")
    assert pairs(session, table) == [(1, 0), (1, 1), (2, 0), (2, 1)]


FREE = "; ".join(f"rows that {what}: shuffles: 0, sorts: 0" for what in ("change", "stay", "are inserted"))


@pytest.mark.parametrize("mode", ["", "EXTENDED", "FORMATTED"])
def test_a_change_is_explained(session: SparkSession, mode: str) -> None:
    """All of its queries, with a verdict on each."""
    table = made(session, f"explained{mode}", "(1, 1), (2, 2)")
    plan = session.sql(f"EXPLAIN {mode} MERGE INTO {table} t USING {table} s {UPSERT}").collect()[0][0]
    assert f"merge {table} [{FREE}]" in plan
    assert "InPlaceRows" in plan and "Exchange" not in plan and "Sort " not in plan


def test_explaining_a_change_runs_nothing(session: SparkSession) -> None:
    """The source fails when it is read; no query runs, and nothing is committed."""
    table = made(session, "unchanged_by_explain", "(1, 1), (2, 2)")
    source = "(SELECT id AS k, CAST(raise_error('read') AS BIGINT) AS v FROM range(5))"
    merge = f"MERGE INTO {table} t USING {source} s {UPSERT}"
    context = session.sparkContext
    context.setJobGroup("running", "")
    with pytest.raises(SparkRuntimeException, match="read"):
        session.sql(merge)
    snapshots = session.table(f"{table}.snapshots").collect()
    context.setJobGroup("explaining", "")
    session.sql(f"EXPLAIN {merge}").collect()
    assert "rows that are inserted: shuffles: 0" in explain(merge, session)
    assert len(explain_json(merge, session)["changes"]) == 4
    context.setJobGroup("after", "")
    jobs = [len(context.statusTracker().getJobIdsForGroup(group)) for group in ("running", "explaining")]
    assert jobs == [1, 0]
    assert session.table(f"{table}.snapshots").collect() == snapshots
    assert pairs(session, table) == [(1, 1), (2, 2)]


def reasons(session: SparkSession, statement: str) -> dict[str, tuple[int, int, tuple[str, ...]]]:
    """How often each query shuffles and sorts, and why."""
    found = explain_json(statement, session)
    assert not found["final"]
    return {one["query"]: (one["shuffles"], one["sorts"], tuple(one["reasons"])) for one in found["changes"]}


NOTHING = (0, 0, ())
ONCE = "; the source is shuffled, once"


def test_verdicts_of_changes_in_place(session: SparkSession) -> None:
    """Rows of the group stay where they are: nothing is shuffled or sorted."""
    table, other = made(session, "judged", "(1, 1), (2, 2)"), made(session, "judging", "(2, 1), (3, 2)")
    changed = {"rows that change": NOTHING, "rows that stay": NOTHING}
    insert = {"rows that are inserted": NOTHING}
    merge = f"MERGE INTO {table} t USING {other} s ON t.k = s.k"
    assert reasons(session, f"UPDATE {table} SET v = 1") == changed
    assert reasons(session, f"DELETE FROM {table} WHERE k IN (SELECT k FROM {other})") == changed
    assert reasons(session, f"{merge} WHEN MATCHED THEN DELETE") == changed
    assert reasons(session, f"{merge} WHEN NOT MATCHED THEN INSERT *") == insert
    assert reasons(session, f"{merge} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *") == changed | insert


def test_verdicts_of_sources_elsewhere(session: SparkSession) -> None:
    """The source is shuffled, the target is not; the reason is the one of a join."""
    table = made(session, "judged_away", "(1, 1), (2, 2)")
    session.udf.register("own", lambda value: value, "bigint")
    other = made(session, "judging_away", "(2, 1), (3, 2)")
    merge = f"MERGE INTO {table} t USING"
    for source, shuffles, reason in [
        ("(SELECT id AS k, id AS v FROM range(5))", 1,
         f"Tables are not in the same group: rows of the source (Range) are not of a ColocatedTable{ONCE}"),
        (f"(SELECT k + 1 AS k, v FROM {other})", 1,
         f"Inconsistent distribution of table and queries: the source does not lie in buckets by (s.k){ONCE}"),
        (f"(SELECT k, v FROM {other} LIMIT 3)", 2,
         "The src data has been redistributed: the source may have other rows when it is read again "
         f"(GlobalLimit){ONCE}"),
        (f"(SELECT k, CAST(rand(3) AS BIGINT) AS v FROM {other})", 0,
         "The src data has been redistributed: the source may have other rows when it is read again (rand(3)); "
         "the source is sorted, once"),
        (f"(SELECT k + 1 AS k, own(v) AS v FROM {other})", 1,
         f"The src data has been redistributed: the source may have other rows when it is read again (own(v)){ONCE}"),
        (f"(SELECT k, own(v) AS v FROM {other})", 0, ""),  # Python leaves rows in their buckets, in their order
    ]:  # fmt: skip
        found = reasons(session, f"{merge} {source} s {UPSERT}")
        (shuffled, _, why) = found.pop("source")
        assert (shuffled, "".join(why[:1])) == (shuffles, reason)
        assert found == dict.fromkeys(("rows that change", "rows that stay", "rows that are inserted"), NOTHING), source
    text = explain(f"{merge} (SELECT * FROM range(5)) s ON t.k = s.id WHEN MATCHED THEN DELETE", session)
    assert "InPlaceRows" in text and "\nrows that change: shuffles: 0, sorts: 0\n" in text
    assert "colocate: false, reason: The src data has been redistributed: the source is computed first\n" in text


def test_verdicts_of_changes_that_move_rows(session: SparkSession) -> None:
    """Each query that shuffles has a reason, the others have none."""
    table, other = made(session, "judged_moving", "(1, 1), (2, 2)"), made(session, "judging_moving", "(2, 1)")
    merge = f"MERGE INTO {table} t USING {other} s ON"
    inconsistent = "Inconsistent distribution of table and queries:"
    found = reasons(session, f"{merge} t.v = s.v WHEN MATCHED THEN DELETE")
    assert found["rows that change"] == (2, 2, (
        f"{inconsistent} {table} is bucketed by (k), ON does not compare all of it with the source by =: (t.v = s.v); "
        "the target is shuffled, too",))  # fmt: skip
    found = reasons(session, f"{merge} abs(t.k) = s.k WHEN MATCHED THEN DELETE")
    assert found["rows that change"][2] == (
        "Src column hash been transformed by expr: (abs(t.k) = s.k); the target is shuffled, too",)  # fmt: skip
    assert reasons(session, f"UPDATE {table} SET k = k + 1") == {
        "rows that change": NOTHING, "rows that stay": NOTHING,
        "rows that move": (1, 1, ("The src data has been redistributed: updated rows move to another bucket, "
                                  "partition or place in their file",)),
    }  # fmt: skip
    assert reasons(session, f"{merge} t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.v)") == {
        "rows that are inserted": (
            1, 1, (f"{inconsistent} the values inserted into (k) are not those that ON compares with it",)),
    }  # fmt: skip
    found = reasons(session, f"DELETE FROM {table} WHERE v IN (SELECT v FROM {other})")
    assert found["rows that change"][2] == (
        f"{inconsistent} a subquery is not joined by the bucket key (k) of {table} with a table of its group",
    )
    found = reasons(session, f"UPDATE {table} SET v = (SELECT max(v) FROM {other})")
    assert found["rows that stay"] == (
        1, 0, ("The src data has been redistributed: by operators of a subquery that is computed first",))  # fmt: skip
    assert pairs(session, table) == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("key", "value", "stays"),
    [("disableColocateJoin", "true", (1, 1, ("Session disabled",))),
     ("writeInPlace", "false", (1, 1, ("Session disabled: spark.colocation.writeInPlace=false",))),
     ("trustSortedFiles", "false", (0, 1, ("Session disabled: spark.colocation.trustSortedFiles=false",)))],
)  # fmt: skip
def test_verdicts_with_settings(
    session: SparkSession, key: str, value: str, stays: tuple[int, int, tuple[str]]
) -> None:
    """A setting that makes a change shuffle or sort is the reason."""
    table = made(session, f"set_{key}", "(1, 1), (2, 2)")
    session.conf.set(f"spark.colocation.{key}", value)
    assert reasons(session, f"UPDATE {table} SET v = 1") == {"rows that change": NOTHING, "rows that stay": stays}


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


def test_a_source_that_is_the_target_is_read_as_a_whole(session: SparkSession) -> None:
    """A commit of another key changes what the statement would do, if its source is the target."""
    table, other = made(session, "itself", "(1, 1), (2, 2)"), made(session, "another", "(1, 1), (2, 2)")
    merge = "MERGE INTO {} t USING (SELECT k, max(v) OVER () AS v FROM {}) s ON t.k = s.k AND t.k = 1 "
    update = "WHEN MATCHED THEN UPDATE SET v = s.v"
    insert = f"INSERT INTO {table} VALUES ({{}}, 70)"  # each key is in a bucket of its own
    run_after(session, merge.format(table, other) + update, lambda: session.sql(insert.format(7)))
    assert pairs(session, table) == [(1, 2), (2, 2), (7, 70)]
    with pytest.raises(SparkRuntimeException, match="LoadConflict"):
        run_after(session, merge.format(table, table) + update, lambda: session.sql(insert.format(12)))
    session.sql(merge.format(table, table) + update)
    assert pairs(session, table) == [(1, 70), (2, 2), (7, 70), (12, 70)]


def test_a_compaction_of_what_a_statement_read(session: SparkSession) -> None:
    """It moves no row to another bucket, so only a statement that replaces one of its files has to run again."""
    table = made(session, "compacted", "(1, 1), (2, 2)")
    session.sql(f"INSERT INTO {table} VALUES (1, 2)")
    compacted = partial(compact, session, "compacted", namespace=NAMESPACE, catalog=CATALOG)
    merge = f"MERGE INTO {table} t USING {{}} s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *"
    run_after(session, merge.format("(SELECT explode(array(1L, 8L)) AS k, 5L AS v)"), compacted)
    session.sql(f"INSERT INTO {table} VALUES (1, 3)")
    run_after(session, merge.format(f"(SELECT k + 20 AS k, v FROM {table} WHERE k < 3 AND v < 3)"), compacted)
    assert pairs(session, table) == [(1, 1), (1, 2), (1, 3), (2, 2), (8, 5), (21, 1), (21, 2), (22, 2)]
    session.sql(f"INSERT INTO {table} VALUES (1, 4)")
    with pytest.raises(SparkRuntimeException, match="LoadConflict"):
        run_after(session, f"UPDATE {table} SET v = 9 WHERE k = 1", compacted)
    with pytest.raises(SparkRuntimeException, match="LoadConflict"):
        run_after(session, merge.format(f"(SELECT k + 30 AS k, v FROM {table})"),
                  lambda: session.sql(f"INSERT INTO {table} VALUES (2, 4)"), compacted)  # fmt: skip


def test_texts_of_a_length_that_stay_and_move(session: SparkSession) -> None:
    """One write has the rows of several queries: those that stay in their partition, those that move, and new ones."""
    columns = "k BIGINT, v VARCHAR(6), p CHAR(4)"
    target = make_table(session, f"{IN}.texts", columns, "PARTITIONED BY (p)")
    source = make_table(session, f"{IN}.of_texts", columns)
    session.sql(f"INSERT INTO {target} VALUES (1, 'a', 'p'), (2, 'b', 'q')")
    session.sql(f"INSERT INTO {source} SELECT k, v, p FROM {target} UNION ALL SELECT k + 2, v, p FROM {target}")
    session.sql(f"MERGE INTO {target} t USING {source} s ON t.k = s.k "
                "WHEN MATCHED AND t.k = 1 THEN UPDATE SET p = rpad('r', 4, ' ') "
                "WHEN MATCHED THEN UPDATE SET v = coalesce(substr(t.v || 'x', 1, 4), CAST('B' AS VARCHAR(6))) "
                "WHEN NOT MATCHED AND s.k = 3 THEN INSERT (k, v) VALUES (s.k, s.v) "
                "WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    session.sql(f"UPDATE {target} SET p = 'z' WHERE k = 4")
    found = sorted(tuple(row) for row in session.table(target).collect())
    assert found == [(1, "a", "r   "), (2, "bx", "q   "), (3, "a", None), (4, "b", "z   ")]


def test_conditions_on_padded_texts(session: SparkSession) -> None:
    """Constants are padded as the column is, also where columns of the statement are known late, as those of a star."""
    table = make_table(session, f"{IN}.padded", "k BIGINT, c CHAR(4)")
    session.sql(f"INSERT INTO {table} VALUES (1, 'A'), (2, 'B'), (3, NULL)")
    source = (f"SELECT * FROM {table} WHERE k > 5 "
              "UNION ALL SELECT * FROM (VALUES (CAST(4 AS BIGINT), rpad('C', 4, ' '))) AS one(k, c)")  # fmt: skip
    session.sql(f"MERGE INTO {table} t USING ({source}) s ON t.k = s.k "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
                "WHEN NOT MATCHED BY SOURCE AND NOT (t.c IN (trim('A'))) THEN DELETE")  # fmt: skip
    assert sorted(row["k"] for row in session.table(table).collect()) == [1, 3, 4]
