"""Spark's configuration of a placed application: theirs and ours in one, contradictions refused."""

from collections.abc import Mapping

from ..manifests.spark_pods import (
    ACCESS_VOLUME,
    DATA_VOLUME,
    LISTS,
    NODE_NAME_VARIABLES,
    next_to,
    spark_defaults,
)
from ..model.names import LABEL_HOSTNAME, TOKEN_DIRECTORY
from .group_view import GroupView
from .manifest import ManifestError, conflict
from .pod_templates import check_node_selector, merge_map

IMAGE = "spark.kubernetes.container.image"
EXCLUDED_STEPS = "spark.kubernetes.driver.pod.excludedFeatureSteps"
DYNAMIC_ALLOCATION = "spark.dynamicAllocation.enabled"
SHUFFLE_TRACKING = "spark.dynamicAllocation.shuffleTracking.enabled"
DRIVER_ACCOUNT = "spark.kubernetes.authenticate.driver.serviceAccountName"
EXECUTOR_ACCOUNT = "spark.kubernetes.authenticate.executor.serviceAccountName"

RETIRED_DEGRADE_REASON = "spark.colocation.degradeReason"
"""Written by earlier releases; no session reads it any more."""

TEMPLATE_FILES = {
    "driver": "spark.kubernetes.driver.podTemplateFile",
    "executor": "spark.kubernetes.executor.podTemplateFile",
}
NODE_SELECTORS = ("spark.kubernetes.node.selector.", "spark.kubernetes.executor.node.selector.")
VOLUMES = "spark.kubernetes.executor.volumes."


def our_conf(group: GroupView) -> dict[str, str]:
    """What every placed application gets, without what belongs to Kubernetes (image, templates).

    Nothing in it depends on the group's present state: each session judges that when it plans.
    """
    conf = spark_defaults(group.placement)
    return {key: value for key, value in conf.items() if not key.startswith("spark.kubernetes.")}


def merge_conf(theirs: Mapping[str, str], ours: Mapping[str, str], where: str) -> dict[str, str]:
    """Both in one: lists joined, the manifest's tuning kept.

    Raises:
        ManifestError: a key that colocated joins need has another value.
    """
    # A decision that an earlier release froze, in a manifest that was prepared before, is not the author's wish.
    given = {key: value for key, value in theirs.items() if key != RETIRED_DEGRADE_REASON}
    lists = (EXCLUDED_STEPS, *LISTS)
    added = next_to(given, ours, lists)
    of_both = {key: added[key] for key in lists if key in given and key in added}
    merged = merge_map({**given, **of_both}, added, where)
    if merged.get(DYNAMIC_ALLOCATION) == "true":
        # Kubernetes has no shuffle service: executors that hold shuffle files must not be let go.
        merged.setdefault(SHUFFLE_TRACKING, "true")
    return merged


def check_conf(conf: Mapping[str, str], group: GroupView, where: str, templates: Mapping[str, str]) -> None:
    """Refuse configuration that would undo the placement of the pod templates.

    ``templates``: for driver and executor, where the manifest holds its pod template.

    Raises:
        ManifestError: naming the key, its value, and what is needed.
    """
    for role, key in TEMPLATE_FILES.items():
        if key in conf:
            raise ManifestError(
                f"{where}[{key}] is {conf[key]!r} in the manifest, but placement needs its own pod template, and Spark "
                f"takes only one: put yours into {templates[role]}"
            )
    for prefix in NODE_SELECTORS:
        selector = {LABEL_HOSTNAME: conf[prefix + LABEL_HOSTNAME]} if prefix + LABEL_HOSTNAME in conf else {}
        check_node_selector(selector, group.required_nodes, f"{where} {prefix}…")
    for name in NODE_NAME_VARIABLES:
        if f"spark.executorEnv.{name}" in conf:
            key = f"spark.executorEnv.{name}"
            raise conflict(f"{where}[{key}]", conf[key], "the executor's node")
    namespace = conf.get("spark.kubernetes.namespace", group.namespace)
    if namespace != group.namespace:
        raise conflict(f"{where}[spark.kubernetes.namespace]", namespace, group.namespace, "submit it there")
    _check_volumes(conf, group, where)


def _check_volumes(conf: Mapping[str, str], group: GroupView, where: str) -> None:
    ours = {group.placement.mount_path: DATA_VOLUME, TOKEN_DIRECTORY: ACCESS_VOLUME}
    for key, value in conf.items():
        if not key.startswith(VOLUMES) or not key.endswith(".mount.path"):
            continue
        name = key.removeprefix(VOLUMES).split(".")[1]
        if value in ours or name in ours.values():
            needed = ours.get(value, f"no volume named {name} but its own")
            raise conflict(f"{where}[{key}]", value, needed, "mount yours elsewhere, under another name")
