"""What the submitter reads of a group and of its ConfigMap."""

from typing import Any

import pytest

from colocation.manifests.spark_pods import SparkPlacement, render_properties, spark_defaults
from colocation.submit import GroupView, ManifestError, group_label
from colocation.submit.group_view import read_properties


def group_object(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "sales", "namespace": "shop"}, "spec": {}, "status": status}


def config_map(**changes: Any) -> dict[str, Any]:
    placement = SparkPlacement(namespace="shop", group="sales", **changes)
    return {"data": {"spark-defaults.conf": render_properties(spark_defaults(placement))}}


def test_the_operators_words_are_kept() -> None:
    """Reason and message of the Stable condition reach the submitter unchanged."""
    condition = {"type": "Stable", "status": "False", "reason": "NodeGone", "message": "node-2 is gone"}
    view = GroupView.from_objects(group_object(stable=False, reason="NodeGone", conditions=[condition]), config_map())
    assert view.instability == "NodeGone: node-2 is gone"


def test_the_installations_settings_come_from_the_config_map() -> None:
    """Data root and image are chart values; users see them beside their group."""
    view = GroupView.from_objects(group_object(stable=True), config_map(data_root="/disk", spark_image="spark:1"))
    assert (view.data_root, view.spark_image) == ("/disk", "spark:1")


@pytest.mark.parametrize("status", [{}, {"stable": None}])
def test_a_group_that_nobody_judged_is_not_stable(status: dict[str, Any]) -> None:
    """Before the operator's first pass nothing is known."""
    view = GroupView.from_objects(group_object(**status), config_map())
    assert view.stable is False
    assert view.instability == "the operator has not reported on it yet"


def test_properties_survive_the_round_trip() -> None:
    """What the operator writes, the submitter reads."""
    conf = spark_defaults(SparkPlacement(namespace="shop", group="sales", spark_image="spark:1"))
    assert read_properties(render_properties(conf)) == conf


@pytest.mark.parametrize(
    "application",
    [
        pytest.param({}, id="no metadata"),
        pytest.param({"metadata": {"labels": None}}, id="no labels"),
        pytest.param({"metadata": {"labels": {"colocation.dev/group": ""}}}, id="empty"),
    ],
)
def test_an_application_without_the_label_is_explained(application: dict[str, Any]) -> None:
    """The message shows the label to write."""
    with pytest.raises(ManifestError, match=r"colocation\.dev/group: sales"):
        group_label(application)
