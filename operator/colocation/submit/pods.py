"""The pod templates of driver and executors, placed: alike for every kind of application."""

from collections.abc import Mapping
from typing import Any

from ..manifests.spark_pods import driver_pod_template, executor_pod_template
from .affinity import check_node_selector, mark_nodes, without_marked_nodes
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
    theirs = without_marked_nodes(template)
    placed = merge_pod_template(theirs, executor_pod_template(group.placement), container, where)
    check_node_selector(placed["spec"].get("nodeSelector"), group.nodes, f"{where}.spec.nodeSelector")
    return mark_nodes(placed, group.nodes) if group.nodes else placed
