"""Conditions on FLOAT and DOUBLE where Parquet leaves out rows: -0.0 is equal to 0.0, NaN to NaN, above all numbers."""

import math
import operator
from collections.abc import Callable
from itertools import product

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.conftest import MAP

pytestmark = pytest.mark.spark

NAMESPACE = "zeros"
IN = f"{CATALOG}.{NAMESPACE}"
ALIKE = 20
"""Rows of each value: Parquet keeps a file's dictionary of values that come again."""

BUCKETS = 3
"""The fewest in which -0.0 and 0.0 would lie apart if their bits were hashed; each is a task of each query."""

STORED = {"negative": ["-0.0"], "positive": ["0.0"], "numbers": ["-1.5", "-0.0", "NaN"]}
LITERALS = ["-0.0", "0.0", "NaN"]
COMPARED: dict[str, Callable[[float, float], bool]] = {
    "k = {x}": operator.eq,
    "k <=> {x}": operator.eq,
    "k IN ({x}, CAST('7' AS {type}))": operator.eq,
    "k BETWEEN {x} AND {x}": operator.eq,
    "k <> {x}": operator.ne,
    "k < {x}": operator.lt,
    "v <= {x}": operator.le,
    "k > {x}": operator.gt,
    "s.f >= {x}": operator.ge,
}
CHANGES = [
    "UPDATE {t} SET n = 1 WHERE k <=> {x}",
    "UPDATE {t} SET n = 1 WHERE k IN ({x})",
    "MERGE INTO {t} t USING (SELECT {x} AS k) s ON t.k = s.k AND t.v >= {x} WHEN MATCHED THEN UPDATE SET n = 1 "
    "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)",
    "DELETE FROM {t} WHERE k = {x}",
]
CHANGED = {"FLOAT": [("negative", "0.0"), ("numbers", "NaN")], "DOUBLE": [("positive", "-0.0")]}


def ordered(value: str) -> float:
    """A number in the order of Spark's values."""
    return math.inf if value == "NaN" else float(value)


def made(session: SparkSession, name: str, kind: str, values: list[str]) -> str:
    """A table of three columns with these values, and n, in one file of each bucket."""
    table = f"{IN}.{name}_{kind}"
    session.sql(f"CREATE TABLE {table} (k {kind}, v {kind}, s STRUCT<f: {kind}>, n INT) CLUSTERED BY (k) "
                f"INTO {BUCKETS} BUCKETS TBLPROPERTIES ('colocate_with'='{kind.lower()}')")  # fmt: skip
    rows = ", ".join(f"(CAST('{value}' AS {kind}))" for value in values * ALIKE)
    session.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ k, k, struct(k), 0 FROM VALUES {rows} AS one(k)")
    return table


@pytest.fixture(scope="module")
def groups(tables: ClusterTables) -> None:
    """One for each type."""
    for kind in ("float", "double"):
        tables.add_group(kind, [kind], MAP[:BUCKETS])


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize(("kind", "vectorized"), [("FLOAT", "false"), ("DOUBLE", "true")])
def test_conditions(session: SparkSession, kind: str, vectorized: str) -> None:
    """By Spark's vectorized reader of Parquet, and the other one; then of rows that change."""
    session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    tables = {name: made(session, name, kind, values) for name, values in STORED.items()}
    for form, compare in COMPARED.items():
        counts, wanted = [], {}
        for name, literal in product(STORED, LITERALS):
            where = form.format(x=f"CAST('{literal}' AS {kind})", type=kind)
            counts.append(f"SELECT '{name}', '{literal}', count(*) FROM {tables[name]} WHERE {where}")
            wanted[name, literal] = ALIKE * sum(compare(ordered(one), ordered(literal)) for one in STORED[name])
        found = {(name, literal): count for name, literal, count in session.sql(" UNION ALL ".join(counts)).collect()}
        assert found == wanted, form
    for name, literal in CHANGED[kind]:
        for statement in CHANGES:
            text = statement.format(t=tables[name], x=f"CAST('{literal}' AS {kind})")
            done = session.sql(text).collect()[0].asDict()
            changed = [done.get(f"num_{what}_rows", 0) for what in ("updated", "inserted", "deleted")]
            assert changed == ([0, 0, ALIKE] if text.startswith("DELETE") else [ALIKE, 0, 0]), (text, done)


@pytest.mark.usefixtures("groups")
def test_an_update_changes_a_sign(session: SparkSession) -> None:
    """Equal zeros are two values, also in columns that decide where a row is stored."""
    table = f"{IN}.signs"
    session.sql(f"CREATE TABLE {table} (k DOUBLE, p DOUBLE, s DOUBLE) PARTITIONED BY (p) CLUSTERED BY (k) "
                f"SORTED BY (k, s) INTO {BUCKETS} BUCKETS TBLPROPERTIES ('colocate_with'='double')")  # fmt: skip
    session.sql(f"INSERT INTO {table} VALUES (0.0D, 0.0D, 0.0D)")
    for column in ("k", "p", "s"):
        session.sql(f"UPDATE {table} SET {column} = CAST('-0.0' AS DOUBLE)")
        assert session.sql(f"SELECT CAST({column} AS STRING) FROM {table}").collect()[0][0] == "-0.0"
