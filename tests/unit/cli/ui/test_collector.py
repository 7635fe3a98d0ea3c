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
from colocation.cli.ui import collector, queries
from colocation.cli.ui.collector import Collector
from colocation.cli.ui.content import group_page, overview
from tests.contract.cases import cases
from tests.unit.cli.conftest import KUBECONFIG, group_object, table_object

NO_RIGHT = "you have no right to read them; colocation doctor lists the roles"
EVENT = {
    "metadata": {"name": "one", "namespace": "shop"},
    "involvedObject": {"kind": "ColocationGroup", "namespace": "shop", "name": "sales"},
    "reason": "Stable", "message": "all complete", "type": "Normal", "lastTimestamp": "2026-11-21T00:00:00Z",
}  # fmt: skip
LISTS = {"colocationgroups": [group_object()], "colocatedtables": [table_object()], "events": [EVENT]}


NO_ROUTE = 'Get "https://10.0.0.2:10250/containerLogs/shop/one": dial tcp 10.0.0.2:10250: connect: no route to host'
"""The API server's words where the kubelet gives it no log."""


def driver_pod(name: str, created_at: str = "2026-11-21T00:00:00Z", node: str = "node-1") -> dict[str, object]:
    """A driver with a sidecar."""
    containers = [{"name": "istio-proxy"}, {"name": "spark-kubernetes-driver"}]
    metadata = {"name": name, "namespace": "shop", "creationTimestamp": created_at}
    spec = {"containers": containers, "nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class ApiServer(ThreadingHTTPServer):
    """Lists of objects by the last word of the path; everything else is forbidden."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Lists)
        self.lists = dict(LISTS)
        self.namespaces = {"shop"}
        self.logs: dict[str, str] = {}
        self.asked_logs: list[str] = []
        self.unread_logs: dict[str, str] = {}
        """By pod, why its kubelet gives none; empty: no answer for longer than anyone waits."""
        self.asked: Counter[str] = Counter()
        self.going = threading.Event()
        self.refusal = 0
        """The status of every answer, when it is not 0."""


class _Lists(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        *_, above, kind = self.path.split("?")[0].split("/")
        if self.server.refusal:
            return self._answer(self.server.refusal, b"{}")
        if above == "namespaces":
            return self._answer(200 if kind in self.server.namespaces else 404, b"{}")
        if kind == "log":
            self.server.asked_logs.append(above)
            if above in self.server.unread_logs:
                return self._refuse_log(self.server.unread_logs[above])
            return self._answer(200 if above in self.server.logs else 403, self.server.logs.get(above, "no").encode())
        if "/colocation-system/" in self.path:
            return self._answer(403, b"")
        if above == "pods":
            return self._answer(200, json.dumps(driver_pod(kind)).encode())
        self.server.asked[kind] += 1
        found = self.server.lists.get(kind)
        body = json.dumps({"kind": "List", "metadata": {}, "items": found or []}).encode()
        return self._answer(403 if found is None else 200, body)

    def _refuse_log(self, why: str) -> None:
        if why:
            return self._answer(500, json.dumps({"kind": "Status", "message": why}).encode())
        self.server.going.wait(30)
        return None

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
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
    server.going.set()
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
        f"nodes, copies, plans and details of replicas cannot be shown: {NO_RIGHT}",
        f"queries cannot be shown: {NO_RIGHT}",
    ]
    page = group_page(found, ("shop", "sales"))
    assert page is not None
    assert [row["node"] for row in page["rows"]] == ["node-1", "node-2"]


def test_events_of_one_second_are_in_the_order_of_their_writes(asking: Collector, api: ApiServer) -> None:
    """The API server lists them by name; a new group is unstable and stable within its first second."""
    versions = {"Stable": "1004", "MapCreated": "1003", "Unstable": "998"}
    api.lists["events"] = [
        {**EVENT, "metadata": {"name": reason, "namespace": "shop", "resourceVersion": version}, "reason": reason}
        for reason, version in versions.items()
    ]
    assert [one["reason"] for one in overview(asking.findings())["events"]] == ["Stable", "MapCreated", "Unstable"]


def test_many_questions_of_the_page_are_one_round(asking: Collector, api: ApiServer) -> None:
    """However many tabs are open."""
    assert asking.findings() is asking.findings()
    assert api.asked["colocationgroups"] == 1


def test_without_the_groups_there_is_nothing_to_show(asking: Collector, api: ApiServer) -> None:
    """The page shows why."""
    del api.lists["colocationgroups"]
    with pytest.raises(CommandFailed, match=f"the API server does not list the groups: {NO_RIGHT}"):
        asking.findings()


def test_a_namespace_that_does_not_exist_is_no_empty_one(asking: Collector, api: ApiServer) -> None:
    """The page gives the command's own words."""
    api.lists["colocationgroups"] = []
    assert asking.findings().groups == []
    api.namespaces.clear()
    mistyped = Collector(Cluster(None, None), "colocation-system", everywhere=False)
    with pytest.raises(CommandFailed, match=r"there is no namespace 'shop': choose one with -n"):
        mistyped.findings()


def test_an_api_server_that_takes_no_request_is_named_with_what_to_do(asking: Collector, api: ApiServer) -> None:
    """As by the commands, instead of the client's own words."""
    api.refusal = 401
    with pytest.raises(CommandFailed, match=r"the API server does not list the groups: .*does not accept your credent"):
        asking.findings()
    api.shutdown()
    api.server_close()
    with pytest.raises(CommandFailed, match="Connection refused; check the network, or choose another cluster"):
        Collector(Cluster(None, None), "colocation-system", everywhere=False).findings()


def test_queries_come_from_the_logs_of_the_newest_drivers(asking: Collector, api: ApiServer) -> None:
    """Other lines, and lines that are no query of this release, are passed over."""
    lines = [one["line"] for one in cases("query-lines")]
    api.lists["pods"] = [driver_pod(f"d{day}", f"2026-11-{24 - day:02}T00:00:00Z") for day in range(1, 24)]
    api.logs = {f"d{day}": "" for day in range(1, 24)}
    api.logs["d2"] = f"26/11/21 INFO RecentQueries: {lines[0]}\nCOLOCATION_QUERY {{}}\nother\n{lines[1]}\n"
    found = asking.findings()
    assert [(one.driver, one.query.execution) for one in found.queries.queries] == [("d2", 7), ("d2", 0)]
    assert (found.queries.gap, len(api.asked_logs)) == ("3 older drivers are not looked at", queries.MOST_DRIVERS)
    assert not {"d21", "d22", "d23"} & set(api.asked_logs)


def test_who_may_not_read_logs_sees_what_is_missing(asking: Collector, api: ApiServer) -> None:
    """Below the queries of the drivers that may be read."""
    api.lists["pods"] = [driver_pod("open"), driver_pod("closed")]
    api.logs = {"open": cases("query-lines")[0]["line"]}
    found = overview(asking.findings())
    assert found["queriesGap"] == "you have no right to read drivers' logs (get on pods/log)"
    assert "queries cannot be shown" not in str(found["problems"])


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize(
    ("why", "said"),
    [pytest.param(NO_ROUTE, NO_ROUTE, id="refused"), pytest.param("", "no answer within 0.2 s", id="silent")],
)
def test_a_node_that_is_down_hides_the_queries_of_its_own_drivers_only(
    why: str, said: str, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once, and not again for a while: each question may last until a time-out. The page names it."""
    monkeypatch.setattr(queries, "LOG_SECONDS", 0.2)
    monkeypatch.setattr(queries, "LEAST_SECONDS", 0.0)
    api.lists["pods"] = [driver_pod("lost"), driver_pod("lost-too"), driver_pod("here", node="node-2")]
    api.logs, api.unread_logs = {"here": cases("query-lines")[0]["line"]}, {"lost": why, "lost-too": why}
    logs = queries.DriverLogs(Cluster(None, None), everywhere=False)
    for _ in range(2):
        found = logs.queries()
        assert [one.driver for one in found.queries] == ["here"]
        assert said in found.gap
        assert "2 drivers on node node-1" in found.gap and "colocation nodes" in found.gap
    assert set(api.asked_logs) == {"lost", "here"}
