"""A ``FakeCatalog``'s objects as an API server gives them to the catalog in Java, and commits; of what is there now."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pyspark.sql import DataFrame, SparkSession

from colocation import spark as library
from colocation.model.names import config_map_of, group_key
from colocation.spark import CompactionResult, DropResult, LoadResult
from colocation.spark.configuration import CATALOG
from tests.unit.spark.fake_catalog import NAMESPACE, FakeCatalog

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: fake, cluster: {{server: "{url}"}}}}]
users: [{{name: fake, user: {{token: any}}}}]
contexts: [{{name: fake, context: {{cluster: fake, user: fake}}}}]
current-context: fake
"""
KUBECONFIG_KEY = "spark.sql.catalog.colocation.kubeconfig"
OWN_API = ["apis", "colocation.dev", "v1alpha1", "namespaces"]


class CatalogServer:
    """Serves the objects of one catalog at a time: sessions of one test see one cluster."""

    def __init__(self, folder: Path) -> None:
        self.catalog = FakeCatalog()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                found = outer.answer(self.path)
                self._send(200, found) if found is not None else self._send(404, {"message": "not found"})

            def do_PATCH(self) -> None:
                patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name = self.path.split("/")[-2]
                done = outer.catalog.patch_status(name, patch)
                self._send(200, outer.table(name)) if done else self._send(409, {"message": "was changed"})

            def _send(self, status: int, answer: dict[str, Any]) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Requests are not worth a line."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(KUBECONFIG.format(url=f"http://127.0.0.1:{self.http.server_port}"))

    def answer(self, target: str) -> dict[str, Any] | None:
        """The object or list at a path; None when there is none."""
        address = urlsplit(target)
        parts = address.path.strip("/").split("/")
        if parts[:4] == OWN_API and len(parts) == 6:
            name = parse_qs(address.query).get("fieldSelector", [""])[0].removeprefix("metadata.name=")
            items = self._tables(parts[4]) if parts[5] == "colocatedtables" else self._groups(parts[4])
            chosen = [item for item in items if not name or item["metadata"]["name"] == name]
            return {"metadata": {"resourceVersion": "1"}, "items": chosen}
        if parts[:4] == OWN_API and len(parts) == 7:
            items = self._tables(parts[4]) if parts[5] == "colocatedtables" else self._groups(parts[4])
            return next((item for item in items if item["metadata"]["name"] == parts[6]), None)
        if parts[:3] == ["api", "v1", "namespaces"] and len(parts) == 6:
            return self._config_map(parts[3], parts[5])
        return {} if parts == ["api", "v1", "namespaces", NAMESPACE] else None

    def table(self, name: str) -> dict[str, Any]:
        """A ColocatedTable of the one namespace."""
        return next(item for item in self._tables(NAMESPACE) if item["metadata"]["name"] == name)

    def _tables(self, namespace: str) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"namespace": NAMESPACE, "name": name, "uid": table.uid,
                             "resourceVersion": table.resource_version},
                "spec": table.spec.to_json_dict(), "status": table.status.to_json_dict(),
            }
            for name, table in self.catalog.tables.items() if namespace == NAMESPACE
        ]  # fmt: skip

    def _groups(self, namespace: str) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"namespace": namespace, "name": group.name},
                "spec": group.spec.to_json_dict(), "status": group.status.to_json_dict(),
            }
            for group in self.catalog.groups.values() if group.namespace == namespace
        ]  # fmt: skip

    def _config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        references = {config_map_of(namespace, group_key(namespace, one)) for one in self.catalog.groups}
        return {"data": {"agents.json": json.dumps(self.catalog.get_agents())}} if name in references else None


@contextmanager
def running(folder: Path) -> Iterator[CatalogServer]:
    """The server, in a thread."""
    server = CatalogServer(folder)
    _RUNNING[str(server.kubeconfig)] = server
    thread = threading.Thread(target=server.http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


_RUNNING: dict[str, CatalogServer] = {}
"""By the kubeconfig that sessions have."""


def serve(spark: SparkSession, catalog: FakeCatalog) -> None:
    """What the session's catalog shows from now on."""
    _RUNNING[spark.conf.get(KUBECONFIG_KEY)].catalog = catalog


def show(spark: SparkSession, catalog: FakeCatalog) -> None:
    """Serve these tables to the session, and make their catalog the current one: ``shop.<table>`` is one of them."""
    serve(spark, catalog)
    spark.catalog.setCurrentCatalog(CATALOG)


def properties(spark: SparkSession, table: str) -> dict[str, str]:
    """What ``SHOW TBLPROPERTIES`` prints of a table of the catalog."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {CATALOG}.{NAMESPACE}.{table}").collect()
    return {row["key"]: row["value"] for row in rows}


def load(rows: DataFrame, table: str, catalog: FakeCatalog, **options: Any) -> LoadResult:
    """The library's, of this catalog."""
    serve(rows.sparkSession, catalog)
    return library.load(rows, table, **options)


def compact(spark: SparkSession, table: str, catalog: FakeCatalog, **options: Any) -> CompactionResult:
    """The library's, of this catalog."""
    serve(spark, catalog)
    return library.compact(spark, table, **options)


def drop_partitions(
    spark: SparkSession, table: str, partitions: list[dict[str, Any]], catalog: FakeCatalog
) -> DropResult:
    """The library's, of this catalog."""
    serve(spark, catalog)
    return library.drop_partitions(spark, table, partitions)
