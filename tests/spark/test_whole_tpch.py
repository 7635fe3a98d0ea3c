"""TPC-H's 22 statements have DuckDB's answers: orders and lineitem in buckets of the order's key, others as files."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from benchmarks.joins.answers import are_equal
from benchmarks.joins.inputs import tpch
from benchmarks.joins.tables import SMALL_TABLES, tpch_tables
from benchmarks.joins.tpch import WHOLE_TPCH
from benchmarks.joins.variants import statement_with
from benchmarks.joins.workloads import Workload
from tests.spark.cluster_tables import CATALOG, ClusterTables

pytestmark = [pytest.mark.spark, pytest.mark.deep]

NAMESPACE = "whole-tpch"
IN = f"{CATALOG}.`{NAMESPACE}`"
SCALE = 0.1


@pytest.fixture(scope="module")
def files() -> Path:
    return tpch(SCALE)


@pytest.fixture(scope="module")
def oracle(files: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as database:
        for file in files.glob("*.parquet"):
            database.execute(f"CREATE VIEW {file.stem} AS SELECT * FROM '{file}'")
        yield database


@pytest.fixture(scope="module")
def loaded(application: SparkSession, tables: ClusterTables, files: Path) -> None:
    session = tables.configure(application.newSession())
    for table in tpch_tables():
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns if name != "o_day")
        session.sql(f"CREATE TABLE {IN}.{table.name} ({columns}) CLUSTERED BY ({table.key}) "
                    f"SORTED BY ({', '.join(table.sorted_by)}) INTO 6 BUCKETS "
                    "TBLPROPERTIES ('colocate_with' = 'sales')")  # fmt: skip
        session.read.parquet(str(files / f"{table.name}.parquet")).writeTo(f"{IN}.{table.name}").append()


@pytest.mark.parametrize("broadcasts", ["10MB", "-1"])
@pytest.mark.parametrize("workload", WHOLE_TPCH, ids=lambda workload: workload.name)
def test_answers(
    workload: Workload, broadcasts: str, session: SparkSession, loaded: None, files: Path,
    oracle: duckdb.DuckDBPyConnection,
) -> None:  # fmt: skip
    """With small tables broadcast, and without."""
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcasts)
    session.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", broadcasts)
    for name in SMALL_TABLES:
        session.read.parquet(str(files / f"{name}.parquet")).createOrReplaceTempView(name)
    answer = session.sql(statement_with(workload.statement, f"{IN}.", ""))._jdf.collect()
    expected = oracle.execute(statement_with(workload.statement, "", ""))
    names = [column[0] for column in expected.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in expected.fetchall()]
    assert are_equal([json.loads(row.json()) for row in answer], rows)
