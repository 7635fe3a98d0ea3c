"""What the page asks the API server, how often, and what it shows where it may not ask."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from colocation.cli.cluster import Cluster
from colocation.cli.errors import CommandFailed
from colocation.cli.ui import collector
from colocation.cli.ui.collector import Collector
from colocation.cli.ui.content import group_page, overview
from tests.unit.cli.conftest import KUBECONFIG, group_object, table_object

EVENT = {
    "metadata": {"name": "one", "namespace": "shop"},
    "involvedObject": {"kind": "ColocationGroup", "namespace": "shop", "name": "sales"},
    "reason": "Stable", "message": "all complete", "type": "Normal", "lastTimestamp": "2026-11-21T00:00:00Z",
}  # fmt: skip
LISTS = {"colocationgroups": [group_object()], "colocatedtables": [table_object()], "events": [EVENT]}


class ApiServer(ThreadingHTTPServer):
    """Lists of objects by the last word of the path; everything else is forbidden."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Lists)
        self.lists = dict(LISTS)
        self.asked: Counter[str] = Counter()


class _Lists(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        kind = self.path.split("?")[0].split("/")[-1]
        self.server.asked[kind] += 1
        found = self.server.lists.get(kind)
        body = json.dumps({"kind": "List", "metadata": {}, "items": found or []}).encode()
        self.send_response(403 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def asking(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Collector:
    """By a user who may list groups, tables and events, and no more; one round of questions an hour."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG % api.server_port)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(collector, "LEAST_SECONDS", 3600)
    return Collector(Cluster(None, None), "colocation-system", everywhere=False)


def test_who_may_not_ask_the_operator_sees_groups_tables_and_events(asking: Collector) -> None:
    """And reads at the top what is missing."""
    found = asking.findings()
    seen = overview(found)
    assert ([one["name"] for one in seen["groups"]], [one["name"] for one in seen["tables"]]) == (["sales"], ["orders"])
    assert [one["message"] for one in seen["events"]] == ["all complete"]
    assert seen["problems"] == [
        "nodes, copies, plans and details of replicas cannot be shown: you have no right to read them"
    ]
    page = group_page(found, ("shop", "sales"))
    assert page is not None
    assert [row["node"] for row in page["rows"]] == ["node-1", "node-2"]


def test_many_questions_of_the_page_are_one_round(asking: Collector, api: ApiServer) -> None:
    """However many tabs are open."""
    assert asking.findings() is asking.findings()
    assert api.asked["colocationgroups"] == 1


def test_without_the_groups_there_is_nothing_to_show(asking: Collector, api: ApiServer) -> None:
    """The page shows why."""
    del api.lists["colocationgroups"]
    with pytest.raises(CommandFailed, match="the API server does not list the groups: you have no right to read them"):
        asking.findings()
