"""The catalog in Java, as users meet it in SQL: what it lists and reads, older snapshots, and what it tells."""

import re
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession

from colocation.spark import explain, explain_json
from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, CATALOG_KEY, STABLE, UNSTABLE, WHY_UNSTABLE, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.loopback import LoopbackAgents

pytestmark = pytest.mark.spark

NAMESPACE = "my-shop"
SHOP = f"{CATALOG}.`{NAMESPACE}`"
JOIN = f"SELECT count(*) FROM {SHOP}.orders a JOIN {SHOP}.lines b ON a.k = b.k"


CONTRACT = {
    "snapshots": ["snapshot_id", "committed_at", "operation", "rows", "bytes", "files", "idempotency_key"],
    "files": ["partition", "bucket", "path", "rows", "bytes", "sha256"],
    "replicas": ["bucket", "node", "state", "verified_at"],
}


def keys(start: int, end: int) -> str:
    return f"SELECT id AS k, id * 2 AS v FROM range({start}, {end})"


@pytest.fixture(scope="module")
def tables(application: SparkSession, agents: LoopbackAgents, plane: ControlPlane) -> ClusterTables:
    """``orders`` with two snapshots of 100 and 150 rows, ``lines``, and ``line-items``, which was never loaded."""
    made = ClusterTables(plane, agents, NAMESPACE)
    made.add_group("sales", ["bigint"], MAP)
    made.add_table("orders", application.sql(keys(0, 100)), ["k"])
    first = made.get("orders")["status"]["snapshot"]
    before = datetime.fromisoformat(first["committedAt"]) - timedelta(minutes=1)  # times are of whole seconds
    made.change("ct", "orders", snapshot=first | {"committedAt": f"{before:%Y-%m-%dT%H:%M:%SZ}"})
    made.load(application.sql(keys(100, 150)), "orders")
    made.add_table("lines", application.sql(keys(0, 120)), ["k"])
    made.add_table("line-items", application.sql(keys(0, 0)), ["k"])
    return made


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> Iterator[SparkSession]:
    """A session of its own; the group is stable again afterwards."""
    yield tables.configure(application.newSession())
    tables.change("cg", "sales", **STABLE)


def value(session: SparkSession, statement: str) -> object:
    return session.sql(statement).collect()[0][0]


def test_names(session: SparkSession) -> None:
    """Namespaces and tables are called as in the cluster; there is nothing of them in the session catalog."""
    assert f"`{NAMESPACE}`" in [row[0] for row in session.sql(f"SHOW NAMESPACES IN {CATALOG}").collect()]
    assert session.sql(f"SHOW NAMESPACES IN {SHOP}").collect() == []
    shown = session.sql(f"SHOW TABLES IN {SHOP}").collect()
    assert {"line-items", "lines", "orders"} <= {row["tableName"] for row in shown}
    session.sql(f"USE {SHOP}")
    assert value(session, "SELECT count(*) FROM Orders") == 150
    assert value(session, "SELECT count(*) FROM `line-items`") == 0
    assert session.catalog.tableExists(f"{SHOP}.orders")
    assert not session.catalog.tableExists(f"{SHOP}.nothing")
    assert [row[0] for row in session.sql("SHOW NAMESPACES IN spark_catalog").collect()] == ["default"]
    for missing in (f"{SHOP}.nothing", f"{CATALOG}.nowhere.orders", f"{CATALOG}.`a/b`.orders", f"{CATALOG}.orders"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            session.table(missing)
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        session.sql(f"USE {CATALOG}.nowhere")


def test_joins_have_no_shuffle(session: SparkSession) -> None:
    """The verdict is the executed plan's."""
    query = session.sql(JOIN)
    assert query.collect()[0][0] == 120
    assert "hashpartitioning" not in explain(query)
    [join] = explain_json(query)["joins"]
    assert join["colocate"] and join["tables"] == [f"{CATALOG}.{NAMESPACE}.orders", f"{CATALOG}.{NAMESPACE}.lines"]


def test_a_group_that_is_not_stable(session: SparkSession, tables: ClusterTables) -> None:
    """The next query keeps the buckets while all of them live, and reports it; the session may choose otherwise."""
    tables.change("cg", "sales", **UNSTABLE)
    [join] = explain_json(JOIN, session)["joins"]
    assert (join["colocate"], join["note"]) == (True, f"{WHY_UNSTABLE}; buckets are read from live replicas")
    session.conf.set("spark.colocation.whenUnstable", "shuffle")
    query = session.sql(JOIN)
    assert query.collect()[0][0] == 120
    [join] = explain_json(query)["joins"]
    assert (join["colocate"], join["reason"]) == (False, WHY_UNSTABLE)
    described = {row[0]: row[1] for row in session.sql(f"DESCRIBE TABLE EXTENDED {SHOP}.orders").collect()}
    for fact in ("colocate=false", "group=my-shop/sales", f"reason={WHY_UNSTABLE}", "stable=false", "buckets=6"):
        assert fact in described["Table Properties"]
    session.conf.set("spark.colocation.whenUnstable", "colocated")
    [join] = explain_json(JOIN, session)["joins"]
    assert (join["colocate"], join["note"]) == (True, f"{WHY_UNSTABLE}; buckets are read from live replicas")
    session.conf.set("spark.colocation.disableColocateJoin", "true")
    [join] = explain_json(JOIN, session)["joins"]
    assert (join["colocate"], join["reason"]) == (False, "Session disabled")
    session.conf.set("spark.colocation.disableColocateJoin", "false")
    session.conf.set("spark.sql.sources.bucketing.enabled", "false")
    [join] = explain_json(JOIN, session)["joins"]
    assert (join["colocate"], join["reason"]) == (False, "Session disabled: spark.sql.sources.bucketing.enabled=false")
    session.conf.set("spark.colocation.whenUnstable", "maybe")
    with pytest.raises(AnalysisException, match=r"whenUnstable='maybe'; allowed: live, shuffle, colocated"):
        session.table(f"{SHOP}.orders")


def test_every_query_sees_what_was_committed_before(
    session: SparkSession, tables: ClusterTables, application: SparkSession
) -> None:
    """Without a refresh; a query that was planned before keeps its own snapshot."""
    tables.add_table("visits", application.sql(keys(0, 10)), ["k"])
    planned = session.table(f"{SHOP}.visits")
    tables.load(application.sql(keys(10, 15)), "visits")
    assert value(session, f"SELECT count(*) FROM {SHOP}.visits") == 15
    assert planned.count() == 10
    tables.delete("ct", "visits")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.table(f"{SHOP}.visits")


def test_all_tables_of_a_query_are_of_one_moment(
    session: SparkSession, tables: ClusterTables, application: SparkSession
) -> None:
    """Commits go to ``first``, then to ``second``, without end: no query sees the second one ahead."""
    for name in ("first", "second"):
        tables.add_table(name, application.sql(keys(0, 3)), ["k"])
    ended = threading.Event()

    def commit() -> None:
        while not ended.is_set():
            for name in ("first", "second"):
                newest = tables.get(name)["status"]["snapshot"]
                tables.change("ct", name, snapshot={**newest, "id": newest["id"] + 1})

    writer = threading.Thread(target=commit)
    writer.start()
    newest = [f"SELECT snapshot_id AS {name} FROM {SHOP}.{name}.snapshots" for name in ("first", "second")]
    try:
        seen = [tuple(session.sql(f"SELECT * FROM ({newest[0]}) CROSS JOIN ({newest[1]})").collect()[0])
                for _ in range(15)]  # fmt: skip
    finally:
        ended.set()
        writer.join()
    assert {first - second for first, second in seen} <= {0, 1}
    assert sorted(seen) == seen and len(set(seen)) > 5


def test_older_snapshots(session: SparkSession) -> None:
    """By number and by time; they join with the present without a shuffle."""
    assert value(session, f"SELECT count(*) FROM {SHOP}.orders VERSION AS OF 1") == 100
    [first, second] = session.sql(
        f"SELECT snapshot_id, committed_at, is_current, operation, rows FROM {SHOP}.orders.snapshots ORDER BY 1"
    ).collect()
    assert (first["rows"], first["is_current"], second["rows"], second["is_current"]) == (100, False, 150, True)
    assert (first["operation"], second["operation"]) == ("append", "append")
    at_first = f"SELECT count(*) FROM {SHOP}.orders TIMESTAMP AS OF '{first['committed_at']}'"
    assert value(session, at_first) == 100
    query = f"SELECT count(*) FROM {SHOP}.orders a JOIN {SHOP}.orders VERSION AS OF 1 b ON a.k = b.k"
    assert value(session, query) == 100
    assert [join["colocate"] for join in explain_json(query, session)["joins"]] == [True]
    with pytest.raises(AnalysisException, match=r"my-shop.orders keeps no snapshot 7; it keeps: 2 \(.*\), 1 \(.*\)\."):
        session.sql(f"SELECT * FROM {SHOP}.orders VERSION AS OF 7")
    with pytest.raises(AnalysisException, match=r"keeps no snapshot of 2020-.* or before; it keeps: 2 "):
        session.sql(f"SELECT * FROM {SHOP}.orders TIMESTAMP AS OF '2020-01-01'")


def test_metadata_tables(session: SparkSession) -> None:
    """Files are the manifest's, replicas the map's. The columns that other tools rely on come first, in this order."""
    for name, columns in CONTRACT.items():
        assert session.table(f"{SHOP}.orders.{name}").columns[: len(columns)] == columns
    assert value(session, f"SELECT sum(rows) FROM {SHOP}.orders.files") == 150
    assert value(session, f"SELECT sum(rows) FROM {SHOP}.orders.files VERSION AS OF 1") == 100
    rows = session.sql(f"SELECT bucket, node, state, files FROM {SHOP}.orders.replicas ORDER BY 1, 2").collect()
    expected = [(bucket, node) for bucket, nodes in enumerate(MAP) for node in sorted(nodes)]
    assert [(row["bucket"], row["node"]) for row in rows] == expected
    assert {row["state"] for row in rows} == {"complete"}
    assert value(session, f"SELECT count(*) FROM {SHOP}.`line-items`.files") == 0
    with pytest.raises(AnalysisException, match=r"metadata tables of lake\.my-shop\.orders: snapshots"):
        session.table(f"{SHOP}.orders.nothing")


def test_metadata_tables_in_a_view(session: SparkSession) -> None:
    """It names them as where it was made, whatever its readers use."""
    session.sql(f"USE {SHOP}")
    session.sql("CREATE VIEW spark_catalog.default.history AS SELECT snapshot_id FROM orders.snapshots")
    session.sql("USE spark_catalog.default")
    assert value(session, "SELECT max(snapshot_id) FROM history") == 2
    session.sql("DROP VIEW history")


def test_columns_that_were_added_and_renamed(
    session: SparkSession, tables: ClusterTables, application: SparkSession
) -> None:
    """Files keep their names; queries see the present ones, and an older snapshot has its own."""
    tables.add_table("changing", application.sql(keys(0, 50)), ["k"])
    columns = [
        {"name": "doubled", "type": "bigint", "storedAs": "v"}, {"name": "k", "type": "bigint"},
        {"name": "note", "type": "string"},
    ]
    tables.change_spec("ct", "changing", columns=columns)
    assert session.table(f"{SHOP}.changing").columns == ["doubled", "k", "note"]
    query = f"SELECT sum(doubled), count(note) FROM {SHOP}.changing a JOIN {SHOP}.lines b ON a.k = b.k"
    assert tuple(session.sql(query).collect()[0]) == (50 * 49, 0)
    assert [join["colocate"] for join in explain_json(query, session)["joins"]] == [True]
    assert session.sql(f"SELECT * FROM {SHOP}.changing VERSION AS OF 1").columns == ["k", "v"]


def test_sessions_do_not_change_each_other(session: SparkSession, application: SparkSession) -> None:
    """Switches and catalogs of one are none of another's, and no query leaves anything in its session."""
    other = application.newSession()
    session.conf.set("spark.colocation.disableColocateJoin", "true")
    other.conf.set(CATALOG_KEY, session.conf.get(CATALOG_KEY))
    other.conf.set(f"{CATALOG_KEY}.kubeconfig", session.conf.get(f"{CATALOG_KEY}.kubeconfig"))
    before = dict(other.conf.getAll)
    assert [join["colocate"] for join in explain_json(JOIN, other)["joins"]] == [True]
    assert [join["colocate"] for join in explain_json(JOIN, session)["joins"]] == [False]
    assert value(other, JOIN) == value(session, JOIN) == 120
    assert dict(other.conf.getAll) == before


def test_a_table_that_is_being_brought_back(session: SparkSession, tables: ClusterTables) -> None:
    """Its rows are not there yet, so it does not read as an empty table."""
    tables.add_table("back", session.sql(keys(0, 0)), ["k"])
    tables.annotate("ct", "back", **{"colocation.dev/recovers": "00000000"})
    tables.change("ct", "back", accepted=False)
    with pytest.raises(AnalysisException, match="is being brought back from the recycle bin"):
        session.table(f"{SHOP}.back")
    tables.change("ct", "back", accepted=True)
    assert value(session, f"SELECT count(*) FROM {SHOP}.back") == 0
    tables.delete("ct", "back")


def test_a_spoilt_status_is_reported(session: SparkSession, tables: ClusterTables) -> None:
    """Anyone who loads may write it: such a table is an error of its own."""
    tables.change("ct", "line-items", snapshot={"id": 1, "manifest": "sha256:" + "1" * 64,
                                                "committedAt": "2026-11-21T04:00:00Z"})  # fmt: skip
    with pytest.raises(AnalysisException, match=r"manifest 1+ of table my-shop\.line-items-\w+ is neither in"):
        session.table(f"{SHOP}.`line-items`")
    tables.change("ct", "line-items", snapshot=None)
    assert value(session, f"SELECT count(*) FROM {SHOP}.`line-items`") == 0


def test_what_is_wrong_with_one_table_stays_there(
    session: SparkSession, tables: ClusterTables, application: SparkSession
) -> None:
    """It is listed and described, its rows are refused in words; an overwrite makes it whole, and it can be dropped."""
    tables.add_table("spoilt", application.sql(keys(0, 10)), ["k"], ("v",))
    newest = tables.get("spoilt")["status"]["snapshot"]
    tables.change("ct", "spoilt", snapshot={**newest, "committedAt": "2026-11-21T04:00:00+19:00"})
    names = {"line-items", "lines", "orders", "spoilt"}
    assert names <= {row["tableName"] for row in session.sql(f"SHOW TABLE EXTENDED IN {SHOP} LIKE '*'").collect()}
    assert names <= {table.name for table in session.catalog.listTables(SHOP)}
    assert value(session, f"SELECT count(*) FROM {SHOP}.orders a JOIN {SHOP}.lines b ON a.k = b.k") == 120
    shown = {row[0]: row[1] for row in session.sql(f"SHOW TBLPROPERTIES {SHOP}.spoilt").collect()}
    message = r"InvalidStatus: the status of table my-shop\.spoilt cannot be understood: status\.snapshot\.committedAt"
    assert shown["readable"] == "false" and re.search(message, shown["reason"])
    for statement in (
        "SELECT * FROM {t}", "SELECT * FROM {t} VERSION AS OF 1", "SELECT * FROM {t}.snapshots", "SHOW PARTITIONS {t}",
        "INSERT INTO {t} VALUES (1, 1)", "DELETE FROM {t} WHERE v = 0", "SELECT * FROM {t}.files",
    ):  # fmt: skip
        with pytest.raises((AnalysisException, SparkRuntimeException), match=message):
            session.sql(statement.format(t=f"{SHOP}.spoilt")).collect()
    session.sql(f"INSERT OVERWRITE {SHOP}.spoilt VALUES (7, 7)")
    assert value(session, f"SELECT sum(v) FROM {SHOP}.spoilt") == 7
    tables.change("ct", "spoilt", history=[{**newest, "committedAt": "2026-11-21T04:00:00+19:00"}])
    session.sql(f"DROP TABLE {SHOP}.spoilt")
    assert not session.catalog.tableExists(f"{SHOP}.spoilt")
