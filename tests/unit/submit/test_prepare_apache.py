"""What `prepare` makes of a SparkApplication of Apache's operator."""

from typing import Any

import pytest

from colocation.submit import ManifestError, prepare
from colocation.submit.apache import RETAIN_MILLISECONDS

from .applications_under_test import apache_application, container, pod_spec, sales_group, spark_application

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DRIVER, EXECUTOR = "spark-kubernetes-driver", "spark-kubernetes-executor"

SPEC_FIELDS = {
    "mainClass", "runtimeVersions", "jars", "pyFiles", "sparkRFiles", "files", "deploymentMode", "proxyUser",
    "driverArgs", "applicationTolerations", "driverSpec", "executorSpec", "driverServiceIngressList", "configMapSpecs",
    "sparkConf",
}  # fmt: skip
"""The documented fields of Apache's ApplicationSpec."""


def prepared(version: str = "v1", **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = prepare(apache_application(version, **spec), sales_group()).application["spec"]
    return found


def template(spec: dict[str, Any], role: str) -> dict[str, Any]:
    found: dict[str, Any] = spec[f"{role}Spec"]["podTemplateSpec"]
    return found


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_only_documented_fields_are_written(version: str) -> None:
    """The operator's CRD drops others without a word; a template there is metadata and spec."""
    spec = prepared(version)
    assert spec.keys() <= SPEC_FIELDS
    for role in ("driver", "executor"):
        assert spec[f"{role}Spec"].keys() == {"podTemplateSpec"}
        assert template(spec, role).keys() == {"metadata", "spec"}
    assert all(isinstance(value, str) for value in spec["sparkConf"].values())


def test_pods_are_those_of_kubeflows_application() -> None:
    """Affinity, spreading, mounts, token and node name do not depend on the operator."""
    kubeflow = prepare(spark_application(), sales_group()).application
    spec = prepared()
    for role in ("driver", "executor"):
        ours = template(spec, role)["spec"]
        assert ours["containers"] == [container(kubeflow, role)]
        assert {key: value for key, value in ours.items() if key != "containers"} == {
            key: value for key, value in pod_spec(kubeflow, role).items() if key != "containers"
        }


def test_the_configuration_holds_what_the_operator_has_no_field_for() -> None:
    """Image, containers' names and the recipe; the executors run under the driver's account."""
    account = {"spark.kubernetes.authenticate.driver.serviceAccountName": "spark"}
    conf = prepared(sparkConf=account)["sparkConf"]
    assert conf["spark.kubernetes.container.image"] == "spark:installed"
    assert conf["spark.kubernetes.driver.podTemplateContainerName"] == DRIVER
    assert conf["spark.kubernetes.executor.podTemplateContainerName"] == EXECUTOR
    assert conf["spark.hadoop.fs.coloc.impl"] == "dev.colocation.spark.ColocFileSystem"
    assert conf["spark.kubernetes.authenticate.executor.serviceAccountName"] == "spark"


@pytest.mark.parametrize(
    "images",
    [
        pytest.param({"spark.kubernetes.container.image": "mine"}, id="for both"),
        pytest.param(
            {"spark.kubernetes.driver.container.image": "a", "spark.kubernetes.executor.container.image": "b"},
            id="each"),
    ],
)  # fmt: skip
def test_given_images_are_kept(images: dict[str, str]) -> None:
    """The installation's image is for those who name none."""
    conf = prepared(sparkConf=images)["sparkConf"]
    assert images.items() <= conf.items()
    assert conf.get("spark.kubernetes.container.image") in (None, "mine")


def test_what_the_templates_say_is_kept() -> None:
    """Also a container without a name, which Spark takes for its own."""
    theirs = {"metadata": {"annotations": {"a": "b"}}, "spec": {
        "priorityClassName": "high",
        "nodeSelector": {"disk": "fast"},
        "containers": [{"env": [{"name": "TZ", "value": "UTC"}], "volumeMounts": [{"name": "s", "mountPath": "/s"}]}],
        "volumes": [{"name": "s", "emptyDir": {}}],
    }}  # fmt: skip
    spec = template(prepared(executorSpec={"podTemplateSpec": theirs}), "executor")["spec"]
    assert (spec["priorityClassName"], spec["nodeSelector"]) == ("high", {"disk": "fast"})
    [only] = spec["containers"]
    assert only["env"][0] == {"name": "TZ", "value": "UTC"}
    assert [item["name"] for item in spec["volumes"]] == ["s", "colocation-data", "colocation-access"]


@pytest.mark.parametrize(
    ("containers", "conf", "chosen"),
    [
        pytest.param([{"name": "mine"}, {"name": "sidecar"}], {}, "mine", id="the first"),
        pytest.param([{"name": "sidecar"}, {"name": EXECUTOR}], {}, EXECUTOR, id="Spark's name"),
        pytest.param([{"name": "sidecar"}, {"name": "mine"}],
                     {"spark.kubernetes.executor.podTemplateContainerName": "mine"}, "mine", id="the configured one"),
    ],
)  # fmt: skip
def test_sparks_container_is_found_as_spark_finds_it(
    containers: list[dict[str, Any]], conf: dict[str, str], chosen: str
) -> None:
    """And Spark gets its name."""
    spec = prepared(executorSpec={"podTemplateSpec": {"spec": {"containers": containers}}}, sparkConf=conf)
    mounted = [item["name"] for item in template(spec, "executor")["spec"]["containers"] if "volumeMounts" in item]
    assert mounted == [chosen]
    assert spec["sparkConf"]["spark.kubernetes.executor.podTemplateContainerName"] == chosen


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, {"resourceRetainPolicy": "Always", "resourceRetainDurationMillis": RETAIN_MILLISECONDS},
                     id="the driver's log can be read"),
        pytest.param({"resourceRetainPolicy": "Never"}, {"resourceRetainPolicy": "Never"}, id="given: kept"),
        pytest.param({"resourceRetainDurationMillis": 5},
                     {"resourceRetainPolicy": "Always", "resourceRetainDurationMillis": 5}, id="for as long as given"),
    ],
)  # fmt: skip
def test_the_driver_outlives_its_end_for_a_while(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """The operator's default deletes the driver's pod, and with it its result, at once."""
    assert prepared(applicationTolerations=given)["applicationTolerations"] == expected


def test_dynamic_allocation_tracks_shuffle_files() -> None:
    """Kubernetes has no shuffle service; executors stay on the group's nodes whenever they are made."""
    spec = prepared(sparkConf={"spark.dynamicAllocation.enabled": "true"})
    assert spec["sparkConf"]["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
    assert template(spec, "executor")["spec"]["affinity"]


CONFLICTS = [
    pytest.param({"sparkConf": {"spark.kubernetes.executor.podTemplateFile": "s3a://x"}},
                 ["'s3a://x'", "spec.executorSpec.podTemplateSpec"], id="a template file next to the template"),
    pytest.param({"sparkConf": {"spark.kubernetes.executor.node.selector.kubernetes.io/hostname": "node-9"}},
                 ["'node-9'", "'node-1'"], id="a node outside the group"),
    pytest.param({"sparkConf": {"spark.kubernetes.node.selector.kubernetes.io/hostname": "node-9"}},
                 ["'node-9'", "'node-1'"], id="a node outside the group, for both"),
    pytest.param({"sparkConf": {"spark.kubernetes.executor.volumes.emptyDir.x.mount.path": "/var/lib/colocation/shop"}},
                 ["/var/lib/colocation/shop", "colocation-data"], id="another mount at the data"),
    pytest.param({"sparkConf": {"spark.executorEnv.NODE_NAME": "x"}}, ["'x'", "node"], id="another node name"),
    pytest.param({"sparkConf": {"spark.kubernetes.namespace": "other"}}, ["'other'", "'shop'"], id="namespace"),
    pytest.param({"sparkConf": {"spark.hadoop.fs.coloc.impl": "x.Y"}}, ["'x.Y'", "ColocFileSystem"], id="file system"),
    pytest.param({"runtimeVersions": {}}, ["spec.runtimeVersions", "4.1.4"], id="no version"),
    pytest.param({"pyFiles": ""}, ["jars, pyFiles, sparkRFiles"], id="no program"),
    pytest.param({"deploymentMode": "ClientMode"}, ["'ClientMode'", "ClusterMode"], id="client mode"),
    pytest.param({"executorSpec": []}, ["spec.executorSpec is []"], id="a list"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "words"), CONFLICTS)
def test_a_contradiction_is_refused_with_both_values(spec: dict[str, Any], words: list[str]) -> None:
    """Nothing of the author's is overwritten, nothing of ours undone, silently."""
    with pytest.raises(ManifestError) as refused:
        prepared(**spec)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("stable", [True, False])
def test_preparing_twice_changes_nothing_more(stable: bool) -> None:
    """A prepared manifest is a fixed point, so --dry-run's output can be submitted."""
    group = sales_group(stable=stable)
    once = prepare(apache_application(), group)
    assert prepare(once.application, group) == once
