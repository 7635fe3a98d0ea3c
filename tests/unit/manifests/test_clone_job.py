"""The clone Job and the ConfigMap for Spark."""

import json

import yaml
from hypothesis import given
from hypothesis import strategies as st

from colocation.manifests.clone_job import CloneJobSettings, clone_job, clone_job_name
from colocation.manifests.config_map import SparkConfigMap, spark_config_map_data
from colocation.manifests.spark_pods import SparkPlacement
from colocation.model.base import MAX_BUCKETS
from colocation.model.clone import CloneSource, CloneSpec

SETTINGS = CloneJobSettings(
    namespace="system", image="operator:1", image_pull_secrets=("registry",), data_root="/data", user_id=10440
)
SPEC = CloneSpec(
    namespace="shop", group="sales", bucket=3, target="node-2", tables=(),
    sources=(CloneSource(node="node-1", url="https://10.0.0.1:8440"),),
)  # fmt: skip
UIDS = st.uuids().map(str)
NODES = st.from_regex(r"[a-z]([a-z0-9-]{0,60}[a-z0-9])?", fullmatch=True)


@given(UIDS, st.integers(0, MAX_BUCKETS - 1), NODES)
def test_name_is_a_label_value(uid: str, bucket: int, target: str) -> None:
    """The Job controller puts the Job's name into a label."""
    assert len(clone_job_name(uid, bucket, target)) <= 63


@given(UIDS, st.integers(0, MAX_BUCKETS - 1), NODES, NODES)
def test_name_follows_from_group_bucket_and_target(uid: str, bucket: int, target: str, other: str) -> None:
    """The same clone has one name; clones of other buckets or to other nodes have others."""
    name = clone_job_name(uid, bucket, target)
    assert name == clone_job_name(uid, bucket, target)
    assert name != clone_job_name(uid, (bucket + 1) % MAX_BUCKETS, target)
    assert (name == clone_job_name(uid, bucket, other)) is (target == other)


def test_a_slow_clone_has_the_time_that_it_takes() -> None:
    """A limited one may run for days; the operator ends what does not advance."""
    limits = [{}, {"max_bandwidth_mib_per_second": 0.25}, {"max_node_bandwidth_mib_per_second": 1.0}]
    jobs = [clone_job("clone-x", SPEC.model_copy(update=limit), None, 0, SETTINGS) for limit in limits]
    hours = [job["spec"]["activeDeadlineSeconds"] / 3600 for job in jobs]
    assert hours == [6, 720, 720]
    chosen = SETTINGS.model_copy(update={"max_seconds": 60})
    assert clone_job("clone-x", SPEC, None, 0, chosen)["spec"]["activeDeadlineSeconds"] == 60


def test_a_clone_runs_where_its_node_takes_new_replicas() -> None:
    """Also on a node whose taint would evict it, if the operator may use such nodes; else on none that goes."""
    settings = SETTINGS.model_copy(update={"tolerated_taints": frozenset({"dedicated"})})
    found = [clone_job("clone-x", SPEC, None, 0, one)["spec"]["template"]["spec"]["tolerations"]
             for one in (SETTINGS, settings)]  # fmt: skip
    assert {"key": "dedicated", "operator": "Exists"} not in found[0]
    assert found[1] == [*found[0], {"key": "dedicated", "operator": "Exists"}]
    assert all("effect" in one for one in found[0])


def test_job_runs_on_its_target_with_least_rights() -> None:
    """Pinned by node name; no API token but one for agents; no capability; failures are ours to repeat."""
    job = clone_job("clone-x", SPEC, "node-1", 2, SETTINGS)
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}
    assert (job["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert not pod["automountServiceAccountToken"]
    assert {pod["securityContext"][key] for key in ("runAsUser", "runAsGroup")} == {10440}
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    [token, certificate] = pod["volumes"][1]["projected"]["sources"]
    assert token["serviceAccountToken"]["audience"] == "colocation.dev"
    assert certificate["configMap"]["name"] == "colocation-agent-ca"
    assert pod["volumes"][0]["hostPath"]["path"] == "/data"
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    assert CloneSpec.model_validate_json(environment["CLONE_SPEC"]) == SPEC
    assert job["metadata"]["annotations"] == {
        "colocation.dev/namespace": "shop",
        "colocation.dev/target": "node-2",
        "colocation.dev/source": "node-1",
        "colocation.dev/failures": "2",
    }


def test_replica_without_a_predecessor_has_no_source() -> None:
    """A Job's annotations hold no empty names."""
    job = clone_job("clone-x", SPEC, None, 0, SETTINGS)
    assert "colocation.dev/source" not in job["metadata"]["annotations"]


def test_config_map_holds_all_that_spark_needs() -> None:
    """JSON, YAML and properties, as docs/reference/contracts.md promises."""
    placement = SparkPlacement(namespace="shop", group="sales", has_map=True)
    urls = {"node-2": "https://10.0.0.2:8440", "node-1": "https://10.0.0.1:8440"}
    others = {"node-3": "https://10.0.0.3:8440"}
    content = SparkConfigMap(placement=placement, agent_urls=urls, other_agent_urls=others, ca_certificate="PEM")
    data = spark_config_map_data(content)
    assert list(json.loads(data["agents.json"])) == ["node-1", "node-2"]
    assert json.loads(data["agents-not-ready.json"]) == others
    assert data["ca.crt"] == "PEM"
    for name in ("driver-pod-template.yaml", "executor-pod-template.yaml"):
        assert yaml.safe_load(data[name])["kind"] == "Pod"
    assert "spark.colocation.namespace shop\n" in data["spark-defaults.conf"]
