"""The pod templates of driver and executors, placed: alike for every kind of application."""

from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import driver_pod_template, executor_pod_template
from .affinity import check_named_nodes, check_node_selector, mark_node_label, without_our_affinity
from .group_view import GroupView
from .merge import Json, merge_pod_template


def place_driver(template: Mapping[str, Any], container: str, group: GroupView, where: str) -> Json:
    """The driver's template with token and CA.

    ``container`` is the name of Spark's container. ``where`` is the template's path in the manifest, for messages.

    Raises:
        ManifestError: it contradicts what the driver needs.
    """
    return merge_pod_template(template, driver_pod_template(group.placement), container, where)


def place_executor(template: Mapping[str, Any], container: str, group: GroupView, where: str) -> Json:
    """The executors' template on the group's nodes, with spreading, the data mount, token, CA and their node's name.

    Raises:
        ManifestError: it contradicts what executors need.
    """
    theirs = without_our_affinity(template)
    check_named_nodes((theirs.get("spec") or {}).get("affinity"), group.required_nodes, f"{where}.spec.affinity")
    placed = merge_pod_template(theirs, executor_pod_template(group.placement), container, where)
    check_node_selector(placed["spec"].get("nodeSelector"), group.required_nodes, f"{where}.spec.nodeSelector")
    return mark_node_label(placed, group.placement.node_label)
