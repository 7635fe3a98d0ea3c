"""The chart's webhooks, and the admin API from a node of the cluster: what one may do without the command's help."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from colocation.model.names import ANNOTATION_DECISION
from demo import cluster, story, workload
from demo.shell import REPOSITORY, kubectl, kubectl_json, run
from demo.waiting import wait_until
from devcluster import node

from .agents import token
from .conftest import VALUES, Loaded

pytestmark = pytest.mark.e2e

SCHEDULE = REPOSITORY / "examples" / "spark-applications" / "kubeflow-scheduled.yaml"
HOST = f"colocation-operator.{cluster.OPERATOR_NAMESPACE}.svc"
OPS = "ops"
NODE = node.Node(1)
"""Where curl runs: this machine has no kube-proxy, so Services are reached from nodes and pods only."""
TABLE = {
    "apiVersion": "colocation.dev/v1alpha1", "kind": "ColocatedTable",
    "metadata": {"name": "misfit", "namespace": workload.NAMESPACE},
    "spec": {"colocateWith": workload.GROUP, "buckets": 10, "bucketedBy": ["k"],
             "columns": [{"name": "k", "type": "bigint"}]},
}  # fmt: skip


@pytest.fixture(scope="module")
def guarded(loaded: Loaded) -> None:
    """The chart with its webhooks, which stay, once the API server asks them."""
    cluster.install_colocation({**VALUES, "webhooks.enabled": "true"})
    wait_until("the API server asks the webhook", lambda: refusal(TABLE), deadline_seconds=60)
    story.wait_for_stable(120)


def test_a_table_that_does_not_fit_is_refused_by_kubectl(guarded: None) -> None:
    """In the operator's words, and nothing is stored."""
    said = refusal(TABLE)
    assert 'admission webhook "validation.colocation.dev" denied the request' in said
    assert "Colocate tables must have same bucket num" in said and "10 should be 8" in said
    assert kubectl("get", "ct", "misfit", "-n", workload.NAMESPACE, "--ignore-not-found") == ""


def test_a_group_with_tables_is_not_deleted(guarded: None) -> None:
    """The refusal names how one sees them, and the way out; it names none, as anybody may ask a webhook."""
    done = run(["kubectl", "delete", "cg", workload.GROUP, "-n", workload.NAMESPACE, "--dry-run=server"], allowed=(1,))
    assert "GroupInUse" in done.stderr and f"2 tables are in group {workload.GROUP} (kubectl get" in done.stderr


def test_a_labelled_application_is_placed(guarded: None) -> None:
    """A plain ``kubectl create`` gets nodes, configuration and the decision; without the label nothing is changed."""
    application = yaml.safe_load((workload.EXAMPLES / "applications" / "join.yaml").read_text())
    placed = created(application)
    assert placed["metadata"]["annotations"][ANNOTATION_DECISION] == "colocate: true"
    assert placed_nodes(placed["spec"]) == nodes_of_the_group()
    del application["metadata"]["labels"]
    assert "template" not in created(application)["spec"]["executor"]


def test_a_labelled_schedule_is_placed(guarded: None) -> None:
    """Each of its runs will be next to the group."""
    schedule = yaml.safe_load(SCHEDULE.read_text())
    schedule["metadata"] |= {"namespace": workload.NAMESPACE, "labels": {"colocation.dev/group": workload.GROUP}}
    assert placed_nodes(created(schedule)["spec"]["template"]) == nodes_of_the_group()


@dataclass(frozen=True)
class AdminApi:
    """The admin API at the operator's Service, asked by curl on one of the nodes."""

    authority: Path
    address: str
    admin: str
    outsider: str

    def ask(self, method: str, path: str, bearer: str) -> tuple[int, dict[str, Any]]:
        """(status, JSON) of a request."""
        curl = ["curl", "--silent", "--show-error", "--max-time", "30", "--cacert", str(self.authority), "--resolve",
                f"{HOST}:443:{self.address}", "-H", f"Authorization: Bearer {bearer}", "-X", method,
                "--write-out", "\n%{http_code}", f"https://{HOST}/api/colocate{path}"]  # fmt: skip
        inside = ["nsenter", f"--net=/proc/{node.require_running(NODE)}/ns/net"]
        said = subprocess.run([*inside, *curl], capture_output=True, text=True, check=True).stdout
        body, _, status = said.rpartition("\n")
        return int(status), json.loads(body)


@pytest.fixture(scope="module")
def api(loaded: Loaded, tmp_path_factory: pytest.TempPathFactory) -> AdminApi:
    """An admin and somebody without rights, made as docs/how-to/admin-api.md states."""
    subject = f"--serviceaccount={OPS}:admin"
    for what in (("namespace", OPS), ("serviceaccount", "admin", "-n", OPS), ("serviceaccount", "outsider", "-n", OPS),
                 ("clusterrolebinding", "ops-admin", "--clusterrole=colocation-admin", subject)):  # fmt: skip
        kubectl("apply", "-f", "-", stdin=kubectl("create", *what, "--dry-run=client", "-o", "yaml"))
    namespace = ("-n", cluster.OPERATOR_NAMESPACE)
    authority = tmp_path_factory.mktemp("admin") / "ca.crt"
    authority.write_text(kubectl_json("get", "configmap", "colocation-operator-ca", *namespace)["data"]["ca.crt"])
    address = kubectl_json("get", "service", "colocation-operator", *namespace)["spec"]["clusterIP"]
    return AdminApi(authority, address, token("admin", OPS), token("outsider", OPS))


def test_only_admins_are_answered(api: AdminApi) -> None:
    """Doris' and StarRocks' JSON for an admin; 403 for others, 401 for a token that is none."""
    status, answer = api.ask("GET", "", api.admin)
    assert (status, answer["status"]) == (200, "OK")
    [name] = answer["colocate_meta"]["groupName2Id"]
    assert name == workload.GROUP
    assert [api.ask(method, path, bearer)[0] for method, path, bearer in (
        ("GET", "", api.outsider), ("GET", "", "none"), ("DELETE", f"/group_stable?{group_id()}", api.outsider),
    )] == [403, 401, 403]  # fmt: skip


def test_a_mark_by_hand_makes_the_group_unstable_until_it_is_taken_back(api: AdminApi) -> None:
    """The reason names who; the answer is the group's state, and so is kubectl's."""
    status, marked = api.ask("DELETE", f"/group_stable?{group_id()}", api.admin)
    assert (status, marked["status"], marked["stable"], marked["reason"]) == (200, "OK", False, "MarkedUnstable")
    condition = workload.stable_condition()
    assert condition["reason"] == "MarkedUnstable" and f"{OPS}:admin" in condition["message"]
    assert "MarkedUnstable" in workload.kubectl_get_groups()
    status, cleared = api.ask("POST", f"/group_stable?{group_id()}", api.admin)
    assert (status, cleared["stable"], cleared["reason"]) == (200, True, "AllReplicasComplete")
    assert workload.group_status()["stable"] is True


def created(body: dict[str, Any]) -> dict[str, Any]:
    """What the API server would store of an object."""
    text = kubectl("create", "-f", "-", "--dry-run=server", "-o", "json", stdin=yaml.safe_dump(body))
    found: dict[str, Any] = json.loads(text)
    return found


def refusal(body: dict[str, Any]) -> str:
    """What the API server reports to an object that it does not take; empty when it takes it."""
    command = ["kubectl", "create", "-f", "-", "--dry-run=server"]
    return run(command, stdin=yaml.safe_dump(body), allowed=(0, 1)).stderr


def placed_nodes(spec: dict[str, Any]) -> list[str]:
    """The nodes that executors are allowed on."""
    affinity = spec["executor"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    [label] = {item["key"] for term in terms for item in term["matchExpressions"]}
    nodes = json.loads(run(["kubectl", "get", "nodes", "-l", f"{label}=true", "-o", "json"]).stdout)["items"]
    return sorted(node["metadata"]["name"] for node in nodes)


def nodes_of_the_group() -> list[str]:
    """All nodes of the map."""
    return sorted({node for nodes in workload.bucket_map() for node in nodes})


def group_id() -> str:
    """The group's id as the admin API takes it."""
    namespace, _, number = workload.group_status()["groupId"].partition(".")
    return f"db_id={namespace}&group_id={number}"
