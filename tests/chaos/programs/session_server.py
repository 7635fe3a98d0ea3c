"""A Spark session that does what it is asked over HTTP, so that a query does not cost the start of a driver.

``POST /`` with ``{"do": …, "operation": n}`` answers ``{"ok": …}`` or ``{"error": "<type>: <text>"}``. Requests run
side by side. ``GET /`` answers the numbers of the operations that run. A session whose Spark is gone ends itself.
"""

import json
import os
import threading
import time
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from colocation.spark import compact, drop_partitions, load

PORT = 8765
MAX_ERROR_CHARACTERS = 3000
CATALOG = "colocation"
"""As the group's ``spark-defaults.conf`` calls it."""


class Session:
    """What can be asked for; each method's parameters are the request's fields."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._namespace = spark.conf.get("spark.colocation.namespace")
        spark.sql(f"USE {CATALOG}")

    def query(self, statement: str, pause_seconds: float = 0) -> dict[str, Any]:
        """The rows, and where its files lie: ``coloc://<namespace>/<folder>/<manifest>``, each once.

        ``pause_seconds``: between its planning, which chooses the snapshot, and its run.
        """
        frame = self._spark.sql(statement)
        time.sleep(pause_seconds)
        rows = [list(row) for row in frame.collect()]
        return {"rows": rows, "locations": locations(frame)}

    def load(self, table: str, select: str, mode: Any) -> dict[str, Any]:
        """Rows of a SELECT into a table."""
        return asdict(load(self._rows(table, select), table, namespace=self._namespace, mode=mode))

    def write(self, table: str, select: str, mode: str, key: str) -> dict[str, Any]:
        """The same by Spark's own way, once however often it is asked for."""
        writer = self._rows(table, select).writeTo(f"`{table}`").option("idempotency-key", key)
        if mode == "append":
            writer.append()
        elif mode == "overwrite":
            writer.overwrite(functions.lit(True))
        else:
            writer.overwritePartitions()
        return {}

    def insert(self, table: str, select: str, mode: str, key: str) -> dict[str, Any]:
        """The same in SQL, in a session of its own: how to overwrite, and the key, are settings of the session."""
        spark = self._spark.newSession()
        spark.conf.set("spark.colocation.write.idempotencyKey", key)
        how = "dynamic" if mode == "overwrite-partitions" else "static"
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", how)
        verb = "INSERT INTO" if mode == "append" else "INSERT OVERWRITE"
        target = f"{CATALOG}.`{self._namespace}`.`{table}`"
        spark.sql(f"{verb} {target} BY NAME {select}")
        return {}

    def change(self, table: str, statement: str, key: str) -> dict[str, Any]:
        """An UPDATE, DELETE or MERGE, once however often it is asked for."""
        spark = self._spark.newSession()
        spark.conf.set("spark.colocation.write.idempotencyKey", key)
        target = f"{CATALOG}.`{self._namespace}`.`{table}`"
        return spark.sql(statement.replace("{t}", target)).collect()[0].asDict()

    def _rows(self, table: str, select: str) -> DataFrame:
        """Columns that were added to the table since are NULL."""
        rows = self._spark.sql(select)
        for name in self._spark.table(f"`{table}`").columns:
            if name not in rows.columns:
                rows = rows.selectExpr("*", f"CAST(NULL AS STRING) AS `{name}`")
        return rows

    def compact(self, table: str) -> dict[str, Any]:
        return asdict(compact(self._spark, table, namespace=self._namespace))

    def delete(self, table: str, parts: list[int]) -> dict[str, Any]:
        """Partitions, by Spark's own way."""
        self._spark.sql(f"DELETE FROM `{table}` WHERE part IN ({', '.join(map(str, parts))})")
        return {}

    def drop_partitions(self, table: str, parts: list[int]) -> dict[str, Any]:
        chosen = [{"part": str(part)} for part in parts]
        return asdict(drop_partitions(self._spark, table, chosen, namespace=self._namespace))

    def is_alive(self) -> bool:
        """Whether there is a JVM with a Spark that was not stopped."""
        context: Any = self._spark.sparkContext
        try:
            return not context._jsc.sc().isStopped()
        except Exception:  # noqa: BLE001 (any answer but that one means that it is gone)
            return False


def locations(frame: DataFrame) -> list[str]:
    """The snapshots that a query has read."""
    return sorted({"/".join(file.split("/")[:5]) for file in frame.inputFiles() if file.startswith("coloc://")})


def said(error: Exception) -> str:
    """Its type, and its text without the stacks of Java."""
    lines = [line for line in str(error).splitlines() if not line.lstrip().startswith("at ")]
    return f"{type(error).__name__}: {' '.join(lines)}"[:MAX_ERROR_CHARACTERS]


def answer_of(session: Session, asked: dict[str, Any]) -> dict[str, Any]:
    """``{"ok": …}`` or ``{"error": …}``. A Spark that stops fails what runs in many words; they all mean the same."""
    try:
        return {"ok": getattr(session, asked.pop("do"))(**asked)}
    except Exception as error:  # noqa: BLE001 (whatever went wrong is the answer)
        return {"error": said(error) if session.is_alive() else f"SessionLost: {said(error)}"}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    session: Session
    running: set[int] = set()

    def do_GET(self) -> None:
        self._answer({"running": sorted(self.running)})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = asked.pop("operation")
        self.running.add(operation)
        try:
            answer = answer_of(self.session, asked)
        finally:
            self.running.discard(operation)
        self._answer(answer)
        if not self.session.is_alive():
            os._exit(1)

    def _answer(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer, default=str).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Spark's log is enough."""


def main() -> None:
    spark = SparkSession.builder.appName("chaos").getOrCreate()
    Handler.session = Session(spark)
    server = ThreadingHTTPServer(("", PORT), Handler)
    print(f"serving on port {PORT}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
