"""Placement for Apache's ``spark.apache.org`` SparkApplication.

Its operator takes pod templates in the manifest, submits by Spark's own code, and reads everything else from
``sparkConf``: image, accounts, resources.
"""

from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER
from ..model.reader_rules import KUBERNETES, MASTER, configured_cores
from .group_view import Decision, GroupView, decide
from .manifest import Json, ManifestError, require_mapping
from .pod_templates import place_driver, place_executor
from .spark_conf import DRIVER_ACCOUNT, EXECUTOR_ACCOUNT, IMAGE, check_conf, merge_conf, our_conf

PROGRAMS = ("jars", "pyFiles", "sparkRFiles")
CONTAINER_NAMES = {
    "driver": "spark.kubernetes.driver.podTemplateContainerName",
    "executor": "spark.kubernetes.executor.podTemplateContainerName",
}
DEFAULT_CONTAINERS = {"driver": DRIVER_CONTAINER, "executor": EXECUTOR_CONTAINER}
RETAIN_MILLISECONDS = 3_600_000
"""Apache's operator deletes the driver's pod, and its log with the result, as soon as it ends, unless this is set."""


def place_application(application: Json, group: GroupView) -> Decision:
    """Place a SparkApplication, in place, and decide.

    Raises:
        ManifestError: not such an application, or it contradicts what the group needs (both values are named).
    """
    spec = application["spec"] = check_spec(application.get("spec"))
    conf = spec["sparkConf"]
    templates = {role: f"spec.{role}Spec.podTemplateSpec" for role in CONTAINER_NAMES}
    check_conf(conf, group, "spec.sparkConf", templates)
    decision = decide(group, conf, configured_cores({**conf, MASTER: KUBERNETES}))
    chosen = {role: _container(spec, role, conf) for role in CONTAINER_NAMES}
    for role, place in (("driver", place_driver), ("executor", place_executor)):
        holder = spec[f"{role}Spec"]
        template = holder.get("podTemplateSpec") or {}
        placed = place(template, chosen[role], group, templates[role])
        # A template here is no object of its own: the CRD knows neither field.
        holder["podTemplateSpec"] = {key: placed[key] for key in placed if key not in ("apiVersion", "kind")}
    ours = {**our_conf(group), **{CONTAINER_NAMES[role]: name for role, name in chosen.items()}}
    spec["sparkConf"] = _with_defaults(merge_conf(conf, ours, "spec.sparkConf"), spec, group)
    tolerations = spec["applicationTolerations"]
    if "resourceRetainPolicy" not in tolerations:
        tolerations["resourceRetainPolicy"] = "Always"
        tolerations.setdefault("resourceRetainDurationMillis", RETAIN_MILLISECONDS)
    return decision


def check_spec(value: object) -> Json:
    """The spec of an application, of the shape that Apache's operator takes.

    Raises:
        ManifestError: it has another; the message names the field.
    """
    spec = require_mapping(value, "spec")
    versions = require_mapping(spec.get("runtimeVersions"), "spec.runtimeVersions")
    if not versions.get("sparkVersion"):
        raise ManifestError("spec.runtimeVersions lacks sparkVersion, which Apache's operator requires, e.g. 4.1.4")
    if not any(spec.get(field) for field in PROGRAMS):
        raise ManifestError(f"spec has none of {', '.join(PROGRAMS)}: name the program")
    if spec.get("deploymentMode", "ClusterMode") != "ClusterMode":
        raise ManifestError(
            f"spec.deploymentMode is {spec['deploymentMode']!r}; allowed: ClusterMode (the driver has to be a pod)"
        )
    for field in ("sparkConf", "driverSpec", "executorSpec", "applicationTolerations"):
        spec[field] = require_mapping(spec.get(field), f"spec.{field}")
    return spec


def _container(spec: Mapping[str, Any], role: str, conf: Mapping[str, str]) -> str:
    """The name of Spark's container, as Spark itself finds it: the configured one, else the template's first."""
    if CONTAINER_NAMES[role] in conf:
        return conf[CONTAINER_NAMES[role]]
    template = spec[f"{role}Spec"].get("podTemplateSpec") or {}
    containers = (template.get("spec") or {}).get("containers") or [{}]
    names = [container.get("name") for container in containers]
    default = DEFAULT_CONTAINERS[role]
    return default if default in names else str(names[0] or default)


def _with_defaults(conf: dict[str, str], spec: Mapping[str, Any], group: GroupView) -> dict[str, str]:
    images = (IMAGE, "spark.kubernetes.driver.container.image", "spark.kubernetes.executor.container.image")
    if not all(conf.get(IMAGE) or conf.get(image) for image in images[1:]):
        if not group.spark_image:
            raise ManifestError(f"spec.sparkConf has no {IMAGE}, and the installation has no default: give one")
        conf[IMAGE] = group.spark_image
    executor = (spec["executorSpec"]["podTemplateSpec"].get("spec") or {}).get("serviceAccountName")
    if DRIVER_ACCOUNT in conf and not executor:
        # The executors read from the agents too, under the rights of their own account.
        conf.setdefault(EXECUTOR_ACCOUNT, conf[DRIVER_ACCOUNT])
    return conf
