"""Pods that we make or place fit into namespaces that enforce Pod Security *restricted*."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from colocation.manifests.config_map import SparkConfigMap, spark_config_map_data
from colocation.manifests.spark_pods import SparkPlacement
from colocation.submit import prepare
from colocation.submit.direct import TEMPLATE_ANNOTATION, direct_submission, driver_job
from colocation.submit.manifest import APACHE
from colocation.submit.programs import LoadRequest, SqlRequest, empty_base, sql_application, table_application

from .applications_under_test import apache_application, container, pod_spec, sales_group, schedule, spark_application

JsonObject = dict[str, Any]
ALLOWED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
"""Of https://kubernetes.io/docs/concepts/security/pod-security-standards, as all the rules below."""


def objections(spec: JsonObject) -> Iterator[str]:
    """What Pod Security *restricted* has against a pod."""
    of_pod = spec.get("securityContext") or {}
    for host in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(host):
            yield host
    for volume in spec.get("volumes") or ():
        yield from (f"volume {volume['name']}: {kind}" for kind in volume.keys() - ALLOWED_VOLUMES - {"name"})
    for one in (*spec["containers"], *(spec.get("initContainers") or ())):
        security = {**of_pod, **(one.get("securityContext") or {})}
        if security.get("runAsNonRoot") is not True or security.get("runAsUser") == 0:
            yield f"{one['name']}: root"
        if security.get("allowPrivilegeEscalation") is not False or security.get("privileged"):
            yield f"{one['name']}: privileges"
        capabilities = security.get("capabilities") or {}
        if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
            yield f"{one['name']}: capabilities"
        if (security.get("seccompProfile") or {}).get("type") != "RuntimeDefault":
            yield f"{one['name']}: seccomp"


def specs_of(application: JsonObject) -> list[JsonObject]:
    """The pods' specs that its operator makes driver and executors from."""
    spec = application["spec"]
    if "runtimeVersions" in spec:
        return [spec[f"{role}Spec"]["podTemplateSpec"]["spec"] for role in ("driver", "executor")]
    outer = spec.get("template", spec)
    return [outer[role]["template"]["spec"] for role in ("driver", "executor")]


APPLICATIONS = [
    pytest.param(spark_application(), id="Kubeflow"),
    pytest.param(schedule(), id="Kubeflow, scheduled"),
    pytest.param(apache_application(), id="Apache"),
    pytest.param(table_application(LoadRequest(table="orders", path="s3a://x"), sales_group()), id="colocation load"),
    pytest.param(table_application(LoadRequest(table="orders", path="s3a://x"), sales_group(), empty_base(APACHE[0])),
                 id="colocation load, Apache"),
    pytest.param(sql_application(SqlRequest(statement="SELECT 1", reader=""), sales_group()), id="colocation sql"),
]


@pytest.mark.parametrize("application", APPLICATIONS)
def test_placed_applications_are_restricted(application: JsonObject) -> None:
    """However they are started, and however often they are prepared."""
    once = prepare(application, sales_group()).application
    again = prepare(once, sales_group()).application
    for spec in (*specs_of(once), *specs_of(again)):
        assert list(objections(spec)) == []


@pytest.mark.parametrize("application", [APPLICATIONS[0], APPLICATIONS[2]])
def test_applications_without_an_operator_are_restricted(application: JsonObject) -> None:
    """The driver's pod that is made, and the template of its executors."""
    pod = driver_job(direct_submission(prepare(application, sales_group()), "report"))["spec"]["template"]
    assert list(objections(pod["spec"])) == []
    assert list(objections(json.loads(pod["metadata"]["annotations"][TEMPLATE_ANNOTATION])["spec"])) == []


@pytest.mark.parametrize("group_namespace", [None, "lake"])
def test_templates_for_plain_spark_submit_are_restricted(group_namespace: str | None) -> None:
    """Those of the ConfigMap, also where the group is in another namespace."""
    placement = SparkPlacement(namespace="shop", group="sales", group_namespace=group_namespace, has_map=True)
    content = SparkConfigMap(placement=placement, agent_urls={}, ca_certificate="PEM")
    data = spark_config_map_data(content)
    for role in ("driver", "executor"):
        assert list(objections(yaml.safe_load(data[f"{role}-pod-template.yaml"])["spec"])) == []


def test_what_a_manifest_sets_stays() -> None:
    """A namespace may allow more; fields that the manifest leaves out are ours."""
    security = {"capabilities": {"add": ["SYS_PTRACE"]}}
    application = spark_application(executor={"podSecurityContext": {"fsGroup": 5}, "securityContext": security})
    placed = prepare(application, sales_group()).application
    assert container(placed, "executor")["securityContext"] == {**security, "allowPrivilegeEscalation": False}
    assert pod_spec(placed, "executor")["securityContext"] == {
        "fsGroup": 5, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip


@pytest.mark.parametrize("field", ["podSecurityContext", "securityContext"])
def test_who_asks_for_root_gets_it(field: str) -> None:
    """Kubernetes would not start a container that is to be root and must not be; of pods and containers alike."""
    placed = prepare(spark_application(executor={field: {"runAsUser": 0}}), sales_group()).application
    assert "runAsNonRoot" not in pod_spec(placed, "executor")["securityContext"]
    assert pod_spec(placed, "driver")["securityContext"]["runAsNonRoot"] is True


def test_a_privileged_container_stays_as_it_is() -> None:
    """Kubernetes refuses one that is privileged and may not gain privileges."""
    placed = prepare(spark_application(executor={"securityContext": {"privileged": True}}), sales_group()).application
    assert container(placed, "executor")["securityContext"] == {"privileged": True}
