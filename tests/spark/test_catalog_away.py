"""The catalog while the API server is away, or has just begun: queries wait for it, and say so when it stays away."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from .cluster_tables import CATALOG_CLASS

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: away
clusters: [{{name: away, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: away, context: {{cluster: away, user: away}}}}]
users: [{{name: away, user: {{token: x}}}}]
"""
ORDERS = {
    "metadata": {"name": "orders", "namespace": "shop", "uid": "c0ffee00-0000-4000-8000-000000000000"},
    "spec": {"columns": [{"name": "k", "type": "bigint"}], "bucketedBy": ["k"], "buckets": 4, "replicas": 1},
}
TABLES = {"metadata": {}, "items": [ORDERS]}


class ApiServer(ThreadingHTTPServer):
    """Answers lists of tables, and ``/readyz``, with these statuses one after the other; then with 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.lists: list[int] = []
        self.readiness: list[int] = []
        self.forbidden = "no such namespace"


class Answers(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: ApiServer

    def do_GET(self) -> None:
        statuses = self.server.readiness if self.path == "/readyz" else self.server.lists
        body = json.dumps(TABLES).encode()
        is_forbidden = f"/namespaces/{self.server.forbidden}/" in f"{self.path}/"
        self.send_response(403 if is_forbidden else statuses.pop(0) if statuses else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """What failed is said by the test."""


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server on a port of its own."""
    with ApiServer() as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield one
        one.shutdown()


@pytest.fixture
def session(application: SparkSession, server: ApiServer, tmp_path: Path) -> SparkSession:
    """A session whose catalog ``away`` asks that server."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(port=server.server_address[1]))
    session = application.newSession()
    session.conf.set("spark.sql.catalog.away", CATALOG_CLASS)
    session.conf.set("spark.sql.catalog.away.kubeconfig", str(kubeconfig))
    return session


def tables(session: SparkSession) -> list[str]:
    return [row["tableName"] for row in session.sql("SHOW TABLES IN away.shop").collect()]


@pytest.mark.parametrize(
    ("lists", "readiness"),
    [
        pytest.param([503, 429, 500], [], id="away"),
        pytest.param([403, 403], [500, 500], id="roles not read yet"),
        pytest.param([403], [], id="roles read between the two questions"),
    ],
)
def test_a_query_waits(session: SparkSession, server: ApiServer, lists: list[int], readiness: list[int]) -> None:
    """Its API server restarts, or is upgraded."""
    server.lists, server.readiness = lists, readiness
    assert tables(session) == ["orders"]
    assert server.lists == [] and server.readiness == []


def test_missing_rights_are_reported(session: SparkSession, server: ApiServer) -> None:
    """By an API server that reports that it is ready."""
    server.lists = [403] * 9
    with pytest.raises(AnalysisException, match=r"this account may not see or change it; check the name, or ask"):
        session.table("away.shop.orders")


def test_a_name_in_the_current_namespace_needs_no_other_rights(session: SparkSession, server: ApiServer) -> None:
    """`orders.snapshots` could also be a table of namespace `orders`, of which the account may not even ask."""
    server.forbidden = "orders"
    session.sql("USE away.shop")
    try:
        assert session.sql("SELECT * FROM orders.snapshots").collect() == []
        listed = "there is no table away.shop.orders.history; metadata tables of away.shop.orders: snapshots"
        right = "partitions, files, replicas; or ColocatedTable orders/history: this account may not see or change it"
        with pytest.raises(AnalysisException, match=f"^{listed}, {right}"):
            session.table("orders.history")
    finally:
        session.sql("USE spark_catalog.default")


def test_a_table_of_a_namespace_without_rights_stays_refused(session: SparkSession, server: ApiServer) -> None:
    """Neither may the account ask of tables of the current one. The error names the table as the statement does."""
    session.sql("USE away.shop")
    try:
        server.forbidden, server.lists = "sales", [403] * 9
        with pytest.raises(AnalysisException, match=r"^ColocatedTable sales/lines: this account may not see"):
            session.table("sales.lines")
    finally:
        session.sql("USE spark_catalog.default")


def test_clients_may_begin_in_default_without_rights_there(session: SparkSession, server: ApiServer) -> None:
    """As dbt's does, by USE; every cluster has that namespace."""
    server.forbidden = "default"
    try:
        session.sql("USE away.default")
        with pytest.raises(AnalysisException, match="tables of namespace default: this account may not see"):
            session.sql("SHOW TABLES")
    finally:
        session.sql("USE spark_catalog.default")


@pytest.mark.deep
@pytest.mark.parametrize(("is_up", "said"), [(False, "gave no answer"), (True, "answered 503")], ids=["gone", "not up"])
def test_an_api_server_that_stays_away_is_reported(
    session: SparkSession, server: ApiServer, is_up: bool, said: str
) -> None:
    """After the time that the message names."""
    if is_up:
        server.lists = [503] * 1000
    else:
        server.shutdown()
        server.server_close()
    with pytest.raises(AnalysisException, match=rf"{said}: .*; asked for 25 s; repeat it when the API server is back"):
        tables(session)
