"""Measures the operator on a real API server with fake agents: `make bench-control-plane`, or
`python -m benchmarks.control_plane [--groups 100 --tables 400 --nodes 20 --seconds 60 --changes 100]`.

Groups are made, placed, given tables with committed snapshots; then nothing is changed for some time; then one spec
after another. Writes build/bench/control_plane.json:

- ``api_calls_per_minute_quiet``: the operator's requests to the API server while nothing changes (from its audit log),
  with the share of the full lists that come every ``resync_seconds``; ``by_call`` says which. Nodes send heartbeats.
- ``watch_events``: that the API server sent in that time, of the kinds that the operator watches.
- ``reconcile_p50_ms``, ``reconcile_p99_ms``: from a change of a group's spec to the status that answers it.
- ``pass_p50_ms``, ``pass_p99_ms``: duration of all passes of the run, from the operator's histogram.
- ``cpu_seconds_per_minute_quiet``, ``peak_rss_mib``: the operator's process.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from benchmarks.apiserver import ApiServer, Json, running_apiserver
from benchmarks.fake_agents import FakeAgent, Maps, running_agents
from benchmarks.operator_process import OPERATOR_USER, SYSTEM, OperatorProcess, running_operator
from tests.integration.installation import self_signed

OUTPUT = Path("build/bench/control_plane.json")
GROUPS_PATH = "/apis/colocation.dev/v1alpha1/colocationgroups"
TABLES_PATH = "/apis/colocation.dev/v1alpha1/colocatedtables"
NAMESPACED = "/apis/colocation.dev/v1alpha1/namespaces/{}/{}"
NAMESPACES = 10
BUCKETS, REPLICAS = 8, 2
SETTLE_SECONDS = 120.0
RESYNC_SECONDS = 300
SOON_SECONDS = 16
CALM_SECONDS = 12.0
"""Without a call: the first passes after a change are over."""
WATCHED = ("colocationgroups", "colocatedtables", "nodes", "pods", "jobs")


@dataclass(frozen=True)
class Size:
    """How much there is, and how long it is looked at."""

    groups: int
    tables: int
    nodes: int
    quiet_seconds: float
    changes: int

    def namespace_of(self, group: int) -> str:
        return f"shop-{group % min(NAMESPACES, self.groups)}"

    @property
    def namespaces(self) -> list[str]:
        return [f"shop-{number}" for number in range(min(NAMESPACES, self.groups))]

    @property
    def group_keys(self) -> list[tuple[str, str]]:
        return [(self.namespace_of(number), f"group-{number}") for number in range(self.groups)]


def addresses(nodes: int) -> dict[str, str]:
    """Node -> a loopback address of its own."""
    return {f"node-{number:03d}": f"127.77.{number // 250}.{number % 250 + 1}" for number in range(nodes)}


def make_nodes(server: ApiServer, where: dict[str, str]) -> None:
    """Nodes that are ready, each with the pod of its agent."""
    node = {"apiVersion": "v1", "kind": "Node"}
    server.request_all(("POST", "/api/v1/nodes", {**node, "metadata": {"name": name}}) for name in where)
    heartbeats(server, where)
    labels = {"app.kubernetes.io/name": "colocation-operator", "app.kubernetes.io/component": "agent"}
    path = f"/api/v1/namespaces/{SYSTEM}/pods"
    pods: list[Json] = [
        {
            "metadata": {"name": f"agent-{name}", "labels": labels},
            "spec": {"nodeName": name, "containers": [{"name": "agent", "image": "agent"}]},
        }
        for name in where
    ]
    server.request_all(("POST", path, pod) for pod in pods)
    status = [(f"{path}/agent-{name}/status", address) for name, address in where.items()]
    server.request_all(
        ("PATCH", one, {"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}}) for one, ip in status
    )


def heartbeats(server: ApiServer, where: dict[str, str]) -> None:
    """What kubelets write every five minutes when nothing has changed."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
        "lastTransitionTime": "2026-11-21T00:00:00Z", "lastHeartbeatTime": now,
    }  # fmt: skip
    body = {"status": {"conditions": [condition]}}
    server.request_all(("PATCH", f"/api/v1/nodes/{name}/status", body) for name in where)


def make_groups(server: ApiServer, size: Size) -> None:
    """Groups, each with its share of the tables."""
    groups: list[tuple[str, str, Json]] = []
    tables: list[tuple[str, str, Json]] = []
    kind = {"apiVersion": "colocation.dev/v1alpha1"}
    for namespace, name in size.group_keys:
        spec: Json = {"bucketKey": ["bigint"], "buckets": BUCKETS, "replicas": REPLICAS}
        body = {**kind, "kind": "ColocationGroup", "metadata": {"name": name}, "spec": spec}
        groups.append(("POST", NAMESPACED.format(namespace, "colocationgroups"), body))
    columns = [{"name": "key", "type": "bigint"}, {"name": "day", "type": "date"}, {"name": "value", "type": "string"}]
    for number in range(size.tables):
        namespace, group = size.group_keys[number % size.groups]
        table: Json = {"colocateWith": group, "columns": columns, "bucketedBy": ["key"], "partitionedBy": ["day"]}
        body = {**kind, "kind": "ColocatedTable", "metadata": {"name": f"table-{number}"}, "spec": table}
        tables.append(("POST", NAMESPACED.format(namespace, "colocatedtables"), body))
    server.request_all(groups)
    server.request_all(tables)


def commit_all(server: ApiServer, maps: Maps) -> None:
    """What loads do: each table gets a snapshot, whose files lie where its group's map says."""
    rows = {
        (group["metadata"]["namespace"], group["metadata"]["name"]): group["status"]["backendsPerBucketSeq"]
        for group in server.request("GET", GROUPS_PATH)["items"]
    }
    tables = server.request("GET", TABLES_PATH)["items"]
    commits: list[tuple[str, str, Json]] = []
    for table in tables:
        metadata = table["metadata"]
        held: dict[str, set[int]] = {}
        for bucket, nodes in enumerate(rows[metadata["namespace"], table["spec"]["colocateWith"]]):
            for node in nodes:
                held.setdefault(node, set()).add(bucket)
        maps[f"{metadata['name']}-{metadata['uid'][:8]}"] = held
        digest = metadata["uid"].replace("-", "") * 2
        snapshot = {
            "id": 1, "manifest": f"sha256:{digest}", "committedAt": "2026-11-21T00:00:00Z", "partitions": 2000,
            "files": 2000 * BUCKETS, "rows": 10**9, "bytes": BUCKETS << 30,
        }  # fmt: skip
        path = f"{NAMESPACED.format(metadata['namespace'], 'colocatedtables')}/{metadata['name']}/status"
        commits.append(("PATCH", path, {"status": {"snapshot": snapshot}}))
    server.request_all(commits)


def wait_until_settled(server: ApiServer, size: Size) -> float:
    """Seconds until all groups are stable with all their tables, and the operator has nothing to write."""
    started = time.monotonic()
    while True:
        groups = server.request("GET", GROUPS_PATH)["items"]
        states = [group.get("status", {}) for group in groups]
        stable = sum(bool(state.get("stable")) for state in states)
        tables = sum(state.get("tableCount") or 0 for state in states)
        seconds = time.monotonic() - started
        if (stable, tables) == (size.groups, size.tables):
            return seconds
        if seconds > SETTLE_SECONDS:
            raise RuntimeError(f"after {SETTLE_SECONDS:.0f} s {stable} groups are stable, {tables} tables accepted")
        time.sleep(0.2)


def wait_until_calm(server: ApiServer) -> None:
    """Until the operator has asked for nothing for a while."""
    before, since = server.audited(), time.monotonic()
    while time.monotonic() - since < CALM_SECONDS:
        if time.monotonic() - since > SETTLE_SECONDS:
            raise RuntimeError(f"the operator does not come to rest: {server.audited() - before}")
        time.sleep(0.5)
        now = server.audited()
        if now != before:
            before, since = now, time.monotonic()


def measure_quiet(server: ApiServer, operator: OperatorProcess, size: Size, where: dict[str, str]) -> Json:
    """Calls, events and processor time while nothing changes, one full list included."""
    calls, events, cpu = server.audited(), server.watch_events(WATCHED), operator.cpu_seconds()
    started = time.monotonic()
    heartbeats(server, where)
    time.sleep(size.quiet_seconds)
    minutes = (time.monotonic() - started) / 60
    cpu_seconds = operator.cpu_seconds() - cpu
    quiet = server.audited() - calls
    sent = server.watch_events(WATCHED) - events
    return {
        "by_call": dict(quiet),
        "watch_events": sent,
        "api_calls_per_minute_between_lists": round(quiet.total() / minutes, 2),
        "cpu_seconds_per_minute_quiet": round(cpu_seconds / minutes, 2),
    }


def measure_resync(server: ApiServer, operator: OperatorProcess, size: Size) -> Json:
    """The calls of one full list of everything: an operator that resyncs soon is started for it."""
    operator.stop()
    operator.start(resync_seconds=SOON_SECONDS)
    wait_until_settled(server, size)
    time.sleep(SOON_SECONDS / 2)
    before = server.audited()
    time.sleep(SOON_SECONDS)
    found = server.audited() - before
    operator.stop()
    operator.start(resync_seconds=RESYNC_SECONDS)
    wait_until_settled(server, size)
    return {"calls_per_resync": found.total(), "by_call_resync": dict(found)}


def measure_changes(server: ApiServer, size: Size) -> list[float]:
    """Milliseconds from a change of a group's spec to the status that answers it, one change at a time."""
    version = server.request("GET", GROUPS_PATH)["metadata"]["resourceVersion"]
    events = server.watch(GROUPS_PATH, version)
    taken = []
    for number in range(size.changes):
        namespace, name = size.group_keys[number * 7 % size.groups]
        path = f"{NAMESPACED.format(namespace, 'colocationgroups')}/{name}"
        clones = 5 + number // size.groups
        started = time.monotonic()
        changed = server.request("PATCH", path, {"spec": {"balancing": {"maxConcurrentClones": clones}}})
        wait_for_answer(events, changed["metadata"])
        taken.append((time.monotonic() - started) * 1000)
    return taken


def wait_for_answer(events: Iterator[Json], changed: Json) -> None:
    """Until the status is about this generation of the group."""
    for event in events:
        body = event["object"]
        same = body["metadata"]["uid"] == changed["uid"]
        if same and body.get("status", {}).get("observedGeneration") == changed["generation"]:
            return


def measure(size: Size, folder: Path) -> Json:
    """The whole run."""
    maps: Maps = {}
    where = addresses(size.nodes)
    with ExitStack() as stack:
        server = stack.enter_context(running_apiserver(folder, OPERATOR_USER))
        server.plane.serve_crds()
        namespaces = ({"metadata": {"name": name}} for name in (SYSTEM, *size.namespaces))
        server.request_all(("POST", "/api/v1/namespaces", body) for body in namespaces)
        certificate, key = self_signed(folder, "colocation-agent", [])
        agents = stack.enter_context(running_agents(where, maps, certificate, key))
        make_nodes(server, where)
        operator = stack.enter_context(running_operator(server.plane, folder, certificate))
        operator.start(resync_seconds=RESYNC_SECONDS)
        make_groups(server, size)
        placed_seconds = wait_until_settled(server, size)
        commit_all(server, maps)
        wait_until_settled(server, size)
        wait_until_calm(server)
        before = counts(agents)
        quiet = measure_quiet(server, operator, size, where)
        inventories = [after - then for after, then in zip(counts(agents), before, strict=True)]
        taken = measure_changes(server, size)
        passes = operator.pass_milliseconds()
        resync = measure_resync(server, operator, size)
        per_minute = quiet["api_calls_per_minute_between_lists"] + resync["calls_per_resync"] * 60 / RESYNC_SECONDS
        cuts = quantiles(taken, n=100)
        return {
            "groups": size.groups, "tables": size.tables, "nodes": size.nodes,
            "api_calls_per_minute_quiet": round(per_minute, 1),
            "watch_events": quiet.pop("watch_events"),
            "reconcile_p50_ms": round(cuts[49], 1), "reconcile_p99_ms": round(cuts[98], 1),
            "peak_rss_mib": operator.peak_rss_mib,
            "quiet_seconds": size.quiet_seconds, "resync_seconds": RESYNC_SECONDS, **quiet, **resync,
            "inventories_quiet": inventories[0], "inventories_unchanged": inventories[1],
            "pass_p50_ms": passes[0], "pass_p99_ms": passes[1], "first_placement_seconds": round(placed_seconds, 1),
        }  # fmt: skip


def counts(agents: dict[str, FakeAgent]) -> tuple[int, int]:
    """(inventories, those answered by 304) of all agents."""
    return sum(one.requests for one in agents.values()), sum(one.unchanged for one in agents.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60, help="how long nothing is changed")
    parser.add_argument("--changes", type=int, default=100)
    given = parser.parse_args()
    size = Size(given.groups, given.tables, given.nodes, given.seconds, given.changes)
    with tempfile.TemporaryDirectory(prefix="colocation-bench-") as folder:
        measured = measure(size, Path(folder))
    print(json.dumps(measured, indent=2))
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(measured, indent=2) + "\n")
    print(f"written to {OUTPUT}")


if __name__ == "__main__":
    main()
