"""The catalog by every way into Spark: spark-sql, Scala, Thrift (JDBC) and Spark Connect; nothing of it is in Hive."""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession
from pyspark.sql.connect.functions import bucket

from colocation.spark import explain, explain_json
from tests.integration.control_plane import ControlPlane
from tests.spark.class_archive import SPARK_HOME
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.judging_operator import judged_tables
from tests.spark.loopback import LoopbackAgents
from tests.spark.sql_clients import (
    Client,
    Row,
    Servers,
    SqlError,
    client_conf,
    run_shell,
)
from tests.spark.sql_script import FOREIGN, FOREIGN_STATE, LAYOUT, SCRIPT, Step

pytestmark = pytest.mark.spark

NAMESPACE = "clients"
IN = f"{CATALOG}.{NAMESPACE}"
JOIN = f"SELECT count(*) FROM {IN}.orders a JOIN {IN}.lines b ON a.k = b.k"
CONNECT_CLIENT = Path(__file__).with_name("ConnectQuery.java")
OPENED = ("java.lang", "java.nio", "java.util", "sun.nio.ch")


@pytest.fixture(scope="module")
def joined(application: SparkSession, agents: LoopbackAgents, plane: ControlPlane) -> Iterator[ClusterTables]:
    """Two tables whose join has 70 rows."""
    with judged_tables(plane, agents, NAMESPACE, MAP) as tables:
        tables.add_table("orders", application.sql("SELECT id AS k FROM range(100)"), ["k"])
        tables.add_table("lines", application.sql("SELECT id + 30 AS k FROM range(100)"), ["k"])
        yield tables


def test_one_answer(joined: ClusterTables, servers: Servers) -> None:
    """Scala's session, Connect's client and a JDBC client of one driver get the answer; Hive has no table of ours."""
    assert servers.first_value(JOIN) == "70"
    for client in (servers.thrift(), servers.connect()):
        assert client.run(JOIN) == [("70",)]
        assert (NAMESPACE,) not in client.run("SHOW NAMESPACES IN spark_catalog")
        client.close()


@pytest.mark.deep
def test_one_answer_in_java(joined: ClusterTables, servers: Servers) -> None:
    """By Spark Connect's JVM client."""
    assert connect_in_java(servers.connect_port, JOIN) == "70"


def connect_in_java(port: int, statement: str) -> str:
    """The statement's answer by Spark Connect's JVM client, whose classes stand in the place of Spark's own."""
    jars = [
        str(jar) for jar in (SPARK_HOME / "jars").glob("*.jar")
        if not jar.name.startswith(("spark-sql_", "spark-connect_"))
    ]  # fmt: skip
    path = os.pathsep.join([str(SPARK_HOME / "jars" / "connect-repl" / "*"), *jars])
    opened = [option for name in OPENED for option in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
    command = ["java", *opened, "-cp", path, str(CONNECT_CLIENT), f"sc://127.0.0.1:{port}", statement]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert found, done.stderr[-3000:]
    return found[0].removeprefix("FOUND ")


@pytest.mark.deep
@pytest.mark.parametrize("way", ["thrift", "connect"])
def test_one_script(way: str, servers: Servers, plane: ControlPlane, agents: LoopbackAgents) -> None:
    """Each statement's rows are DuckDB's, each error has its words; Hive's tables of the same names are untouched."""
    texts = Texts(way)
    client: Client = servers.thrift() if way == "thrift" else servers.connect()
    with judged_tables(plane, agents, way, MAP, refuse=refused_buckets), closing(client):
        made = [answer(client, statement) for statement in texts.foreign]
        before = [answer(client, statement) for statement in texts.state]
        files = files_below(servers.warehouse)
        answers = [answer(client, statement) for statement in texts.script]
        assert files == files_below(servers.warehouse) and files
        after = [answer(client, statement) for statement in texts.state]
    check(made, before, answers, after)


@pytest.mark.deep
def test_one_script_in_the_shell(plane: ControlPlane, agents: LoopbackAgents, tmp_path: Path) -> None:
    """The same by spark-sql."""
    texts = Texts("shell")
    with judged_tables(plane, agents, "shell", MAP, refuse=refused_buckets):
        statements = [*texts.foreign, *texts.state, *texts.script, *texts.state]
        answers = iter(run_shell(tmp_path, client_conf(agents, plane), statements))
    parts = [list(islice(answers, len(part))) for part in (texts.foreign, texts.state, texts.script, texts.state)]
    check(*parts)


def test_a_failed_write_in_spark_connect(joined: ClusterTables, servers: Servers) -> None:
    """It is PySpark's exception, with the reason first and as its condition."""
    with closing(servers.connect()) as client:
        client.run(f"CREATE TABLE {IN}.strict (k BIGINT NOT NULL) {LAYOUT}")
        with pytest.raises(SparkRuntimeException, match=r"^SchemaMismatch: column k holds NULL") as refused:
            client.session.sql(f"INSERT INTO {IN}.strict SELECT NULLIF(id, 3) FROM range(9)").collect()
        assert refused.value.getCondition() == "SchemaMismatch"


def test_explanations(joined: ClusterTables, servers: Servers) -> None:
    """Why a join shuffles, by JDBC and by Spark Connect; nothing runs, and a DataFrame's name for that goes."""
    join = f"SELECT * FROM {IN}.orders a JOIN {IN}.lines b ON a.k = b.k"
    head = f"SortMergeJoin Inner (a.k = b.k) of {IN}.orders, {IN}.lines"
    call = f"CALL {CATALOG}.system.explain('{join}')"
    off = "SET spark.colocation.disableColocateJoin=true"
    no_broadcast = "SET spark.sql.autoBroadcastJoinThreshold=-1"
    with closing(servers.thrift()) as client:
        client.run(no_broadcast)
        assert client.run(call) == [(head, "true", "")]
        client.run(off)
        assert client.run(call) == [(head, "false", "Session disabled")]
    with closing(servers.connect()) as client:
        session = client.session
        session.sql(no_broadcast)
        for query in (join, session.sql(join)):
            verdicts = explain_json(query, session, CATALOG)
            assert [one["colocate"] for one in verdicts["joins"]] == [True]
            assert f"{head}: colocate: true" in explain(query, session, CATALOG)
        session.sql(off)
        assert f"{head}: colocate: false, reason: Session disabled" in explain(session.sql(join), catalog=CATALOG)
        assert session.sql("SHOW VIEWS").collect() == []


class Texts:
    """The statements, for one namespace."""

    def __init__(self, namespace: str) -> None:
        names = {"c": CATALOG, "n": namespace}
        self.foreign = [statement.format(**names) for statement in FOREIGN]
        self.state = [statement.format(**names) for statement in FOREIGN_STATE]
        self.script = [step.sql.format(**names) for step in SCRIPT]


def refused_buckets(spec: dict[str, Any]) -> str:
    return "" if spec.get("buckets", 6) == 6 else f"group sales has 6 buckets, the table {spec['buckets']}"


def answer(client: Client, statement: str) -> list[Row] | SqlError:
    try:
        return client.run(statement)
    except SqlError as error:
        return error


def files_below(folder: Path) -> dict[str, str]:
    """Digests of the files that Hive's tables consist of."""
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


Answers = list[list[Row] | SqlError]


def check(made: Answers, before: Answers, answers: Answers, after: Answers) -> None:
    """Everything is as the script expects it."""
    assert [found for found in made if found != []] == []
    with duckdb.connect() as database:
        problems = [
            f"{step.sql}\n  found {found!r}\n  expected {expected}"
            for step, found in zip(SCRIPT, answers, strict=True)
            if (expected := differs(step, found, database))
        ]
    assert not problems, "\n".join(problems)
    assert before == after and all(isinstance(found, list) for found in before)


def differs(step: Step, found: list[Row] | SqlError, database: duckdb.DuckDBPyConnection) -> str:
    """What was expected instead; empty where it is as expected."""
    if step.error is not None or isinstance(found, SqlError):
        fits = step.error is not None and isinstance(found, SqlError) and re.search(step.error, str(found))
        return "" if fits else f"error {step.error}"
    shown = {value for row in found for value in row}
    other = step.other if step.other is not None or step.rows is not None else step.sql
    if step.names is not None:
        database.execute(other if step.other else "SELECT 1")
        named = all(any(name in str(value) for value in shown) for name in step.names)
        return "" if named and not shown & set(step.hides) else f"{step.names} and none of {step.hides}"
    rows = list(step.rows) if step.rows is not None else duckdb_rows(database, other or "")
    return "" if sorted(found, key=repr) == sorted(rows, key=repr) else repr(rows)


def duckdb_rows(database: duckdb.DuckDBPyConnection, statement: str) -> list[Row]:
    """Rows of a query; none of a change."""
    found = database.execute(statement)
    if not statement.lstrip().upper().startswith("SELECT"):
        return []
    return [tuple(None if value is None else str(value) for value in row) for row in found.fetchall()]


def test_hives_table_of_the_same_name(joined: ClusterTables, servers: Servers) -> None:
    """``createOrReplace`` and DROP leave it as it was."""
    with closing(servers.connect()) as client:
        client.run("CREATE DATABASE spark_catalog.clients")
        client.run("CREATE TABLE spark_catalog.clients.replaced STORED AS PARQUET AS SELECT id AS v FROM range(42)")
        files = files_below(servers.warehouse)
        session: Any = client.session
        for rows in (3, 5):
            writer = session.range(rows).selectExpr("id AS k").writeTo(f"{IN}.replaced")
            writer.partitionedBy(bucket(6, "k")).tableProperty("colocate_with", "sales").createOrReplace()
            assert client.run(f"SELECT count(*) FROM {IN}.replaced") == [(str(rows),)]
        client.run(f"DROP TABLE {IN}.replaced")
        assert client.run("SELECT count(*), sum(v) FROM spark_catalog.clients.replaced") == [("42", "861")]
        assert files == files_below(servers.warehouse)
        client.run("DROP DATABASE spark_catalog.clients CASCADE")
        assert client.run(f"SELECT count(*) FROM {IN}.orders") == [("100",)]
