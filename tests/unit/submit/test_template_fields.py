"""Fields that Kubeflow's webhook would apply are moved into the template, where they work without it."""

from typing import Any

import pytest

from colocation.submit import ManifestError, prepare

from .applications_under_test import container, pod_spec, sales_group, spark_application

SCRATCH = {"name": "scratch", "emptyDir": {}}


def prepared_executor(executor: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return prepare(spark_application(executor=executor, **spec), sales_group()).application


@pytest.mark.parametrize(
    ("field", "value", "target"),
    [
        ("schedulerName", "volcano", "schedulerName"),
        ("priorityClassName", "high", "priorityClassName"),
        ("hostNetwork", True, "hostNetwork"),
        ("terminationGracePeriodSeconds", 5, "terminationGracePeriodSeconds"),
        ("initContainers", [{"name": "init"}], "initContainers"),
    ],
)
def test_pod_fields_move_into_the_template(field: str, value: Any, target: str) -> None:
    """The webhook leaves a pod with a template alone, so a plain field outside the template would be lost."""
    application = prepared_executor({field: value})
    assert pod_spec(application, "executor")[target] == value
    assert field not in application["spec"]["executor"]


def test_plain_security_is_merged_with_ours() -> None:
    """Of the pod and of Spark's container."""
    given = {"podSecurityContext": {"runAsUser": 185}, "securityContext": {"readOnlyRootFilesystem": True}}
    application = prepared_executor(given)
    assert pod_spec(application, "executor")["securityContext"]["runAsUser"] == 185
    assert container(application, "executor")["securityContext"]["readOnlyRootFilesystem"] is True


def test_plain_affinity_is_merged_with_the_groups() -> None:
    """The author's affinity and the group's nodes hold together."""
    spread = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    affinity = pod_spec(prepared_executor({"affinity": spread}), "executor")["affinity"]
    assert affinity["podAntiAffinity"] == spread["podAntiAffinity"]
    assert "nodeAffinity" in affinity


def test_environment_and_mounts_move_into_sparks_container() -> None:
    """With the volumes that the mounts name; others stay out."""
    application = prepared_executor(
        {"env": [{"name": "TZ", "value": "UTC"}], "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
        volumes=[SCRATCH, {"name": "unused", "emptyDir": {}}],
    )
    spark = container(application, "executor")
    assert {"name": "TZ", "value": "UTC"} in spark["env"]
    assert {"name": "scratch", "mountPath": "/scratch"} in spark["volumeMounts"]
    assert [item["name"] for item in pod_spec(application, "executor")["volumes"]] == [
        "scratch", "colocation-data", "colocation-access",
    ]  # fmt: skip


def test_sparks_own_scratch_volumes_stay_where_they_are() -> None:
    """Kubeflow gives spark-local-dir-… to spark-submit as configuration, with or without a template."""
    mount = {"name": "spark-local-dir-1", "mountPath": "/tmp/spark"}
    application = prepared_executor(
        {"volumeMounts": [mount]}, volumes=[{"name": "spark-local-dir-1", "hostPath": {"path": "/disk"}}]
    )
    assert application["spec"]["executor"]["volumeMounts"] == [mount]


def test_sidecars_stand_next_to_sparks_container() -> None:
    """Sidecars become containers of the template."""
    application = prepared_executor({"sidecars": [{"name": "shipper", "image": "x"}]})
    assert [item["name"] for item in pod_spec(application, "executor")["containers"]] == [
        "spark-kubernetes-executor", "shipper",
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["configMaps", "gpu", "memoryLimit", "ports"])
def test_what_only_the_webhook_can_apply_is_refused(field: str) -> None:
    """Better refused than lost."""
    with pytest.raises(ManifestError, match=rf"spec\.executor\.{field} is applied by Kubeflow's webhook"):
        prepared_executor({field: "1g"})


def test_a_field_in_both_places_is_refused_with_both_values() -> None:
    """The template and the plain field may not contradict each other."""
    executor = {"schedulerName": "volcano", "template": {"spec": {"schedulerName": "yunikorn"}}}
    with pytest.raises(ManifestError, match=r"'volcano'.*'yunikorn'"):
        prepared_executor(executor)


def test_a_mount_of_no_volume_is_refused() -> None:
    """spec.volumes has to hold it."""
    with pytest.raises(ManifestError, match=r"spec\.executor\.volumeMounts names scratch"):
        prepared_executor({"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]})
