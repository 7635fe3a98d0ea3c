"""SQL by each way into Spark: the spark-sql shell, a Thrift server (JDBC), a Spark Connect server.

Values are text as Spark shows them; NULL is None.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from colocation.spark import spark_conf
from tests.integration.control_plane import ControlPlane, dying_with_us
from tests.spark.class_archive import SPARK_HOME
from tests.spark.cluster_tables import CATALOG_CLASS, CATALOG_KEY
from tests.spark.loopback import LoopbackAgents

CHECKOUT = Path(__file__).parents[2]
SHELL_SECONDS = 400
_SHELL_TOOK = "Time taken: "
Row = tuple[str | None, ...]


class SqlError(Exception):
    """A statement has failed; in the words that the client has."""


class Client(Protocol):
    """A session of its own."""

    def run(self, statement: str) -> list[Row]:
        """The statement's rows.

        Raises:
            SqlError: it has failed.
        """
        ...

    def close(self) -> None:
        """End the session, also under a statement that another thread waits for."""
        ...


class ThriftClient:
    """A JDBC connection; ``database``: what follows the address in its URL."""

    def __init__(self, java: Any, port: int, database: str = "default") -> None:
        java.java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver")
        self._java = java
        self._connection = java.java.sql.DriverManager.getConnection(
            f"jdbc:hive2://127.0.0.1:{port}/{database}", "user", ""
        )

    def schemas(self) -> list[Row]:
        """JDBC's getSchemas: names."""
        return [(row[0],) for row in self._rows(self._connection.getMetaData().getSchemas())]

    def tables(self, schema: str) -> list[Row]:
        """JDBC's getTables: schema, name, type."""
        found = self._connection.getMetaData().getTables(None, schema, "%", None)
        return [(row[1], row[2], row[3]) for row in self._rows(found)]

    def columns(self, schema: str, table: str) -> list[Row]:
        """JDBC's getColumns: name, type."""
        found = self._connection.getMetaData().getColumns(None, schema, table, "%")
        return [(row[3], row[5]) for row in self._rows(found)]

    def run(self, statement: str) -> list[Row]:
        try:
            running = self._connection.createStatement()
            rows = self._rows(running.getResultSet()) if running.execute(statement) else []
            running.close()
            return rows
        except Exception as error:
            raise SqlError(str(error)) from error

    @staticmethod
    def _rows(found: Any) -> list[Row]:
        columns = range(1, found.getMetaData().getColumnCount() + 1)
        rows = []
        while found.next():
            rows.append(tuple(found.getString(column) for column in columns))
        return rows

    def close(self) -> None:
        self._connection.close()


class ConnectClient:
    """A session of the Python client."""

    def __init__(self, port: int) -> None:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        self.session = ConnectSession.builder.remote(f"sc://127.0.0.1:{port}/;user_id=test").create()

    def run(self, statement: str) -> list[Row]:
        try:
            rows = self.session.sql(statement).collect()
        except Exception as error:
            raise SqlError(str(error)) from error
        return [tuple(_shown(value) for value in row) for row in rows]

    def close(self) -> None:
        self.session.stop()


def _shown(value: object) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def client_conf(agents: LoopbackAgents, plane: ControlPlane) -> dict[str, str]:
    """A user's configuration for the catalog."""
    return {
        CATALOG_KEY: CATALOG_CLASS,
        f"{CATALOG_KEY}.kubeconfig": str(plane.kubeconfig),
        "spark.colocation.tokenFile": str(agents.trust.token),
        "spark.colocation.caFile": str(agents.trust.certificate),
        "spark.colocation.retrySeconds": "2",
    }


@dataclass(frozen=True)
class Servers:
    """A running driver with both servers; ``java`` is a JVM that JDBC clients live in."""

    process: subprocess.Popen[str]
    warehouse: Path
    java: Any
    thrift_port: int
    connect_port: int

    def thrift(self, database: str = "default") -> ThriftClient:
        return ThriftClient(self.java, self.thrift_port, database)

    def connect(self) -> ConnectClient:
        return ConnectClient(self.connect_port)

    def first_value(self, statement: str) -> str:
        """What Scala's session of the driver answers to a statement."""
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()
        return _printed(self.process, "FOUND ")


@contextmanager
def running_servers(folder: Path, conf: dict[str, str], application: SparkSession) -> Iterator[Servers]:
    """Both servers; their metastore is in the folder."""
    command = [sys.executable, "-m", "tests.spark.sql_servers_program", str(folder), json.dumps(conf)]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    with (folder / "servers.log").open("w") as log:
        process = subprocess.Popen(
            dying_with_us(command), env=environment, cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    try:
        ports = json.loads(_printed(process, "READY "))
        yield Servers(process, folder / "warehouse", application.sparkContext._jvm, ports["thrift"], ports["connect"])
    finally:
        process.communicate(timeout=100)


def _printed(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line.removeprefix(word).strip()
    raise AssertionError(f"{process.args} has ended, see servers.log")


_MARK = "the end of a statement"


def run_shell(folder: Path, conf: dict[str, str], statements: list[str]) -> list[list[Row] | SqlError]:
    """Each statement's rows or error, as ``spark-sql -f`` prints them in one session with a metastore in the folder."""
    script, properties = folder / "script.sql", folder / "spark.conf"
    script.write_text("".join(f"{statement};\nSELECT '{_MARK}';\n" for statement in ["SELECT 1", *statements]))
    options = {
        **spark_conf(), **conf, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.hive.cli.errors.ignore": "true",
    }  # fmt: skip
    properties.write_text("".join(f"{key} {value}\n" for key, value in options.items()))
    command = [str(SPARK_HOME / "bin" / "spark-sql"), "--master", "local[2]", "--properties-file", str(properties)]
    done = subprocess.run(
        dying_with_us([*command, "-f", str(script)]), env={**os.environ, "SPARK_HOME": str(SPARK_HOME)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=SHELL_SECONDS, cwd=folder,
    )  # fmt: skip
    printed = done.stdout.split(f"{_MARK}\n")
    assert len(printed) == len(statements) + 2, done.stdout[-5000:]
    # What the shell prints at its start is before the first answer.
    return [_answer(part) for part in printed[1:-1]]


def _answer(printed: str) -> list[Row] | SqlError:
    """Rows end with a line that reports how long they took; before them is that line of the statement before."""
    *lines, last = printed.splitlines()
    if not last.startswith(_SHELL_TOOK) or not lines:
        return SqlError(printed)
    first = max((place + 1 for place, line in enumerate(lines) if line.startswith(_SHELL_TOOK)), default=0)
    return [tuple(_cell(value) for value in line.split("\t")) for line in lines[first:]]


def _cell(value: str) -> str | None:
    return None if value == "NULL" else value.strip()
