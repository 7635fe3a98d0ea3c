"""The demo on the user's cluster: installed, joined, one node drained if its name is given, and all removed again.

Nothing that was there before is changed: no node is killed, no pod of others is evicted, and a cluster that has
colocation already is refused.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from . import report
from .cluster import CHART
from .shell import COLOCATION, REPOSITORY, kubectl, kubectl_json, run
from .story import say, show
from .waiting import wait_until

SYSTEM, NAMESPACE, GROUP = "colocation-system", "shop", "sales"
DATA_ROOT = "/var/lib/colocation-demo"
"""On the nodes; not that of a real installation."""
OURS = "app.kubernetes.io/name=colocation-operator"
KINDS = ("colocationgroups.colocation.dev", "colocatedtables.colocation.dev")
TABLES = "examples/shop/tables.yaml"
MINIMUM_NODES = 3
WAIT_SECONDS = 600
ORDERS, LINES_PER_ORDER, DAYS = 100_000, 4, 7
ROWS = {
    "orders": f"SELECT id, date_add(DATE '1995-01-01', CAST(id % {DAYS} AS INT)), CAST(id % 1000 AS DECIMAL(15, 2)) "
              f"FROM range({ORDERS})",
    "lineitem": f"SELECT id DIV {LINES_PER_ORDER}, CAST(id % 100 AS DECIMAL(15, 2)) "
                f"FROM range({ORDERS * LINES_PER_ORDER})",
}  # fmt: skip
JOIN = """SELECT CAST(o_orderdate AS STRING) AS day, count(*) AS lines, CAST(sum(l_extendedprice) AS STRING) AS price
FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_orderdate ORDER BY o_orderdate"""
NO_BROADCAST = ("--set", "spark.sql.autoBroadcastJoinThreshold=-1")
"""Tables this small would be broadcast, which is cheaper, and shows nothing."""
SHUFFLED = ("--set", "spark.colocation.disableColocateJoin=true")


class Refused(Exception):
    """The demo does not run on this cluster; nothing was changed. The message tells the user what to do."""


@dataclass(frozen=True)
class Wishes:
    """The user's choices, from the environment.

    ``registry``: where the nodes find the images; ``tag``: theirs. ``lose_node``: the node to drain, or empty.
    ``data_root``: a folder of the nodes.
    """

    registry: str
    tag: str
    lose_node: str = ""
    data_root: str = DATA_ROOT


def wishes(kubeconfig: str, environment: Mapping[str, str] = os.environ) -> Wishes:
    """``IMAGE_REGISTRY``, ``IMAGE_TAG``, ``LOSE_NODE``, ``DATA_ROOT``.

    Raises:
        Refused: no registry is given. KUBECONFIG alone may have been set for something else.
    """
    registry = environment.get("IMAGE_REGISTRY", "").rstrip("/")
    if not registry:
        raise Refused(
            f"KUBECONFIG names a cluster of yours ({kubeconfig}). To run the demo there, build and push the images as "
            "in README.md, and give their registry: IMAGE_REGISTRY=registry.example.com/data. To run it on a cluster "
            "of its own, unset KUBECONFIG."
        )
    tag = environment.get("IMAGE_TAG") or version("colocation")
    return Wishes(registry, tag, environment.get("LOSE_NODE", ""), environment.get("DATA_ROOT") or DATA_ROOT)


def check(asked: Wishes, nodes: list[str], namespaces: list[str], kinds: list[str]) -> None:
    """Whether the demo may run where these nodes, namespaces and kinds of resources are.

    Raises:
        Refused: it might meet something of the user's, or cannot show what it promises.
    """
    taken = sorted({SYSTEM, NAMESPACE} & set(namespaces)) + sorted(set(KINDS) & set(kinds))
    if taken:
        raise Refused(
            f"the cluster has {', '.join(taken)} already, and the demo touches nothing that it has not made. What an "
            f"interrupted demo left goes by: {removal_commands()}"
        )
    if len(nodes) < MINIMUM_NODES:
        raise Refused(f"the demo needs {MINIMUM_NODES} nodes that take pods; the cluster has {len(nodes)}")
    if asked.lose_node and asked.lose_node not in nodes:
        raise Refused(f"LOSE_NODE={asked.lose_node} is no node that takes pods; there are: {', '.join(nodes)}")


def removal_commands() -> str:
    """For people, on one line."""
    return (
        f"kubectl delete namespace {NAMESPACE}; helm uninstall colocation -n {SYSTEM}; "
        f"kubectl delete namespace {SYSTEM}; kubectl delete -f charts/colocation-operator/crds"
    )


def run_demo(asked: Wishes, *, keep: bool) -> int:
    """The story; exit code 0: every promise was kept, 1: not.

    Raises:
        Refused: nothing was changed.
        CommandFailed, DeadlinePassed: a step failed; what was made is removed unless it is to be kept.
    """
    check(asked, _nodes(), _names("namespaces"), _names("customresourcedefinitions"))
    with _installed(asked, keep=keep):
        measured = _tell(asked)
    path = report.write(measured)
    say(f"measured: {path.relative_to(REPOSITORY)}")
    show(path.read_text())
    missed = shortcomings(measured)
    for promise in missed:
        say(f"demo failed: not so: {promise}")
    return 1 if missed else 0


@contextmanager
def _installed(asked: Wishes, *, keep: bool) -> Iterator[None]:
    try:
        yield
    finally:
        if asked.lose_node:
            run([COLOCATION, "undrain", asked.lose_node])
        if keep:
            say(f"all is still there; remove it: {removal_commands()}")
        else:
            _remove(asked.data_root)


def _tell(asked: Wishes) -> dict[str, Any]:
    _install(asked)
    say(f"kubectl apply -f {TABLES}")
    run([COLOCATION, "init", "-n", NAMESPACE])
    kubectl("apply", "-f", TABLES)
    _wait_for_stable()
    for table, rows in ROWS.items():
        say(f"colocation sql 'INSERT INTO {table} …'")
        run([COLOCATION, "sql", f"INSERT INTO {table} {rows}", "-n", NAMESPACE, "--direct"])
    show(run([COLOCATION, "tables", "-n", NAMESPACE]).stdout)
    measured = {"colocated": _join("a join on the bucket key, colocated"),
                "shuffle": _join("the same with a shuffle", *SHUFFLED)}
    if asked.lose_node:
        measured["node_drained"] = _lose(asked.lose_node)
    else:
        say("no node is taken away; LOSE_NODE=name drains that one")
    return measured


def _install(asked: Wishes) -> None:
    say(f"helm install, with images of {asked.registry}")
    values = {
        "image.repository": f"{asked.registry}/colocation-operator", "image.tag": asked.tag,
        "dataRoot": asked.data_root,
        "agent.sweepIntervalSeconds": "5",  # so that dropped files go soon
        "spark.image": f"{asked.registry}/colocation-spark:{asked.tag}",
    }
    settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    run(["helm", "install", "colocation", str(CHART), "-n", SYSTEM, "--create-namespace", "--wait", "--timeout", "10m",
         *settings])
    show(run([COLOCATION, "nodes"]).stdout)


def _join(what: str, *options: str) -> dict[str, Any]:
    say(f"colocation sql: {what}")
    said = json.loads(run([COLOCATION, "sql", JOIN, "-n", NAMESPACE, "--direct", "-o", "json", *NO_BROADCAST,
                           *options]).stdout)
    verdict = said["joins"][0]
    found = {"colocate": verdict["colocate"], "exchanges": said["exchanges"], "seconds": said["seconds"],
             "answer_ok": said["rows"] == expected_rows()}
    show(f"colocate: {str(verdict['colocate']).lower()} {verdict['reason']}\nexchanges {found['exchanges']}, "
         f"{found['seconds']:.1f} s, answer {'right' if found['answer_ok'] else 'WRONG'}")
    return found


def expected_rows() -> list[list[object]]:
    """The join's answer, counted here."""
    cents, lines = [0] * DAYS, [0] * DAYS
    for number in range(ORDERS * LINES_PER_ORDER):
        day = number // LINES_PER_ORDER % DAYS
        cents[day] += number % 100 * 100
        lines[day] += 1
    return [[f"1995-01-0{day + 1}", lines[day], f"{cents[day] / 100:.2f}"] for day in range(DAYS)]


def _lose(node: str) -> dict[str, Any]:
    say(f"colocation drain {node}: its replicas go to other nodes, and the group stays stable")
    run([COLOCATION, "drain", node, "--wait", "--timeout", str(WAIT_SECONDS)], timeout_seconds=WAIT_SECONDS + 60)
    _wait_for_stable()
    show(run([COLOCATION, "nodes"]).stdout)
    return _join(f"the join without {node}")


def _wait_for_stable() -> None:
    kubectl("wait", "--for=condition=Stable", f"colocationgroup/{GROUP}", "-n", NAMESPACE, f"--timeout={WAIT_SECONDS}s")
    show(kubectl("get", "colocationgroups", "-n", NAMESPACE))


def shortcomings(measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the demo promises and this run did not show; empty when all is well."""
    colocated = [measured[name] for name in ("colocated", "node_drained") if name in measured]
    promises = {
        "the answers are right": all(one["answer_ok"] for one in measured.values()),
        "the colocated joins have no Exchange": all(one["colocate"] and not one["exchanges"] for one in colocated),
        "the join with disableColocateJoin shuffles": not measured["shuffle"]["colocate"],
    }
    return [promise for promise, kept in promises.items() if not kept]


def _remove(data_root: str) -> None:
    """Files, volumes, objects, rights, kinds; in this order, so that agents purge the files first."""
    say("everything is removed")
    if set(KINDS) & set(_names("customresourcedefinitions")):
        _drop_tables(data_root)
    run(["helm", "uninstall", "colocation", "-n", SYSTEM, "--wait", "--ignore-not-found"])
    kubectl("delete", "namespace", NAMESPACE, SYSTEM, "--ignore-not-found")
    kubectl("delete", "--ignore-not-found", "-f", str(CHART / "crds"))
    say(f"left: the empty folder {data_root} on the nodes")


def _drop_tables(data_root: str) -> None:
    for table in kubectl_json("get", "colocatedtables", "-n", NAMESPACE)["items"]:
        at_once = json.dumps({"spec": {"recycleAfterSeconds": 0}})
        kubectl("patch", "colocatedtable", table["metadata"]["name"], "-n", NAMESPACE, "--type=merge", "-p", at_once)
    kubectl("delete", "colocatedtables", "--all", "-n", NAMESPACE)
    wait_until("files are gone", lambda: not _files(data_root), deadline_seconds=WAIT_SECONDS)
    kubectl("delete", "colocationgroups", "--all", "-n", NAMESPACE)  # they remembered which tables were dropped
    wait_until("volumes are gone", lambda: not _volumes(), deadline_seconds=WAIT_SECONDS)


def _volumes() -> list[str]:
    return kubectl("get", "pv", "-l", OURS, "-o", "name").split()


def _files(data_root: str) -> list[str]:
    """Data files that agents see, in recycle bins, too."""
    pods = kubectl("get", "pods", "-n", SYSTEM, "-l", f"{OURS},app.kubernetes.io/component=agent", "-o", "name").split()
    find = ("find", data_root, "-name", "*.parquet")
    return [file for pod in pods for file in kubectl("exec", "-n", SYSTEM, pod, "--", *find).split()]


def _names(kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in kubectl_json("get", kind)["items"]]


def _nodes() -> list[str]:
    """Nodes that take pods."""
    return sorted(
        node["metadata"]["name"] for node in kubectl_json("get", "nodes")["items"]
        if not node["spec"].get("unschedulable")
        and not any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in node["spec"].get("taints", ()))
    )
