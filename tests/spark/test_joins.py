"""Joins of loaded tables: no shuffle, local reads only, and DuckDB's answers, whatever the rows."""

from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from colocation.model.table import ColocatedTableSpec, Column
from colocation.spark import count_exchanges, explain, explain_json, read_metrics
from tests.spark.catalog_server import load, properties, show
from tests.spark.conftest import add_table, stable_group
from tests.spark.loopback import LoopbackAgents
from tests.unit.spark.fake_catalog import FakeCatalog

pytestmark = pytest.mark.spark

ORDERS = """
SELECT if(i % 17 = 0, NULL, CAST(i AS BIGINT)) AS o_key, CAST(i % 5 AS INT) AS o_code,
       CONCAT('name ', i % 50) AS o_name, CAST(i AS DECIMAL(15,2)) / 7 AS o_price, i % 3 AS o_part
FROM (SELECT id AS i FROM range(400))
"""
LINES = """
SELECT if(i % 23 = 0, NULL, CAST(i % 300 AS BIGINT)) AS l_key, CAST(i % 5 AS INT) AS l_code, i % 7 AS l_quantity,
       i % 3 AS l_part
FROM (SELECT id AS i FROM range(1200))
"""


def answer(rows: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in rows.collect()), key=repr)


@dataclass(frozen=True)
class Shop:
    """Loaded tables ``orders`` and ``lines``, and their rows for DuckDB."""

    catalog: FakeCatalog
    rows: dict[str, pa.Table]

    def answer(self, statement: str) -> list[tuple[object, ...]]:
        """DuckDB's answer to a statement of Spark."""
        with duckdb.connect() as database:
            for name, rows in self.rows.items():
                database.register(name, rows)
            for word in ("SEMI", "ANTI"):
                statement = statement.replace(f"LEFT {word}", word)
            return sorted(database.execute(statement).fetchall(), key=repr)


@pytest.fixture(scope="module")
def shop(application: SparkSession, agents: LoopbackAgents) -> Shop:
    catalog = stable_group(agents)
    orders, lines = application.sql(ORDERS), application.sql(LINES)
    add_table(catalog, "orders", orders, ["o_key"], ("o_part",))
    add_table(catalog, "lines", lines, ["l_key"])
    return Shop(catalog, {"orders": orders.toArrow(), "lines": lines.toArrow()})


@pytest.fixture
def catalog(shop: Shop) -> FakeCatalog:
    """A catalog of its own, which a test may change."""
    return shop.catalog.copy()


@pytest.fixture
def session(spark: SparkSession, catalog: FakeCatalog) -> SparkSession:
    """A session that finds the tables by their names."""
    show(spark, catalog)
    spark.catalog.setCurrentDatabase("shop")
    return spark


def test_joins_without_a_shuffle(session: SparkSession, shop: Shop) -> None:
    """Inner, outer, semi and anti joins, a three-way join and a join with NULL keys: right, colocated, local."""
    mark = read_metrics(session)
    for statement in (
        "SELECT o_name, l_quantity, o_price FROM orders JOIN lines ON o_key = l_key",
        "SELECT o_key, l_key, l_quantity FROM orders FULL OUTER JOIN lines ON o_key = l_key",
        "SELECT o_key, o_part FROM orders LEFT SEMI JOIN lines ON o_key = l_key AND o_part = l_part",
        "SELECT o_key FROM orders LEFT ANTI JOIN lines ON l_key = o_key",
        "SELECT count(*) FROM lines a JOIN orders ON a.l_key = o_key JOIN lines b ON b.l_key = o_key",
        "SELECT o_code, l_code FROM orders LEFT JOIN lines ON o_key = l_key AND o_part = l_part",
    ):
        query = session.sql(statement)
        assert answer(query) == shop.answer(statement)
        assert [join["colocate"] for join in explain_json(query)["joins"]] == [True] * statement.count("JOIN")
        assert count_exchanges(query) == 0
    read = read_metrics(session, mark)
    assert read.remote_bytes == 0
    assert read.local_bytes > 0


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        pytest.param("SELECT o_key, l_key FROM orders JOIN lines ON o_key + 1 = l_key",
                     "Src column hash been transformed by expr", id="expression"),
        pytest.param("SELECT o_key, l_key FROM orders JOIN lines ON o_code = l_code",
                     "Inconsistent distribution of table and queries", id="other-column"),
        pytest.param("SELECT o_key, i FROM orders JOIN (SELECT DISTINCT l_quantity i FROM lines) ON o_key = i",
                     "Inconsistent distribution of table and queries", id="grouped-by-other-column"),
        pytest.param("SELECT /*+ BROADCAST(lines) */ o_key, l_key FROM orders JOIN lines ON o_key = l_key",
                     "Has join hint", id="hint"),
        pytest.param("SELECT o_key, l_key FROM orders JOIN lines ON o_key < l_key AND o_key > 390",
                     "Inconsistent distribution of table and queries", id="no-equality"),
    ],
)
def test_what_cannot_be_colocated_gives_the_reason(
    statement: str, reason: str, session: SparkSession, shop: Shop
) -> None:
    """It is shuffled or broadcast, answers right, and names the reason."""
    query = session.sql(statement)
    assert answer(query) == shop.answer(statement)
    text = explain(query)
    assert f"colocate: false, reason: {reason}" in text
    assert "colocate: true" not in text


def test_the_session_can_switch_it_off(
    session: SparkSession, catalog: FakeCatalog, shop: Shop
) -> None:
    """With the switch off the same statement shuffles, with the same answer."""
    statement = "SELECT o_name, l_quantity FROM orders JOIN lines ON o_key = l_key"
    session.conf.set("spark.colocation.disableColocateJoin", "true")
    assert {properties(session, name)["colocate"] for name in ("orders", "lines")} == {"false"}
    query = session.sql(statement)
    assert answer(query) == shop.answer(statement)
    assert count_exchanges(query) == 2
    assert "colocate: false, reason: Session disabled" in explain(query)


def test_unstable_group_degrades_with_the_reason(
    session: SparkSession, catalog: FakeCatalog, shop: Shop
) -> None:
    """While every bucket has a live replica it keeps its buckets and reports it; by Doris' rule it is shuffled."""
    group = catalog.groups["sales"]
    catalog.add_group(group.spec, group.status.model_copy(update={"stable": False, "reason": "NodeNotReady"}))
    statement = "SELECT o_name, l_quantity FROM orders JOIN lines ON o_key = l_key"
    session.conf.set("spark.colocation.whenUnstable", "shuffle")
    query = session.sql(statement)
    assert answer(query) == shop.answer(statement)
    assert explain_json(query)["exchanges"] == 2
    assert "colocate: false, reason: group is not stable: NodeNotReady" in explain(query)
    session.conf.unset("spark.colocation.whenUnstable")
    shown = properties(session, "orders")
    assert shown["colocate"] == "true"
    assert "group is not stable: NodeNotReady; buckets are read from live replicas" in shown["reason"]
    assert count_exchanges(session.sql(statement)) == 0


def test_a_plan_keeps_its_snapshot(
    session: SparkSession, catalog: FakeCatalog, shop: Shop
) -> None:
    """A load between planning and running changes nothing for the planned query; the next query sees it."""
    planned = session.sql("SELECT count(*) FROM lines")
    assert load(session.table("lines"), "lines", catalog=catalog).snapshot_id == 2
    assert planned.collect()[0][0] == 1200
    assert session.sql("SELECT count(*) FROM lines").collect()[0][0] == 2400


def test_tables_without_rows_and_without_group(
    session: SparkSession, catalog: FakeCatalog, shop: Shop
) -> None:
    """A table that was never loaded is empty and colocated; one in no group is joined the ordinary way."""
    columns = (Column(name="e_key", type="bigint"),)
    grouped = ColocatedTableSpec(colocate_with="sales", columns=columns, bucketed_by=("e_key",))
    catalog.add_table("empty", grouped, "e" * 36)
    catalog.add_table("loose", grouped.model_copy(update={"colocate_with": ""}), "f" * 36)
    for table, verdict in (
        ("empty", "colocate: true"),
        ("loose", "colocate: false, reason: Tables are not in the same group: colocation.shop.loose is in no group"),
    ):
        query = session.sql(f"SELECT o_key FROM orders LEFT JOIN {table} ON o_key = e_key")
        assert verdict in explain(query)
        assert query.count() == 400
