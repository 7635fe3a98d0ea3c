"""What is read next to the newest rows of one group: an older snapshot, a table in no group, tables of two namespaces.

The tables of this story are made of TPC-H's orders; those of the group stay as they are.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from colocation.model.names import DATA_CLAIM, DEFAULT_DATA_ROOT, LABEL_GROUP, LABEL_GROUP_NAMESPACE, LABEL_PRIVATE
from demo import story, workload
from demo.shell import COLOCATION, kubectl, kubectl_json, run
from demo.waiting import wait_until

from .conftest import Loaded
from .statements import NO_BROADCAST, query

pytestmark = pytest.mark.e2e

ALONE, ELSEWHERE = "visits", "clicks"
LAKE = "lake"
SELECT = "o_orderkey as v_orderkey, o_orderdate as v_date"
WAIT_SECONDS = 180
LIST_FILES = Path(__file__).parent / "programs" / "list_files.py"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
SPARK_USER = 185
"""Of the image."""


@pytest.fixture(scope="module")
def visits(loaded: Loaded) -> Iterator[Loaded]:
    """A table in no group, loaded twice."""
    apply_table(ALONE, workload.NAMESPACE, "")
    kubectl("wait", "--for=condition=Ready", f"ct/{ALONE}", "-n", workload.NAMESPACE, "--timeout=60s")
    for _ in range(2):
        workload.load(ALONE, loaded.folder, source="orders", select=SELECT, mode="append", executors=1)
    yield loaded
    kubectl("delete", "ct", ALONE, "-n", workload.NAMESPACE)


@pytest.fixture(scope="module")
def lake(loaded: Loaded) -> Iterator[Loaded]:
    """Another namespace, which TPC-H's group lets in, with a table and an account that may read both namespaces."""
    apply_access(LAKE)
    subject = f"--serviceaccount={LAKE}:spark"
    role = ("create", "rolebinding", f"{LAKE}-reads", "--clusterrole=colocation-user", subject)
    kubectl("apply", "-f", "-", stdin=kubectl(*role, "-n", workload.NAMESPACE, "--dry-run=client", "-o", "yaml"))
    allow(LAKE)
    apply_table(ELSEWHERE, LAKE, f"{workload.NAMESPACE}/{workload.GROUP}")
    kubectl("wait", "--for=condition=Ready", f"ct/{ELSEWHERE}", "-n", LAKE, "--timeout=60s")
    yield loaded
    kubectl("label", "namespace", LAKE, RESTRICTED.replace("=restricted", "-"))
    kubectl("delete", "ct", ELSEWHERE, "-n", LAKE)
    wait_until("the other namespace has left", lambda: not members_of(LAKE), deadline_seconds=WAIT_SECONDS)
    allow()


@dataclass(frozen=True)
class Found:
    """What two applications of the other namespace have found: a join with TPC-H's orders, and ``LIST_FILES``."""

    join: dict[str, Any]
    files: dict[str, Any]


@pytest.fixture(scope="module")
def found(lake: Loaded) -> Found:
    """Both run at the same time where Pod Security *restricted* is enforced; the load has its input from a hostPath."""
    loading = {"source": "orders", "select": SELECT, "namespace": LAKE}
    loaded = workload.load(ELSEWHERE, lake.folder, **loading, options=("--direct",), executors=1)
    assert loaded["rows"] == lake.oracle.row_count("orders")
    kubectl("label", "namespace", LAKE, RESTRICTED)
    with ThreadPoolExecutor(2) as pool:
        statement = f"SELECT count(*) FROM {ELSEWHERE} JOIN {workload.NAMESPACE}.orders ON v_orderkey = o_orderkey"
        join = pool.submit(query, statement, "-n", LAKE, "--direct", *NO_BROADCAST)
        files = pool.submit(list_files)
        return Found(join.result(), files.result())


@pytest.mark.deep
def test_an_older_snapshot_and_a_table_in_no_group(visits: Loaded) -> None:
    """The first snapshot's rows are joined, with a shuffle, and the verdict gives the reason."""
    rows = visits.oracle.row_count("orders")
    statement = f"SELECT count(*) FROM orders JOIN {ALONE} VERSION AS OF 1 ON o_orderkey = v_orderkey"
    older = query(statement, "-n", workload.NAMESPACE, *NO_BROADCAST)
    assert older["rows"] == [[rows]]
    assert status(ALONE, workload.NAMESPACE)["snapshot"]["rows"] == 2 * rows
    [join] = older["joins"]
    assert join["colocate"] is False and older["exchanges"] > 0
    assert join["reason"].startswith("Tables are not in the same group: ")
    assert f"{workload.NAMESPACE}.{ALONE} is in no group" in join["reason"]


@pytest.mark.deep
def test_its_own_group_goes_when_it_is_taken_into_another(visits: Loaded) -> None:
    """The private group served it until its files were on the other group's nodes."""
    [private] = private_groups()
    apply_table(ALONE, workload.NAMESPACE, workload.GROUP)
    wait_until("in the group", lambda: status(ALONE, workload.NAMESPACE).get("group") == workload.GROUP,
               deadline_seconds=WAIT_SECONDS)
    wait_until(f"{private} is gone", lambda: not private_groups(), deadline_seconds=WAIT_SECONDS)
    story.wait_for_stable(WAIT_SECONDS)


def test_namespaces_join_without_a_spark_operator(found: Found, lake: Loaded) -> None:
    """Loaded and joined by ``--direct`` in a namespace that no Spark operator watches, with a table of another.

    The other namespace's rows come from agents, its own from disks, and the plan is free of shuffles all the same.
    """
    joined = found.join
    assert joined["rows"] == [[lake.oracle.row_count("orders")]]
    assert joined["exchanges"] == 0
    assert joined["local_bytes"] > 0 and joined["remote_bytes"] > 0
    assert [join["colocate"] for join in joined["joins"]] == [True]


def test_a_pod_sees_its_own_namespaces_files_only(found: Found) -> None:
    """On every node, whatever Python code in an executor looks for; and it changes none of them."""
    seen = found.files
    assert seen["names"] == [LAKE]
    assert seen["files"] > 0
    assert (seen["wrote"], seen["users"]) == (False, [SPARK_USER])


def test_a_pod_that_would_write_is_refused(lake: Loaded) -> None:
    """By the API server: Kubernetes itself would let it."""
    volume = {"name": "files", "persistentVolumeClaim": {"claimName": DATA_CLAIM}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": workload.NAMESPACE},
           "spec": {"containers": [{"name": "one", "image": "one"}], "volumes": [volume]}}  # fmt: skip
    creating = ["kubectl", "create", "--dry-run=server", "-f", "-"]
    refused = run(creating, stdin=yaml.safe_dump(pod), allowed=(1,)).stderr
    assert "add persistentVolumeClaim.readOnly: true" in refused
    volume["persistentVolumeClaim"]["readOnly"] = True  # type: ignore[index]
    run(creating, stdin=yaml.safe_dump(pod))


def list_files() -> dict[str, Any]:
    """What ``LIST_FILES`` finds in executors of the other namespace."""
    program = kubectl("create", "configmap", "programs", "-n", LAKE, f"--from-file={LIST_FILES}",
                      "--dry-run=client", "-o", "yaml")  # fmt: skip
    kubectl("apply", "-f", "-", stdin=program)
    said = run([COLOCATION, "submit", "-f", "-", "--direct"], stdin=yaml.safe_dump(list_files_application())).stdout
    return workload.result_of(said)


def list_files_application() -> dict[str, Any]:
    """The example's join application with another program, in the other namespace."""
    base = workload.example("join")
    labels = {LABEL_GROUP: workload.GROUP, LABEL_GROUP_NAMESPACE: workload.NAMESPACE}
    base["metadata"] = {"name": "list-files", "namespace": LAKE, "labels": labels}
    spec = base["spec"]
    spec["mainApplicationFile"], spec["arguments"] = f"local:///opt/tpch/{LIST_FILES.name}", [DEFAULT_DATA_ROOT]
    spec["driver"]["template"]["spec"]["volumes"] = [{"name": "program", "configMap": {"name": "programs"}}]
    return base


def apply_table(name: str, namespace: str, group: str) -> None:
    """``kubectl apply`` a table of orders' keys and dates."""
    spec = {"colocateWith": group, "buckets": 8, "replicas": 2, "bucketedBy": ["v_orderkey"], "columns": [
        {"name": "v_orderkey", "type": "bigint"}, {"name": "v_date", "type": "date"}]}
    body = {"apiVersion": "colocation.dev/v1alpha1", "kind": "ColocatedTable",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))


def apply_access(namespace: str) -> None:
    """The example's namespace and rights for Spark, under another name."""
    for file in ("1-namespace.yaml", "2-access.yaml"):
        text = (workload.EXAMPLES / file).read_text()
        kubectl("apply", "-f", "-", stdin=text.replace(workload.NAMESPACE, namespace))


def allow(*namespaces: str) -> None:
    """Which other namespaces' tables TPC-H's group takes."""
    patch = json.dumps({"spec": {"allowedNamespaces": list(namespaces)}})
    kubectl("patch", "cg", workload.GROUP, "-n", workload.NAMESPACE, "--type=merge", "-p", patch)


def members_of(namespace: str) -> list[str]:
    """The group's tables of another namespace that are not dropped."""
    names: list[str] = workload.group_status()["tables"]
    return [name for name in names if name.startswith(f"{namespace}/") and not name.endswith("*")]


def private_groups() -> list[str]:
    """Groups that the operator made for tables in no group."""
    names = kubectl("get", "cg", "-n", workload.NAMESPACE, "-l", LABEL_PRIVATE, "-o", "name")
    return names.split()


def status(table: str, namespace: str) -> dict[str, Any]:
    """The table's status."""
    found: dict[str, Any] = kubectl_json("get", "ct", table, "-n", namespace).get("status", {})
    return found
