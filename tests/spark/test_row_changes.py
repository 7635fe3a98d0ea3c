"""UPDATE, DELETE and MERGE of single rows; after each statement the table holds what DuckDB's does."""


import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table

pytestmark = pytest.mark.spark

NAMESPACE = "changed"
IN = f"{CATALOG}.{NAMESPACE}"


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    session = tables.configure(application.newSession())
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


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
