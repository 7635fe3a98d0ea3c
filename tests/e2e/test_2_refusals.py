"""An account without rights is refused and learns nothing; a table that does not fit is refused with both values."""

import json
from functools import partial

import pytest
import yaml

from demo import workload
from demo.shell import kubectl, kubectl_json, run
from demo.waiting import wait_until

from . import agents
from .conftest import Loaded

pytestmark = pytest.mark.e2e

STRANGERS = "strangers"


@pytest.fixture(scope="module")
def data_target(loaded: Loaded) -> str:
    """The path of a manifest that every agent of the group holds."""
    snapshot = kubectl_json("get", "ct", "orders", "-n", workload.NAMESPACE)["status"]["snapshot"]
    digest = snapshot["manifest"].removeprefix("sha256:")
    return f"/v1/files/{workload.NAMESPACE}/{agents.directory('orders')}/manifests/{digest}.json.zst"


@pytest.fixture(scope="module")
def stranger(loaded: Loaded) -> str:
    """A token of another namespace's account, with all rights there and none here."""
    kubectl("apply", "-f", "-", stdin=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {STRANGERS}}}\n")
    role = kubectl("create", "rolebinding", "colocation-user", "--clusterrole=colocation-user",
                   f"--serviceaccount={STRANGERS}:default", "-n", STRANGERS, "--dry-run=client", "-o", "yaml")
    kubectl("apply", "-f", "-", stdin=role)
    return agents.token("default", STRANGERS)


def test_the_right_token_reads(data_target: str) -> None:
    """The account that Spark uses gets the file."""
    url = next(iter(agents.urls().values()))
    assert agents.request(url, "GET", data_target, bearer=agents.token("spark", workload.NAMESPACE)).status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_no_token_is_401(data_target: str, method: str) -> None:
    """Without a token, and with one that is none, nothing is answered but 401."""
    for url in agents.urls().values():
        assert agents.request(url, method, data_target).status == 401
        assert agents.request(url, method, data_target, bearer="not-a-token").status == 401


def test_a_token_for_another_audience_is_401(data_target: str) -> None:
    """A token that was made for the API server is not accepted by an agent."""
    url = next(iter(agents.urls().values()))
    bearer = agents.token("spark", workload.NAMESPACE, audience="https://kubernetes.default.svc")
    assert agents.request(url, "GET", data_target, bearer=bearer).status == 401


def test_another_namespaces_token_gets_403_and_learns_nothing(data_target: str, stranger: str) -> None:
    """403 for a file that is there and for one that is not, with the same words."""
    url = next(iter(agents.urls().values()))
    missing = data_target.replace(data_target[-20:-9], "0" * 11)
    answers = [agents.request(url, "GET", target, bearer=stranger) for target in (data_target, missing)]
    assert [answer.status for answer in answers] == [403, 403]
    assert answers[0].data == answers[1].data


@pytest.mark.parametrize("path", [
    "../../../../etc/passwd", "data/../../../../../etc/passwd", "data/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "data/%252e%252e/%252e%252e/etc/passwd", "data//etc/passwd", "data/..%2f..%2f..%2fetc%2fpasswd",
    "data/a%00b.parquet",
])
def test_paths_cannot_escape(loaded: Loaded, path: str) -> None:
    """No spelling of a path leads out of the table's folder; none is answered with a file."""
    url = next(iter(agents.urls().values()))
    target = f"/v1/files/{workload.NAMESPACE}/{agents.directory('orders')}/{path}"
    answer = agents.request(url, "GET", target, bearer=agents.token("spark", workload.NAMESPACE))
    assert answer.status in (400, 403, 404)
    assert b"root:" not in answer.data


def test_a_table_that_does_not_fit_is_refused_with_both_values(loaded: Loaded) -> None:
    """Other buckets, other key types: Accepted=False names what is and what should be; the group is unharmed."""
    for name, change, both in (
        ("wrong-buckets", {"buckets": 10}, ("10", "8")),
        ("wrong-type", {"bucketedBy": ["o_custkey"]}, ("int", "bigint")),
        ("wrong-replicas", {"replicas": 3}, ("3", "2")),
    ):
        table = {
            "apiVersion": "colocation.dev/v1alpha1", "kind": "ColocatedTable",
            "metadata": {"name": name, "namespace": workload.NAMESPACE},
            "spec": {"colocateWith": workload.GROUP, "bucketedBy": ["o_orderkey"], **change, "columns": [
                {"name": "o_orderkey", "type": "bigint"}, {"name": "o_custkey", "type": "int"}]},
        }
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump(table))
        condition = wait_until(f"{name} refused", partial(accepted_condition, name), deadline_seconds=30)
        assert condition["status"] == "False" and condition["reason"] == "SchemaMismatch"
        assert all(value in condition["message"] for value in (*both, workload.GROUP)), condition["message"]
        kubectl("delete", "ct", name, "-n", workload.NAMESPACE)
    assert workload.group_status()["stable"] is True


@pytest.mark.parametrize(("spec", "words"), [
    pytest.param({"bucketKey": ["bigint"], "buckets": 0, "replicas": 1}, "spec.buckets", id="no buckets"),
    pytest.param({"bucketKey": ["array<int>"], "buckets": 8, "replicas": 1}, "bucketKey is [array<int>]",
                 id="unhashable key"),
    pytest.param({"bucketKey": ["bigint"], "buckets": 8, "replicas": 9}, "spec.replicas", id="too many replicas"),
])
def test_a_bad_group_is_refused_at_admission(loaded: Loaded, spec: dict[str, object], words: str) -> None:
    """An object that is wrong by itself never gets into the cluster."""
    group = {"apiVersion": "colocation.dev/v1alpha1", "kind": "ColocationGroup",
             "metadata": {"name": "bad", "namespace": workload.NAMESPACE}, "spec": spec}
    assert words in run(["kubectl", "create", "-f", "-"], stdin=json.dumps(group), allowed=(1,)).stderr
    assert "bad" not in kubectl("get", "cg", "-n", workload.NAMESPACE, "-o", "name")


def accepted_condition(table: str) -> dict[str, str] | None:
    """The table's Accepted condition, once there is one."""
    status = kubectl_json("get", "ct", table, "-n", workload.NAMESPACE).get("status", {})
    return next((found for found in status.get("conditions", []) if found["type"] == "Accepted"), None)
