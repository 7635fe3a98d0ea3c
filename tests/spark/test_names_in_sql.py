"""Names as SQL writes them: upper case, and `_`, which Kubernetes' names cannot have.

The operator is a thread that accepts tables; the agents and the API server are real.
"""

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.conftest import MAP

pytestmark = pytest.mark.spark

NAMESPACE = "name-d"
IN = f"{CATALOG}.name_d"
SALES = "CLUSTERED BY (k) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='SALES_EU')"
SQL_NAME = "colocation.dev/sql-name"


@pytest.fixture(scope="module")
def named(tables: ClusterTables) -> ClusterTables:
    """With group ``sales-eu``."""
    tables.add_group("sales-eu", ["bigint"], MAP)
    return tables


@pytest.fixture
def session(application: SparkSession, named: ClusterTables) -> SparkSession:
    return named.configure(application.newSession())


def values(session: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(statement).collect()]


def listed(session: SparkSession, namespace: str = IN) -> list[str]:
    return [row["tableName"] for row in session.sql(f"SHOW TABLES IN {namespace}").collect()]


def test_a_table_by_two_names(session: SparkSession, named: ClusterTables) -> None:
    """`order_items` and `order-items` are one object; all that reads, writes and changes tables takes both."""
    table, other = f"{IN}.order_items", f"{CATALOG}.`NAME-D`.`Order-Items`"
    session.sql(f"CREATE TABLE {table} (k BIGINT, v_1 INT, p_1 INT) PARTITIONED BY (p_1) {SALES}")
    made = named.get("order-items")
    assert (made["spec"]["colocateWith"], made["metadata"]["annotations"][SQL_NAME]) == ("sales-eu", "order_items")
    for name in (table, other):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
            session.sql(f"CREATE TABLE {name} (k BIGINT) {SALES}")
    session.sql(f"INSERT INTO {table} VALUES (1, 10, 1), (2, 20, 2)")
    session.sql(f"INSERT OVERWRITE {other} PARTITION (p_1 = 2) VALUES (3, 30)")
    for name in (table, other):
        assert values(session, f"SELECT k, v_1 FROM {name} ORDER BY k") == [(1, 10), (3, 30)]
        assert values(session, f"SELECT k FROM {name} VERSION AS OF 1 ORDER BY k") == [(1,), (2,)]
        assert values(session, f"SELECT sum(rows) FROM {name}.files") == [(2,)]
    session.sql(f"ALTER TABLE {other} ADD COLUMN w_2 STRING")
    session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('colocate_with'='sales_eu', 'recycle_after_seconds'='0')")
    assert named.get("order-items")["spec"]["colocateWith"] == "sales-eu"
    session.sql(f"CALL {CATALOG}.system.roll_back(table => 'name_d.order_items', snapshot_id => 1)")
    session.sql(f"USE {IN}")
    assert values(session, "SELECT count(*) FROM order_items JOIN order_items.snapshots") == [(6,)]
    session.sql(f"CALL {CATALOG}.system.roll_back(table => 'order_items', snapshot_id => 2)")
    session.sql("CALL system.roll_back(table => '`order-items`', snapshot_id => 1)")
    with pytest.raises(AnalysisException, match=r"table name-d\.order_items keeps no snapshot 77"):
        session.sql("SELECT * FROM order_items VERSION AS OF 77")
    session.sql("CREATE OR REPLACE TABLE order_items AS SELECT k, p_1 FROM `order-items`")
    assert values(session, f"SELECT * FROM {other} ORDER BY k") == [(1, 1), (2, 2)]
    session.sql("DROP TABLE `order-items`")
    assert not session.catalog.tableExists(table)
    session.sql(f"DROP TABLE IF EXISTS {table}")


def test_tables_are_listed_as_they_were_made(session: SparkSession, named: ClusterTables) -> None:
    """As the statement wrote the name, where one did: dbt looks for the name that it has made."""
    session.sql(f"CREATE TABLE {IN}.stg_web__dbt_tmp {SALES} AS SELECT 1L AS k")
    session.sql(f"CREATE TABLE {IN}.plain (k BIGINT) {SALES}")
    named.make("ColocatedTable", "by-kubectl", named.get("plain")["spec"])
    assert {"stg_web__dbt_tmp", "plain", "by-kubectl"} <= set(listed(session))
    assert listed(session, f"{IN} LIKE 'stg_web*'") == ["stg_web__dbt_tmp"]
    assert [row["tableName"] for row in session.sql(f"SHOW TABLE EXTENDED IN {IN} LIKE 'stg_*'").collect()] == [
        "stg_web__dbt_tmp"
    ]
    described = dict(row[:2] for row in values(session, f"DESCRIBE EXTENDED {IN}.`stg-web--dbt-tmp`"))
    # Spark 4.3 has no such row: it reports the name as the statement has it.
    assert described.get("Name", f"{CATALOG}.{NAMESPACE}.stg_web__dbt_tmp") == f"{CATALOG}.{NAMESPACE}.stg_web__dbt_tmp"
    assert "annotations" not in named.get("by-kubectl")["metadata"]
    assert SQL_NAME not in named.get("plain")["metadata"]["annotations"]
    assert f"`{NAMESPACE}`" in [row[0] for row in values(session, f"SHOW NAMESPACES IN {CATALOG}")]


@pytest.mark.parametrize("annotation", ["plain", "a b", "", "secret_items\n"])
def test_a_name_that_means_another_table_is_not_shown(
    session: SparkSession, named: ClusterTables, annotation: str
) -> None:
    """Anyone who may edit a table may write any annotation."""
    session.sql(f"CREATE TABLE IF NOT EXISTS {IN}.secret_items (k BIGINT) {SALES}")
    named.annotate("ct", "secret-items", **{SQL_NAME: annotation})
    assert "secret-items" in listed(session)
    assert values(session, f"SELECT count(*) FROM {IN}.secret_items") == [(0,)]
    named.annotate("ct", "secret-items", **{SQL_NAME: "Secret_Items"})
    assert "Secret_Items" in listed(session)


def test_names_that_no_object_can_have(session: SparkSession, named: ClusterTables) -> None:
    """The error names what the statement wrote, and what is allowed."""
    for name in ("_tmp", "größe", "a b", "items_"):
        with pytest.raises(AnalysisException, match=f"its name is '{name}'; allowed: ASCII letters, digits, _, -"):
            session.sql(f"CREATE TABLE {IN}.`{name}` (k BIGINT) {SALES}")
