"""The corpus of queries through the catalog: DuckDB's answers, and the plans that registered tables have."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from colocation.spark import explain_json, register
from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.corpus import CASES, Case
from tests.spark.loopback import LoopbackAgents
from tests.spark.test_corpus import (
    HERE,
    PLAIN,
    TABLES,
    assert_verdicts,
    executed_plan,
    in_duckdb,
    sorted_rows,
)

pytestmark = pytest.mark.spark

NAMESPACE = "corpus"
NOTHING = ("SELECT CAST(1 AS BIGINT) AS n_key WHERE false", ["n_key"], (), "sales")


@dataclass(frozen=True)
class Sessions:
    """The same tables by the catalog, registered, and in DuckDB."""

    catalog: SparkSession
    registered: SparkSession
    database: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def sessions(
    application: SparkSession, agents: LoopbackAgents, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sessions]:
    tables = ClusterTables(plane, agents, NAMESPACE)
    for group, key, buckets in (
        ("sales", ["bigint"], MAP), ("audience", ["bigint"], MAP), ("paired", ["bigint", "string"], MAP[1:5]),
    ):
        tables.add_group(group, key, buckets)
    plain = tmp_path_factory.mktemp("plain")
    application.sql(PLAIN).write.mode("overwrite").parquet(str(plain))
    with duckdb.connect() as database:
        for name, (statement, key, partitions, group) in {**TABLES, "nothing": NOTHING}.items():
            rows = application.sql(statement)
            tables.add_table(name, rows, key, partitions, group)
            database.register(name, rows.toArrow())
        database.register("plain", application.sql(PLAIN).toArrow())
        database.register("here", application.sql(HERE).toArrow())
        by_catalog, registered = tables.configure(application.newSession()), application.newSession()
        by_catalog.sql(f"USE {CATALOG}.{NAMESPACE}")
        register(registered, namespace=NAMESPACE, catalog=tables.catalog)
        registered.catalog.setCurrentDatabase(NAMESPACE)
        for session in (by_catalog, registered):
            session.read.parquet(str(plain)).createOrReplaceTempView("plain")
            here = session.sql(HERE)
            session.createDataFrame(here.collect(), here.schema).createOrReplaceTempView("here")
        yield Sessions(by_catalog, registered, database)
        registered.catalog.setCurrentDatabase("default")
        registered.sql(f"DROP DATABASE {NAMESPACE} CASCADE")


def shape(query: DataFrame) -> str:
    """The plan without what differs from run to run, or by the catalog's name."""
    plan = executed_plan(query).replace(f"{CATALOG}.{NAMESPACE}", NAMESPACE)
    plan = plan.replace(f"spark_catalog.{NAMESPACE}", NAMESPACE)
    plan = re.sub(r"(?:#|plan_id=|RangeJoin|subquery#|dynamicpruning#)\d+L?", "#", plan)
    return re.sub(r"coloc://\S+", "coloc://", plan)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answers_verdicts_and_plans(case: Case, sessions: Sessions) -> None:
    """As of registered tables, to the letter of the executed plan."""
    query = sessions.catalog.sql(case.statement)
    rows = sorted_rows(query.collect())
    assert rows == sorted_rows(sessions.database.execute(in_duckdb(case.statement)).fetchall())
    explained = explain_json(query)
    for what, expected in (("joins", case.joins), ("aggregates", case.aggregates), ("windows", case.windows)):
        assert_verdicts(what, explained[what], expected, "stable")
    registered = sessions.registered.sql(case.statement)
    registered.collect()
    assert shape(query) == shape(registered)
