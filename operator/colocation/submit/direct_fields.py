"""Kubeflow's fields as what they become: Spark's configuration, and environment of the driver's container.

Kubeflow's operator gives them to spark-submit; without it we do. Later words overrule earlier ones there, so a field
overrules ``sparkConf``. A field that only an operator can apply is refused, since it would have no effect.
"""

from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import DRIVER_CONTAINER
from .manifest import Json, ManifestError
from .pod_templates import merge_list

SPEC_FIELDS = frozenset(
    {"type", "sparkVersion", "pythonVersion", "mode", "image", "imagePullPolicy", "imagePullSecrets", "mainClass",
     "mainApplicationFile", "arguments", "sparkConf", "hadoopConf", "volumes", "driver", "executor", "deps",
     "restartPolicy", "nodeSelector", "memoryOverheadFactor", "dynamicAllocation"}
)  # fmt: skip
POD_FIELDS = frozenset(
    {"template", "cores", "coreRequest", "coreLimit", "memory", "memoryOverhead", "image", "javaOptions", "labels",
     "annotations", "envVars", "envSecretKeyRefs", "serviceAccount", "nodeSelector", "tolerations"}
)  # fmt: skip
"""The last two are in the template, too."""
EXECUTOR_FIELDS = POD_FIELDS | {"instances", "deleteOnTermination"}

SPEC_CONF = {
    "image": "spark.kubernetes.container.image",
    "imagePullPolicy": "spark.kubernetes.container.image.pullPolicy",
    "memoryOverheadFactor": "spark.kubernetes.memoryOverheadFactor",
}
DEPENDENCY_CONF = {
    "jars": "spark.jars",
    "files": "spark.files",
    "pyFiles": "spark.submit.pyFiles",
    "packages": "spark.jars.packages",
    "excludePackages": "spark.jars.excludes",
    "repositories": "spark.jars.repositories",
    "archives": "spark.archives",
}
ALLOCATION_CONF = {
    "initialExecutors": "spark.dynamicAllocation.initialExecutors",
    "minExecutors": "spark.dynamicAllocation.minExecutors",
    "maxExecutors": "spark.dynamicAllocation.maxExecutors",
    "shuffleTrackingTimeout": "spark.dynamicAllocation.shuffleTracking.timeout",
}
POD_CONF = {
    "cores": "spark.{role}.cores",
    "coreRequest": "spark.kubernetes.{role}.request.cores",
    "coreLimit": "spark.kubernetes.{role}.limit.cores",
    "memory": "spark.{role}.memory",
    "memoryOverhead": "spark.{role}.memoryOverhead",
    "javaOptions": "spark.{role}.extraJavaOptions",
    "image": "spark.kubernetes.{role}.container.image",
    "serviceAccount": "spark.kubernetes.authenticate.{role}.serviceAccountName",
    "instances": "spark.executor.instances",
    "deleteOnTermination": "spark.kubernetes.executor.deleteOnTermination",
}
POD_MAPS = {
    "labels": "spark.kubernetes.{role}.label.",
    "annotations": "spark.kubernetes.{role}.annotation.",
}


def check_fields(spec: Mapping[str, Any]) -> None:
    """Refuse what only a Spark operator can honour.

    Raises:
        ManifestError: naming the field, what it holds, and what to do.
    """
    holders = (("spec", spec, SPEC_FIELDS), ("spec.driver", spec["driver"], POD_FIELDS),
               ("spec.executor", spec["executor"], EXECUTOR_FIELDS))  # fmt: skip
    for where, fields, known in holders:
        for name, value in fields.items():
            if name not in known and value not in (None, False, [], {}, ""):
                raise ManifestError(
                    f"{where}.{name} is {value!r}, which needs a Spark operator; with --direct leave it out, or say "
                    "the same in sparkConf or in the pod templates"
                )
    restart = (spec.get("restartPolicy") or {}).get("type", "Never")
    if restart != "Never":
        raise ManifestError(
            f"spec.restartPolicy.type is {restart!r}, which needs a Spark operator; allowed with --direct: Never"
        )


def configuration(spec: Mapping[str, Any]) -> dict[str, str]:
    """All fields of the spec that Spark itself knows, as configuration."""
    conf = {key: _text(value) for key, value in (spec.get("sparkConf") or {}).items()}
    conf |= {f"spark.hadoop.{key}": _text(value) for key, value in (spec.get("hadoopConf") or {}).items()}
    conf |= _named(spec, SPEC_CONF)
    conf |= _named(spec.get("deps") or {}, DEPENDENCY_CONF)
    if spec.get("imagePullSecrets"):
        conf["spark.kubernetes.container.image.pullSecrets"] = ",".join(spec["imagePullSecrets"])
    for label, value in (spec.get("nodeSelector") or {}).items():
        conf[f"spark.kubernetes.node.selector.{label}"] = _text(value)
    allocation = spec.get("dynamicAllocation") or {}
    if allocation.get("enabled"):
        conf["spark.dynamicAllocation.enabled"] = "true"
        tracking = allocation.get("shuffleTrackingEnabled")
        conf["spark.dynamicAllocation.shuffleTracking.enabled"] = _text(True if tracking is None else tracking)
        conf |= _named(allocation, ALLOCATION_CONF)
    for role in ("driver", "executor"):
        conf |= _pod_configuration(spec[role], role)
    return conf


def _pod_configuration(pod: Mapping[str, Any], role: str) -> dict[str, str]:
    conf = _named(pod, {field: key.format(role=role) for field, key in POD_CONF.items()})
    for field, prefix in POD_MAPS.items():
        conf |= {prefix.format(role=role) + key: _text(value) for key, value in (pod.get(field) or {}).items()}
    if role == "executor":
        conf |= {f"spark.executorEnv.{name}": _text(value) for name, value in (pod.get("envVars") or {}).items()}
        for name, source in (pod.get("envSecretKeyRefs") or {}).items():
            conf[f"spark.kubernetes.executor.secretKeyRef.{name}"] = f"{source['name']}:{source['key']}"
    return conf


def driver_template(driver: Mapping[str, Any]) -> Json:
    """The driver's pod template with the environment of the manifest's own fields.

    Raises:
        ManifestError: a variable is in both, with two values.
    """
    template: Json = driver["template"]
    variables: list[Json] = [{"name": name, "value": _text(value)} for name, value in
                             (driver.get("envVars") or {}).items()]  # fmt: skip
    variables += [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": source["name"], "key": source["key"]}}}
        for name, source in (driver.get("envSecretKeyRefs") or {}).items()
    ]
    containers = [
        {**item, "env": merge_list(item.get("env"), variables, "name", "spec.driver.template.spec.containers[].env")}
        if item.get("name") == DRIVER_CONTAINER and variables else item
        for item in template["spec"]["containers"]
    ]  # fmt: skip
    return {**template, "spec": {**template["spec"], "containers": containers}}


def _named(fields: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, str]:
    return {key: _text(fields[field]) for field, key in keys.items() if fields.get(field) is not None}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
