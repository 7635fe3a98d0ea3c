"""REPLACE TABLE where the new rows' columns are none that files of the old ones could have.

The operator is a thread that judges spec and columns; the agents and the API server are real.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from colocation.model.names import ANNOTATION_REPLACES
from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, ClusterTables, make_table
from tests.spark.conftest import MAP, NODES
from tests.spark.judging_operator import judged_tables
from tests.spark.loopback import LoopbackAgents, on_nth_upload

pytestmark = pytest.mark.spark

NAMESPACE = "replaced"
IN = f"{CATALOG}.{NAMESPACE}"


class Meanwhile:
    """What happens while the operator judges a spec of these columns, and what it reports against it."""

    def __init__(self) -> None:
        self.columns: set[str] = set()
        self.happens: Callable[[], str] = lambda: ""

    def __call__(self, spec: dict[str, Any]) -> str:
        is_meant = {column["name"] for column in spec["columns"]} == self.columns
        return self.happens() if is_meant else ""


@pytest.fixture(scope="module")
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture(scope="module")
def tables(agents: LoopbackAgents, plane: ControlPlane, meanwhile: Meanwhile) -> Iterator[ClusterTables]:
    with judged_tables(plane, agents, NAMESPACE, MAP, meanwhile) as made:
        yield made


@pytest.fixture
def session(application: SparkSession, tables: ClusterTables) -> SparkSession:
    return tables.configure(application.newSession())


@pytest.fixture
def filled(session: SparkSession, tables: ClusterTables, request: pytest.FixtureRequest) -> str:
    """The name of a table with a renamed column and three rows; its files are older than the name."""
    name: str = request.node.name.partition("[")[0].removeprefix("test_").replace("_", "")
    make_table(session, f"{IN}.{name}", "k BIGINT, v BIGINT")
    session.sql(f"INSERT INTO {IN}.{name} VALUES (1, 10), (2, 20), (3, 30)")
    session.sql(f"ALTER TABLE {IN}.{name} RENAME COLUMN v TO w")
    return name


def rows(session: SparkSession, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.sql(f"SELECT {columns} FROM {IN}.{name}").collect())


def is_as_it_was(session: SparkSession, tables: ClusterTables, name: str) -> bool:
    """Definition, rows, and that it takes more of them."""
    found = tables.get(name)
    assert [column["name"] for column in found["spec"]["columns"]] == ["k", "w"]
    assert ANNOTATION_REPLACES not in found["metadata"]["annotations"] and found["status"]["accepted"]
    assert rows(session, name, "k, w") == [(1, 10), (2, 20), (3, 30)]
    session.sql(f"INSERT INTO {IN}.{name} VALUES (4, 40)")
    return rows(session, name, "k, w")[3:] == [(4, 40)]


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param("k", id="a column goes"),
        pytest.param("k, 'text' AS note", id="one goes and one comes"),
        pytest.param("k, w, w + 1 AS more", id="one comes"),
    ],
)
def test_a_replaced_table_goes_on_as_any_other(
    session: SparkSession, tables: ClusterTables, filled: str, columns: str
) -> None:
    """It is altered and written to at once, also before the operator has seen the new rows."""
    expected = sorted(tuple(row) for row in session.sql(f"SELECT {columns} FROM {IN}.{filled}").collect())
    session.sql(f"CREATE OR REPLACE TABLE {IN}.{filled} AS SELECT {columns} FROM {IN}.{filled}")
    session.sql(f"ALTER TABLE {IN}.{filled} ADD COLUMN added STRING")
    assert rows(session, filled) == [(*row, None) for row in expected]
    session.sql(f"INSERT INTO {IN}.{filled} (k, added) VALUES (7, 'x')")
    assert len(rows(session, filled)) == len(expected) + 1
    with pytest.raises(AnalysisException, match="DROP COLUMN"):
        session.sql(f"ALTER TABLE {IN}.{filled} DROP COLUMN added")
    assert session.sql(f"SELECT * FROM {IN}.{filled} VERSION AS OF 1").columns == ["k", "v"]
    session.sql(f"DROP TABLE {IN}.{filled}")


def test_a_column_becomes_not_null(session: SparkSession, tables: ClusterTables, filled: str) -> None:
    """By the DataFrame API, too, where a table is overwritten by one of its other columns."""
    session.sql(f"REPLACE TABLE {IN}.{filled} (k BIGINT, w BIGINT NOT NULL)")
    assert [column["nullable"] for column in tables.get(filled)["spec"]["columns"]] == [True, False]
    with pytest.raises(Exception, match="NULL"):
        session.sql(f"INSERT INTO {IN}.{filled} VALUES (1, NULL)")
    session.sql("SELECT 1L AS k, 'x' AS note").write.mode("overwrite").saveAsTable(f"{IN}.{filled}")
    assert rows(session, filled, "k, note") == [(1, "x")]


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_replace_that_fails_changes_nothing(
    session: SparkSession, tables: ClusterTables, filled: str, agents: LoopbackAgents, meanwhile: Meanwhile,
    is_refused: bool,
) -> None:
    """Refused by the operator, or since no agent is there once the definition is changed."""

    def all_agents_go() -> str:
        for node in NODES:
            agents.stop(node)
        return ""

    before = tables.get(filled)["spec"]
    meanwhile.columns, meanwhile.happens = {"k", "note"}, (lambda: "not today") if is_refused else all_agents_go
    try:
        with pytest.raises(Exception, match="not today" if is_refused else "ReplicasMissing"):
            session.sql(f"REPLACE TABLE {IN}.{filled} AS SELECT k, 'text' AS note FROM {IN}.{filled}")
    finally:
        meanwhile.happens = lambda: ""
        if not is_refused:
            for node in NODES:
                agents.start_again(node)
    assert tables.get(filled)["spec"] == before
    assert is_as_it_was(session, tables, filled)
    session.sql(f"DROP TABLE {IN}.{filled}")


@pytest.mark.parametrize("when", ["while rows are written", "while the operator judges"])
def test_a_definition_of_others_is_not_replaced(
    session: SparkSession, tables: ClusterTables, filled: str, agents: LoopbackAgents, meanwhile: Meanwhile, when: str
) -> None:
    """The new rows were written for the definition of before. The others' column stays, and so do the table's rows."""

    def add_column() -> None:
        columns = [*tables.get(filled)["spec"]["columns"], {"name": "theirs", "type": "int"}]
        tables.change_spec("ct", filled, columns=columns)

    def is_judged() -> str:
        add_column()
        return ""

    if when == "while rows are written":
        on_nth_upload(agents, 1, add_column)
    else:
        meanwhile.columns, meanwhile.happens = {"k", "note"}, is_judged
    try:
        with pytest.raises(Exception, match="was changed by someone else meanwhile; nothing was replaced, start again"):
            session.sql(f"REPLACE TABLE {IN}.{filled} AS SELECT k, 'text' AS note FROM {IN}.{filled}")
    finally:
        agents.on_access, meanwhile.happens = (lambda access: None), (lambda: "")
    assert [column["name"] for column in tables.get(filled)["spec"]["columns"]][2:] == ["theirs"]
    assert rows(session, filled, "k, w") == [(1, 10), (2, 20), (3, 30)]
    session.sql(f"DROP TABLE {IN}.{filled}")


def interrupt(tables: ClusterTables, name: str) -> None:
    """Leave the table as a driver does that dies before its commit: the columns are those of other rows."""
    found = tables.get(name)
    columns = [found["spec"]["columns"][0], {"name": "note", "type": "string"}]
    annotations = {ANNOTATION_REPLACES: found["status"]["snapshot"]["manifest"]}
    patch = {"metadata": {"annotations": annotations}, "spec": {"columns": columns}}
    plane = tables.plane
    done = plane.kubectl("patch", "ct", name, "-n", tables.namespace, "--type=merge", "-p", json.dumps(patch))
    assert done.returncode == 0, done.stderr
    wait = "--for=jsonpath={.status.observedGeneration}=" + str(tables.get(name)["metadata"]["generation"])
    done = plane.kubectl("wait", "ct", name, "-n", tables.namespace, wait, "--timeout=30s")
    assert done.returncode == 0, done.stderr


def test_an_interrupted_replace_is_repeated(session: SparkSession, tables: ClusterTables, filled: str) -> None:
    """Until then queries find the rows of before, under the names that they had."""
    interrupt(tables, filled)
    assert tables.get(filled)["status"]["accepted"]
    assert rows(session, filled, "k, w") == [(1, 10), (2, 20), (3, 30)]
    with pytest.raises(Exception, match=r"its files do not fit the table's columns"):
        session.sql(f"INSERT INTO {IN}.{filled} VALUES (4, 'x')")
    session.sql(f"CREATE OR REPLACE TABLE {IN}.{filled} AS SELECT k, 'text' AS note FROM {IN}.{filled} WHERE w > 10")
    assert rows(session, filled) == [(2, "text"), (3, "text")]
    session.sql(f"ALTER TABLE {IN}.{filled} RENAME COLUMN note TO remark")
    assert rows(session, filled, "k, remark") == [(2, "text"), (3, "text")]


def test_an_interrupted_replace_is_taken_back(session: SparkSession, tables: ClusterTables, filled: str) -> None:
    """As the table's condition reports."""
    interrupt(tables, filled)
    columns = tables.get(filled)["status"]["columns"]
    tables.change_spec("ct", filled, columns=columns)
    tables.annotate("ct", filled, **{ANNOTATION_REPLACES: None})  # type: ignore[arg-type]
    session.sql(f"ALTER TABLE {IN}.{filled} SET TBLPROPERTIES ('comment' = 'judged')")
    assert is_as_it_was(session, tables, filled)


def test_rows_of_others_take_the_place_first(session: SparkSession, tables: ClusterTables, filled: str) -> None:
    """TRUNCATE leaves a table of the new definition: what came later is not taken back."""
    interrupt(tables, filled)
    session.sql(f"TRUNCATE TABLE {IN}.{filled}")
    assert rows(session, filled) == []
    session.sql(f"INSERT INTO {IN}.{filled} VALUES (4, 'x')")
    session.sql(f"ALTER TABLE {IN}.{filled} ADD COLUMN added STRING")
    assert rows(session, filled) == [(4, "x", None)]
