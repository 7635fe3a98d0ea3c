"""Placement for Kubeflow's ``sparkoperator.k8s.io/v1beta2``: SparkApplication and ScheduledSparkApplication.

A schedule holds the spec of its runs as its template. It decides nothing: each run is judged when it starts, by Spark's
session, or by the webhook where that is installed.

Kubeflow's operator applies ``affinity``, ``env``, ``volumeMounts`` and the like by a webhook, and leaves every pod that
has a template alone. Since we add a template, such fields of the manifest have to move into it; otherwise they would
have no effect.
"""

import re
from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER, NODE_NAME_VARIABLES
from ..model.reader_rules import (
    DYNAMIC_ALLOCATION,
    EXECUTOR_CORES,
    EXECUTOR_INSTANCES,
    KUBERNETES,
    MASTER,
    MAX_EXECUTORS,
    configured_cores,
)
from .copied_fields import copy_fields
from .group_view import Decision, GroupView, decide
from .manifest import Json, ManifestError, conflict, require_mapping
from .pod_templates import check_node_selector, merge_list, merge_map, place_driver, place_executor
from .spark_conf import EXCLUDED_STEPS, IMAGE, check_conf, merge_conf, our_conf

POD_FIELDS = {
    "affinity": "affinity",
    "podSecurityContext": "securityContext",
    "schedulerName": "schedulerName",
    "priorityClassName": "priorityClassName",
    "hostNetwork": "hostNetwork",
    "dnsConfig": "dnsConfig",
    "terminationGracePeriodSeconds": "terminationGracePeriodSeconds",
    "hostAliases": "hostAliases",
    "shareProcessNamespace": "shareProcessNamespace",
    "initContainers": "initContainers",
}
CONTAINER_FIELDS = ("env", "envFrom", "securityContext", "lifecycle")
NEED_THE_WEBHOOK = ("configMaps", "gpu", "memoryLimit", "ports")

LOCAL_DIRECTORY_PREFIX = "spark-local-dir-"
"""Mounts of this name are Spark's scratch space: Kubeflow gives them to spark-submit as configuration."""


def move_into_template(pod: Mapping[str, Any], volumes: list[Json], container: str, where: str) -> Json:
    """``spec.driver`` or ``spec.executor`` with its plain fields in its template. ``volumes`` are ``spec.volumes``.

    Node selector and tolerations are in both places.

    Raises:
        ManifestError: a field is in both places, or only the webhook can apply it.
    """
    moved = dict(pod)
    template = copy_fields(pod, moved.get("template") or {}, where)
    spec = template["spec"]
    containers = [dict(item) for item in spec.get("containers") or [{"name": container}]]
    chosen = next((item for item in containers if item.get("name") == container), containers[0])
    for field in NEED_THE_WEBHOOK:
        if moved.get(field):
            raise ManifestError(
                f"{where}.{field} is applied by Kubeflow's webhook, which leaves pods with a template alone, and "
                f"placement needs a template: set it in {where}.template"
            )
    for field, target in POD_FIELDS.items():
        _move(moved, field, spec, target, where)
    for field in CONTAINER_FIELDS:
        _move(moved, field, chosen, field, where)
    containers += moved.pop("sidecars", None) or []
    _move_mounts(moved, spec, chosen, volumes, where)
    spec["containers"] = containers
    template["spec"] = spec
    moved["template"] = template
    return moved


def _move(pod: Json, field: str, target: Json, name: str, where: str) -> None:
    value = pod.pop(field, None)
    if value is None:
        return
    if name in target and target[name] != value:
        raise ManifestError(f"{where}.{field} is {value!r}, {where}.template has {target[name]!r}: set it once")
    target[name] = value


def _move_mounts(pod: Json, spec: Json, container: Json, volumes: list[Json], where: str) -> None:
    mounts = pod.pop("volumeMounts", None) or []
    local = [mount for mount in mounts if str(mount.get("name")).startswith(LOCAL_DIRECTORY_PREFIX)]
    if local:
        pod["volumeMounts"] = local
    others = [mount for mount in mounts if mount not in local]
    if not others:
        return
    names = {mount.get("name") for mount in others}
    missing = sorted(str(name) for name in names - {volume.get("name") for volume in volumes})
    if missing:
        raise ManifestError(f"{where}.volumeMounts names {', '.join(missing)}, which spec.volumes does not hold")
    used = [volume for volume in volumes if volume.get("name") in names]
    spec["volumes"] = merge_list(spec.get("volumes"), used, "name", f"{where}.template.spec.volumes")
    container["volumeMounts"] = merge_list(
        container.get("volumeMounts"), others, "mountPath", f"{where}.template.spec.containers"
    )


REQUIRED_FIELDS = ("type", "sparkVersion", "mainApplicationFile", "driver", "executor")

NETWORK_POLICY_STEP = "org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"
FIRST_VERSION_WITH_NETWORK_POLICY = (4, 3)
"""From this version on Spark's submission makes a NetworkPolicy, which Kubeflow's chart has no right to."""


def place_application(application: Json, group: GroupView) -> Decision:
    """Place a SparkApplication, in place, and decide.

    Raises:
        ManifestError: not such an application, or it contradicts what the group needs (both values are named).
    """
    spec = application["spec"] = check_spec(application.get("spec"), "spec")
    decision = decide(group, spec["sparkConf"], configured_cores_of(spec))
    _place_spec(spec, "spec", group)
    return decision


def place_schedule(application: Json, group: GroupView) -> Decision:
    """Place the runs of a ScheduledSparkApplication, in place; the decision is what one starting now would get.

    Raises:
        ManifestError: not such an application, or it contradicts what the group needs (both values are named).
    """
    outer = application["spec"] = require_mapping(application.get("spec"), "spec")
    if "schedule" not in outer:
        raise ManifestError("spec lacks schedule, which Kubeflow's operator requires, e.g. '@daily'")
    spec = outer["template"] = check_spec(outer.get("template"), "spec.template")
    decision = decide(group, spec["sparkConf"], configured_cores_of(spec))
    _place_spec(spec, "spec.template", group)
    return decision


def check_spec(value: object, where: str) -> Json:
    """The spec of an application, of the shape that Kubeflow's operator takes. ``where`` is its path.

    Raises:
        ManifestError: it has another; the message names the field.
    """
    spec = require_mapping(value, where)
    missing = [field for field in REQUIRED_FIELDS if field not in spec]
    if missing:
        raise ManifestError(f"{where} lacks {', '.join(missing)}, which Kubeflow's operator requires")
    for field in ("driver", "executor"):
        spec[field] = require_mapping(spec[field], f"{where}.{field}")
    spec["sparkConf"] = require_mapping(spec.get("sparkConf"), f"{where}.sparkConf")
    if spec.get("mode", "cluster") != "cluster":
        raise ManifestError(f"{where}.mode is {spec['mode']!r}; allowed: cluster (the driver has to be a pod)")
    return spec


def configured_cores_of(spec: Mapping[str, Any]) -> int:
    """Cores of all executors together: Kubeflow's operator makes configuration of these fields."""
    executor, dynamic = spec["executor"], spec.get("dynamicAllocation") or {}
    fields = {
        EXECUTOR_CORES: executor.get("cores"),
        EXECUTOR_INSTANCES: executor.get("instances"),
        DYNAMIC_ALLOCATION: "true" if isinstance(dynamic, dict) and dynamic.get("enabled") else None,
        MAX_EXECUTORS: dynamic.get("maxExecutors") if isinstance(dynamic, dict) else None,
    }
    given = {key: str(value) for key, value in fields.items() if value is not None}
    return configured_cores({**spec["sparkConf"], **given, MASTER: KUBERNETES})


def _place_spec(spec: Json, where: str, group: GroupView) -> None:
    volumes = spec.get("volumes") or []
    spec["driver"] = _place_driver(spec["driver"], volumes, group, f"{where}.driver")
    spec["executor"] = _place_executor(spec["executor"], spec["driver"], volumes, group, f"{where}.executor")
    check_node_selector(spec.get("nodeSelector"), group.required_nodes, f"{where}.nodeSelector")
    templates = {role: f"{where}.{role}.template" for role in ("driver", "executor")}
    check_conf(spec["sparkConf"], group, f"{where}.sparkConf", templates)
    if not spec.get("image"):
        spec["image"] = image_of(spec["sparkConf"], group, f"{where}.image")
    ours = our_conf(group)
    check_hadoop_conf(spec, ours, where)
    if _version(spec["sparkVersion"], where) >= FIRST_VERSION_WITH_NETWORK_POLICY:
        ours[EXCLUDED_STEPS] = NETWORK_POLICY_STEP
    spec["sparkConf"] = merge_conf(spec["sparkConf"], ours, f"{where}.sparkConf")


def _place_driver(driver: Json, volumes: list[Json], group: GroupView, where: str) -> Json:
    placed = move_into_template(driver, volumes, DRIVER_CONTAINER, where)
    placed["template"] = place_driver(placed["template"], DRIVER_CONTAINER, group, f"{where}.template")
    return placed


def _place_executor(executor: Json, driver: Json, volumes: list[Json], group: GroupView, where: str) -> Json:
    for name in NODE_NAME_VARIABLES:
        given = (executor.get("envVars") or {}).get(name)
        if given is not None:
            raise conflict(f"{where}.envVars[{name}]", given, "the executor's node")
    placed = move_into_template(executor, volumes, EXECUTOR_CONTAINER, where)
    template = place_executor(placed["template"], EXECUTOR_CONTAINER, group, f"{where}.template")
    placed["template"] = template
    if driver.get("serviceAccount") and not template["spec"].get("serviceAccountName"):
        # The executors read from the agents too, under the rights of their own account.
        placed.setdefault("serviceAccount", driver["serviceAccount"])
    return placed


def image_of(conf: Mapping[str, Any], group: GroupView, where: str) -> str:
    image = conf.get(IMAGE) or group.spark_image
    if not image:
        raise ManifestError(f"{where} is not given, and the installation has no default: give one")
    return str(image)


def check_hadoop_conf(spec: Json, ours: Mapping[str, str], where: str) -> None:
    """``hadoopConf`` becomes configuration with the prefix ``spark.hadoop.``, and may contradict ours there."""
    given = require_mapping(spec.get("hadoopConf"), f"{where}.hadoopConf")
    needed = {key: ours[f"spark.hadoop.{key}"] for key in given if f"spark.hadoop.{key}" in ours}
    merge_map(given, needed, f"{where}.hadoopConf")


def _version(text: object, where: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", str(text))
    if match is None:
        raise ManifestError(f"{where}.sparkVersion is {text!r}; allowed: a version such as 4.1.4")
    return int(match[1]), int(match[2])
