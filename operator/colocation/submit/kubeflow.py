"""Placement for Kubeflow's ``sparkoperator.k8s.io/v1beta2`` SparkApplication."""

import copy
import re
from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import (
    DRIVER_CONTAINER,
    EXECUTOR_CONTAINER,
    NODE_NAME_VARIABLES,
    driver_pod_template,
    executor_pod_template,
    spark_defaults,
)
from ..model.base import Frozen
from ..model.names import LABEL_GROUP
from .decision import DEGRADE_REASON, Decision, decide
from .errors import ManifestError, conflict
from .group_view import GroupView
from .merge import Json, check_node_selector, merge_map, merge_pod_template, require_mapping
from .webhook_fields import move_into_template

API_VERSION = "sparkoperator.k8s.io/v1beta2"
KIND = "SparkApplication"
REQUIRED_FIELDS = ("type", "sparkVersion", "mainApplicationFile", "driver", "executor")

EXCLUDED_STEPS = "spark.kubernetes.driver.pod.excludedFeatureSteps"
NETWORK_POLICY_STEP = "org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"
FIRST_VERSION_WITH_NETWORK_POLICY = (4, 3)
"""From this version on Spark's submission makes a NetworkPolicy, which Kubeflow's chart has no right to."""

KEPT_WHEN_GIVEN = ("spark.sql.files.openCostInBytes",)
"""Tuning of ours that a manifest may overrule; everything else of ours holds the join together."""

LISTS = (EXCLUDED_STEPS, "spark.plugins", "spark.sql.sources.useListFilesFileSystemList")
"""Comma-separated: theirs and ours together."""


class PreparedApplication(Frozen):
    """What is to be created, and the decision that was taken for it."""

    application: dict[str, Any]
    decision: Decision


def prepare(application: Mapping[str, Any], group: GroupView) -> PreparedApplication:
    """A SparkApplication whose executors run where the group's buckets lie, and the decision colocated or not.

    What the manifest says is kept. The executors get the group's nodes (required), spreading, the data mount
    (read-only), the token and CA, and their node's name; the driver gets the token and CA; the application gets
    Spark's configuration.

    Raises:
        ManifestError: not such an application, or it contradicts what the group needs (both values are named).
    """
    prepared = check_application(application)
    metadata, spec = prepared["metadata"], prepared["spec"]
    metadata["labels"] = merge_map(metadata.get("labels"), {LABEL_GROUP: group.name}, "metadata.labels")
    metadata.setdefault("namespace", group.namespace)
    if metadata["namespace"] != group.namespace:
        raise conflict("metadata.namespace", metadata["namespace"], group.namespace, "submit beside the group")
    volumes = spec.get("volumes") or []
    spec["driver"] = _place_driver(spec["driver"], volumes, group)
    spec["executor"] = _place_executor(spec["executor"], spec["driver"], volumes, group)
    check_node_selector(spec.get("nodeSelector"), group.nodes, "spec.nodeSelector")
    conf = require_mapping(spec.get("sparkConf"), "spec.sparkConf")
    decision = decide(group, conf)
    if not spec.get("image"):
        spec["image"] = _image(spec, group)
    spec["sparkConf"] = _merge_conf(conf, _our_conf(group, decision), spec["sparkVersion"])
    return PreparedApplication(application=prepared, decision=decision)


def check_application(application: Mapping[str, Any]) -> Json:
    """A copy of a manifest that has the shape of Kubeflow's SparkApplication.

    Raises:
        ManifestError: it has not; the message names the field.
    """
    kind, version = application.get("kind"), application.get("apiVersion")
    if (kind, version) != (KIND, API_VERSION):
        raise ManifestError(f"the manifest is kind {kind!r}, apiVersion {version!r}; allowed: {KIND}, {API_VERSION}")
    copied = copy.deepcopy(dict(application))
    copied["metadata"] = require_mapping(copied.get("metadata"), "metadata")
    if not (copied["metadata"].get("name") or copied["metadata"].get("generateName")):
        raise ManifestError("metadata has neither name nor generateName: give one")
    spec = copied["spec"] = require_mapping(copied.get("spec"), "spec")
    missing = [field for field in REQUIRED_FIELDS if field not in spec]
    if missing:
        raise ManifestError(f"spec lacks {', '.join(missing)}, which Kubeflow's operator requires")
    for field in ("driver", "executor"):
        spec[field] = require_mapping(spec[field], f"spec.{field}")
    if spec.get("mode", "cluster") != "cluster":
        raise ManifestError(f"spec.mode is {spec['mode']!r}; allowed: cluster (the driver has to be a pod)")
    return copied


def _place_driver(driver: Json, volumes: list[Json], group: GroupView) -> Json:
    where = "spec.driver"
    placed = move_into_template(driver, volumes, DRIVER_CONTAINER, where)
    ours = driver_pod_template(group.placement)
    placed["template"] = merge_pod_template(placed["template"], ours, DRIVER_CONTAINER, f"{where}.template")
    return placed


def _place_executor(executor: Json, driver: Json, volumes: list[Json], group: GroupView) -> Json:
    where = "spec.executor"
    for name in NODE_NAME_VARIABLES:
        given = (executor.get("envVars") or {}).get(name)
        if given is not None:
            raise conflict(f"{where}.envVars[{name}]", given, "the executor's node")
    placed = move_into_template(executor, volumes, EXECUTOR_CONTAINER, where)
    ours = executor_pod_template(group.placement)
    template = merge_pod_template(placed["template"], ours, EXECUTOR_CONTAINER, f"{where}.template")
    check_node_selector(template["spec"].get("nodeSelector"), group.nodes, f"{where}.nodeSelector")
    placed["template"] = template
    if driver.get("serviceAccount") and not template["spec"].get("serviceAccountName"):
        # The executors read from the agents too, under the rights of their own account.
        placed.setdefault("serviceAccount", driver["serviceAccount"])
    return placed


def _image(spec: Mapping[str, Any], group: GroupView) -> str:
    chosen = require_mapping(spec.get("sparkConf"), "spec.sparkConf").get("spark.kubernetes.container.image")
    image = chosen or group.spark_image
    if not image:
        raise ManifestError("spec.image is not given, and the installation has no default: give one")
    return str(image)


def _our_conf(group: GroupView, decision: Decision) -> dict[str, str]:
    conf = spark_defaults(group.placement)
    # Kubeflow's operator writes the templates and names their containers itself; the image is a field of its own.
    conf = {key: value for key, value in conf.items() if not key.startswith("spark.kubernetes.")}
    if not group.stable and not decision.colocated:
        conf[DEGRADE_REASON] = f"group is not stable: {group.instability}"
    return conf


def _merge_conf(theirs: Mapping[str, str], ours: Mapping[str, str], spark_version: str) -> dict[str, str]:
    if _version(spark_version) >= FIRST_VERSION_WITH_NETWORK_POLICY:
        ours = {**ours, EXCLUDED_STEPS: NETWORK_POLICY_STEP}
    kept = {key: value for key, value in ours.items() if not (key in KEPT_WHEN_GIVEN and key in theirs)}
    lists = {key: _join_lists(theirs[key], ours[key]) for key in LISTS if key in theirs and key in ours}
    # An earlier decision, in a manifest that was prepared before, is not the author's wish.
    given = {key: value for key, value in theirs.items() if key != DEGRADE_REASON}
    return merge_map({**given, **lists}, {**kept, **lists}, "spec.sparkConf")


def _join_lists(theirs: str, ours: str) -> str:
    words = [word.strip() for word in theirs.split(",") if word.strip()]
    return ",".join([*words, *(word for word in ours.split(",") if word not in words)])


def _version(text: object) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", str(text))
    if match is None:
        raise ManifestError(f"spec.sparkVersion is {text!r}; allowed: a version such as 4.1.4")
    return int(match[1]), int(match[2])
