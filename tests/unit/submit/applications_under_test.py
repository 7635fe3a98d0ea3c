"""Manifests and groups that the submitter's tests share."""

from typing import Any

from colocation.submit import GroupView


def sales_group(**changes: Any) -> GroupView:
    """A stable group on three nodes."""
    values: dict[str, Any] = {
        "namespace": "shop",
        "name": "sales",
        "stable": True,
        "reason": "AllReplicasComplete",
        "nodes": ("node-1", "node-2", "node-3"),
        "spark_image": "spark:installed",
    }
    return GroupView(**{**values, **changes})


def spark_application(**spec: Any) -> dict[str, Any]:
    """The least manifest that Kubeflow takes, labelled with the group; ``spec`` adds or replaces fields."""
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "report", "namespace": "shop", "labels": {"colocation.dev/group": "sales"}},
        "spec": {
            "type": "Python",
            "sparkVersion": "4.1.4",
            "mainApplicationFile": "local:///app/report.py",
            "driver": {"serviceAccount": "spark"},
            "executor": {"instances": 3},
            **spec,
        },
    }


def apache_application(version: str = "v1", **spec: Any) -> dict[str, Any]:
    """The least manifest that Apache's operator takes, labelled with the group; ``spec`` adds or replaces fields."""
    return {
        "apiVersion": f"spark.apache.org/{version}",
        "kind": "SparkApplication",
        "metadata": {"name": "report", "namespace": "shop", "labels": {"colocation.dev/group": "sales"}},
        "spec": {"pyFiles": "local:///app/report.py", "runtimeVersions": {"sparkVersion": "4.1.4"}, **spec},
    }


def schedule(**spec: Any) -> dict[str, Any]:
    """The least ScheduledSparkApplication; ``spec`` adds or replaces fields of its runs."""
    application = spark_application(**spec)
    return {**application, "kind": "ScheduledSparkApplication",
            "spec": {"schedule": "@daily", "template": application["spec"]}}  # fmt: skip


def pod_spec(application: dict[str, Any], role: str) -> dict[str, Any]:
    """The pod template's spec of ``driver`` or ``executor``."""
    found: dict[str, Any] = application["spec"][role]["template"]["spec"]
    return found


def container(application: dict[str, Any], role: str) -> dict[str, Any]:
    """Spark's container in the template of ``driver`` or ``executor``."""
    named = [item for item in pod_spec(application, role)["containers"] if item["name"] == f"spark-kubernetes-{role}"]
    assert len(named) == 1
    found: dict[str, Any] = named[0]
    return found
