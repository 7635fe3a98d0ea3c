"""CREATE, ALTER and DROP TABLE through the catalog: what they write, and how they wait for the operator's judgement.

The operator is a thread that judges as the test asks; its real judgement of a spec is tested with the operator.
"""

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, CATALOG_KEY, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.judging_operator import Operator, running
from tests.spark.loopback import LoopbackAgents

pytestmark = pytest.mark.spark

NAMESPACE = "made"
ORDERS = f"{CATALOG}.{NAMESPACE}.orders"
CREATE = f"""CREATE TABLE {ORDERS} (k BIGINT, price DECIMAL(15,2), tags ARRAY<STRING>, dt DATE) PARTITIONED BY (dt)
CLUSTERED BY (k) SORTED BY (price) INTO 6 BUCKETS STORED AS PARQUET
TBLPROPERTIES ('colocate_with'='sales', 'replication_num'='2')"""


@pytest.fixture(scope="module")
def tables(agents: LoopbackAgents, plane: ControlPlane) -> ClusterTables:
    made = ClusterTables(plane, agents, NAMESPACE)
    made.add_group("sales", ["bigint"], MAP)
    return made


@pytest.fixture
def operator(tables: ClusterTables) -> Iterator[Operator]:
    operator = Operator(tables)
    with running(operator):
        yield operator
    tables.plane.kubectl("delete", "ct", "--all", "-n", NAMESPACE)


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    return tables.configure(application.newSession())


def test_a_table_is_made_changed_and_dropped(session: SparkSession, operator: Operator) -> None:
    """The object names what the statements said; queries see the table at once."""
    session.sql(CREATE)
    [item] = operator.objects()
    assert item["spec"] | {"columns": None} == item["spec"] | {
        "columns": None, "colocateWith": "sales", "bucketedBy": ["k"], "partitionedBy": ["dt"], "sortedBy": ["price"],
        "buckets": 6, "replicas": 2,
    }  # fmt: skip
    assert [(column["name"], column["type"]) for column in item["spec"]["columns"]] == [
        ("k", "bigint"), ("price", "decimal(15,2)"), ("tags", "array<string>"), ("dt", "date"),
    ]  # fmt: skip
    assert session.table(ORDERS).count() == 0
    session.sql(f"CREATE TABLE IF NOT EXISTS {ORDERS} (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        session.sql(CREATE)
    session.sql(f"ALTER TABLE {ORDERS} ADD COLUMN note STRING")
    session.sql(f"ALTER TABLE {ORDERS} RENAME COLUMN note TO remark")
    assert session.table(ORDERS).columns == ["k", "price", "tags", "remark", "dt"]
    [item] = operator.objects()
    assert item["spec"]["columns"][-1] == {
        "name": "remark", "type": "string", "nullable": True, "storedAs": "note", "comment": "",
    }  # fmt: skip
    with pytest.raises(AnalysisException, match="column c has a DEFAULT"):
        session.sql(f"ALTER TABLE {ORDERS} ADD COLUMN c INT DEFAULT 3")
    with pytest.raises(AnalysisException, match=r"REPLACE WHERE .* only of whole partitions"):
        session.sql(f"INSERT INTO {ORDERS} REPLACE WHERE k = 1 SELECT * FROM {ORDERS}")
    session.sql(f"ALTER TABLE {ORDERS} SET TBLPROPERTIES ('recycle_after_seconds'='60')")
    assert operator.objects()[0]["spec"]["recycleAfterSeconds"] == 60
    session.sql(f"ALTER TABLE {ORDERS} SET TBLPROPERTIES ('colocate_with'='')")
    assert operator.objects()[0]["spec"]["colocateWith"] == ""
    session.sql(f"DROP TABLE {ORDERS}")
    assert operator.objects() == []
    session.sql(f"DROP TABLE IF EXISTS {ORDERS}")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.sql(f"DROP TABLE {ORDERS}")


def test_a_refused_table_is_gone(session: SparkSession, operator: Operator) -> None:
    """The error is the operator's words."""
    operator.refuse = lambda spec: "bucketKey is (decimal(15,2)) and should be (bigint)"
    with pytest.raises(AnalysisException, match=r"^SchemaMismatch: bucketKey is \(decimal\(15,2\)\) and should be"):
        session.sql(CREATE)
    assert operator.objects() == []


def test_a_refused_change_is_taken_back(session: SparkSession, operator: Operator) -> None:
    """The table stays as it was."""
    session.sql(CREATE)
    before = operator.objects()[0]["spec"]
    operator.refuse = lambda spec: "no" if spec["colocateWith"] == "other" else ""
    with pytest.raises(AnalysisException, match="SchemaMismatch: no"):
        session.sql(f"ALTER TABLE {ORDERS} SET TBLPROPERTIES ('colocate_with'='other')")
    assert operator.objects()[0]["spec"] == before


def test_an_operator_that_does_not_judge(session: SparkSession, tables: ClusterTables) -> None:
    """The wait is bounded, and the error states that the table is written; one made with its rows is gone again."""
    session.conf.set(f"{CATALOG_KEY}.acceptSeconds", "1")
    with pytest.raises(AnalysisException, match="the operator has neither accepted nor refused it within 1 s"):
        session.sql(CREATE)
    session.sql(f"DROP TABLE {ORDERS}")
    with pytest.raises(AnalysisException, match="the operator has neither accepted nor refused it within 1 s"):
        session.sql(f"CREATE TABLE {ORDERS} CLUSTERED BY (k) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='sales') "
                    "AS SELECT 1L AS k")  # fmt: skip
    assert not session.catalog.tableExists(ORDERS)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        pytest.param(f"CREATE TABLE {ORDERS} (k BIGINT)", r"CLUSTERED BY \(<columns>\) INTO <n>", id="no-buckets"),
        pytest.param(
            f"CREATE TABLE {ORDERS} (k BIGINT) USING orc CLUSTERED BY (k) INTO 2 BUCKETS", "leave USING out", id="orc"
        ),
        pytest.param(
            f"CREATE TABLE {ORDERS} (k BIGINT) CLUSTERED BY (k) INTO 2 BUCKETS LOCATION '/tmp/x'",
            "EXTERNAL, LOCATION or option path; nodes keep the files", id="location",
        ),
        pytest.param(
            f"CREATE TABLE {ORDERS} (k BIGINT) CLUSTERED BY (k) INTO 2 BUCKETS STORED AS ORC", "leave STORED AS out",
            id="stored-as",
        ),
        pytest.param(
            f"CREATE TABLE {ORDERS} (k BIGINT, i INTERVAL) CLUSTERED BY (k) INTO 2 BUCKETS",
            'Cannot use "INTERVAL" type in the table schema', id="interval",
        ),
        pytest.param(
            f"CREATE TABLE {ORDERS} (k BIGINT, d DATE) PARTITIONED BY (years(d))", "columns only", id="transform",
        ),
        pytest.param(
            f"CREATE TABLE {ORDERS} (k BIGINT) CLUSTERED BY (k) INTO 2 BUCKETS "
            "TBLPROPERTIES ('replication_num'='many')", "replication_num='many'; allowed", id="replicas",
        ),
        pytest.param(
            f"CREATE TABLE {CATALOG}.{NAMESPACE}.`_ab` (k BIGINT) CLUSTERED BY (k) INTO 2 BUCKETS "
            "TBLPROPERTIES ('replication_num'='2')",
            "its name is '_ab'; allowed", id="name",
        ),
        pytest.param(f"CREATE NAMESPACE {CATALOG}.other", "make it by `colocation init -n other`", id="namespace"),
    ],
)  # fmt: skip
def test_what_no_table_can_be(session: SparkSession, operator: Operator, statement: str, message: str) -> None:
    """Nothing is made, and the error names what is allowed."""
    with pytest.raises(AnalysisException, match=message):
        session.sql(statement)
    assert operator.objects() == []
